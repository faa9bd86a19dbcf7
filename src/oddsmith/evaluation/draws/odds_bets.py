"""Bets that need the odds of all arms: other odds q, known before the draw."""

from collections.abc import Callable

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.draws.arm_bets import forced, repeated
from oddsmith.evaluation.draws.draws import BetFamily, Draws, equal_bets
from oddsmith.logs.rules import drawn_entries

__all__ = ["bets_on_all_odds"]

_RANKS = (
    "likeliest",
    "second likeliest",
    "third likeliest",
    "fourth likeliest",
    "fifth likeliest",
)
_POWERS: dict[str, Callable[[Array], Array]] = {
    "even odds": lambda p: (p > 0).astype(np.float64),
    "flatter odds (power 0.5)": np.sqrt,
    "sharper odds (power 2)": np.square,
    "much sharper odds (power 4)": lambda p: np.square(np.square(p)),
}
_CUTS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3)
_ROUNDING = 1 - 1e-9  # odds of 0.2 that are 1 - 0.8 are not below 0.2
_LAGS = (
    1,
    2,
    3,
    4,
    5,
    8,
    10,
    16,
    20,
    32,
    50,
    64,
    100,
    128,
    200,
    256,
    500,
    512,
    1000,
    1024,
)
_BLOCK = 256  # rows after which the mean of past odds is taken anew


def bets_on_all_odds(draws: Draws, odds: Array) -> list[BetFamily]:
    """The families of bets for a log with the odds (T, K) of all arms."""
    others = (_ranks, _powers, _cuts, _left_out, _stale, _shifted, _reused)
    return [forced(draws), repeated(draws), *(family(draws, odds) for family in others)]


def _ranks(draws: Draws, odds: Array) -> BetFamily:
    """The k-th likeliest arm, and the least likely of those with odds; no bet where
    ranks are shared."""
    top = min(len(_RANKS), draws.n_arms)
    names = [f"the {name} arm were forced" for name in _RANKS[:top]] + [
        "the least likely arm were forced"
    ]
    shares = np.array(
        [1.0 / ((k + 1) * (k + 2)) for k in range(top)] + [1.0 / (top + 1)]
    )

    def gains(rows: slice) -> Array:
        p = odds[rows]
        ordered = np.hstack(
            [np.full((len(p), 1), 2.0), -np.sort(-p, axis=1), np.zeros((len(p), 1))]
        )
        last = (ordered > 0).sum(axis=1, keepdims=True) - 1
        place = np.hstack([np.tile(np.arange(1, top + 1), (len(p), 1)), last])
        before, at, after = (
            np.take_along_axis(ordered, place + i, axis=1) for i in (-1, 0, 1)
        )
        hit = np.where(
            at == draws.propensity[rows, None], draws.inverse[rows, None], 0.0
        )
        return np.where((before > at) & (at > after), hit - 1.0, 0.0)

    return BetFamily(names, shares, gains)


def _powers(draws: Draws, odds: Array) -> BetFamily:
    """Odds in proportion to p^β over the arms with odds."""

    def gains(rows: slice) -> Array:
        return np.column_stack(
            [draws.gain(rows, power(odds[rows])) for power in _POWERS.values()]
        )

    return equal_bets([f"arms were drawn from {name}" for name in _POWERS], gains)


def _cuts(draws: Draws, odds: Array) -> BetFamily:
    """Odds less the least that any arm has had so far (uniform exploration), and
    without those below a number."""
    names = [f"arms with odds below {cut:g} were not served" for cut in _CUTS]
    able = odds > 0 if draws.eligible is None else draws.eligible
    least = np.minimum.accumulate(np.where(able, odds, 2.0).min(axis=1))[:, None]

    def gains(rows: slice) -> Array:
        p = odds[rows]
        cut = [
            draws.gain(rows, np.where(p >= cut * _ROUNDING, p, 0.0)) for cut in _CUTS
        ]
        return np.column_stack(
            [draws.gain(rows, np.where(able[rows], p - least[rows], 0.0)), *cut]
        )

    return equal_bets(["uniform exploration were logged but not served", *names], gains)


def _left_out(draws: Draws, odds: Array) -> BetFamily:
    """Odds without arm b: 1[a ≠ b] / (1 - p(b))."""
    numbers = np.arange(draws.n_arms)

    def gains(rows: slice) -> Array:
        others = np.maximum(odds[rows].sum(axis=1, keepdims=True), 1.0) - odds[rows]
        able = others > 1e-6  # logged odds may sum to 1 within that
        others = 1.0 / np.where(able, others, 1.0)
        return np.where(
            able, np.where(draws.arm[rows, None] == numbers, 0.0, others) - 1.0, 0.0
        )

    return equal_bets([f"arm {label} were not served" for label in draws.labels], gains)


def _stale(draws: Draws, odds: Array) -> BetFamily:
    """The odds of some rows before, and the mean of the odds before this block of
    rows."""
    sums = np.cumsum(np.add.reduceat(odds, np.arange(0, len(odds), _BLOCK)), axis=0)
    past = np.vstack([np.zeros((1, draws.n_arms)), sums[:-1]])

    def gains(rows: slice) -> Array:
        row, able = np.arange(len(odds))[rows], odds[rows] > 0
        old = (
            np.where((row >= lag)[:, None] & able, odds[np.maximum(row - lag, 0)], 0.0)
            for lag in _LAGS
        )
        columns = [draws.gain(rows, q) for q in old]
        return np.column_stack(
            [*columns, draws.gain(rows, np.where(able, past[row // _BLOCK], 0.0))]
        )

    names = [f"odds were {lag} row{'s' * (lag > 1)} old" for lag in _LAGS]
    return equal_bets([*names, "odds did not depend on the row"], gains)


def _shifted(draws: Draws, odds: Array) -> BetFamily:
    """The odds of the arm before, of the next arm, and of the arms in reverse order."""

    def gains(rows: slice) -> Array:
        p = odds[rows]
        others = (np.roll(p, 1, axis=1), np.roll(p, -1, axis=1), p[:, ::-1])
        return np.column_stack(
            [draws.gain(rows, np.where(p > 0, q, 0.0)) for q in others]
        )

    ends = ("one too low", "one too high", "in reverse order")
    return equal_bets([f"the logged numbers of arms were {end}" for end in ends], gains)


def _reused(draws: Draws, odds: Array) -> BetFamily:
    """The random number of a row before, which lay in its arm's part of [0, 1): how
    much of that is this arm's."""
    high = drawn_entries(np.cumsum(odds, axis=1), draws.arm)
    low, lags = high - draws.propensity, (1, 2, 3, 4)

    def gains(rows: slice) -> Array:
        row = np.arange(len(odds))[rows]
        columns = []
        for lag in lags:
            old = np.maximum(row - lag, 0)
            both = np.maximum(
                np.minimum(high[row], high[old]) - np.maximum(low[row], low[old]), 0.0
            )
            columns.append(
                np.where(
                    row >= lag,
                    both * draws.inverse[row] * draws.inverse[old] - 1.0,
                    0.0,
                )
            )
        return np.column_stack(columns)

    return equal_bets(
        [
            f"the random number of {lag} row{'s' * (lag > 1)} before were used"
            for lag in lags
        ],
        gains,
    )
