"""One arm and two experts exactly: how long log loss doubts the truth f where the other expert says g (theory 10.3)."""

from math import log

import numpy as np

from oddsmith.theory.constants import log_inverse

__all__ = ["doubted", "predicted_doubt"]

_BLOCK = 64  # steps between two looks at where the probability is
_RARE, _SETTLED = 1e-25, 1e-14


def _moments(f: float, g: float) -> tuple[float, float]:
    """The mean of ℓ(g) - ℓ(f), which is kl, and of its square."""
    won, lost = log(f / g), log((1 - f) / (1 - g))
    return f * won + (1 - f) * lost, f * won**2 + (1 - f) * lost**2


def predicted_doubt(f: float, g: float, *, eta: float, prior: float) -> float:
    """L/η + (1-p) M_2/(2 M_1): the second-order expansion of ln W, for Σ_t E lbar_t."""
    first, second = _moments(f, g)
    return log_inverse(prior) / eta + (1 - prior) * second / first / 2


def doubted(f: float, g: float, *, eta: float, prior: float) -> float:
    """Σ_t E[w_g] kl(f, g) over all steps, where f is the truth with this prior.

    Wins are binomial, so that the weights after t steps are a function of their number; steps are added up until the
    wrong expert's mean weight is below 1e-14.

    >>> round(doubted(0.3, 0.3 * 2.718281828459045**-1, eta=0.25608293750147265, prior=0.01), 4)
    19.2598
    """
    won, lost = eta * log(f / g), eta * log((1 - f) / (1 - g))
    start = log((1 - prior) / prior)
    here, low, total, step = np.ones(1), 0, 0.0, 0
    while True:
        known = np.flatnonzero(here > _RARE)
        here = np.append(here[known[0] : known[-1] + 1], np.zeros(_BLOCK))
        low += int(known[0])
        evidence = won * np.arange(low, low + len(here)) - lost * np.arange(low, low + len(here)) - start
        for t in range(step, step + _BLOCK):
            doubt = float(here @ (1 / (1 + np.exp(np.minimum(evidence + lost * t, 700.0)))))
            total += doubt
            here[1:], here[0] = (1 - f) * here[1:] + f * here[:-1], (1 - f) * here[0]
        step += _BLOCK
        if doubt < _SETTLED:
            return total * _moments(f, g)[0]
