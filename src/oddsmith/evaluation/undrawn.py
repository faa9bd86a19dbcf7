"""Bounds on a value that hold whatever was not drawn, for logs that have the odds of the drawn arm alone.

An arm that is common elsewhere may have next to no odds in some contexts. Rows of such contexts that drew it would have
been heavy; where there is none, the terms lack its rewards and nothing in the log tells so, but a mean weight below 1,
which may as well be chance. What holds: rewards are in [0, 1] and undrawn weight is not negative, so

    E w r  ≤  value  ≤  E [1 - w (1 - r)]

also of the rows that are left when all heavy ones are taken away. Each end is a mean of terms that were drawn.
"""

from functools import partial

import numpy as np

from oddsmith.arrays import Array
from oddsmith.evaluation.terms import Drawn, Extremes, Terms

__all__ = ["outer"]


def outer(terms: Terms) -> tuple[Terms, Terms] | None:
    """Terms with a mean of at most the value, and terms with a mean of at least it; None where all odds are known.

    With D = w - w' of two targets, and P, N the mass that the first has more and less than the second, they are

        D⁺ r + D⁻ (1 - r) - N   and   P - D⁺ (1 - r) - D⁻ r

    so what two targets share cancels. Of one target, D = w, P = 1 and N = 0.
    """
    found = _apart(terms)
    if found is None:
        return None
    apart, more, less, reward = found
    up, down = np.maximum(apart, 0.0), np.maximum(-apart, 0.0)
    low, high = up * reward + down * (1 - reward) - less, more - up * (1 - reward) - down * reward
    bounds = (low, up - less, down - less), (high, more - down, more - up)
    least, most = (
        Terms(terms.name, values, terms.missing, extremes=partial(_extremes, *ends), slates=terms.slates)
        for values, *ends in bounds
    )
    return least, most


def _apart(terms: Terms) -> tuple[Array, Array, Array, Array] | None:
    """D, P, N and the rewards, (T,) each."""
    sides = [part.drawn for part in terms.parts or (terms,)]
    drawn = [side for side in sides if side is not None]
    if len(drawn) < len(sides) or all(side.target is None for side in drawn):
        return None
    first = drawn[0]
    if len(drawn) == 1:
        return first.weights, first.mass, np.zeros(len(terms)), first.reward
    return first.weights - drawn[1].weights, *_masses(first, drawn[1]), first.reward


def _masses(first: Drawn, second: Drawn) -> tuple[Array, Array]:
    """The mass that the first target has more than the second, and the second more than the first.

    Of the logger, whose other odds are not known, they are means over rows: where π has less than p, E (1 - w)⁺, whose
    rows are light, and where it has more, as much, less what π has on arms that could not be drawn.
    """
    if first.target is not None and second.target is not None:
        apart = first.target - second.target
        return np.maximum(apart, 0.0).sum(axis=1), np.maximum(-apart, 0.0).sum(axis=1)
    light = np.maximum(1.0 - first.weights * second.weights, 0.0)  # the logger's own weights are 1
    return light + first.mass - 1.0, light + second.mass - 1.0


def _extremes(rewarded: Array, unrewarded: Array) -> Extremes:
    return Extremes(rewarded, unrewarded, np.ones(len(rewarded)))
