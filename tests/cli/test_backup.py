"""`oddsmith backup | restore` and what doctor says then, with their exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from cli.campaign import place
from oddsmith.cli.main import main
from oddsmith.server.store import (
    Activation,
    DecisionMade,
    Reward,
    SQLiteReader,
    SQLiteStore,
)
from server.audit.served import SEED, Served, lived
from server.store.samples import append


@pytest.fixture
def news(tmp_path: Path, monkeypatch: Any) -> Path:
    """A folder with news.toml, and news.sqlite that was served from it."""
    place(tmp_path)
    page = (tmp_path / "news.toml").read_text()
    (tmp_path / "news.toml").write_text(page.replace("seed = 5", f"seed = {SEED}"))
    served = Served(
        tmp_path / "news.sqlite", od.read_policy(tmp_path / "news.toml").policy
    )
    lived(served, 20, rosters=False).store.close()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(capsys: Any, *arguments: str) -> Any:
    assert main([*arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_backup_and_restore(news: Path, capsys: Any) -> None:
    with SQLiteReader(news / "news.sqlite") as reader:
        head, tally = reader.head(), dict(reader.tally())
    assert (
        main(
            ["backup", "news.sqlite", "--out", "backup.sqlite", "--experiment", "news"]
        )
        == 0
    )
    printed = capsys.readouterr().out
    assert printed.startswith(
        f"news has {sum(tally.values())} events up to position {head}, the last one of "
    )
    assert "\n\nbackup: backup.sqlite, of epoch " in printed
    held = asked(capsys, "backup", "news.sqlite", "--out", "other.sqlite")
    assert (held["head"], held["events"]) == (head, tally)
    assert main(["verify", "backup.sqlite", "--models", "news.toml"]) == 0
    assert main(["export", "backup.sqlite", "--out", "log.parquet"]) == 0
    capsys.readouterr()
    assert restored_says(capsys, "backup.sqlite").startswith("it is a backup of 2")
    assert main(["restore", "backup.sqlite", "--to", "again.sqlite"]) == 0
    printed = capsys.readouterr().out
    assert "was restored to a store. news has " in printed
    assert f"Events after position {head:,} are lost" in printed
    assert main(["verify", "again.sqlite", "--models", "news.toml"]) == 0
    capsys.readouterr()
    done = asked(capsys, "restore", "backup.sqlite", "--to", "third.sqlite")
    assert (done["head"], done["left_out"], len(done["epoch"])) == (head, [], 16)


def restored_says(capsys: Any, store: str) -> str:
    main(["doctor", store, "--json"])
    found = json.loads(capsys.readouterr().out)
    return next(
        f"{one['what']}. {one['advice']}" for one in found if one["check"] == "restored"
    )


def test_refusals(news: Path, capsys: Any) -> None:
    (news / "there").write_text("")
    for arguments in (
        ["backup", "news.sqlite", "--out", "there"],
        ["backup", "none.sqlite", "--out", "backup.sqlite"],
        ["backup", "news.sqlite", "--out", "backup.sqlite", "--experiment", "other"],
        ["backup", "postgresql://localhost/none", "--out", "backup.sqlite"],
        ["restore", "news.toml", "--to", "again.sqlite"],
        ["restore", "news.sqlite", "--to", "there"],
        ["restore", "news.sqlite", "--to", "redis://localhost"],
    ):
        assert main(arguments) == 2, arguments
        said = capsys.readouterr().err
        assert said.startswith("oddsmith: ")
        assert said.count("\n") == 1
    assert sorted(one.name for one in news.iterdir() if one.suffix == ".part") == []


def test_doctor_names_what_was_lost(news: Path, capsys: Any) -> None:
    assert "was not restored" in restored_says(capsys, "news.sqlite")
    assert main(["backup", "news.sqlite", "--out", "backup.sqlite"]) == 0
    assert main(["restore", "backup.sqlite", "--to", "again.sqlite"]) == 0
    capsys.readouterr()
    with SQLiteReader(news / "backup.sqlite") as reader:
        head = reader.head()
    said = restored_says(capsys, "again.sqlite")
    assert said.startswith(f"it was restored from a backup after position {head} on 2")
    assert said.endswith("; later events of the original store are missing here. ")
    lost = [f"lost{i}" for i in range(7)]
    with SQLiteStore("again.sqlite", od.read_policy("news.toml").policy) as store:
        append(
            store, *(Reward(id, 1.0, 0.0) for id in lost[:6]), Activation(lost[6], 0.0)
        )
        assert (
            "7 decisions are missing for which events came since then: 'lost0', 'lost1'"
            in restored_says(capsys, "again.sqlite")
        )
        assert "'lost4' and 2 more" in restored_says(capsys, "again.sqlite")
        (decision,) = store.decisions(
            [line.position for line in store.lines(0, head) if line.kind == "decision"][
                :1
            ]
        )
        append(store, *(DecisionMade(id, decision, 0, 0.0) for id in lost[:6]))
        assert (
            "1 decision is missing for which events came since then: 'lost6'. They"
            in restored_says(capsys, "again.sqlite")
        )
