"""GTS against its formula, one expert at a time with the standard library's
arithmetic."""

from itertools import pairwise
from math import exp, log
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.expert_policy import ExpertState

NAMES = ("a", "b", "c")
BANK = od.GivenExperts(NAMES)
PRIOR = [0.5, 0.3, 0.2]
SAID = np.array([[0.9, 0.2, 0.4], [0.1, 0.8, 0.3], [0.3, 0.35, 0.7]])


def gts(loss: Any = od.square_loss, **settings: Any) -> od.GeneralizedThompsonSampling:
    chosen: dict[str, Any] = {"eta": 0.8, "gamma": 0.1, "prior": PRIOR} | settings
    return od.GeneralizedThompsonSampling(BANK, loss, **chosen)


def normal(weights: list[float]) -> list[float]:
    return [weight / sum(weights) for weight in weights]


def decisions(
    policy: Any, n: int, *, asleep: bool = False, seed: int = 0
) -> tuple[list[od.Decision], Any]:
    """n decisions from the prior, with rewards; some experts asleep at times, and once
    all of them."""
    rng = np.random.default_rng(seed)
    made = []
    for t in range(n):
        said = rng.uniform(0.1, 0.9, (3, 4))
        if asleep:
            said[rng.random(3) < 0.4] = np.nan
        made.append(
            od.decide(policy, policy.init(), said, float(rng.random()), step=t + 1)
        )
    return made, rng.random(n)


def by_hand(policy: Any, made: list[od.Decision], rewards: Any) -> list[float]:
    """The posterior: w ← w^d p^(1-d), w ← w exp(-η ℓ + λ bonus), w ← (1-α) w/W + α p,
    all linear."""
    weights = list(policy.prior)
    for decision, reward in zip(made, rewards, strict=True):
        said, bonus = decision.advice, decision.bonus
        assert said is not None
        weights = [
            w**policy.discount * p ** (1 - policy.discount)
            for w, p in zip(weights, policy.prior, strict=True)
        ]
        for i, f in enumerate(said):
            loss = (
                (f - reward) ** 2
                if policy.loss is od.square_loss
                else -reward * log(f) - (1 - reward) * log(1 - f)
            )
            weights[i] *= exp(
                -policy.eta * loss
                + policy.optimism * (0 if bonus is None else bonus[i])
            )
        total = sum(weights)
        weights = [
            (1 - policy.share) * w / total + policy.share * p
            for w, p in zip(weights, policy.prior, strict=True)
        ]
    return normal(weights)


SETTINGS: dict[str, dict[str, Any]] = {
    "square": {},
    "log": {"loss": od.log_loss, "eta": 0.5},
    "feel-good": {"optimism": 0.7},
    "share": {"share": 0.2},
    "discount": {"discount": 0.6},
    "all": {"loss": od.log_loss, "optimism": 0.3, "share": 0.1, "discount": 0.8},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_the_posterior_is_the_formula(any_kernels: str, name: str) -> None:
    policy = gts(**SETTINGS[name])
    made, rewards = decisions(policy, 6)
    state = policy.init()
    for decision, reward in zip(made, rewards, strict=True):
        state = policy.update(state, decision, float(reward))
    expected = by_hand(policy, made, rewards)
    assert policy.posterior(state) == pytest.approx(expected, rel=1e-12)
    assert state.learnt == 6
    folded = od.fold(policy, policy.init(), made, rewards)
    assert policy.posterior(folded) == pytest.approx(expected, rel=1e-12)
    assert folded.learnt == 6
    together = policy.init((2,))
    for decision, reward in zip(made, rewards, strict=True):
        both = od.Decision.stack([decision, made[0]])
        together = policy.update(together, both, np.array([reward, rewards[0]]))
    assert policy.posterior(together)[0] == pytest.approx(expected, rel=1e-12)
    assert policy.posterior(together)[1] == pytest.approx(
        by_hand(policy, made[:1] * 6, [rewards[0]] * 6), rel=1e-12
    )


@pytest.mark.parametrize("rewards", [(0.0, 1.0, 1.0), (0.25, 0.5, 1.0)])
@pytest.mark.parametrize("name", ["square", "log", "feel-good"])
def test_a_scaled_loss_is_a_smaller_eta(
    any_kernels: str, name: str, rewards: Any
) -> None:
    plain = gts(**SETTINGS[name])
    scaled = gts(
        **SETTINGS[name]
        | {"loss": od.losses.scaled(plain.loss, 2.5), "eta": 2.5 * plain.eta}
    )
    made, _ = decisions(plain, 3)
    for folding in (True, False):
        one, other = plain.init(), scaled.init()
        if folding:
            one, other = (
                od.fold(plain, one, made, rewards),
                od.fold(scaled, other, made, rewards),
            )
        else:
            for decision, reward in zip(made, rewards, strict=True):
                one, other = (
                    plain.update(one, decision, reward),
                    scaled.update(other, decision, reward),
                )
        np.testing.assert_allclose(other.log_weights, one.log_weights, rtol=1e-12)
        assert plain.posterior(one) == pytest.approx(
            by_hand(plain, made, rewards), rel=1e-12
        )


@pytest.mark.parametrize("name", [*SETTINGS, "own loss"])
@pytest.mark.parametrize("asleep", [False, True])
def test_a_fold_over_several_blocks_is_one_update_after_another(
    any_kernels: str, name: str, asleep: bool
) -> None:
    settings = SETTINGS.get(name, {"loss": lambda g, r: np.abs(g - r)})
    policy = gts(**settings)
    made, rewards = decisions(policy, 60, asleep=asleep)
    made, rewards = made * 36, np.tile(rewards, 36)  # 2160: two blocks and a part
    if name == "log":
        rewards = rewards.round()
    state = policy.init()
    for decision, reward in zip(made, rewards, strict=True):
        state = policy.update(state, decision, float(reward))
    folded = od.fold(policy, policy.init(), od.Decision.stack(made), rewards)
    np.testing.assert_allclose(
        folded.log_weights, state.log_weights, rtol=1e-10, atol=1e-10
    )
    assert folded.learnt == state.learnt == 2160


def test_a_fold_of_runs_side_by_side() -> None:
    """Two axes: time, then runs, with a sleeper in one of them."""
    policy = gts(od.log_loss)
    rng = np.random.default_rng(1)
    said = rng.uniform(0.1, 0.9, (5, 2, 3, 4))
    said[2, 1, 0] = np.nan
    made = [
        od.decide(policy, policy.init((2,)), said[t], rng.random(2), step=t + 1)
        for t in range(5)
    ]
    rewards, state = rng.integers(0, 2, (5, 2)).astype(float), policy.init((2,))
    for decision, reward in zip(made, rewards, strict=True):
        state = policy.update(state, decision, reward)
    rows = [
        decision._replace(log_weights=policy.init((2,)).log_weights)
        for decision in made
    ]
    folded = od.fold(policy, policy.init((2,)), rows, rewards)
    np.testing.assert_allclose(folded.log_weights, state.log_weights, rtol=1e-12)
    alone = policy.init()
    for decision, reward in zip(made, rewards, strict=True):
        weights = None if decision.log_weights is None else decision.log_weights[1]
        one = decision.rows()[1]._replace(log_weights=weights)
        alone = policy.update(alone, one, float(reward[1]))
    np.testing.assert_allclose(state.log_weights[1], alone.log_weights, rtol=1e-12)


def test_feel_good_is_glad_of_eligible_arms_only(any_kernels: str) -> None:
    """max_a f_i(x, a) runs over the arms that could have been drawn, and over those an
    expert knows."""
    policy, said = gts(optimism=0.5), SAID.copy()
    assert policy.odds(policy.init(), said).bonus == pytest.approx([0.9, 0.8, 0.7])
    eligible = np.array([False, True, True])
    assert policy.odds(policy.init(), said, eligible=eligible).bonus == pytest.approx(
        [0.4, 0.8, 0.7]
    )
    said[1, 1], said[2] = np.nan, np.nan
    bonus = policy.odds(policy.init(), said, eligible=eligible).bonus
    assert bonus is not None
    assert bonus[:2] == pytest.approx([0.4, 0.3])
    assert np.isnan(bonus[2])
    batch: Any = policy.odds(
        policy.init((2,)),
        np.stack([SAID, said]),
        eligible=np.stack([~eligible, eligible]),
    ).bonus
    np.testing.assert_allclose(batch, [[0.9, 0.1, 0.3], [0.4, 0.3, np.nan]])
    assert gts().odds(policy.init(), SAID).bonus is None


def test_odds_carry_predictions_and_the_weights_where_somebody_sleeps(
    any_kernels: str,
) -> None:
    policy = gts()
    awake = policy.odds(policy.init(), SAID)
    np.testing.assert_array_equal(awake.advice, SAID)
    assert awake.log_weights is None
    asleep = policy.odds(policy.init(), np.vstack([SAID[:2], np.full((1, 3), np.nan)]))
    assert asleep.propensities == pytest.approx(
        [0.9 * 5 / 8 + 0.1 / 3, 0.9 * 3 / 8 + 0.1 / 3, 0.1 / 3]
    )
    np.testing.assert_array_equal(asleep.log_weights, policy.init().log_weights)
    said, eligible = SAID.copy(), np.array([False, True, True])
    said[1, 0] = np.nan  # on an arm that nobody could draw
    advice = policy.experts.advise((), said, eligible)
    for odds in (
        policy.odds(policy.init(), said, eligible=eligible),
        policy.weigh(policy.init(), advice, eligible=eligible),
    ):
        assert odds.log_weights is None
    np.testing.assert_array_equal(
        policy.odds(policy.init(), said).log_weights, policy.init().log_weights
    )


@pytest.mark.parametrize("prior", [[0.5, 0.3, 0.2], [0.5, 0.0, 0.5]])
def test_merging_parts_is_learning_the_whole(prior: list[float]) -> None:
    policy = gts(prior=prior)
    made, rewards = decisions(policy, 9)
    whole = od.fold(policy, policy.init(), made, rewards)
    parts = [
        od.fold(policy, policy.init(), made[a:b], rewards[a:b])
        for a, b in pairwise((0, 2, 5, 9))
    ]
    merged = policy.merge(*parts)
    assert policy.posterior(merged) == pytest.approx(
        policy.posterior(whole).tolist(), rel=1e-12
    )
    assert (merged.learnt, merged.experts, whole.experts) == (9, (), ())
    assert merged.log_weights.max() == 0
    assert policy.posterior(policy.merge(whole)) == pytest.approx(
        policy.posterior(whole).tolist(), rel=1e-12
    )


@pytest.mark.parametrize("eligible", [None, np.array([True, False, True])])
def test_an_explanation_adds_up_to_the_odds(eligible: Any) -> None:
    said = SAID.copy()
    said[2] = np.nan
    policy = gts(gamma=od.policies.PowerSchedule(0.4, 0.5))
    parts = policy.explain(policy.init(), said, eligible=eligible, step=4)
    assert parts.names == NAMES
    assert parts.arms == ("0", "1", "2")
    np.testing.assert_array_equal(parts.predictions, said)
    allowed = [1.0, 1.0, 1.0] if eligible is None else [1.0, 0.0, 1.0]
    assert parts.uniform == pytest.approx([0.2 * one / sum(allowed) for one in allowed])
    assert parts.posterior == pytest.approx(PRIOR)
    assert parts.weights == pytest.approx([5 / 8, 3 / 8, 0])
    np.testing.assert_allclose(
        0.8 * parts.weights @ parts.ballots + parts.uniform,
        parts.propensities,
        rtol=1e-14,
    )
    same = policy.odds(policy.init(), said, eligible=eligible, step=4).propensities
    np.testing.assert_allclose(parts.propensities, same, rtol=1e-14)
    late = policy.init()._replace(learnt=15)
    # step 16, counted by rewards
    assert policy.explain(late, said).uniform.sum() == pytest.approx(0.1)
    masks = np.array([[True, True, False], [False, False, True]])
    batch = policy.explain(
        policy.init((2,)), np.stack([SAID, said]), eligible=masks, step=np.array([1, 4])
    )
    np.testing.assert_allclose(batch.uniform, [[0.2, 0.2, 0.0], [0.0, 0.0, 0.2]])
    # six arms, three experts
    wide = policy.explain(policy.init(), np.hstack([SAID, SAID]), step=1)
    np.testing.assert_allclose(wide.uniform, np.full(6, 0.4 / 6))
    assert len(wide.arms) == 6
    wider = policy.explain(
        policy.init((2,)),
        np.stack([np.hstack([SAID, SAID])] * 2),
        step=np.array([1, 1]),
    )
    np.testing.assert_allclose(wider.uniform, np.full((2, 6), 0.4 / 6))
    with pytest.raises(
        od.errors.NoEligibleArm, match=r"^at least one arm must be eligible; got none$"
    ):
        policy.explain(policy.init(), said, eligible=np.zeros(3, dtype=np.bool_))


def test_arms_that_have_names_are_explained_by_name() -> None:
    bank = od.FunctionExperts({"f": lambda c: [0.1, 0.2]}, ("left", "right"))
    assert od.thompson_sampling(bank).explain(
        od.thompson_sampling(bank).init(), 0
    ).arms == ("left", "right")


def test_sleepers_of_a_batch_are_charged_in_their_rows_only() -> None:
    policy = gts(optimism=0.4)
    said = np.stack(
        [SAID, np.vstack([SAID[:2], np.full((1, 3), np.nan)]), np.full((3, 3), np.nan)]
    )
    together = od.decide(policy, policy.init((3,)), said, np.array([0.2, 0.5, 0.9]))
    state = policy.update(policy.init((3,)), together, np.array([1.0, 0.25, 0.5]))
    for i, reward in enumerate((1.0, 0.25, 0.5)):
        alone = od.decide(policy, policy.init(), said[i], (0.2, 0.5, 0.9)[i])
        after = policy.update(policy.init(), alone, reward)
        np.testing.assert_allclose(state.log_weights[i], after.log_weights, rtol=1e-13)
    np.testing.assert_allclose(state.log_weights[2], policy.init().log_weights)
    awake = normal(
        [
            p * exp(-0.8 * (f - 0.25) ** 2 + 0.4 * b)
            for p, f, b in _drawn(alone=together.rows()[1])
        ]
    )
    # the sleeper keeps its share, the awake theirs together
    expected = [0.8 * awake[0], 0.8 * awake[1], 0.2]
    assert policy.posterior(state)[1] == pytest.approx(expected, rel=1e-12)


def _drawn(alone: od.Decision) -> list[tuple[float, float, float]]:
    """Prior, prediction of the drawn arm and bonus of the two who are awake."""
    assert alone.advice is not None
    assert alone.bonus is not None
    return list(
        zip(PRIOR[:2], alone.advice[:2].tolist(), alone.bonus[:2].tolist(), strict=True)
    )


def test_states_are_values() -> None:
    policy = gts()
    state = policy.init()
    assert isinstance(state, ExpertState)
    before = state.log_weights.copy()
    made, rewards = decisions(policy, 3)
    policy.update(state, made[0], 0.5)
    od.fold(policy, state, made, rewards)
    np.testing.assert_array_equal(state.log_weights, before)
