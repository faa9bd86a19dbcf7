"""`oddsmith verify | export | doctor`, from a policy file to an evaluation, with their
exit codes."""

import json
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from cli.campaign import place
from logs.samples import assert_same
from oddsmith.cli.main import main
from oddsmith.server.fold.fold import restore
from server.audit.served import SEED, Served, lived, policy


@pytest.fixture(scope="module")
def made(tmp_path_factory: Any) -> Path:
    """A folder with news.toml, and news.sqlite that was served from it."""
    folder: Path = tmp_path_factory.mktemp("made")
    place(folder)
    page = (folder / "news.toml").read_text()
    (folder / "news.toml").write_text(page.replace("seed = 5", f"seed = {SEED}"))
    lived(
        Served(folder / "news.sqlite", od.read_policy(folder / "news.toml").policy),
        150,
        rosters=False,
    ).store.close()
    return folder


@pytest.fixture
def news(made: Path, tmp_path: Path, monkeypatch: Any) -> Path:
    for name in ("news.toml", "lines.npz", "news.sqlite"):
        shutil.copy(made / name, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_verify(news: Path, capsys: Any) -> None:
    found = asked(
        capsys, "verify", "news.sqlite", "--models", "news.toml", "--experiment", "news"
    )
    assert found["holds"]
    nothing: dict[str, Any] = {"untested": {}, "misses": [], "lacking": 0, "worst": 0.0}
    assert found["levels"]["experts"] == {"checked": 150, "followed": 150} | nothing
    assert main(["verify", "news.sqlite"]) == 0
    printed = capsys.readouterr().out
    assert "Every checked decision was reproduced." in printed
    assert "--models FILE" in printed


def test_verify_says_no_with_exit_code_3(news: Path, capsys: Any) -> None:
    with closing(sqlite3.connect("news.sqlite")) as connection, connection:
        connection.execute(
            "update events set value = 1 - value where kind = 'reward' and position < "
            "20"
        )
    connection.close()
    assert main(["verify", "news.sqlite"]) == 3
    printed = capsys.readouterr().out
    assert "The first records that do not follow:\nodds, position" in printed
    assert "All differences are rounding errors" not in printed
    found = asked(capsys, "verify", "news.sqlite", code=3)
    assert (found["holds"], found["rounding"]) == (False, False)


def test_strict_accepts_incumbents_and_no_changed_reward(
    news: Path, capsys: Any
) -> None:
    """Where an incumbent acted, what the policy would have done is checked."""
    assert asked(capsys, "verify", "news.sqlite")["complete"] is True
    assert main(["verify", "news.sqlite", "--strict", "--models", "news.toml"]) == 0
    assert "--strict" not in capsys.readouterr().out
    with closing(sqlite3.connect("news.sqlite")) as connection, connection:
        connection.execute(
            "update events set value = 1 - value where kind = 'reward' and position < "
            "20"
        )
    connection.close()
    assert main(["verify", "news.sqlite", "--strict"]) == 3


def test_bad_questions_exit_with_2(news: Path, capsys: Any) -> None:
    assert main(["verify", "nowhere.sqlite"]) == 2
    assert "there is no such file" in capsys.readouterr().err
    Path("other.toml").write_text(
        Path("news.toml").read_text().replace("gamma = 0.1", "gamma = 0.2")
    )
    assert main(["verify", "news.sqlite", "--models", "other.toml"]) == 2
    assert "policy.gamma was 0.1, is 0.2" in capsys.readouterr().err
    Path("other.toml").write_text(
        Path("news.toml").read_text().replace(f"seed = {SEED}", "seed = 6")
    )
    assert main(["verify", "news.sqlite", "--models", "other.toml"]) == 3
    assert (
        f"facts, position 0 'seed': recorded seed {SEED}; 6 follows"
        in capsys.readouterr().out
    )
    assert main(["export", "news.sqlite", "--out", "nowhere/log.parquet"]) == 2
    assert "its folder does not exist" in capsys.readouterr().err
    assert main(["verify", "news.sqlite", "--experiment", "sport"]) == 2
    assert "must be the store of experiment 'sport'" in capsys.readouterr().err


def test_an_exported_log_is_evaluated_and_fitted(news: Path, capsys: Any) -> None:
    """The posterior that `fit` finds is that of the service, to 1e-12."""
    assert main(["export", "news.sqlite", "--out", "log.parquet"]) == 0
    printed = capsys.readouterr().out
    assert "were deferred and never activated: left out" in printed
    assert "were drawn by the incumbent policy, with its propensities" in printed
    assert asked(capsys, "export", "news.sqlite", "--out", "log.parquet")["rows"] > 100
    fitted = asked(
        capsys, "fit", "log.parquet", "--policy", "news.toml", "--out", "state.npz"
    )
    mine: Any = od.read_policy("news.toml").policy
    with Served(news / "news.sqlite", mine).store as store:
        folded = restore(store, mine)
    expected = dict(zip(mine.experts.names, mine.posterior(folded.state), strict=True))
    assert fitted["learnt"] == folded.state.learnt
    assert fitted["posterior"] == pytest.approx(expected, abs=1e-12)
    question = (
        "evaluate",
        "log.parquet",
        "--target",
        "news.toml",
        "--model",
        "none",
        "--overrule",
        "ess",
        "overlap",
    )
    found = asked(capsys, *question)
    assert found["rows"] > 100
    assert np.isfinite(found["targets"]["news.toml"]["snips"]["value"])


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_other_formats_say_the_same(news: Path, capsys: Any, suffix: str) -> None:
    """An exported log is read back to the same numbers: values, intervals, the
    posterior."""
    found = []
    for name in ("log.parquet", f"log.{suffix}"):
        exported = asked(capsys, "export", "news.sqlite", "--out", name)
        question = (
            "--target",
            "news.toml",
            "--model",
            "none",
            "--overrule",
            "ess",
            "overlap",
        )
        answer = asked(capsys, "evaluate", name, *question)
        fitted = asked(
            capsys, "fit", name, "--policy", "news.toml", "--out", "state.npz"
        )
        found.append(
            (exported, answer["targets"], answer["served"], fitted["posterior"])
        )
    assert found[0] == found[1]
    first, second = od.read_log("log.parquet"), od.read_log(f"log.{suffix}")
    assert_same(second, first, "context")
    assert second.context == first.context
    assert second.arms == first.arms


def test_doctor(news: Path, capsys: Any) -> None:
    main(["doctor", "news.sqlite"])
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("Nothing is wrong with news.sqlite")
    assert printed[2] == "news.sqlite"
    assert printed[3].startswith("ok      file        the file is sound")
    Served(news / "sound.sqlite", policy()).store.close()
    assert {
        finding["level"] for finding in asked(capsys, "doctor", "sound.sqlite")
    } == {"ok"}
    found = asked(capsys, "doctor", "sound.sqlite", "news.toml", code=3)
    assert [finding["check"] for finding in found if finding["level"] == "problem"] == [
        "file"
    ]
    assert main(["doctor", "sound.sqlite", "news.toml"]) == 3
    assert capsys.readouterr().out.startswith(
        "Something is wrong with news.toml: it cannot be read"
    )
