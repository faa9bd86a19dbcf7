"""Bets that learn from earlier rows: mixtures of fair bets, weighted by their wealth.

Each mixture is q = Σ_j w_j q_j. Its weights depend only on the rows before a block, so
the mixture is as fair as its parts. Weights follow one step of expectation maximisation
per block: w_j is proportional to its initial value plus Σ w_j q_j(a) / q(a) over past
rows.
"""

from collections.abc import Iterator
from typing import Protocol

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.draws.draws import Draws
from oddsmith.logs.rules import drawn_entries

__all__ = ["LearnedBet", "Portfolio", "RandomNumbers", "Relabelling", "learned_bets"]

_BLOCK = 64  # rows between two updates of the weights
_FIRST = 32.0  # number of rows that the initial weights count for
_CASH = 0.1  # share that is not bet, so that one row cannot lose all the money
_BINS = 64
# With more arms, the table of arms by arms has too many entries to learn.
_MOST_ARMS = 40


class LearnedBet(Protocol):
    """A bet that learns from earlier rows, so `factors` must be called in the order of
    rows."""

    name: str

    def factors(self, rows: slice, gains: Array) -> Array:
        """Return the factors (rows,) by which the money grows, from the gains (rows, B)
        of the bets that do not learn."""


def learned_bets(draws: Draws, shares: Array) -> list[LearnedBet]:
    """Return the learning bets that these draws allow. `shares` (B,) are the shares of
    the money on the bets that do not learn; their sum is at most 1."""
    bets: list[LearnedBet] = [Portfolio(shares)]
    if draws.odds is not None:
        bets.append(RandomNumbers(draws, draws.odds))
        if draws.n_arms <= _MOST_ARMS:
            bets.append(Relabelling(draws, draws.odds))
    return bets


class Portfolio:
    """A mixture of all bets that do not learn, with half of the initial money not bet.
    It detects several simultaneous causes.

    The shares of arms that never appeared are lost, because they were bet on these
    arms.
    """

    name = "several causes were at work"

    def __init__(self, shares: Array) -> None:
        self._count = _FIRST * np.append(0.5 * shares, 0.5)
        rest = max(0.0, 1.0 - float(shares.sum()))
        self._lost = _FIRST * 0.5 * rest

    def factors(self, rows: slice, gains: Array) -> Array:
        result = np.empty(len(gains))
        for block in _blocks(0, len(gains)):
            cash = np.zeros(block.stop - block.start)
            parts = np.column_stack([gains[block], cash]) + 1.0
            total = self._count.sum() + self._lost
            weights = self._count / total
            factor = parts @ weights
            result[block] = factor
            self._count += weights * ((1 / factor) @ parts)
        return result


class RandomNumbers:
    """A density, on equal bins of [0, 1), of the random numbers that draw arms. It
    detects a bad generator or a constant number."""

    name = "the random numbers that arms are drawn with were not uniform"

    def __init__(self, draws: Draws, odds: Array) -> None:
        self._inverse = draws.inverse
        cumulative = np.cumsum(odds, axis=1)
        self._high = drawn_entries(cumulative, draws.arm)
        self._low = self._high - draws.propensity
        self._count = np.full(_BINS, _FIRST / _BINS)

    def factors(self, rows: slice, gains: Array) -> Array:
        edges = np.arange(_BINS + 1) / _BINS
        result = np.empty(rows.stop - rows.start)
        for block in _blocks(rows.start, rows.stop):
            lower_end = np.maximum(self._low[block, None], edges[:-1])
            upper_end = np.minimum(self._high[block, None], edges[1:])
            overlap = np.maximum(upper_end - lower_end, 0.0)
            parts = overlap * _BINS * self._inverse[block, None]
            weights = self._count / self._count.sum()
            factor = parts @ weights
            first = block.start - rows.start
            place = slice(first, block.stop - rows.start)
            result[place] = (1 - _CASH) * factor + _CASH
            self._count += weights * (_inverse(factor) @ parts)
        return result


class Relabelling:
    """A learned table of the probabilities that arm b is served if arm j was drawn. It
    detects arms that are swapped, left out or replaced."""

    name = "arms were mixed up"

    def __init__(self, draws: Draws, odds: Array) -> None:
        self._arm = draws.arm
        self._odds = odds
        self._inverse = draws.inverse
        # Start with half of the weight on the hypothesis that logged arms are correct.
        shares = 0.5 * np.eye(draws.n_arms) + 0.5 / draws.n_arms
        self._count = _FIRST / draws.n_arms * shares

    def factors(self, rows: slice, gains: Array) -> Array:
        numbers = np.arange(self._odds.shape[1])
        result = np.empty(rows.stop - rows.start)
        for block in _blocks(rows.start, rows.stop):
            arm = self._arm[block]
            table = self._count / self._count.sum(axis=1, keepdims=True)
            parts = self._odds[block] * table.T[arm]
            q = parts.sum(axis=1)
            first = block.start - rows.start
            place = slice(first, block.stop - rows.start)
            gains = (1 - _CASH) * q * self._inverse[block]
            result[place] = gains + _CASH
            is_drawn = arm[:, None] == numbers
            weights = parts * _inverse(q)[:, None]
            self._count += weights.T @ is_drawn
        return result


def _blocks(start: int, stop: int) -> Iterator[slice]:
    for first in range(start, stop, _BLOCK):
        yield slice(first, min(first + _BLOCK, stop))


def _inverse(values: Array) -> Array:
    """Return 1 / values, and 0 where a value is 0, because an arm with this value gives
    no information."""
    zeros = np.zeros_like(values)
    return np.divide(1.0, values, out=zeros, where=values > 0)
