"""How many more decisions would show a difference, where only the odds of the drawn
arms are logged."""

import numpy as np

import oddsmith as od
from oddsmith.evaluation import Estimate, compare, logged, snips
from oddsmith.evaluation.verdict import more_decisions

ODDS = np.array([[0.6, 0.25, 0.15], [0.15, 0.25, 0.6]])  # of two kinds of contexts
MEANS = np.array([[0.10, 0.08, 0.16], [0.10, 0.08, 0.07]])
TARGET = np.array([[0.1, 0.1, 0.8], [0.8, 0.1, 0.1]])
TRUTH = float(((TARGET - ODDS) * MEANS).sum(axis=1).mean())
SHORT, FRESH = 600, 120


def difference(n: int, seed: int) -> Estimate:
    """What the target earns more than the logging policy, from n fresh rows."""
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=n)
    arm = (rng.random(n)[:, None] > ODDS[kind].cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(n) < MEANS[kind, arm]).astype(np.float64)
    log = od.Log(
        arm=arm, reward=reward, propensity=ODDS[kind, arm], arms=["a", "b", "c"]
    )
    return compare({"today": logged(log), "new": snips(log, TARGET[kind])}).differences[
        "new"
    ]


def shown(n: int, first: int) -> int:
    """How many of the fresh logs show that the target is better."""
    return sum(difference(n, first + seed).low > 0 for seed in range(FRESH))


def test_the_forecast_is_enough_and_not_three_times_too_much() -> None:
    """The median forecast of short logs, for a difference of the true size.

    Logs of that size show it in 80 % of cases, if the forecast is right: that fewer
    than half of 120 do has a probability below 1e-6 even for 70 %. Logs of a third of
    the size show it with z = 2.8 / √3 - 1.96 = -0.34, which is 37 %: that more than
    half of 120 do has a probability of 1e-3 at 37 %, and of 1e-6 at 30 %, which is
    nearer to the truth, as the interval also counts one more row at each end. A
    forecast by the whole width asks for 11,000 rows.
    """
    totals = []
    for seed in range(15):
        one = difference(SHORT, seed)
        by = TRUTH - one.value
        totals.append(
            SHORT
            + more_decisions(
                one._replace(value=TRUTH, low=one.low + by, high=one.high + by)
            )
        )
    forecast = int(np.median(totals))
    assert shown(forecast, 1000) >= FRESH / 2
    assert shown(forecast // 3, 5000) <= FRESH / 2
