"""The constants of the theory against their definitions, with many digits or by search;
and what they refuse."""

from decimal import Decimal, localcontext
from math import e, log

import numpy as np
import pytest

import oddsmith as od
from oddsmith.theory import constants as of

SMALL = [s * v for v in (1e-9, 1e-5, 0.0099, 0.01, 0.0101, 0.3) for s in (1, -1)]


def many_digits(v: float) -> float:
    """phi(V) = (e^{-V} + V - 1)/V²."""
    with localcontext(prec=80):
        x = Decimal(v)
        return float(((-x).exp() - 1 + x) / x**2)


@pytest.mark.parametrize("v", SMALL)
def test_ratios_where_differences_would_lose_their_digits(v: float) -> None:
    assert of.ratio_constant(v) == pytest.approx(1 / many_digits(v), rel=1e-12)
    assert of.ratio_constant(0.0) == 2


@pytest.mark.parametrize(
    ("low", "high"), [(0, 1), (0.2, 0.9), (0.6, 0.9), (0.05, 0.3), (0.5, 1), (0, 0.4)]
)
def test_kappa_2_of_square_loss_is_the_largest_ratio(low: float, high: float) -> None:
    """E lhat² / E lhat for lhat = (g - r)² - (f - r)², r Bernoulli(f), over a grid of f
    and g."""
    f, g = np.meshgrid(*[np.linspace(low, high, 801)] * 2, indexing="ij")
    shifted = [(g - r) ** 2 - (f - r) ** 2 for r in (0.0, 1.0)]
    second, first = ((1 - f) * shifted[0] ** k + f * shifted[1] ** k for k in (2, 1))
    ratios = second[first > 1e-9] / first[first > 1e-9]
    assert of.kappa2("square", low=low, high=high) == pytest.approx(
        ratios.max(), rel=3e-3
    )
    assert of.kappa2("square", low=low, high=high) >= ratios.max() - 1e-9


def test_beta_is_twice_the_largest_log_ratio_of_two_experts_on_one_arm() -> None:
    rng = np.random.default_rng(0)
    table = rng.uniform(0.05, 0.95, (4, 3, 2))
    pairs = [
        (x, a, i, j)
        for x in range(4)
        for a in range(2)
        for i in range(3)
        for j in range(3)
    ]
    ratios = [log(table[x, i, a] / table[x, j, a]) for x, a, i, j in pairs]
    others = [log((1 - table[x, i, a]) / (1 - table[x, j, a])) for x, a, i, j in pairs]
    assert of.beta(table) == pytest.approx(2 * max(*ratios, *others), rel=1e-13)
    assert of.beta(1 - table) == pytest.approx(of.beta(table), rel=1e-13)
    single = table[0].astype(np.float32)
    assert of.beta(single) == of.beta(single.astype(np.float64))
    assert of.beta([[0.3]]) == 0
    for wrong in ([0.5, 0.25], 0.5, np.zeros((0, 2))):
        with pytest.raises(
            od.InvalidInput,
            match=r"^predictions must have shape \(…, experts, arms\); got ",
        ):
            of.beta(wrong)
    for value in (0.0, 1.0, -0.5, 1.5, np.nan):
        with pytest.raises(
            od.InvalidInput,
            match=r"^predictions must be inside \(0, 1\), or the ratios are infinite: ",
        ):
            of.beta([[0.5, value], [0.5, 0.5]])


def test_learning_rates_and_what_they_buy() -> None:
    assert of.lemma1(2.0).eta == pytest.approx(1 / (4 * (e - 2)))
    assert of.lemma1(0.1, b=2.0) == pytest.approx((0.5, 0.5 * (1 - (e - 2) * 0.05)))
    assert of.lemma1(0.1, b=0.5).eta == pytest.approx(2.0)
    assert [of.c_log(eta) for eta in (0.25, 0.5, 1.0)] == [0.375, 0.5, 0.0]
    assert of.best_gamma(5.0, 5.0) == 1.0
    assert of.best_gamma(0.0, 5.0) == 0.0
    assert of.log_inverse(0.25) == pytest.approx(log(4))
    assert of.log_inverse(1) == 0


def test_losses_are_known_by_name() -> None:
    assert [
        of.loss_name(loss) for loss in ("square", "log", od.square_loss, od.log_loss)
    ] == ["square", "log"] * 2
    assert of.loss_name(od.losses.scaled(od.log_loss, 2.0)) == "log"
    assert of.loss_name(od.losses.scaled(od.square_loss, 2.0)) == "square"
    assert (
        of.loss_name(lambda g, r: g)
        == of.loss_name(od.losses.scaled(lambda g, r: g, 2.0))
        == "own"
    )
    with pytest.raises(
        od.InvalidInput,
        match=r"^loss must be one of log, square, or a function; got 'cubic'$",
    ):
        of.loss_name("cubic")


def test_what_constants_refuse() -> None:
    for prior in (0, 1.5, -0.1):
        with pytest.raises(
            od.InvalidInput, match=rf"^prior must be in \(0, 1\]; got {prior}$"
        ):
            of.log_inverse(prior)
    with pytest.raises(od.InvalidInput, match=r"^beta must be in \(0, inf\); got 0$"):
        of.kappa2("log", beta=0)
    with pytest.raises(
        od.InvalidInput,
        match=(
            r"^beta must be given for log loss \(see beta\(predictions\)\); got none$"
        ),
    ):
        of.kappa2("log")
    with pytest.raises(
        od.InvalidInput,
        match=r"^beta must not be given for square loss, which needs no normalisation",
    ):
        of.kappa2("square", beta=1.0)
    with pytest.raises(
        od.InvalidInput,
        match=r"^kappa2 is for the plain loss \(a loss divided by s has kappa_2/s\); ",
    ):
        of.kappa2(od.losses.scaled(od.square_loss, 2.0))
    with pytest.raises(
        od.InvalidInput,
        match=r"^kappa2 is known only for square and log loss; use certify\(loss\)",
    ):
        of.kappa2(lambda g, r: g)
    with pytest.raises(
        od.InvalidInput, match=r"^low must be below high; got low=0.5, high=0.25$"
    ):
        of.kappa2("square", low=0.5, high=0.25)
