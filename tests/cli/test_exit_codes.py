"""Every command's exit codes: 0 answered, 1 something failed, 2 a wrong question, 3 no
answer or a no."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from cli.campaign import place
from logs.personalizer_logs import world, write
from oddsmith.cli import keys
from oddsmith.cli.main import command_parser, main
from oddsmith.core.errors import StoreFailed
from server.audit.served import Served, lived

PAGE = Path(od.__file__).parents[2] / "docs" / "reference" / "commands.md"
BOUND = ["--loss", "log", "--arms", "3", "--prior", "0.1", "--steps", "1000"]
STUDY = "steps = 20\n[worlds.w]\nkind = 'random'\nexperts = 4\n[policies.p]\n"
LOSSES = "def bad(g, r):\n    return abs(g - r)\n"
CODES: dict[str, list[tuple[list[str], int]]] = {
    "bound": [(BOUND, 0), ([*BOUND, "--gamma", "7"], 2)],
    "tune": [(BOUND, 0), ([*BOUND, "--prior", "0"], 2)],
    "certify": [(["square"], 0), (["cubic"], 2), (["exit_code_losses:bad"], 3)],
    "reproduce": [
        (["thompson", "--quick", "--out", "claims", "--engine", "serial"], 0),
        (["thomson", "--out", "claims"], 2),
    ],
    "simulate": [
        (["study.toml", "--out", "study", "--engine", "serial"], 0),
        (["gone.toml", "--out", "study"], 2),
    ],
    "evaluate": [
        (["log.parquet", "--target", "uniform", "--model", "none"], 0),
        (["log.parquet", "--target", "unifrom"], 2),
        (["short.parquet", "--target", "arm:tech", "--model", "none"], 3),
    ],
    "replay": [
        (["log.parquet", "--policy", "news.toml"], 0),
        (["gone.parquet", "--policy", "news.toml"], 2),
        (["log.parquet", "--policy", "news.toml", "--steps", "1"], 3),
        (["log.parquet", "--policy", "news.toml", "--steps", "99"], 3),
        (["log.parquet", "--policy", "news.toml", "--steps", "100"], 0),
        (["short.parquet", "--policy", "news.toml"], 3),
        (["waiting.parquet", "--policy", "news.toml"], 2),
    ],
    "fit": [
        (["log.parquet", "--policy", "news.toml", "--out", "state.npz"], 0),
        (["log.parquet", "--policy", "gone.toml", "--out", "state.npz"], 2),
        (["waiting.parquet", "--policy", "news.toml", "--out", "waiting.npz"], 2),
    ],
    "import": [
        (["personalizer", "theirs.json", "--to", "theirs.parquet"], 0),
        (["personalizer", "gone.json", "--to", "theirs.parquet"], 2),
        (["personalizer", "text.sqlite", "--to", "theirs.parquet"], 3),
    ],
    "serve": [(["gone.toml"], 2), (["news.toml", "--port", "x"], 2)],
    "dashboard": [(["gone.sqlite"], 2), (["news.sqlite", "--port", "70000"], 2)],
    "keys": [
        (["create", "shop", "--scope", "decide"], 0),
        (["list"], 0),
        (["revoke", "nobody"], 2),
    ],
    "verify": [(["news.sqlite"], 0), (["gone.sqlite"], 2), (["forged.sqlite"], 3)],
    "export": [
        (["news.sqlite", "--out", "out.parquet"], 0),
        (["gone.sqlite", "--out", "out.parquet"], 2),
    ],
    "backup": [
        (["news.sqlite", "--out", "copy.sqlite"], 0),
        (["gone.sqlite", "--out", "gone-copy.sqlite"], 2),
    ],
    "restore": [
        (["kept.sqlite", "--to", "again.sqlite"], 0),
        (["gone.sqlite", "--to", "gone-again.sqlite"], 2),
    ],
    "upgrade": [(["news.sqlite"], 0), (["gone.sqlite"], 2)],
    "history": [(["news.sqlite", "d0"], 0), (["news.sqlite", "nothing"], 2)],
    "action": [
        (["news.sqlite", "pause", "--reason", "a test"], 0),
        (["news.sqlite", "pause"], 2),
    ],
    "doctor": [(["news.sqlite"], 0), (["--jsn"], 2), (["text.sqlite"], 3)],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    made: Path = tmp_path_factory.mktemp("codes")
    log = place(made)
    od.write_log(log[:60], made / "short.parquet")
    od.write_log(
        od.Log(arm=log.arm, reward=log.reward * np.nan, context=log.context),
        made / "waiting.parquet",
    )
    policy = od.read_policy(made / "news.toml").policy
    for name in ("news", "forged"):
        lived(Served(made / f"{name}.sqlite", policy), 60, rosters=False).store.close()
    with closing(sqlite3.connect(made / "forged.sqlite")) as connection, connection:
        connection.execute(
            "update events set value = 1 - value where kind = 'reward' and position < "
            "20"
        )
    connection.close()
    (made / "text.sqlite").write_text("no store")
    write(made / "theirs.json", *(event for event, _ in world(3)))
    (made / "study.toml").write_text(STUDY)
    (made / "exit_code_losses.py").write_text(LOSSES)
    assert (
        main(["backup", str(made / "news.sqlite"), "--out", str(made / "kept.sqlite")])
        == 0
    )
    return made


@pytest.mark.parametrize(
    ("command", "arguments", "code"),
    [
        (command, arguments, code)
        for command, cases in CODES.items()
        for arguments, code in cases
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_the_exit_code(
    command: str,
    arguments: list[str],
    code: int,
    folder: Path,
    monkeypatch: Any,
    capsys: Any,
) -> None:
    monkeypatch.chdir(folder)
    assert main([command, *arguments]) == code
    said = capsys.readouterr()
    # what is wrong goes to standard error, an answer to standard output
    assert bool(said.err) == (code in (1, 2))
    assert bool(said.out) == (code in (0, 3))


@pytest.mark.parametrize(
    "error", [StoreFailed("the disk is gone"), MemoryError("9 GiB")]
)
def test_what_fails_without_being_the_question_exits_with_1(
    error: Exception, monkeypatch: Any, capsys: Any
) -> None:
    def broken(asked: Any) -> str:
        raise error

    monkeypatch.setattr(keys, "_list", broken)
    assert main(["keys", "list"]) == 1
    assert capsys.readouterr().err.count("\n") == 1


def test_the_page_has_every_command_and_every_code() -> None:
    page = PAGE.read_text()
    rows = re.findall(r"^\| `oddsmith (\w+)", page, re.MULTILINE)
    assert sorted(rows) == sorted(CODES)
    for code in (0, 1, 2, 3, 130):
        assert re.search(rf"^\| {code} \|", page, re.MULTILINE)
    codes = {command: {code for _, code in cases} for command, cases in CODES.items()}
    codes["reproduce"].add(3)  # in tests/lab, with a claim that does not hold
    for command, mine in codes.items():
        row = next(
            line
            for line in page.splitlines()
            if line.startswith(f"| `oddsmith {command}")
        )
        refuses = bool(row.split("|")[3].strip())
        assert refuses == (3 in mine), command


def test_the_parser_of_one_command_parses_it_as_the_parser_of_all_does() -> None:
    everything = command_parser()
    for command, cases in CODES.items():
        alone = command_parser(command)
        for words, code in cases:
            if code == 0:
                line = [*command.split(), *words]
                assert alone.parse_args(line) == everything.parse_args(line)
