"""Edges where arrays, names, types and orders meet: each of them was once wrong
somewhere."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import oddsmith as od
from oddsmith.core.decision import Decision
from oddsmith.core.exact_json import decode, encode
from oddsmith.core.expert_policy import ExpertState
from oddsmith.policies.parts.projection import project

F = np.array([[0.3, 0.6, 0.2], [0.5, 0.1, 0.4]])
BANK = od.GivenExperts(("a", "b"))
POLICY = od.GeneralizedThompsonSampling(BANK, gamma=0.1)


def decided(**settings: Any) -> Decision:
    return od.decide(POLICY, POLICY.init(), F, 0.3, **settings)


def test_folding_decisions_with_and_without_masks() -> None:
    masked, free = decided(eligible=np.array([True, True, False])), decided()
    one_by_one = POLICY.init()
    for decision in (masked, free, masked):
        one_by_one = POLICY.update(one_by_one, decision, 1.0)
    folded = od.fold(POLICY, POLICY.init(), [masked, free, masked], [1, 1, 1])
    np.testing.assert_allclose(folded.log_weights, one_by_one.log_weights, atol=1e-14)
    stacked = Decision.stack([masked, free])
    assert stacked.eligible is not None
    assert stacked.eligible.tolist() == [[True, True, False], [True, True, True]]
    assert od.fold(POLICY, POLICY.init(), (d for d in [free, free]), [1, 0]).learnt == 2


@pytest.mark.parametrize("low", [-700.0, -740.0, -1000.0])
def test_awake_weights_that_underflow_still_make_odds(
    any_kernels: str, low: float
) -> None:
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(("asleep", "b", "c")), gamma=0.0
    )
    state = ExpertState(np.array([0.0, low, low - 1]), 0, ())
    f = np.array([[np.nan, np.nan], [0.9, 0.1], [0.1, 0.9]])
    expected = 1 / (1 + np.exp(-1))
    np.testing.assert_allclose(
        policy.odds(state, f).propensities, [expected, 1 - expected], rtol=1e-9
    )
    batch = policy.odds(
        ExpertState(np.stack([state.log_weights] * 2), 0, ()), np.stack([f, f])
    ).propensities
    np.testing.assert_allclose(batch, [[expected, 1 - expected]] * 2, rtol=1e-9)


def test_faint_awake_experts_still_teach_each_other(any_kernels: str) -> None:
    """The leader votes but knows nothing of the drawn arm; two others, 800 nats behind,
    do."""
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(("leader", "b", "c")), od.square_loss, eta=1.0, gamma=1.0
    )
    state = ExpertState(np.array([0.0, -800.0, -800.0]), 0, ())
    decision = od.decide(
        policy, state, np.array([[0.9, np.nan], [0.5, 0.9], [0.5, 0.2]]), 0.7
    )
    assert decision.arm == 1
    after = policy.update(state, decision, 1.0).log_weights
    assert after[1] - after[2] == pytest.approx(0.64 - 0.01)


def test_logistic_of_transposed_batches(any_kernels: str) -> None:
    rng = np.random.default_rng(0)
    bank = od.LinearExperts(rng.normal(size=(4, 5)))
    x = rng.normal(size=(2, 3, 6, 5)).transpose(1, 0, 2, 3)
    expected = 1 / (1 + np.exp(-np.einsum("nd,abkd->abnk", bank.weights, x)))
    np.testing.assert_allclose(bank.predict((), x), expected, atol=1e-14)


def test_one_mask_for_a_whole_batch() -> None:
    agent = od.Agent(
        od.GeneralizedThompsonSampling(BANK, gamma=0.1, share=0.1),
        seed=1,
        arms=("x", "y", "z"),
    )
    batch = agent.decide_batch(np.stack([F] * 5), eligible=["x", "z"])
    agent.learn(batch, np.ones(5))
    assert [
        row.eligible.tolist() for row in batch.rows() if row.eligible is not None
    ] == [[True, False, True]] * 5
    assert len(od.Log.of(batch, np.ones(5))) == 5
    per_row = agent.decide_batch(np.stack([F] * 2), eligible=[["x"], ["y", "z"]])
    assert per_row.arm[0] == "x"
    assert agent.decide(F, eligible=2).arm == "z"
    assert agent.decide(F, eligible=[0]).arm == "x"


def test_joined_logs_keep_what_learning_needs() -> None:
    sleepy = F.copy()
    sleepy[0] = np.nan
    a = od.Log.of([od.decide(POLICY, POLICY.init(), sleepy, 0.3, step=1)], [1.0])
    b = od.Log.of([decided(step=2)], [0.0])
    wide = od.Log.of(
        [od.decide(POLICY, POLICY.init(), np.full((2, 5), 0.5), 0.3, step=3)], [0.0]
    )
    joined = od.Log.concatenated([a, b, wide])
    assert joined.n_arms == 5
    apart = POLICY.init()
    for log in (a, b, wide):
        apart = od.fold(POLICY, apart, log.decisions(), log.reward)
    together = od.fold(POLICY, POLICY.init(), joined.decisions(), joined.reward)
    np.testing.assert_allclose(together.log_weights, apart.log_weights, atol=1e-14)


def test_large_ids_survive_json() -> None:
    ids = np.array([0, 2**64 - 1], dtype=np.uint64)
    np.testing.assert_array_equal(decode(json.loads(json.dumps(encode(ids)))), ids)


def zero_one(prediction: Any, reward: Any) -> Any:
    return ((prediction > 0.5) != (np.asarray(reward) > 0.5)).astype(float)


def test_a_loss_that_swallows_nan_does_not_score_sleepers() -> None:
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(("asleep", "b", "c")), zero_one, eta=1.0, gamma=0.1
    )
    decision = od.decide(policy, policy.init(), np.array([[np.nan], [0.9], [0.1]]), 0.3)
    assert policy.posterior(policy.update(policy.init(), decision, 1.0))[
        0
    ] == pytest.approx(1 / 3)


def test_fold_takes_only_rewards_that_fit() -> None:
    three = [decided()] * 3
    for wrong in (
        [[1.0], [0.0], [1.0]],
        [5.0, 0, 0],
        [np.nan, 0, 0],
        1.0,
        ["1", "0", "x"],
    ):
        with pytest.raises(od.InvalidInput, match="reward"):
            od.fold(POLICY, POLICY.init(), three, wrong)
    with pytest.raises(od.InvalidInput, match="state's shape"):
        od.fold(POLICY, POLICY.init((4,)), three, [1, 0, 1])
    with pytest.raises(od.InvalidInput, match="state's shape"):
        POLICY.merge(POLICY.init(), POLICY.init((3,)))
    with pytest.raises(od.InvalidInput, match="leading axis"):
        od.fold(POLICY, POLICY.init(), decided(), 1.0)


class Counts(NamedTuple):
    seen: Any


class Counter(od.Experts):
    """A learner that counts in place."""

    names = ("a", "b")
    learns = True

    def __init__(self, start: Any) -> None:
        self.start = start

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return Counts(self.start() if callable(self.start) else self.start)

    def predict(self, state: Any, context: Any) -> Any:
        return np.asarray(context)

    def update(self, state: Any, decision: Decision, reward: Any) -> Any:
        state.seen[decision.arm] += 1
        return state


def test_a_batch_that_is_refused_has_not_taught_the_learners() -> None:
    agent = od.Agent(
        od.GeneralizedThompsonSampling(Counter(lambda: np.zeros(3)), gamma=0.1), seed=1
    )
    batch = agent.decide_batch(np.stack([F, F]))
    assert batch.advice is not None
    refuted = batch._replace(advice=np.array([batch.advice[0], [1.0, 1.0]]))
    with pytest.raises(od.errors.AllExpertsRefuted):
        agent.learn(refuted, [0, 0])
    assert agent.state.experts.seen.sum() == 0
    agent.learn(batch, [0, 1])
    assert agent.state.experts.seen.sum() == 2


@pytest.mark.parametrize(
    "state",
    [{"a": 1}, None, [1, 2], np.array([object()])],
    ids=["dict", "None", "list", "object"],
)
def test_a_state_that_is_no_tree_of_arrays_is_not_saved(
    state: Any, tmp_path: Path
) -> None:
    agent = od.Agent(od.GeneralizedThompsonSampling(Counter(state), gamma=0.1), seed=1)
    with pytest.raises(od.errors.NotPortable, match="tree of arrays"):
        agent.save(tmp_path / "agent.npz")
    assert not list(tmp_path.iterdir())


class Owner:
    def foo(self, context: Any, arm: str) -> float:
        return 0.1

    def bar(self, context: Any, arm: str) -> float:
        return 0.2


def test_fingerprints_tell_policies_apart_and_only_policies() -> None:
    one, two = Owner().foo, Owner().bar
    assert od.fingerprint(od.FunctionExperts({"f": one}, ["x"])) != od.fingerprint(
        od.FunctionExperts({"f": two}, ["x"])
    )
    assert od.fingerprint(od.FunctionExperts({"f": one}, ["x"])) == od.fingerprint(
        od.FunctionExperts({"f": one}, ["x"])
    )
    permuted = Counter(0)
    permuted.names = ("b", "a")
    assert od.fingerprint(permuted) != od.fingerprint(Counter(0))
    same = [
        od.GeneralizedThompsonSampling(BANK, eta=eta, share=share, gamma=0.0)
        for eta, share in ((1, 0), (1.0, 0.0))
    ]
    assert od.fingerprint(same[0]) == od.fingerprint(same[1])


def test_float32_decisions_learn_the_same_after_json(any_kernels: str) -> None:
    bank = od.LinearExperts(
        np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
    )
    policy = od.GeneralizedThompsonSampling(bank, gamma=0.1, optimism=0.5)
    decision = od.decide(
        policy, policy.init(), np.ones((4, 3), np.float32), 0.5, step=1
    )
    back = Decision.from_json(decision.to_json())
    assert back == decision
    assert hash(back) == hash(decision)
    again = policy.update(policy.init(), back, 1.0)
    np.testing.assert_array_equal(
        policy.update(policy.init(), decision, 1.0).log_weights, again.log_weights
    )


def test_float32_scores_far_out_stay_probabilities(any_kernels: str) -> None:
    bank = od.LinearExperts(np.array([[100.0], [-100.0]], np.float32))
    predictions = bank.predict((), np.array([[1.0], [3.0]], np.float32))
    assert (predictions > 0).all()
    assert (predictions <= 1).all()


def test_classes_that_are_not_the_arms_are_refused() -> None:
    x = np.random.default_rng(0).normal(size=(90, 2))
    model = LogisticRegression().fit(x, np.repeat(["a", "b", "d"], 30))
    with pytest.raises(od.errors.ExpertFailed, match="classes among the arms"):
        od.ModelExperts({"m": model}, ["b", "a", "c"]).predict((), x[0])


@pytest.mark.parametrize("dtype", [">f8", np.float16, np.longdouble, np.int64])
def test_predictions_of_unusual_types(any_kernels: str, dtype: Any) -> None:
    odd = F.astype(dtype)
    np.testing.assert_allclose(
        POLICY.odds(POLICY.init(), odd).propensities,
        POLICY.odds(POLICY.init(), odd.astype(float))[0],
    )


def test_schedule_with_an_array_of_steps_for_one_context(any_kernels: str) -> None:
    policy = od.GeneralizedThompsonSampling(
        od.LinearExperts(np.eye(2)), gamma=od.policies.PowerSchedule(1.0, 1.0)
    )
    odds = policy.odds(
        policy.init(), np.array([[1.0, 1.0], [0.0, 0.0]]), step=np.array([1, 2, 4])
    ).propensities
    np.testing.assert_allclose(odds[:, 1], [0.5, 0.25, 0.125])


def test_caps_hold_for_odds_that_underflow() -> None:
    np.testing.assert_allclose(
        project(np.array([1.0, 1e-310]), np.zeros(2), np.array([0.5, 1.0])), [0.5, 0.5]
    )


def test_fold_and_update_agree_about_what_is_refuted() -> None:
    """Nobody slept on the drawn arm, so the reward refutes one expert only, however
    little weight the other has."""
    policy = od.GeneralizedThompsonSampling(BANK, od.log_loss, eta=1.0, gamma=0.5)
    state = ExpertState(np.array([0.0, -800.0]), 0, ())
    first = od.decide(policy, state, np.array([[1.0, np.nan], [0.5, 0.5]]), 0.1)
    second = od.decide(policy, state, np.array([[np.nan, np.nan], [0.5, 0.5]]), 0.1)
    folded = od.fold(policy, state, [first, second], [0, 1])
    np.testing.assert_array_equal(folded.log_weights, [-np.inf, 0])
