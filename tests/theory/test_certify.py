"""certify: which losses qualify, with constants and counterexamples that an independent
evaluation confirms."""

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
    return np.where(
        np.abs(g - r) <= 0.5, 0.5 * (g - r) ** 2, 0.5 * (np.abs(g - r) - 0.25)
    )


PASS: dict[str, tuple[Callable[..., Any], float, float, float, float]] = {
    "square": (od.square_loss, 0.0, 1.0, 1.3333, 1.337),
    "log, clipped": (od.log_loss, 0.05, 0.95, 3.512, 3.59),
    "spherical": (spherical, 0.0, 1.0, 1.549, 1.569),
    "Poisson deviance": (poisson, 0.05, 1.0, 2.64, 3.0),
    "asymmetric": (asymmetric, 0.0, 1.0, 3.94, 4.0),
}
FAIL: dict[str, tuple[Callable[..., Any], str]] = {
    "absolute": (lambda g, r: np.abs(g - r), "C1"),
    "pinball": (lambda g, r: np.where(r >= g, 0.3 * (r - g), 0.7 * (g - r)), "C1"),
    "quartic": (lambda g, r: (g - r) ** 4, "C1"),
    "Huber 0.5": (huber, "C1"),
    "0-1": (lambda g, r: ((g > 0.5) != (np.asarray(r) > 0.5)).astype(float), "C4"),
    "0-1 with costs": (
        lambda g, r: np.where(
            np.asarray(r) == 1, 2.0 * (g <= 1 / 3), 1.0 * (g > 1 / 3)
        ),
        "C4",
    ),
    "tiny 0-1": (lambda g, r: 0.005 * ((g > 0.5) != (np.asarray(r) > 0.5)), "C4"),
    "square, 0.2 % off centre": (
        lambda g, r: np.where(np.asarray(r) == 1, 1.002, 1.0) * (g - r) ** 2,
        "C1",
    ),
}


@pytest.mark.parametrize("name", PASS)
def test_passes(name: str) -> None:
    loss, low, high, least, most = PASS[name]
    found = certify(loss, low, high)
    assert found.holds
    assert found.counterexample is None
    assert least <= found.kappa2_lower <= found.kappa2_upper <= most
    rng = np.random.default_rng(0)
    f, g = rng.uniform(low, high, (2, 20_000))
    d1, d0 = loss(g, 1.0) - loss(f, 1.0), loss(g, 0.0) - loss(f, 0.0)
    first, second = f * d1 + (1 - f) * d0, f * d1**2 + (1 - f) * d0**2
    assert (second <= found.kappa2_upper * first + 1e-9).all()
    eta = 0.3 * found.critical_eta()
    c = found.c(eta)
    assert c > 0
    rho = f * np.exp(-eta * d1) + (1 - f) * np.exp(-eta * d0)
    assert (1 - rho >= c * (f - g) ** 2 - 1e-12).all()


@pytest.mark.parametrize("name", FAIL)
def test_fails_with_a_counterexample_that_counts(name: str) -> None:
    loss, condition = FAIL[name]
    broken = certify(loss).counterexample
    assert broken is not None
    assert broken.condition == condition
    f, g = broken.f, broken.g
    lhat = {
        r: float(loss(np.array(g), r)) - float(loss(np.array(f), r)) for r in (1.0, 0.0)
    }
    first = f * lhat[1.0] + (1 - f) * lhat[0.0]
    second = f * lhat[1.0] ** 2 + (1 - f) * lhat[0.0] ** 2
    assert first == pytest.approx(broken.mean, abs=1e-12)
    assert first < 0 if condition == "C1" else second > 1e6 * first >= 0


def savage_loss(
    weight: np.ndarray, tilt: np.ndarray | None = None
) -> Callable[..., Any]:
    """l0 = ∫_0^g u w, l1 = ∫_g^1 (1-u) (w + tilt) for polynomials w (lowest power
    first); proper when tilt is 0."""
    w = np.polynomial.Polynomial(weight)
    other = w if tilt is None else np.polynomial.Polynomial(tilt)
    u = np.polynomial.Polynomial([0.0, 1.0])
    zero, one = (u * w).integ(), ((1 - u) * other).integ()
    return lambda g, r: r * (one(1.0) - one(g)) + (1 - r) * zero(g)


positive = st.lists(st.floats(0.0, 5.0), min_size=1, max_size=4)


@given(positive, st.floats(0.1, 3.0))
@settings(max_examples=60)
def test_random_savage_losses_pass(coefficients: list[float], constant: float) -> None:
    weight = np.array([constant, *coefficients])
    found = certify(savage_loss(weight), n=100)
    assert found.counterexample is None  # coefficients are rounded: not proved
    assert found.kappa2_lower <= found.kappa2_upper
    assert found.w_min >= constant - 1e-6


@given(positive, st.floats(0.1, 3.0), st.floats(1.2, 4.0), st.booleans())
@settings(max_examples=60)
def test_random_losses_that_are_not_proper_fail(
    coefficients: list[float], constant: float, factor: float, heavier: bool
) -> None:
    weight = np.array([constant, *coefficients])
    found = certify(
        savage_loss(weight, weight * (factor if heavier else 1 / factor)), n=100
    )
    assert not found.holds
    assert found.counterexample is not None
    assert found.counterexample.condition == "C1"


@pytest.mark.parametrize("name", PASS)
def test_kappa1_holds_for_random_experts(name: str) -> None:
    """C2 by search: Delta_i <= kappa_1 sqrt(E lhat_i) for random experts and any
    weights."""
    rng = np.random.default_rng(1)
    loss, low, high, *_ = PASS[name]
    found, gamma, k = certify(loss, low, high), 0.2, 4
    truth, other = rng.uniform(low, high, (2, 20_000, k))
    same = rng.random((20_000, k)) < 0.5
    other = np.where(same, truth, other)
    odds = (1 - gamma) * rng.dirichlet(np.full(k, 0.2), 20_000) + gamma / k
    lhat = truth * (loss(other, 1.0) - loss(truth, 1.0)) + (1 - truth) * (
        loss(other, 0.0) - loss(truth, 0.0)
    )
    gap = (
        truth.max(axis=1)
        - np.take_along_axis(truth, other.argmax(axis=1)[:, None], axis=1)[:, 0]
    )
    assert (
        gap <= found.kappa1(k, gamma) * np.sqrt((odds * lhat).sum(axis=1)) + 1e-9
    ).all()


def test_kappa1_of_square_loss_is_attained() -> None:
    """Two arms without votes, on which the expert errs by d up and d down: Delta = 2d,
    E lhat = 2 d² gamma/K."""
    gamma, k, d = 0.2, 4, 0.1
    truth, other = (
        np.array([0.5 + d, 0.5 - d, 0.0, 0.0]),
        np.array([0.5 - 1e-9, 0.5, 0.0, 0.0]),
    )
    odds = np.array([gamma / k, gamma / k, 1 - 3 * gamma / k, gamma / k])
    ratio = (truth.max() - truth[other.argmax()]) / np.sqrt(odds @ (truth - other) ** 2)
    assert ratio == pytest.approx(certify(od.square_loss).kappa1(k, gamma), rel=1e-6)


def test_a_weight_that_vanishes_promises_nothing() -> None:
    """w(u) = 2u, clipped log loss, a constant: C1 and C4 hold, but some predictions
    cannot be told apart."""
    for loss in (
        lambda g, r: r * (1 - 3 * g**2 + 2 * g**3) / 3 + (1 - r) * 2 * g**3 / 3,
        lambda g, r: od.log_loss(np.clip(g, 0.05, 0.95), r),
        lambda g, r: 0 * g,
    ):
        found = certify(loss)
        assert found.counterexample is None
        assert not found.holds
        assert found.critical_eta() == 0
        assert found.kappa1(2, 0.1) == np.inf
        with pytest.raises(od.InvalidInput, match="weight w vanishes"):
            od.theory.regret_bound(loss, n_arms=2, steps=100, prior=0.1)


@pytest.mark.parametrize("factor", [1e-6, 0.25, 100.0])
def test_constants_of_a_scaled_loss_scale(factor: float) -> None:
    found = certify(lambda g, r: factor * (g - r) ** 2)
    assert found.critical_eta() == pytest.approx(2 / factor, rel=1e-6)
    assert found.best().eta == pytest.approx(1.038339 / factor, rel=1e-4)
    assert found.estimate(found.best().eta) == pytest.approx(0.463698598631273)
    assert 0.4632 <= found.best().c <= 0.463698598631273
    assert found.kappa2_lower == pytest.approx(4 / 3 * factor, rel=1e-4)


def test_critical_eta_is_the_mixability_constant() -> None:
    assert certify(od.square_loss).critical_eta() == pytest.approx(2, abs=1e-6)
    assert certify(od.log_loss, 0.01, 0.99).critical_eta() == pytest.approx(1, abs=1e-6)
    assert certify(od.log_loss, 0.01, 0.99).estimate(0.5) == pytest.approx(
        0.5, abs=1e-6
    )


def test_beta_of_given_experts() -> None:
    table = np.array([[[0.7, 0.3], [0.4, 0.6]], [[0.2, 0.9], [0.8, 0.1]]])
    pairs = [
        abs(np.log(a / b))
        for x in (table, 1 - table)
        for c in x
        for a, b in (c[:, 0], c[:, 1])
    ]
    assert od.theory.beta(table) == pytest.approx(2 * max(pairs))


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: certify(lambda g, r: g * np.nan), "got NaN at prediction 0"),
        (lambda: certify(lambda g, r: np.array(1.0)), "elementwise"),
        (lambda: certify(lambda g, r: g if g > 0.5 else r), "it raised ValueError"),
        (lambda: certify(lambda g: g), ("it raised TypeError")),  # type: ignore[arg-type,misc]
        (lambda: certify(od.square_loss, n=0), "n must be a whole number"),
        (lambda: od.theory.kappa2(od.losses.scaled(od.square_loss, 2.0)), "plain loss"),
        (
            lambda: od.theory.tune("log", n_arms=2, prior=0.1, beta=-3),
            "beta must not be given",
        ),
        (
            lambda: od.theory.tune("log", n_arms=2, prior=0.1, constants="old"),  # type: ignore[arg-type]
            "'tight' or 'paper'",
        ),
        (
            lambda: od.theory.switching_bound(
                "log",
                n_arms=2,
                steps=9,
                prior=0.1,
                switches=2.5,  # type: ignore[arg-type]
            ),
            "whole number",
        ),
        (
            lambda: od.theory.changing_arms_bound(
                "log",
                n_arms=[np.nan, 3],  # type: ignore[list-item]
                prior=0.1,
                gamma=0.1,
            ),
            "n_arms must be",
        ),
        (
            lambda: od.theory.changing_arms_bound(
                "log", n_arms=[2, 3], prior=0.1, gamma=[0.1] * 3
            ),
            "gamma must be",
        ),
        (lambda: od.theory.theorem1(np.inf, 1.0, steps=10, gamma=1), "kappa1 must be"),
        (
            lambda: od.theory.class_complexity("linear", dim=0, steps=9, eta=1, norm=1),
            "dim must be",
        ),
        (lambda: certify(od.square_loss, 0.5, 0.5), "low must be below high"),
        (lambda: certify("square"), ("loss must be a function")),  # type: ignore[arg-type]
        (
            lambda: certify(lambda g, r: abs(g - r)).best(),
            "must satisfy the conditions",
        ),
        (
            lambda: od.theory.kappa2("square", beta=1.0),
            "beta must not be given for square loss",
        ),
        (lambda: od.theory.kappa2("log"), "beta must be given"),
        (lambda: od.theory.kappa2(spherical), "certify"),
        (lambda: od.theory.beta([[0.0, 0.5]]), r"inside \(0, 1\)"),
        (
            lambda: od.theory.regret_bound("log", n_arms=2, steps=0.5, prior=0.1),
            "steps must be in",
        ),
        (
            lambda: od.theory.regret_bound("log", n_arms=2, steps=10, prior=0),
            r"prior must be in \(0, 1\]",
        ),
        (
            lambda: od.theory.regret_bound("log", n_arms=0, steps=10, prior=0.1),
            "n_arms must be a whole number",
        ),
        (
            lambda: od.theory.regret_bound("hinge", n_arms=2, steps=10, prior=0.1),
            "loss must be one of log, square, or",
        ),
        (
            lambda: od.theory.regret_bound(
                "log", n_arms=2, steps=10, prior=0.1, beta=2
            ),
            "beta must not be given",
        ),
        (
            lambda: od.theory.regret_bound(
                spherical, n_arms=2, steps=9, prior=0.1, constants="paper"
            ),
            "plain square and log",
        ),
        (
            lambda: od.theory.bayes_regret_bound(
                [0.5, 0.5], [1.0, 0.0], loss="log", n_arms=2, steps=10
            ),
            (
                "prior must be positive where true_prior is, or the bound is infinite; "
                "got 0 at expert 1"
            ),
        ),
        (
            lambda: od.theory.tune(
                "log", n_arms=2, prior=0.1, constants="paper", beta=2
            ),
            "steps must be given",
        ),
    ],
)
def test_wrong_questions_get_one_clear_sentence(
    attempt: Callable[[], object], message: str
) -> None:
    with pytest.raises(od.InvalidInput, match=message) as caught:
        attempt()
    assert "\n" not in str(caught.value)


def test_a_loss_without_a_hash_is_certified_too() -> None:
    class Unhashable:
        __hash__ = None  # type: ignore[assignment]

        def __call__(self, prediction: Any, reward: Any) -> Any:
            return (prediction - reward) ** 2

    assert od.theory.coefficients.largest_shift(Unhashable(), None) == pytest.approx(
        1.0
    )
