"""Regressions against direct linear algebra, ridges against Student's densities,
feature maps against their kernels."""

import numpy as np
import pytest
from scipy.stats import t as student

from experts.learners.plain_learners import (
    ARMS,
    learnt,
    prior_of,
    standardised,
)
from oddsmith.experts.learners import LearnerInput, LearningExperts, Ridge
from oddsmith.experts.learners.evidence import dense, shares
from oddsmith.experts.learners.features import Curves, FeatureMap, Plain, fold_numbers

BANK = LearningExperts(ARMS, (Ridge(), Ridge(Curves(16), ((2.0, 5.0),))), blend=True)


@pytest.mark.parametrize("generous", [False, True])
def test_beliefs_are_ridge_regressions_on_the_features_as_they_were(
    generous: bool,
) -> None:
    rng = np.random.default_rng(0)
    x, arms, rewards = (
        rng.normal(3, 2, (40, 4)),
        rng.integers(0, 3, 40),
        rng.random(40) * (0.2 if generous else 1),
    )
    # the start of an arm that nothing is known of is then above 1/2
    rewards = 1 - rewards
    x[:, 3] = 7  # a constant column changes nothing
    _, state = learnt(BANK, x, arms, rewards)
    start, largest = prior_of(rewards)
    for learner, own in list(zip(BANK.learners, state.experts.learners, strict=True))[
        :2
    ]:
        assert isinstance(learner, Ridge)
        rows = np.array([learner.features(standardised(x, t), 4) for t in range(40)])
        models = own.models
        weight, noise = (
            shares(models.evidence),
            models.evidence[:, 2] / models.evidence[:, 1],
        )
        noise[0] = largest**2  # the first ridge takes rewards for certain
        first, seen = (
            learner.features(standardised(x, 0), 4),
            LearnerInput(x[0], standardised(x, 0)),
        )
        belief = learner.believe(own, seen)
        for arm in range(3):
            phi, target = rows[arms == arm], rewards[arms == arm] - start
            means, variances, doubt = [], [], 0.0
            for j, (plain, waves) in enumerate(learner.ridges):
                ridge = np.full(phi.shape[1], plain)
                ridge[1 : 1 + learner.features.n_waves] = waves
                precision = np.diag(ridge) + phi.T @ phi
                full = dense(models.covariance, phi.shape[1])[j, arm]
                np.testing.assert_allclose(full, np.linalg.inv(precision), atol=1e-9)
                means.append(start + first @ np.linalg.solve(precision, phi.T @ target))
                # that of the first ridge
                doubt = doubt or float(first @ np.linalg.solve(precision, first))
                variances.append(noise[j] * doubt)
            assert belief.mean[arm] == pytest.approx(weight @ means)
            spread = (
                weight @ variances + weight @ (np.array(means) - weight @ means) ** 2
            )
            assert belief.sd[arm] == pytest.approx(np.sqrt(spread))
    np.testing.assert_allclose(state.experts.moments.mean, x.mean(axis=0))
    np.testing.assert_allclose(
        state.experts.moments.squares / 40, x.var(axis=0), atol=1e-12
    )


def test_ridges_are_weighed_by_student_s_densities_of_what_they_foresaw() -> None:
    """Row by row: errors over their predictive spread, with the noise that was found
    before, up to a common factor."""
    rng = np.random.default_rng(1)
    learner, rewards, arms = Ridge(), rng.random(30) < 0.3, rng.integers(0, 2, 30)
    x = rng.normal(size=(30, 3)) / np.sqrt(3)
    state = learner.start((), 2, 3)
    logs, freedom, squares = np.zeros(3), 2.0, np.full(3, 0.5)
    for t in range(30):
        before = rewards[:t].astype(float)
        start, _ = prior_of(before)
        for j, (ridge, _) in enumerate(learner.ridges):
            rows = np.concatenate([np.ones((t, 1)), x[:t]], axis=1)[arms[:t] == arms[t]]
            now = np.append(1.0, x[t])
            covariance = np.linalg.inv(ridge * np.eye(4) + rows.T @ rows)
            foreseen = start + now @ covariance @ rows.T @ (
                before[arms[:t] == arms[t]] - start
            )
            wide = 1 + now @ covariance @ now
            scale = np.sqrt(squares[j] * wide / freedom)
            logs[j] += student.logpdf(float(rewards[t]), freedom, foreseen, scale)
            squares[j] += (rewards[t] - foreseen) ** 2 / wide
        freedom += 1
        seen = LearnerInput(x[t], x[t])
        state = learner.learn(
            state, seen, np.array(arms[t]), np.array(float(rewards[t]))
        )
    np.testing.assert_allclose(
        state.models.evidence[:, 0], logs - logs.max(), atol=1e-9
    )
    np.testing.assert_allclose(state.models.evidence[:, 2], squares)


def test_noise_chooses_the_larger_ridge_and_certainty_the_smaller() -> None:
    rng = np.random.default_rng(2)
    x = rng.normal(size=(600, 8))
    best = {}
    for name, rewards in (
        ("noise", rng.random(600) < 0.1),
        ("certainty", (x[:, 0] > 0) | (x[:, 1] > 1)),
    ):
        _, state = learnt(LearningExperts(ARMS), x, rng.integers(0, 3, 600), rewards)
        best[name] = int(state.experts.learners[0].models.evidence[:, 0].argmax())
    assert best["noise"] > best["certainty"]


def test_waves_are_a_gaussian_kernel_and_numbers_a_linear_one() -> None:
    """Inner products tend to exp(-scale² |z - z'|²/2); orthogonal directions err less
    than 4/√(n/2) = 0.04."""
    rng = np.random.default_rng(1)
    for dim in (3, 40):
        z, other = rng.normal(size=(2, dim)) / np.sqrt(dim)
        wide: FeatureMap = Curves(20_000, 1.5)
        kernel = float(wide(z, dim) @ wide(other, dim))
        gaussian = np.exp(-(1.5**2) * ((z - other) ** 2).sum() / 2)
        assert kernel == pytest.approx(1 + z @ other + gaussian, abs=0.04)
        assert wide.size(dim) == len(wide(z, dim))
        late = float(wide(z, 1) @ wide(other, 1))  # numbers that came later
        assert late == pytest.approx(1 + z @ other + gaussian, abs=0.08)


@pytest.mark.parametrize("features", [Plain(), Plain(6), Curves(8), Curves(8, most=6)])
def test_further_numbers_that_are_0_change_nothing(features: FeatureMap) -> None:
    z = np.random.default_rng(2).normal(size=5)
    few = features(z, 5)
    for more in (1, 4):
        wide = features(np.append(z, np.zeros(more)), 5)
        np.testing.assert_allclose(wide[: len(few)], few, atol=1e-15)
        np.testing.assert_array_equal(wide[len(few) :], 0)


def test_many_numbers_are_folded_with_random_signs() -> None:
    rng = np.random.default_rng(2)
    z, other = rng.normal(size=(2, 5, 600)) / np.sqrt(600)
    assert fold_numbers(z, 400).shape == (5, 400)
    gap = (fold_numbers(z, 400) * fold_numbers(other, 400)).sum(axis=-1) - (
        z * other
    ).sum(axis=-1)
    # inner products are kept, on average exactly
    assert np.abs(gap).max() < 4 * np.sqrt(2 / 400)
    np.testing.assert_allclose(
        Curves(8, most=400)(z, 600)[1], Curves(8, most=400)(z[1], 600), atol=1e-14
    )
