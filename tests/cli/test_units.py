"""`oddsmith evaluate | fit | replay` in euros: the same answers as in [0, 1], moved to
the user's units."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import oddsmith as od
from cli.campaign import place
from oddsmith.cli.main import main
from oddsmith.contexts.rewards import RewardScale
from oddsmith.server.experiment.start import open_experiments

EUROS = RewardScale(-5.0, 15.0)
UNITS = "\n[reward]\nlow = -5.0\nhigh = 15.0\n"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: Any) -> od.Log:
    """The campaign as log.parquet in [0, 1], and as euros.csv; euros.toml is news.toml
    with units."""
    monkeypatch.chdir(tmp_path)
    log = place(tmp_path)
    lines = [
        "arm,reward,"
        + ",".join(f"propensities.{arm}" for arm in log.arms or ())
        + ",context.0,context.1"
    ]
    assert log.propensities is not None
    for arm, reward, odds, context in zip(
        log.arm, log.reward, log.propensities, log.context, strict=True
    ):
        numbers = [EUROS.value(float(reward)), *map(float, odds), *map(float, context)]
        lines.append(",".join([(log.arms or ())[arm], *map(repr, numbers)]))
    Path("euros.csv").write_text("\n".join(lines) + "\n")
    Path("euros.toml").write_text(Path("news.toml").read_text() + UNITS)
    return log


def asked(capsys: Any, *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def moved(
    answer: dict[str, Any], scale: RewardScale, *, difference: bool = False
) -> list[float]:
    width = scale.high - scale.low
    return [
        (0.0 if difference else scale.low) + width * answer[what]
        for what in ("value", "low", "high")
    ]


@pytest.mark.parametrize(
    "how",
    [["--target", "euros.toml"], ["--target", "news.toml", "--reward", "-5", "15"]],
)
def test_an_evaluation_in_euros_is_the_evaluation_moved(
    log: od.Log, capsys: Any, how: list[str]
) -> None:
    plain = asked(
        capsys,
        "evaluate",
        "log.parquet",
        "--target",
        "news.toml",
        "--target",
        "arm:tech",
    )
    euros = asked(capsys, "evaluate", "euros.csv", *how, "--target", "arm:tech")
    assert plain["reward"] == {"low": 0, "high": 1}
    assert euros["reward"] == {"low": -5, "high": 15}
    for target, other in (("news.toml", how[1]), ("arm:tech", "arm:tech")):
        for estimator, one in plain["targets"][target].items():
            said = euros["targets"][other][estimator]
            assert [said["value"], said["low"], said["high"]] == pytest.approx(
                moved(one, EUROS), abs=1e-6
            )
        for estimator in plain["differences"]:
            one, said = (
                by["differences"][estimator][name]
                for by, name in ((plain, target), (euros, other))
            )
            expected = moved(one, EUROS, difference=True)
            assert [said["value"], said["low"], said["high"]] == pytest.approx(
                expected, abs=1e-6
            )
    mean = float(np.mean(EUROS.value(log.reward)))
    assert euros["logged"]["value"] == pytest.approx(mean)


def test_people_read_euros_and_which_units_they_are(log: od.Log, capsys: Any) -> None:
    found = asked(capsys, "evaluate", "euros.csv", "--target", "euros.toml")
    assert (
        main(["evaluate", "euros.csv", "--target", "euros.toml", "--out", "report"])
        == 0
    )
    printed, page = capsys.readouterr().out, Path("report/index.html").read_text()
    assert found["notes"][0] == "Rewards are in the units of euros.toml, -5 to 15."
    one = found["differences"]["dr"]["euros.toml"]
    assert f"earns {one['value']:.2f} more per decision" in printed.splitlines()[0]
    for text in (printed, page):
        assert found["notes"][0] in text
        assert f"{one['value']:.4f}" in text
        assert (
            f"The logging policy itself: {np.mean(EUROS.value(log.reward)):.4f}" in text
        )


def test_files_that_we_wrote_are_read_as_they_are_and_told_in_euros(
    log: od.Log, capsys: Any
) -> None:
    plain = asked(capsys, "evaluate", "log.parquet", "--target", "news.toml")[
        "targets"
    ]["news.toml"]["dr"]
    euros = asked(capsys, "evaluate", "log.parquet", "--target", "euros.toml")
    said = euros["targets"]["euros.toml"]["dr"]
    assert [said["value"], said["low"], said["high"]] == pytest.approx(
        moved(plain, EUROS)
    )
    assert euros["notes"][0] == "Answers are in the units of euros.toml, -5 to 15."
    names = od.Log(
        arm=log.arm, reward=log.reward, fingerprint=["f"] * len(log), arms=log.arms
    )
    for suffix in ("csv", "jsonl"):
        od.write_log(names, f"exported.{suffix}")
        assert od.logs.LogReader().is_own(f"exported.{suffix}")
    assert not od.logs.LogReader().is_own("euros.csv")


def test_rewards_that_look_like_shares_are_doubted(log: od.Log, capsys: Any) -> None:
    od.write_log(
        od.Log(
            arm=log.arm, reward=log.reward, propensities=log.propensities, arms=log.arms
        ),
        "clicks.csv",
    )
    uniform = ["evaluate", "clicks.csv", "--target", "uniform"]
    Path("ucb.toml").write_text(
        f'arms = {list(log.arms or ())}\n[policy]\nkind = "ucb1"\n{UNITS}'
    )
    notes = asked(capsys, *uniform, "--target", "ucb.toml")["notes"]
    assert (
        "All of them are from 0 to 1: if 1 is the highest, add --reward 0 1." in notes
    )
    said = asked(capsys, *uniform, "--target", "ucb.toml", "--reward", "0", "1")
    assert not any("highest" in note for note in said["notes"])
    assert (
        said["targets"]["uniform"]["ips"]
        == asked(capsys, *uniform)["targets"]["uniform"]["ips"]
    )


def test_a_fit_in_euros_is_the_fit(log: od.Log, capsys: Any) -> None:
    plain = asked(
        capsys, "fit", "log.parquet", "--policy", "news.toml", "--out", "plain.npz"
    )
    euros = asked(
        capsys, "fit", "euros.csv", "--policy", "euros.toml", "--out", "euros.npz"
    )
    assert euros["posterior"] == pytest.approx(plain["posterior"], abs=1e-9)
    assert (
        main(["fit", "euros.csv", "--policy", "euros.toml", "--out", "euros.npz"]) == 0
    )
    assert "Rewards from -5 to 15 were read as 0 to 1." in capsys.readouterr().out


def test_a_replay_in_euros_is_the_replay_moved(log: od.Log, capsys: Any) -> None:
    plain = asked(capsys, "replay", "log.parquet", "--policy", "news.toml")
    euros = asked(capsys, "replay", "euros.csv", "--policy", "euros.toml")
    assert euros["accepted"] == plain["accepted"]
    assert euros["value"] == pytest.approx(EUROS.value(plain["value"]))
    assert euros["error"] == pytest.approx(20 * plain["error"])


def refused(capsys: Any, *arguments: str) -> str:
    assert main([*arguments]) == 2
    return str(capsys.readouterr().err)


def test_what_is_outside_of_the_units_is_refused_with_the_next_step(
    log: od.Log, capsys: Any
) -> None:
    said = refused(capsys, "evaluate", "euros.csv", "--target", "uniform")
    assert "column reward, row" in said
    assert "must be in [0, 1], or NaN; got" in said
    assert "--reward LOW HIGH" in said
    said = refused(
        capsys, "evaluate", "euros.csv", "--target", "uniform", "--reward", "-5", "10"
    )
    row = int(np.argmax(log.reward == 1))
    assert f"row {row}: must be in [-5, 10], the units of rewards; got 15 (" in said
    assert (
        f"{int((log.reward > 0.75).sum())} of 1,500 rows read are outside; their "
        "rewards are from -5 to 15): widen"
    ) in said
    assert "low must be below high" in refused(
        capsys, "evaluate", "euros.csv", "--target", "uniform", "--reward", "3", "1"
    )


def test_units_of_several_files_must_agree(log: od.Log, capsys: Any) -> None:
    Path("dollars.toml").write_text(
        Path("news.toml").read_text() + "\n[reward]\nhigh = 30.0\n"
    )
    both = [
        "evaluate",
        "euros.csv",
        "--target",
        "euros.toml",
        "--target",
        "dollars.toml",
    ]
    said = refused(capsys, *both)
    assert (
        "must have the same [reward]; got -5 to 15 in euros.toml and 0 to 30 in "
        "dollars.toml"
    ) in said
    found = asked(capsys, *both, "--reward", "-5", "15")
    assert found["reward"] == {"low": -5, "high": 15}
    plain = asked(
        capsys,
        "evaluate",
        "euros.csv",
        "--target",
        "euros.toml",
        "--target",
        "news.toml",
    )
    # a file without [reward] has no say
    assert plain["reward"] == {"low": -5, "high": 15}
    said = refused(
        capsys,
        "fit",
        "log.parquet",
        "euros.csv",
        "--policy",
        "euros.toml",
        "--out",
        "x.npz",
    )
    assert (
        "log.parquet was written by oddsmith, with rewards from 0 to 1, euros.csv was not"
        in said
    )


def test_nothing_is_written_as_minus_zero() -> None:
    from oddsmith.files.reports.answer import Span, interval

    assert interval(Span(0.0, -1e-12, 0.3)) == "[0.00000000, 0.30000000]"


def test_units_are_those_of_answers_where_the_file_is_ours(
    log: od.Log, capsys: Any
) -> None:
    """What oddsmith wrote has 0 to 1 in it: units that are asked for must not map it
    once more."""
    how = ["--target", "news.toml", "--target", "arm:tech"]
    plain = asked(capsys, "evaluate", "log.parquet", *how)
    euros = asked(capsys, "evaluate", "log.parquet", *how, "--reward", "-5", "15")
    one, said = (found["targets"]["arm:tech"]["dr"] for found in (plain, euros))
    assert [said["value"], said["low"], said["high"]] == pytest.approx(
        moved(one, EUROS)
    )
    assert any(
        "log.parquet was written by oddsmith, with rewards from 0 to 1" in note
        for note in euros["notes"]
    )
    assert main(
        [
            "fit",
            "log.parquet",
            "euros.csv",
            "--policy",
            "news.toml",
            "--out",
            "s.npz",
            "--reward",
            "-5",
            "15",
        ]
    )
    assert "logs must have the same units" in capsys.readouterr().err


def test_a_state_is_refused_in_other_units_than_it_has_learnt_in(
    log: od.Log, capsys: Any
) -> None:
    assert (
        main(["fit", "euros.csv", "--policy", "euros.toml", "--out", "state.npz"]) == 0
    )
    capsys.readouterr()
    told = asked(
        capsys,
        "evaluate",
        "euros.csv",
        "--target",
        "euros.toml",
        "--state",
        "state.npz",
    )
    assert "must not have learnt" in " ".join(told["notes"])
    wide = Path("euros.toml").read_text().replace("high = 15.0", "high = 60.0")
    Path("wide.toml").write_text(wide)
    assert (
        main(["evaluate", "euros.csv", "--target", "wide.toml", "--state", "state.npz"])
        == 2
    )
    said = (
        "state.npz must have learnt in the units of wide.toml, -5 to 60; it has learnt "
        "in -5 to 15"
    )
    assert said in capsys.readouterr().err
    Path("wide.toml").write_text(wide + '[service]\nstart = "state.npz"\n')
    with pytest.raises(
        od.BadFile, match=r"must have learnt in the units of .*wide\.toml, -5 to 60"
    ):
        open_experiments(["wide.toml"])
    Path("right.toml").write_text(
        Path("euros.toml").read_text() + '[service]\nstart = "state.npz"\n'
    )
    for opened in open_experiments(["right.toml"]):
        opened.store.close()
    assert (
        main(
            [
                "fit",
                "euros.csv",
                "--policy",
                "news.toml",
                "--out",
                "s.npz",
                "--reward",
                "-5",
                "15",
            ]
        )
        == 0
    )
    assert (
        main(
            [
                "evaluate",
                "euros.csv",
                "--target",
                "news.toml",
                "--state",
                "s.npz",
                "--reward",
                "-5",
                "15",
            ]
        )
        == 0
    )
    assert (
        main(["evaluate", "log.parquet", "--target", "news.toml", "--state", "s.npz"])
        == 2
    )


def test_cents_may_be_learnt_for_a_service_in_euros(log: od.Log, capsys: Any) -> None:
    """Units of the policy file are what 0 and 1 stand for; `--reward` then says what
    the log has for them."""
    frame = pd.read_csv("euros.csv")
    frame["reward"] *= 100
    frame.to_csv("cents.csv", index=False)
    assert (
        main(["fit", "euros.csv", "--policy", "euros.toml", "--out", "euros.npz"]) == 0
    )
    assert (
        main(
            [
                "fit",
                "cents.csv",
                "--policy",
                "euros.toml",
                "--out",
                "cents.npz",
                "--reward",
                "-500",
                "1500",
            ]
        )
        == 0
    )
    policy = od.read_policy("euros.toml").policy
    one, other = (
        od.Agent.load(name, policy).posterior() for name in ("euros.npz", "cents.npz")
    )
    assert one == pytest.approx(other)
    assert (
        main(
            ["evaluate", "euros.csv", "--target", "euros.toml", "--state", "cents.npz"]
        )
        == 0
    )
