"""What a log of drawn odds alone cannot carry is refused, also where an arm is common
in other contexts."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation import clipped_ips, compare, estimate, ips, logged, snips
from oddsmith.evaluation.intervals import outer_terms
from oddsmith.evaluation.rows import all_odds

Log: Any = od.Log  # which takes lists, too


def log_with_a_corner(
    seed: int, share: float, steps: int = 1000
) -> tuple[od.Log, np.ndarray, np.ndarray]:
    """In a corner of contexts the logging policy all but always draws arm 0; elsewhere it draws
    all six alike.

    Both targets draw arm 1 elsewhere; in the corner the first draws arm 0, the second
    arm 1, which is better there by 1/2. So the second is better by `share` / 2, and no
    log shows it: arm 1 is hardly ever drawn in the corner.
    """
    rng = np.random.default_rng(seed)
    corner = rng.random(steps) < share
    odds = np.where(corner[:, None], [0.995, *[0.001] * 5], np.full(6, 1 / 6))
    arm = (odds.cumsum(axis=1) > rng.random((steps, 1))).argmax(axis=1)
    reward = rng.random(steps) < np.where(corner & (arm == 1), 1.0, 0.5)
    first = np.eye(6)[np.where(corner, 0, 1)]
    drawn = odds[np.arange(steps), arm]
    return (
        Log(arm=arm, reward=reward.astype(float), propensity=drawn),
        first,
        np.tile(np.eye(6)[1], (steps, 1)),
    )


@pytest.mark.parametrize("share", [0.1, 0.2])
@pytest.mark.parametrize("estimator", [ips, snips])
def test_a_difference_that_misses_weight_on_one_side_is_covered(
    share: float, estimator: object
) -> None:
    """Nominal 0.975 at the high end: more than 3 of 20 missed with probability
    0.002."""
    make = ips if estimator is ips else snips
    covered = 0
    for seed in range(20):
        log, first, second = log_with_a_corner(seed, share)
        found = compare(
            {"first": make(log, first), "second": make(log, second)}
        ).differences["second"]
        covered += bool(found.refused) or found.low <= share / 2 <= found.high
    assert covered >= 17


def test_a_floor_that_the_drawn_odds_contradict_is_refused() -> None:
    log = Log(
        arm=np.zeros(1000, np.int64),
        reward=np.zeros(1000),
        propensity=np.full(1000, 0.98),
    )
    with pytest.raises(od.InvalidInput, match="floor must be at most all logged odds"):
        estimate(ips(log, [0, 1]), interval="bernstein", floor=0.5)
    few = estimate(ips(log[:200], [0, 1]), interval="bernstein", floor=0.02)
    assert few.high > 0.3
    # not one draw of an arm with odds of 0.02 in 1,000 rows
    many = estimate(ips(log, [0, 1]), interval="bernstein", floor=0.02)
    assert many.refused == ("weight",)


@pytest.mark.parametrize("interval", ["beta", "normal"])
@pytest.mark.parametrize("estimator", ["ips", "snips", "dr", "shrunk_dr"])
def test_a_value_that_misses_weight_is_covered(estimator: str, interval: str) -> None:
    """The target earns 0.6, of which a fifth of the rows would have given 0.2 and did
    not.

    Nominal 0.975 at the high end: more than 3 of 20 missed with probability 0.002, of
    the seeds as they are.
    """
    answered, covered = 0, 0
    for seed in range(20):
        log, _, target = log_with_a_corner(seed, 0.2)
        model = () if estimator in ("ips", "snips") else (np.full((len(log), 6), 0.5),)
        found = estimate(getattr(ev, estimator)(log, target, *model), interval=interval)
        answered += not found.refused
        covered += not found.refused and found.low <= 0.6 <= found.high
    assert answered >= 10
    assert covered >= answered - 3


def everything(log_odds: np.ndarray, means: np.ndarray) -> tuple[od.Log, np.ndarray]:
    """Every context, arm and reward once, as a log of drawn odds, and how likely each
    row is."""
    contexts, arms, rewards = (
        part.ravel() for part in np.indices((*log_odds.shape, 2))
    )
    odds, mean = log_odds[contexts, arms], means[contexts, arms]
    chance = odds * np.where(rewards == 1, mean, 1 - mean) / len(log_odds)
    return Log(arm=arms, reward=rewards.astype(float), propensity=odds), chance


def without(terms: ev.Terms, heavy: np.ndarray) -> ev.Terms:
    """The terms of a log that never drew these rows' arms in their contexts, so that
    the others are as they were."""
    assert terms.drawn is not None
    return replace(
        terms,
        drawn=terms.drawn._replace(weights=np.where(heavy, 0.0, terms.drawn.weights)),
    )


def test_bounds_are_exact_if_all_is_drawn_and_hold_whatever_is_not() -> None:
    """By enumeration: the mean of both columns is the value; where an arm was not
    drawn, it is between them."""
    rng = np.random.default_rng(1)
    logger, first, second = (rng.dirichlet(np.ones(3), 2) for _ in range(3))
    means = rng.random((2, 3))
    log, chance = everything(logger, means)
    context = np.indices((2, 3, 2))[0].ravel()
    one, two, own = ips(log, first[context]), snips(log, second[context]), logged(log)
    values = [(odds * means).sum(axis=1).mean() for odds in (first, second, logger)]
    cases = {one: values[0], two: values[1], one.minus(two): values[0] - values[1]}
    cases |= {
        one.minus(own): values[0] - values[2],
        own.minus(two): values[2] - values[1],
    }
    for terms, value in cases.items():
        bounds = outer_terms(terms)
        assert bounds is not None
        assert [chance @ side.values for side in bounds] == pytest.approx(
            [value, value]
        )
        assert [side.ends for side in bounds] == [
            (side.values.min(), side.values.max()) for side in bounds
        ]
    for c, arm in np.ndindex(2, 3):
        fewer = [
            without(side, (context == c) & (log.arm == arm)) for side in (one, two)
        ]
        for terms, value in zip(
            (*fewer, fewer[0].minus(fewer[1])),
            (*values[:2], values[0] - values[1]),
            strict=True,
        ):
            low, high = (
                float(chance @ side.values) for side in outer_terms(terms) or ()
            )
            assert low < value < high


def test_bounds_leave_out_what_could_not_be_drawn() -> None:
    """Of a row that was sure of its arm the rest of the target's mass is missing, and
    refused by name."""
    sure = Log(arm=[0, 1], reward=[1, 0], propensity=[1.0, 0.5])
    low, high = outer_terms(ips(sure, [0.25, 0.75])) or (logged(sure),) * 2
    np.testing.assert_allclose([low.values, high.values], [[0.25, 0.0], [0.25, -0.5]])
    low, high = (
        outer_terms(ips(sure, [0.25, 0.75]).minus(logged(sure))) or (logged(sure),) * 2
    )
    np.testing.assert_allclose([low.values, high.values], [[-0.75, 0.0], [-0.75, -0.5]])
    full = Log(arm=[0, 1], reward=[1, 0], propensities=[[0.5, 0.5]] * 2)
    none = (
        ips(full, [0.25, 0.75]),
        logged(full),
        ips(full, [0.25, 0.75]).minus(logged(full)),
    )
    # for their own means
    own = clipped_ips(sure, [0.25, 0.75], 2.0), logged(sure).minus(logged(sure))
    assert [outer_terms(terms) for terms in (*none, *own)] == [None] * 5


def test_bounds_of_two_rows_by_hand() -> None:
    """The first row was sure of its arm, D = 1/2, P = 1/2, N = 0; in the second D =
    0.5 - 1.5, P = N = 1/2."""
    log = Log(arm=[0, 1], reward=[1, 0.25], propensity=[1.0, 0.5])
    apart = ips(log, [0.75, 0.25]).minus(ips(log, [0.25, 0.75]))
    low, high = outer_terms(apart) or (apart, apart)
    np.testing.assert_allclose([low.values, high.values], [[0.5, 0.25], [0.5, 0.25]])
    for side in (low, high):
        assert side.name == apart.name
        np.testing.assert_array_equal(side.missing, apart.missing)
        assert side.extremes is not None
        rewarded, unrewarded, odds, _ = side.extremes()
        np.testing.assert_allclose(
            [rewarded, unrewarded, odds], [[0.5, -0.5], [0.0, 0.5], [1.0, 1.0]]
        )


def test_what_two_targets_share_cancels() -> None:
    log, _, target = log_with_a_corner(0, 0.2)
    near = 0.99 * target + 0.01 / 6
    found = compare({"one": ips(log, target), "near": ips(log, near)})
    wide, narrow = (
        one.high - one.low for one in (found.values["near"], found.differences["near"])
    )
    assert 0 < narrow < wide / 25
    same = compare({"one": ips(log, target), "same": ips(log, target)}).differences[
        "same"
    ]
    assert (same.low, same.value, same.high) == (0, 0, 0)


def test_two_arms_and_even_odds_leave_no_choice() -> None:
    """Then a log of drawn odds is one of all odds; not so where the log does not state
    its arms."""
    rng = np.random.default_rng(3)
    odds = np.where(rng.random((600, 1)) < 0.5, [0.9, 0.1], [0.3, 0.7])
    arm = (rng.random(600) > odds[:, 0]).astype(np.int64)
    columns = {"arm": arm, "reward": (rng.random(600) < 0.5).astype(float)}
    drawn, target = odds[np.arange(600), arm], [0.4, 0.6]
    full = estimate(ips(Log(**columns, propensities=odds), target))
    named = estimate(ips(Log(**columns, propensity=drawn, arms=["a", "b"]), target))
    assert (named.low, named.high) == pytest.approx((full.low, full.high))
    assert estimate(ips(Log(**columns, propensity=drawn), target)).high > full.high
    three = np.ones((600, 3), np.bool_) * [True, True, False]
    masked = estimate(
        ips(Log(**columns, propensity=drawn, eligible=three), [*target, 0.0])
    )
    assert (masked.low, masked.high) == pytest.approx((full.low, full.high))
    assert all_odds(Log(**columns, propensity=drawn, arms=["a", "b", "c"])) is None
    even = Log(
        arm=[0, 1, 2], reward=[1, 0, 1], propensity=[1 / 3] * 3, arms=["a", "b", "c"]
    )
    np.testing.assert_allclose(np.asarray(all_odds(even)), 1 / 3)
    alone = Log(
        arm=[0, 0], reward=[1, 0], propensity=[1.0, 1.0], eligible=[[1, 0], [1, 1]]
    )
    np.testing.assert_array_equal(all_odds(alone), [[1, 0], [1, 0]])


@pytest.mark.parametrize("interval", ["beta", "normal"])
def test_a_floor_stands_for_the_odds_that_are_not_logged(interval: str) -> None:
    """A logger without contexts: drawn odds with the floor give the interval of all
    odds, nearly, and both cover; drawn odds alone give a wider one (rewards of 5 %).

    Of 60 logs at level 0.95, fewer than 51 cover with a chance of 0.1 %.
    """
    odds, target = np.array([0.01, 0.495, 0.495]), np.array([0.3, 0.3, 0.4])
    means = np.array([0.05, 0.1, 0.02])
    rng = np.random.default_rng(1)
    widths = []
    covered = 0
    for _ in range(60):
        arm = rng.choice(3, size=3000, p=odds)
        reward = (rng.random(3000) < means[arm]).astype(float)
        drawn = od.Log(arm=arm, reward=reward, propensity=odds[arm])
        exact = od.Log(arm=arm, reward=reward, propensities=np.tile(odds, (3000, 1)))
        asked: Any = {"interval": interval, "overrule": ["ess", "share", "weight"]}
        found = [
            estimate(ips(exact, target), **asked),
            estimate(ips(drawn, target), floor=0.01, **asked),
            estimate(ips(drawn, target), **asked),
        ]
        widths.append([one.high - one.low for one in found])
        covered += found[1].low <= target @ means <= found[1].high
    all_odds, with_floor, alone = np.mean(widths, axis=0)
    assert with_floor == pytest.approx(all_odds, rel=0.2)
    assert with_floor < 0.7 * alone
    assert covered >= 51


def test_a_floor_that_allows_a_heavy_row_is_not_used() -> None:
    """Fewer rows than 20 / floor: the bounds of what was not drawn stay."""
    log = Log(arm=[0, 1] * 300, reward=[1, 0] * 300, propensity=[0.5] * 600)
    terms = ips(log, [0.9, 0.1])
    assert estimate(terms, floor=0.01)[:4] == estimate(terms)[:4]
    assert estimate(terms, floor=0.1)[:4] != estimate(terms)[:4]
    with pytest.raises(od.InvalidInput, match="floor must be at most all logged odds"):
        estimate(terms, floor=0.6)
