"""Every kind of tampering that one person with SQLite can do to one place of a store,
and who finds it.

PLAIN: `verify` exits with 3. STRICT: `verify --strict` exits with 1. MODELS and
STRICT_MODELS: so they do with `--models`. LIVES: only a chain of hashes could find it;
docs/howto/prove-a-decision.md lists these.
"""

import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
import server.audit.tampered_events
import server.audit.tampered_records  # noqa: F401
from oddsmith.server.audit import VerifyReport, verify
from oddsmith.server.fold.fold import save_snapshot
from oddsmith.server.store import open_reader
from server.audit.served import Served, lived
from server.audit.tampering import (
    BENCH,
    LIVES,
    MINE,
    MODELS,
    PLAIN,
    STRICT,
    STRICT_MODELS,
    TAMPERINGS,
    Tamper,
)


@pytest.fixture(scope="module")
def honest(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("strict") / "s.sqlite"
    service = lived(Served(path, MINE, bench=BENCH), 120, seed=3, shadows=False)
    service.follow()
    save_snapshot(service.store, service.folded, service.time)
    service.decide("last", [0.2, 0.4])
    service.store.close()
    return path


def judged(honest: Path, folder: Path, tamper: Tamper, *, models: bool) -> VerifyReport:
    copy = folder / f"copy-{models}.sqlite"
    shutil.copy(honest, copy)
    connection = sqlite3.connect(copy)
    with connection:
        tamper(connection)
    connection.close()
    with open_reader(str(copy)) as reader:
        facts = {"experiment": "news", "reward": [0.0, 1.0]} if models else {}
        return verify(reader, policy=MINE if models else None, bench=BENCH, facts=facts)


def found_by(honest: Path, folder: Path, tamper: Tamper) -> str:
    verdict = judged(honest, folder, tamper, models=False)
    if not verdict.holds or not verdict.complete:
        return STRICT if verdict.holds else PLAIN
    asked = judged(honest, folder, tamper, models=True)
    if not asked.holds:
        return MODELS
    return LIVES if asked.complete else STRICT_MODELS


@pytest.mark.parametrize("name", TAMPERINGS)
def test_who_finds_it(honest: Path, tmp_path: Path, name: str) -> None:
    expected, tamper = TAMPERINGS[name]
    assert found_by(honest, tmp_path, tamper) == expected


def test_nothing_is_found_in_an_honest_store(honest: Path, tmp_path: Path) -> None:
    assert found_by(honest, tmp_path, lambda connection: None) == LIVES


def test_what_lives_is_said_in_the_docs() -> None:
    page = (
        Path(od.__file__).parents[2] / "docs" / "howto" / "prove-a-decision.md"
    ).read_text()
    listed = page.split("## What these levels cannot find")[1].split("\n## ")[0]
    assert f"in {len(TAMPERINGS)} ways" in listed
    living = [
        name.replace("_", " ")
        for name, (expected, _) in TAMPERINGS.items()
        if expected == LIVES
    ]
    assert [name for name in living if name not in listed] == []
