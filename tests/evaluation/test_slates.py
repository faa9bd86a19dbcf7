"""Slates: every slot's estimate is exact over all orders, and intervals count slates,
however their rewards hang on one another."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from evaluation.slate_worlds import (
    CLICKS,
    LOGGER,
    LOOKS,
    ORDERS,
    SLOTS,
    TARGET,
    apart,
    chance,
    drawn_orders,
    mingled,
    odds_left,
    slate_log,
    slot_values,
)
from oddsmith import evaluation as ev
from oddsmith.evaluation.slates import by_place, per_slate, slates_of

CHANCES = np.array([chance([LOGGER] * SLOTS, order) for order in ORDERS])
WORLDS = {"apart": apart, "mingled": mingled}
LOGGED = 0.5 + 0.2 * sum(
    p * apart(order).mean() for order, p in zip(ORDERS, CHANCES, strict=True)
)


def all_orders(rewards: Any) -> tuple[od.Log, Any]:
    """A slate of each order, with its mean rewards: means by `CHANCES` are
    expectations."""
    return slate_log(ORDERS, np.array([rewards(order) for order in ORDERS]))


@pytest.mark.parametrize("world", WORLDS)
def test_ips_of_a_slot_is_unbiased_over_all_orders(world: str) -> None:
    """For the slot drawn by the target, all others by the logging policy: also where rewards
    hang on slots behind it."""
    log, target = all_orders(WORLDS[world])
    truth = slot_values(WORLDS[world])
    terms = ev.ips(log, target)
    np.testing.assert_allclose(
        CHANCES @ terms.values.reshape(-1, SLOTS), truth, rtol=0, atol=1e-12
    )
    np.testing.assert_allclose(
        CHANCES @ per_slate(terms).values, truth.mean(), rtol=0, atol=1e-12
    )
    mended = ev.dr(
        log,
        target,
        np.tile(np.random.default_rng(0).random((SLOTS, 6)), (len(ORDERS), 1)),
    )
    np.testing.assert_allclose(
        CHANCES @ mended.values.reshape(-1, SLOTS), truth, rtol=0, atol=1e-12
    )


def test_where_slots_are_independent_a_slot_earns_what_its_own_arm_does() -> None:
    """The value of a slot by what is left there alone, without looking at other slots'
    rewards."""
    log, target = all_orders(apart)
    left: list[float] = []
    for slot in range(SLOTS):
        starts = {order[:slot]: 0.0 for order in ORDERS}
        for order, p in zip(ORDERS, CHANCES, strict=True):
            starts[order[:slot]] += p
        left.append(
            sum(
                p * LOOKS[slot] * float(odds_left(TARGET, slot, s) @ CLICKS)
                for s, p in starts.items()
            )
        )
    found = CHANCES @ ev.ips(log, target).values.reshape(-1, SLOTS)
    np.testing.assert_allclose(found, left, rtol=0, atol=1e-12)


@pytest.mark.parametrize("world", WORLDS)
def test_whole_slates_are_unbiased_over_all_orders(world: str) -> None:
    rewards = WORLDS[world]
    log, target = all_orders(rewards)
    truth = sum(
        chance([TARGET] * SLOTS, order) * rewards(order).mean() for order in ORDERS
    )
    terms = ev.whole_slates(log, target)
    assert CHANCES @ terms.values == pytest.approx(truth, abs=1e-12)
    assert CHANCES @ np.asarray(terms.weights) == pytest.approx(1, abs=1e-12)


def test_expected_squares_of_slates_are_those_of_their_weights() -> None:
    """And the heaviest slate in 2,000 is at most so heavy: of 120 orders, it is the
    heaviest there is."""
    terms = per_slate(ev.ips(*all_orders(apart)))
    weights = np.asarray(terms.weights)
    assert CHANCES @ np.asarray(terms.expected_squares) == pytest.approx(
        CHANCES @ weights**2, abs=1e-12
    )
    many = per_slate(
        ev.ips(
            *slate_log(
                drawn_orders(np.random.default_rng(0), 2000), np.ones((2000, SLOTS))
            )
        )
    )
    assert many.heaviest is not None
    assert weights.max() <= many.heaviest <= 1.5 * weights.max()


def test_a_log_without_slates_is_what_it_was() -> None:
    """Slates of one slot give the numbers of rows to the last bit, and so does a log of
    one of the slots."""
    log, target = slate_log(
        drawn_orders(np.random.default_rng(0), 300), np.ones((300, SLOTS)) * 0.5
    )
    first, own = log[np.arange(0, len(log), SLOTS)], target[::SLOTS]
    assert slates_of(first) is None
    plain = first.without("slate", "slot")
    for interval in ev.INTERVALS[:3]:
        same = [
            ev.estimate(ev.ips(one, own), interval=interval)[:4]
            for one in (first, plain)
        ]
        assert same[0] == same[1]
    alone = replace(log, slate=[None] * len(log), slot=np.zeros(len(log), np.int64))
    assert (
        ev.estimate(ev.ips(alone, target))[:4]
        == ev.estimate(ev.ips(log.without("slate", "slot"), target))[:4]
    )


def shared_luck(logs: int, slates: int, seed: int) -> Any:
    """Logs of slates whose three rewards come from one uniform number: as dependent as
    they can be."""
    rng = np.random.default_rng(seed)
    means = np.array([0.5 + 0.2 * apart(order) for order in ORDERS])
    truth = 0.5 + 0.2 * slot_values(apart).mean()
    for _ in range(logs):
        orders = drawn_orders(rng, slates)
        chosen = means[[ORDERS.index(order) for order in orders]]
        yield (
            *slate_log(orders, (rng.random((slates, 1)) < chosen).astype(float)),
            truth,
        )


def test_intervals_cover_where_a_slates_rewards_share_their_luck() -> None:
    """200 logs of 150 slates, 40 for anytime intervals; nominal 0.95: more than 20
    misses (7 of 40) have probability 0.001. Rows taken as independent miss far more."""
    missed = {"rows": 0, "logged": 0, "snips": 0} | dict.fromkeys(ev.INTERVALS, 0)
    for number, (log, target, truth) in enumerate(shared_luck(200, 150, seed=1)):
        terms, today = ev.ips(log, target), ev.logged(log)
        found = {
            name: ev.estimate(terms, interval=name)
            for name in ("beta", "normal", "bootstrap")
        }
        found |= {
            "snips": ev.estimate(ev.snips(log, target)),
            "logged": ev.estimate(today),
        }
        found["rows"] = ev.estimate(replace(today, slates=None))
        if number < 40:
            found |= {
                name: ev.estimate(terms, interval=name)
                for name in ("anytime", "anytime_constant")
            }
            found["bernstein"] = ev.estimate(terms, interval="bernstein", floor=0.1)
        for name, one in found.items():
            assert not one.refused
            missed[name] += (
                not one.low
                <= (LOGGED if name in ("rows", "logged") else truth)
                <= one.high
            )
    assert missed.pop("rows") > 40
    assert max(missed.pop(name) for name in ev.INTERVALS[3:]) <= 7
    assert max(missed.values()) <= 20, missed


def test_the_unit_is_the_slate() -> None:
    log, target = next(shared_luck(1, 150, seed=2))[:2]
    found = ev.estimate(ev.ips(log, target))
    assert (found.diagnostics.n, found.diagnostics.unit) == (150, "slate")
    few = ev.estimate(ev.ips(log[:60], target[:60]))
    assert few.why.startswith("20 slates are worth")
    with pytest.raises(
        od.InvalidInput, match="an interval needs at least 2 slates with rewards; got 1"
    ):
        ev.estimate(ev.ips(log[:3], target[:3]))


def test_ratios_and_differences_are_of_slates() -> None:
    """snips of slates of unequal sizes is the ratio of the slates' means; a difference
    is one of slates."""
    log, target = next(shared_luck(1, 200, seed=3))[:2]
    # every third slate has two slots
    kept = np.flatnonzero(np.arange(len(log)) % 9 != 8)
    log, target = log[kept], target[kept]
    weights, slates = np.asarray(ev.ips(log, target).weights), slates_of(log)
    assert slates is not None
    ratio = slates.means(weights * log.reward).sum() / slates.means(weights).sum()
    assert ev.estimate(ev.snips(log, target)).value == pytest.approx(ratio, abs=1e-12)
    apart_ = ev.snips(log, target).minus(ev.logged(log))
    by_hand = ratio - slates.means(log.reward).mean()
    assert ev.estimate(apart_).value == pytest.approx(by_hand, abs=1e-12)


def test_drawn_odds_alone_are_enough_for_slates() -> None:
    log, target = slate_log(*_played(200, 4), drawn_only=True)
    every, _ = slate_log(*_played(200, 4))
    own, known = (ev.estimate(ev.ips(one, target)) for one in (log, every))
    assert own.value == pytest.approx(known.value)
    assert own.low <= known.low + 0.02
    assert own.high >= known.high - 0.02


def _played(n: int, seed: int) -> tuple[list[tuple[int, ...]], Any]:
    rng = np.random.default_rng(seed)
    orders = drawn_orders(rng, n)
    return orders, (
        rng.random((n, SLOTS)) < np.array([apart(order) for order in orders])
    ).astype(float)


def test_slates_are_not_replayed() -> None:
    log, _ = slate_log(*_played(20, 6))
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(np.full((2, 1, 6), 0.5)), gamma=0.1
    )
    with pytest.raises(
        od.InvalidInput,
        match="later slots of a slate depend on earlier ones: replay one slot",
    ):
        od.replay(policy, log, seed=0)


def test_the_order_of_rows_does_not_matter_to_the_test_of_served_arms() -> None:
    log, _ = slate_log(*_played(300, 5))
    mixed = log[np.random.default_rng(0).permutation(len(log))]
    of_log, of_mixed = slates_of(log), slates_of(mixed)
    assert of_log is not None
    assert of_mixed is not None
    again = by_place(mixed, of_mixed)
    assert again.slot is not None
    assert again.slot.tolist() == [1, 2, 3] * 300
    assert by_place(log, of_log) is log
    found = ev.assess(mixed[::-1], {"uniform": ev.uniform_target(mixed[::-1])})
    assert not isinstance(found.served, str)
    assert not found.served.caught


def test_whole_slates_miss_what_no_slot_could_draw_once() -> None:
    """Half of the target is barred in either slot. The first slot's weight is 2.5 or
    0.5, and the missing mass 1/2 + w/2: 1.75, which counts as 1, or 0.75."""
    odds = [[0.2, 0.8, 0, 0], [0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0]]
    log = od.Log(
        arm=np.array([0, 2, 0, 2]),
        reward=np.array([1.0, 0.0, 1.0, 1.0]),
        propensities=np.array(odds, float),
        slate=list("aabb"),
        slot=np.array([1, 2, 1, 2]),
    )
    target = np.array([[0.5, 0, 0, 0.5], [0, 0, 0.5, 0.5]] * 2)
    terms = ev.whole_slates(log, target)
    assert terms.missing.tolist() == [1.0, 0.75]
    assert terms.weights is not None
    assert terms.weights.tolist() == [1.25, 0.25]
