"""logistic_map against scikit-learn, on separable data, and at sizes that are hard for Newton."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.arrays import Array
from oddsmith.policies.parts.laplace import logistic_map

RNG = np.random.default_rng(0)


def gradient(theta: Array, phi: Array, rewards: Array, *, mean: Array, precision: Array, eta: float = 1.0) -> Array:
    """Written out again, with scipy's own sigmoid."""
    from scipy.special import expit

    slope: Array = precision @ (theta - mean) + eta * phi.T @ (expit(phi @ theta) - rewards)
    return slope


@pytest.mark.parametrize("ridge", [0.01, 1.0, 30.0])
def test_against_scikit_learn(ridge: float) -> None:
    from sklearn.linear_model import LogisticRegression

    phi = RNG.standard_normal((300, 4)) * [1.0, 3.0, 0.2, 1.0]
    rewards = (RNG.random(300) < 1 / (1 + np.exp(-phi @ [1.0, -0.5, 2.0, 0.0]))).astype(float)
    mode, precision = logistic_map(phi, rewards, mean=np.zeros(4), precision=ridge * np.eye(4))
    peer = LogisticRegression(C=1 / ridge, fit_intercept=False, tol=1e-12, max_iter=10_000, solver="newton-cholesky")
    np.testing.assert_allclose(mode, peer.fit(phi, rewards).coef_[0], atol=1e-6)
    chances = peer.predict_proba(phi)[:, 1]
    np.testing.assert_allclose(precision, ridge * np.eye(4) + (phi.T * (chances * (1 - chances))) @ phi, rtol=1e-5)


@pytest.mark.parametrize("ridge", [1e-8, 1e-3, 1.0])
def test_separable_classes_have_a_mode(ridge: float) -> None:
    phi = RNG.standard_normal((100, 3))
    rewards = (phi[:, 0] > 0).astype(float)
    prior: Any = {"mean": np.zeros(3), "precision": ridge * np.eye(3)}
    mode, precision = logistic_map(phi, rewards, **prior)
    assert np.abs(gradient(mode, phi, rewards, **prior)).max() <= 1e-10
    assert ((phi @ mode > 0) == (rewards == 1)).all()
    assert (np.linalg.eigvalsh(precision) > 0).all()


def test_fractional_rewards_a_prior_and_eta() -> None:
    phi, rewards, root = RNG.standard_normal((50, 3)), RNG.random(50), RNG.standard_normal((3, 3))
    prior: Any = {"mean": RNG.standard_normal(3), "precision": root @ root.T + np.eye(3), "eta": 0.3}
    mode, precision = logistic_map(phi, rewards, **prior)
    assert np.abs(gradient(mode, phi, rewards, **prior)).max() <= 1e-10
    for j, step in enumerate(np.eye(3) * 1e-5):
        ahead, behind = (gradient(mode + sign * step, phi, rewards, **prior) for sign in (1, -1))
        np.testing.assert_allclose(precision[j], (ahead - behind) / 2e-5, atol=1e-6)


def test_twice_a_reward_is_twice_eta() -> None:
    phi, rewards = RNG.standard_normal((30, 2)), RNG.random(30)
    prior: Any = {"mean": np.ones(2), "precision": np.eye(2)}
    twice = logistic_map(np.tile(phi, (2, 1)), np.tile(rewards, 2), **prior)
    for ours, theirs in zip(logistic_map(phi, rewards, eta=2.0, **prior), twice, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize("scale", [1e-3, 1e3, 1e5])
@pytest.mark.parametrize("start", [0.0, 50.0])
def test_features_of_any_size(scale: float, start: float) -> None:
    """Newton from a flat place would leap; with backtracking it arrives, to the rounding of the gradient's terms."""
    phi, rewards = RNG.standard_normal((200, 3)) * scale, RNG.random(200)
    prior: Any = {"mean": np.full(3, start), "precision": np.eye(3)}
    mode, precision = logistic_map(phi, rewards, **prior)
    size = np.abs(phi).sum() + np.abs(precision).sum() * (np.abs(mode).max() + start)
    assert np.abs(gradient(mode, phi, rewards, **prior)).max() <= max(1e-10, 1e-13 * size)


def test_without_rewards_it_is_the_prior() -> None:
    prior: Any = {"mean": np.array([1.0, 2.0]), "precision": np.array([[2.0, 0.5], [0.5, 1.0]])}
    mode, precision = logistic_map(np.zeros((0, 2)), np.zeros(0), **prior)
    np.testing.assert_array_equal(mode, prior["mean"])
    np.testing.assert_array_equal(precision, prior["precision"])


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"features": np.zeros((4, 3))}, r"features must have shape \(4, 2\), one row per reward; got \(4, 3\)"),
        ({"features": np.zeros((5, 2))}, r"features must have shape \(4, 2\), one row per reward; got \(5, 2\)"),
        ({"features": np.zeros(4)}, r"features must have 2 axes; got shape \(4,\)"),
        ({"features": np.full((4, 2), np.nan)}, "features must be finite; got 8 values that are not"),
        ({"rewards": np.full(4, 2.0)}, r"rewards must be in \[0, 1\] .*; got 2"),
        ({"rewards": np.zeros((4, 1))}, "rewards must have 1 axes"),
        ({"rewards": 1.0}, "rewards must have 1 axes"),
        ({"mean": np.zeros((2, 1))}, "mean must have 1 axes"),
        ({"precision": np.eye(3)}, r"precision must have shape \(2, 2\), as mean has 2 entries; got \(3, 3\)"),
        ({"precision": -np.eye(2)}, "precision must be symmetric and positive definite"),
        ({"precision": np.array([[1.0, 0.5], [0.0, 1.0]])}, "precision must be symmetric and positive definite"),
        ({"eta": 0.0}, "eta must be in"),
    ],
)
def test_sentences(changed: Any, sentence: str) -> None:
    given: Any = {"features": np.zeros((4, 2)), "rewards": np.zeros(4), "mean": np.zeros(2), "precision": np.eye(2)}
    with pytest.raises(od.InvalidInput, match=sentence):
        logistic_map(**(given | changed))
