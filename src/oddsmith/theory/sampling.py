"""Posterior sampling without optimism: its upper and lower bounds (docs/math 9.1,
9.2)."""

from math import inf, log, sqrt

from oddsmith.core.arrays import number
from oddsmith.theory.bounds import (
    Bound,
    capped,
    check_problem,
    gamma_zero_bound,
    regret_bound,
)
from oddsmith.theory.coefficients import tight_coefficient

__all__ = ["FLOOR", "better_bound", "sampling_floor", "thompson_bound"]

# FLOOR · B^(1/3) T^(2/3) is a lower bound of the worst-case regret of GTS.
FLOOR = 0.146


def sampling_floor(*, steps: float, prior: float) -> float:
    """Return min(0.08 T, 0.146 B^(1/3) T^(2/3)), a lower bound of the regret of GTS in
    the worst world of two or more arms (9.1).

    B = ln((1-p)/p) for the prior p of the right expert. The bound holds for every
    exploration γ_t that is fixed in advance, for square loss with η <= 1 or log loss
    with η <= 1/2. The theorem needs B >= max(24, 2 ln T); otherwise the result is 0.

    >>> (
    ...     round(sampling_floor(steps=2**16, prior=1e-12), 1),
    ...     sampling_floor(steps=2**16, prior=0.01),
    ... )
    (717.5, 0.0)
    """
    number("steps", steps, low=1, high=inf)
    number("prior", prior, low=0, high=1, open_low=True)
    doubt = -inf
    if prior < 1:
        doubt = log((1 - prior) / prior)
    if doubt < max(24.0, 2 * log(steps)):
        return 0.0
    scale = FLOOR * doubt ** (1 / 3)
    floor = scale * steps ** (2 / 3)
    return float(min(0.08 * steps, floor))


def better_bound(*, n_arms: int, steps: float, prior: float) -> Bound:
    """Return the smaller of GTS's two bounds at log loss, η = 1/2: with tuned γ, and
    with γ = 0, which contains 1/p (9.1).

    The second is smaller for priors well above T^(-1/3).

    >>> [better_bound(n_arms=2, steps=1e6, prior=p).gamma == 0 for p in (0.1, 1e-4)]
    [True, False]
    """
    plain = gamma_zero_bound(
        tight_coefficient("log"), n_arms=n_arms, steps=steps, prior=prior
    )
    tuned = regret_bound("log", n_arms=n_arms, steps=steps, prior=prior)
    return min(plain, tuned, key=lambda found: found.bound)


def thompson_bound(
    *, entropy: float, n_arms: int, steps: float, prior: float | None = None
) -> Bound:
    """Return sqrt(K H T/2), the Bayes regret of Thompson sampling with the right prior,
    of entropy H (9.2).

    With `prior`, that of a fixed right expert, it is sqrt(K H T/2)/p. η = 1, γ = 0, log
    loss.

    >>> from math import log
    >>> round(thompson_bound(entropy=log(2), n_arms=2, steps=1024).bound, 2)
    26.64
    """
    check_problem(n_arms, steps)
    number("entropy", entropy, low=0, high=inf)
    regret = sqrt(n_arms * entropy * steps / 2)
    applies = (
        "rewards are 0 and 1, the truth is drawn from the prior, and contexts depend "
        "on it through the past alone"
    )
    if prior is not None:
        regret /= number("prior", prior, low=0, high=1, open_low=True)
        applies = "rewards are 0 and 1, and one expert is the truth, with that prior"
    return capped({"learning": regret}, steps, eta=1.0, gamma=0.0, applies=applies)
