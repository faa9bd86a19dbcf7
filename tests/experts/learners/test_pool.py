"""A memory of each arm by name: exact against a dense regression, bounded, and the same
however it came about."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from experts.learners.plain_learners import prior_of
from oddsmith.contexts.offers import make_offer
from oddsmith.core.decision import Decision
from oddsmith.experts.learners import PooledForest, PooledRidge, SharedExperts
from oddsmith.experts.learners.features import Curves
from oddsmith.experts.learners.forest import Forest
from oddsmith.experts.learners.name_table import claim, empty_table, slots_of
from oddsmith.experts.learners.pool import Remembered, Sizes
from oddsmith.experts.learners.protocol import LearnerInput


def dense(
    phi: np.ndarray,
    arms: np.ndarray,
    rewards: np.ndarray,
    ridge: float,
    pull: float,
    n: int,
) -> Any:
    """The start, mean and covariance of θ and of all intercepts, by one solve with a
    column for each arm."""
    columns = np.concatenate([phi, np.eye(n)[arms]], axis=1)
    precision = columns.T @ columns + np.diag([ridge] * phi.shape[1] + [pull] * n)
    covariance = np.linalg.inv(precision)
    start, _ = prior_of(rewards)
    return start, covariance @ columns.T @ (rewards - start), covariance


@pytest.mark.parametrize("pull", [0.5, 16.0])
@pytest.mark.parametrize("seed", range(3))
def test_it_is_a_ridge_regression_with_a_column_for_each_arm(
    pull: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    n, dim, steps = 7, 4, 120
    learner = PooledRidge(ridges=((0.3, 0.3),), pull=pull, products=())
    state = learner.start(np.zeros(dim), Sizes(dim, dim), n)
    counts = np.zeros(n)
    # the last arm is never drawn
    z, arms = rng.standard_normal((steps, dim)), rng.integers(0, n - 1, steps)
    rewards = rng.random(steps) ** (0.3 if seed else 3)  # a start above 1/2, or 1/2
    for row, arm, reward in zip(z, arms, rewards, strict=True):
        known = Remembered(np.array([arm]), counts[[arm]])
        state = learner.learn(
            state, LearnerInput(row[None], row[None]), known, float(reward)
        )
        counts[arm] += 1
    phi = np.concatenate([z, np.ones((steps, 1))], axis=1)
    start, mean, covariance = dense(phi, arms, rewards, 0.3, pull, n)
    asked = rng.standard_normal((n, dim))
    belief = learner.believe(
        state, LearnerInput(asked, asked), Remembered(np.arange(n), counts)
    )
    columns = np.concatenate([asked, np.ones((n, 1)), np.eye(n)], axis=1)
    np.testing.assert_allclose(belief.mean, start + columns @ mean, atol=1e-12, rtol=0)
    _, noise = prior_of(rewards)
    sd = noise * np.sqrt((columns @ covariance * columns).sum(axis=1))
    np.testing.assert_allclose(belief.sd, sd, atol=1e-12, rtol=0)
    stranger = learner.believe(
        state, LearnerInput(asked, asked), Remembered(np.full(n, -1), np.zeros(n))
    )
    fixed = columns[:, : dim + 1]
    np.testing.assert_allclose(
        stranger.mean, start + fixed @ mean[: dim + 1], atol=1e-12, rtol=0
    )
    variance = (fixed @ covariance[: dim + 1, : dim + 1] * fixed).sum(axis=1) + 1 / pull
    np.testing.assert_allclose(
        stranger.sd, noise * np.sqrt(variance), atol=1e-12, rtol=0
    )


def test_the_forest_remembers_what_it_did_not_foresee() -> None:
    """Rows that say nothing: the mean of an arm is its own, drawn to 1/2 by `pull`
    rewards' worth."""
    learner = PooledForest(Forest(4), pull=4.0)
    state, row = (
        learner.start(np.zeros(1), Sizes(1, 1), 2),
        LearnerInput(np.zeros((1, 1)), np.zeros((1, 1))),
    )
    foreseen, total = [], 0.0
    for count in range(6):
        foreseen.append(
            float(
                learner.believe(
                    state, row, Remembered(np.array([-1]), np.zeros(1))
                ).mean[0]
            )
        )
        total += 1.0 - foreseen[-1]
        state = learner.learn(
            state, row, Remembered(np.array([0]), np.array([float(count)])), 1.0
        )
    general = float(
        learner.believe(state, row, Remembered(np.array([-1]), np.zeros(1))).mean[0]
    )
    own = float(
        learner.believe(state, row, Remembered(np.array([0]), np.array([6.0]))).mean[0]
    )
    assert own == pytest.approx(general + total / (6 + 4))
    assert all(one < other for one, other in pairwise(foreseen))


def test_a_place_that_is_taken_again_starts_from_nothing() -> None:
    """Counts, order and sums of the arm that was there before are gone."""
    table = empty_table(2)
    for number, name in enumerate("ab", start=1):
        table = claim(table, name, number, 2).table
    table.counts[:] = 5.0
    taken = claim(table, "c", 3, 2)
    assert taken.fresh
    assert slots_of(taken.table, ["a", "b", "c"]).tolist() == [-1, 1, 0]
    assert taken.table.counts.tolist() == [0.0, 5.0]
    assert taken.table.last.tolist() == [3, 2]
    learner = PooledForest(Forest(4))
    state = learner.start(np.zeros(1), Sizes(1, 1), 2)
    state.sums[:] = 3.0
    assert learner.cleared(state, 1, 2).sums.tolist() == [3.0, 0.0]
    assert learner.cleared(state, 2, 4).sums.tolist() == [3.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("count", [0.0, 3.0, 1000.0])
def test_the_forest_is_less_sure_of_arms_with_few_rewards(count: float) -> None:
    """sd² is that of the trees, and 1/4 over the rewards of the arm and the pull."""
    learner = PooledForest(Forest(4), pull=4.0)
    state = learner.start(np.zeros(1), Sizes(1, 1), 2)
    rows = LearnerInput(np.zeros((1, 1)), np.zeros((1, 1)))
    trees = learner.forest.believe(state.forest, rows).sd[0, 0]
    belief = learner.believe(state, rows, Remembered(np.array([0]), np.array([count])))
    assert belief.sd[0] == pytest.approx(np.sqrt(trees**2 + 0.25 / (count + 4.0)))


def test_names_are_forgotten_in_the_order_of_learning() -> None:
    """Against a plain dict in that order, over a random walk of names."""
    rng = np.random.default_rng(5)
    table, most = empty_table(20), 20
    remembered: dict[str, None] = {}
    for number in range(1, 2001):
        name = f"arm {int(rng.integers(0, 60))}"
        was_known = name in remembered
        remembered.pop(name, None)
        remembered[name] = None
        if len(remembered) > most:
            del remembered[next(iter(remembered))]
        table, place, fresh = claim(table, name, number, most)
        assert fresh is not was_known
        assert slots_of(table, [name]).tolist() == [place]
        if number % 97 == 0:
            places = slots_of(table, [f"arm {i}" for i in range(60)])
            assert {f"arm {i}" for i in np.flatnonzero(places >= 0)} == set(remembered)
            assert len(set(places[places >= 0].tolist())) == len(remembered)
    assert len(table.counts) == most


def bank(most_arms: int = 10_000) -> SharedExperts:
    learners = (PooledRidge(Curves(8)), PooledForest(Forest(4)))
    return SharedExperts(learners, blend=True, most_arms=most_arms)


def learnt(experts: SharedExperts, steps: int, names: int, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    state = experts.init()
    for step in range(steps):
        arms = [f"a{int(i)}" for i in rng.choice(names, 3, replace=False)]
        offer = make_offer(rng.random(2), {arm: rng.random(2) for arm in arms})
        decision = Decision(
            step, offer.context, None, int(rng.integers(3)), np.full(3, 1 / 3)
        )
        decision = decision._replace(arms=offer.arms, features=offer.features)
        state = experts.update(state, decision, float(rng.random()))
    return state


def test_a_popular_arm_is_learnt_without_features(any_kernels: str) -> None:
    experts, state = bank(), bank().init()
    for step in range(200):
        arm = step % 2
        decision = Decision(
            step, None, None, arm, np.array([0.5, 0.5]), arms=("good", "bad")
        )
        state = experts.update(state, decision, float(arm == 0))
    means = experts.predict(state, make_offer(None, ["bad", "good", "new"]))
    assert (means[:, 1] > means[:, 2]).all()
    assert (means[:, 2] > means[:, 0]).all()


def test_features_of_the_drawn_arm_are_learnt_as_an_offer_of_it_alone() -> None:
    experts = bank()
    offer = make_offer([1.0], {"a": [0.1, 0.2], "b": [0.3, 0.4]})
    decision = Decision(
        1,
        offer.context,
        None,
        1,
        np.array([0.5, 0.5]),
        arms=offer.arms,
        features=offer.features,
    )
    drawn = decision._replace(features={"b": [0.3, 0.4]})
    alone = drawn._replace(arm=0, arms=("b",), propensities=np.ones(1))
    for one, other in zip(
        leaves(experts.update(experts.init(), drawn, 1.0)),
        leaves(experts.update(experts.init(), alone, 1.0)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


def test_regressions_see_how_an_arm_differs_from_those_beside_it() -> None:
    """The reward is for the arm whose number is the largest offered, wherever that is:
    no function of the row alone."""
    rng = np.random.default_rng(2)
    experts = SharedExperts()
    state = experts.init()
    for step in range(600):
        level = float(rng.normal(0, 10))
        features = {name: [level + float(rng.random())] for name in ("x", "y", "z")}
        arm = int(rng.integers(3))
        best = max(features, key=lambda name: features[name])
        decision = Decision(
            step,
            None,
            None,
            arm,
            np.full(3, 1 / 3),
            arms=("x", "y", "z"),
            features=features,
        )
        state = experts.update(state, decision, float(("x", "y", "z")[arm] == best))
    means = experts.predict(
        state, make_offer(None, {"x": [40.1], "y": [40.9], "z": [40.5]})
    )[0]
    assert means[1] > means[2] + 0.1 > means[0] + 0.2


def leaves(state: Any) -> list[np.ndarray]:
    return (
        [leaf for part in state for leaf in leaves(part)]
        if isinstance(state, tuple)
        else [np.asarray(state)]
    )


def test_equal_rows_have_equal_beliefs_in_every_order() -> None:
    experts = bank()
    state = learnt(experts, 60, 12)
    rng = np.random.default_rng(9)
    for n_arms in (1, 2, 3, 7, 50, 200):
        context = rng.random(2)
        features = {f"a{i}": rng.random(2) for i in range(n_arms)}
        features["twin one"] = features["twin two"] = rng.random(2)
        offer = make_offer(context, features)
        means = dict(
            zip(offer.arms, experts.predict(state, offer).T.tolist(), strict=True)
        )
        assert means["twin one"] == means["twin two"]
        names = list(features)
        rng.shuffle(names)
        again = experts.predict(
            state, make_offer(context, {name: features[name] for name in names})
        )
        assert dict(zip(names, again.T.tolist(), strict=True)) == means


@pytest.mark.parametrize(
    ("context", "features"),
    [
        ([1.0, 2.0, 3.0], [0.1, 0.2]),
        ([1.0, 2.0], [0.1]),
        ({"hour": 3}, [0.1, 0.2]),
        (None, {"city": "Rome"}),
    ],
)
def test_another_form_is_no_dead_end(context: Any, features: Any) -> None:
    experts = bank()
    state, offer = (
        learnt(experts, 30, 5),
        make_offer(context, {"a": features, "a1": None}),
    )
    assert np.isfinite(experts.predict(state, offer)).all()
    decision = Decision(
        9,
        offer.context,
        None,
        0,
        np.full(2, 0.5),
        arms=offer.arms,
        features=offer.features,
    )
    state = experts.update(state, decision, 1.0)
    assert np.isfinite(experts.predict(state, offer)).all()
    assert np.isfinite(
        experts.predict(state, make_offer([0.1, 0.2], {"a1": [0.1, 0.2]}))
    ).all()


def test_nothing_known_of_context_or_arm_is_no_error() -> None:
    experts = bank()
    state = learnt(experts, 40, 5)
    assert np.isfinite(experts.predict(state, make_offer(None, ["a1", "new"]))).all()
    assert np.isfinite(
        experts.predict(state, make_offer([0.1, None], {"a1": None, "a2": [None, 0.3]}))
    ).all()


def test_the_pull_and_the_products_are_above_0() -> None:
    for make in (PooledRidge, PooledForest):
        for pull in (0.0, -1.0, np.inf):
            with pytest.raises(od.InvalidInput, match=r"^pull must be"):
                make(pull=pull)
        assert make(pull=0.25).pull == 0.25
    for precision in (0.0, -1.0, np.inf):
        with pytest.raises(od.InvalidInput, match=r"^products must be"):
            PooledRidge(products=(1.0, precision))
    with pytest.raises(od.InvalidInput, match="products must be a tuple"):
        PooledRidge(products=[1.0])  # type: ignore[arg-type]


NARROW = Sizes(2, 3)


def ridge_after(
    steps: int, sizes: Sizes = NARROW
) -> tuple[PooledRidge, Any, np.ndarray]:
    """A ridge with products after rewards of two arms, and the arms' counts. Of the
    numbers of rows the third and fourth are 0."""
    rng = np.random.default_rng(3)
    learner = PooledRidge(ridges=((0.3, 0.3),), products=(2.0,))
    z = np.concatenate([rng.standard_normal((steps, 2)), np.zeros((steps, 2))], axis=1)
    state = learner.start(np.zeros(sizes.linear), sizes, 2)
    counts = np.zeros(2)
    for step in range(steps):
        known = Remembered(np.array([step % 2]), counts[[step % 2]])
        seen = asked_of(z[step][None], sizes)
        state = learner.learn(state, seen, known, float(rng.random()))
        counts[step % 2] += 1
    return learner, state, counts


def asked_of(z: np.ndarray, sizes: Sizes) -> LearnerInput:
    """Rows (…, 4) cut to these sizes; the product is that of the first two numbers."""
    linear = z[..., : sizes.linear]
    product = z[..., :1] * z[..., 1:2]
    crossed = np.concatenate([linear, product], axis=-1)
    return LearnerInput(linear, linear, linear, crossed)


ASKED = np.array([[0.5, -1.0, 0.0, 0.0], [-0.25, 2.0, 0.0, 0.0]])


def test_sums_of_each_arm() -> None:
    _, state, _ = ridge_after(7)
    rng = np.random.default_rng(3)
    z = rng.standard_normal((7, 2))
    rewards = rng.random(7)
    for arm in (0, 1):
        rows = z[arm::2]
        ones = np.ones((len(rows), 1))
        product = rows[:, :1] * rows[:, 1:]
        own = np.concatenate([rows, ones], axis=1)
        crossed = np.sort(np.concatenate([rows, product, ones], axis=1).sum(axis=0))
        assert state.rewards[arm] == pytest.approx(rewards[arm::2].sum())
        np.testing.assert_allclose(np.sort(state.rows[arm]), np.sort(own.sum(axis=0)))
        np.testing.assert_allclose(np.sort(state.crossed[arm]), crossed)


def test_a_ridge_forgets_one_arm_or_has_room_for_more() -> None:
    learner, state, _ = ridge_after(9)
    sums = [state.rewards, state.rows, state.crossed]
    before = [part.copy() for part in sums]
    assert all((part != 0).any(axis=-1).all() for part in before[1:])
    longer = learner.cleared(state, 2, 5)
    for one, part in zip(before, (longer.rewards, longer.rows, longer.crossed),
                         strict=True):  # fmt: skip
        np.testing.assert_array_equal(part[:2], one)
        assert part.shape == (5, *one.shape[1:])
        assert not part[2:].any()
    same = learner.cleared(state, 1, 2)
    for one, part in zip(before, (same.rewards, same.rows, same.crossed), strict=True):
        np.testing.assert_array_equal(part[0], one[0])
        assert part.shape == one.shape
        assert not np.any(part[1])


def test_rewards_in_another_unit() -> None:
    """As if they had been in it from the start."""
    learner, state, counts = ridge_after(9)
    known = Remembered(np.arange(2), counts)
    before = learner.believe(state, asked_of(ASKED, NARROW), known)
    rewards = state.rewards.copy()
    weights = state.products.weights.copy()
    scaled = learner.rescaled(state, np.asarray(4.0))
    np.testing.assert_allclose(scaled.rewards, 4 * rewards)
    np.testing.assert_allclose(
        scaled.products.weights[..., 0, :], 4 * weights[..., 0, :]
    )
    np.testing.assert_array_equal(
        scaled.products.weights[..., 1, :], weights[..., 1, :]
    )
    after = learner.believe(scaled, asked_of(ASKED, NARROW), known)
    assert (np.sign(after.mean - before.mean) >= 0).all()


def test_errors_of_arms_in_another_unit() -> None:
    """The forest counts in the new unit, and so do the sums of its errors."""
    learner = PooledForest(Forest(4))
    state = learner.start(np.zeros(2), Sizes(2, 2), 2)
    state.sums[:] = [0.5, -0.25]
    scaled = learner.rescaled(state, np.asarray(4.0))
    np.testing.assert_array_equal(scaled.sums, [2.0, -1.0])


def test_further_numbers_were_0_so_far(any_kernels: str) -> None:
    learner, narrow, _ = ridge_after(9)
    wide = Sizes(4, 5)
    _, whole, _ = ridge_after(9, wide)
    longer = learner.wider(narrow, np.zeros(4), wide)
    assert longer.first == 2
    for part, one in ((longer.rows, whole.rows), (longer.crossed, whole.crossed)):
        assert part.shape == one.shape
    empty = learner.start(np.zeros(0), Sizes(0, 0), 2)
    assert learner.wider(empty, np.zeros(4), wide).first == 4
    np.testing.assert_array_equal(longer.rows[:, :3], narrow.rows)
    assert not longer.rows[:, 3:].any()
