"""`oddsmith evaluate | replay | fit`: the library's numbers, refusals with their own
exit code, and reports."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from cli.campaign import ARMS, place
from oddsmith.cli.main import main
from oddsmith.evaluation import (
    arm_target,
    assess,
    compare,
    cross_fit,
    diagnose,
    dr,
    estimate,
    ips,
    logged,
    policy_target,
    served_as_logged,
    shrunk_dr,
    snips,
    uniform_target,
)

WOMEN = (
    Path(od.__file__).parents[3]
    / "shared"
    / "data"
    / "logged"
    / "obd_bts_women.parquet"
)


@pytest.fixture
def log(tmp_path: Path, monkeypatch: Any) -> od.Log:
    monkeypatch.chdir(tmp_path)
    return place(tmp_path)


def asked(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_the_numbers_are_the_librarys(log: od.Log, capsys: Any) -> None:
    targets = ["news.toml", "uniform", "arm:tech"]
    found = asked(
        capsys,
        "evaluate",
        "log.parquet",
        *(f"--target={name}" for name in targets),
        "--level",
        "0.9",
    )
    policy = od.read_policy("news.toml").policy
    odds = {
        "news.toml": policy_target(log, policy),
        "uniform": uniform_target(log),
        "arm:tech": arm_target(log, 2),
    }
    rows = [policy.odds(policy.init(), context).propensities for context in log.context]
    np.testing.assert_allclose(odds["news.toml"], rows, rtol=0, atol=1e-12)
    own: Any = pytest.importorskip("sklearn.linear_model").Ridge(1.0)
    scaler = pytest.importorskip("sklearn.preprocessing").StandardScaler()
    model = pytest.importorskip("sklearn.pipeline").make_pipeline(scaler, own)
    predictions = cross_fit(log, model, per_arm=True)
    for name, target in odds.items():
        expected = {
            "ips": estimate(ips(log, target), level=0.9),
            "dr": estimate(dr(log, target, predictions), level=0.9),
            "shrunk_dr": estimate(shrunk_dr(log, target, predictions), level=0.9),
        }
        for estimator, one in expected.items():
            said = found["targets"][name][estimator]
            assert [said["value"], said["low"], said["high"]] == [
                one.value,
                one.low,
                one.high,
            ]
        assert found["diagnostics"][name] == diagnose(ips(log, target))._asdict()
    together = compare(
        {"logged": logged(log)} | {name: snips(log, t) for name, t in odds.items()},
        level=0.9,
    )
    for name in targets:
        assert (
            found["differences"]["snips"][name]["low"] == together.differences[name].low
        )
    assert set(found["differences"]) == {"ips", "snips", "dr"}  # biases do not cancel
    assert found["served"]["p_value"] == served_as_logged(log).p_value
    assert found["logged"]["value"] == log.reward.mean()


def test_a_table_for_people_and_a_report(
    log: od.Log, tmp_path: Path, capsys: Any
) -> None:
    assert (
        main(
            [
                "evaluate",
                "log.parquet",
                "--target",
                "news.toml",
                "--target",
                "arm:sports",
                "--out",
                "new/report",
            ]
        )
        == 0
    )
    printed = capsys.readouterr().out
    one = estimate(ips(log, arm_target(log, 0)))
    row = next(
        line.split()
        for line in printed.splitlines()
        if line.startswith("arm:sports  ips")
    )
    assert row[2:] == [f"{number:.4f}" for number in (one.value, one.low, one.high)]
    for words in (
        "the log is exact",
        "The logging policy itself",
        "Served as logged: No evidence",
        "effective rows",
        "mean weight",
    ):
        assert words in printed
    page = (tmp_path / "new" / "report" / "index.html").read_text()
    assert page.count("<figure>") == 4
    assert page.endswith("</html>\n")
    assert [p.name for p in (tmp_path / "new" / "report").iterdir()] == ["index.html"]


def test_the_answer_comes_first_then_the_picture_then_the_table(
    log: od.Log, tmp_path: Path, capsys: Any
) -> None:
    question = [
        "evaluate",
        "log.parquet",
        "--target",
        "news.toml",
        "--target",
        "uniform",
        "--out",
        "report",
    ]
    assert main(question) == 0
    printed = capsys.readouterr().out
    found = asked(capsys, *question)
    assert next(iter(found)) == "verdict"
    assert found["verdict"][0].startswith("news.toml, the highest of 2, earns ")
    assert printed.startswith("\n".join(found["verdict"]))
    places = [
        printed.index(part)
        for part in (
            "0 is the logging policy",
            "\ndifference ",
            "\ntarget ",
            "the log is exact",
        )
    ]
    assert places == sorted(places)
    page = (tmp_path / "report" / "index.html").read_text()
    lead = f'<p class="lead">{found["verdict"][0]}</p>'
    places = [
        page.index(part)
        for part in (
            "<h1>",
            lead,
            "<figure>",
            "<table>",
            "<details>",
            "the log is exact",
        )
    ]
    assert places == sorted(places)


def test_a_policy_that_has_learnt_nothing_is_told_so_and_how_to_fit_it(
    log: od.Log, capsys: Any
) -> None:
    Path("auto.toml").write_text(
        f"arms = {ARMS}\n[policy]\nkind = 'auto'\nsize = 'small'\n"
    )
    assert (
        main(["evaluate", "log.parquet", "--target", "auto.toml", "--model", "none"])
        == 0
    )
    (line,) = [
        one
        for one in capsys.readouterr().out.splitlines()
        if "has learnt nothing" in one
    ]
    assert line.startswith(
        "auto.toml has learnt nothing: this is the value of uniform play."
    )
    fit, state = (
        "oddsmith fit EARLIER_LOG --policy auto.toml --out state.npz",
        "--state state.npz",
    )
    assert fit in line
    assert state in line
    od.write_log(log[:300], "earlier.parquet")
    od.write_log(log[300:], "later.parquet")
    assert main(fit.replace("EARLIER_LOG", "earlier.parquet").split()[1:]) == 0
    capsys.readouterr()
    question = ["evaluate", "later.parquet", "--target", "auto.toml", "--model", "none"]
    assert not [
        note
        for note in asked(capsys, *question, *state.split())["notes"]
        if "learnt nothing" in note
    ]
    (note,) = asked(
        capsys, "evaluate", "log.parquet", "--target", "news.toml", "--model", "none"
    )["notes"]
    assert "the value of its prior, before any reward" in note


def test_a_fixed_policy_of_one_expert_has_nothing_to_learn(
    log: od.Log, capsys: Any
) -> None:
    np.savez("one.npz", weights=np.eye(3, 2)[None], names=["only"])
    Path("one.toml").write_text(
        f"arms = {ARMS}\n[experts.l]\nkind = 'linear'\nfile = 'one.npz'\n"
    )
    assert (
        asked(
            capsys, "evaluate", "log.parquet", "--target", "one.toml", "--model", "none"
        )["notes"]
        == []
    )


def test_another_baseline_other_intervals_and_eligible_arms(
    log: od.Log, capsys: Any
) -> None:
    command = [
        "evaluate",
        "log.parquet",
        "--target=uniform",
        "--target=news.toml",
        "--model=none",
    ]
    found = asked(capsys, *command, "--baseline=uniform", "--interval=anytime")
    assert list(found["differences"]["ips"]) == ["news.toml"]
    # a refusal beside answers, not an error
    assert "ratio" in found["targets"]["uniform"]["snips"]["why"]
    assert found["targets"]["uniform"]["ips"]["interval"] == "anytime"
    eligible = np.ones((len(log), 3), np.bool_)
    eligible[::2, 2] = log.arm[::2] == 2
    odds = eligible * np.asarray(log.propensities)
    masked = od.Log(
        arm=log.arm,
        reward=log.reward,
        propensities=odds / odds.sum(axis=1, keepdims=True),
        context=log.context,
        eligible=eligible,
        arms=ARMS,
    )
    target = policy_target(masked, od.read_policy("news.toml").policy)
    assert (target[~eligible] == 0).all()
    np.testing.assert_allclose(target.sum(axis=1), 1)


def test_refusals_have_their_own_code_and_can_be_overruled(
    log: od.Log, capsys: Any
) -> None:
    od.write_log(log[:60], "short.parquet")
    command = ["evaluate", "short.parquet", "--target", "arm:tech"]
    assert main(command) == 3  # a reward model alone is no answer
    printed = capsys.readouterr().out
    assert "refused by rule ess: 60 rows are worth" in printed
    found = asked(capsys, *command, "--overrule", "ess", "share", "weight")
    assert "ess" in found["targets"]["arm:tech"]["ips"]["overruled"]


def test_a_csv_with_empty_numbers_is_evaluated(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    lines = ["arm,reward,propensity,age,city"]
    for i in range(400):
        arm, age = rng.integers(2), "" if i % 7 == 0 else rng.integers(18, 80)
        lines.append(
            f"{arm},{int(rng.random() < 0.3)},0.5,{age},{'' if i % 11 == 0 else 'Oslo'}"
        )
    Path("gaps.csv").write_text("\n".join(lines) + "\n")
    found = asked(
        capsys,
        "evaluate",
        "gaps.csv",
        "--target=uniform",
        "--columns",
        "context=age,city",
    )
    assert {"ips", "dr", "dm"} <= {
        name for name, one in found["targets"]["uniform"].items() if not one["refused"]
    }


@pytest.mark.parametrize("rows", [2, 3, 9])
def test_a_log_of_a_few_rows_gets_one_sentence(
    rows: int, tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.csv").write_text(
        "arm,reward,propensity,age\n"
        + "".join(f"{i % 2},1,0.5,3\n" for i in range(rows))
    )
    assert (
        main(["evaluate", "few.csv", "--target", "uniform", "--columns", "context=age"])
        == 3
    )
    first = capsys.readouterr().out.splitlines()[0]
    assert first.startswith(
        f"No answer for uniform: {rows} rows are worth {rows}.0 rows of the target's "
        "own; allowed"
    )
    assert "Next: log about" in first
    assert (
        main(
            [
                "evaluate",
                "few.csv",
                "--target",
                "uniform",
                "--columns",
                "context=age",
                "--model",
                "linear",
            ]
        )
        == 2
    )
    assert (
        f"at least 10 rows with rewards, 2 for each fold; got {rows}: do without one"
        in capsys.readouterr().err
    )


def test_a_log_without_propensities_is_told_what_can_be_done(
    log: od.Log, capsys: Any
) -> None:
    od.write_log(log.without("propensities", "propensity"), "bare.parquet")
    assert main(["evaluate", "bare.parquet", "--target", "uniform"]) == 3
    printed = capsys.readouterr().out
    assert "the log is unknown" in printed
    assert (
        "got a log without propensities: use dm (a reward model), or log propensities"
        in printed
    )
    found = asked(capsys, "evaluate", "bare.parquet", "--target", "uniform", code=3)
    assert found["targets"]["uniform"]["dm"]["refused"] == []
    assert "refused" in found["served"]
    assert main(["replay", "bare.parquet", "--policy", "news.toml"]) == 3
    assert (
        "refused: importance weights (ips, snips, dr) need a log"
        in capsys.readouterr().out
    )


def test_a_log_that_was_not_served_as_logged_is_flagged(
    log: od.Log, capsys: Any
) -> None:
    rng = np.random.default_rng(3)
    arm = np.where(rng.random(len(log)) < 0.2, 2, log.arm)
    od.write_log(
        od.Log(arm=arm, reward=log.reward, propensities=log.propensities, arms=ARMS),
        "cached.parquet",
    )
    main(["evaluate", "cached.parquet", "--target", "uniform", "--model", "none"])
    assert (
        "Caution, weights cannot be trusted. Arms do not follow the logged odds"
        in capsys.readouterr().out
    )


@pytest.mark.skipif(
    not WOMEN.exists(), reason="obd_bts_women.parquet is not in shared/data/logged"
)
def test_open_bandit_with_rounded_propensities_is_flagged(capsys: Any) -> None:
    assert main(["evaluate", str(WOMEN), "--target", "uniform", "--model", "none"]) == 3
    printed = capsys.readouterr().out
    assert "refused by rule weight: the mean weight is 3.13" in printed


def test_replay_says_what_the_library_says(log: od.Log, capsys: Any) -> None:
    found = asked(
        capsys, "replay", "log.parquet", "--policy", "news.toml", "--seed", "3"
    )
    lived = od.replay(od.read_policy("news.toml").policy, log, seed=3)
    assert (found["value"], found["error"], found["accepted"]) == (
        lived.value,
        lived.error,
        len(lived.rows),
    )
    assert (
        main(["replay", "log.parquet", "--policy", "news.toml", "--steps", "50"]) == 3
    )
    printed = capsys.readouterr().out
    assert "accepted  50 of 1,500 rows" in printed
    assert printed.startswith(
        "news.toml, in its first 50 decisions of learning, earns "
    )
    assert "too few to compare them, which needs at least 100.\n" in printed
    assert main(["replay", "log.parquet", "--policy", "news.toml", "--steps", "1"]) == 3


def test_replay_begins_with_what_it_earns_more_than_the_logger(
    log: od.Log, capsys: Any
) -> None:
    found = asked(
        capsys, "replay", "log.parquet", "--policy", "news.toml", "--seed", "3"
    )
    spread = float(np.hypot(found["error"], log.reward.std() / np.sqrt(len(log))))
    more = found["value"] - float(log.reward.mean())
    low, high = (
        float(end)
        for end in re.search(r"\[(\S+), (\S+)\]", found["verdict"]).groups()  # type: ignore[union-attr]
    )
    assert [low, high] == pytest.approx(
        [more - 1.96 * spread, more + 1.96 * spread], abs=1e-3
    )
    assert found["verdict"].endswith("(95 % normal interval, replay).")
    assert ("earns" in found["verdict"]) == (low > 0 or high < 0)
    od.write_log(
        od.Log(
            arm=log.arm,
            reward=log.reward * 0,
            propensities=log.propensities,
            context=log.context,
        ),
        "0.parquet",
    )
    assert (
        main(
            ["replay", "0.parquet", "--policy", "news.toml", "--json", "--arms", *ARMS]
        )
        == 3
    )
    said = json.loads(capsys.readouterr().out)["verdict"]
    assert said.endswith(
        "equal, which gives no measure of chance: log decisions until some differ."
    )


def test_fit_writes_an_agent_that_goes_on_and_can_be_evaluated(
    log: od.Log, capsys: Any
) -> None:
    od.write_log(log[:700], "first.parquet")
    od.write_log(log[700:], "second.parquet")
    logs = ["first.parquet", "second.parquet"]
    assert main(["fit", *logs, "--policy", "news.toml", "--out", "state.npz"]) == 0
    printed = capsys.readouterr().out
    assert "1,500 rewards learnt" in printed
    assert "Every eligible arm had a propensity of at least 0.1" in printed
    policy: Any = od.read_policy("news.toml").policy
    agent = od.Agent.load("state.npz", policy)
    state = od.fit_log(policy, "log.parquet").state
    assert (agent.seed, agent.steps, agent.arms) == (5, 1500, tuple(ARMS))
    np.testing.assert_allclose(
        np.array(list(agent.posterior().values())), policy.posterior(state), rtol=1e-9
    )
    assert agent.decide(np.zeros(2)).step == 1501
    found = asked(
        capsys,
        "fit",
        *logs,
        "--policy",
        "news.toml",
        "--out",
        "again.npz",
        "--engine",
        "local",
        "--workers=1",
    )
    assert list(found["posterior"]) == ["good", "flat"]
    evaluated = asked(
        capsys,
        "evaluate",
        "log.parquet",
        "--target=news.toml",
        "--state=state.npz",
        "--model=none",
    )
    expected = estimate(ips(log, policy_target(log, policy, agent.state)))
    assert evaluated["targets"]["news.toml"]["ips"]["value"] == expected.value


def test_fit_with_floors_asks_the_experts_where_the_log_has_no_advice(
    log: od.Log, capsys: Any
) -> None:
    od.write_log(log.without("advice"), "bare.parquet")
    plain = Path("news.toml").read_text()
    Path("floors.toml").write_text(plain + "\n[floors]\n" + f"{ARMS[0]} = 0.05\n")
    found = [
        asked(capsys, "fit", source, "--policy", file, "--out", "state.npz")[
            "posterior"
        ]
        for source, file in (
            ("bare.parquet", "floors.toml"),
            ("log.parquet", "news.toml"),
        )
    ]
    assert found[0] == found[1]


def test_assess_refuses_what_makes_no_sense(log: od.Log) -> None:
    target = uniform_target(log)
    for wrong, message in (
        ({"targets": {}}, "targets must be at least one"),
        ({"targets": {"logged": target}}, "none named 'logged'"),
        (
            {"targets": {"u": target}, "baseline": "v"},
            "baseline must be one of logged, u; got 'v'",
        ),
        ({"targets": {"u": target * 2}}, "must be odds that sum to 1"),
        (
            {"targets": {"u": target}, "predictions": target[:, :2]},
            "predictions must be mean rewards of all arms",
        ),
    ):
        settings: Any = wrong
        with pytest.raises(od.InvalidInput, match=message):
            assess(log, **settings)


def test_several_files_and_folders_are_one_log(
    log: od.Log, capsys: Any, monkeypatch: Any
) -> None:
    """The numbers are those of the whole, and progress is said for each part of it."""
    question = ["--target", "news.toml", "--target", "arm:tech"]
    whole = asked(capsys, "evaluate", "log.parquet", *question)
    Path("logs").mkdir()
    half = len(log) // 2
    od.write_log(log[:half], "logs/1.parquet")
    od.write_log(log[half:-5], "logs/2.parquet")
    od.write_log(log[-5:], "rest.parquet")
    for module in ("logs.formats", "evaluation.assessment", "evaluation.targets"):
        monkeypatch.setattr(f"oddsmith.{module}.LINE_EVERY_S", 0.0)
    assert main(["evaluate", "logs", "rest.parquet", *question, "--json"]) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == whole
    for part in ("reading rows", "rows of the policy", "estimates"):
        lines = [one for one in printed.err.splitlines() if one.startswith(part)]
        _, done, _, total, *_ = lines[-1].removeprefix(part).replace(",", "").split()
        assert done == total
    Path("logs/3.csv").write_text("arm,reward\nsports,1\n")
    assert main(["evaluate", "logs", *question]) == 2
    assert "must have log files of one format" in capsys.readouterr().err


def test_contexts_are_read_only_for_policies_and_models(
    log: od.Log, capsys: Any, monkeypatch: Any
) -> None:
    seen = []
    read = od.logs.LogReader.read_log

    def spied(reader: od.logs.LogReader, source: object) -> od.Log:
        seen.append(read(reader, source))
        return seen[-1]

    monkeypatch.setattr(od.logs.LogReader, "read_log", spied)
    asked(capsys, "evaluate", "log.parquet", "--target=uniform", "--model=none")
    asked(capsys, "evaluate", "log.parquet", "--target=news.toml", "--model=none")
    asked(capsys, "evaluate", "log.parquet", "--target=uniform", "--model=linear")
    assert [one.context is None for one in seen] == [True, False, False]


def test_mass_that_is_not_known_is_null(log: od.Log, capsys: Any) -> None:
    """As the table says, where the log has the odds of drawn arms alone."""
    bare = log.without("propensities", "eligible")
    od.write_log(bare, "drawn.parquet")
    question = ("--target=uniform", "--model=none", "--overrule=ess")
    found = asked(capsys, "evaluate", "drawn.parquet", *question)
    assert found["diagnostics"]["uniform"]["missing"] is None
    assert found["targets"]["uniform"]["ips"]["diagnostics"]["missing"] is None
    assert main(["evaluate", "drawn.parquet", *question]) == 0
    assert "not known" in capsys.readouterr().out
    exact = asked(capsys, "evaluate", "log.parquet", *question)
    assert exact["diagnostics"]["uniform"]["missing"] == 0.0
