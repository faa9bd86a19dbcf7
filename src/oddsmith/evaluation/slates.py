"""Slates: rows that were decided together. Intervals treat the slate as the independent
unit, because rewards of a slate may depend on one another.

Given the slots before it, each slot's arm follows its logged propensities, so w r of a
row has the target's mean in that slot, independent of the rewards of other slots. A
slate's term is the mean of its rows' terms, and intervals are computed from the terms
of slates.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.evaluation.terms import Extremes, Terms, heaviest
from oddsmith.logs.table import Log

__all__ = ["Slates", "by_place", "heaviest_slate", "per_slate", "slates_of"]


class Slates(NamedTuple):
    """The number (T,) of each row's slate, and the row's position (T,) in this slate,
    starting at 1. Slates are numbered in the order of their first rows.

    A decision outside slates counts as a slate of one row, and `alone` is the number of
    such decisions.
    """

    number: Ints
    place: Ints
    alone: int = 0

    @property
    def unit(self) -> str:
        """The word for a slate in sentences: "decision" if most slates are single
        decisions."""
        if 2 * self.alone > self.number.max() + 1:
            return "decision"
        return "slate"

    @property
    def shares(self) -> Array:
        """The share of each row (T,) in its slate's mean."""
        sizes = np.bincount(self.number)
        shares: Array = 1.0 / sizes[self.number]
        return shares

    def sums(self, column: Array) -> Array:
        """Return the sum over each slate (n,) of a column (T,)."""
        sums = np.bincount(self.number, weights=column)
        return sums.astype(np.float64, copy=False)

    def means(self, column: Array) -> Array:
        """Return the mean over each slate (n,) of a column (T,)."""
        return self.sums(column * self.shares)


def slates_of(log: Log) -> Slates | None:
    """Return the slates of a log, or None if every row stands alone."""
    if log.slot is None:
        return None
    known: dict[object, int] = {}
    numbers = np.empty(len(log), dtype=np.int64)
    for row, slate in enumerate(log.slate):
        key = slate
        if key is None:
            key = (row, None)
        numbers[row] = known.setdefault(key, len(known))
    if len(known) == len(log):
        return None
    places = np.asarray(log.slot)
    alone = int((places == 0).sum())
    return Slates(numbers, np.maximum(places, 1), alone)


def by_place(log: Log, slates: Slates) -> Log:
    """Return the log with the slots of each slate in their order, one slate after the
    other.

    A slot's propensity is conditional on the slots before it, so a row must not follow
    later slots.
    """
    order = np.lexsort((slates.place, slates.number))
    is_ordered = (order[1:] > order[:-1]).all()
    if is_ordered:
        return log
    return log[order]


def per_slate(terms: Terms) -> Terms:
    """Return the terms of slates, each the mean of its rows' terms. Terms without
    slates are returned unchanged."""
    slates = terms.slates
    if slates is None:
        return terms
    if terms.parts is None:
        parts = None
        values = _ratio(terms, slates)
    else:
        first, second = terms.parts
        parts = (per_slate(first), per_slate(second))
        values = parts[0].values - parts[1].values
    squares = terms.expected_squares
    if squares is not None:
        squares = _squares(squares, terms.missing, slates)
    bets = terms.bets
    if bets is not None:
        gain = slates.means(bets.gain)
        bets = bets._replace(gain=gain, loss=slates.means(bets.loss))
    extremes = None
    if terms.extremes is not None:
        extremes = partial(_extremes, terms.extremes, slates)
    weights = None
    if terms.weights is not None:
        weights = slates.means(terms.weights)
    rounding = None
    if terms.rounding is not None:
        rounding = slates.means(terms.rounding)
    missing = slates.means(terms.missing)
    return replace(
        terms,
        values=values,
        missing=missing,
        weights=weights,
        expected_squares=squares,
        ceiling=None,
        rounding=rounding,
        bets=bets,
        setting=None,
        unbiased=True,
        parts=parts,
        extremes=extremes,
        whole=None,
        drawn=None,
        slates=None,
        unit=slates.unit,
    )


def _ratio(terms: Terms, slates: Slates) -> Array:
    """Return the terms of slates for a ratio R = Σ w r / Σ w. With the means of w r and
    w over a slate, they are R + (mean w r - R mean w) / (mean of w over all slates)."""
    if not terms.ratio or terms.weights is None:
        return slates.means(terms.values)
    of_rows = terms.values.mean()
    mean_weight = terms.weights.mean()
    distances = terms.values - of_rows
    gains = distances * mean_weight + of_rows * terms.weights
    gain = slates.means(gains)
    weight = slates.means(terms.weights)
    ratio = gain.sum() / weight.sum()
    changes = (gain - ratio * weight) / weight.mean()
    return np.asarray(ratio + changes)


def _squares(squares: Array, missing: Array, slates: Slates) -> Array:
    """Return E[W² | x] (n,) of each slate's mean weight W. Given the earlier slots, the
    weight of a slot has mean 1, so the weights of a slate are uncorrelated."""
    mass = 1.0 - missing
    variances = slates.shares**2 * (squares - mass**2)
    means = slates.means(mass) ** 2
    return np.asarray(means + slates.sums(variances))


def heaviest_slate(ratios: Array, odds: Array, slates: Slates) -> float:
    """Return an upper bound of the expected weight of the heaviest of n slates: the sum
    over positions of the expected weight of the heaviest row there, times its share of
    the slate.

    The expected maximum of a sum is at most the sum of the expected maxima of its
    parts.
    """
    shares = ratios * slates.shares[:, None]
    total = 0.0
    for rows in _places(slates):
        total += heaviest(shares[rows], odds[rows])
    return total


def _extremes(of_rows: Callable[[], Extremes], slates: Slates) -> Extremes:
    """Return the rows' extremes, as shares of their slates."""
    rows = of_rows()
    shares = slates.shares
    if rows.odds.ndim != 1:
        shares = slates.shares[:, None]
    rewarded = rows.rewarded * shares
    unrewarded = rows.unrewarded * shares
    return Extremes(rewarded, unrewarded, rows.odds, _places(slates))


def _places(slates: Slates) -> tuple[Ints, ...]:
    """Return the rows at each position."""
    places = np.unique(slates.place)
    rows = [np.flatnonzero(slates.place == place) for place in places]
    return tuple(rows)
