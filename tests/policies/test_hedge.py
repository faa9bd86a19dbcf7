"""Hedged against enumeration, against its pathwise inequality after every update, and
against EXP4 written out."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.policies.hedge import HedgedState
from paper.agnostic import A1_EXPERTS, AGNOSTIC, futures

GTS = od.GeneralizedThompsonSampling
A1 = {"A1": (np.array([0.5, 0.6]), AGNOSTIC["A1_hedged_enum"]["data"])}
A1["realizable twin"] = (
    A1["A1"][0][::-1],
    AGNOSTIC["A1_hedged_enum"]["realizable_twin_mu=(3/5,1/2)"],
)


@pytest.mark.parametrize("world", A1)
def test_enumeration(world: str) -> None:
    """Regret, price and trust over all arms and rewards of four steps, to 1e-12."""
    means, rows = A1[world]
    policy = od.hedged(od.GivenExperts(["predictor", "adviser"]))
    np.testing.assert_allclose(np.exp(policy.log_prior), [0.25, 0.25, 0.5])
    regret = of_gts = 0.0
    leaves = [(1.0, policy.init())]
    for row in rows:
        gap = means.max() - means
        for chance, state in leaves:
            odds = policy.odds(state, A1_EXPERTS)
            regret += chance * float(odds.propensities @ gap)
            of_gts += chance * float(odds.advice[-1] @ gap)  # type: ignore[index]
        leaves = [
            future
            for leaf in leaves
            for future in futures(policy, leaf, A1_EXPERTS, means)
        ]
        price = sum(chance * float(state.price) for chance, state in leaves)
        trust = sum(
            chance * float(policy.members(state)[-1]) for chance, state in leaves
        )
        wanted = [
            float(row[name])
            for name in ("regret", "price", "gts_advice_regret", "q_gts_after")
        ]
        np.testing.assert_allclose(
            [regret, price, of_gts, trust], wanted, atol=1e-12, rtol=0
        )


class Game:
    """A random game: contexts, prior, GTS and rewards may be anything, some experts
    sleep, arms come and go."""

    def __init__(self, seed: int) -> None:
        self.rng = rng = np.random.default_rng(seed)
        self.n, self.k = int(rng.integers(1, 7)), int(rng.integers(2, 6))
        prior = rng.dirichlet(np.ones(self.n))
        loss, eta = [(od.log_loss, 0.5), (od.square_loss, 1.0), (od.log_loss, 1.0)][
            seed % 3
        ]
        inside = GTS(
            od.GivenExperts([str(i) for i in range(self.n)]),
            loss,
            eta=eta,
            gamma=0.1 * (seed % 2),
            prior=prior,
        )
        self.policy = od.Hedged(inside, trust=float(rng.uniform(0.05, 0.95)))
        self.sleepy = 0.2 * (seed % 4 == 3)
        self.taste = rng.random(self.k)

    def play(self, steps: int) -> Iterator[tuple[HedgedState, od.Decision, float]]:
        """The state before each decision, the decision, and its reward: random, or what
        hurts the leader."""
        state, rng = self.policy.init(), self.rng
        for t in range(steps):
            # ties in every other step
            said = rng.uniform(0.06, 0.94, (self.n, self.k)).round(1 if t % 2 else 3)
            said[rng.random(self.n) < self.sleepy] = np.nan
            mask = rng.random(self.k) < 0.8
            mask[int(rng.integers(self.k))] = True
            decision = od.decide(
                self.policy, state, said, float(rng.random()), eligible=mask, step=t + 1
            )
            cruel = float(decision.propensity < 1 / self.k)
            reward = (
                cruel if t % 3 == 0 else float(rng.random() < self.taste[decision.arm])
            )
            yield state, decision, reward
            state = self.policy.update(state, decision, reward)


@pytest.mark.parametrize("seed", range(40))
def test_no_path_exceeds_the_inequality(seed: int) -> None:
    """Σ (1 - r) - L_j <= (Δ_T - 1) + ln(1/π_j) Δ_{T-1} / D for every member, after
    every update; gaps in [0, 1]."""
    game = Game(seed)
    policy, spent, squares = game.policy, 0.0, 0.0
    for state, decision, reward in game.play(150):
        after = policy.update(state, decision, reward)
        spent += 1 - reward
        promised = (
            after.price - 1 - policy.log_prior * float(state.price) / policy.scale
        )
        assert (spent - after.lost <= promised + 1e-9).all()
        assert 0 <= after.price - state.price <= 1 + 1e-12
        rates = decision.bonus[game.n :]  # type: ignore[index]
        lost = (
            np.nan_to_num(decision.advice[game.n :])  # type: ignore[index]
            * (1 - reward)
            / decision.propensity
        )
        squares += float((rates / rates.sum()) @ lost**2)
        assert after.price <= 0.5 + np.sqrt(0.25 + policy.scale * squares) + 1e-9


def test_it_is_exp4_over_gts_written_out() -> None:
    """Twenty steps of the formulas of 7.4 in scalars, GTS beside them as it runs
    alone."""
    game = Game(0)
    policy, inside = game.policy, game.policy.policy
    pi = np.append((1 - policy.trust) * inside.prior, policy.trust)
    lost, price, own = np.zeros(game.n + 1), 1.0, inside.init()
    depth = float(np.log(1 / pi.min()))
    for _, decision, reward in game.play(20):
        odds = inside.odds(
            own, decision.context, eligible=decision.eligible, step=decision.step
        )
        ballots = np.vstack(
            [_greedy(decision.context, decision.eligible), odds.propensities]
        )
        rate = depth / price
        q = pi * np.exp(-rate * (lost - lost.min()))
        q /= q.sum()
        np.testing.assert_allclose(decision.propensities, q @ ballots, atol=1e-14)
        estimates = ballots[:, decision.arm] * (1 - reward) / decision.propensity
        price += 1 - reward + float(np.log(q @ np.exp(-rate * estimates))) / rate
        lost += estimates
        alone = decision._replace(
            advice=decision.context[:, decision.arm], bonus=None, log_weights=None
        )
        own = inside.update(own, alone, reward)
    for state, decision, reward in Game(0).play(20):
        last = policy.update(state, decision, reward)
    np.testing.assert_allclose(last.lost, lost, rtol=1e-12)
    np.testing.assert_allclose(last.price, price, rtol=1e-12)
    np.testing.assert_allclose(last.current.log_weights, own.log_weights, atol=1e-12)


def _greedy(predictions: Any, eligible: Any) -> Any:
    allowed = np.where(eligible, predictions, -1.0)
    best = allowed == allowed.max(axis=1, keepdims=True)
    return best / best.sum(axis=1, keepdims=True)


def test_rewards_come_late_in_any_order_and_change() -> None:
    game = Game(3)  # where experts sleep
    policy = game.policy
    played = [(decision, reward) for _, decision, reward in game.play(40)]
    decisions, rewards = [list(column) for column in zip(*played, strict=True)]
    once = od.fold(policy, policy.init(), decisions, rewards)
    state = policy.init()
    for i in np.random.default_rng(1).permutation(40):
        state = policy.update(state, decisions[i], 0.5)
        state = policy.revise(
            state, od.Decision.from_json(decisions[i].to_json()), 0.5, rewards[i]
        )
    np.testing.assert_allclose(state.lost, once.lost, rtol=1e-10)
    np.testing.assert_allclose(state.price, once.price, rtol=1e-10)
    np.testing.assert_allclose(
        state.current.log_weights, once.current.log_weights, atol=1e-10
    )
    halves = [
        od.fold(policy, policy.init(), decisions[part], rewards[part])
        for part in (slice(15), slice(15, 40))
    ]
    merged = policy.merge(*halves)
    np.testing.assert_allclose(merged.lost, once.lost, rtol=1e-12)
    np.testing.assert_allclose(merged.price, once.price, rtol=1e-12)


def test_members_that_agree_cost_nothing() -> None:
    policy = od.hedged(od.GivenExperts(["a", "b"]))
    state = policy.init()
    for t in range(30):
        decision = od.decide(
            policy, state, np.array([[0.2, 0.8], [0.1, 0.7]]), 0.5, step=t + 1
        )
        assert (decision.arm, decision.propensity) == (1, 1)
        state = policy.update(state, decision, 0.0)
    assert state.price == pytest.approx(1, abs=1e-12)


def test_an_expert_without_a_prior_is_no_member() -> None:
    policy = od.hedged(od.GivenExperts(["a", "b", "c"]), prior=[0.5, 0.5, 0.0])
    assert policy.scale == pytest.approx(np.log(4))
    assert policy.members(policy.init())[2] == 0


def test_the_explanation_adds_up_and_says_what_safety_costs() -> None:
    policy = od.Hedged(GTS(od.GivenExperts(["predictor", "adviser"]), gamma=0.1))
    state, rng = policy.init(), np.random.default_rng(2)
    for t in range(2000):
        decision = od.decide(policy, state, A1_EXPERTS, float(rng.random()), step=t + 1)
        state = policy.update(
            state, decision, float(rng.random() < (0.1, 0.9)[decision.arm])
        )
    told = policy.explain(state, A1_EXPERTS)
    gamma = told.uniform.sum()
    np.testing.assert_allclose(
        (1 - gamma) * told.weights @ told.ballots + told.uniform,
        told.propensities,
        atol=1e-12,
    )
    np.testing.assert_allclose(
        policy.odds(state, A1_EXPERTS).propensities, told.propensities, atol=1e-15
    )
    assert policy.posterior(state).sum() == pytest.approx(1)
    assert "Estimated price of safety after 2,000 rewards: " in str(told)


def test_what_it_refuses() -> None:
    bank = od.GivenExperts(["a", "b"])
    with pytest.raises(
        od.InvalidInput, match="policy must be a GeneralizedThompsonSampling; got EXP4"
    ):
        od.Hedged(od.policies.EXP4(bank, eta=0.1))  # type: ignore[arg-type]
    for trust in (0.0, 1.0, float("nan")):
        with pytest.raises(od.InvalidInput, match="trust"):
            od.hedged(bank, trust=trust)
    policy = od.hedged(bank)
    decision = od.decide(policy, policy.init(), A1_EXPERTS, 0.5)
    with pytest.raises(od.InvalidInput, match="bonus that Hedged needs"):
        policy.update(policy.init(), decision._replace(bonus=None), 1.0)
