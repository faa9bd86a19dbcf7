"""Losses: plain elementwise functions `loss(prediction, reward)`.

Both arguments broadcast. Rewards may be any numbers in [0, 1]: for these losses
Bernoulli rewards are the worst case, so rounding a fractional reward is never needed
(docs/math 5.13). A loss of `inf` is allowed and refutes the expert; NaN means "outside
the loss's domain".
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from types import ModuleType
from typing import Any, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Real, number
from oddsmith.core.errors import InvalidInput

__all__ = [
    "LOSSES",
    "Loss",
    "Scaled",
    "domain",
    "log_loss",
    "scaled",
    "square_loss",
    "total_log_loss",
]

Loss: TypeAlias = Callable[[Array, Any], Array]
"""A loss function loss(predictions, rewards), elementwise."""


def square_loss(prediction: Array, reward: Real) -> Array:
    """Return (g - r)², the square loss of prediction g on reward r (Li 2013, Section
    4.1).

    >>> square_loss(np.array([0.5, 1.0]), 1)
    array([0.25, 0.  ])
    """
    difference = prediction - reward
    return difference * difference


def log_loss(prediction: Array, reward: Real) -> Array:
    """Return -r ln g - (1 - r) ln(1 - g), the log loss with 0 ln 0 = 0 (Li 2013,
    Section 4.2).

    A prediction of 0 or 1 that turns out wrong costs `inf`; outside [0, 1] the loss is
    NaN.

    >>> log_loss(np.array([0.5, 1.0, 0.0]), 1)
    array([0.69314718, 0.        ,        inf])
    """
    special = _special()
    if isinstance(reward, float) and reward == 1.0:
        log_likelihood = special.xlogy(1.0, prediction)
    elif isinstance(reward, float) and reward == 0.0:
        log_likelihood = special.xlog1py(1.0, -prediction)
    else:
        hit = special.xlogy(reward, prediction)
        miss = special.xlog1py(1 - reward, -prediction)
        log_likelihood = hit + miss
    loss: Array = 0.0 - log_likelihood
    # xlogy(0, ·) is 0 even if the prediction is outside [0, 1]. The other term is then
    # negative.
    is_outside = loss < 0
    if np.count_nonzero(is_outside):
        return np.where(is_outside, np.nan, loss)
    return loss


def total_log_loss(predictions: Array, rewards: Array) -> Array | None:
    """Return Σ_t log_loss (N,) for predictions (T, N) and rewards of 0 and 1, with one
    logarithm per 16 rows, or None.

    The sum is -Σ ln q = -ln Π q, where q is the predicted probability of the observed
    reward. The result is None if digits could be lost: a fractional reward, a
    prediction outside [0, 1] or missing, a product that underflows.

    >>> predictions = np.array([[0.5, 0.2], [0.5, 0.2]])
    >>> total_log_loss(predictions, np.array([1.0, 0.0])).round(3)
    array([1.386, 1.833])
    """
    is_one = rewards == 1
    is_zero = rewards == 0
    if not (is_one | is_zero).all() or not predictions.size:
        return None
    likelihoods = np.where(is_one[:, None], predictions, 1 - predictions)
    if not (likelihoods.min() >= 0 and likelihoods.max() <= 1):
        return None
    n_rows, n_experts = likelihoods.shape
    n_whole = n_rows - n_rows % 16
    groups = likelihoods[:n_whole].reshape(-1, 16, n_experts)
    group_products = np.multiply.reduce(groups, axis=1)
    last_product = np.multiply.reduce(likelihoods[n_whole:], axis=0)
    products = np.concatenate([group_products, last_product[None]])
    if products.min() < 1e-290:
        return None
    total: Array = -np.log(products).sum(axis=0)
    return total


def domain(loss: Loss) -> tuple[float, float]:
    """Return the range of predictions for which a loss is defined: [0, 1] if it is NaN
    outside, like log loss, otherwise up to a million.

    Beyond a million, a square is not useful as a loss: one such prediction would
    outweigh all others.

    >>> domain(log_loss), domain(square_loss)
    ((0.0, 1.0), (-1000000.0, 1000000.0))
    """
    outside = np.array([-0.5, 1.5])
    with np.errstate(all="ignore"):
        losses = [loss(outside, reward) for reward in (0.0, 0.5, 1.0)]
    if np.isnan(losses).any():
        return 0.0, 1.0
    return -1e6, 1e6


@cache
def _special() -> ModuleType:
    """Import scipy.special on first use, because it takes longer than all other
    imports."""
    import scipy.special

    return scipy.special  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Scaled:
    """loss / beta, the paper's normalised loss. `scaled` creates it."""

    loss: Loss
    beta: float

    def __post_init__(self) -> None:
        if not callable(self.loss):
            raise InvalidInput(
                f"loss must be a function of prediction and reward; got {self.loss!r}"
            )
        number("beta", self.beta, low=0, high=np.inf, open_low=True)

    def __call__(self, prediction: Array, reward: Real) -> Array:
        return self.loss(prediction, reward) / self.beta


def scaled(loss: Loss, beta: float) -> Scaled:
    """Return loss / beta. If eta is multiplied by beta, all weights are exactly the
    same (scale invariance).

    >>> scaled(square_loss, 4.0)(np.array([0.5]), 1)
    array([0.0625])
    """
    return Scaled(loss, beta)


LOSSES: dict[str, Loss] = {"log": log_loss, "square": square_loss}
"""Losses by their names in files and commands."""
