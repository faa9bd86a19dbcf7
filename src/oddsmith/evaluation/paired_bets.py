"""Anytime-valid bounds on the difference of two policies.

Row t has the importance weights w and u of the drawn arm under target and control, D =
w - u, and a reward r in [0, 1]. All propensities are logged, so D has mean 0 given the
past, and for any constant m the mean of D (r - m) is the effect Δ_t of the row. For a
rate λ and a row rate κ ≤ λ with κ D (r - m) ≥ -0.9 for every arm and r in {0, 1}, the
factor

    F_t = (1 + κ D (r - m)) exp(-λ Δ_t - (λ - κ) N_t)

has mean at most exp(κ Δ_t - λ Δ_t - (λ - κ) N_t) ≤ 1, because Δ_t ≥ -N_t, where N_t is
the probability that target and control place differently. Rows without a reward have κ
= 0. With

    G = Σ ln(1 + κ D (r - m)) - (λ - κ) N,    W_n = Σ ρ exp(G_λm - λ n Δ),  Σ ρ = 1,

and Δ the mean effect of n rows, W_n is below 2/α at every n with probability at least 1
- α/2 (Ville). It decreases in Δ, so its root is a lower bound; -D gives the upper one.
Only the sums are stored, as integers: they do not depend on the order of rows, and rows
are replaced when their rewards arrive or change.

If the target places probability A more than the control on arms with propensity 0, and
the control B more than the target, D misses their rewards, which are in [0, 1]: the
factor then includes κ (A m + B (1 - m)).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, number
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.exact_sums import in_units, of_units
from oddsmith.evaluation.mean_bounds import MeanBets, Sums, running_bound
from oddsmith.evaluation.terms import PolicyRows
from oddsmith.logs.rules import drawn_entries

__all__ = [
    "Bounds",
    "CENTRES",
    "PairedRows",
    "PairedSums",
    "RATES",
    "pair_drawn_odds",
    "pair_odds",
    "pair_policies",
    "paired_bounds",
    "row_units",
]

RATES: Array = 2.0 ** np.arange(0.0, -13.0, -1.0)
"""The rates λ of the bets."""
# Equal steps of the angle arcsin √m, so that a mean between two centres widens the
# interval by about the same factor everywhere.
CENTRES: Array = np.sin(np.linspace(0.0, np.pi / 2, 13)) ** 2
"""The centres m of the bets."""
# Relative amounts of money for the rates and for the centres. Rates that suit a
# thousand to a hundred thousand rows get more, and so do centres below 0.15, because
# most metrics have small means.
_RATE_PARTS: Array = np.array([2, 3, 4, 5, 6, 6, 5, 4, 3, 2, 1, 1, 0.5])
_CENTRE_PARTS: Array = np.where(CENTRES < 0.15, 2.0, 1.0)
_LARGEST_LOSS = 0.9
_SHAPE = (2, len(RATES), len(CENTRES))
# Rows per block, so that tables stay in the cache.
_PIECE = 90


class Bounds(NamedTuple):
    """Lower and upper end of an interval."""

    low: float
    high: float


class PairedRows(NamedTuple):
    """Data of T rows that the bets need; each field has shape (T,).

    * `apart`: D = w - u of the drawn arm.
    * `least`, `most`: bounds on D over all arms that could be drawn.
    * `moved`: N, the mass that target and control place differently.
    * `target_missing`, `control_missing`: A and B, the additional mass of the target
      and of the control on arms with odds 0.
    * `reward`: in [0, 1]; NaN where none has arrived.
    """

    apart: Array
    least: Array
    most: Array
    moved: Array
    target_missing: Array
    control_missing: Array
    reward: Array

    def at(self, rows: slice | Bools | Ints) -> "PairedRows":
        """Return the selected rows."""
        return PairedRows(*(column[rows] for column in self))

    def mirrored(self) -> "PairedRows":
        """Return the rows with target and control swapped."""
        return PairedRows(
            apart=-self.apart,
            least=-self.most,
            most=-self.least,
            moved=self.moved,
            target_missing=self.control_missing,
            control_missing=self.target_missing,
            reward=self.reward,
        )

    @classmethod
    def concatenate(cls, parts: "Sequence[PairedRows]") -> "PairedRows":
        """Concatenate the rows of several parts."""
        columns = zip(*parts, strict=True)
        return cls(*(np.concatenate(column) for column in columns))

    def differences(self, centre: float) -> Array:
        """Return D (r - m) for one centre m, whose mean over rows estimates the
        effect."""
        return self.apart * (self.reward - centre)


def pair_odds(
    arm: Ints, odds: Array, target: Array, control: Array, reward: Array
) -> PairedRows:
    """Return the input of the bets for a log with the propensities of all arms.

    `arm` and `reward` are (T,), `odds`, `target` and `control` (T, K).

    >>> rows = pair_odds(
    ...     np.array([1]),
    ...     np.array([[0.75, 0.25]]),
    ...     np.array([[0.0, 1.0]]),
    ...     np.array([[1.0, 0.0]]),
    ...     np.array([1.0]),
    ... )
    >>> float(rows.apart[0]), float(rows.least[0]), float(rows.moved[0])
    (4.0, -1.3333333333333333, 1.0)
    """
    change = target - control
    # 1 / propensity overflows for smaller propensities. No input contains such a drawn
    # arm.
    could_be_drawn = odds >= LEAST_PROPENSITY
    apart = np.zeros_like(change)
    np.divide(change, odds, out=apart, where=could_be_drawn)
    missing = np.where(could_be_drawn, 0.0, change)
    return PairedRows(
        apart=drawn_entries(apart, arm),
        least=apart.min(axis=1),
        most=apart.max(axis=1),
        moved=_positive_mass(-change),
        target_missing=_positive_mass(missing),
        control_missing=_positive_mass(-missing),
        reward=reward,
    )


def _positive_mass(table: Array) -> Array:
    """Return the sum (T,) of the positive entries of a table (T, K)."""
    positive: Array = np.maximum(table, 0.0)
    return np.asarray(positive.sum(axis=1))


def pair_drawn_odds(
    arm: Ints,
    propensity: Array,
    target: Array,
    control: Array | None,
    reward: Array,
    *,
    floor: float,
    barred: Bools | None = None,
) -> PairedRows:
    """Return the input of the bets for a log with only the propensities of drawn arms.

    `floor` is the smallest propensity that the logging policy gives to any arm, which
    bounds D. `barred` (T, K) marks the arms that could not be drawn. A `control` of
    None is the logging policy itself.
    """
    number("floor", floor, low=0, high=1, open_low=True)
    rows = len(arm)
    smallest = propensity.min(initial=1.0)
    if smallest < floor * (1 - 1e-9):
        raise InvalidInput(
            f"floor must be at most the smallest propensity of the log, {smallest:g}; "
            f"got {floor:g}"
        )
    if barred is None:
        barred = np.zeros(target.shape, np.bool_)
    if control is None:
        drawable = np.where(barred, 0.0, target)
        missing = target - drawable
        apart = drawn_entries(target, arm) / propensity - 1.0
        return PairedRows(
            apart=apart,
            least=np.full(rows, -1.0),
            most=drawable.max(axis=1) / floor,
            moved=np.ones(rows),
            target_missing=missing.sum(axis=1),
            control_missing=np.zeros(rows),
            reward=reward,
        )
    change = target - control
    drawable = np.where(barred, 0.0, change)
    missing = change - drawable
    least = np.minimum(drawable.min(axis=1), 0.0)
    most = np.maximum(drawable.max(axis=1), 0.0)
    return PairedRows(
        apart=drawn_entries(change, arm) / propensity,
        least=least / floor,
        most=most / floor,
        moved=_positive_mass(-change),
        target_missing=_positive_mass(missing),
        control_missing=_positive_mass(-missing),
        reward=reward,
    )


def pair_policies(
    target: PolicyRows, control: PolicyRows, floor: float | None = None
) -> PairedRows | None:
    """Return the input of the bets for two targets on one log. Return None if only
    drawn propensities are logged and there is no `floor`, because D then has no
    bound."""
    width = max(_width(target), _width(control))
    odds = target.odds if control.odds is None else control.odds
    first = _table(target, width)
    second = _table(control, width)
    if odds is not None:
        all_odds = _pad(odds, width)
        own = all_odds if first is None else first
        other = all_odds if second is None else second
        return pair_odds(target.arm, all_odds, own, other, target.reward)
    if floor is None or target.propensity is None or first is second:
        return None
    barred = target.barred if control.barred is None else control.barred
    settings: Any = {"floor": floor, "barred": barred}
    if first is None:
        assert second is not None
        return pair_drawn_odds(
            control.arm, target.propensity, second, None, control.reward, **settings
        ).mirrored()
    return pair_drawn_odds(
        target.arm, target.propensity, first, second, target.reward, **settings
    )


def _width(rows: PolicyRows) -> int:
    """Return the number of arms of the wider table."""
    widths = [0]
    for table in (rows.odds, rows.target):
        if table is not None:
            widths.append(table.shape[1])
    return max(widths)


def _table(rows: PolicyRows, width: int) -> Array | None:
    if rows.target is None:
        return None
    return _pad(rows.target, width)


def _pad(table: Array, width: int) -> Array:
    """Pad a table (T, K) with 0 for further arms."""
    more = width - table.shape[1]
    if more == 0:
        return table
    return np.pad(table, [(0, 0), (0, more)])


@dataclass(slots=True)
class PairedSums:
    """Sums G of all bets over `rows` rows, in integer units, with shape (2, rates,
    centres): first for the lower bound, then for the upper bound.

    The sums do not depend on the order of the rows, to the last bit.

    >>> rng = np.random.default_rng(0)
    >>> arm = (rng.random(4000) < 0.5).astype(np.int64)
    >>> reward = (rng.random(4000) < 0.1 + 0.1 * arm).astype(np.float64)
    >>> even = np.full((4000, 2), 0.5)
    >>> always = np.eye(2)[np.ones(4000, np.int64)]
    >>> sums = PairedSums()
    >>> sums.add(pair_odds(arm, even, always, always[:, ::-1], reward))
    >>> low, high = sums.bounds(0.95)
    >>> bool(0.05 < low < 0.1 < high < 0.15)
    True
    """

    rows: int = 0
    units: Ints = field(default_factory=lambda: np.zeros(_SHAPE, np.int64))

    def add(self, rows: PairedRows, counts: Ints | None = None) -> None:
        """Add each row `counts` (T,) times; -1 removes a row.

        A service collects some rows and adds them at once, which is 20 times faster per
        row.
        """
        n_rows = len(rows.apart)
        if counts is not None:
            n_rows = int(counts.sum())
        self.rows += n_rows
        self.units = self.units + row_units(rows, counts)

    def replace(self, before: PairedRows, after: PairedRows) -> None:
        """Replace rows by the same rows with corrected rewards."""
        self.add(before, np.full(len(before.apart), -1))
        self.add(after)

    def merge(self, other: "PairedSums") -> "PairedSums":
        """Return the sums over the rows of both objects."""
        return PairedSums(self.rows + other.rows, self.units + other.units)

    def bounds(self, level: float = 0.95) -> Bounds:
        """Return the anytime-valid bounds on the mean effect."""
        number("level", level, low=0, high=1, open_low=True, open_high=True)
        low, high = paired_bounds(self.units, np.asarray(self.rows), level)
        return Bounds(float(low), float(high))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PairedSums):
            return NotImplemented
        return self.rows == other.rows and np.array_equal(self.units, other.units)

    __hash__ = None  # type: ignore[assignment]


def paired_bounds(units: Ints, rows: Ints, level: float) -> tuple[Array, Array]:
    """Return the bounds (…) for sums `units` (…, 2, rates, centres) over `rows` (…)
    rows."""
    bets = _bets()
    counts = np.maximum(rows, 1).astype(np.float64)[..., None]
    # The root finder needs a positive mean, so add 1 to the effect.
    shift = counts[..., None] * bets.rates
    gains = of_units(units).reshape(*units.shape[:-2], -1) + shift
    sums = Sums(np.broadcast_to(counts, gains.shape[:-1]), gains, bets)
    ends = running_bound(sums, (1 - level) / 2)
    low: Array = np.minimum(ends[..., 0] - 1.0, 1.0)
    high: Array = np.maximum(1.0 - ends[..., 1], -1.0)
    return low, high


@lru_cache(maxsize=1)
def _bets() -> MeanBets:
    rates, centres = np.meshgrid(RATES, CENTRES, indexing="ij")
    shares = np.outer(_RATE_PARTS, _CENTRE_PARTS)
    shares /= shares.sum()
    return MeanBets(rates.ravel(), centres.ravel(), np.log(shares).ravel())


def row_units(rows: PairedRows, counts: Ints | None = None) -> Ints:
    """Return the contribution of rows, each counted `counts` times, to the sums of the
    lower and the upper bound, in integer units (2, rates, centres)."""
    units: Ints = np.zeros(_SHAPE, np.int64)
    for start in range(0, len(rows.apart), _PIECE):
        own = slice(start, start + _PIECE)
        piece = rows.at(own)
        times = None if counts is None else counts[own]
        units[0] += _sum_units(_gains(piece), times)
        units[1] += _sum_units(_gains(piece.mirrored()), times)
    return units


def _sum_units(gains: Array, counts: Ints | None) -> Ints:
    units = in_units(gains)
    if counts is not None:
        units *= counts[:, None, None]
    return np.asarray(units.sum(axis=0))


def _gains(rows: PairedRows) -> Array:
    """Return the contribution (T, rates, centres) of each row to the sums G of the
    lower bound."""
    has_reward = ~np.isnan(rows.reward)
    reward = np.where(has_reward, rows.reward, 0.0)
    # The bet loses most with a reward of 0 for an arm that the target prefers, or with
    # a reward of 1 for another arm.
    preferred_loss = rows.most[:, None] * CENTRES
    other_loss = -rows.least[:, None] * (1.0 - CENTRES)
    loss = np.maximum(np.maximum(preferred_loss, other_loss), 1e-300)
    largest_rate = _LARGEST_LOSS / loss
    largest_rate[~has_reward] = 0.0
    differences = rows.apart[:, None] * (reward[:, None] - CENTRES)
    rate = np.minimum(RATES[:, None], largest_rate[:, None, :])
    gains: Array = np.log1p(rate * differences[:, None, :])
    gains -= (RATES[:, None] - rate) * rows.moved[:, None, None]
    if rows.target_missing.any() or rows.control_missing.any():
        missing = rows.target_missing[:, None] * CENTRES
        missing = missing + rows.control_missing[:, None] * (1.0 - CENTRES)
        gains -= rate * missing[:, None, :]
    return gains
