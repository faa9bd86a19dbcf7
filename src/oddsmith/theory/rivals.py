"""Regret bounds of related algorithms over the same experts, for comparison (docs/math
5)."""

from math import log, sqrt

from oddsmith.core.arrays import number
from oddsmith.theory.bounds import REALISABLE, Bound, capped, check_problem
from oddsmith.theory.coefficients import AnyLoss, caveat, tight_coefficient
from oddsmith.theory.constants import log_inverse

__all__ = [
    "BALANCE_SLACK",
    "exp4_bound",
    "feelgood_bound",
    "regressor_elimination_bound",
    "squarecb_bound",
]

# Relative tolerance for the balance condition of Regressor Elimination.
BALANCE_SLACK = 1e-3


def squarecb_bound(*, n_arms: int, steps: float, prior: float) -> Bound:
    """Return sqrt((K-1) T L) with Γ = 4 sqrt((K-1)T/L) and Vovk's or the Bayes
    mixture's predictions (docs/math 5.2)."""
    check_problem(n_arms, steps)
    log_prior = log_inverse(prior)
    gamma = 0.0
    if log_prior > 0:
        ratio = (n_arms - 1) * steps / log_prior
        gamma = 4 * sqrt(ratio)
    terms = {"learning": sqrt((n_arms - 1) * steps * log_prior)}
    applies = f"{REALISABLE}; gamma is SquareCB's exploration parameter"
    return capped(terms, steps, eta=2.0, gamma=gamma, applies=applies)


def feelgood_bound(
    loss: AnyLoss = "log", *, n_arms: int, steps: float, prior: float
) -> Bound:
    """Return 2 sqrt(T L (K/(2c) + 1/4)) with λ = sqrt(L/(T(K/(2c)+1/4))), c = c(2 eta)
    (docs/math 5.1); `gamma` is λ."""
    check_problem(n_arms, steps)
    best = tight_coefficient(loss)  # in this theorem, 2 eta takes the place of eta
    log_prior = log_inverse(prior)
    cost = n_arms / (2 * best.c) + 0.25
    optimism = sqrt(log_prior / (steps * cost))
    learning = log_prior / optimism if optimism else 0.0
    terms = {"optimism": optimism * steps * cost, "learning": learning}
    applies = (
        f"{REALISABLE}{caveat(loss)}; gamma is Feel-Good's optimism here, exploration "
        "is 0"
    )
    return capped(terms, steps, eta=best.eta / 2, gamma=optimism, applies=applies)


def exp4_bound(*, n_arms: int, steps: float, prior: float) -> Bound:
    """Return sqrt(2 K T ln N) with eta = sqrt(2 ln N/(KT)) (docs/math 5.4). No expert
    need be right, and rewards may be arbitrary."""
    check_problem(n_arms, steps)
    log_prior = log_inverse(prior)
    eta = sqrt(2 * log_prior / (n_arms * steps))
    terms = {"learning": sqrt(2 * n_arms * steps * log_prior)}
    applies = "regret is against the best expert's policy; no expert need be right"
    return capped(terms, steps, eta=eta, gamma=0.0, applies=applies)


def regressor_elimination_bound(
    *, n_arms: int, steps: float, prior: float, confidence: float = 0.95
) -> Bound:
    """Return 4 sqrt(2/c) sqrt((1+ε) K T ln(N/δ)), the sharper threshold of docs/math
    5.5 with c = 0.46, for i.i.d. contexts.

    ε is the tolerance of the solver: the balanced distribution may violate its
    condition by this share, which multiplies K.
    """
    check_problem(n_arms, steps)
    number("confidence", confidence, low=0, high=1, open_low=True, open_high=True)
    log_size = log_inverse(prior) - log(1 - confidence)
    slack = 1 + BALANCE_SLACK
    root = sqrt(slack * n_arms * steps * log_size)
    terms = {"learning": 4 * sqrt(2 / 0.46) * root}
    applies = (
        "the loss is square loss and the threshold sharp, 1/prior experts are equally "
        "likely, one is the truth, contexts are i.i.d. from the distribution that is "
        f"balanced (to {BALANCE_SLACK:g}, counted); with probability {confidence:g}"
    )
    return capped(terms, steps, eta=1.0, gamma=0.0, applies=applies)
