"""Products of context and arm: against a dense regression, found where tastes depend on
both, dropped where they do not, bounded, and exact when columns appear later."""

from itertools import product
from typing import Any

import numpy as np
import pytest

from oddsmith.contexts.offers import make_offer
from oddsmith.core.decision import Decision
from oddsmith.experts.learners import PooledRidge, SharedExperts
from oddsmith.experts.learners.evidence import shares
from oddsmith.experts.learners.features import Curves
from oddsmith.experts.learners.moments import RunningMoments
from oddsmith.experts.learners.pool import Remembered, Sizes
from oddsmith.experts.learners.prior import prior_mean
from oddsmith.experts.learners.products import MOST_PRODUCTS, crossed, layout_of
from oddsmith.experts.learners.protocol import LearnerInput

DEVICES, GROUPS = ("phone", "laptop", "tablet"), ("shoes", "toys", "garden")


def moments_of(rows: np.ndarray) -> RunningMoments:
    n = len(rows)
    mean = rows.mean(axis=0)
    return RunningMoments(np.full(len(mean), n), mean, n * rows.var(axis=0))


def test_products_by_hand_and_their_squares_sum_to_one(any_kernels: str) -> None:
    """Over all rows of a context and an arm that are independent, to rounding."""
    is_own = np.array([False, True, False, True])
    rows = np.array(list(product([-2.0, 4.0], [1.0, 5.0], [0.0, 1.0], [0.0, 1.0])))
    is_category = np.array([False, False, True, True])
    sd = np.where(is_category, 1.0, rows.std(axis=0))
    z = (rows - rows.mean(axis=0)) / sd / np.sqrt(2.5)
    linear = np.arange(16 * 6.0).reshape(16, 6)
    found = crossed(moments_of(rows), is_category, is_own, z, linear)
    # columns 0, 1 and its difference, (1 x 0), 2, (2 x 1), 3 and its difference, ...
    np.testing.assert_array_equal(found[:, [0, 1, 2, 4, 6, 7]], linear)
    by_hand = np.stack([z[:, 1] * z[:, 0], z[:, 2] * z[:, 1], z[:, 3] * z[:, 0]], 1)
    by_hand = np.concatenate([by_hand, z[:, [3]] * z[:, [2]]], axis=1)
    np.testing.assert_allclose(found[:, [3, 5, 8, 9]], 2 * by_hand, rtol=1e-12)
    assert (found[:, [3, 5, 8, 9]] ** 2).sum(axis=1).mean() == pytest.approx(1)


def test_further_columns_append_features() -> None:
    """Every start of a layout is the layout of its columns, folded products as well."""
    is_own = np.random.default_rng(0).random(40) < 0.4
    whole = layout_of(is_own)
    for n in (1, 2, 7, 25, 39):
        part = layout_of(is_own[:n])
        assert part.size <= whole.size
        for name in ("linear", "first", "second", "places", "signs"):
            own = getattr(part, name)
            np.testing.assert_array_equal(getattr(whole, name)[: len(own)], own)
        assert part.places.max(initial=-1) < part.size


def test_products_are_bounded(any_kernels: str) -> None:
    """Forty numbers each have 1,600 products, 128 places; their inner products stay,
    with an error of about sqrt(2/128) of their lengths."""
    rng = np.random.default_rng(1)
    is_own = np.repeat([False, True], 40)
    layout = layout_of(is_own)
    assert layout.size == 40 + 80 + MOST_PRODUCTS
    assert len(layout.places) == 1600
    rows = rng.standard_normal((200, 80))
    z = rows / np.sqrt(80)
    none = np.zeros((200, len(layout.linear)))
    found = crossed(moments_of(rows), np.zeros(80, np.bool_), is_own, z, none)
    inner = (found[:100] * found[100:]).sum(axis=1)
    exact = 4 * (z[:100, :40] * z[100:, :40]).sum(axis=1)
    exact *= (z[:100, 40:] * z[100:, 40:]).sum(axis=1)
    assert np.sqrt(np.mean((inner - exact) ** 2)) < 2 * np.sqrt(2 / MOST_PRODUCTS)


def log_evidence(phi: np.ndarray, residuals: np.ndarray, precision: float) -> float:
    """The log density of all residuals at once, but for what no regression changes:
    Student's t, since the noise has the prior that two rewards with squares of 1/2
    give."""
    n = len(phi)
    spread = np.eye(n) + phi @ phi.T / precision
    distance = residuals @ np.linalg.solve(spread, residuals)
    _, log_determinant = np.linalg.slogdet(spread)
    return float(-0.5 * log_determinant - (2 + n) / 2 * np.log1p(distance / 0.5))


def test_both_regressions_and_their_evidence_against_dense_ones(
    any_kernels: str,
) -> None:
    """Without a memory of arms, and with rewards for which the start is always 1/2."""
    rng = np.random.default_rng(3)
    n, dim, size = 60, 3, 5
    learner = PooledRidge(Curves(4), ((0.3, 0.3),), 1e12, (0.7,))
    state = learner.start(np.zeros(dim), Sizes(dim, size), 1)
    z = rng.standard_normal((n, dim)) / 2
    wide = rng.standard_normal((n, size)) / 2
    rewards = np.where(rng.random(n) < 0.5 + 0.3 * np.sign(wide[:, 0]), 0.5, 0.1)
    nobody = Remembered(np.array([-1]), np.zeros(1))
    for row, further, reward in zip(z, wide, rewards, strict=True):
        assert prior_mean(*state.models.sums) == 0.5
        seen = LearnerInput(row[None], row[None], None, further[None])
        state = learner.learn(
            state, seen, nobody._replace(places=np.zeros(1, int)), reward
        )
    features = Curves(4)(z, dim), np.concatenate([np.ones((n, 1)), wide], axis=1)
    means = []
    evidence = []
    for own, precision in zip(features, (0.3, 0.7), strict=True):
        moment = own.T @ own + precision * np.eye(own.shape[1])
        means.append(0.5 + own[:5] @ np.linalg.solve(moment, own.T @ (rewards - 0.5)))
        evidence.append(log_evidence(own, rewards - 0.5, precision))
    found = state.models.evidence[:, 0]
    assert found[1] - found[0] == pytest.approx(evidence[1] - evidence[0], abs=1e-6)
    share = shares(state.models.evidence)
    assert share[1] > 0.01
    seen = LearnerInput(z[:5], z[:5], None, wide[:5])
    believed = learner.believe(state, seen, Remembered(np.full(5, -1), np.zeros(5)))
    np.testing.assert_allclose(believed.mean, share @ np.array(means), atol=1e-9)


def learnt(n: int, seed: int, *, taste: bool) -> tuple[SharedExperts, Any]:
    """A bank after n rewards of uniform choice: 0.7 where device and group are alike
    with `taste`, where the group is the first without it, else 0.3."""
    bank = SharedExperts((PooledRidge(Curves(32)),))
    rng = np.random.default_rng(seed)
    state = bank.init()
    for step in range(n):
        device, drawn = (int(i) for i in rng.integers(3, size=2))
        offer = offer_of(device, first=3 * step)
        decision = Decision(step, offer.context, None, drawn, np.full(3, 1 / 3))
        decision = decision._replace(arms=offer.arms, features=offer.features)
        is_good = device == drawn if taste else drawn == 0
        state = bank.update(
            state, decision, float(rng.random() < (0.7 if is_good else 0.3))
        )
    return bank, state


def offer_of(device: int, *, first: int) -> Any:
    """Goods of each group, under names that nobody has seen before."""
    goods = {f"{first + i}": {"group": group} for i, group in enumerate(GROUPS)}
    return make_offer({"device": DEVICES[device]}, goods)


@pytest.mark.parametrize("seed", range(3))
def test_tastes_that_depend_on_both_are_found(seed: int) -> None:
    """The mean of a cell of 67 rewards has a standard deviation of 0.056, and the truth
    is 0.4 apart.

    Five deviations of a difference of two cells, 3e-7 each; six differences in each of
    three runs: 5e-6.
    """
    bank, state = learnt(600, seed, taste=True)
    asked = (offer_of(device, first=9999) for device in range(3))
    means = np.stack([bank.beliefs(state, offer).mean[0] for offer in asked])
    assert means.argmax(axis=1).tolist() == [0, 1, 2]


def test_columns_that_appear_later_are_learnt_as_if_they_had_been_there() -> None:
    """Numbers that were 0 so far: the same regressions, to rounding."""
    rng = np.random.default_rng(5)
    learner = PooledRidge(products=(0.3, 1.0))
    few, many = np.array([False, True]), np.array([False, True, False, True])
    wide, narrow = layout_of(many), layout_of(few)
    sizes = [Sizes(len(one.linear), one.size) for one in (narrow, wide)]
    first = learner.start(np.zeros(2), sizes[0], 1)
    second = learner.start(np.zeros(2), sizes[1], 1)
    place = Remembered(np.zeros(1, np.int64), np.zeros(1))
    for step in range(40):
        if step == 20:
            first = learner.wider(first, np.zeros(4), sizes[1])
        rows = np.zeros((1, wide.size))
        n = narrow.size if step < 20 else wide.size
        rows[0, :n] = rng.standard_normal(n) / 3
        linear = rows[:, wide.linear]
        known = place._replace(counts=np.full(1, float(step)))
        reward = float(rng.random() < 0.4)
        seen = LearnerInput(rows, rows[:, :2], linear, rows)
        second = learner.learn(second, seen, known, reward)
        if step < 20:
            linear = rows[:, narrow.linear]
            seen = LearnerInput(rows, rows[:, :2], linear, rows[:, :n])
        first = learner.learn(first, seen, known, reward)
    for one, other in zip(
        (*first.models, *first.products),
        (*second.models, *second.products),
        strict=True,
    ):
        np.testing.assert_allclose(one, other, rtol=0, atol=1e-12)
