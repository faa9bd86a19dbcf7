"""A judge gives the odds and learns the weights of its policy without its models;
rosters change by the formula."""

import json
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.expert_policy import ExpertState
from oddsmith.experts.answers import RecordedAdvice, RecordedExperts
from oddsmith.files.fingerprint import fingerprint
from oddsmith.policies.roster import active_experts as active
from oddsmith.policies.roster import add_expert as added
from oddsmith.policies.roster import pad_to_roster
from oddsmith.policies.roster import retire_expert as retired
from oddsmith.server.fold.judge import (
    gts_inside,
    judge,
    judge_from_json,
    judge_to_json,
)

POLICIES: dict[str, Any] = {
    "plain": {},
    "prior": {"prior": [0.6, 0.3, 0.1], "gamma": 0.07, "eta": 0.3},
    "square, drifting": {
        "loss": od.square_loss,
        "eta": 1.0,
        "share": 0.01,
        "gamma": 0.1,
    },
    "schedule": {
        "gamma": od.policies.PowerSchedule(0.5),
        "discount": 0.99,
        "optimism": 0.1,
    },
}


def bank() -> od.Experts:
    return od.Guarded(
        od.TableExperts(
            np.random.default_rng(5).uniform(0.05, 0.95, (4, 3, 3)),
            names=("a", "b", "c"),
        )
    )


@pytest.mark.parametrize("settings", POLICIES.values(), ids=POLICIES)
@pytest.mark.parametrize("bounds", [None, (0.05, 0.8)])
def test_a_judge_from_json_is_the_policy_to_the_last_bit(
    settings: Any, bounds: Any
) -> None:
    policy: Any = od.GeneralizedThompsonSampling(bank(), **settings)
    policy = policy if bounds is None else od.Bounded(policy, *bounds)
    alone: Any = judge_from_json(json.loads(json.dumps(judge_to_json(policy))))
    state, learnt = policy.init(), alone.init()
    rng = np.random.default_rng(3)
    for step in range(1, 200):
        context = int(rng.integers(4))
        eligible = None if step % 3 else np.array([True, False, True])
        inner = gts_inside(policy)
        assert inner is not None
        answer = RecordedAdvice(*inner.experts.advise(state.experts, context, eligible))
        odds = policy.odds(state, context, eligible=eligible, step=step)
        again = alone.odds(learnt, answer, eligible=eligible, step=step)
        assert again.propensities.tobytes() == odds.propensities.tobytes()
        decision = od.draw(
            odds, context, float(rng.random()), eligible=eligible, step=step
        )
        reward = float(rng.integers(2))
        state, learnt = (
            policy.update(state, decision, reward),
            alone.update(learnt, decision, reward),
        )
        assert learnt.log_weights.tobytes() == state.log_weights.tobytes()


def test_learners_are_judged_by_what_they_said() -> None:
    policy = od.auto(["x", "y", "z"], size="small")
    alone: Any = judge(policy)
    assert not alone.in_place
    state, learnt = policy.init(), alone.init()
    rng = np.random.default_rng(3)
    for step in range(1, 60):
        context = rng.normal(size=3)
        answer = RecordedAdvice(*policy.experts.advise(state.experts, context, None))
        odds = policy.odds(state, context, step=step)
        assert np.allclose(
            alone.odds(learnt, answer, step=step).propensities,
            odds.propensities,
            atol=1e-15,
            rtol=0,
        )
        decision = od.draw(odds, context, float(rng.random()), step=step)
        state, learnt = (
            policy.update(state, decision, 1.0),
            alone.update(learnt, decision, 1.0),
        )
        assert learnt.log_weights.tobytes() == state.log_weights.tobytes()


@pytest.mark.parametrize("bounds", [None, (0.05, 0.8)])
def test_a_judge_of_scale_free_weights_has_their_unit(bounds: Any) -> None:
    policy: Any = od.policies.ScaleFreeSampling(bank(), gamma=0.05)
    policy = policy if bounds is None else od.Bounded(policy, *bounds)
    alone: Any = judge_from_json(json.loads(json.dumps(judge_to_json(policy))))
    state, learnt = policy.init(), alone.init()
    rng = np.random.default_rng(3)
    for step in range(1, 60):
        odds = policy.odds(state, int(rng.integers(4)), step=step)
        decision = od.draw(odds, 0, float(rng.random()), step=step)
        reward = float(rng.random()) * 1e-4 * step
        state = policy.update(state, decision, reward)
        learnt = alone.update(learnt, decision, reward)
    assert state.unit == learnt.unit < 0.01
    assert state.log_weights.tobytes() == learnt.log_weights.tobytes()


def test_what_is_no_weighted_vote_has_no_judge() -> None:
    other = od.policies.SquareCB(bank(), 10.0)
    assert judge(other) is None
    assert judge_to_json(other) is None
    assert (
        judge_to_json(
            od.GeneralizedThompsonSampling(bank(), od.losses.scaled(od.log_loss, 2.0))
        )
        is None
    )
    linear: Any = od.LinUCB(dim=2, n_arms=3)
    with pytest.raises(
        od.InvalidInput, match=r"must support adding and retiring experts .*got LinUCB"
    ):
        retired(linear, linear.init(), "a")
    with pytest.raises(od.InvalidInput, match="must be what `judge_to_json` wrote"):
        judge_from_json({"gamma": 0.1})


def weights_of(state: ExpertState) -> Any:
    return np.exp(state.log_weights) / np.exp(state.log_weights).sum()


def test_a_joining_expert_gets_its_share_and_others_keep_their_proportions() -> None:
    policy = od.GeneralizedThompsonSampling(bank(), prior=[0.6, 0.3, 0.1], gamma=0.0)
    state = ExpertState(np.log([1.0, 0.25, 0.5]), 7, policy.init().experts)
    newcomer = od.TableExperts(np.full((4, 1, 3), 0.5), names=("d",))
    changed, grown = added(policy, state, "d", 0.2, newcomer)
    inner = gts_inside(changed)
    assert inner is not None
    assert list(inner.experts.names) == ["a", "b", "c", "d"]
    assert isinstance(inner.experts, od.Guarded)
    np.testing.assert_allclose(
        weights_of(grown), [0.8 / 1.75, 0.2 / 1.75, 0.4 / 1.75, 0.2], atol=1e-15
    )
    np.testing.assert_allclose(inner.prior, [0.48, 0.24, 0.08, 0.2], atol=1e-15)
    assert grown.learnt == 7
    assert changed.odds(grown, 2).propensities.shape == (3,)
    alone = judge(policy)
    assert alone is not None
    _, same = added(alone, state, "d", 0.2)
    assert same.log_weights.tobytes() == grown.log_weights.tobytes()
    # whoever is there stays as it is
    assert added(changed, grown, "d", 0.5) == (changed, grown)
    with pytest.raises(od.InvalidInput, match="'e' must be passed as a bank"):
        added(changed, grown, "e", 0.5, newcomer)


def test_a_retired_expert_is_not_asked_until_it_is_back() -> None:
    asked: list[str] = []

    def says(name: str) -> Any:
        def said(context: Any) -> list[float]:
            asked.append(name)
            return [0.2, 0.4]

        return said

    experts = od.FunctionExperts({name: says(name) for name in ("a", "b")}, ["x", "y"])
    policy: Any = od.GeneralizedThompsonSampling(od.Guarded(experts), gamma=0.0)
    left = retired(policy, policy.init(), "a")
    decision = od.decide(*left, None, 0.4)
    assert asked == ["b"]
    assert np.isnan(decision.advice).tolist() == [True, False]  # type: ignore[arg-type]
    changed: Any = left[0]
    assert changed.experts.failures() == {}
    od.decide(*added(*left, "a", 0.5), None, 0.4)
    assert asked == ["b", "a", "b"]


def test_a_retired_experts_mass_is_shared_in_proportion_for_ever() -> None:
    policy = od.GeneralizedThompsonSampling(
        bank(), prior=[0.6, 0.3, 0.1], share=0.1, gamma=0.0
    )
    state = ExpertState(np.log([1.0, 0.25, 0.5]), 7, policy.init().experts)
    changed, left = retired(policy, state, "a")
    np.testing.assert_allclose(weights_of(left), [0.0, 1 / 3, 2 / 3], atol=1e-15)
    assert left.log_weights.max() == 0
    decision = od.decide(changed, left, 1, 0.4)
    after = changed.update(left, decision, 1.0)
    assert after.log_weights[0] == -np.inf  # fixed share does not wake it
    back, again = added(changed, after, "a", 0.25)
    assert weights_of(again)[0] == pytest.approx(0.25, abs=1e-15)
    others = weights_of(after)[1:] * 0.75
    np.testing.assert_allclose(weights_of(again)[1:], others, atol=1e-15)
    assert retired(back, again, "nobody") == (back, again)
    _, last = retired(*retired(*retired(back, again, "a"), "b"), "c")
    assert weights_of(last).tolist() == [0.0, 0.0, 1.0]  # the last one cannot go


def test_what_becomes_of_a_policy_does_not_depend_on_the_state() -> None:
    """A snapshot's policy is found without its state: from the lines before it
    alone."""
    policy = od.GeneralizedThompsonSampling(bank(), prior=[0.6, 0.3, 0.1], gamma=0.0)
    for weights in ([0.0, -np.inf, -2000.0], [0.0, -np.inf, -np.inf]):
        state = ExpertState(np.array(weights), 7, policy.init().experts)
        assert added(policy, state, "b", 0.5) == (policy, state)  # refuted, not retired
        assert active(policy) == ["a", "b", "c"]
        changed, left = retired(policy, state, "a")
        fresh, _ = retired(policy, policy.init(), "a")
        assert fingerprint(changed) == fingerprint(fresh)
        assert active(changed) == ["b", "c"]
        expected = [0.0, 0.0, 1.0] if weights[2] > -np.inf else [0.0, 0.75, 0.25]
        np.testing.assert_allclose(weights_of(left), expected, atol=1e-15)


def test_who_joined_after_a_decision_sleeps_in_it() -> None:
    """The newcomer is charged the mix of those who spoke, so their proportion to it
    changes by its own factor only."""
    policy = od.GeneralizedThompsonSampling(bank(), prior=[0.6, 0.3, 0.1], gamma=0.0)
    state = policy.init()
    early = od.decide(policy, state, 1, 0.3)
    judged: Any = judge(policy)
    changed, grown = added(judged, state, "d", 0.2)
    after = changed.update(grown, pad_to_roster(changed, grown, early), 1.0)
    # the mix loss of sleepers keeps their share
    assert weights_of(after)[3] == pytest.approx(0.2, abs=1e-15)
    np.testing.assert_allclose(
        weights_of(after)[:3] / 0.8,
        weights_of(policy.update(state, early, 1.0)),
        atol=1e-15,
    )
    slept = early._replace(
        advice=np.array([0.3, np.nan, 0.4]), log_weights=np.log([0.5, 0.2, 0.3])
    )
    padded: Any = pad_to_roster(changed, grown, slept)
    assert padded.log_weights.tolist() == [*np.log([0.5, 0.2, 0.3]), -np.inf]
    assert pad_to_roster(policy, state, slept) is slept


def test_answers_are_given_back_as_they_are() -> None:
    answer = RecordedAdvice(np.array([[0.2, 0.9]]), np.array([[0.5, 0.5]]))
    assert RecordedExperts(["a"]).advise((), answer) is answer
    assert RecordedExperts(["a"]).predict((), answer) is answer.predictions
