"""Algorithm 1 against numbers computed with scalar 50-digit arithmetic
(vectors.json)."""

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.core.draw import draw
from oddsmith.core.expert_policy import ExpertState
from paper.reference import (
    CASES,
    LOSSES,
    VECTORS,
    experts_of,
    floats,
    policy_of,
    rational,
)


def forced(odds: od.Odds, context: Any, arm: int, step: int) -> od.Decision:
    """The decision for a given arm: drawn by a uniform number from the middle of that
    arm's share."""
    cumulative = np.cumsum(odds.propensities)
    uniform = float(cumulative[arm] - odds.propensities[arm] / 2)
    decision = draw(odds, context, uniform, step=step)
    assert decision.arm == arm
    return decision


@pytest.mark.parametrize("name", CASES)
def test_case(name: str, any_kernels: str) -> None:
    case, tables = CASES[name], experts_of(name)
    policy = policy_of(case)
    state = policy.init()
    for t, step in enumerate(case["steps"]):
        predictions = tables[step["context"]].copy()
        if case["asleep"]:
            predictions[case["asleep"][t]] = np.nan
        policy = replace(policy, gamma=rational(step["gamma"]))
        odds = policy.odds(state, predictions, step=t + 1)
        np.testing.assert_allclose(
            odds.propensities, floats(step["arm_probs_before"]), atol=1e-12, rtol=0
        )
        state = policy.update(
            state,
            forced(odds, predictions, step["arm"], t + 1),
            rational(step["reward"]),
        )
        np.testing.assert_allclose(
            policy.posterior(state), floats(step["posterior_after"]), atol=1e-12, rtol=0
        )


def square_eta1_decisions() -> tuple[
    od.GeneralizedThompsonSampling, list[od.Decision], list[float]
]:
    """The six steps of `square_eta1` as decisions and rewards."""
    case, tables = CASES["square_eta1"], experts_of("square_eta1")
    policy = policy_of(case)
    decisions = [
        forced(
            policy.odds(policy.init(), tables[s["context"]]),
            tables[s["context"]],
            s["arm"],
            t + 1,
        )
        for t, s in enumerate(case["steps"])
    ]
    return policy, decisions, [rational(s["reward"]) for s in case["steps"]]


def log_posterior(log_weights: Array) -> Array:
    return np.asarray(log_weights - np.log(np.exp(log_weights).sum()))


def test_delay_any_order_gives_the_same_posterior(any_kernels: str) -> None:
    policy, decisions, rewards = square_eta1_decisions()
    expected = floats(VECTORS["delay"]["log_posterior"])
    for order in itertools.permutations(range(6)):
        state = policy.init()
        for t in order:
            state = policy.update(state, decisions[t], rewards[t])
        np.testing.assert_allclose(
            log_posterior(state.log_weights), expected, atol=1e-12, rtol=0
        )


def test_long_run_one_update_at_a_time(any_kernels: str) -> None:
    policy, decisions, rewards = square_eta1_decisions()
    state = policy.init()
    for _ in range(int(VECTORS["long_run"]["repeats"])):
        for decision, reward in zip(decisions, rewards, strict=True):
            state = policy.update(state, decision, reward)
    np.testing.assert_allclose(
        log_posterior(state.log_weights),
        floats(VECTORS["long_run"]["log_posterior"]),
        rtol=1e-11,
    )


def test_long_run_folded_in_blocks(any_kernels: str) -> None:
    policy, decisions, rewards = square_eta1_decisions()
    repeats = int(VECTORS["long_run"]["repeats"])
    stacked: Any = od.Decision.stack(decisions)
    many = stacked._replace(
        advice=np.tile(stacked.advice, (repeats, 1)),
        propensities=np.tile(stacked.propensities, (repeats, 1)),
    )
    state = od.fold(policy, policy.init(), many, np.tile(rewards, repeats))
    np.testing.assert_allclose(
        log_posterior(state.log_weights),
        floats(VECTORS["long_run"]["log_posterior"]),
        rtol=1e-12,
    )
    assert state.learnt == 6 * repeats


@pytest.mark.parametrize(
    "case", VECTORS["exact_enumeration"], ids=lambda case: str(case["name"])
)
def test_exact_enumeration(case: Any, any_kernels: str) -> None:
    """An exact walk over all arm and reward sequences, on our own odds and update."""
    tables = experts_of("square_paper")
    loss = LOSSES[case["loss"]]
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(("true", "b", "c")),
        loss,
        eta=rational(case["eta"]),
        gamma=rational(case["gamma"]),
        prior=floats(case["prior"]),
    )
    sums = dict.fromkeys(("regret", "gap", "lbar", "ln_w"), 0.0)

    def walk(t: int, probability: float, state: ExpertState, shifted: Array) -> None:
        if t == len(case["contexts"]):
            sums["ln_w"] += probability * float(
                np.log((floats(case["prior"]) * np.exp(-policy.eta * shifted)).sum())
            )
            return
        f = tables[case["contexts"][t]]
        odds = policy.odds(state, f, step=t + 1)
        weights, p = policy.posterior(state), odds.propensities
        sums["regret"] += probability * float(f[0].max() - p @ f[0])
        sums["gap"] += probability * float(weights @ ((f - f[0]) ** 2 @ p))
        for arm, reward in itertools.product(range(f.shape[1]), (0.0, 1.0)):
            branch = p[arm] * (f[0, arm] if reward else 1 - f[0, arm])
            if branch > 0:
                lhat = loss(f[:, arm], reward) - loss(f[:1, arm], reward)
                sums["lbar"] += probability * branch * float(weights @ lhat)
                next_state = policy.update(state, forced(odds, f, arm, t + 1), reward)
                walk(t + 1, probability * branch, next_state, shifted + lhat)

    walk(0, 1.0, policy.init(), np.zeros(3))
    expected = {
        "regret": case["expected_pseudo_regret"],
        "gap": case["expected_sum_D_square_gap"],
        "lbar": case["expected_sum_lbar"],
        "ln_w": case["expected_ln_W_shifted"],
    }
    for name, value in expected.items():
        assert sums[name] == pytest.approx(rational(value), abs=1e-12), name


@pytest.mark.parametrize(
    "case",
    VECTORS["pessimistic_chain"],
    ids=lambda c: f"p{c['p1']}-eta{c['eta']}-T{c['T']}",
)
def test_pessimistic_chain(case: Any, any_kernels: str) -> None:
    """Dynamic programming over our own odds and update: the state is how often arm 1
    paid more than it failed."""
    f = np.array([[0.5, 0.9], [0.5, 0.1]])
    p1, steps = rational(case["p1"]), int(case["T"])
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(("true", "wrong")),
        od.log_loss,
        eta=rational(case["eta"]),
        gamma=0.0,
        prior=[p1, 1 - p1],
    )
    # all 2T + 1 states as one batch: T failures … T successes of arm 1 on top of the
    # prior
    start = policy.init((2 * steps + 1,))
    lattice = np.arange(-steps, steps + 1)
    column = np.broadcast_to(f[:, 1], (2 * steps + 1, 2))
    decision = od.Decision(
        None,
        None,
        None,
        np.ones(2 * steps + 1, dtype=int),
        np.full((2 * steps + 1, 2), 0.5),
        column,
    )
    state = start
    for k in range(1, steps + 1):
        paid = policy.update(state, decision, np.where(lattice > 0, 1.0, 0.0))
        moved = np.where(
            (abs(lattice) >= k)[:, None], paid.log_weights, state.log_weights
        )
        state = ExpertState(moved, k, ())
    odds = policy.odds(state, f).propensities
    mass, regret = (lattice == 0).astype(float), 0.0
    for _ in range(steps):
        regret += float(mass @ (0.9 - odds @ f[0]))
        pulled = mass * odds[:, 1]
        mass = mass * odds[:, 0]
        mass[1:] += 0.9 * pulled[:-1]
        mass[:-1] += 0.1 * pulled[1:]
    assert regret == pytest.approx(rational(case["expected_pseudo_regret"]), abs=1e-12)
