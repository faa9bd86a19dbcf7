"""Variants of the bound: high probability, delay, misspecification, a switching right
expert, changing arms.

All are the refined theorem (docs/math 3.4) with another number in place of L = ln(1/p).
"""

from collections.abc import Sequence
from math import exp, inf, log, log1p, sqrt

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import number
from oddsmith.core.errors import InvalidInput
from oddsmith.theory.bounds import (
    REALISABLE,
    Bound,
    capped,
    check_problem,
    mixed_terms,
    refined_bound,
    regret_bound,
)
from oddsmith.theory.coefficients import (
    AnyLoss,
    caveat,
    coefficient_at,
    largest_shift,
    tight_coefficient,
)
from oddsmith.theory.constants import log_inverse

__all__ = [
    "changing_arms_bound",
    "delay_bound",
    "high_probability_bound",
    "misspecified_bound",
    "switching_bound",
]


def high_probability_bound(
    loss: AnyLoss,
    *,
    n_arms: int,
    steps: float,
    prior: float,
    confidence: float,
    gamma: float | None = None,
) -> Bound:
    """Return the conditional regret with probability `confidence`, for all T at once: L
    + ln 1/(1-confidence) replaces L."""
    number("confidence", confidence, low=0, high=1, open_high=True)
    log_prior = log_inverse(prior) - log1p(-confidence)
    found = refined_bound(
        tight_coefficient(loss),
        n_arms=n_arms,
        steps=steps,
        log_prior=log_prior,
        gamma=gamma,
    )
    applies = (
        f"{found.applies}{caveat(loss)}; holds with probability {confidence:g} for all "
        "T together"
    )
    return found._replace(applies=applies)


def delay_bound(
    loss: AnyLoss,
    *,
    n_arms: int,
    steps: float,
    prior: float,
    delay: float,
    gamma: float | None = None,
    adversarial: bool = False,
    beta: float | None = None,
) -> Bound:
    """Return the bound if rewards come `delay` steps late (docs/math 5.10).

    For i.i.d. contexts it is τ + (1-γ) sqrt(2KTL/(cγ)) + γT(K-1)/K with the same eta.
    For adversarial contexts exp(2 eta τ V) L/c(eta) replaces L/c, with eta = min(best,
    1/(2τV)) and V the largest |lhat| (1 for square loss, beta/2 for log loss).
    """
    number("delay", delay, low=0, high=inf)
    if delay == 0:
        return regret_bound(loss, n_arms=n_arms, steps=steps, prior=prior, gamma=gamma)
    check_problem(n_arms, steps)
    log_prior = log_inverse(prior)
    best = tight_coefficient(loss)
    if adversarial:
        largest = largest_shift(loss, beta)
        most = 1 / (2 * delay * largest)
        eta = min(best.eta, most)
        used = best
        if eta != best.eta:
            used = coefficient_at(loss, eta)
        slowdown = exp(2 * eta * delay * largest)
        slowed = log_prior * slowdown
        found = refined_bound(
            used, n_arms=n_arms, steps=steps, log_prior=slowed, gamma=gamma
        )
        applies = (
            f"{found.applies}{caveat(loss)}, and shifted losses are at most {largest:g}"
        )
        return found._replace(applies=applies)
    product = 2 * n_arms * steps * log_prior
    b = sqrt(product / best.c)
    exploration = steps * (n_arms - 1) / n_arms
    gamma, terms = mixed_terms(b, exploration, gamma)
    applies = (
        "one expert is the truth, contexts are i.i.d., and every reward is at most "
        f"that late{caveat(loss)}"
    )
    all_terms = {"delay": float(delay), **terms}
    return capped(all_terms, steps, eta=best.eta, gamma=gamma, applies=applies)


def misspecified_bound(
    loss: AnyLoss,
    *,
    n_arms: int,
    steps: float,
    prior: float,
    error: float,
    gamma: float | None = None,
) -> Bound:
    """Return the regret relative to the best policy if the best expert has an error: L
    + eta · T · error replaces L (docs/math 5.8).

    `error` is its mean E lhat on the drawn arms, relative to the truth: squared error
    (square loss), kl (log loss).
    """
    number("error", error, low=0, high=inf)
    check_problem(n_arms, steps)
    coefficient = tight_coefficient(loss)
    lost = coefficient.eta * steps * error
    log_prior = log_inverse(prior) + lost
    found = refined_bound(
        coefficient, n_arms=n_arms, steps=steps, log_prior=log_prior, gamma=gamma
    )
    applies = (
        "applies when some expert's mean error per step is at most that, none need be "
        f"right{caveat(loss)}"
    )
    return found._replace(applies=applies)


def switching_bound(
    loss: AnyLoss,
    *,
    n_arms: int,
    steps: int,
    prior: float,
    switches: int,
    gamma: float | None = None,
) -> Bound:
    """Return the bound if the right expert changes `switches` times, with fixed share
    alpha = m/(T-1) (docs/math 5.9); `applies` states alpha."""
    check_problem(n_arms, steps)
    is_integer = isinstance(switches, int | np.integer)
    whole = is_integer and not isinstance(switches, bool)
    if not whole or not 0 <= switches < steps:
        raise InvalidInput(
            "switches must be a whole number from 0 to below the steps; got "
            f"{switches!r} in {steps}"
        )
    log_prior = log_inverse(prior)
    alpha = 0.0
    total = log_prior
    if switches:
        alpha = switches / (steps - 1)
        stays = 0.0
        if alpha < 1:
            quiet = steps - switches - 1
            stays = quiet * -log1p(-alpha)
        switched = switches * (log_prior - log(alpha))
        total += switched + stays
    found = refined_bound(
        tight_coefficient(loss),
        n_arms=n_arms,
        steps=steps,
        log_prior=total,
        gamma=gamma,
    )
    applies = (
        "applies when the truth is one of the experts at every step, and share = "
        f"{alpha:.6g}{caveat(loss)}"
    )
    return found._replace(applies=applies)


def changing_arms_bound(
    loss: AnyLoss, *, n_arms: Sequence[int], prior: float, gamma: npt.ArrayLike
) -> Bound:
    """Return sqrt(Σ K_t/γ_t) sqrt(L/c) + Σ γ_t (K_t-1)/K_t for arm sets of sizes K_t
    and any γ_t > 0 (docs/math 5.12)."""
    sizes = np.asarray(n_arms, dtype=np.float64)
    gammas = np.asarray(gamma, dtype=np.float64)
    is_line = sizes.ndim == 1 and sizes.size > 0
    if not is_line or not (sizes >= 1).all():
        raise InvalidInput(
            "n_arms must be a number of arms for each step, at least 1; got "
            f"{n_arms!r:.60}"
        )
    inside = (gammas > 0) & (gammas <= 1)
    if gammas.shape not in ((), sizes.shape) or not inside.all():
        raise InvalidInput(
            "gamma must be in (0, 1], one number or one for each step; got "
            f"{gamma!r:.60}"
        )
    eta, c = tight_coefficient(loss)
    difficulty = float((sizes / gammas).sum())
    shares = gammas * (sizes - 1) / sizes
    explored = float(shares.sum())
    learning = difficulty * log_inverse(prior) / c
    terms = {"learning": sqrt(learning), "exploration": explored}
    mean_gamma = float(gammas.mean())
    applies = REALISABLE + caveat(loss)
    return capped(terms, len(sizes), eta=eta, gamma=mean_gamma, applies=applies)
