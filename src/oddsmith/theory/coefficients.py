"""Coefficient (eta, c) of a loss, in squared gaps: proved for log loss, square loss and
formulas, numerical for others."""

from functools import lru_cache
from math import inf
from typing import TypeAlias

from oddsmith.core.arrays import number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Loss, Scaled
from oddsmith.theory.conditions import Certificate, certify
from oddsmith.theory.constants import (
    Coefficient,
    c_log,
    c_square,
    loss_function,
    loss_name,
)

__all__ = ["AnyLoss", "caveat", "coefficient_at", "largest_shift", "tight_coefficient"]

AnyLoss: TypeAlias = Loss | str | Certificate
"""A loss function, a name of `LOSSES`, or the certificate of a user's own loss (for
predictions in a part of [0, 1])."""


def tight_coefficient(loss: AnyLoss) -> Coefficient:
    """Return the best known (eta, c). Those of log (1/2, 1/2) and square (1, 0.46) are
    proved, those of other losses as far as `certify` proves them.

    >>> from oddsmith.core.losses import log_loss, scaled
    >>> tight_coefficient("square"), tight_coefficient(scaled(log_loss, 4.0))
    (Coefficient(eta=1.0, c=0.46), Coefficient(eta=2.0, c=0.5))
    """
    if isinstance(loss, Certificate):
        return loss.best()
    # Scale invariance: if the loss is divided by beta, eta must be multiplied by beta.
    if isinstance(loss, Scaled):
        inner = tight_coefficient(loss.loss)
        return Coefficient(inner.eta * loss.beta, inner.c)
    name = loss_name(loss)
    if name == "log":
        return Coefficient(0.5, 0.5)
    if name == "square":
        return Coefficient(1.0, 0.46)
    return _certificate(loss).best()


def coefficient_at(loss: AnyLoss, eta: float) -> Coefficient:
    """Return (eta, c(eta)) for a given eta: proved for square loss, 2η(1-η) for log
    loss (Gilardoni 2010), numerical for others."""
    if isinstance(loss, Scaled):
        unscaled = coefficient_at(loss.loss, eta / loss.beta)
        return Coefficient(eta, unscaled.c)
    if isinstance(loss, Certificate):
        return Coefficient(eta, loss.c(eta))
    name = loss_name(loss)
    if name == "log":
        return Coefficient(eta, c_log(eta))
    if name == "square":
        return Coefficient(eta, c_square(eta))
    return Coefficient(eta, _certificate(loss).c(eta))


def largest_shift(loss: AnyLoss, beta: float | None) -> float:
    """Return the largest |lhat|: 1 for square loss, beta/2 for log loss."""
    if isinstance(loss, Scaled):
        return largest_shift(loss.loss, beta) / loss.beta
    if isinstance(loss, Certificate):
        return loss.scale
    name = loss_name(loss)
    if name == "square":
        return 1.0
    if name != "log":
        return _certificate(loss).scale
    if beta is None:
        raise InvalidInput(
            "beta must be given for log loss here (see beta(predictions)); got none"
        )
    return number("beta", beta, low=0, high=inf, open_low=True) / 2


def caveat(loss: AnyLoss) -> str:
    """Return the caveat for a loss whose constants are not proved."""
    if isinstance(loss, Scaled):
        return caveat(loss.loss)
    if not isinstance(loss, Certificate):
        if loss_name(loss) != "own":
            return ""
        loss = _certificate(loss)
    span = f", predictions and means are in [{loss.low:g}, {loss.high:g}]"
    if loss.proof is None:
        return (
            f"{span}, the loss is affine in the reward, and c, found numerically, is "
            "right"
        )
    if loss.rewards == "unit":
        return span
    return f"{span}, rewards are 0 or 1"


def _certificate(loss: Loss | str) -> Certificate:
    function = loss_function(loss)
    try:
        hash(function)
    except TypeError:  # a custom loss that is not hashable cannot be cached
        return certify(function)
    return _cached_certify(function)


_cached_certify = lru_cache(maxsize=32)(certify)
