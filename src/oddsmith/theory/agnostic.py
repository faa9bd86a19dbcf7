"""Guarantees without a correct expert: the bound of Hedged, and the limits of weights
based on prediction losses (docs/math 7)."""

from math import log, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, finite, number
from oddsmith.core.errors import InvalidInput, OutOfDomain
from oddsmith.core.losses import Loss
from oddsmith.theory.bounds import Bound, capped, check_problem
from oddsmith.theory.constants import log_inverse

__all__ = ["Departure", "critical_rate", "departure", "hedged_bound"]

# Grid of candidate values, whose best is within 1 % of the true optimum.
_POWERS = np.geomspace(1e-4, 1.0, 2000)


def hedged_bound(
    *, n_arms: int, steps: float, prior: float, trust: float = 0.5, to_gts: bool = False
) -> Bound:
    """Return (1 + ln(1/π_j)/D)(1/2 + sqrt(1/4 + D min(K, N+1) T)) - 1, the regret of
    Hedged to every expert's policy, or to GTS (docs/math 7.4).

    `prior` is that of the least likely expert, so there are at most 1/prior experts. D
    = ln(1 / min π), where the experts' policies have π = (1 - trust) prior and GTS has
    `trust`. With equal priors, the bound relative to policies is 2 sqrt(1/4 + K T ln
    2N).

    >>> round(hedged_bound(n_arms=2, steps=10_000, prior=0.5).bound, 1)
    333.0
    """
    check_problem(n_arms, steps)
    number("trust", trust, low=0, high=1, open_low=True, open_high=True)
    of_policy = log_inverse(prior) + log_inverse(1 - trust)
    of_gts = log_inverse(trust)
    depth = max(of_policy, of_gts)
    choices = min(n_arms, 1 / prior + 1)
    product = depth * choices * steps
    root = 0.5 + sqrt(0.25 + product)
    own_depth = of_policy
    rival = "every expert's policy"
    if to_gts:
        own_depth = of_gts
        rival = "the advice of GTS on the same history"
    terms = {"learning": root - 1, "prior": own_depth / depth * root}
    applies = (
        f"regret is against {rival}; no expert need be right, rewards of arms are "
        "fixed before the draw"
    )
    return capped(terms, steps, eta=None, gamma=None, applies=applies)


class Departure(NamedTuple):
    """How GTS abandons an expert that predicts worse than another on every arm,
    although its policy may earn more (docs/math 7.2).

    Each step shrinks (w_adviser / w_predictor)^power to at most `rate` of it on
    average, so that the adviser's weights over all steps sum to at most `total`. `gap`
    is how much more its policy earns, and `edge` how much more than chance.
    """

    rate: float
    power: float
    total: float
    gap: float
    edge: float

    def regret(self, steps: float, gamma: float = 0.0) -> float:
        """Return a lower bound on the regret of GTS against the adviser's policy.

        >>> from oddsmith.core.losses import square_loss
        >>> left = departure(
        ...     square_loss, 0.5, means=[0.5, 0.6], predictions=[[0.6, 0.5], [0.2, 0.9]]
        ... )
        >>> round(left.regret(10_000), 1)
        995.0
        """
        number("gamma", gamma, low=0, high=1)
        share = (1 - gamma) * self.gap
        exploited = share * (steps - self.total)
        return exploited + gamma * self.edge * steps


def departure(
    loss: Loss,
    eta: float,
    *,
    means: npt.ArrayLike,
    predictions: npt.ArrayLike,
    prior: float = 0.5,
) -> Departure:
    """Return the departure for 0/1 rewards with these means (K,): the first row of
    `predictions` (2, K) displaces the second, the adviser.

    `prior` is the adviser's. Raise if the adviser's mean loss is not larger on every
    arm.
    """
    mean = finite("means", means)
    table = finite("predictions", predictions)
    if table.shape != (2, mean.size) or mean.ndim != 1:
        raise InvalidInput(
            f"predictions must be those of two experts for the {mean.size} arms; got "
            f"{table.shape}"
        )
    number("prior", prior, low=0, high=1, open_low=True, open_high=True)
    losses_by_reward = []
    for r in (0.0, 1.0):
        rewards = np.full_like(table, r)
        losses_by_reward.append(loss(table, rewards))
    losses = np.stack(losses_by_reward)
    worse = losses[:, 1] - losses[:, 0]  # excess loss per reward and arm
    chances = np.stack([1 - mean, mean])
    if not np.isfinite(worse).all():
        raise OutOfDomain(
            "losses must be finite; got a prediction that a reward refutes"
        )
    mean_worse = (chances * worse).sum(axis=0)
    if not (mean_worse > 0).all():
        raise InvalidInput(
            "the first expert must predict better than the second on every arm; it "
            "does not"
        )
    odds = prior / (1 - prior)

    def rate(power: float) -> float:
        factors = np.exp(-power * eta * worse)
        return float((chances * factors).sum(axis=0).max())

    def total(power: float) -> float:
        shrunk = rate(power)
        return odds**power / (1 - shrunk) if shrunk < 1 else np.inf

    power = min(_POWERS.tolist(), key=total)
    own, adviser = _greedy_values(table, mean)
    edge = adviser - float(mean.mean())
    return Departure(
        rate=rate(power),
        power=power,
        total=total(power),
        gap=adviser - own,
        edge=edge,
    )


def critical_rate(mean: float, prediction: float) -> float:
    """Return the eta above which GTS with log loss keeps losing trust in an expert that
    predicts `prediction` if the mean is `mean`.

    This is ln(m / (1 - m)) / ln(f / (1 - f)), against another expert that predicts 1 -
    f (docs/math 7.6), and 1 if the expert is right.

    >>> round(critical_rate(0.6, 0.9), 6), critical_rate(0.9, 0.9)
    (0.184535, 1.0)
    """
    number("mean", mean, low=0.5, high=1, open_low=True, open_high=True)
    number("prediction", prediction, low=0.5, high=1, open_low=True, open_high=True)
    log_odds = log(mean / (1 - mean))
    return log_odds / log(prediction / (1 - prediction))


def _greedy_values(predictions: Array, means: Array) -> list[float]:
    """Return the expected reward of each expert's best arm, with ties split."""
    best = predictions == predictions.max(axis=1, keepdims=True)
    return [float(means[row].mean()) for row in best]
