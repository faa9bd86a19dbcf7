"""Regret bounds with all constants: GTS with the paper's and with tight constants, and
its Bayes regret.

Each function returns a `Bound`; a bound above T carries no information and is cut to T.
Formulas and proofs are in docs/math.
"""

from collections.abc import Mapping
from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, number, simplex, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.losses import Scaled
from oddsmith.theory.coefficients import AnyLoss, caveat, tight_coefficient
from oddsmith.theory.conditions import Certificate
from oddsmith.theory.constants import (
    Coefficient,
    Constants,
    best_gamma,
    kappa1_averaged,
    kappa2,
    lemma1,
    log_inverse,
    loss_name,
)

__all__ = [
    "Bound",
    "anytime_bound",
    "bayes_regret_bound",
    "corollary1",
    "gamma_zero_bound",
    "refined_bound",
    "regret_bound",
    "theorem1",
    "total_loss_bound",
]

REALISABLE = (
    "one expert is the truth (its predictions are the mean rewards), contexts may be "
    "chosen by an adversary"
)


class Bound(NamedTuple):
    """A regret bound after T steps: its eta and gamma, the terms of its sum, and its
    conditions."""

    bound: float
    eta: float | None
    gamma: float | None
    terms: Mapping[str, float]
    applies: str


def capped(
    terms: Mapping[str, float],
    steps: float,
    *,
    eta: float | None,
    gamma: float | None,
    applies: str,
) -> Bound:
    """Return the sum of the terms, at most T, because regret cannot exceed the number
    of steps."""
    total = min(sum(terms.values()), float(steps))
    return Bound(total, eta, gamma, terms, f"applies when {applies}")


def check_problem(n_arms: int, steps: float) -> None:
    """Raise for fewer than one arm or one step."""
    whole("n_arms", n_arms)
    number("steps", steps, low=1, high=inf)


def check_constants(constants: str, beta: float | None) -> None:
    """Raise for unknown constants, and for a beta that has no effect."""
    if constants not in ("tight", "paper"):
        raise InvalidInput(f"constants must be 'tight' or 'paper'; got {constants!r}")
    if constants == "tight" and beta is not None:
        raise InvalidInput(
            "beta must not be given with tight constants, which do not depend on it; "
            f"got {beta}"
        )


def total_loss_bound(kappa2: float, prior: float) -> Bound:
    """Return E Σ_t lbar_t <= L/c for any T, which is 4(e-2) kappa_2 L if kappa_2 >= 0.7
    (Li 2013, Lemma 1; erratum 4 for smaller ones).

    >>> round(total_loss_bound(4.0, 0.01).bound, 4)
    52.925
    """
    number("kappa2", kappa2, low=0, high=inf, open_low=True)
    eta, c = lemma1(kappa2)
    applies = (
        f"applies when C3 and C4 hold with this kappa_2 and eta = {eta:.6g}, for any "
        "T, in expectation"
    )
    total = log_inverse(prior) / c
    return Bound(total, eta, None, {"total shifted loss": total}, applies)


def theorem1(kappa1: float, total_loss: float, *, steps: float, gamma: float) -> Bound:
    """Return R(T) <= kappa_1 (1-γ) sqrt(T E Σ lbar_t) + γ T (Li 2013, Theorem 1)."""
    number("kappa1", kappa1, low=0, high=inf)
    number("total_loss", total_loss, low=0, high=inf)
    number("steps", steps, low=1, high=inf)
    number("gamma", gamma, low=0, high=1)
    learning = kappa1 * (1 - gamma) * sqrt(steps * total_loss)
    terms = {"learning": learning, "exploration": gamma * steps}
    return capped(
        terms,
        steps,
        eta=None,
        gamma=gamma,
        applies="C1 holds, and C2 with this kappa_1",
    )


def mixed_terms(
    b: float, exploration: float, gamma: float | None
) -> tuple[float, dict[str, float]]:
    """Return γ (the best one if None) and the terms of (1-γ) B/√γ + γ T'. With nothing
    to learn, both are 0."""
    if gamma is None:
        gamma = best_gamma(b, exploration)
    else:
        number("gamma", gamma, low=0, high=1, open_low=True)
    learning = 0.0
    if b > 0:
        learning = (1 - gamma) * b / sqrt(gamma)
    return gamma, {"learning": learning, "exploration": gamma * exploration}


def corollary1(
    scale: float,
    kappa2: float,
    *,
    log_prior: float,
    steps: float,
    gamma: float | None = None,
    b: float = 1.0,
) -> Bound:
    """Return kappa_1 (1-γ) sqrt(T L/c) + γ T with kappa_1² = scale/γ (Corollary 1), at
    the best γ if None.

    1/c is 4(e-2) kappa_2, or the value for the eta that lhat >= -b allows (erratum 4).
    """
    eta, c = lemma1(kappa2, b)
    learning = sqrt(scale * steps * log_prior / c)
    gamma, terms = mixed_terms(learning, steps, gamma)
    return capped(terms, steps, eta=eta, gamma=gamma, applies=REALISABLE)


def refined_bound(
    coefficient: Coefficient,
    *,
    n_arms: int,
    steps: float,
    log_prior: float,
    gamma: float | None = None,
) -> Bound:
    """Return (1-γ) kappa~_1(γ) sqrt(T L/c) + γ T (K-1)/K (docs/math 3.4), at the best γ
    if None."""
    check_problem(n_arms, steps)
    eta, c = coefficient
    root = sqrt(steps * log_prior / c)
    exploration = steps * (n_arms - 1) / n_arms
    if gamma is None:
        gamma = _refined_gamma(n_arms, root, exploration)
    else:
        number("gamma", gamma, low=0, high=1, open_low=True)
    learning = 0.0
    if 0 < gamma < 1:
        learning = (1 - gamma) * kappa1_averaged(n_arms, gamma) * root
    terms = {"learning": learning, "exploration": gamma * exploration}
    return capped(terms, steps, eta=eta, gamma=gamma, applies=REALISABLE)


def _refined_gamma(n_arms: int, learning: float, exploration: float) -> float:
    """Return the γ in [0, 1] at which the slope of learning · (1-γ) kappa~_1(γ) +
    exploration · γ is 0, or 1 if it never is."""
    from scipy.optimize import brentq

    def slope(x: float) -> float:
        g = exp(x)
        kappa = kappa1_averaged(n_arms, g)
        others = n_arms * (n_arms - 1)
        of_square = others / (n_arms - g) ** 2 - n_arms / g**2
        change = of_square / (2 * kappa)
        gain = (1 - g) * change - kappa
        return learning * gain + exploration

    if learning == 0:
        return 0.0
    if n_arms == 1 or slope(0.0) <= 0:
        return 1.0
    # Optimum of the simplified bound (3.6).
    ratio = sqrt(n_arms) * learning / (2 * exploration)
    simple = ratio ** (2 / 3)
    low = log(min(simple, 1.0)) - 7.0
    return float(exp(brentq(slope, low, 0.0, xtol=1e-15, rtol=1e-15)))


def _corollary(loss: AnyLoss, n_arms: int, beta: float | None, **problem: Any) -> Bound:
    """Return Corollary 1 with the paper's kappas. Its eta is for the plain loss instead
    of the normalised one.

    Log loss divided by beta has |lhat| <= 1/2 (erratum 14), so that its eta, at most
    1/(e-2), is never cut.
    """
    if isinstance(loss, Certificate | Scaled) or loss_name(loss) == "own":
        raise InvalidInput(
            "constants='paper' is for plain square and log loss; use constants='tight' "
            "for your own"
        )
    tight = kappa2(loss, beta=beta)
    if beta is None:
        return corollary1(2.0 * n_arms, 4.0, **problem)
    scale = 2.0 * n_arms**2 * beta
    found = corollary1(scale, tight, b=0.5, **problem)
    applies = (
        f"{found.applies}, and log ratios between experts are at most {beta / 2:g}"
    )
    eta = float(found.eta or 0.0) / beta
    return found._replace(eta=eta, applies=applies)


def regret_bound(
    loss: AnyLoss,
    *,
    n_arms: int,
    steps: float,
    prior: float,
    gamma: float | None = None,
    constants: Constants = "tight",
    beta: float | None = None,
) -> Bound:
    """Return the regret bound of GTS if an expert with prior probability `prior` is
    right, at the best γ if none is given.

    constants="paper" uses Corollary 1 with the paper's kappas. constants="tight" uses
    docs/math 3.4 (3.5 if γ is 0).

    >>> paper = regret_bound(
    ...     "square", n_arms=5, steps=10_000, prior=0.01, constants="paper"
    ... )
    >>> round(paper.bound, 2), round(paper.gamma, 6)
    (5930.24, 0.278632)
    """
    check_problem(n_arms, steps)
    check_constants(constants, beta)
    log_prior = log_inverse(prior)
    if constants == "paper":
        return _corollary(
            loss, n_arms, beta, log_prior=log_prior, steps=steps, gamma=gamma
        )
    coefficient = tight_coefficient(loss)
    if gamma == 0:
        found = gamma_zero_bound(coefficient, n_arms=n_arms, steps=steps, prior=prior)
    else:
        found = refined_bound(
            coefficient, n_arms=n_arms, steps=steps, log_prior=log_prior, gamma=gamma
        )
    return found._replace(applies=found.applies + caveat(loss))


def gamma_zero_bound(
    coefficient: Coefficient, *, n_arms: int, steps: float, prior: float
) -> Bound:
    """Return sqrt(T/c) (sqrt((K-1) L) + sqrt((1-p)/p)). Without exploration, 1/p
    replaces ln 1/p (docs/math 3.5)."""
    check_problem(n_arms, steps)
    eta, c = coefficient
    rate = steps / c
    on_policy = rate * (n_arms - 1) * log_inverse(prior)
    off_policy = rate * (1 - prior) / prior
    terms = {"on policy": sqrt(on_policy), "off policy": sqrt(off_policy)}
    applies = f"{REALISABLE}, and eta is below its critical value"
    return capped(terms, steps, eta=eta, gamma=0.0, applies=applies)


def anytime_bound(loss: AnyLoss, *, n_arms: int, steps: float, prior: float) -> Bound:
    """Return the bound with γ_t = min(1, a t^{-1/3}), for every T at once (docs/math
    3.8).

    In the result, `terms` are the parts of the sum, and `gamma` is the constant a.
    """
    check_problem(n_arms, steps)
    eta, c = tight_coefficient(loss)
    log_prior = log_inverse(prior)
    applies = (
        f"{REALISABLE}, with gamma_t = min(1, a t^(-1/3)), a = gamma here{caveat(loss)}"
    )
    if n_arms == 1 or log_prior == 0:
        return capped({"learning": 0.0}, steps, eta=eta, gamma=0.0, applies=applies)
    others = n_arms - 1
    scaled_prior = n_arms**3 * log_prior
    a = (scaled_prior / (12 * c * others**2)) ** (1 / 3)
    inverse_sum = 0.75 * steps ** (4 / 3) + steps ** (1 / 3)
    learning = n_arms / a * inverse_sum * log_prior / c
    exploration = 1.5 * a * steps ** (2 / 3) * others / n_arms
    terms = {"learning": sqrt(learning), "exploration": exploration}
    return capped(terms, steps, eta=eta, gamma=a, applies=applies)


def bayes_regret_bound(
    true_prior: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    loss: AnyLoss,
    n_arms: int,
    steps: float,
    gamma: float | None = None,
    constants: Constants = "tight",
    beta: float | None = None,
    jensen: bool = False,
) -> Bound:
    """Return the Bayes regret bound if the right expert is drawn from p* and GTS uses
    the prior p: Σ_i p*_i sqrt(ln 1/p_i) replaces sqrt(L).

    With jensen=True it is sqrt(H(p*) + KL(p*, p)), Corollary 2 as printed, which is
    never smaller.

    >>> bound = bayes_regret_bound(
    ...     [0.5, 0.5], [0.9, 0.1], loss="log", n_arms=2, steps=1000
    ... )
    >>> round(bound.bound, 1)
    207.5
    """
    check_problem(n_arms, steps)
    check_constants(constants, beta)
    truth, used = two_priors(true_prior, prior)
    possible = truth > 0
    surprise = -np.log(used[possible])
    if jensen:
        root = sqrt(truth[possible] @ surprise)
    else:
        roots = np.sqrt(surprise)
        root = float(truth[possible] @ roots)
    problem: Any = {"steps": steps, "log_prior": root**2, "gamma": gamma}
    if constants == "paper":
        found = _corollary(loss, n_arms, beta, **problem)
    else:
        found = refined_bound(tight_coefficient(loss), n_arms=n_arms, **problem)
    applies = (
        f"{found.applies}{caveat(loss)}, and every expert that can be true satisfies "
        "it as truth"
    )
    return found._replace(applies=applies)


def two_priors(true_prior: npt.ArrayLike, prior: Any) -> tuple[Array, Array]:
    """Return the distribution of the right expert and the prior in use, after checking
    that the prior is positive for every expert that may be right."""
    n = len(np.atleast_1d(np.asarray(true_prior)))
    truth = simplex("true_prior", true_prior, n=n, over="experts")
    used = simplex("prior", prior, n=n, over="experts")
    impossible = (used == 0) & (truth > 0)
    if impossible.any():
        raise InvalidInput(
            "prior must be positive where true_prior is, or the bound is infinite; "
            f"got 0 at expert {int(np.argmax(impossible))}"
        )
    return truth, used
