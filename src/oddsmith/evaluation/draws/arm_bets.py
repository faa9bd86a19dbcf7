"""Bets that need the drawn arm and its odds only."""

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.evaluation.draws.draws import BetFamily, Draws, equal_bets
from oddsmith.logs.rules import drawn_entries

__all__ = ["bets_on_drawn_odds", "forced", "repeated", "steps"]

_CUTS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4999)
# a whole number would give v itself
_STEPS = (1.5, 1.99, 2.5, 2.99, 3.5, 3.99, 4.99, 7.99, 15.99)
_ROUNDING = 1e-9  # odds whose sum is rounded up are not above 1
# what is left above the floors is rounding below this; to divide by more is fair
_LEAST_REST = 1e-3


def bets_on_drawn_odds(draws: Draws) -> list[BetFamily]:
    """The families of bets for a log with the drawn arm's odds only."""
    families = [forced(draws), repeated(draws), _dual_feasible(draws)]
    return [*families, _left_out(draws)] if draws.floor else families


def forced(draws: Draws) -> BetFamily:
    """Arm b, each b: h_b = 1, others 0."""
    numbers = np.arange(draws.n_arms)

    def gains(rows: slice) -> Array:
        table = (
            np.where(draws.arm[rows, None] == numbers, draws.inverse[rows, None], 0.0)
            - 1.0
        )
        if draws.odds is not None:
            table[draws.odds[rows] == 0] = 0.0
        elif draws.eligible is not None:
            table[~draws.eligible[rows]] = 0.0
        return table

    return BetFamily(
        [f"arm {label} were forced" for label in draws.labels],
        _arm_shares(draws),
        gains,
    )


def repeated(draws: Draws) -> BetFamily:
    """The previous row's arm, where it is known that it can be drawn or nothing is
    known."""
    before, possible = draws.previous()
    if draws.odds is not None:
        possible &= drawn_entries(draws.odds, before) > 0
    if draws.eligible is not None:
        possible &= drawn_entries(draws.eligible, before)

    def gains(rows: slice) -> Array:
        same = np.where(draws.arm[rows] == before[rows], draws.inverse[rows], 0.0) - 1.0
        return np.where(possible[rows], same, 0.0)[:, None]

    return equal_bets(["the previous row's arm were repeated"], gains)


def steps(v: Array, c: float) -> Array:
    """The dual feasible function (⌊c v⌋ + ((c v - ⌊c v⌋) - (c - ⌊c⌋))⁺ / (1 - (c -
    ⌊c⌋))) / ⌊c⌋ of Burdett and Johnson.

    >>> steps(np.array([0.3, 0.45, 0.55]), 1.99).round(2)
    array([0., 0., 1.])
    """
    whole, rest = np.floor(c), c - np.floor(c)
    scaled = c * v
    lower: Array = np.floor(scaled)
    return np.asarray(
        (lower + np.maximum(0.0, (scaled - lower - rest) / (1.0 - rest))) / whole
    )


def _dual_feasible(draws: Draws) -> BetFamily:
    """Functions h of the odds with Σ h(v_a) ≤ 1 wherever Σ v_a ≤ 1, of v = (p -
    floor) / (1 - K floor); and even odds.

    h is v (with a floor: nothing but the floor is missing), v cut at both ends (0 below
    a number c, 1 above 1 - c: arms above 1 - c leave no room for others above c), or
    steps, which are large just above 1/2, 1/3, ….
    """
    above = " above the floor" if draws.floor else ""
    names = [
        "uniform exploration were logged but not served",
        "arms were drawn from even odds",
    ]
    names += [f"arms with odds below {cut:.2g}{above} were not served" for cut in _CUTS]
    names += [
        f"likely arms were served too often (odds in steps of 1/{c:g})" for c in _STEPS
    ]

    def gains(rows: slice) -> Array:
        p, count = draws.propensity[rows], draws.count[rows]
        v = (
            (p - draws.floor) / np.maximum(1.0 - count * draws.floor, _LEAST_REST)
        ).clip(0.0, 1.0)
        # p is no bet, in a first row before which no arm is known
        unknown = np.where(count > 0, 0.0, p)
        even = np.where(
            draws.stated | ~draws.new[rows], 1.0 / np.maximum(count, 1), unknown
        )
        cut = [
            np.where(v > 1 - cut + _ROUNDING, 1.0, np.where(v < cut, 0.0, v))
            for cut in _CUTS
        ]
        stepped = [steps(v * (1 - _ROUNDING), c) for c in _STEPS]
        return (
            np.column_stack([v, even, *cut, *stepped]) * draws.inverse[rows, None] - 1.0
        )

    return equal_bets(names, gains)


def _left_out(draws: Draws) -> BetFamily:
    """Arm b, which has odds of at least `floor`, is not served: (1 - 1[a = b] floor /
    p(b)) / (1 - floor)."""
    numbers = np.arange(draws.n_arms)

    def gains(rows: slice) -> Array:
        share = np.where(
            draws.arm[rows, None] == numbers,
            draws.floor * draws.inverse[rows, None],
            0.0,
        )
        able = draws.first < np.arange(len(draws.arm))[rows, None]
        if draws.stated:
            able = (
                np.ones_like(able) if draws.eligible is None else draws.eligible[rows]
            )
        return np.where(
            able & (draws.floor < 1),
            (1.0 - share) / max(1.0 - draws.floor, 1e-9) - 1.0,
            0.0,
        )

    return BetFamily(
        [f"arm {label} were not served" for label in draws.labels],
        _arm_shares(draws),
        gains,
    )


def _arm_shares(draws: Draws) -> Array:
    """Equal shares; where the log does not say how many arms there are, shares that sum
    to 1 over all numbers."""
    if draws.stated:
        return np.full(draws.n_arms, 1 / draws.n_arms)
    numbers = np.arange(draws.n_arms)
    return 1.0 / ((numbers + 1.0) * (numbers + 2.0))
