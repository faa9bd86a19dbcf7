"""Evaluations as Personalizer's programs read them: the sums are those of our terms,
the intervals hold the truth."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation import (
    arm_target,
    estimate,
    first_target,
    ips,
    logged,
    snips,
    uniform_target,
)
from oddsmith.server.compat.personalizer.estimates import (
    Candidate,
    policy_results,
    window_of,
)

SCALE = od.RewardScale(-1.0, 1.0)
NAMES = ["a", "b", "c", "d"]
MEANS = np.array([0.2, 0.4, 0.6, 0.9])
CUSTOM = [Candidate("c only", "arm:c"), Candidate("order", "first")]


def made(n: int, seed: int, *, minutes: float = 10.0, waiting: int = 0) -> od.Log:
    """A log of offers in random orders, drawn by odds that follow the past: rewards are
    0, 1/2 or 1 (-1, 0 or 1)."""
    rng = np.random.default_rng(seed)
    orders = np.array([rng.permutation(4) for _ in range(n)])
    odds = rng.dirichlet(np.ones(4), n) * 0.6 + 0.1
    eligible = np.ones((n, 4), bool)
    eligible[::5, 0] = False  # the caller has excluded the first one
    odds = np.where(eligible, odds, 0)
    odds /= odds.sum(axis=1, keepdims=True)
    arm = np.minimum((odds.cumsum(axis=1) < rng.random(n)[:, None]).sum(axis=1), 3)
    mean = MEANS[orders[np.arange(n), arm]]
    reward = rng.binomial(2, mean) / 2
    reward[n - waiting :] = np.nan
    return od.Log(
        arm=arm,
        reward=reward,
        propensities=odds,
        eligible=eligible,
        offered=[[NAMES[i] for i in order] for order in orders],
        time=(np.arange(n) * minutes * 60e6).astype("datetime64[us]"),
    )


def by_name(log: od.Log, custom: Any = CUSTOM) -> dict[str, Any]:
    return {one["name"]: one for one in policy_results(log, custom, SCALE)}


def test_the_sums_are_those_of_our_terms_in_the_callers_units() -> None:
    log = made(3000, 1, waiting=40)
    log = log[np.array([row["eligible"][row["offered"].index("c")] for row in log])]
    known = log.rewarded()
    targets = {
        "Baseline": first_target(known),
        "Random": uniform_target(known),
        "c only": arm_target(known, "c"),
    }
    found = by_name(log)
    assert found["order"]["totalSummary"] == found["Baseline"]["totalSummary"]
    assert [one["policySource"] for one in found.values()] == [
        "Online",
        "Baseline",
        "Random",
        "Custom",
        "Custom",
    ]
    for name, odds in targets.items():
        total, ones = found[name]["totalSummary"], ips(known[:], odds)
        weights = ones.weights
        assert weights is not None
        gains = weights * (2 * known.reward - 1)
        assert total["ipsEstimatorDenominator"] == len(known)
        for field, value in [
            ("ipsEstimatorNumerator", 2 * ones.values.sum() - weights.sum()),
            ("snipsEstimatorDenominator", weights.sum()),
            ("nonZeroProbability", (weights > 0).sum()),
            ("sumOfSquares", (gains**2).sum()),
        ]:
            assert total[field] == pytest.approx(value, abs=1e-9, rel=1e-12), field
        own = estimate(snips(known, odds))
        ends = [total["averageReward"], total["low"], total["high"]]
        assert ends == pytest.approx(
            [2 * own.value - 1, 2 * own.low - 1, 2 * own.high - 1], abs=1e-9
        )
        ratio = total["ipsEstimatorNumerator"] / total["snipsEstimatorDenominator"]
        assert total["averageReward"] == pytest.approx(ratio, abs=1e-9)
        reach = total["confidenceInterval"]
        assert reach == pytest.approx(
            max(ends[2] - ends[0], ends[0] - ends[1]), abs=1e-9
        )
    total, own = found["Online"]["totalSummary"], estimate(logged(log))
    assert total["ipsEstimatorNumerator"] == pytest.approx(
        (2 * known.reward - 1).sum(), abs=1e-9
    )
    assert [total["averageReward"], total["low"]] == pytest.approx(
        [2 * own.value - 1, 2 * own.low - 1], abs=1e-9
    )


def test_windows_add_up_to_the_total() -> None:
    log = made(2000, 2, minutes=3.0)
    for one in by_name(log, ()).values():
        total, parts = one["totalSummary"], one["summary"]
        assert len(parts) == 5  # 100 hours, by day
        assert [part["timeStamp"] for part in parts][:2] == [
            "1970-01-01T00:00:00.000Z",
            "1970-01-02T00:00:00.000Z",
        ]
        assert {part["aggregateTimeWindow"] for part in (*parts, total)} == {"P1D"}
        for field in (
            "ipsEstimatorNumerator",
            "ipsEstimatorDenominator",
            "snipsEstimatorDenominator",
            "nonZeroProbability",
            "sumOfSquares",
        ):
            assert sum(part[field] for part in parts) == pytest.approx(
                total[field], rel=1e-12, abs=1e-9
            )


@pytest.mark.parametrize(
    ("minutes", "window"),
    [(0.001, 300), (3, 86_400), (60, 604_800), (100_000, 31_536_000)],
)
def test_there_are_not_too_many_windows(minutes: float, window: int) -> None:
    assert window_of(made(2000, 0, minutes=minutes)) == window


def test_what_cannot_be_defended_is_told_and_has_no_number() -> None:
    log = made(3000, 3)
    found = by_name(
        log,
        [
            Candidate("c", "arm:c"),
            Candidate("vw", "--cb_explore_adf --epsilon 0.2"),
            Candidate("x", "arm:x"),
        ],
    )
    assert found["c"]["totalSummary"] is None  # not every row could draw it
    assert "restrict the log" in found["c"]["refused"]
    for name, word in [
        ("vw", "Vowpal Wabbit cannot be run here"),
        ("x", "must name one of the log's arms"),
    ]:
        assert (found[name]["totalSummary"], found[name]["summary"]) == (None, [])
        assert word in found[name]["refused"]
    few = by_name(log[:50], ())["Random"]["totalSummary"]
    assert (few["averageReward"], few["confidenceInterval"]) == (None, None)
    assert "allowed at least 100" in few["refused"]
    assert few["ipsEstimatorDenominator"] == 50
    sure = np.zeros((300, 4))
    sure[:, 1] = 1
    columns: Any = {
        "arm": [1] * 300,
        "reward": [1, 0, 1] * 100,
        "propensities": sure,
        "offered": [NAMES] * 300,
    }
    alone = od.Log(**columns, time=log.time[:300])
    total = by_name(alone, ())["Baseline"]["totalSummary"]
    assert "all weights are 0" in total["refused"]
    assert (total["ipsEstimatorNumerator"], total["sumOfSquares"]) == (None, None)
    assert by_name(alone, ())["Online"]["totalSummary"][
        "averageReward"
    ] == pytest.approx(1 / 3)
    waiting = made(5, 0, waiting=5)
    assert "log must have rewards" in by_name(waiting, ())["Online"]["refused"]


def test_intervals_of_slots_count_pages() -> None:
    """Two slots with the same reward are one row's worth of evidence, and not two."""
    log = made(1000, 5)
    twice: Any = {
        name: np.repeat(value, 2, axis=0)
        for name, value in log.columns().items()
        if name != "offered"
    }
    twice |= {"offered": [names for names in log.offered for _ in range(2)]}
    twice |= {
        "slate": [str(i // 2) for i in range(2000)],
        "slot": np.tile([1, 2], 1000),
    }
    pages = od.Log(**twice)
    alone, together = (by_name(one, ()) for one in (log, pages))
    for name in ("Online", "Baseline", "Random"):
        one, two = (found[name]["totalSummary"] for found in (alone, together))
        assert two["ipsEstimatorDenominator"] == 2000
        for field in ("averageReward", "confidenceInterval", "low"):
            assert two[field] == pytest.approx(one[field], rel=1e-9)


@pytest.mark.soak
def test_the_intervals_hold_the_truth() -> None:
    """Binomial(2, m)/2 of each arm; 100 logs: at 95 % fewer than 87 hits have odds
    below 0.001 (binomial)."""
    hits = dict.fromkeys(("Online", "Baseline", "Random"), 0)
    for seed in range(100):
        log = made(800, 100 + seed, minutes=0.1)
        means = MEANS[
            np.array([[NAMES.index(name) for name in names] for names in log.offered])
        ]
        truths = {
            "Online": (means * log.propensities).sum(axis=1).mean(),
            "Baseline": (means * first_target(log)).sum(axis=1).mean(),
            "Random": (means * uniform_target(log)).sum(axis=1).mean(),
        }
        found = by_name(log, ())
        for name, truth in truths.items():
            total = found[name]["totalSummary"]
            hits[name] += (
                abs(total["averageReward"] - (2 * truth - 1))
                <= total["confidenceInterval"]
            )
    assert min(hits.values()) >= 87, hits
