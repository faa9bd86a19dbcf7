"""Erasing on offers: what callers said of contexts and arms is in no byte of the files;
names of arms stay."""

import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.files.policy import read_policy
from oddsmith.server.audit import verify
from oddsmith.server.audit.log_export import log_batches_of
from oddsmith.server.store import SQLiteReader
from oddsmith.server.store.sqlite import file as files
from oddsmith.server.store.sqlite.store import SQLiteStore
from server.served import Hands, here, wait

AUTO = '[policy]\nkind = "auto"\n'
SMALL = f'{AUTO}size = "small"\n'
LINEAR = (
    '[schema]\nnumbers = ["age"]\ncategories = ["city"]\nbuckets = 3\n'
    '[schema.arms]\nnumbers = ["price"]\ncategories = ["topic"]\nbuckets = 3\n'
    '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
)
OLD, YOUNG = range(12), range(100, 112)
# offered by old and young decisions
STAYS = {"topic": "evergreen-topic", "price": 17.7171717}
DAY = 86_400.0


def news(folder: Path, policy: str, service: str = "") -> Path:
    np.savez(folder / "lines.npz", weights=np.random.default_rng(3).normal(size=(5, 8)))
    file = folder / "news.toml"
    file.write_text(
        f'name = "news"\nseed = 7\n{policy}[service]\nstore = "news.sqlite"\n{service}'
    )
    return file


def context(turn: int) -> dict[str, Any]:
    return {"city": f"Marienbad-{turn}!", "age": 3000.01 + turn / 7}


def arms(turn: int) -> dict[str, Any]:
    rows = (
        {"topic": f"quarrel-{turn}-{k}", "price": 5000.0123 + turn + k / 13}
        for k in range(3)
    )
    own = {f"article {turn}/{k}": row for k, row in enumerate(rows)}
    return own | {"evergreen": STAYS}


def words_of(turn: int, binary: bool) -> Iterator[bytes]:
    """What a caller said at this turn, as text, and numbers also as they lie in
    memory."""
    for said in (
        context(turn),
        *(row for name, row in arms(turn).items() if name != "evergreen"),
    ):
        for value in said.values():
            if isinstance(value, str):
                yield value.encode()
            else:
                yield repr(value).encode()
                yield from [struct.pack("<d", value)] * binary


def found(folder: Path, turns: range, *, binary: bool = True) -> list[bytes]:
    """What is found of these turns in the files of the store."""
    content = b"".join(file.read_bytes() for file in folder.glob("news.sqlite*"))
    return [
        word for turn in turns for word in words_of(turn, binary) if word in content
    ]


def visit(served: Any, turn: int) -> None:
    served.post(
        "decide", {"context": context(turn), "arms": arms(turn), "id": f"v{turn}"}
    )
    served.reward(f"v{turn}", turn % 2)


def count(folder: Path, table: str) -> int:
    with (
        closing(
            sqlite3.connect(f"file:{folder / 'news.sqlite'}?mode=ro", uri=True)
        ) as file,
        file,
    ):
        return int(file.execute(f"select count(*) from {table}").fetchone()[0])


def grown_old(folder: Path, file: Path, hands: Hands) -> None:
    """Old and young visits, three days apart, and a snapshot after each."""
    with here(file, clock=hands.clock()) as served:
        for turn in OLD:
            visit(served, turn)
        served.state()
        served.portal.call(served.experiment().follower.save)
        hands.pass_by(3 * DAY)
        for turn in YOUNG:
            visit(served, turn)
        served.state()
        assert all(found(folder, range(turn, turn + 1), binary=False) for turn in OLD)


@pytest.mark.parametrize("policy", [AUTO, SMALL, LINEAR])
def test_after_erasing_nothing_that_was_said_is_in_the_files(
    tmp_path: Path, policy: str
) -> None:
    """Trees remember the numbers of the last rows that they have learnt, in snapshots;
    nothing else does."""
    binary = policy != AUTO
    hands, file = Hands(), news(tmp_path, policy, "erase_after_days = 2\n")
    grown_old(tmp_path, file, hands)
    with here(file, clock=hands.clock()) as served:
        wait(lambda: count(tmp_path, "contexts") == len(YOUNG))
        # the write-ahead log is emptied a moment later
        wait(lambda: not found(tmp_path, OLD, binary=binary))
        assert count(tmp_path, "features") == 3 * len(YOUNG) + 1
        assert served.get("/v1/decisions/v100")["context"] == context(100)
        assert served.get("/v1/decisions/v3")["context"] == "erased"
        visit(served, 200)
        served.state()
    assert found(tmp_path, OLD, binary=binary) == []
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("news.sqlite*"))
    assert all(name.encode() in kept for turn in OLD for name in arms(turn))
    assert all(word in kept for turn in YOUNG for word in words_of(turn, binary=False))
    proved_and_exported(file)


def proved_and_exported(file: Path) -> None:
    with SQLiteReader(file.with_name("news.sqlite")) as reader:
        verdict = verify(reader, policy=read_policy(file).policy)
        assert verdict.holds
        ((log, _),) = log_batches_of(reader)
        assert log is not None
        assert log.offered[0] == tuple(arms(0))
        assert log.features[0] is None
        assert log.features[len(OLD)] == arms(100)


def without_checkpoint(monkeypatch: Any) -> None:
    monkeypatch.setattr(SQLiteStore, "_is_read", lambda _: False)


def without_overwriting(monkeypatch: Any) -> None:
    connect = files.connect

    def careless(path: Path, *, read_only: bool = False) -> sqlite3.Connection:
        connection = connect(path, read_only=read_only)
        connection.execute("pragma secure_delete = off")
        return connection

    monkeypatch.setattr("oddsmith.server.store.sqlite.writer.connect", careless)


@pytest.mark.parametrize("broken", [without_checkpoint, without_overwriting])
def test_a_store_that_only_deletes_rows_is_seen(
    tmp_path: Path, monkeypatch: Any, broken: Any
) -> None:
    hands, file = Hands(), news(tmp_path, LINEAR)
    broken(monkeypatch)
    grown_old(tmp_path, file, hands)
    with here(file, clock=hands.clock()) as served:
        assert served.experiment().store.erase(hands.wall - 2 * DAY) == len(OLD)
        assert found(tmp_path, OLD)
