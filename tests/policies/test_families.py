"""Families against finite differences, and the moves that leave their posteriors
alone."""

import numpy as np
import pytest

import oddsmith as od
from oddsmith.policies.particles import resampled
from oddsmith.policies.parts.families import Family
from oddsmith.policies.parts.langevin import Target, sweep
from policies.continuous import Plain, closed_form, events, learnt

RNG = np.random.default_rng(0)
FAMILIES: dict[str, Family] = {
    "logistic": od.policies.LogisticFamily(),
    "linear": od.policies.LinearFamily(),
}


class TestFamilies:
    @pytest.mark.parametrize("name", FAMILIES)
    def test_gradients_are_finite_differences(self, name: str) -> None:
        family, theta, phi = (
            FAMILIES[name],
            RNG.standard_normal((4, 6, 3)),
            RNG.standard_normal((4, 3)),
        )
        reward, tiny = RNG.random(4), 1e-6
        gradient = family.gradient(theta, phi, reward)
        for j, step in enumerate(np.eye(3) * tiny):
            slope = (
                family.loss(theta + step, phi, reward)
                - family.loss(theta - step, phi, reward)
            ) / (2 * tiny)
            np.testing.assert_allclose(gradient[..., j], slope, atol=1e-8)

    @pytest.mark.parametrize("name", FAMILIES)
    def test_losses_are_those_of_the_predictions(self, name: str) -> None:
        family, theta, features = (
            FAMILIES[name],
            RNG.standard_normal((4, 6, 3)),
            RNG.standard_normal((4, 5, 3)),
        )
        predictions, reward = family.predict(theta, features), RNG.random(4)
        loss = od.log_loss if name == "logistic" else od.square_loss
        assert predictions.shape == (4, 6, 5)
        expected = loss(predictions[..., 2], reward[:, None])
        np.testing.assert_allclose(
            family.loss(theta, features[:, 2], reward), expected, rtol=1e-12
        )

    def test_the_logistic_loss_does_not_overflow(self) -> None:
        theta, phi = np.array([[1e4], [-1e4]]), np.array([1.0])
        np.testing.assert_array_equal(
            od.policies.LogisticFamily().loss(theta, phi, 1.0), [0.0, 1e4]
        )
        np.testing.assert_array_equal(
            od.policies.LogisticFamily().predict(theta, phi[None]), [[1.0], [0.0]]
        )

    @pytest.mark.parametrize("name", FAMILIES)
    def test_totals_are_sums_over_events(self, name: str) -> None:
        family, theta = FAMILIES[name], RNG.standard_normal((2, 6, 3))
        phi, rewards, weight = (
            RNG.standard_normal((2, 9, 3)),
            RNG.random((2, 9)),
            RNG.random((2, 9)),
        )
        one_by_one = Family.total(family, theta, phi, rewards, weight)
        for ours, theirs in zip(
            family.total(theta, phi, rewards, weight), one_by_one, strict=True
        ):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)

    def test_a_family_of_ones_own(self) -> None:
        families: tuple[Family, Family] = (Plain(), od.policies.LogisticFamily())
        own, ours = (
            learnt(
                od.policies.ParticleThompsonSampling(f, 2, n_particles=64),
                events(60, 2),
            )
            for f in families
        )
        np.testing.assert_allclose(own.particles, ours.particles, atol=1e-9)


class TestMoves:
    """Moves leave their target as it is: tests at an error rate of 1e-4 each, with a
    preconditioner that is wrong."""

    def test_a_gaussian_stays(self) -> None:
        from scipy.stats import chi2

        history, n, d = events(40, 3), 20_000, 3
        mean, covariance = closed_form(history, eta=1.0, ridge=2.0)
        phi = history[0][np.arange(40), history[1]]
        target = Target(
            od.policies.LinearFamily(),
            np.zeros(d),
            2.0 * np.eye(d),
            phi,
            history[2],
            np.ones(40),
        )
        rng, root = np.random.default_rng(2), np.linalg.cholesky(covariance)
        start = mean + rng.standard_normal((n, d)) @ root.T
        moved = sweep(
            target, start, 2 * np.diag(np.diag(covariance)), moves=10, rng=rng
        )
        z = np.linalg.solve(root, (moved - mean).T).T
        assert (moved != start).any(axis=1).mean() > 0.9
        assert n * (z.mean(axis=0) ** 2).sum() < chi2.isf(1e-4, d)
        assert chi2.isf(1 - 5e-5, n * d) < (z**2).sum() < chi2.isf(5e-5, n * d)

    def test_a_skew_posterior_stays(self) -> None:
        from scipy.stats import norm

        phi, rewards, n = (
            np.array([[2.0, 0.0], [1.0, 2.0]] * 3),
            np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0]),
            40_000,
        )
        target = Target(
            od.policies.LogisticFamily(),
            np.zeros(2),
            np.eye(2),
            phi,
            rewards,
            np.ones(6),
        )
        axis = np.linspace(-5, 5, 401)
        points = np.stack([one.ravel() for one in np.meshgrid(axis, axis)], axis=-1)
        log_density = target.log_density(points)[0]
        share = np.exp(log_density - log_density.max())
        share /= share.sum()
        rng = np.random.default_rng(3)
        start = points[rng.choice(len(points), n, p=share)] + rng.uniform(
            -0.0125, 0.0125, (n, 2)
        )
        moved = sweep(target, start, 0.5 * np.eye(2), moves=10, rng=rng)
        for power in (1, 2, 3):
            exact, square = share @ points**power, share @ points ** (2 * power)
            z = ((moved**power).mean(axis=0) - exact) * np.sqrt(n / (square - exact**2))
            assert (np.abs(z) < norm.isf(0.5e-4)).all()

    def test_resampling_conserves_weights(self) -> None:
        share = RNG.dirichlet(np.full(50, 0.2))
        counts = np.array(
            [
                np.bincount(resampled(share, u), minlength=50)
                for u in (np.arange(2000) + 0.5) / 2000
            ]
        )
        assert (counts.sum(axis=1) == 50).all()
        assert (np.abs(counts - 50 * share) < 1).all()
        np.testing.assert_allclose(counts.mean(axis=0), 50 * share, atol=1e-3)
        assert resampled(np.array([1.0, 0.0]), 1.0).tolist() == [0, 0]
