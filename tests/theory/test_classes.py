"""Classes with a covering number: covers that are built and measured, the best radius,
rates, special cases."""

from math import log, log2
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.theory.bounds import refined_bound
from oddsmith.theory.coefficients import tight_coefficient


@pytest.mark.parametrize("kind", ["linear", "logistic"])
def test_covers_of_linear_classes_are_a_special_case(kind: str) -> None:
    problem: Any = {"kind": kind, "n_arms": 3, "steps": 3000}
    cover = od.experts.ball_cover(2, 3.0, radius=0.25)
    named = theory.cover_bound(n=cover.n, radius=0.25, **problem)
    assert named == theory.covered_class_bound(
        lambda _: log(cover.n), radius=0.25, **problem
    )
    eta = named.eta or 0.0
    complexity = theory.cover_complexity(
        kind, n=cover.n, radius=0.25, steps=3000, eta=eta
    )
    coefficient = theory.Coefficient(
        eta, 0.5 if kind == "logistic" else 1 - np.exp(-0.5)
    )
    assert (
        named.bound
        == refined_bound(coefficient, n_arms=3, steps=3000, log_prior=complexity).bound
    )


def test_one_member_that_is_the_truth_is_a_finite_class() -> None:
    """N experts, radius 0: the bound of 3.4 with ln N."""
    for kind, margin in (("square", None), ("log", 0.1)):
        found = theory.covered_class_bound(
            lambda _: log(50), kind=kind, margin=margin, n_arms=4, steps=1e5, radius=0.0
        )
        wanted = refined_bound(
            tight_coefficient(kind), n_arms=4, steps=1e5, log_prior=log(50)
        )
        assert found.bound == pytest.approx(wanted.bound, rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "margin"),
    [("square", None), ("log", 0.2), ("linear", None), ("logistic", None)],
)
def test_no_other_radius_has_a_smaller_bound(kind: str, margin: float | None) -> None:
    smooth, ball = (
        theory.lipschitz_log_cover(dim=1, constant=2.0),
        theory.ball_log_cover(dim=3, norm=2.0),
    )
    for cover in (smooth, ball):
        problem: Any = {"kind": kind, "margin": margin, "n_arms": 2, "steps": 1e5}
        best = theory.covered_class_bound(cover, **problem).bound
        others = [
            theory.covered_class_bound(cover, radius=r, **problem).bound
            for r in np.geomspace(1e-3, 1, 60)
        ]
        assert best <= min(others) * (1 + 1e-9)


def test_a_radius_of_a_smooth_cover_in_closed_form() -> None:
    """d ln(1 + 2r/ε) + ηTε²/8 is least where its slope is 0."""
    radius = theory.cover_radius(
        theory.ball_log_cover(dim=2, norm=3.0), kind="logistic", steps=3000
    )
    slope = -2 * 6 / (radius * (radius + 6)) + 0.5 * 3000 / 8 * 2 * radius
    assert slope == pytest.approx(0, abs=1e-3)


def test_the_lipschitz_cover_covers() -> None:
    """Random Lipschitz functions are within ε of a function that is constant on cells,
    with one of the levels there."""
    generator, fine = np.random.default_rng(1), np.linspace(0, 1, 4001)
    for constant, radius in ((1.0, 0.1), (3.0, 0.07), (0.5, 0.3)):
        cells, levels = (
            max(int(np.ceil(constant / radius)), 1),
            int(np.ceil(1 / radius)),
        )
        assert theory.lipschitz_log_cover(dim=1, constant=constant)(
            radius
        ) == pytest.approx(cells * log(levels))
        middles, heights = (
            (np.arange(cells) + 0.5) / cells,
            (np.arange(levels) + 0.5) / levels,
        )
        for _ in range(20):
            slopes = constant * generator.choice([-1.0, 1.0], size=40)
            knots = np.clip(0.5 + np.cumsum(slopes) / 40, 0, 1)
            at = np.interp(middles, np.linspace(0, 1, 40), knots)
            chosen = heights[np.abs(at[:, None] - heights).argmin(axis=1)]
            stepped = chosen[np.minimum((fine * cells).astype(int), cells - 1)]
            slope = 40 / 39  # of the interpolation
            assert (
                np.abs(np.interp(fine, np.linspace(0, 1, 40), knots) - stepped).max()
                <= radius * slope + 1e-9
            )


@pytest.mark.parametrize("dim", [1, 2, 4])
def test_the_rate_of_smooth_functions(dim: int) -> None:
    """L of order T^(d/(d+2)) up to a logarithm, so regret of order T^(2/3 +
    d/(3(d+2)))."""
    cover = theory.lipschitz_log_cover(dim=dim, constant=1.0)
    at = [
        theory.covered_class_bound(cover, n_arms=2, steps=steps).bound
        for steps in (2.0**80, 2.0**100)
    ]
    assert log2(at[1] / at[0]) / 20 == pytest.approx(
        2 / 3 + dim / (3 * (dim + 2)), abs=0.02
    )


def test_log_loss_costs_at_most_chi_squared() -> None:
    """kl(f, g) <= ε²/(m(1-m)) for g in [m, 1-m] and |f - g| <= ε: the error that the
    bound counts."""
    for m in (0.05, 0.2, 0.5):
        g = np.linspace(m, 1 - m, 41)[:, None]
        f = np.clip(g + np.linspace(-0.3, 0.3, 61), 0, 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            kl = np.nan_to_num(f * np.log(f / g)) + np.nan_to_num(
                (1 - f) * np.log((1 - f) / (1 - g))
            )
        assert (kl <= (f - g) ** 2 / (m * (1 - m)) + 1e-12).all()


def test_wrong_covers_are_refused() -> None:
    cover = theory.ball_log_cover(dim=2, norm=1.0)
    with pytest.raises(od.InvalidInput, match="margin must be given for log loss"):
        theory.covered_class_bound(cover, kind="log", n_arms=2, steps=100)
    with pytest.raises(od.InvalidInput, match="margin must not be given"):
        theory.covered_class_bound(cover, margin=0.1, n_arms=2, steps=100)
    with pytest.raises(
        od.InvalidInput, match="kind must be square, log, linear, logistic"
    ):
        theory.covered_class_bound(cover, kind="cubic", n_arms=2, steps=100)
    with pytest.raises(od.InvalidInput, match="log_cover must give"):
        theory.covered_class_bound(lambda _: -1.0, n_arms=2, steps=100)
