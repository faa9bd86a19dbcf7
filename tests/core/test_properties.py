"""What the algorithm promises, on random instances (hypothesis)."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.core.expert_policy import ExpertState


def instance(
    seed: int, *, sleepy: bool = False
) -> tuple[Array, list[Array], Array, Array]:
    """Prior (N,), contexts [(N, K)], uniforms and rewards (T,) of a random problem."""
    rng = np.random.default_rng(seed)
    n, k, t = rng.integers(1, 8), rng.integers(1, 6), 40
    contexts = [rng.uniform(0.02, 0.98, (n, k)) for _ in range(t)]
    if sleepy:
        contexts = [np.where(rng.random((n, k)) < 0.2, np.nan, f) for f in contexts]
        contexts = [np.where(rng.random((n, 1)) < 0.2, np.nan, f) for f in contexts]
    return rng.dirichlet(np.ones(n)), contexts, rng.random(t), rng.random(t)


def bank(n: int) -> od.GivenExperts:
    return od.GivenExperts(tuple(f"e{i}" for i in range(n)))


def play(
    policy: od.GeneralizedThompsonSampling,
    contexts: list[Array],
    uniforms: Array,
    rewards: Array,
) -> Any:
    """Decisions made and learnt one after the other: (decisions, state)."""
    state, decisions = policy.init(), []
    for t, context in enumerate(contexts):
        decisions.append(
            od.decide(policy, state, context, float(uniforms[t]), step=t + 1)
        )
        state = policy.update(state, decisions[-1], float(rewards[t]))
    return decisions, state


def same(
    policy: od.GeneralizedThompsonSampling, a: ExpertState, b: ExpertState
) -> None:
    np.testing.assert_allclose(
        policy.posterior(a), policy.posterior(b), atol=1e-12, rtol=0
    )


@given(st.integers(0, 10**6))
@settings(max_examples=60)
def test_thompson_sampling_is_exact_bayes(any_kernels: str, seed: int) -> None:
    prior, contexts, uniforms, rewards = instance(seed)
    rewards = (rewards < 0.5).astype(float)
    policy = od.thompson_sampling(bank(len(prior)), prior)
    decisions, state = play(policy, contexts, uniforms, rewards)
    likelihood = np.ones_like(prior)
    for context, decision, reward in zip(contexts, decisions, rewards, strict=True):
        f = context[:, decision.arm]
        likelihood *= f if reward == 1 else 1 - f
    bayes = prior * likelihood / (prior * likelihood).sum()
    np.testing.assert_allclose(policy.posterior(state), bayes, atol=1e-12, rtol=0)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([0.0, 0.3]))
@settings(max_examples=60)
def test_order_batching_and_merging_do_not_matter(
    any_kernels: str, seed: int, sleepy: bool, optimism: float
) -> None:
    prior, contexts, uniforms, rewards = instance(seed, sleepy=sleepy)
    policy = od.GeneralizedThompsonSampling(
        bank(len(prior)),
        od.square_loss,
        eta=0.8,
        gamma=0.1,
        prior=prior,
        optimism=optimism,
    )
    decisions, in_order = play(policy, contexts, uniforms, rewards)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(decisions))
    late = policy.init()
    for t in order:
        late = policy.update(late, decisions[t], float(rewards[t]))
    same(policy, late, in_order)
    batched, start = policy.init(), 0
    for end in (*sorted(rng.integers(1, 40, 3).tolist()), len(decisions)):
        batched = od.fold(policy, batched, decisions[start:end], rewards[start:end])
        start = end
    same(policy, batched, in_order)
    parts = [
        od.fold(policy, policy.init(), [decisions[t] for t in part], rewards[part])
        for part in np.split(order, 4)
    ]
    same(policy, policy.merge(*parts), in_order)


@given(st.integers(0, 10**6), st.floats(0.1, 10), st.floats(-5, 5))
@settings(max_examples=60)
def test_scale_and_shift_of_the_loss_do_not_matter(
    any_kernels: str, seed: int, beta: float, shift: float
) -> None:
    prior, contexts, uniforms, rewards = instance(seed)
    losses: tuple[Any, ...] = (
        od.log_loss,
        od.losses.scaled(od.log_loss, beta),
        lambda g, r: od.log_loss(g, r) + shift * (1 + r),
    )
    etas = (0.5, 0.5 * beta, 0.5)
    finals = []
    for loss, eta in zip(losses, etas, strict=True):
        policy = od.GeneralizedThompsonSampling(
            bank(len(prior)), loss, eta=eta, gamma=0.1, prior=prior
        )
        finals.append(play(policy, contexts, uniforms, rewards)[1])
    same(policy, finals[0], finals[1])
    same(policy, finals[0], finals[2])


@given(st.integers(0, 10**6), st.floats(0, 1), st.booleans())
@settings(max_examples=80)
def test_odds_are_a_distribution_with_a_floor(
    any_kernels: str, seed: int, gamma: float, sleepy: bool
) -> None:
    prior, contexts, *_ = instance(seed, sleepy=sleepy)
    rng = np.random.default_rng(seed)
    policy = od.GeneralizedThompsonSampling(bank(len(prior)), gamma=gamma, prior=prior)
    for context in contexts[:5]:
        eligible: Any = rng.random(context.shape[1]) < 0.7
        eligible[rng.integers(context.shape[1])] = True
        odds = policy.odds(policy.init(), context, eligible=eligible).propensities
        assert odds.sum() == pytest.approx(1, abs=1e-12)
        assert (odds[eligible] >= gamma / eligible.sum() - 1e-15).all()
        assert (odds[~eligible] == 0).all()


@pytest.mark.parametrize("leader_asleep", [False, True])
def test_a_million_experts_with_far_apart_weights(
    any_kernels: str, leader_asleep: bool
) -> None:
    n, k = 1_000_000, 10
    rng = np.random.default_rng(1)
    predictions = rng.random((k, n)).T
    log_weights = -rng.uniform(0, 1e5, n)
    log_weights[17] = 0.0
    if leader_asleep:
        predictions[17] = np.nan
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(tuple(map(str, range(n)))), gamma=0.05
    )
    odds = policy.odds(ExpertState(log_weights, 0, ()), predictions)
    assert abs(odds.propensities.sum() - 1) <= 1e-12
    assert (odds.propensities >= 0.05 / k).all()
    awake = np.where(np.isnan(predictions[:, 0]), -np.inf, log_weights)
    weights = np.exp(awake - awake.max())
    votes = np.bincount(
        np.nanargmax(np.nan_to_num(predictions, nan=-1), axis=1),
        weights=weights,
        minlength=k,
    )
    np.testing.assert_allclose(
        odds.propensities, 0.95 * votes / weights.sum() + 0.005, rtol=1e-9
    )


def test_drawn_frequencies_match_the_odds(any_kernels: str) -> None:
    """Chi-square over 200,000 draws by the agent's own uniforms; a false alarm has
    probability 1e-4."""
    prior, contexts, *_ = instance(5)
    policy = od.GeneralizedThompsonSampling(bank(len(prior)), gamma=0.2, prior=prior)
    state, uniforms = policy.init(), od.Uniforms(11)
    odds = policy.odds(state, contexts[0])
    draws = np.array([uniforms(i) for i in range(200_000)])
    single = [od.draw(odds, None, float(u)).arm for u in draws[:2000]]
    batch = od.draw(odds, None, draws).arm
    assert single == batch[:2000].tolist()
    counts = np.bincount(batch, minlength=len(odds.propensities))
    assert stats.chisquare(counts, odds.propensities * len(draws)).pvalue > 1e-4


def test_numpy_and_numba_draw_the_same_arms() -> None:
    from oddsmith.core import kernels

    rng = np.random.default_rng(3)
    experts = od.LinearExperts(rng.normal(size=(64, 6)))
    runs = {}
    for choice in ("numpy", "numba"):
        kernels.use(choice)
        agent = od.Agent(od.GeneralizedThompsonSampling(experts, gamma=0.05), seed=9)
        contexts = np.random.default_rng(4).normal(size=(3000, 5, 6))
        drawn = []
        for t, context in enumerate(contexts):
            decision = agent.decide(
                context,
                eligible=[True, True, t % 3 != 0, True, True] if t % 2 else None,
            )
            agent.learn(decision, float((decision.arm + t) % 3 == 0))
            drawn.append((decision.arm, decision.propensities))
        runs[choice] = drawn
    kernels.use("auto")
    assert [arm for arm, _ in runs["numpy"]] == [arm for arm, _ in runs["numba"]]
    odds = [np.array([p for _, p in runs[choice]]) for choice in ("numpy", "numba")]
    np.testing.assert_allclose(odds[0], odds[1], atol=1e-11)


def test_batch_axes_give_what_single_decisions_give(any_kernels: str) -> None:
    rng = np.random.default_rng(8)
    policy = od.GeneralizedThompsonSampling(
        bank(4), od.square_loss, eta=1.0, gamma=0.1, share=0.02, optimism=0.2
    )
    runs, steps = 7, 30
    contexts, uniforms, rewards = (
        rng.random((steps, runs, 4, 3)),
        rng.random((steps, runs)),
        rng.random((steps, runs)),
    )
    contexts[:, ::2, 1] = np.nan
    state = policy.init((runs,))
    singles = [policy.init() for _ in range(runs)]
    for t in range(steps):
        decision = od.decide(policy, state, contexts[t], uniforms[t], step=t + 1)
        for r in range(runs):
            one = od.decide(
                policy, singles[r], contexts[t, r], float(uniforms[t, r]), step=t + 1
            )
            assert one.arm == decision.arm[r]
            np.testing.assert_allclose(
                one.propensities, decision.propensities[r], atol=1e-12
            )
            singles[r] = policy.update(singles[r], one, float(rewards[t, r]))
        state = policy.update(state, decision, rewards[t])
    np.testing.assert_allclose(
        policy.posterior(state), [policy.posterior(s) for s in singles], atol=1e-12
    )


def test_fixed_share_follows_a_switch() -> None:
    """With share the posterior comes back from a long wrong lead at once; without, it
    takes as long as the lead."""
    context = np.array([[0.9, 0.1], [0.1, 0.9]])
    rounds = {}
    for share in (0.0, 0.01):
        policy = od.GeneralizedThompsonSampling(
            bank(2), od.square_loss, eta=1.0, gamma=0.1, share=share
        )
        state, t = policy.init(), 0
        for t in range(400):
            truth = 0 if t < 200 else 1
            decision = od.decide(policy, state, context, 0.5, step=t + 1)
            state = policy.update(state, decision, float(context[truth, decision.arm]))
            if t >= 200 and policy.posterior(state)[1] > 0.5:
                break
        rounds[share] = t - 200
    assert rounds[0.01] <= 10
    assert rounds[0.0] >= 190
