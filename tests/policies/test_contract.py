"""The contract of every policy, in one list."""

import copy
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import oddsmith as od
from oddsmith.lab.episodes import (
    GeneralizedPosteriorSampling,
    QLearning,
    TabularPosteriorSampling,
)
from oddsmith.lab.episodes.world import random_model
from oddsmith.lab.worlds.tables import random_table

ARMS, DIM = 4, 3
BANK = od.GivenExperts(("a", "b", "c"))
TABLE = random_table(5, 6, ARMS)
MODELS = [random_model(5, ARMS, horizon=3, seed=seed) for seed in range(4)]


def predictions(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.uniform(0.1, 0.9, (*shape, 3, ARMS))


def index(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.integers(0, 5, shape) if shape else int(rng.integers(5))


def vector(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.normal(size=(*shape, DIM))


def rows(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return rng.normal(size=(*shape, ARMS, DIM))


class Entry(NamedTuple):
    """How to make a policy, what its contexts are, and whether the order of rewards
    matters to it."""

    make: Callable[[], Any]
    context: Callable[[np.random.Generator, tuple[int, ...]], Any] = predictions
    ordered: bool = False
    chancy: bool = False  # its own random numbers belong to the whole batch


GTS = od.GeneralizedThompsonSampling
POLICIES: dict[str, Entry] = {
    "gts, log loss": Entry(lambda: GTS(BANK, od.log_loss, eta=0.5, gamma=0.1)),
    "gts, square loss": Entry(lambda: GTS(BANK, od.square_loss, eta=1.0, gamma=0.1)),
    "feel-good": Entry(
        lambda: GTS(BANK, od.log_loss, eta=0.25, gamma=0.01, optimism=0.3)
    ),
    "fixed share": Entry(
        lambda: GTS(BANK, od.log_loss, eta=0.5, gamma=0.1, share=0.05), ordered=True
    ),
    "discounting": Entry(
        lambda: GTS(BANK, od.log_loss, eta=0.5, gamma=0.1, discount=0.9), ordered=True
    ),
    "window": Entry(
        lambda: od.Windowed(GTS(BANK, od.log_loss, eta=0.5, gamma=0.1), 10),
        ordered=True,
    ),
    "schedule": Entry(
        lambda: GTS(
            BANK, od.log_loss, eta=0.5, gamma=od.policies.PowerSchedule(0.5, 1 / 3)
        )
    ),
    "bounded": Entry(
        lambda: od.Bounded(od.thompson_sampling(BANK), floors=0.05, caps=1.0)
    ),
    "epsilon-greedy": Entry(lambda: od.epsilon_greedy(BANK, epsilon=0.1)),
    "uniform": Entry(lambda: od.uniform(BANK)),
    "exp4": Entry(lambda: od.policies.EXP4(BANK, eta=0.2, gamma=0.05)),
    "exp4.p": Entry(lambda: od.policies.EXP4P(BANK, steps=500, delta=0.05)),
    "hedged": Entry(lambda: od.hedged(BANK)),
    "hedged, square loss, optimism": Entry(
        lambda: od.Hedged(GTS(BANK, od.square_loss, gamma=0.1, optimism=0.2), trust=0.7)
    ),
    "hedged, fixed share": Entry(
        lambda: od.Hedged(GTS(BANK, share=0.05)), ordered=True
    ),
    "mixture of rates": Entry(
        lambda: od.policies.RateMixture(BANK, gamma=0.1), ordered=True
    ),
    "scale-free": Entry(
        lambda: od.policies.ScaleFreeSampling(BANK, gamma=0.1), ordered=True
    ),
    "calibrated mixture": Entry(
        lambda: od.policies.CalibratedMixture(BANK, gamma=0.05), ordered=True
    ),
    "squarecb": Entry(
        lambda: od.policies.SquareCB(BANK, sharpness=30.0, oracle="vovk")
    ),
    "squarecb, mixture": Entry(
        lambda: od.policies.SquareCB(BANK, sharpness=30.0, oracle="mixture")
    ),
    "fastcb": Entry(lambda: od.policies.FastCB(BANK, sharpness=30.0, oracle="mixture")),
    "epoch-greedy": Entry(lambda: od.policies.EpochGreedy(BANK, scale=0.3)),
    "elimination": Entry(
        lambda: od.policies.RegressorElimination(od.TableExperts(TABLE), np.arange(5)),
        index,
        ordered=True,
    ),
    "elimination, original": Entry(
        lambda: od.policies.RegressorElimination(
            od.TableExperts(TABLE), np.arange(5), threshold="original"
        ),
        index,
        ordered=True,
    ),
    "ucb1": Entry(lambda: od.policies.UCB1(ARMS), index),
    "kl-ucb": Entry(lambda: od.policies.KLUCB(ARMS, c=0.0), index),
    "beta": Entry(
        lambda: od.BetaThompsonSampling(ARMS, wins=1.0, losses=1.0, gamma=0.0), index
    ),
    "linucb, disjoint": Entry(
        lambda: od.LinUCB(DIM, ARMS, alpha=1.0, ridge=1.0), vector
    ),
    "linucb, shared": Entry(lambda: od.LinUCB(DIM, alpha=1.0, ridge=1.0), rows),
    "linear thompson, disjoint": Entry(
        lambda: od.LinearThompsonSampling(DIM, ARMS, width=1.0, ridge=1.0), vector
    ),
    "linear thompson, shared": Entry(
        lambda: od.LinearThompsonSampling(DIM, width=1.0, ridge=1.0, directions=64),
        rows,
    ),
    "optimist": Entry(
        lambda: od.LinearThompsonSampling(
            DIM, ARMS, width=1.0, ridge=1.0, optimist=True
        ),
        vector,
    ),
    "logistic thompson, disjoint": Entry(
        lambda: od.policies.LogisticThompsonSampling(DIM, ARMS, width=1.0, ridge=1.0),
        vector,
        ordered=True,
    ),
    "logistic thompson, shared": Entry(
        lambda: od.policies.LogisticThompsonSampling(
            DIM, width=1.0, ridge=1.0, directions=64
        ),
        rows,
        ordered=True,
    ),
    "glm-ucb": Entry(
        lambda: od.policies.GLMUCB(DIM, ARMS, alpha=0.5, ridge=1.0),
        vector,
        ordered=True,
    ),
    "probit, disjoint": Entry(
        lambda: od.policies.ProbitThompsonSampling(DIM, ARMS, noise=1.0, ridge=1.0),
        vector,
        ordered=True,
    ),
    "probit, shared": Entry(
        lambda: od.policies.ProbitThompsonSampling(
            DIM, noise=1.0, ridge=1.0, directions=64
        ),
        rows,
        ordered=True,
    ),
    "posterior sampling": Entry(
        lambda: GeneralizedPosteriorSampling(MODELS, gamma=0.1), index, ordered=True
    ),
    "posterior sampling, policies": Entry(
        lambda: GeneralizedPosteriorSampling(MODELS, gamma=0.1, explore="policies"),
        index,
        ordered=True,
    ),
    "posterior draws": Entry(
        lambda: TabularPosteriorSampling(5, ARMS, horizon=4, draws=6),
        index,
        ordered=True,
        chancy=True,
    ),
    "q-learning": Entry(lambda: QLearning(5, ARMS, horizon=4), index, ordered=True),
    "auto": Entry(
        lambda: od.auto([str(k) for k in range(ARMS)], size="small", gamma=0.005),
        vector,
        ordered=True,
    ),
    "particles": Entry(
        lambda: od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), DIM, n_particles=32, eta=0.5, gamma=0.01
        ),
        rows,
        ordered=True,
        chancy=True,
    ),
}


def leaves(state: Any) -> list[Any]:
    """The arrays of a state, in order."""
    if isinstance(state, tuple):
        return [leaf for part in state for leaf in leaves(part)]
    return [np.asarray(state)]


def same(one: Any, other: Any, atol: float = 0.0) -> None:
    for a, b in zip(leaves(one), leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=atol, atol=atol)


@pytest.mark.parametrize("name", POLICIES)
class TestContract:
    def test_odds_are_a_deterministic_distribution(
        self, name: str, any_kernels: str
    ) -> None:
        entry, rng = POLICIES[name], np.random.default_rng(1)
        policy = entry.make()
        for eligible in (
            None,
            np.array([True, False, True, True]),
            np.array([False, False, True, False]),
        ):
            context = entry.context(rng, ())
            first = policy.odds(policy.init(), context, eligible=eligible, step=3)
            again = policy.odds(policy.init(), context, eligible=eligible, step=3)
            np.testing.assert_array_equal(first.propensities, again.propensities)
            assert abs(first.propensities.sum() - 1) < 1e-12
            assert (first.propensities >= 0).all()
            if eligible is not None:
                assert (first.propensities[~eligible] == 0).all()
        with pytest.raises(od.OddsmithError, match="eligible"):
            policy.odds(
                policy.init(), entry.context(rng, ()), eligible=np.zeros(ARMS, np.bool_)
            )

    def test_update_leaves_the_old_state_alone_or_says_so(
        self, name: str, any_kernels: str
    ) -> None:
        entry, rng = POLICIES[name], np.random.default_rng(2)
        policy = entry.make()
        state = policy.init()
        before = copy.deepcopy(state)
        after = policy.update(
            state, od.decide(policy, state, entry.context(rng, ()), 0.4, step=1), 1.0
        )
        if not policy.in_place:
            same(state, before)
        assert any(
            not np.array_equal(a, b)
            for a, b in zip(leaves(after), leaves(before), strict=True)
        )

    def test_fold_is_update_one_by_one(self, name: str, any_kernels: str) -> None:
        entry, rng = POLICIES[name], np.random.default_rng(3)
        policy = entry.make()
        state, decisions, rewards = policy.init(), [], rng.random(25)
        for t, reward in enumerate(rewards):
            decisions.append(
                od.decide(
                    policy,
                    state,
                    entry.context(rng, ()),
                    float(rng.random()),
                    step=t + 1,
                )
            )
            state = policy.update(state, decisions[-1], float(reward))
        same(od.fold(policy, policy.init(), decisions, rewards), state, atol=1e-12)

    def test_the_order_of_rewards(self, name: str, any_kernels: str) -> None:
        """Where order does not matter by contract, a shuffled log gives the same state
        to 1e-9."""
        entry, rng = POLICIES[name], np.random.default_rng(4)
        policy = entry.make()
        decisions = [
            od.decide(
                policy,
                policy.init(),
                entry.context(rng, ()),
                float(rng.random()),
                step=t + 1,
            )
            for t in range(30)
        ]
        rewards = rng.random(30)
        shuffled = rng.permutation(30)
        forward = od.fold(policy, policy.init(), decisions, rewards)
        other = od.fold(
            policy, policy.init(), [decisions[i] for i in shuffled], rewards[shuffled]
        )
        assert policy.orderless == (not entry.ordered)
        if policy.orderless:
            same(forward, other, atol=1e-9)

    def test_a_saved_agent_goes_on(
        self, name: str, tmp_path: Path, any_kernels: str
    ) -> None:
        entry, rng = POLICIES[name], np.random.default_rng(5)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.errors.NoExploration)
            agent = od.Agent(entry.make(), seed=5)
        contexts: Any = [entry.context(rng, ()) for _ in range(40)]
        for context in contexts[:20]:
            agent.learn(agent.decide(context), 1)
        agent.save(tmp_path / "agent.npz")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", od.errors.NoExploration)
            again = od.Agent.load(tmp_path / "agent.npz", entry.make())
        for context in contexts[20:]:
            ours, theirs = agent.decide(context), again.decide(context)
            assert ours.to_json() == theirs.to_json()
            agent.learn(ours, 0)
            again.learn(od.Decision.from_json(theirs.to_json()), 0)

    def test_a_batch_is_the_rows_one_by_one(self, name: str, any_kernels: str) -> None:
        """To the last bit; within 1e-15 where features are multiplied by matrices."""
        entry, rng = POLICIES[name], np.random.default_rng(6)
        policy = entry.make()
        if entry.chancy:
            assert policy.odds(
                policy.init((7,)), entry.context(rng, (7,))
            ).propensities.shape == (7, ARMS)
            return
        state, alone = policy.init((7,)), [policy.init() for _ in range(7)]
        for t in range(12):
            contexts, uniforms, rewards = (
                entry.context(rng, (7,)),
                rng.random(7),
                rng.random(7).round(t % 3),
            )
            decision = od.decide(policy, state, contexts, uniforms, step=t + 1)
            for i in range(7):
                own = od.decide(
                    policy, alone[i], contexts[i], float(uniforms[i]), step=t + 1
                )
                tolerance = 1e-15 if entry.context in (vector, rows) else 0.0
                np.testing.assert_allclose(
                    decision.propensities[i],
                    own.propensities,
                    rtol=tolerance,
                    atol=tolerance,
                )
                assert decision.arm[i] == own.arm
                alone[i] = policy.update(alone[i], own, float(rewards[i]))
            state = policy.update(state, decision, rewards)
        assert decision.propensities.shape == (7, ARMS)

    def test_ten_thousand_steps_stay_numbers_and_small(self, name: str) -> None:
        """50 runs of 200 steps with rewards that favour one arm; the state does not
        grow."""
        entry, rng = POLICIES[name], np.random.default_rng(7)
        policy = entry.make()
        state = policy.init((50,))
        size = sum(leaf.size for leaf in leaves(state))
        for t in range(200):
            decision = od.decide(
                policy, state, entry.context(rng, (50,)), rng.random(50), step=t + 1
            )
            assert np.isfinite(decision.propensities).all()
            np.testing.assert_allclose(decision.propensities.sum(axis=-1), 1, atol=1e-9)
            state = policy.update(
                state, decision, np.where(decision.arm == 1, 1.0, rng.random(50))
            )
        assert all(
            not np.isnan(leaf.astype(np.float64)).any() for leaf in leaves(state)
        )
        grown = sum(leaf.size for leaf in leaves(state))
        # which learns its size from the first context
        assert grown == size or name == "auto"


@pytest.mark.parametrize(
    "name", [name for name, entry in POLICIES.items() if entry.context is predictions]
)
def test_experts_may_sleep(name: str, any_kernels: str) -> None:
    """A sleeper has no vote, is not charged for what it did not say, and nobody awake
    means uniform odds."""
    policy, rng = POLICIES[name].make(), np.random.default_rng(8)
    state = policy.init()
    for t in range(60):
        said = predictions(rng, ())
        if t % 3 == 0:
            said[t % 2] = np.nan
        decision = od.decide(policy, state, said, float(rng.random()), step=t + 1)
        assert abs(decision.propensities.sum() - 1) < 1e-12
        state = policy.update(state, decision, float(rng.random()))
    assert all(np.isfinite(leaf).all() or leaf.max() == 0 for leaf in leaves(state))
    silent = policy.odds(state, np.full((3, ARMS), np.nan), step=61).propensities
    assert abs(silent.sum() - 1) < 1e-12


@pytest.mark.parametrize(
    "name", [name for name, entry in POLICIES.items() if entry.context is predictions]
)
def test_rows_of_a_batch_do_not_touch_each_other(name: str, any_kernels: str) -> None:
    """Sleepers, masks and weights too small for a number in some rows: the others have
    the odds and weights that they have alone, to the last bit."""
    policy, rng = POLICIES[name].make(), np.random.default_rng(9)
    state, alone = policy.init((6,)), [policy.init() for _ in range(6)]
    for t in range(15):
        said = predictions(rng, (6,))
        said[0, t % 2] = np.nan
        said[1] = np.nan
        said[2, :2] = [[0.99, 0.9, 0.9, 0.9], [0.01, 0.1, 0.1, 0.1]]
        eligible = rng.random((6, ARMS)) < 0.7
        eligible[:, t % ARMS] = True
        uniforms = rng.random(6)
        rewards = rng.random(6).round(t % 3)
        steps = np.full(6, t + 1)
        many = od.decide(policy, state, said, uniforms, eligible=eligible, step=steps)
        for i in range(6):
            one = od.decide(
                policy,
                alone[i],
                said[i],
                float(uniforms[i]),
                eligible=eligible[i],
                step=t + 1,
            )
            np.testing.assert_array_equal(many.propensities[i], one.propensities)
            alone[i] = policy.update(alone[i], one, float(rewards[i]))
        state = policy.update(state, many, rewards)


def test_an_agent_says_when_odds_will_be_zero() -> None:
    for name in (
        "ucb1",
        "linucb, shared",
        "glm-ucb",
        "epoch-greedy",
        "elimination",
        "beta",
    ):
        with pytest.warns(
            od.errors.NoExploration,
            match="does not explore: some propensities may be 0, .*; give it a gamma above 0",
        ):
            od.Agent(POLICIES[name].make(), seed=1)
    for name in ("probit, shared", "squarecb", "exp4.p"):
        od.Agent(POLICIES[name].make(), seed=1)
