"""certify: which losses qualify, with constants and counterexamples that an independent evaluation confirms."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from oddsmith.theory import certify


def spherical(g: Any, r: Any) -> Any:
    return 1 - (r * g + (1 - r) * (1 - g)) / np.sqrt(g**2 + (1 - g) ** 2)


def poisson(g: Any, r: Any) -> Any:
    return g - r * np.log(g)


def asymmetric(g: Any, r: Any) -> Any:
    """Savage's form with w(u) = 2 + 6u."""
    return r * ((1 - g) ** 2 + 1 - 3 * g**2 + 2 * g**3) + (1 - r) * (g**2 + 2 * g**3)


def huber(g: Any, r: Any) -> Any:
    return np.where(np.abs(g - r) <= 0.5, 0.5 * (g - r) ** 2, 0.5 * (np.abs(g - r) - 0.25))


PASS: dict[str, tuple[Callable[..., Any], float, float, float, float]] = {
    "square": (od.square_loss, 0.0, 1.0, 1.3333, 1.337),
    "log, clipped": (od.log_loss, 0.05, 0.95, 3.512, 3.59),
    "spherical": (spherical, 0.0, 1.0, 1.549, 1.569),
    "Poisson deviance": (poisson, 0.05, 1.0, 2.64, 2.992),
    "asymmetric": (asymmetric, 0.0, 1.0, 3.94, 4.0),
}
FAIL: dict[str, tuple[Callable[..., Any], str]] = {
    "absolute": (lambda g, r: np.abs(g - r), "C1"),
    "pinball": (lambda g, r: np.where(r >= g, 0.3 * (r - g), 0.7 * (g - r)), "C1"),
    "quartic": (lambda g, r: (g - r) ** 4, "C1"),
    "Huber 0.5": (huber, "C1"),
    "0-1": (lambda g, r: ((g > 0.5) != (np.asarray(r) > 0.5)).astype(float), "C4"),
}


@pytest.mark.parametrize("name", PASS)
def test_passes(name: str) -> None:
    loss, low, high, least, most = PASS[name]
    found = certify(loss, low, high)
    assert found.holds
    assert found.savage
    assert least <= found.kappa2_lower <= found.kappa2_upper <= most
    rng = np.random.default_rng(0)
    f, g = rng.uniform(low, high, (2, 20_000))
    d1, d0 = loss(g, 1.0) - loss(f, 1.0), loss(g, 0.0) - loss(f, 0.0)
    first, second = f * d1 + (1 - f) * d0, f * d1**2 + (1 - f) * d0**2
    assert (second <= found.kappa2_upper * first + 1e-9).all()
    for eta in (0.3, 0.9):
        rho = f * np.exp(-eta * d1) + (1 - f) * np.exp(-eta * d0)
        assert (1 - rho >= found.c(eta) * (f - g) ** 2 - 1e-9).all()


@pytest.mark.parametrize("name", FAIL)
def test_fails_with_a_counterexample_that_counts(name: str) -> None:
    loss, condition = FAIL[name]
    broken = certify(loss).counterexample
    assert broken is not None
    assert broken.condition == condition
    f, g = broken.f, broken.g
    lhat = {r: float(loss(np.array(g), r)) - float(loss(np.array(f), r)) for r in (1.0, 0.0)}
    first = f * lhat[1.0] + (1 - f) * lhat[0.0]
    second = f * lhat[1.0] ** 2 + (1 - f) * lhat[0.0] ** 2
    assert first == pytest.approx(broken.mean, abs=1e-12)
    assert first < 0 if condition == "C1" else (first <= 1e-9 and second > 0.1)


def savage_loss(weight: np.ndarray, tilt: np.ndarray | None = None) -> Callable[..., Any]:
    """l0 = ∫_0^g u w, l1 = ∫_g^1 (1-u) (w + tilt) for polynomials w (lowest power first); proper when tilt is 0."""
    w = np.polynomial.Polynomial(weight)
    other = w if tilt is None else np.polynomial.Polynomial(tilt)
    u = np.polynomial.Polynomial([0.0, 1.0])
    zero, one = (u * w).integ(), ((1 - u) * other).integ()
    return lambda g, r: r * (one(1.0) - one(g)) + (1 - r) * zero(g)


positive = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=4)


@given(positive, st.floats(0.1, 3.0))
@settings(max_examples=200)
def test_random_savage_losses_pass(coefficients: list[float], constant: float) -> None:
    weight = np.array([constant, *coefficients])
    found = certify(savage_loss(weight), n=100)
    assert found.holds
    assert found.kappa2_lower <= found.kappa2_upper
    assert found.w_min >= constant - 1e-6


@given(positive, st.floats(0.1, 3.0), st.floats(1.2, 4.0), st.booleans())
@settings(max_examples=200)
def test_random_losses_that_are_not_proper_fail(
    coefficients: list[float], constant: float, factor: float, heavier: bool
) -> None:
    weight = np.array([constant, *coefficients])
    found = certify(savage_loss(weight, weight * (factor if heavier else 1 / factor)), n=100)
    assert not found.holds
    assert found.counterexample is not None
    assert found.counterexample.condition == "C1"


def test_kappa1_holds_for_random_experts() -> None:
    """C2 by search: Delta_i <= kappa_1 sqrt(E lhat_i) for random experts and any weights, tight within 2."""
    rng = np.random.default_rng(1)
    found, gamma, k = certify(od.square_loss), 0.2, 4
    worst = 0.0
    for _ in range(20_000):
        truth, other = rng.random((2, k)) ** rng.uniform(0.2, 3)
        votes = rng.dirichlet(np.full(k, 0.2))
        odds = (1 - gamma) * votes + gamma / k
        gap = truth.max() - truth[other.argmax()]
        loss = odds @ (truth - other) ** 2
        worst = max(worst, gap / np.sqrt(loss))
    assert worst <= found.kappa1(k, gamma)
    assert worst >= found.kappa1(k, gamma) / 4


def test_critical_eta_is_the_mixability_constant() -> None:
    assert certify(od.square_loss).critical_eta() == pytest.approx(2, abs=1e-6)
    assert certify(od.log_loss, 0.01, 0.99).critical_eta() == pytest.approx(1, abs=1e-6)
    assert certify(od.log_loss, 0.01, 0.99).c(0.5) == pytest.approx(0.5, abs=1e-6)


def test_beta_of_given_experts() -> None:
    table = np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.2, 0.9], [0.8, 0.1]]])
    pairs = [abs(np.log(a / b)) for x in (table, 1 - table) for c in x for a, b in (c[:, 0], c[:, 1])]
    assert od.theory.beta(table) == pytest.approx(2 * max(pairs))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: certify(lambda g, r: g * np.nan), "got NaN at prediction 0"),
        (lambda: certify(lambda g, r: np.array(1.0)), "elementwise"),
        (lambda: certify(od.square_loss, 0.5, 0.5), "low must be below high"),
        (lambda: certify("square"), "loss must be a function"),  # type: ignore[arg-type]
        (lambda: certify(lambda g, r: abs(g - r)).best(), "must satisfy the conditions"),
        (lambda: od.theory.kappa2("square", beta=1.0), "beta must not be given for square loss"),
        (lambda: od.theory.kappa2("log"), "beta must be given"),
        (lambda: od.theory.kappa2(spherical), "certify"),
        (lambda: od.theory.beta([[0.0, 0.5]]), r"inside \(0, 1\)"),
        (lambda: od.theory.regret_bound("log", n_arms=2, steps=0.5, prior=0.1), "steps must be in"),
        (lambda: od.theory.regret_bound("log", n_arms=2, steps=10, prior=0), r"prior must be in \(0, 1\]"),
        (lambda: od.theory.regret_bound("log", n_arms=0, steps=10, prior=0.1), "n_arms must be a whole number"),
        (lambda: od.theory.regret_bound("hinge", n_arms=2, steps=10, prior=0.1), "loss must be square, log"),
        (lambda: od.theory.regret_bound("log", n_arms=2, steps=10, prior=0.1, beta=2), "beta must not be given"),
        (lambda: od.theory.regret_bound(spherical, n_arms=2, steps=9, prior=0.1, constants="paper"), "the paper's"),
        (
            lambda: od.theory.bayes_regret_bound([0.5, 0.5], [1.0, 0.0], loss="log", n_arms=2, steps=10),
            "prior must be positive where true_prior is, or the bound is infinite; got 0 at expert 1",
        ),
        (lambda: od.theory.tune("log", n_arms=2, prior=0.1, constants="paper", beta=2), "steps must be given"),
    ],
)
def test_wrong_questions_get_one_clear_sentence(attempt: Callable[[], object], message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message) as caught:
        attempt()
    assert "\n" not in str(caught.value)
