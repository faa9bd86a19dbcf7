"""Bets that do not learn. Some need only the drawn arm's propensity, others use
propensities q of all arms that are known before the draw."""

from collections.abc import Callable

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.evaluation.draws.draws import BetFamily, Draws, equal_bets
from oddsmith.logs.rules import drawn_entries

__all__ = ["bets_on_all_odds", "bets_on_drawn_odds", "steps"]

_DRAWN_CUTS = (0.003, 0.01, 0.03, 0.1, 0.2, 0.3, 0.4999)
# Parameters c of `steps`. They are not integers, because rounding with an integer c
# could return v itself.
_STEPS = (1.5, 1.99, 2.5, 2.99, 3.5, 3.99, 4.99, 7.99, 15.99)
_SUM_ROUNDING = 1e-9  # tolerance for sums of propensities above 1
# Smallest probability above the floors by which bets divide. A smaller one is probably
# a rounding error, and dividing by a larger number keeps the bet fair.
_LEAST_REST = 1e-3

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
# Tolerance for cuts, because 1 - 0.8 is slightly less than 0.2.
_CUT_ROUNDING = 1 - 1e-9
_LAGS = (
    *(1, 2, 3, 4, 5, 8, 10, 16, 20, 32, 50, 64),
    *(100, 128, 200, 256, 500, 512, 1000, 1024),
)
_NUMBER_LAGS = (1, 2, 3, 4)
_BLOCK = 256  # rows between two updates of the mean past propensities


def bets_on_drawn_odds(draws: Draws) -> list[BetFamily]:
    """Return the families of bets for a log with only the drawn arm's propensity."""
    families = [_forced_arms(draws), _repeated_arms(draws), _dual_feasible(draws)]
    if draws.floor:
        families.append(_arms_below_floor(draws))
    return families


def bets_on_all_odds(draws: Draws, odds: Array) -> list[BetFamily]:
    """Return the families of bets for a log with the propensities (T, K) of all
    arms."""
    return [
        _forced_arms(draws),
        _repeated_arms(draws),
        _ranks(draws, odds),
        _powers(draws, odds),
        _cuts(draws, odds),
        _missing_arms(draws, odds),
        _old_odds(draws, odds),
        _other_columns(draws, odds),
        _old_numbers(draws, odds),
    ]


def _forced_arms(draws: Draws) -> BetFamily:
    """Bet that arm b is forced, for each b: h_b = 1, others 0."""
    numbers = np.arange(draws.n_arms)

    def gains(rows: slice) -> Array:
        is_drawn = draws.arm[rows, None] == numbers
        inverse = draws.inverse[rows, None]
        table = np.where(is_drawn, inverse, 0.0) - 1.0
        if draws.odds is not None:
            table[draws.odds[rows] == 0] = 0.0
        elif draws.eligible is not None:
            table[~draws.eligible[rows]] = 0.0
        return table

    names = [f"arm {label} were forced" for label in draws.labels]
    return BetFamily(names, _arm_shares(draws), gains)


def _repeated_arms(draws: Draws) -> BetFamily:
    """Bet on the previous row's arm, unless this row is known not to offer it."""
    before, possible = draws.previous()
    if draws.odds is not None:
        possible &= drawn_entries(draws.odds, before) > 0
    if draws.eligible is not None:
        possible &= drawn_entries(draws.eligible, before)

    def gains(rows: slice) -> Array:
        is_same = draws.arm[rows] == before[rows]
        inverse = draws.inverse[rows]
        gain = np.where(is_same, inverse, 0.0) - 1.0
        bets = np.where(possible[rows], gain, 0.0)
        return bets[:, None]

    return equal_bets(["the previous row's arm were repeated"], gains)


def steps(v: Array, c: float) -> Array:
    """Return the dual feasible function (⌊c v⌋ + ((c v - ⌊c v⌋) - (c - ⌊c⌋))⁺ / (1 - (c
    - ⌊c⌋))) / ⌊c⌋ of Burdett and Johnson.

    >>> steps(np.array([0.3, 0.45, 0.55]), 1.99).round(2)
    array([0., 0., 1.])
    """
    whole = np.floor(c)
    rest = c - whole
    scaled = c * v
    lower: Array = np.floor(scaled)
    excess = scaled - lower - rest
    above = np.maximum(0.0, excess / (1.0 - rest))
    return np.asarray((lower + above) / whole)


def _dual_feasible(draws: Draws) -> BetFamily:
    """Bet with functions h of the propensities such that Σ h(v_a) ≤ 1 whenever Σ v_a ≤
    1, for v = (p - floor) / (1 - K floor); and on uniform propensities.

    h is one of three functions: v itself, which with a floor is the bet that only the
    floor is missing; v cut at both ends, that is, 0 below a number c and 1 above 1 - c,
    because an arm above 1 - c excludes other arms above c; or `steps`, which are large
    just above 1/2, 1/3, ….
    """
    above = ""
    if draws.floor:
        above = " above the floor"
    names = [
        "uniform exploration were logged but not served",
        "arms were drawn from even odds",
    ]
    for cut in _DRAWN_CUTS:
        names.append(f"arms with odds below {cut:.2g}{above} were not served")
    for c in _STEPS:
        names.append(f"likely arms were served too often (odds in steps of 1/{c:g})")

    def gains(rows: slice) -> Array:
        p = draws.propensity[rows]
        count = draws.count[rows]
        rest = np.maximum(1.0 - count * draws.floor, _LEAST_REST)
        v = ((p - draws.floor) / rest).clip(0.0, 1.0)
        # A bet with q = p neither wins nor loses. Use it in the first row, when no past
        # arm is known.
        unknown = np.where(count > 0, 0.0, p)
        is_known = draws.stated | ~draws.new[rows]
        uniform = 1.0 / np.maximum(count, 1)
        columns = [v, np.where(is_known, uniform, unknown)]
        for cut in _DRAWN_CUTS:
            above_cut = np.where(v < cut, 0.0, v)
            is_sure = v > 1 - cut + _SUM_ROUNDING
            columns.append(np.where(is_sure, 1.0, above_cut))
        for c in _STEPS:
            columns.append(steps(v * (1 - _SUM_ROUNDING), c))
        inverse = draws.inverse[rows, None]
        return np.column_stack(columns) * inverse - 1.0

    return equal_bets(names, gains)


def _arms_below_floor(draws: Draws) -> BetFamily:
    """Bet that arm b, which has a propensity of at least `floor`, is not served: (1 -
    1[a = b] floor / p(b)) / (1 - floor)."""
    numbers = np.arange(draws.n_arms)
    row_numbers = np.arange(len(draws.arm))

    def able_arms(rows: slice) -> Bools:
        if not draws.stated:
            return draws.first < row_numbers[rows, None]
        if draws.eligible is not None:
            return draws.eligible[rows]
        return np.ones((len(draws.arm[rows]), draws.n_arms), np.bool_)

    def gains(rows: slice) -> Array:
        is_drawn = draws.arm[rows, None] == numbers
        inverse = draws.inverse[rows, None]
        share = np.where(is_drawn, draws.floor * inverse, 0.0)
        rest = max(1.0 - draws.floor, 1e-9)
        gain = (1.0 - share) / rest - 1.0
        is_possible = able_arms(rows) & (draws.floor < 1)
        return np.where(is_possible, gain, 0.0)

    names = [f"arm {label} were not served" for label in draws.labels]
    return BetFamily(names, _arm_shares(draws), gains)


def _arm_shares(draws: Draws) -> Array:
    """Return the share of the money for each arm. Shares are equal if the log contains
    the number of arms; otherwise they sum to 1 over all positive integers."""
    if draws.stated:
        return np.full(draws.n_arms, 1 / draws.n_arms)
    numbers = np.arange(draws.n_arms)
    return 1.0 / ((numbers + 1.0) * (numbers + 2.0))


def _ranks(draws: Draws, odds: Array) -> BetFamily:
    """Bet on the k-th likeliest arm, and on the least likely one with positive
    propensity. Do not bet in rows with tied ranks."""
    top = min(len(_RANKS), draws.n_arms)
    names = [f"the {name} arm were forced" for name in _RANKS[:top]]
    names.append("the least likely arm were forced")
    shares = [1.0 / ((k + 1) * (k + 2)) for k in range(top)]
    shares.append(1.0 / (top + 1))

    def gains(rows: slice) -> Array:
        p = odds[rows]
        n = len(p)
        # Sentinels: column 0 is larger, the last column smaller than any propensity.
        above = np.full((n, 1), 2.0)
        below = np.zeros((n, 1))
        ordered = np.hstack([above, -np.sort(-p, axis=1), below])
        last = (ordered > 0).sum(axis=1, keepdims=True) - 1
        places = np.tile(np.arange(1, top + 1), (n, 1))
        place = np.hstack([places, last])
        before = np.take_along_axis(ordered, place - 1, axis=1)
        own = np.take_along_axis(ordered, place, axis=1)
        after = np.take_along_axis(ordered, place + 1, axis=1)
        is_drawn = own == draws.propensity[rows, None]
        inverse = draws.inverse[rows, None]
        gain = np.where(is_drawn, inverse, 0.0) - 1.0
        is_unique = (before > own) & (own > after)
        return np.where(is_unique, gain, 0.0)

    return BetFamily(names, np.array(shares), gains)


def _powers(draws: Draws, odds: Array) -> BetFamily:
    """Bet on propensities proportional to p^β over the arms with p > 0."""

    def gains(rows: slice) -> Array:
        p = odds[rows]
        columns = [draws.gain(rows, power(p)) for power in _POWERS.values()]
        return np.column_stack(columns)

    return equal_bets([f"arms were drawn from {name}" for name in _POWERS], gains)


def _cuts(draws: Draws, odds: Array) -> BetFamily:
    """Bet on propensities without uniform exploration, which is estimated by the
    smallest propensity so far, and on propensities without the arms below a cut."""
    names = ["uniform exploration were logged but not served"]
    names += [f"arms with odds below {cut:g} were not served" for cut in _CUTS]
    able = odds > 0 if draws.eligible is None else draws.eligible
    least_of_row = np.where(able, odds, 2.0).min(axis=1)
    least = np.minimum.accumulate(least_of_row)[:, None]

    def gains(rows: slice) -> Array:
        p = odds[rows]
        excess = p - least[rows]
        above_least = np.where(able[rows], excess, 0.0)
        columns = [draws.gain(rows, above_least)]
        for cut in _CUTS:
            above_cut = np.where(p >= cut * _CUT_ROUNDING, p, 0.0)
            columns.append(draws.gain(rows, above_cut))
        return np.column_stack(columns)

    return equal_bets(names, gains)


def _missing_arms(draws: Draws, odds: Array) -> BetFamily:
    """Bet that arm b is never served: 1[a ≠ b] / (1 - p(b))."""
    numbers = np.arange(draws.n_arms)

    def gains(rows: slice) -> Array:
        p = odds[rows]
        total = p.sum(axis=1, keepdims=True)
        others = np.maximum(total, 1.0) - p
        able = others > 1e-6  # tolerance for sums of logged propensities
        inverse = 1.0 / np.where(able, others, 1.0)
        is_drawn = draws.arm[rows, None] == numbers
        gain = np.where(is_drawn, 0.0, inverse) - 1.0
        return np.where(able, gain, 0.0)

    names = [f"arm {label} were not served" for label in draws.labels]
    return equal_bets(names, gains)


def _old_odds(draws: Draws, odds: Array) -> BetFamily:
    """Bet on the propensities of earlier rows, and on their mean before this block of
    rows."""
    block_starts = np.arange(0, len(odds), _BLOCK)
    block_sums = np.add.reduceat(odds, block_starts)
    sums = np.cumsum(block_sums, axis=0)
    nothing = np.zeros((1, draws.n_arms))
    past = np.vstack([nothing, sums[:-1]])
    row_numbers = np.arange(len(odds))

    def gains(rows: slice) -> Array:
        row = row_numbers[rows]
        able = odds[rows] > 0
        columns = []
        for lag in _LAGS:
            old = odds[np.maximum(row - lag, 0)]
            has_old = (row >= lag)[:, None]
            q = np.where(has_old & able, old, 0.0)
            columns.append(draws.gain(rows, q))
        block_past = past[row // _BLOCK]
        mean = np.where(able, block_past, 0.0)
        columns.append(draws.gain(rows, mean))
        return np.column_stack(columns)

    names = [f"odds were {lag} row{'s' * (lag > 1)} old" for lag in _LAGS]
    return equal_bets([*names, "odds did not depend on the row"], gains)


def _other_columns(draws: Draws, odds: Array) -> BetFamily:
    """Bet that the columns of propensities are reversed, or shifted by one arm in
    either direction."""

    def gains(rows: slice) -> Array:
        p = odds[rows]
        right = np.roll(p, 1, axis=1)
        left = np.roll(p, -1, axis=1)
        others = (right, left, p[:, ::-1])
        columns = []
        for q in others:
            odds_of_others = np.where(p > 0, q, 0.0)
            columns.append(draws.gain(rows, odds_of_others))
        return np.column_stack(columns)

    ends = ("one too low", "one too high", "in reverse order")
    return equal_bets([f"the logged numbers of arms were {end}" for end in ends], gains)


def _old_numbers(draws: Draws, odds: Array) -> BetFamily:
    """Bet that the random number of an earlier row was used again. The earlier number
    lies in the part of [0, 1) that belongs to the earlier arm; the bet wins by the
    overlap of this part with that of the current arm."""
    high = drawn_entries(np.cumsum(odds, axis=1), draws.arm)
    low = high - draws.propensity
    row_numbers = np.arange(len(odds))

    def gains(rows: slice) -> Array:
        row = row_numbers[rows]
        columns = []
        for lag in _NUMBER_LAGS:
            old = np.maximum(row - lag, 0)
            lower_end = np.maximum(low[row], low[old])
            upper_end = np.minimum(high[row], high[old])
            overlap = np.maximum(upper_end - lower_end, 0.0)
            overlap_gain = overlap * draws.inverse[row]
            gain = overlap_gain * draws.inverse[old] - 1.0
            columns.append(np.where(row >= lag, gain, 0.0))
        return np.column_stack(columns)

    names = [
        f"the random number of {lag} row{'s' * (lag > 1)} before were used"
        for lag in _NUMBER_LAGS
    ]
    return equal_bets(names, gains)
