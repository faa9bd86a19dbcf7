"""The bound under other circumstances: confidence, delay, misspecification, switching truth, classes, changing arms.

All are the refined theorem (theory 3.4) with another number in the place of L = ln(1/p).
"""

from collections.abc import Sequence
from math import exp, inf, log, log1p, sqrt
from typing import Any

import numpy as np

from oddsmith.arrays import number
from oddsmith.errors import InvalidInput
from oddsmith.losses import Loss
from oddsmith.theory.bounds import REALISABLE, Bound, capped, check_problem, refined_bound, tight_coefficient
from oddsmith.theory.constants import Coefficient, best_gamma, c_log, c_square, log_inverse, loss_name

__all__ = [
    "changing_arms_bound",
    "class_complexity",
    "cover_complexity",
    "delay_bound",
    "high_probability_bound",
    "misspecified_bound",
    "switching_bound",
]


def high_probability_bound(
    loss: Loss | str, *, n_arms: int, steps: float, prior: float, confidence: float, gamma: float | None = None
) -> Bound:
    """The conditional regret with probability `confidence`, for all T at once: L becomes L + ln 1/(1-confidence)."""
    number("confidence", confidence, low=0, high=1, open_high=True)
    log_prior = log_inverse(prior) - log1p(-confidence)
    found = refined_bound(tight_coefficient(loss), n_arms=n_arms, steps=steps, log_prior=log_prior, gamma=gamma)
    return found._replace(applies=f"{found.applies}; holds with probability {confidence:g} for all T together")


def delay_bound(
    loss: Loss | str,
    *,
    n_arms: int,
    steps: float,
    prior: float,
    delay: float,
    gamma: float | None = None,
    adversarial: bool = False,
    beta: float | None = None,
) -> Bound:
    """Rewards that come `delay` steps late (theory 5.10).

    I.i.d. contexts: τ + (1-γ) sqrt(2KTL/(cγ)) + γT(K-1)/K, eta unchanged. Adversarial contexts: L/c becomes
    exp(2 eta τ V) L/c(eta) with eta = min(best, 1/(2τV)) and V the largest |lhat| (1 for square, beta/2 for log).
    """
    check_problem(n_arms, steps)
    number("delay", delay, low=0, high=inf)
    log_prior, coefficient = log_inverse(prior), tight_coefficient(loss)
    if adversarial and delay > 0:
        spread = _spread(loss, beta)
        eta = min(coefficient.eta, 1 / (2 * delay * spread))
        c = coefficient.c if eta == coefficient.eta else (c_log if loss_name(loss) == "log" else c_square)(eta)
        slowed = log_prior * exp(2 * eta * delay * spread)
        return refined_bound(Coefficient(eta, c), n_arms=n_arms, steps=steps, log_prior=slowed, gamma=gamma)
    b, t = sqrt(2 * n_arms * steps * log_prior / coefficient.c), steps * (n_arms - 1) / n_arms
    gamma = best_gamma(b, t) if gamma is None else number("gamma", gamma, low=0, high=1, open_low=True)
    terms = {"delay": float(delay), "learning": (1 - gamma) * b / sqrt(gamma), "exploration": gamma * t}
    applies = "one expert is the truth, contexts are i.i.d., and every reward is at most that late"
    return capped(terms, steps, eta=coefficient.eta, gamma=gamma, applies=applies)


def _spread(loss: Loss | str, beta: float | None) -> float:
    name = loss_name(loss)
    if name == "square":
        return 1.0
    if name == "log" and beta is not None:
        return number("beta", beta, low=0, high=inf, open_low=True) / 2
    raise InvalidInput(
        "beta must be given for log loss under adversarial delay, and own losses are not covered; got none"
    )


def misspecified_bound(
    loss: Loss | str, *, n_arms: int, steps: float, prior: float, error: float, gamma: float | None = None
) -> Bound:
    """Regret against the best policy when the best expert errs: L becomes L + eta · T · error (theory 5.8).

    `error` is its mean squared error on the drawn arms (square loss), or its mean kl(truth, prediction) (log loss).
    """
    number("error", error, low=0, high=inf)
    coefficient = tight_coefficient(loss)
    log_prior = log_inverse(prior) + coefficient.eta * steps * error
    found = refined_bound(coefficient, n_arms=n_arms, steps=steps, log_prior=log_prior, gamma=gamma)
    return found._replace(
        applies="applies when some expert's mean error per step is at most that; nobody need be right"
    )


def switching_bound(
    loss: Loss | str, *, n_arms: int, steps: int, prior: float, switches: int, gamma: float | None = None
) -> Bound:
    """The truth changes `switches` times, fixed share with alpha = m/(T-1) (theory 5.9); alpha is in `terms`' name."""
    check_problem(n_arms, steps)
    if not 0 <= switches < steps:
        raise InvalidInput(f"switches must be at least 0 and fewer than the steps; got {switches} in {steps} steps")
    log_prior = log_inverse(prior)
    total = log_prior
    alpha = switches / (steps - 1) if steps > 1 else 0.0
    if switches:
        kept = (steps - switches - 1) * -log1p(-alpha) if alpha < 1 else 0.0
        total += switches * (log_prior - log(alpha)) + kept
    found = refined_bound(tight_coefficient(loss), n_arms=n_arms, steps=steps, log_prior=total, gamma=gamma)
    applies = f"applies when the truth is one of the experts at every step, and share = {alpha:.6g}"
    return found._replace(applies=applies)


def class_complexity(kind: str, *, dim: int, steps: float, eta: float, norm: float, ridge: float = 1.0) -> float:
    """L of a whole class with a Gaussian prior N(0, I/λ) and ‖θ*‖ <= norm, ‖φ‖ <= 1 (theory 5.7).

    linear (square loss): (d/2) ln(1 + 2ηT/(dλ)) + λ‖θ*‖²/2; logistic (log loss): (d/2) ln(1 + ηT/(4dλ)) + λ‖θ*‖²/2.
    """
    rates = {"linear": 2 * eta, "logistic": eta / 4}
    if kind not in rates:
        raise InvalidInput(f"kind must be linear or logistic; got {kind!r}")
    number("ridge", ridge, low=0, high=inf, open_low=True)
    return dim / 2 * log1p(rates[kind] * steps / (dim * ridge)) + ridge / 2 * norm**2


def cover_complexity(kind: str, *, n: float, radius: float, steps: float, eta: float) -> float:
    """L of a cover of n points: ln n + ηTε² (linear, square loss), ln n + ηTε²/8 (logistic, log loss; theory 5.7)."""
    rates = {"linear": 1.0, "logistic": 1 / 8}
    if kind not in rates:
        raise InvalidInput(f"kind must be linear or logistic; got {kind!r}")
    return log(number("n", n, low=1, high=inf)) + rates[kind] * eta * steps * radius**2


def changing_arms_bound(loss: Loss | str, *, n_arms: Sequence[int], prior: float, gamma: Any) -> Bound:
    """sqrt(Σ K_t/γ_t) sqrt(L/c) + Σ γ_t (K_t-1)/K_t for arm sets of sizes K_t and any γ_t > 0 (theory 5.12)."""
    sizes = np.asarray(n_arms, dtype=np.float64)
    gammas = np.broadcast_to(np.asarray(gamma, dtype=np.float64), sizes.shape)
    if sizes.ndim != 1 or sizes.size == 0 or (sizes < 1).any():
        raise InvalidInput(f"n_arms must be a number of arms for each step, at least 1; got {n_arms!r:.60}")
    if not ((gammas > 0) & (gammas <= 1)).all():
        raise InvalidInput(f"gamma must be in (0, 1] at every step; got {gamma!r:.60}")
    eta, c = tight_coefficient(loss)
    terms = {
        "learning": sqrt(float((sizes / gammas).sum()) * log_inverse(prior) / c),
        "exploration": float((gammas * (sizes - 1) / sizes).sum()),
    }
    return capped(terms, len(sizes), eta=eta, gamma=float(gammas.mean()), applies=REALISABLE)
