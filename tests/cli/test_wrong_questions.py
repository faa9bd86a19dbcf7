"""Wrong command lines, logs and policy files: one clear sentence, exit code 2, and no
file left behind."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from cli.campaign import place
from oddsmith.cli.main import main

EVALUATE = ["evaluate", "log.parquet", "--out", "report", "--target"]
FIT = ["fit", "log.parquet", "--out", "state.npz", "--policy"]
NEWS = "arms = ['sports', 'politics', 'tech']\n"
LINES = "[experts.lines]\nkind = 'linear'\nfile = 'lines.npz'\n"
RULES = "[experts.rules]\nkind = 'python'\nfactory = 'wrong_questions_rules:bank'\n"
FILES = {
    "gama.toml": NEWS + LINES + "[policy]\ngama = 0.1\n",
    "two.toml": "arms = ['sports', 'tech']\n[policy]\nkind = 'auto'\nsize = 'small'\n",
    "turned.toml": NEWS.replace("'sports', 'politics'", "'politics', 'sports'") + LINES,
    "raises.toml": NEWS + RULES,
    "learns.toml": NEWS + "[policy]\nkind = 'auto'\nsize = 'small'\n",
    "other.toml": NEWS + LINES + "[policy]\ngamma = 0.3\n",
    "no-toml.toml": "arms = [",
    "liner.toml": NEWS + LINES.replace("'linear'", "'liner'"),
    "three.csv": "arm,reward,propensity\n0,3,0.5\n",
    "clicks.csv": "shown,clicked,p\nsports,1,0.5\ntech,0,0.5\n",
    "zero.csv": "arm,reward,propensity\n0,1,0\n",
    "empty.csv": "arm,reward\n",
    "waiting.csv": "arm,reward,propensity\n0,,0.5\n1,,0.5\n",
    "log.txt": "arm,reward\n0,1\n",
    "state.txt": "no state",
}
MODULE = """import oddsmith as od


def ask(context, arm):
    raise KeyError("age")


def bank(arms):
    return od.FunctionExperts({"ask": ask}, arms)
"""
WRONG: dict[str, tuple[list[str], str]] = {
    "no target": (EVALUATE[:-1], "the following arguments are required: --target"),
    "an unknown option": (
        [*EVALUATE, "uniform", "--leve", "x"],
        "argument --level: invalid float value: 'x'",
    ),
    "an unknown command": (
        ["evalute", "log.parquet"],
        "did you mean evaluate? (oddsmith --help)",
    ),
    "an option that is none": (
        [*EVALUATE, "uniform", "--levle", "0.9"],
        (
            "unrecognized arguments: --levle 0.9; --levle is no option; did you mean "
            "--level?"
        ),
    ),
    "an option instead of another": (
        ["evaluate", "log.parquet", "--targt", "uniform"],
        "did you mean --target?",
    ),
    "an action that is none": (["keys", "creat", "shop"], "did you mean create?"),
    "a target that is no file": (
        [*EVALUATE, "unifrom"],
        "got 'unifrom'; did you mean uniform?",
    ),
    "an arm that is none": (
        [*EVALUATE, "arm:art"],
        "one of the log's arms, sports, politics, tech; got 'art'",
    ),
    "an arm that is misspelt": (
        [*EVALUATE, "arm:tehc"],
        "tech; got 'tehc'; did you mean tech?",
    ),
    "an experiment that is misspelt": (
        ["reproduce", "phse", "--out", "x"],
        "got 'phse'; did you mean phase?",
    ),
    "a kind that is misspelt": (
        [*EVALUATE, "liner.toml"],
        "got 'liner'; did you mean linear?",
    ),
    "the same target twice": (
        [*EVALUATE, "uniform", "--target", "uniform"],
        "targets must differ",
    ),
    "a level of 95": (
        [*EVALUATE, "uniform", "--level", "95"],
        "level must be in (0, 1); got 95",
    ),
    "an unknown interval": (
        [*EVALUATE, "uniform", "--interval", "exact"],
        "interval must be one of beta, normal",
    ),
    "an unknown rule": (
        [*EVALUATE, "uniform", "--overrule", "all"],
        "overrule must name rules of overlap, ess",
    ),
    "an unknown model": (
        [*EVALUATE, "uniform", "--model", "forest"],
        "model must be one of auto, linear, trees, none",
    ),
    "an unknown baseline": (
        [*EVALUATE, "uniform", "--baseline", "today"],
        "baseline must be one of logged, uniform",
    ),
    "a negative seed": (
        [*EVALUATE, "uniform", "--seed", "-1"],
        "a whole number from 0 to 2^63 - 1; got -1",
    ),
    "a floor of 2": (
        [*EVALUATE, "uniform", "--floor", "2"],
        "floor must be in (0, 1]; got 2",
    ),
    "out is a file": (
        [*EVALUATE[:3], "three.csv", "--target", "uniform"],
        "out must be a folder; got 'three.csv'",
    ),
    "no such log": (
        ["evaluate", "gone.parquet", "--target", "uniform"],
        "gone.parquet must be a file; there is none",
    ),
    "an unknown suffix": (
        ["evaluate", "log.txt", "--target", "uniform"],
        "log.txt must end in one of .parquet",
    ),
    "a log of no format": (
        [*EVALUATE, "uniform", "--format", "excel"],
        "format must be one of parquet, csv",
    ),
    "a reward of 3": (
        ["evaluate", "three.csv", "--target", "uniform"],
        "three.csv: column reward, row 0: must be in",
    ),
    "a propensity of 0": (
        ["evaluate", "zero.csv", "--target", "uniform"],
        "column propensity, row 0: must be in",
    ),
    "no rows": (
        ["evaluate", "empty.csv", "--target", "uniform"],
        "empty.csv must have at least one row",
    ),
    "no rewards": (
        ["evaluate", "waiting.csv", "--target", "uniform", "--model=none"],
        "log must have rewards",
    ),
    "odd columns": (
        ["evaluate", "clicks.csv", "--target", "uniform"],
        "must have the column 'arm'",
    ),
    "columns without =": (
        [*EVALUATE, "uniform", "--columns", "arm"],
        "columns must have the form OURS=THEIRS",
    ),
    "a column twice": (
        [*EVALUATE, "uniform", "--columns", "arm=a", "arm=b"],
        "got 'arm' twice",
    ),
    "a column that is none": (
        [*EVALUATE, "uniform", "--columns", "clicks=reward"],
        "columns must map from arm, reward",
    ),
    "other arms": (
        [*EVALUATE, "news.toml", "--arms", "a", "b", "c"],
        "arms must be those of the policy file",
    ),
    "a key that is none": (
        [*EVALUATE, "gama.toml"],
        "gama.toml: policy.gama is not a key; did you mean gamma?",
    ),
    "no TOML": ([*EVALUATE, "no-toml.toml"], "must be TOML"),
    "a policy of two arms": (
        [*EVALUATE, "two.toml"],
        "must have the arms sports, tech in this order",
    ),
    "a policy of turned arms": (
        [*EVALUATE, "turned.toml"],
        "must have the arms politics, sports, tech in this order",
    ),
    "policies of different arms": (
        [*EVALUATE, "news.toml", "--target", "two.toml"],
        "must have the same arms",
    ),
    "experts that raise": ([*EVALUATE, "raises.toml"], "KeyError: 'age'"),
    "a state of nobody": (
        [*EVALUATE, "uniform", "--state", "state.txt"],
        "state must go with exactly one policy file",
    ),
    "a state that is none": (
        [*EVALUATE, "news.toml", "--state", "state.txt"],
        "must be a file that Agent.save wrote",
    ),
    "fit: experts that raise": ([*FIT, "raises.toml"], "KeyError: 'age'"),
    "fit: no such log": (
        ["fit", "gone.csv", *FIT[2:], "news.toml"],
        "gone.csv must be a file",
    ),
    "fit: nowhere": (
        [*FIT[:3], "gone/state.npz", "--policy", "news.toml"],
        "its folder does not exist",
    ),
    "fit: an unknown engine": (
        [*FIT, "news.toml", "--engine", "cloud"],
        "engine must be one of serial, local",
    ),
    "fit: order matters": (
        [*FIT, "learns.toml", "--engine", "local"],
        "engine must be 'serial' if the order",
    ),
    "fit: a later file is broken": (
        ["fit", "log.parquet", "three.csv", *FIT[2:], "news.toml"],
        "column reward, row 0",
    ),
    "replay: no policy": (
        ["replay", "log.parquet"],
        "the following arguments are required: --policy",
    ),
    "replay: no steps": (
        ["replay", "log.parquet", "--policy", "news.toml", "--steps", "0"],
        "steps must be a whole",
    ),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: Any) -> Path:
    made: Path = tmp_path_factory.mktemp("questions")
    place(made)
    (made / "wrong_questions_rules.py").write_text(MODULE)
    for name, text in FILES.items():
        (made / name).write_text(text)
    return made


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_question_gets_one_sentence(
    name: str, folder: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(folder)
    before = {path.name for path in folder.iterdir()}
    arguments, sentence = WRONG[name]
    assert main(arguments) == 2
    said = capsys.readouterr()
    assert sentence in said.err
    assert said.err.startswith("oddsmith: ")
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert {path.name for path in folder.iterdir()} - before <= {"__pycache__"}


def test_a_state_of_another_policy_is_refused(
    folder: Path, monkeypatch: Any, capsys: Any, tmp_path: Path
) -> None:
    monkeypatch.chdir(folder)
    state = str(tmp_path / "other.npz")
    assert main(["fit", "log.parquet", "--policy", "other.toml", "--out", state]) == 0
    capsys.readouterr()
    assert main([*EVALUATE, "news.toml", "--state", state]) == 2
    assert "was saved with another policy" in capsys.readouterr().err


def test_columns_of_other_names(folder: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(folder)
    rng = np.random.default_rng(0)
    rows = "".join(
        f"{'ab'[rng.integers(2)]},{rng.integers(2)},0.5\n" for _ in range(400)
    )
    Path("names.csv").write_text("shown,clicked,p\n" + rows)
    columns = ["arm=shown", "reward=clicked", "propensity=p"]
    assert (
        main(
            [
                "evaluate",
                "names.csv",
                "--target",
                "arm:b",
                "--model",
                "none",
                "--columns",
                *columns,
            ]
        )
        == 0
    )
    log = od.read_log(
        "names.csv", columns={"arm": "shown", "reward": "clicked", "propensity": "p"}
    )
    value = float((log.reward * (log.arm == 1) / 0.5).mean())
    assert f"arm:b   ips          {value:.4f}" in capsys.readouterr().out


def test_a_rule_that_misses_a_column_is_told_how_to_give_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "rules_of_ours.py").write_text(
        "import oddsmith as od\n\n\ndef make(arms):\n"
        "    return od.FunctionExperts({'rule': lambda context, arm: "
        "float(context['device'] == arm)}, arms)\n"
    )
    (tmp_path / "rule.toml").write_text(
        'arms = ["a", "b"]\n[experts.rule]\nkind = "python"\n'
        'factory = "rules_of_ours:make"\n'
    )
    rows = [
        {"arm": "ab"[i % 2], "reward": i % 2, "context": {"age": i}} for i in range(400)
    ]
    (tmp_path / "log.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert main(["evaluate", "log.jsonl", "--target", "rule.toml"]) == 2
    said = capsys.readouterr().err
    assert "raised KeyError: 'device', which the log's contexts do not have" in said
    assert "--columns context=age,city" in said
