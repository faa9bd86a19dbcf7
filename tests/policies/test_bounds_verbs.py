"""Bounded hands everything on to its policy, step and eligible arms included, and
refuses bounds that are none."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od

SAID = np.array([[0.9, 0.2, 0.4], [0.1, 0.3, 0.8]])
INNER = od.GeneralizedThompsonSampling(
    od.GivenExperts(("a", "b")),
    gamma=od.policies.PowerSchedule(0.8, 0.5),
    prior=[0.75, 0.25],
    share=0.1,
)
FAIR = od.Bounded(INNER, floors=0.01, caps=0.9)
WITHOUT_SECOND = np.array([True, False, True])


def test_odds_are_those_of_this_step_over_these_arms() -> None:
    """A floor of 0.01 and a cap of 0.9 leave 0.99 - 0.01 (K - 2) of each vote for its
    arm, up to the cap; the rest goes to the next best arm."""
    for step, gamma in ((1, 0.8), (16, 0.2)):
        for eligible, n in ((None, 3), (WITHOUT_SECOND, 2)):
            mask = np.ones(3) if eligible is None else eligible
            # the next best arm of the first expert is the third, of the second the
            # second, where it is eligible
            votes = np.array([[0.9, 0.01, 0.09], [0.01, 0.09, 0.9]])
            if n == 2:
                votes = np.array([[0.9, 0.0, 0.1], [0.1, 0.0, 0.9]])
            right = (1 - gamma) * np.array([0.75, 0.25]) @ votes + gamma * mask / n
            advice = INNER.experts.advise((), SAID, eligible)
            for found in (
                FAIR.odds(FAIR.init(), SAID, eligible=eligible, step=step),
                FAIR.weigh(FAIR.init(), advice, eligible=eligible, step=step),
            ):
                np.testing.assert_allclose(found.propensities, right, rtol=1e-14)
                np.testing.assert_array_equal(found.advice, SAID)
            explained: Any = FAIR.explain(
                FAIR.init(), SAID, eligible=eligible, step=step
            )
            np.testing.assert_allclose(explained.propensities, right, rtol=1e-14)
            np.testing.assert_allclose(explained.uniform, gamma * mask / n, rtol=1e-14)


def test_explanations_have_the_bounded_odds() -> None:
    tight = od.Bounded(
        od.thompson_sampling(od.GivenExperts(("a", "b")), [0.75, 0.25]),
        floors=0.1,
        caps=0.7,
    )
    explained: Any = tight.explain(tight.init(), SAID, eligible=WITHOUT_SECOND)
    np.testing.assert_allclose(explained.ballots, [[0.7, 0, 0.3], [0.3, 0, 0.7]])
    assert str(explained).splitlines()[1].split()[2:6] == ["0", "0.70,", "2", "0.30"]
    assert explained.propensities == pytest.approx([0.6, 0.0, 0.4])
    assert explained.posterior == pytest.approx([0.75, 0.25])


def test_learning_and_folding_are_the_policys_own() -> None:
    rng = np.random.default_rng(0)
    state, decisions, rewards = FAIR.init(), [], rng.random(12)
    for t, reward in enumerate(rewards):
        decisions.append(
            od.decide(FAIR, state, rng.random((2, 3)), float(rng.random()), step=t + 1)
        )
        state = FAIR.update(state, decisions[-1], float(reward))
    plain: Any = INNER.init()
    for decision, reward in zip(decisions, rewards, strict=True):
        plain = INNER.update(plain, decision, float(reward))
    half = od.fold(FAIR, FAIR.init(), decisions[:5], rewards[:5])
    for learnt in (
        state,
        od.fold(FAIR, FAIR.init(), decisions, rewards),
        od.fold(FAIR, half, decisions[5:], rewards[5:]),
    ):
        np.testing.assert_allclose(learnt.log_weights, plain.log_weights, rtol=1e-13)
        np.testing.assert_allclose(
            FAIR.posterior(learnt), INNER.posterior(plain), rtol=1e-13
        )
    assert not np.allclose(FAIR.posterior(state), [0.75, 0.25])
    assert FAIR.init((4,)).log_weights.shape == (4, 2)
    assert not FAIR.in_place
    assert FAIR.arms is None


def test_bounds_at_their_ends() -> None:
    # a floor may be its cap
    exact = od.Bounded(INNER, floors=[0.5, 0.25, 0.25], caps=[0.5, 0.25, 0.25])
    np.testing.assert_array_equal(
        exact.odds(exact.init(), SAID, step=1).propensities, [0.5, 0.25, 0.25]
    )
    np.testing.assert_array_equal(od.Bounded(INNER, floors=0, caps=1).caps, 1.0)


@pytest.mark.parametrize("what", ["floors", "caps"])
@pytest.mark.parametrize(
    "value", [-0.1, 1.5, [0.5, -0.1, 0.2], [0.5, 1.5, 0.2], [[0.1, 0.2, 0.3]]]
)
def test_bounds_are_one_number_or_one_per_arm(what: str, value: Any) -> None:
    with pytest.raises(
        od.InvalidInput,
        match=(
            rf"^{what} must be one number in \[0, 1\], one per arm, or a dict by name; "
            r"got "
        ),
    ):
        od.Bounded(INNER, **{what: value})


@pytest.mark.parametrize("what", ["floors", "caps"])
def test_bounds_must_fit_the_arms_and_be_numbers(what: str) -> None:
    two = od.Bounded(INNER, **{what: [0.0, 0.0] if what == "floors" else [1.0, 1.0]})
    with pytest.raises(
        od.InvalidInput, match=rf"^{what} must be one per arm; got 2 for 3 arms$"
    ):
        two.odds(two.init(), SAID, step=1)
    with pytest.raises(od.InvalidInput, match=rf"^{what} must be finite"):
        od.Bounded(INNER, **{what: np.nan})
    with pytest.raises(
        od.InvalidInput,
        match=r"^floors and caps must be for the same number of arms; got 2 and 3$",
    ):
        od.Bounded(INNER, floors=[0, 0], caps=[1, 1, 1])
    with pytest.raises(
        od.errors.Infeasible,
        match=r"^floors must not exceed caps; got \[0.1, 0.5\] above 0.3$",
    ):
        od.Bounded(INNER, floors=[0.1, 0.5], caps=0.3)
    with pytest.raises(od.InvalidInput, match=r"^policy must have the methods"):
        od.Bounded("policy")  # type: ignore[arg-type]
