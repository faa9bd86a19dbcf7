"""Linear and generalized linear policies against direct linear algebra, minimisers, and
their papers' formulas."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import norm

import oddsmith as od
from oddsmith.policies.parts.logistic import laplace_step, sigmoid
from oddsmith.policies.probit import truncated_moments
from paper.reference import VECTORS, floats

RNG = np.random.default_rng(5)


def played(
    policy: Any, rows: int, dim: int, arms: int, *, shared: bool
) -> tuple[Any, Any, Any, Any]:
    """State, features, arms and rewards after random rows learnt one by one."""
    state, features, chosen, rewards = policy.init(), [], [], []
    for _ in range(rows):
        context = RNG.normal(size=(arms, dim) if shared else dim)
        decision = od.decide(
            policy, state, context, float(RNG.random()), step=1
        )._replace(arm=int(RNG.integers(arms)))
        reward = float(RNG.random() < 0.5)
        state = policy.update(state, decision, reward)
        features.append(context[decision.arm] if shared else context)
        chosen.append(decision.arm)
        rewards.append(reward)
    return state, np.array(features), np.array(chosen), np.array(rewards)


@pytest.mark.parametrize("shared", [False, True])
def test_linucb_is_ridge_regression_and_a_width(shared: bool) -> None:
    policy = od.LinUCB(4, None if shared else 3, alpha=0.7, ridge=2.0)
    state, x, arms, rewards = played(policy, 60, 4, 3, shared=shared)
    context = RNG.normal(size=(3, 4) if shared else 4)
    bounds = []
    for arm in range(3):
        mine = np.ones(60, bool) if shared else arms == arm
        a = 2.0 * np.eye(4) + x[mine].T @ x[mine]
        phi = context[arm] if shared else context
        theta = np.linalg.solve(a, x[mine].T @ rewards[mine])
        bounds.append(theta @ phi + 0.7 * np.sqrt(phi @ np.linalg.solve(a, phi)))
    np.testing.assert_allclose(policy.bounds(state, context), bounds, atol=1e-10)
    np.testing.assert_array_equal(
        policy.odds(state, context).propensities, np.arange(3) == np.argmax(bounds)
    )


def test_linear_class_vectors() -> None:
    """Precision I + 2η Σ φφ' and its mean, to 1e-12."""
    case = VECTORS["linear_gaussian"]
    policy = od.policies.linear_class(2, eta=1.0)
    state = policy.init()
    for phi, reward in zip(case["phi"], case["rewards"], strict=True):
        context = np.array([floats(phi), [0.0, 0.0]])
        decision = od.decide(policy, state, context, 0.1, step=1)._replace(arm=0)
        state = policy.update(state, decision, floats([reward])[0])
    precision = np.linalg.inv(state.covariance[0])
    np.testing.assert_allclose(
        precision, [floats(row) for row in case["precision"]], atol=1e-12
    )
    np.testing.assert_allclose(state.mean[0], floats(case["mean"]), atol=1e-12)


def test_disjoint_thompson_is_the_probability_of_being_best() -> None:
    policy = od.LinearThompsonSampling(3, n_arms=2, width=0.5)
    state, *_ = played(policy, 40, 3, 2, shared=False)
    context = RNG.normal(size=3)
    means = state.mean @ context
    sds = 0.5 * np.sqrt(np.einsum("d,kde,e->k", context, state.covariance, context))
    exact = ndtr((means[0] - means[1]) / np.hypot(*sds))
    np.testing.assert_allclose(
        policy.odds(state, context).propensities, [exact, 1 - exact], atol=1e-7
    )


def test_shared_thompson_against_draws_of_theta() -> None:
    """200,000 draws: 0.0011 each; the directions' own error is below 0.01, and gamma
    mixes in exactly."""
    policy = od.LinearThompsonSampling(3, gamma=0.1)
    state, *_ = played(policy, 25, 3, 4, shared=True)
    context = RNG.normal(size=(4, 3))
    theta = np.random.default_rng(0).multivariate_normal(
        state.mean[0], state.covariance[0], 200_000
    )
    wins = np.bincount((theta @ context.T).argmax(axis=1), minlength=4) / 200_000
    np.testing.assert_allclose(
        policy.odds(state, context).propensities, 0.9 * wins + 0.025, atol=0.015
    )
    assert od.LinearThompsonSampling(3).gamma == 0.01
    assert od.LinearThompsonSampling(3, n_arms=2).gamma == 0.0


def test_an_optimist_never_counts_less_than_the_mean() -> None:
    """May et al. 2012: two arms; the odds are those of max(draw, mean), here by a fine
    sum over both draws."""
    policy = od.LinearThompsonSampling(1, n_arms=2, optimist=True)
    state = policy.init()._replace(
        mean=np.array([[0.3], [0.0]]), covariance=np.array([[[0.04]], [[1.0]]])
    )
    z = norm.ppf((np.arange(4000) + 0.5) / 4000)
    first, second = np.maximum(0.3 + 0.2 * z, 0.3), np.maximum(z, 0.0)
    exact = (first[:, None] > second[None, :]).mean()
    np.testing.assert_allclose(
        policy.odds(state, np.array([1.0])).propensities[0], exact, atol=1e-3
    )


def test_laplace_step_is_the_mode() -> None:
    """The minimiser of the Gaussian and one log loss, by a general optimiser;
    fractional rewards and eta too."""
    for reward, eta in ((1.0, 1.0), (0.0, 0.5), (0.3, 2.0)):
        m, root = RNG.normal(size=3), RNG.normal(size=(3, 3))
        cov, phi = root @ root.T + 0.1 * np.eye(3), RNG.normal(size=3)
        precision = np.linalg.inv(cov)

        def cost(
            theta: Any,
            reward: float = reward,
            eta: float = eta,
            m: Any = m,
            p: Any = precision,
            f: Any = phi,
        ) -> float:
            s = theta @ f
            log_loss = reward * np.logaddexp(0, -s) + (1 - reward) * np.logaddexp(0, s)
            return float(0.5 * (theta - m) @ p @ (theta - m) + eta * log_loss)

        best = minimize(cost, m, method="BFGS", options={"gtol": 1e-10}).x
        s, h = laplace_step(
            np.array([m @ phi]), np.array([phi @ cov @ phi]), np.array([reward]), eta
        )
        np.testing.assert_allclose(m + s[0] * cov @ phi, best, atol=1e-5)
        p = sigmoid(np.array(best @ phi))
        assert h[0] == pytest.approx(p * (1 - p), abs=1e-5)


def test_laplace_step_converges_for_any_spread() -> None:
    """20,000 random problems, φ'Σφ from 0.01 to 1e6: the equation of the mode is solved
    to rounding."""
    rng = np.random.default_rng(6)
    variance, score = 10 ** rng.uniform(-2, 6, 20_000), rng.normal(0, 10, 20_000)
    reward = rng.choice([0.0, 1.0, 0.3], 20_000)
    for eta in (0.5, 1.0, 3.0):
        s, h = laplace_step(score, variance, reward, eta)
        p = sigmoid(score + s * variance)
        # Newton has nowhere left to go
        step = (s - eta * (reward - p)) / (1 + eta * p * (1 - p) * variance)
        np.testing.assert_allclose(step, 0, atol=1e-14 * eta)
        np.testing.assert_allclose(h, p * (1 - p))
    s, h = laplace_step(np.array([4.1758]), np.array([655.756]), np.array([0.0]), 1.0)
    assert s[0] == pytest.approx(-0.01297, abs=1e-5)


@pytest.mark.parametrize(
    "make",
    [
        od.LinearThompsonSampling,
        od.policies.LogisticThompsonSampling,
        od.policies.ProbitThompsonSampling,
    ],
)
def test_the_same_arm_twice_has_the_same_odds(make: Any) -> None:
    policy = make(4)
    state, *_ = played(policy, 50, 4, 3, shared=True)
    row, other = RNG.normal(size=4), RNG.normal(size=4)
    odds = policy.odds(state, np.stack([row, other, row, row])).propensities
    np.testing.assert_allclose(odds[[2, 3]], odds[0], atol=1e-12)
    moved = policy.odds(state, np.stack([other, row, row, row])).propensities
    # the order of arms matters only through the directions
    assert moved[0] == pytest.approx(odds[1], abs=0.02)


@pytest.mark.parametrize(
    "make",
    [
        od.LinUCB,
        od.LinearThompsonSampling,
        od.policies.ProbitThompsonSampling,
        od.policies.GLMUCB,
    ],
)
def test_one_context_for_a_whole_batch(make: Any) -> None:
    """odds broadcasts it over the state; update learns from the same features."""
    policy, context = make(2), np.array([[1.0, 0], [0, 1], [2, 0], [0, 2]])
    state, alone = policy.init((2,)), policy.init()
    decision = od.decide(policy, state, context, np.array([0.3, 0.7]), step=1)._replace(
        arm=np.array([1, 3])
    )
    state = policy.update(state, decision, np.array([1.0, 1.0]))
    for i, arm in enumerate((1, 3)):
        own = policy.update(
            policy.init(),
            od.decide(policy, alone, context, 0.5, step=1)._replace(arm=arm),
            1.0,
        )
        np.testing.assert_allclose(state.mean[i], own.mean)


def test_covariances_stay_symmetric_and_positive() -> None:
    policy, rng = od.LinUCB(3, n_arms=1), np.random.default_rng(8)
    state = policy.init()
    for _ in range(3000):
        x = rng.normal(size=3) * [1, 100, 1]
        x[2] = x[0]  # collinear
        state = policy.update(
            state, od.decide(policy, state, x, 0.5, step=1), float(rng.random())
        )
    np.testing.assert_array_equal(
        state.covariance, np.swapaxes(state.covariance, -1, -2)
    )
    assert (np.linalg.eigvalsh(state.covariance) > 0).all()


def test_the_sequential_mode_is_near_that_of_all_rows() -> None:
    """300 rows of a logistic world: within 0.25 of scikit-learn's mode, where its own
    error is about 0.2 a weight."""
    from sklearn.linear_model import LogisticRegression

    rng, theta = np.random.default_rng(1), np.array([1.0, -1.5])
    policy = od.policies.LogisticThompsonSampling(2)
    state, x = policy.init(), rng.normal(size=(300, 2))
    rewards = (rng.random(300) < sigmoid(x @ theta)).astype(float)
    for row, reward in zip(x, rewards, strict=True):
        decision = od.decide(policy, state, row[None], 0.5, step=1)
        state = policy.update(state, decision, float(reward))
    mode = (
        LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10)
        .fit(x, rewards)
        .coef_[0]
    )
    np.testing.assert_allclose(state.mean[0], mode, atol=0.25)
    assert od.policies.logistic_class(2).eta == 0.5


def test_glm_ucb_by_hand() -> None:
    policy = od.policies.GLMUCB(2, n_arms=2, alpha=0.8)
    state, *_ = played(policy, 30, 2, 2, shared=False)
    context = RNG.normal(size=2)
    expected = [
        1 / (1 + np.exp(-state.mean[a] @ context))
        + 0.8 * np.sqrt(context @ state.covariance[a] @ context)
        for a in (0, 1)
    ]
    np.testing.assert_allclose(policy.bounds(state, context), expected, atol=1e-12)


def test_probit_by_hand() -> None:
    """Graepel et al. 2010, equations (10) and (11): one click and one view without,
    binary features."""
    policy = od.policies.ProbitThompsonSampling(3, n_arms=1, noise=0.5)
    state, mean, var = policy.init(), np.zeros(3), np.ones(3)
    for context, y in ((np.array([1.0, 0, 1]), 1), (np.array([0.0, 1, 1]), -1)):
        sigma = np.sqrt(0.25 + context @ var)
        t = y * (context @ mean) / sigma
        v = norm.pdf(t) / norm.cdf(t)
        w = v * (v + t)
        mean, var = (
            mean + y * context * var / sigma * v,
            var * (1 - context * var / sigma**2 * w),
        )
        decision = od.decide(policy, state, context, 0.5, step=1)
        state = policy.update(state, decision, float(y == 1))
    np.testing.assert_allclose(state.mean[0], mean, atol=1e-13)
    np.testing.assert_allclose(state.variance[0], var, atol=1e-13)


def test_truncated_moments_far_out() -> None:
    v, w = truncated_moments(np.array([-1e3, -5.0, 0.0, 5.0, 40.0]))
    np.testing.assert_allclose(
        v[1:4], norm.pdf([-5, 0, 5]) / norm.cdf([-5, 0, 5]), rtol=1e-10
    )
    assert (np.diff(v) < 0).all()
    assert ((w >= 0) & (w <= 1)).all()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: od.LinUCB(0), "dim must be"),
        (lambda: od.LinUCB(2, n_arms=0), "n_arms must be"),
        (lambda: od.LinUCB(2, ridge=0.0), "ridge must be"),
        (
            lambda: od.LinearThompsonSampling(2, directions=1000),
            "directions must be a power of two",
        ),
        (lambda: od.LinearThompsonSampling(2, gamma=2.0), "gamma must be"),
        (lambda: od.policies.ProbitThompsonSampling(2, noise=0.0), "noise must be"),
        (lambda: od.policies.linear_class(2, eta=0.0), "eta must be"),
        (
            lambda: od.LinUCB(2).odds(od.LinUCB(2).init(), np.zeros(2)),
            r"context must have shape \(…, K, 2\)",
        ),
        (
            lambda: od.LinUCB(2, 3).odds(
                od.LinUCB(2, 3).init(), np.array([1.0, np.nan])
            ),
            "context must contain finite",
        ),
        (
            lambda: od.LinUCB(2, 3).odds(od.LinUCB(2, 3).init(), "home"),
            "context must be numbers",
        ),
        (
            lambda: od.LinUCB(2, 3).odds(
                od.LinUCB(2, 3).init(), np.array([1e160, 1.0])
            ),
            "context must contain finite",
        ),
        (lambda: od.LinUCB(2, ridge=1e-320), "ridge must be"),
        (
            lambda: od.LinUCB(2).odds(od.LinUCB(2).init(), np.zeros((0, 2))),
            "context must have shape",
        ),
        (
            lambda: od.LinUCB(2, 3).odds(
                od.LinUCB(2, 3).init(), np.ones(2), eligible=np.array([True, False])
            ),
            "eligible must be a mask of the 3 arms",
        ),
        (lambda: od.LinearThompsonSampling(2, seed=None), ("seed must be")),  # type: ignore[arg-type]
        (lambda: od.policies.ProbitThompsonSampling(2, seed=-1), "seed must be"),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()
