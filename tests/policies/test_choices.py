"""The monitor: its interval holds the truth at all times, sums do not depend on the
order, its sentence names names."""

import numpy as np
import pytest

import oddsmith as od
from oddsmith.claims.agnostic import AGNOSTIC
from oddsmith.core.arrays import Array
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from paper.agnostic import A1_EXPERTS

BANK = od.GivenExperts(["predictor", "adviser"])


def test_the_interval_holds_the_truth_at_every_look() -> None:
    """200 runs, a look every 50 steps: 10 may ever miss on average at level 95 %; 24
    would in one of 13,000 tests."""
    problem, rng, runs = AGNOSTIC["A1"](), np.random.default_rng(5), 200
    policy = od.hedged(problem.experts)
    state, missed = policy.init((runs,)), np.zeros(runs, dtype=bool)
    for t in range(1, 1001):
        decision = od.decide(
            policy, state, np.zeros(runs, dtype=int), rng.random(runs), step=t
        )
        state = policy.update(
            state,
            decision,
            (rng.random(runs) < np.array([0.5, 0.6])[decision.arm]).astype(float),
        )
        if t % 50 == 0:
            for run, sums in enumerate(state.choices):
                for predictor in (0, 1):
                    told = choices_of(sums, t, names=["0", "1"], predictor=predictor)
                    truth = 0.1 * (int(told.policy) - predictor)
                    missed[run] |= not told.low <= truth <= told.high
    assert missed.sum() < 24


def test_the_interval_holds_the_truth_where_arms_cannot_be_drawn() -> None:
    """As above, of experts that want an arm each; every other row has odds 0 for one of
    the arms, or the other."""
    rng, runs, missed, means = np.random.default_rng(8), 200, 0, np.array([0.4, 0.6])
    odds = np.array([[0.5, 0.5], [1.0, 0.0], [0.3, 0.7], [0.0, 1.0]])
    for _ in range(runs):
        table = odds[np.arange(1000) % 4]
        arm = (rng.random(1000) < table[:, 1]).astype(int)
        weights = np.eye(2)[arm] / table[np.arange(1000), arm][:, None]
        sums = sums_of(
            weights, (rng.random(1000) < means[arm]).astype(float)[:, None]
        ).cumsum(axis=0)
        looks = [
            choices_of(sums[t - 1], t, names=["0", "1"], predictor=0)
            for t in range(50, 1001, 50)
        ]
        missed += any(not one.low <= 0.2 * int(one.policy) <= one.high for one in looks)
    assert missed < 24


def test_policies_that_are_hidden_are_named_and_are_not_the_best() -> None:
    """The first is never drawn, the second earns 0.2 less than the third, of 1,000
    rewards."""
    sums = np.array(
        [[0.0, 300.0, 500.0], [1.0, 700.0, 500.0], [250.0] * 3, [250.0] * 3]
    )
    found = choices_of(sums, 1000, names=["a", "b", "c"], predictor=1)
    assert (found.policy, found.hidden) == ("c", ("a",))
    assert found.gap == pytest.approx(0.2)
    assert "The arms that the policy of 'a' would choose are drawn too rarely" in str(
        found
    )
    assert choices_of(sums, 1000, names=["a", "b", "c"], predictor=2).policy == "c"
    blind = choices_of(sums, 1000, names=["a", "b", "c"], predictor=0)
    assert str(blind).startswith(
        "Whether the best predictor, 'a', has the best policy is not known yet. The "
        "arms that"
    )
    many = Choices("a", "a", 0.0, -0.1, 0.1, 1000, tuple("bcdef"))
    assert (
        "The arms that the policies of 'b', 'c', 'd' and 2 others would choose"
        in str(many)
    )


def test_weights_beyond_all_measure_are_cut() -> None:
    sums = sums_of(np.array([1e308, np.inf, 1.0]), np.asarray(1.0))
    assert np.isfinite(sums).all()
    assert choices_of(sums, 1, names=["a", "b", "c"], predictor=2).low <= 0


def test_experts_that_predict_well_and_choose_badly() -> None:
    """The adviser earns 0.8 more, 0.64 within the floors, and is the worse predictor on
    both arms; a floor keeps the other arm in sight."""
    hedged, rng = od.hedged(BANK), np.random.default_rng(6)
    policy = od.Bounded(hedged, floors=0.1)
    said = np.array([[0.55, 0.5], [0.0001, 0.9999]])
    means = (0.1, 0.9)
    state = policy.init()
    for t in range(3000):
        decision = od.decide(policy, state, said, float(rng.random()), step=t + 1)
        state = policy.update(
            state, decision, float(rng.random() < means[decision.arm])
        )
    told = hedged.monitor(state)
    assert (told.policy, told.predictor) == ("adviser", "predictor")
    assert 0 < told.low <= 0.64 <= told.high
    assert (
        "Your experts predict well and choose badly: the policy of 'adviser' earns 0."
        in str(told)
    )
    words = str(policy.explain(state, said)).split()  # lines are wrapped
    assert str(told) in " ".join(words)


def test_sentences() -> None:
    assert "reported after 100 rewards" in str(
        od.hedged(BANK).monitor(od.hedged(BANK).init())
    )
    assert "also has the best policy" in str(Choices("a", "a", 0.0, -0.1, 0.1, 1000))
    assert "are too few to decide" in str(Choices("a", "b", 0.05, -0.1, 0.2, 1000))


def test_a_sleeper_would_have_done_as_was_done() -> None:
    policy = od.hedged(BANK)
    said = A1_EXPERTS.copy()
    said[1] = np.nan
    decision = od.decide(policy, policy.init(), said, 0.5, step=1)
    earned = policy.update(policy.init(), decision, 1.0).choices[0]
    assert earned[1] == 1.0
    assert earned[0] == pytest.approx(1.0)  # the only one awake, and GTS follows it


def test_bounds_of_few_rewards_end_at_0_and_1() -> None:
    """One reward proves nothing: each policy earns between 0 and 1. Weighted sums far
    beyond the rewards prove no more than 1."""
    one = choices_of(np.ones((4, 2)), 1, names=["a", "b"], predictor=0)
    assert (one.low, one.high) == (-1.0, 1.0)
    sums = np.array([[0.0, 9000.0], [0.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    far = choices_of(sums, 10, names=["a", "b"], predictor=0)
    assert (far[0], far.low, far.high) == ("b", 0.0, 1.0)


def test_the_interval_by_hand() -> None:
    """A union over 2 experts, 2 sums and 16 rates: each has 1/64 of the level."""
    rng = np.random.default_rng(5)
    weights = rng.choice([0.0, 2.0], size=(400, 2))
    reward = (rng.random(400) < 0.2 + 0.3 * weights[:, 1]).astype(float)
    sums = sums_of(weights, reward[:, None]).sum(axis=0)
    rates = 0.5 ** np.arange(1, 17)
    cost = -np.log(1 - rates) - rates

    def bound(x: Array, level: float) -> float:
        needed = np.log(64 / (1 - level))
        squares = ((x - 0.5) ** 2).sum()
        return float(((x.sum() - (cost * squares + needed) / rates) / 400).max())

    for level in (0.95, 0.5):
        found = choices_of(sums, 400, names=["a", "b"], predictor=0, level=level)
        earned = weights[:, 1] * reward
        lost = weights[:, 0] * (1 - reward)
        assert found.policy == "b"
        assert found.low == pytest.approx(bound(earned, level) + bound(lost, level) - 1)
        least = bound(weights[:, 1] * (1 - reward), level)
        assert found.high == pytest.approx(
            1 - least - bound(weights[:, 0] * reward, level)
        )
