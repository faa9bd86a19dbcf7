"""The verdict: one sentence, right whatever the assessment says, and never chosen by
what it says."""

from dataclasses import replace
from math import isinf, isnan
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation import (
    RULES,
    Assessment,
    Estimate,
    ServedReport,
    assess,
    compare,
    logged,
    snips,
)
from oddsmith.evaluation.verdict import ORDER, more_decisions, next_step, verdict

ARMS = ["a", "b", "c"]


def log(n: int = 900, *, seed: int = 0, known: bool = True) -> od.Log:
    """A uniform logger over three arms whose mean rewards are 0.2, 0.5 and 0.5."""
    rng = np.random.default_rng(seed)
    arm = rng.integers(3, size=n)
    reward = (rng.random(n) < np.array([0.2, 0.5, 0.5])[arm]).astype(np.float64)
    return od.Log(
        arm=arm,
        reward=reward,
        propensities=np.full((n, 3), 1 / 3) if known else None,
        arms=ARMS,
    )


def assessed(*targets: str, **settings: Any) -> Assessment:
    odds: Any = {
        "a": [0.9, 0.05, 0.05],
        "b": [0.05, 0.9, 0.05],
        "c": [0.05, 0.05, 0.9],
        "uniform": [1 / 3] * 3,
    }
    made = settings.pop("log", None) or log()
    predictions = np.full((len(made), 3), 0.4) if settings.pop("model", False) else None
    return assess(
        made,
        {name: odds[name] for name in targets},
        predictions=predictions,
        **settings,
    )


def saying(found: Assessment, *spans: tuple[float, float, float]) -> Assessment:
    """The same assessment with these differences (value, low, high) in place of its
    own."""
    changed = {
        estimator: {
            name: one._replace(value=value, low=low, high=high)  # type: ignore[union-attr]
            for (name, one), (value, low, high) in zip(
                answers.items(), spans, strict=True
            )
        }
        for estimator, answers in found.differences.items()
    }
    return replace(found, differences=changed)


def test_better() -> None:
    found = saying(assessed("b"), (0.0284, 0.018, 0.038))
    expected = (
        "b earns 0.028 more per decision than the logging policy, [0.018, 0.038] (95 % beta "
        "interval, snips)."
    )
    assert verdict(found).sentences == (expected,)


def test_worse_is_less_with_the_ends_turned_round() -> None:
    found = saying(assessed("a", level=0.9), (-0.0284, -0.038, -0.018))
    expected = (
        "a earns 0.028 less per decision than the logging policy, [0.018, 0.038] (90 % beta "
        "interval, snips)."
    )
    assert str(verdict(found)) == expected


@pytest.mark.parametrize("value", [0.004, -0.004])
def test_no_difference_is_shown_and_how_many_decisions_would(value: float) -> None:
    said = str(verdict(saying(assessed("b"), (value, value - 0.010, value + 0.010))))
    word = "more" if value > 0 else "less"
    assert said.startswith(
        f"No difference is shown between b and the logging policy: 0.004 {word} per decision, ["
    )
    total = 900 * (2.5 * (1.95996 + 0.84162) / 1.95996) ** 2
    assert (
        f"; about {int(np.ceil((total - 900) / 1000)) * 1000:,} more decisions like "
        "these would show"
    ) in said


def test_an_end_on_0_shows_no_difference_and_one_above_it_is_not_written_as_0() -> None:
    assert "No difference is shown" in str(
        verdict(saying(assessed("b"), (0.02, 0.0, 0.04)))
    )
    assert "[0.0003, 0.0397]" in str(
        verdict(saying(assessed("b"), (0.02, 0.0003, 0.0397)))
    )


def test_a_difference_of_nothing_asks_for_no_number_of_decisions() -> None:
    for value in (0.0, 1e-6):
        said = str(verdict(saying(assessed("b"), (value, value - 0.01, value + 0.01))))
        assert said.endswith("would take more than 100 times as many decisions.")


def moved_to(value: float, one: Estimate) -> Estimate:
    """The same interval around another value."""
    by = value - one.value
    return one._replace(value=value, low=one.low + by, high=one.high + by)


def test_so_many_more_decisions_show_it_four_times_in_five() -> None:
    """By simulation: a log of as many rows as were asked for shows a difference of that
    size in 80 % of cases."""
    short = compare(
        {"today": logged(log(300)), "b": snips(log(300), [0.32, 0.36, 0.32])}
    ).differences["b"]
    truth = 0.32 * 0.2 + 0.68 * 0.5 - 0.4
    n = 300 + int(more_decisions(moved_to(truth, short)))
    shown, times = 0, 200
    for seed in range(times):
        rows = log(n, seed=1000 + seed)
        one = compare(
            {"today": logged(rows), "b": snips(rows, [0.32, 0.36, 0.32])}
        ).differences["b"]
        shown += one.low > 0
    # 0.05: the width was itself estimated
    assert abs(shown / times - 0.8) < 4 * np.sqrt(0.16 / times) + 0.05


def test_the_law_of_widths_is_that_of_normal_intervals() -> None:
    one = assessed("b").differences["snips"]["b"]
    assert isinstance(one, Estimate)
    assert isnan(more_decisions(one._replace(interval="anytime")))
    assert isinf(more_decisions(one._replace(value=0.0)))
    z = NormalDist().inv_cdf(0.975)
    half = one._replace(
        value=0.1, low=0.1 - 0.1 * z / (z + NormalDist().inv_cdf(0.8)), high=0.2
    )
    assert more_decisions(half) == pytest.approx(0, abs=1e-6)
    # the end that need not pass 0
    assert more_decisions(half._replace(high=0.9)) == pytest.approx(0, abs=1e-6)
    turned = half._replace(value=-half.value, low=-half.high, high=-half.low)
    assert more_decisions(turned._replace(low=-0.9)) == pytest.approx(0, abs=1e-6)


def test_several_targets_the_highest_first_the_refused_last() -> None:
    found = saying(
        assessed("a", "b", "c"), (-0.2, -0.3, -0.1), (0.1, 0.05, 0.15), (0.0, -0.1, 0.1)
    )
    refused: Any = {"snips": "there is no overlap", "ips": "there is no overlap"}
    said = verdict(replace(found, answers={"lost": refused, **found.answers})).sentences
    assert said[0].startswith(
        "b, the highest of 3, earns 0.100 more per decision than the logging policy, [0.050, "
        "0.150] (95 %"
    )
    assert "beta intervals for all 3 together, snips)" in said[0]
    assert said[1].startswith("No difference is shown between c and the logging policy")
    assert said[2].startswith("a earns 0.20 less per decision")
    assert said[3] == "No answer for lost: there is no overlap."


def test_the_estimator_is_dr_where_there_is_a_model_whatever_it_says() -> None:
    assert verdict(assessed("b")).estimator == "snips"
    # snips is a ratio, and is refused
    assert verdict(assessed("b", interval="anytime")).estimator == "ips"
    found = assessed("b", model=True)
    for spans in ((0.1, 0.05, 0.15), (-0.1, -0.15, -0.05), (0.0, -0.1, 0.1)):
        assert verdict(saying(found, spans)).estimator == "dr"
    better = {name: dict(answers) for name, answers in found.differences.items()}
    better["ips"] = {"b": better["ips"]["b"]._replace(value=0.9, low=0.89, high=0.91)}  # type: ignore[union-attr]
    assert verdict(replace(found, differences=better)).estimator == "dr"
    assert ORDER == ("dr", "snips", "ips")


def test_refused_says_why_and_what_next() -> None:
    said = str(verdict(assessed("b", log=log(60))))
    assert said.startswith("No answer for b: 60 rows are worth ")
    assert "allowed at least 100 (rule ess" in said
    ess = assessed("b", log=log(60)).diagnostics["b"].ess
    more = float(said.partition("log about ")[2].partition(" ")[0].replace(",", ""))
    assert 60 * (100 / ess - 1) <= more <= 60 * (100 / ess - 1) * 1.1 + 1


def test_every_rule_has_a_next_step() -> None:
    one = assessed("b", log=log(60)).answers["b"]["ips"]
    assert isinstance(one, Estimate)
    steps = {next_step(one._replace(refused=(rule,))) for rule in RULES}
    assert len(steps) == len(RULES)
    assert not [step for step in steps if "overrule" in step]


def test_without_propensities_a_model_alone_is_no_answer() -> None:
    said = verdict(assessed("uniform", log=log(known=False), model=True))
    assert said.estimator is None
    assert str(said).startswith(
        "No answer for uniform: importance weights need the logged propensity"
    )
    assert said.picture == ""


def test_a_target_that_is_the_baseline_has_a_value() -> None:
    found = assessed("b", baseline="b")
    one = found.answers["b"]["snips"]
    assert isinstance(one, Estimate)
    assert str(verdict(found)).startswith(f"b earns {one.value:.3f} per decision, [")
    assert "difference" not in str(verdict(found))


def test_a_baseline_without_an_answer_leaves_the_value_and_says_so() -> None:
    rows = log()
    rows = od.Log(
        arm=rows.arm,
        reward=rows.reward,
        propensity=np.full(len(rows), 1 / 3),
        arms=ARMS,
    )
    targets: Any = {
        "b": [0.05, 0.9, 0.05],
        "rare": np.where(np.arange(900)[:, None] < 60, [0, 1, 0], [1, 0, 0]),
    }
    found = assess(rows, targets, baseline="rare")
    short = found.answers["rare"]
    refused = {
        name: one._replace(refused=("ess",), why="too few")  # type: ignore[union-attr]
        for name, one in short.items()
    }
    found = replace(found, answers=found.answers | {"rare": refused}, differences={})
    (said,) = verdict(found).sentences
    assert said.startswith("b earns 0.")
    assert said.endswith(
        "; there is no interval for its difference from rare: too few."
    )


def test_a_difference_that_is_refused_leaves_the_value_and_says_why() -> None:
    found = assessed("b")
    none: Any = {name: {"b": "the widths are not known"} for name in found.differences}
    said = str(verdict(replace(found, differences=none)))
    assert said.endswith(
        "; there is no interval for its difference from the logging policy: the widths are not "
        "known."
    )


def test_what_was_overruled_and_what_was_not_served_as_logged_are_said() -> None:
    found = assessed("b", log=log(60), overrule=["ess", "share", "weight"])
    assert "overruled)" in str(verdict(found))
    assert isinstance(found.served, ServedReport)
    caught = replace(
        found, served=found.served._replace(caught=True, evidence="decisive")
    )
    assert str(verdict(caught)).startswith(
        "Caution, arms do not follow the logged odds, so this may be wrong: "
    )
    maybe = replace(found, served=found.served._replace(caught=True, evidence="some"))
    assert str(verdict(maybe)).startswith(
        "Caution, there is some evidence that arms do not follow the logged odds, "
    )


@pytest.mark.parametrize("settings", [{}, {"model": True}, {"interval": "anytime"}])
def test_a_target_that_draws_as_the_logger_does_is_not_told_apart_by_chance(
    settings: Any,
) -> None:
    for seed in range(20):
        said = str(verdict(assessed("uniform", log=log(seed=seed), **settings)))
        assert (
            "uniform draws as the logging policy does, so there is no difference to show: "
            "uniform earns 0."
        ) in said


def test_the_picture_shows_the_differences_around_the_baseline() -> None:
    lines = verdict(
        saying(assessed("a", "b"), (-0.2, -0.3, -0.1), (0.1, 0.05, 0.15))
    ).picture.splitlines()
    assert [line.split()[0] for line in lines[1:3]] == ["b", "a"]
    zero = lines[3].index("0 is the logging policy")
    assert lines[1].index("|") > zero > lines[2].rindex("|")


def test_anytime_intervals_say_what_they_assume() -> None:
    said = str(verdict(assessed("b", interval="anytime")))
    assert (
        "(95 % anytime interval, ips, at every row at once, for the mean value of the "
        "rows so far, which may"
    ) in said
    arm, rng = np.zeros(1000, np.int64), np.random.default_rng(3)
    falls = od.Log(
        arm=arm,
        reward=rng.random(1000) < np.linspace(0.9, 0.1, 1000),  # type: ignore[arg-type]
        propensity=np.ones(1000),
    )
    found = str(
        verdict(assess(falls, {"same": np.array([1.0])}, interval="anytime_constant"))
    )
    assert found.startswith("No answer for same: no constant value fits the rows")
    assert found.endswith(
        "(rule constant). Next: ask for the interval anytime, which is for the mean of "
        "a value that drifts."
    )


def test_a_tie_has_no_highest() -> None:
    spans = (0.1, 0.05, 0.15), (0.1, 0.05, 0.15), (-0.1, -0.2, -0.05)
    assert str(verdict(saying(assessed("b", "c", "a"), *spans))).startswith(
        "b, level with c, earns 0.100 more per"
    )
    near = (0.1, 0.05, 0.15), (0.1 - 1e-9, 0.05, 0.15), (-0.1, -0.2, -0.05)
    assert str(verdict(saying(assessed("b", "c", "a"), *near))).startswith(
        "b, the highest of 3, earns 0.100 more per"
    )
    second = (0.1, 0.05, 0.15), (0.0, -0.05, 0.15), (0.0, -0.05, 0.15)
    assert str(verdict(saying(assessed("b", "c", "a"), *second))).startswith(
        "b, the highest of 3, earns 0.100 more"
    )


@pytest.mark.parametrize("reward", [0.0, 0.5, 1.0])
def test_equal_rewards_tell_no_target_from_another(reward: float) -> None:
    rows = log()
    same = od.Log(
        arm=rows.arm,
        reward=np.full(900, reward),
        propensities=rows.propensities,
        arms=ARMS,
    )
    said = str(verdict(assessed("a", "b", log=same)))
    assert said.startswith(
        f"All 900 rewards are {reward:g}, which tells no target from another: No "
        "difference is shown"
    )
    assert "level with" in said
