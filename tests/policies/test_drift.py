"""Drift: discounting against the product written out, windows against refolding, and
both in a world that switches."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core import weights
from oddsmith.lab import simulate
from oddsmith.lab.finite import suits
from oddsmith.lab.worlds import SwitchingWorld, TableWorld
from oddsmith.policies import WindowState

BANK = od.GivenExperts(("a", "b", "c"))
PRIOR = np.array([0.5, 0.3, 0.2])


def plain(**settings: Any) -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(
        BANK, **{"gamma": 0.1, "prior": PRIOR, **settings}
    )


def played(
    policy: Any, steps: int, *, seed: int = 0, sleep: float = 0.0
) -> tuple[Any, list[od.Decision], list[float]]:
    """The state after some steps, with the decisions and rewards that led to it."""
    rng = np.random.default_rng(seed)
    state, decisions, rewards = policy.init(), [], []
    for t in range(steps):
        context = rng.uniform(0.05, 0.95, (3, 4))
        context[rng.random(3) < sleep] = np.nan
        decisions.append(
            od.decide(policy, state, context, float(rng.random()), step=t + 1)
        )
        rewards.append(float(rng.random() < 0.6))
        state = policy.update(state, decisions[-1], rewards[-1])
    return state, decisions, rewards


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.999, 1.0])
def test_discounting_is_the_product_written_out(rate: float, any_kernels: str) -> None:
    """w_T = p Π_t exp(-η ℓ_t d^(T-t)), because the prior's powers d^T + (1 - d) Σ
    d^(T-t) add up to 1."""
    policy = plain(eta=0.7, discount=rate)
    state, decisions, rewards = played(policy, 40)
    product = PRIOR.copy()
    for t, (decision, reward) in enumerate(zip(decisions, rewards, strict=True)):
        assert decision.advice is not None
        chance = decision.advice if reward else 1 - decision.advice
        product *= chance ** (0.7 * rate ** (39 - t))
    np.testing.assert_allclose(
        policy.posterior(state), product / product.sum(), rtol=1e-11
    )


def test_one_discounted_step_by_hand() -> None:
    state, (decision,), (reward,) = played(plain(discount=0.8, eta=1.0), 1)
    first = PRIOR * (decision.advice if reward else 1 - np.asarray(decision.advice))
    again = plain(discount=0.8, eta=1.0).update(state, decision, 1.0)
    second = first**0.8 * PRIOR**0.2 * np.asarray(decision.advice)
    np.testing.assert_allclose(
        weights.posterior(again.log_weights), second / second.sum(), rtol=1e-13
    )


def test_a_prior_of_zero_stays_zero_without_nan() -> None:
    policy = plain(prior=[0.6, 0.4, 0.0], discount=0.5)
    state = played(policy, 30)[0]
    assert state.log_weights[2] == -np.inf
    assert np.isfinite(state.log_weights[:2]).all()
    batch = policy.update(
        policy.init((2,)),
        od.decide(policy, policy.init((2,)), np.full((2, 3, 2), 0.4), 0.1),
        1.0,
    )
    assert (batch.log_weights[:, 2] == -np.inf).all()


def test_with_discount_order_matters_and_compiled_paths_step_aside() -> None:
    policy = plain(discount=0.9)
    assert not policy.orderless
    assert policy.loss_twin is None
    assert plain().orderless
    assert plain().loss_twin is not None
    with pytest.raises(
        od.errors.OrderMatters, match=r"got fixed experts, share=0 and discount=0\.9"
    ):
        policy.merge(policy.init(), policy.init())
    _, decisions, rewards = played(plain(), 20)
    there = od.fold(policy, policy.init(), decisions, rewards)
    back = od.fold(policy, policy.init(), decisions[::-1], rewards[::-1])
    assert not np.allclose(there.log_weights, back.log_weights)
    table = np.random.default_rng(0).uniform(0.1, 0.9, (4, 2, 3))
    world, experts = TableWorld(table[:, 0]), od.TableExperts(table)
    assert not suits(
        od.GeneralizedThompsonSampling(experts, discount=0.9, gamma=0.0), world
    )
    assert not suits(
        od.Windowed(od.GeneralizedThompsonSampling(experts, gamma=0.0), 5), world
    )


@pytest.mark.parametrize("wrong", [0.0, -0.1, 1.1, np.nan, "0.9", True])
def test_discount_must_be_in_range(wrong: Any) -> None:
    with pytest.raises(od.InvalidInput, match=r"discount must be .*in \(0, 1\]; got"):
        plain(discount=wrong)


@pytest.mark.parametrize("sleep", [0.0, 0.4])
@pytest.mark.parametrize(
    "settings", [{}, {"loss": od.square_loss, "eta": 1.0}, {"optimism": 0.2}]
)
def test_a_window_is_gts_over_the_last_rewards(
    settings: dict[str, Any], sleep: float, any_kernels: str
) -> None:
    gts = plain(**settings)
    for steps in (0, 1, 9, 10):
        state, decisions, rewards = played(od.Windowed(gts, 10), steps, sleep=sleep)
        whole = od.fold(gts, gts.init(), decisions, rewards)
        np.testing.assert_allclose(
            state.log_weights, whole.log_weights, rtol=0, atol=1e-12
        )
        assert state.learnt == whole.learnt == steps
    for window, steps in ((1, 3), (10, 11), (10, 237)):
        policy = od.Windowed(gts, window)
        state, decisions, rewards = played(policy, steps, sleep=sleep)
        last = od.fold(gts, gts.init(), decisions[-window:], rewards[-window:])
        np.testing.assert_allclose(
            state.log_weights, last.log_weights, rtol=0, atol=1e-10
        )
        np.testing.assert_allclose(
            policy.posterior(state), gts.posterior(last), atol=1e-10
        )


def test_every_row_of_a_batch_has_a_window_of_its_own(any_kernels: str) -> None:
    policy, rng = od.Windowed(plain(), 4), np.random.default_rng(3)
    contexts, uniforms, rewards = (
        rng.uniform(0.1, 0.9, (9, 5, 3, 2)),
        rng.random((9, 5)),
        rng.random((9, 5)),
    )
    batch, single = policy.init((5,)), policy.init()
    assert batch.factors.shape == (5, 4, 3)
    for t in range(9):
        batch = policy.update(
            batch,
            od.decide(policy, batch, contexts[t], uniforms[t], step=t + 1),
            rewards[t],
        )
        decision = od.decide(
            policy, single, contexts[t, 2], float(uniforms[t, 2]), step=t + 1
        )
        single = policy.update(single, decision, float(rewards[t, 2]))
    np.testing.assert_allclose(batch.log_weights[2], single.log_weights, atol=1e-12)


def test_an_update_leaves_the_old_window_alone() -> None:
    policy = od.Windowed(plain(), 3)
    state, decisions, _ = played(policy, 5)
    ring = state.factors.copy()
    one, other = (policy.update(state, decisions[0], reward) for reward in (0.0, 1.0))
    np.testing.assert_array_equal(state.factors, ring)
    assert not np.allclose(one.log_weights, other.log_weights)
    np.testing.assert_array_equal(
        policy.update(state, decisions[0], 0.0).log_weights, one.log_weights
    )


def test_a_refuted_expert_is_back_when_the_reward_is_forgotten() -> None:
    policy = od.Windowed(plain(loss=od.log_loss), 2)
    sure = od.decide(policy, policy.init(), np.array([[1.0], [0.5], [0.5]]), 0.5)
    calm = od.decide(policy, policy.init(), np.full((3, 1), 0.5), 0.5)
    state = policy.update(policy.init(), sure, 0.0)
    assert policy.posterior(state)[0] == 0
    state = policy.update(policy.update(state, calm, 0.0), calm, 1.0)
    np.testing.assert_allclose(policy.posterior(state), PRIOR, atol=1e-12)


def test_an_agent_with_a_window_explains_itself() -> None:
    agent = od.Agent(
        od.Bounded(od.Windowed(plain(), 3), floors=0.01), seed=1, arms=["x", "y"]
    )
    context = np.array([[0.9, 0.2], [0.1, 0.8], [0.3, 0.7]])
    for t in range(8):
        agent.learn(agent.decide(context), t % 2)
    posterior = agent.posterior()
    assert isinstance(agent.state, WindowState)
    assert list(posterior) == ["a", "b", "c"]
    assert sum(posterior.values()) == pytest.approx(1)
    explanation = agent.explain(context, eligible=["x", "y"])
    assert isinstance(explanation, od.policies.Explanation)
    np.testing.assert_allclose(explanation.posterior, list(posterior.values()))
    assert od.Windowed(plain(), 3).bank is BANK
    assert od.Windowed(plain(), 3).arms is None
    assert agent.state.experts == ()


class Learning(od.Experts):
    """Experts that learn."""

    names = ("a",)
    learns = True

    def predict(self, state: Any, context: Any) -> Any:
        return context


def test_unsuited_policies_and_windows_are_refused() -> None:
    for wrong in (0, -1, 2.5, "3", True, None):
        with pytest.raises(
            od.InvalidInput, match="window must be a whole number of at least 1; got"
        ):
            od.Windowed(plain(), wrong)  # type: ignore[arg-type]
    unsuited: dict[str, Any] = {
        "fixed experts, share=0.1 and discount=1": plain(share=0.1),
        "fixed experts, share=0 and discount=0.9": plain(discount=0.9),
        "experts that learn, share=0 and discount=1": od.GeneralizedThompsonSampling(
            Learning(), gamma=0.0
        ),
        "Bounded": od.Bounded(plain()),
    }
    for got, policy in unsuited.items():
        with pytest.raises(
            od.InvalidInput,
            match=f"with fixed experts, share=0 and discount=1; got {got}$",
        ):
            od.Windowed(policy, 5)
    policy = od.Windowed(plain(), 5)
    with pytest.raises(od.InvalidInput, match="state's shape"):
        policy.update(
            policy.init((2,)),
            od.decide(policy, policy.init(), np.full((3, 2), 0.5), 0.5),
            1.0,
        )


def test_forgetting_pays_where_the_truth_switches() -> None:
    """Both forget the old truth; plain GTS pays for as long as the old truth has
    led."""
    rng = np.random.default_rng(5)
    table = np.clip(rng.beta(2, 2, (6, 5, 3)), 0.05, 0.95)
    world = SwitchingWorld(
        [TableWorld(table[:, i]) for i in (0, 1, 2, 0)], until=[300, 600, 900]
    )
    gts = od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.05)
    forgetful = od.GeneralizedThompsonSampling(
        od.TableExperts(table), gamma=0.05, discount=0.98
    )
    policies: dict[str, od.Policy] = {
        "plain": gts,
        "discount": forgetful,
        "window": od.Windowed(gts, 80),
    }
    found = {
        name: simulate(policy, world, steps=1200, runs=40, seed=3).mean()
        for name, policy in policies.items()
    }
    for name in ("discount", "window"):
        gain = found["plain"][0] - found[name][0]
        assert gain > 5 * (found["plain"][1] + found[name][1]), found
        assert found[name][0] < 0.8 * found["plain"][0], found
