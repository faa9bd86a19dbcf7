"""Particles against closed forms; folds that repeat; sentences."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.lab import simulate
from oddsmith.lab.worlds import LogisticWorld
from policies.continuous import Plain, closed_form, events, learnt

RNG = np.random.default_rng(0)


def whitened(
    policy: od.policies.ParticleThompsonSampling, state: Any, exact: tuple[Array, Array]
) -> tuple[Array, Array]:
    """Means (runs, d) and covariances (runs, d, d) in coordinates where the exact ones
    are 0 and I."""
    mean, covariance = policy.moments(state)
    inverse = np.linalg.inv(np.linalg.cholesky(exact[1]))
    return (mean - exact[0]) @ inverse.T, inverse @ covariance @ inverse.T


class TestPosterior:
    """Against closed forms, in 32 runs: each number within 6 standard errors, which
    errs once in 800,000 numbers."""

    @pytest.mark.parametrize(("d", "scale"), [(1, 1.0), (3, 1.0), (3, 100.0)])
    def test_a_linear_class_has_a_gaussian_posterior(
        self, d: int, scale: float
    ) -> None:
        """At scale 100 the first reward refutes nearly all of the prior, and is learnt
        in strides."""
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LinearFamily(), d, eta=1.0, ridge=2.0, seed=5
        )
        history = events(120, d, scale=scale)
        exact = closed_form(history, eta=1.0, ridge=2.0)
        means, covariances = whitened(policy, learnt(policy, history, (32,)), exact)
        for found, true in ((means, np.zeros(d)), (covariances, np.eye(d))):
            error = found.std(axis=0, ddof=1) / np.sqrt(32)
            assert (np.abs(found.mean(axis=0) - true) < 6 * error).all()
        assert np.sqrt((means**2).mean()) < 0.1  # 1/√M is 0.0625

    def test_forgetting_keeps_mean_and_covariance(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LinearFamily(), 2, eta=1.0, ridge=2.0, memory=30, seed=6
        )
        history = events(120, 2)
        state = learnt(policy, history, (32,))
        assert state.filled == 0
        mean, covariance = policy.moments(state)
        np.testing.assert_array_equal(state.mean, mean)
        np.testing.assert_allclose(
            np.linalg.inv(state.precision), covariance * 256 / 252, rtol=1e-6
        )
        means, covariances = whitened(
            policy, state, closed_form(history, eta=1.0, ridge=2.0)
        )
        assert (
            np.abs(means.mean(axis=0)) < 6 * means.std(axis=0, ddof=1) / np.sqrt(32)
        ).all()
        assert np.sqrt((means**2).mean()) < 0.2  # four errors of 1/√M
        np.testing.assert_allclose(covariances.mean(axis=0), np.eye(2), atol=0.15)

    def test_the_regret_is_far_below_uniform_play(self) -> None:
        world = LogisticWorld(np.array([2.0, -1.5]), n_arms=4)
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=64, memory=100
        )
        careless = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=16, gamma=1.0
        )
        regrets = [
            simulate(p, world, steps=400, runs=8).total for p in (policy, careless)
        ]
        assert regrets[0].max() < regrets[1].min() / 4


class TestPolicy:
    def test_folds_repeat_to_the_last_bit(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=32, memory=25
        )
        contexts, rewards = RNG.standard_normal((60, 3, 2)), RNG.random(60)
        state = policy.init()
        decisions: list[od.Decision] = []
        for context, reward in zip(contexts, rewards, strict=True):
            decisions.append(
                od.decide(
                    policy, state, context, float(RNG.random()), step=len(decisions) + 1
                )
            )
            before: Any = [np.copy(leaf) for leaf in state]
            after = policy.update(state, decisions[-1], float(reward))
            assert all(
                np.array_equal(old, np.asarray(leaf))
                for old, leaf in zip(before, state, strict=True)
            )
            state = after
        through_json = [
            od.Decision.from_json(decision.to_json()) for decision in decisions
        ]
        for again in (
            od.fold(policy, policy.init(), d, rewards)
            for d in (decisions, through_json)
        ):
            for ours, theirs in zip(state, again, strict=True):
                np.testing.assert_array_equal(ours, theirs)
        other = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=32, memory=25, seed=1
        )
        assert not np.array_equal(
            od.fold(other, other.init(), decisions, rewards).particles, state.particles
        )
        assert (policy.in_place, policy.orderless) == (False, False)

    def test_random_numbers_come_from_seed_and_count(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=32, memory=1
        )  # moves at every reward
        state = policy.init()
        decision = od.decide(policy, state, np.eye(2), 0.5)
        first, again, later = (
            policy.update(state._replace(learnt=n), decision, 1.0) for n in (5, 5, 6)
        )
        np.testing.assert_array_equal(first.particles, again.particles)
        assert (first.particles != later.particles).all(axis=-1).mean() > 0.5

    def test_a_saved_agent_goes_on(self, tmp_path: Path) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 3, n_particles=32, memory=20
        )
        agent, contexts = od.Agent(policy, seed=5), RNG.standard_normal((80, 4, 3))
        for context in contexts[:40]:
            agent.learn(agent.decide(context), 1)
        agent.save(tmp_path / "agent.npz")
        again = od.Agent.load(tmp_path / "agent.npz", policy)
        for context in contexts[40:]:
            ours, theirs = agent.decide(context), again.decide(context)
            assert ours.to_json() == theirs.to_json()
            agent.learn(ours, 0)
            again.learn(theirs, 0)
        np.testing.assert_array_equal(agent.state.particles, again.state.particles)
        assert agent.decide_batch(contexts).propensities.shape == (80, 4)
        with pytest.raises(od.BadFile, match=r"seed was 0\.0, is 1\.0"):
            od.Agent.load(
                tmp_path / "agent.npz",
                od.policies.ParticleThompsonSampling(
                    policy.family, 3, n_particles=32, memory=20, seed=1
                ),
            )

    def test_batch_axes(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=32, memory=10
        )
        state = policy.init((3, 2))
        for step in range(25):
            decision = od.decide(
                policy,
                state,
                RNG.standard_normal((3, 2, 4, 2)),
                RNG.random((3, 2)),
                step=step + 1,
            )
            state = policy.update(state, decision, RNG.random((3, 2)))
        assert decision.propensities.shape == (3, 2, 4)
        shapes = [
            (3, 2, 32, 2),
            (3, 2, 32),
            (3, 2, 10, 2),
            (3, 2, 10),
            (),
            (3, 2, 2),
            (3, 2, 2, 2),
            (),
        ]
        assert [np.shape(leaf) for leaf in state] == shapes
        assert (state.learnt, state.filled) == (25, 5)
        assert len(np.unique(state.particles[..., 0])) > 100  # rows go their own ways
        assert policy.moments(state)[1].shape == (3, 2, 2, 2)

    def test_odds_are_votes_over_the_eligible_arms(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=64, gamma=0.2
        )
        state, context = (
            policy.init(),
            np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [5.0, 5.0]]),
        )
        mask = np.array([True, False, True, False])
        odds = policy.odds(state, context, eligible=mask).propensities
        right = (state.particles[:, 0] > 0).mean()
        np.testing.assert_allclose(
            odds, [0.8 * right + 0.1, 0, 0.8 * (1 - right) + 0.1, 0], atol=1e-12
        )
        np.testing.assert_array_equal(
            odds, policy.odds(state, context, eligible=mask, step=9).propensities
        )
        with pytest.raises(od.errors.NoEligibleArm):
            policy.odds(state, context, eligible=np.zeros(4, dtype=np.bool_))
        with pytest.raises(
            od.InvalidInput, match="eligible must be a mask of the 4 arms"
        ):
            policy.odds(state, context, eligible=np.ones(3, dtype=np.bool_))

    def test_an_arm_with_unknown_features_sleeps(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=32, gamma=0.1, memory=4
        )
        context = np.array([[1.0, 0.0], [np.nan, 1.0]])
        state = policy.init()
        np.testing.assert_allclose(
            policy.odds(state, context).propensities, [0.95, 0.05]
        )
        asleep = od.decide(policy, state, context, 0.99)
        assert asleep.arm == 1
        after = policy.update(state, asleep, 1.0)
        np.testing.assert_array_equal(after.log_weights, state.log_weights)
        assert (after.learnt, after.filled) == (1, 1)
        for _ in range(6):
            after = policy.update(after, asleep, 1.0)
        assert np.isfinite(after.particles).all()
        assert np.isfinite(after.precision).all()

    def test_two_thousand_random_steps(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 4, n_particles=32, memory=64, gamma=0.05
        )
        rng, state = np.random.default_rng(8), policy.init()
        size = sum(np.asarray(leaf).nbytes for leaf in state)
        for step in range(2000):
            k = int(rng.integers(1, 6))
            mask = rng.random(k) < 0.7
            mask[rng.integers(k)] = True
            context = rng.standard_normal((k, 4)) * 10 ** rng.uniform(-3, 3)
            decision = od.decide(
                policy,
                state,
                context,
                float(rng.random()),
                eligible=mask,
                step=step + 1,
            )
            assert abs(decision.propensities.sum() - 1) < 1e-12
            assert mask[decision.arm]
            assert (decision.propensities[mask] >= 0.05 / mask.sum() - 1e-15).all()
            state = policy.update(
                state, decision, float(rng.choice([0.0, 1.0, rng.random()]))
            )
        assert all(np.isfinite(leaf).all() for leaf in state)
        assert (np.linalg.eigvalsh(state.precision) > 0).all()
        assert sum(np.asarray(leaf).nbytes for leaf in state) == size
        assert state.learnt == 2000


class TestSentences:
    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            (
                {"dim": 0},
                (
                    "dim must be a whole number of at least 1, or left out if "
                    "there is a schema; got 0"
                ),
            ),
            (
                {"n_particles": 8},
                "n_particles must be a whole number of at least 16; got 8",
            ),
            (
                {"dim": 50, "n_particles": 100},
                "n_particles must be a whole number of at least 200; got 100",
            ),
            ({"memory": 0}, "memory must be a whole number of at least 1; got 0"),
            (
                {"moves_per_resampling": 1.5},
                "moves_per_resampling must be a whole number of at least 1; got 1.5",
            ),
            ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
            ({"gamma": 1.5}, r"gamma must be in \[0, 1\]; got 1.5"),
            ({"eta": 0.0}, "eta must be in"),
            ({"ridge": -1.0}, "ridge must be in"),
            (
                {"family": od.policies.LogisticFamily},
                "family must have predict, loss, gradient, total",
            ),
            ({"family": "logistic"}, "family must have predict, loss, gradient, total"),
        ],
    )
    def test_settings(self, settings: Any, sentence: str) -> None:
        with pytest.raises(od.InvalidInput, match=sentence):
            od.policies.ParticleThompsonSampling(
                **{"family": od.policies.LogisticFamily(), "dim": 2, **settings}
            )

    def test_contexts_and_decisions(self) -> None:
        policy = od.policies.ParticleThompsonSampling(
            od.policies.LogisticFamily(), 2, n_particles=16
        )
        state = policy.init()
        for context, sentence in (
            (
                np.zeros((3, 3)),
                r"context must have shape \(…, K, 2\), a row per arm; got \(3, 3\)",
            ),
            (np.zeros(2), r"got \(2,\)"),
            (np.zeros((0, 2)), r"got \(0, 2\)"),
            ("home page", "context must be numbers in an array; got 'home page'"),
            (np.full((3, 2), np.inf), "context must be finite"),
        ):
            with pytest.raises(od.InvalidInput, match=sentence):
                policy.odds(state, context)
        decision = od.decide(policy, state, np.ones((3, 2)), 0.5)
        refused: Any = (
            (decision, 2.0, r"reward must be in \[0, 1\]"),
            (decision, "1", r"reward must be a number in \[0, 1\]"),
            (decision._replace(context=None), 1.0, "context must"),
            (
                decision._replace(arm=3),
                1.0,
                "arm must be a number from 0 to 2, a row of the context",
            ),
            (decision._replace(arm="tech"), 1.0, "arm must be a number from 0 to 2"),
            (
                decision._replace(context=np.ones((5, 3, 2))),
                1.0,
                r"context must have the state's batch axes \(\)",
            ),
        )
        for wrong, reward, sentence in refused:
            with pytest.raises(od.InvalidInput, match=sentence):
                policy.update(state, wrong, reward)
        with pytest.raises(
            od.InvalidInput, match=r"decision must have the state's batch axes \(4,\)"
        ):
            policy.update(policy.init((4,)), decision, 1.0)

    def test_a_family_that_gives_nan_is_named(self) -> None:
        class Broken(Plain):
            def loss(self, theta: Array, phi: Array, reward: Any) -> Array:
                return np.full(theta.shape[:-1], np.nan)

        policy = od.policies.ParticleThompsonSampling(Broken(), 2, n_particles=16)
        with pytest.raises(
            od.errors.OutOfDomain,
            match="loss of a family must be a number for every particle",
        ):
            policy.update(
                policy.init(),
                od.decide(policy, policy.init(), np.ones((3, 2)), 0.5),
                1.0,
            )
