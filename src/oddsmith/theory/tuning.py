"""Tuning: best eta and gamma, the value of a better prior, and the steps needed for a
given regret."""

from bisect import bisect_left
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import number
from oddsmith.core.errors import InvalidInput
from oddsmith.theory.bounds import (
    Bound,
    anytime_bound,
    bayes_regret_bound,
    check_constants,
    regret_bound,
)
from oddsmith.theory.coefficients import AnyLoss
from oddsmith.theory.constants import Constants

__all__ = ["Tuning", "horizon_for", "prior_value", "tune"]


class Tuning(NamedTuple):
    """eta, and gamma: a number for a known horizon, otherwise the scale a of gamma_t =
    min(1, a t^(-power))."""

    eta: float
    gamma: float
    power: float
    bound: Bound | None


def tune(
    loss: AnyLoss,
    *,
    n_arms: int,
    prior: float,
    steps: float | None = None,
    constants: Constants = "tight",
    beta: float | None = None,
) -> Tuning:
    """Return the eta and gamma of the best bound; without `steps`, the decreasing
    schedule of docs/math 3.8 (power 1/3).

    >>> tuning = tune("log", n_arms=10, prior=0.01, steps=100_000)
    >>> tuning.eta, round(tuning.gamma, 4)
    (0.5, 0.0677)
    """
    check_constants(constants, beta)
    if steps is not None:
        found = regret_bound(
            loss,
            n_arms=n_arms,
            steps=steps,
            prior=prior,
            constants=constants,
            beta=beta,
        )
        gamma = float(found.gamma or 0.0)
        return Tuning(float(found.eta or 0.0), gamma, 0.0, found)
    if constants == "paper":
        raise InvalidInput(
            "steps must be given for the paper's constants, whose gamma depends on "
            "the horizon; got none"
        )
    endless = anytime_bound(loss, n_arms=n_arms, steps=1e12, prior=prior)
    eta = float(endless.eta or 0.0)
    gamma = float(endless.gamma or 0.0)
    return Tuning(eta, gamma, power=1 / 3, bound=None)


def prior_value(
    prior: npt.ArrayLike,
    better_prior: npt.ArrayLike,
    *,
    loss: AnyLoss,
    n_arms: int,
    steps: float,
    true_prior: npt.ArrayLike | None = None,
) -> float:
    """Return how much smaller the regret bound is under `better_prior`. Numbers are
    probabilities of the right expert, vectors are priors.

    For vectors, the right expert is drawn from `true_prior` (by default from
    `better_prior`).

    >>> round(prior_value(0.01, 0.5, loss="log", n_arms=10, steps=10_000))
    1622
    """
    size: Any = {"loss": loss, "n_arms": n_arms, "steps": steps}
    is_number = np.ndim(prior) == 0
    if is_number and np.ndim(better_prior) == 0:
        plain = regret_bound(prior=float(np.asarray(prior)), **size)
        better = regret_bound(prior=float(np.asarray(better_prior)), **size)
    else:
        truth = true_prior
        if truth is None:
            truth = better_prior
        plain = bayes_regret_bound(truth, prior, **size)
        better = bayes_regret_bound(truth, better_prior, **size)
    return plain.bound - better.bound


def horizon_for(
    regret_per_step: float, *, loss: AnyLoss, n_arms: int, prior: float
) -> int:
    """Return the smallest number of steps after which the tuned bound per step is at
    most `regret_per_step`.

    >>> horizon_for(0.1, loss="log", n_arms=10, prior=0.01)
    535852
    """
    number("regret_per_step", regret_per_step, low=0, high=inf, open_low=True)

    def is_enough(steps: int) -> bool:
        found = regret_bound(loss, n_arms=n_arms, steps=steps, prior=prior)
        return found.bound <= regret_per_step * steps

    if is_enough(1):
        return 1
    high = 2
    while not is_enough(high):
        if high > 10**18:
            raise InvalidInput(
                "regret_per_step must be reachable within 1e18 steps; got "
                f"{regret_per_step:g}"
            )
        high *= 2
    between = range(high // 2 + 1, high + 1)
    return between[bisect_left(between, True, key=is_enough)]
