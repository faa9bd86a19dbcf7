"""Odds of being best: against closed forms, adaptive quadrature, exact sums and ten
million draws; both kernels."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import betaln, ndtr, ndtri

from oddsmith.experts.best_arm import beta_best, normal_best
from oddsmith.policies.parts.directions import directions, shared_best


def test_two_normals_in_closed_form(any_kernels: str) -> None:
    """Φ((m_1 - m_2)/sqrt(s_1² + s_2²)), scales apart by up to a million."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        means, sds = rng.normal(size=2), 10 ** rng.uniform(-3, 3, 2)
        exact = ndtr((means[0] - means[1]) / np.hypot(*sds))
        np.testing.assert_allclose(
            normal_best(means, sds), [exact, 1 - exact], atol=1e-7
        )


def by_quad(means: Any, sds: Any) -> Any:
    """Adaptive quadrature, cut at every arm's own places."""
    found = []
    for a in range(len(means)):

        def integrand(x: float, a: int = a) -> float:
            z = (x - means[a]) / sds[a]
            others = np.prod(
                [ndtr((x - means[b]) / sds[b]) for b in range(len(means)) if b != a]
            )
            return float(np.exp(-0.5 * z * z) / (sds[a] * np.sqrt(2 * np.pi)) * others)

        cuts = {
            m + z * s
            for m, s in zip(means, sds, strict=True)
            for z in (-4, -2, -1, 0, 1, 2, 4)
        }
        inside = sorted(
            c
            for c in cuts | {means[a] - 9 * sds[a], means[a] + 9 * sds[a]}
            if abs(c - means[a]) <= 9 * sds[a]
        )
        found.append(
            sum(
                quad(integrand, low, high, epsabs=1e-12)[0]
                for low, high in pairwise(inside)
            )
        )
    return np.array(found)


def test_several_normals_by_adaptive_quadrature(any_kernels: str) -> None:
    rng = np.random.default_rng(1)
    for spread in (0.3, 1.0, 1.5):
        means, sds = rng.normal(size=5), 10 ** rng.uniform(-spread, spread, 5)
        np.testing.assert_allclose(
            normal_best(means, sds), by_quad(means, sds), atol=1e-7
        )


@pytest.mark.parametrize("optimist", [False, True])
def test_against_ten_million_draws(any_kernels: str, optimist: bool) -> None:
    """Standard errors are at most 1.6e-4; 6 of them for 5 arms are exceeded with
    probability 1e-8."""
    rng = np.random.default_rng(2)
    means, sds = (
        np.array([0.0, 0.3, 1.0, -2.0, 0.99]),
        np.array([1.0, 2.0, 0.05, 30.0, 0.02]),
    )
    wins = np.zeros(5)
    for _ in range(20):
        drawn = means + sds * rng.standard_normal((500_000, 5))
        drawn = np.maximum(drawn, means) if optimist else drawn
        wins += np.bincount(drawn.argmax(axis=1), minlength=5)
    np.testing.assert_allclose(
        normal_best(means, sds, optimist=optimist), wins / wins.sum(), atol=1e-3
    )


def exact_beta(a: tuple[int, int], b: tuple[int, int]) -> float:
    """Pr(Beta(a) > Beta(b)) for whole parameters: Σ_{i<a_1} B(b_1+i, a_2+b_2) /
    ((a_2+i) B(1+i, a_2) B(b_1, b_2))."""
    (a1, a2), (b1, b2) = a, b
    terms = [
        betaln(b1 + i, a2 + b2) - np.log(a2 + i) - betaln(1 + i, a2) - betaln(b1, b2)
        for i in range(a1)
    ]
    return float(np.exp(terms).sum())


@pytest.mark.parametrize(
    ("a", "b"),
    [((1, 1), (1, 1)), ((3, 2), (1, 1)), ((200, 300), (210, 300)), ((1, 900), (2, 2))],
)
def test_two_betas_by_an_exact_sum(any_kernels: str, a: Any, b: Any) -> None:
    assert exact_beta((1, 1), (1, 1)) == pytest.approx(0.5)
    first, second = (
        np.array([a[0], b[0]], dtype=float),
        np.array([a[1], b[1]], dtype=float),
    )
    np.testing.assert_allclose(beta_best(first, second)[0], exact_beta(a, b), atol=1e-7)


def test_uniform_order_statistics_exactly(any_kernels: str) -> None:
    """Beta(n, 1) is the largest of n uniforms: against k others of its kind Pr = n/(n +
    m_1 + …)."""
    sizes = np.array([1.0, 2.0, 5.0, 100.0])
    np.testing.assert_allclose(
        beta_best(sizes, np.ones(4)), sizes / sizes.sum(), atol=5e-7
    )


def test_both_kernels_agree() -> None:
    from oddsmith.core import kernels

    rng, found = np.random.default_rng(3), list[Any]()
    means, sds = rng.normal(size=(6, 7)), 10 ** rng.uniform(-3, 3, (6, 7))
    a, b = 10 ** rng.uniform(-1, 4, (6, 7)), 10 ** rng.uniform(-1, 4, (6, 7))
    for choice in ("numpy", "numba"):
        kernels.use(choice)
        found.append(
            [
                normal_best(means, sds),
                normal_best(means, sds, optimist=True),
                beta_best(a, b),
            ]
        )
    kernels.use("auto")
    for slow, fast in zip(*found, strict=True):
        np.testing.assert_allclose(slow, fast, atol=1e-12)


def test_equal_arms_share_and_masks_exclude(any_kernels: str) -> None:
    for optimist in (False, True):
        np.testing.assert_allclose(
            normal_best(np.zeros(6), np.ones(6), optimist=optimist), 1 / 6, atol=1e-12
        )
    mask = np.array([[True, False, True], [False, True, False]])
    odds = normal_best(np.zeros(3), np.ones(3), mask)
    np.testing.assert_allclose(odds, [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], atol=1e-9)
    sure = normal_best(np.array([1.0, 2.0]), np.zeros(2))
    np.testing.assert_allclose(sure, [0.0, 1.0], atol=1e-9)


def test_directions_are_near_the_truth_and_the_same_everywhere() -> None:
    """1,024 directions: within 0.01 of quadrature for independent arms; a shared belief
    sums to 1 and is fixed."""
    rng = np.random.default_rng(4)
    for _ in range(10):
        means, sds = rng.normal(size=4) * 0.5, 10 ** rng.uniform(-0.5, 0.5, 4)
        found = shared_best(means, np.diag(sds**2), None, n=1024, seed=0)
        np.testing.assert_allclose(found, normal_best(means, sds), atol=0.012)
        np.testing.assert_array_equal(
            found, shared_best(means, np.diag(sds**2), None, n=1024, seed=0)
        )
    assert directions(3, 8, 1).flags.writeable is False
    np.testing.assert_allclose(directions(2, 1024, 5).var(axis=0), 1, atol=0.02)
    # one shared direction: all tie
    flat = shared_best(np.zeros(3), np.ones((3, 3)), None, n=64, seed=0)
    np.testing.assert_allclose(flat, 1 / 3, atol=1e-12)
    masked = shared_best(
        np.zeros(3), np.eye(3), np.array([True, False, True]), n=64, seed=0
    )
    assert masked[1] == 0


def test_small_beta_parameters_bend_within_a_few_units(any_kernels: str) -> None:
    """Beta(0.01, b): a hundred units wide on the log-odds scale, but bent within one;
    against a fine trapezoid sum."""
    for a, b in (
        ([0.01, 0.01], [10.0, 0.01]),
        ([0.1, 0.1], [50.0, 2000.0]),
        ([0.5, 0.5, 2.0], [1e3, 50.0, 300.0]),
    ):
        first, second = np.array(a), np.array(b)
        modes = np.log(first / second)
        near = [m + np.linspace(-40, 40, 80_001) for m in modes]
        x = np.unique(np.concatenate([np.linspace(-6000, 2000, 200_001), *near]))
        ahead, behind = -np.logaddexp(0, -x), -np.logaddexp(0, x)
        dense = np.exp(
            first[:, None] * ahead
            + second[:, None] * behind
            - betaln(first, second)[:, None]
        )
        mass = (dense[:, 1:] + dense[:, :-1]) / 2 * np.diff(x)
        risen = np.concatenate([np.zeros((len(a), 1)), np.cumsum(mass, axis=1)], axis=1)
        exact = []
        for i in range(len(a)):
            inner = dense[i] * np.prod(np.delete(risen, i, axis=0), axis=0)
            exact.append(((inner[1:] + inner[:-1]) / 2 * np.diff(x)).sum())
        np.testing.assert_allclose(
            beta_best(first, second), np.array(exact) / np.sum(exact), atol=1e-6
        )


def test_optimists_that_stand_together_share(any_kernels: str) -> None:
    """Three arms of the same mean and one below: exact by summing over who draws above
    its mean, 200,001 quantiles."""
    u = (np.arange(200_001) + 0.5) / 200_001
    last = np.maximum(-0.5 + ndtri(u), -0.5)
    # each of three arms is below `last` with Φ(last) if last > 0, else never
    above = ndtr(np.maximum(last, 0.0))
    exact = np.where(last > 0, above**3, 0.0).mean()
    found = normal_best(np.array([0, 0, 0, -0.5]), np.ones(4), optimist=True)
    assert found[3] == pytest.approx(exact, abs=1e-5)
    np.testing.assert_allclose(found[:3], (1 - exact) / 3, atol=1e-5)


def test_a_sure_value_and_whole_numbers(any_kernels: str) -> None:
    np.testing.assert_allclose(
        normal_best(np.array([0, -1]), np.array([0, 1])),
        [ndtr(1.0), ndtr(-1.0)],
        atol=1e-6,
    )
    assert np.isfinite(beta_best(np.array([1, 2]), np.array([3, 4]))).all()
    np.testing.assert_allclose(normal_best(np.zeros(3), np.zeros(3)), 1 / 3, atol=1e-9)
