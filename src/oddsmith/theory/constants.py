"""Constants of the theory: kappa_1, kappa_2 and the coefficients of Lemma 1, in the
paper's and in tight form.

Notation: K arms, L = ln(1/p_1), lhat = shifted loss, beta = range of the raw log-loss
ratios (V = beta/2).
"""

from math import asinh, e, expm1, factorial, inf, log, sinh, sqrt
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import check_range, number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import LOSSES, Loss, Scaled, log_loss, square_loss

__all__ = [
    "Coefficient",
    "Constants",
    "best_gamma",
    "beta",
    "c_log",
    "c_square",
    "kappa1_averaged",
    "kappa2",
    "lemma1",
    "log_inverse",
    "loss_function",
    "loss_name",
    "ratio_constant",
]

E2 = e - 2
Constants = Literal["tight", "paper"]


class Coefficient(NamedTuple):
    """A learning rate eta and the c with E ln(W_{t+1}/W_t) <= -c lbar_t (or -c D_t):
    the total is at most L/c."""

    eta: float
    c: float


def loss_name(loss: Loss | str) -> str:
    """Return "square" or "log" for these losses (scaled or not), otherwise "own"."""
    function = loss_function(loss)
    plain = function
    if isinstance(function, Scaled):
        plain = function.loss
    if plain is square_loss:
        return "square"
    if plain is log_loss:
        return "log"
    return "own"


def loss_function(loss: Loss | str) -> Loss:
    """Return the loss function for a name in `LOSSES`, or the given function."""
    if not isinstance(loss, str):
        return loss
    if loss not in LOSSES:
        names = ", ".join(LOSSES)
        raise InvalidInput(f"loss must be one of {names}, or a function; got {loss!r}")
    return LOSSES[loss]


def ratio_constant(v: float) -> float:
    """Return c(V) = V² / (e^{-V} + V - 1). E lhat² <= c(V) kl whenever lhat <= V
    (docs/math 3.1); c(0) = 2.

    >>> round(ratio_constant(1.0), 6)
    2.718282
    """
    return 1 / _phi(v)


def _phi(v: float) -> float:
    """Return (e^{-v} + v - 1)/v², by its series if the difference would lose digits."""
    if abs(v) < 1e-2:
        return sum((-v) ** k / factorial(k + 2) for k in range(7))
    return (expm1(-v) + v) / v**2


def kappa2(
    loss: Loss | str, *, beta: float | None = None, low: float = 0.0, high: float = 1.0
) -> float:
    """Return the smallest kappa_2 with E lhat² <= kappa_2 E lhat (C4), which is tight
    for predictions in [low, high].

    For square loss it is max (g-f)² + 4f(1-f), 4/3 on [0, 1]. For log loss divided by
    beta it is c(beta/2)/beta.

    >>> round(kappa2("square"), 6), round(kappa2("log", beta=2.0), 6)
    (1.333333, 1.359141)
    """
    if isinstance(loss, Scaled):
        raise InvalidInput(
            "kappa2 is for the plain loss (a loss divided by s has kappa_2/s); got a "
            "scaled one"
        )
    name = loss_name(loss)
    if name == "square":
        if beta is not None:
            raise InvalidInput(
                "beta must not be given for square loss, which needs no "
                f"normalisation; got {beta}"
            )
        check_range(low, high)
        # Values of g at the top and at the bottom of the range.
        upper = _square_kappa2(low, high)
        lower = _square_kappa2(1 - high, 1 - low)
        return max(upper, lower)
    if name == "log":
        if beta is None:
            raise InvalidInput(
                "beta must be given for log loss (see beta(predictions)); got none"
            )
        number("beta", beta, low=0, high=inf, open_low=True)
        return ratio_constant(beta / 2) / beta
    raise InvalidInput(
        "kappa2 is known only for square and log loss; use certify(loss) for your own"
    )


def _square_kappa2(low: float, high: float) -> float:
    """Return (high - f)² + 4f(1-f), which is concave in f, at its best f in [low,
    high]."""
    best = (2 - high) / 3
    f = min(max(best, low), high)
    distance = high - f
    return distance**2 + 4 * f * (1 - f)


def beta(predictions: npt.ArrayLike) -> float:
    """Return 2V, twice the largest |ln f_i/f_j| or |ln (1-f_i)/(1-f_j)| between experts
    (…, N, K): the beta of log loss.

    >>> round(beta([[[0.5, 0.9]], [[0.25, 0.9]]]), 6)
    0.0
    >>> round(beta([[0.5, 0.9], [0.25, 0.9]]), 6)
    1.386294
    """
    values = np.asarray(predictions, dtype=np.float64)
    if values.ndim < 2 or values.size == 0:
        raise InvalidInput(
            f"predictions must have shape (…, experts, arms); got {values.shape}"
        )
    if not ((values > 0) & (values < 1)).all():
        raise InvalidInput(
            "predictions must be inside (0, 1), or the ratios are infinite: clip them; "
            "got 0, 1 or NaN"
        )
    largest = 0.0
    for chances in (values, 1 - values):
        least = chances.min(axis=-2)
        ratios = chances.max(axis=-2) / least
        farthest = np.log(ratios).max()
        largest = max(largest, float(farthest))
    return 2 * largest


def kappa1_averaged(n_arms: int, gamma: float) -> float:
    """Return kappa~_1 = sqrt(K/γ + K(K-1)/(K-γ)), in units of the squared gap: tight,
    averaged over the posterior (3.2)."""
    others = n_arms * (n_arms - 1) / (n_arms - gamma)
    return sqrt(n_arms / gamma + others)


def lemma1(kappa2: float, b: float = 1.0) -> Coefficient:
    """Return the paper's choice, eta = 1/(2(e-2)kappa_2) and c = eta/2, with eta cut to
    1/b if lhat >= -b requires it (erratum 4)."""
    best = 1 / (2 * E2 * kappa2)
    eta = min(best, 1 / b)
    shrunk = 1 - E2 * eta * kappa2
    return Coefficient(eta, eta * shrunk)


def c_log(eta: float) -> float:
    """Return c(eta) = 2 eta (1 - eta) for log loss, in units of the squared gap and
    without beta (3.3). The best is c = 1/2 at eta = 1/2."""
    return 2 * eta * (1 - eta)


def c_square(eta: float) -> float:
    """Return 1 - exp(-eta(1 - eta/2)), proved for square loss by Hoeffding's lemma. At
    eta = 1 the proved 0.46 is better."""
    return -expm1(-eta * (1 - eta / 2))


def best_gamma(b: float, t: float) -> float:
    """Return the gamma in [0, 1] that minimises (1-γ) B/√γ + γ T' (3.6): u³ + u = 2T'/B
    with u = γ^{-1/2}, in closed form."""
    if b == 0:
        return 0.0
    if t <= b:
        return 1.0
    argument = 3 * sqrt(3) * t / b
    u = 2 / sqrt(3) * sinh(asinh(argument) / 3)
    return min(1.0, u**-2)


def log_inverse(prior: float) -> float:
    """Return L = ln(1/p) for a prior probability p in (0, 1]."""
    return -log(number("prior", prior, low=0, high=1, open_low=True))
