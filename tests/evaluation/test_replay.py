"""Replay against known values, and posteriors in hindsight against direct
enumeration."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import oddsmith as od

MEANS = np.array([[0.2, 0.7, 0.4], [0.6, 0.3, 0.5]])  # contexts x arms


def world(rows: int, seed: int, odds: Any = None) -> od.Log:
    """A log of two kinds of context, drawn with odds that may depend on the context."""
    rng = np.random.default_rng(seed)
    context = rng.integers(2, size=rows)
    propensities = (
        np.full((rows, 3), 1 / 3) if odds is None else np.asarray(odds)[context]
    )
    arm = (rng.random(rows)[:, None] > propensities.cumsum(axis=1)).sum(axis=1)
    reward = (rng.random(rows) < MEANS[context, arm]).astype(float)
    return od.Log(arm=arm, reward=reward, propensities=propensities, context=context)


def learner() -> Any:
    tables = np.stack([MEANS, MEANS[:, ::-1], np.full((2, 3), 0.4)], axis=1)
    experts = od.TableExperts(tables, names=("true", "mirrored", "flat"))
    return od.GeneralizedThompsonSampling(experts, gamma=0.1)


def live(steps: int, runs: int) -> tuple[float, float]:
    """The mean reward per step of the learner in the world itself, and its standard
    error."""
    rng, policy, totals = np.random.default_rng(99), learner(), []
    for _ in range(runs):
        state, total = policy.init(), 0.0
        for t in range(steps):
            context = int(rng.integers(2))
            decision = od.decide(
                policy, state, context, float(rng.random()), step=t + 1
            )
            reward = float(rng.random() < MEANS[context, decision.arm])
            state = policy.update(state, decision, reward)
            total += reward
        totals.append(total / steps)
    return float(np.mean(totals)), float(np.std(totals) / np.sqrt(runs))


@pytest.mark.parametrize("odds", [None, [[0.6, 0.2, 0.2], [0.15, 0.5, 0.35]]])
def test_a_learner_replayed_earns_what_it_earns_live(odds: Any) -> None:
    """20 steps, 250 replays against 600 live runs; 4 standard errors: fails by chance 6
    times in 100,000."""
    values = []
    for seed in range(250):
        done = od.replay(learner(), world(400, seed, odds), seed=seed, steps=20)
        assert len(done.rows) == 20
        values.append(done.value)
    expected, error = live(20, 600)
    assert abs(np.mean(values) - expected) < 4 * np.hypot(
        error, np.std(values) / np.sqrt(250)
    )


def test_a_fixed_policy_is_replayed_at_its_known_value() -> None:
    """A greedy expert that is always right earns the mean of the best arms; 4 standard
    errors."""
    policy = od.thompson_sampling(od.TableExperts(MEANS[:, None, :], names=("true",)))
    log = world(30_000, 3, [[0.6, 0.2, 0.2], [0.15, 0.5, 0.35]])
    done = od.replay(policy, log, seed=1)
    assert abs(done.value - MEANS.max(axis=1).mean()) < 4 * done.error
    np.testing.assert_array_equal(
        log.arm[done.rows], MEANS.argmax(axis=1)[log.context[done.rows]]
    )
    assert abs(len(done.rows) - 0.15 * 30_000) < 4 * np.sqrt(0.15 * 0.85 * 30_000)
    np.testing.assert_array_equal(done.log().reward, done.rewards)


def test_one_draw_of_the_log_is_the_same_replay_again() -> None:
    log = world(500, 0)
    first, again = (od.replay(learner(), log, seed=5) for _ in range(2))
    assert isinstance(first, od.evaluation.Replayed)
    np.testing.assert_array_equal(first.rows, again.rows)
    np.testing.assert_array_equal(first.state.log_weights, again.state.log_weights)
    shorter = od.replay(learner(), log, seed=5, steps=7)
    np.testing.assert_array_equal(shorter.rows, first.rows[:7])


def test_what_cannot_be_replayed_is_refused() -> None:
    log = world(50, 0)
    certain = od.Log(
        arm=log.arm, reward=log.reward, context=log.context, propensity=np.ones(50)
    )
    drawn = log.without("propensities")
    columns: Any = {
        "arm": [0, 0],
        "reward": [1, 0],
        "propensities": [[1, 0], [0.5, 0.5]],
        "context": [0, 1],
    }
    zero = od.Log(**columns)
    for wrong, message in {
        certain: "propensities of all arms .* this one is deterministic",
        drawn: "propensities of all arms .* this one is drawn",
        log.without(
            "propensity", "propensities"
        ): "importance weights .* this one is unknown",
        log.without("context"): "column context: must be given",
        zero: "must be above 0 for every eligible arm",
    }.items():
        with pytest.raises(od.InvalidInput, match=message):
            od.replay(learner(), wrong, seed=1)
    with pytest.raises(
        od.InvalidInput, match="floor must be at most the log's least odds"
    ):
        od.replay(learner(), drawn, seed=1, floor=0.5)
    named = od.Log(
        arm=log.arm,
        reward=log.reward,
        context=log.context,
        propensity=log.propensity,
        arms=["a", "b", "c"],
    )
    # uniform: the other arms' odds are known too
    assert len(od.replay(learner(), named, seed=1).rows) > 0


NAMES = ("old", "older", "new")


def told(rows: int = 8) -> tuple[Any, od.Log, Any]:
    """A log with advice of all three experts for the drawn arm, made from contexts that
    hold it for all arms."""
    rng = np.random.default_rng(4)
    context = rng.uniform(0.1, 0.9, (rows, 3, 2))
    arm, reward = rng.integers(2, size=rows), rng.integers(2, size=rows).astype(float)
    advice = context[np.arange(rows), :, arm]
    time = np.datetime64("2026-02-27") + np.arange(rows)
    log = od.Log(
        arm=arm, reward=reward, advice=advice, context=context, time=time, experts=NAMES
    )
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(NAMES), eta=1.0, prior=[0.5, 0.3, 0.2], gamma=0.0
    )
    return policy, log, np.where(reward[:, None] == 1, advice, 1 - advice)


def test_hindsight_is_bayes_rule() -> None:
    policy, log, likelihood = told()
    found = od.evaluation.hindsight(policy, log)
    expected = policy.prior * likelihood.prod(axis=0)
    np.testing.assert_allclose(found.posterior, expected / expected.sum(), atol=1e-12)
    np.testing.assert_allclose(
        found.losses, -np.log(likelihood).mean(axis=0), atol=1e-12
    )
    fold = od.fold(policy, policy.init(), _decisions(log), log.reward)
    np.testing.assert_allclose(found.log_weights[-1], fold.log_weights, atol=1e-12)
    assert found.winner == NAMES[int(expected.argmax())]
    assert isinstance(found, od.evaluation.Hindsight)


def _decisions(log: od.Log) -> od.Decision:
    return od.Decision(
        None, None, None, log.arm, np.full((len(log), 2), 0.5), log.advice
    )


@pytest.mark.parametrize("start", [3, "2026-03-02"])
def test_a_newcomer_enters_with_its_prior_share(start: Any) -> None:
    """By hand: Bayes of the two old experts until row 3, then all three, the newcomer
    with a fifth of the weight."""
    policy, log, likelihood = told()
    found = od.evaluation.hindsight(policy, log, since={"new": start})
    old = np.array([0.5, 0.3]) * likelihood[:3, :2].prod(axis=0)
    at_entry = np.append(0.8 * old / old.sum(), 0.2)
    np.testing.assert_allclose(
        np.exp(found.log_weights[3]) / np.exp(found.log_weights[3]).sum(),
        at_entry,
        atol=1e-12,
    )
    expected = at_entry * likelihood[3:].prod(axis=0)
    np.testing.assert_allclose(found.posterior, expected / expected.sum(), atol=1e-12)
    np.testing.assert_allclose(
        found.losses[2], -np.log(likelihood[3:, 2]).mean(), atol=1e-12
    )


def test_experts_the_log_never_asked_are_asked_now() -> None:
    policy, log, _ = told()
    advice: Any = log.advice
    known: Any = {
        "arm": log.arm,
        "reward": log.reward,
        "context": log.context,
        "experts": ["old", "older"],
    }
    found = od.evaluation.hindsight(policy, od.Log(advice=advice[:, :2], **known))
    np.testing.assert_allclose(
        found.posterior, od.evaluation.hindsight(policy, log).posterior, atol=1e-12
    )
    mixed = od.evaluation.hindsight(policy, od.Log(advice=advice[:, :2] * 0.5, **known))
    # what was said then counts, not what is said now
    assert not np.allclose(mixed.posterior, found.posterior)
    bare = od.evaluation.hindsight(policy, log.without("advice"))
    np.testing.assert_allclose(bare.posterior, found.posterior, atol=1e-12)


def test_rows_without_reward_count_as_rows() -> None:
    policy, log, likelihood = told()
    reward = np.where(np.arange(8) == 1, np.nan, log.reward)
    waiting = od.Log(arm=log.arm, reward=reward, advice=log.advice, experts=NAMES)
    kept = [0, 2, 3, 4, 5, 6, 7]
    found = od.evaluation.hindsight(policy, waiting, since={"new": 4})
    np.testing.assert_allclose(
        found.losses[2], -np.log(likelihood[4:, 2]).mean(), atol=1e-12
    )
    assert len(found.log_weights) == len(kept) + 1
    assert all(a.max() == b.max() == 0 for a, b in pairwise(found.log_weights))


def test_wrong_questions() -> None:
    policy, log, _ = told()
    ordered = od.GeneralizedThompsonSampling(
        od.GivenExperts(NAMES), share=0.1, gamma=0.0
    )
    with pytest.raises(od.errors.OrderMatters, match="hindsight needs"):
        od.evaluation.hindsight(ordered, log)
    for options, message in (
        ({"since": {"nobody": 3}}, "since must name experts"),
        ({"since": {"new": "spring"}}, "since must be rows or times"),
        (
            {"since": dict.fromkeys(NAMES, 2)},
            "must leave an expert in the pool at every row; row 0",
        ),
    ):
        with pytest.raises(od.InvalidInput, match=message):
            od.evaluation.hindsight(policy, log, **options)
