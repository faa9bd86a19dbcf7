"""Losses: plain elementwise functions `loss(prediction, reward)`.

Both arguments broadcast; rewards may be any numbers in [0, 1] (theory 5.13: for these
losses Bernoulli rewards are the worst case, so rounding a fractional reward is never
needed). A loss of `inf` is allowed (it refutes the expert); NaN means "outside the
loss's domain".
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
"""loss(predictions, rewards), elementwise."""


def square_loss(prediction: Array, reward: Real) -> Array:
    """(g - r)², the square loss of prediction g on reward r (Li 2013, Section 4.1).

    >>> square_loss(np.array([0.5, 1.0]), 1)
    array([0.25, 0.  ])
    """
    difference = prediction - reward
    return difference * difference


def log_loss(prediction: Array, reward: Real) -> Array:
    """-r ln g - (1 - r) ln(1 - g), the log loss with 0 ln 0 = 0 (Li 2013, Section 4.2).

    A prediction of 0 or 1 that turns out wrong costs `inf`; outside [0, 1] the loss is
    NaN.

    >>> log_loss(np.array([0.5, 1.0, 0.0]), 1)
    array([0.69314718, 0.        ,        inf])
    """
    special = _special()
    loss: Array
    if isinstance(reward, float) and reward in (0.0, 1.0):
        loss = 0.0 - (
            special.xlogy(1.0, prediction)
            if reward
            else special.xlog1py(1.0, -prediction)
        )
    else:
        loss = 0.0 - (
            special.xlogy(reward, prediction) + special.xlog1py(1 - reward, -prediction)
        )
    # Beware: xlog(0, ·) is 0 even outside the domain, and then the other term is a
    # negative loss.
    below = loss < 0
    return np.where(below, np.nan, loss) if np.count_nonzero(below) else loss


def total_log_loss(predictions: Array, rewards: Array) -> Array | None:
    """Σ_t log_loss (N,) of predictions (T, N) on rewards of 0 and 1, with one logarithm
    for 16 rows; else None.

    -Σ ln q = -ln Π q, where q is the probability given to what came. None where that is
    not sure to have all digits: a reward in between, a prediction outside [0, 1] or
    missing, a product that underflows.

    >>> total_log_loss(np.array([[0.5, 0.2], [0.5, 0.2]]), np.array([1.0, 0.0])).round(
    ...     3
    ... )
    array([1.386, 1.833])
    """
    won = rewards == 1
    if not (won | (rewards == 0)).all() or not predictions.size:
        return None
    likelihoods = np.where(won[:, None], predictions, 1 - predictions)
    if not (likelihoods.min() >= 0 and likelihoods.max() <= 1):
        return None
    whole = len(rewards) - len(rewards) % 16
    groups = likelihoods[:whole].reshape(-1, 16, likelihoods.shape[1])
    products = [
        np.multiply.reduce(groups, axis=1),
        np.multiply.reduce(likelihoods[whole:], axis=0)[None],
    ]
    if any(part.size and part.min() < 1e-290 for part in products):
        return None
    total: Array = -np.log(np.concatenate(products)).sum(axis=0)
    return total


def domain(loss: Loss) -> tuple[float, float]:
    """The predictions that a loss can score: [0, 1] where it is NaN outside, as log
    loss is; else up to a million.

    Beyond a million a square is no longer a loss to learn from: one such prediction
    would outweigh all others.

    >>> domain(log_loss), domain(square_loss)
    ((0.0, 1.0), (-1000000.0, 1000000.0))
    """
    with np.errstate(all="ignore"):
        outside = np.concatenate(
            [loss(np.array([-0.5, 1.5]), reward) for reward in (0.0, 0.5, 1.0)]
        )
    return (0.0, 1.0) if np.isnan(outside).any() else (-1e6, 1e6)


@cache
def _special() -> ModuleType:
    """scipy.special, which takes longer to import than all the rest: on first use."""
    import scipy.special

    return scipy.special  # type: ignore[no-any-return]


@dataclass(frozen=True)
class Scaled:
    """loss / beta, the paper's normalised loss; made by `scaled`."""

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
    """loss / beta. With eta · beta in place of eta it gives the very same weights
    (scale invariance).

    >>> scaled(square_loss, 4.0)(np.array([0.5]), 1)
    array([0.0625])
    """
    return Scaled(loss, beta)


LOSSES: dict[str, Loss] = {"log": log_loss, "square": square_loss}
"""Losses by the names that files and commands use."""
