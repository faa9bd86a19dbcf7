"""Terms: the numbers that an estimator computes for each row. Their mean is the
estimate, and intervals need nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, number
from oddsmith.core.errors import InvalidInput

__all__ = ["Bets", "DrawnOdds", "Extremes", "PolicyRows", "Terms", "heaviest"]

if TYPE_CHECKING:
    from oddsmith.evaluation.slates import Slates


_NOTHING = 1e-9  # smaller missing probability is rounding
_FIRST = 256  # entries to sort first when searching the largest weights


class Bets(NamedTuple):
    """The nonnegative columns `gain` and `loss` that the bets of a confidence sequence
    use. They need no upper bound; `limit` is their bound if one is known.

    E gain = value + gain_shift and E loss = loss_shift - value. For `ips`, gain = w r
    with shift 0, and loss = w (1 - r) with shift 1, because the mean weight is 1
    (Karampatziakis, Mineiro and Ramdas 2021).
    """

    gain: Array
    loss: Array
    gain_shift: float
    loss_shift: float
    limit: float = np.inf

    @property
    def total(self) -> float:
        """The sum of the means of both columns."""
        return self.gain_shift + self.loss_shift


class Extremes(NamedTuple):
    """The terms that rows of this log could have had with reward 1 and with reward 0,
    and the logged propensity of each term.

    If all propensities are logged, the arrays are (T, K), for all arms of all rows.
    Otherwise they are (T,), for the drawn arms only, with propensity 1. If rows belong
    to slates, `places` contains the rows of each position in a slate.
    """

    rewarded: Array
    unrewarded: Array
    odds: Array
    places: tuple[Ints, ...] | None = None

    def ends(self) -> tuple[float, float]:
        """Return the expected lowest and highest term of T rows by the logged
        propensities. For n slates, the two numbers are bounds."""
        places = self.places or (slice(None),)
        # Reuse one array for both ends, because it may be the largest in memory.
        table = np.minimum(self.rewarded, self.unrewarded)
        np.negative(table, out=table)
        total = 0.0
        for place in places:
            total += heaviest(table[place], self.odds[place])
        low = -total
        np.maximum(self.rewarded, self.unrewarded, out=table)
        high = 0.0
        for place in places:
            high += heaviest(table[place], self.odds[place])
        return low, high


class DrawnOdds(NamedTuple):
    """A target in a log that has only the propensities of drawn arms: its propensities
    (T, K), importance weights and rewards (T,).

    The target's propensities are 0 for arms that could not be drawn. They are None if
    the target is the logging policy itself.
    """

    target: Array | None
    weights: Array
    reward: Array

    @property
    def mass(self) -> Array:
        """The target's total probability (T,) of arms that could be drawn."""
        if self.target is None:
            return np.ones(len(self.reward))
        return np.asarray(self.target.sum(axis=1))


class PolicyRows(NamedTuple):
    """A target on the rewarded rows of a log, in the form that paired bets use.

    `arm`, `reward` and `propensity` are (T,); `odds` are the propensities of the
    logging policy and `target` those of the target (T, K). `odds` is None if only drawn
    propensities are logged, and `barred` (T, K) then marks the arms that could not be
    drawn. `target` is None for the logging policy itself.
    """

    arm: Ints
    reward: Array
    propensity: Array | None
    odds: Array | None
    target: Array | None
    barred: Bools | None


@dataclass(frozen=True, eq=False)
class Terms:
    """One number per rewarded row (T,), whose mean is the estimate of a target's value.

    Columns, one number per row:

    * `weights`: importance weights π/p before clipping (None: not used).
    * `missing`: the target's probability of arms that the logging policy could not
      draw.
    * `expected_squares`: E[w² | x] by the logged propensities, if all are logged.
    * `ceiling`: the largest weight that the row could have had.
    * `rounding`: the error of the weight if propensities were rounded.

    Numbers: `heaviest` is the mean weight of the heaviest row in T by the logged
    propensities, `least` the smallest logged propensity of an arm of the target,
    `reach` the largest number that can multiply a reward, if it is known before the
    rows (∞: unknown), and `setting` the setting of the shrinkage.

    Flags: the terms of a `ratio` (snips) are centred at the ratio, with the spread of
    the delta method; `modelled` terms contain predictions of a reward model; the
    predictions of `beforehand` terms, if any, were made before the rows; the setting of
    `tuned` terms was chosen from the same rows; `unbiased` means exactly unbiased or,
    for snips, nearly so.

    `parts` are the terms of the two targets of a difference. `extremes` returns the
    terms that rows could have had (None: those with rewards 0 and 1). `whole` contains
    the terms without shrinkage, if the setting was chosen. `drawn` is None unless only
    the propensities of drawn arms are logged. With `slates`, intervals are for the mean
    over slates, and `unit` is "slate". `policy_rows` are the rows of terms w r, which
    paired bets compare.
    """

    name: str
    values: Array
    missing: Array
    weights: Array | None = None
    expected_squares: Array | None = None
    heaviest: float | None = None
    ceiling: Array | None = None
    rounding: Array | None = None
    least: float | None = None
    bets: Bets | None = None
    reach: float = np.inf
    setting: float | None = None
    ratio: bool = False
    modelled: bool = False
    beforehand: bool = True
    tuned: bool = False
    unbiased: bool = True
    parts: "tuple[Terms, Terms] | None" = None
    extremes: Callable[[], Extremes] | None = field(default=None, repr=False)
    whole: "Terms | None" = field(default=None, repr=False)
    drawn: DrawnOdds | None = field(default=None, repr=False)
    slates: "Slates | None" = field(default=None, repr=False)
    policy_rows: PolicyRows | None = field(default=None, repr=False)
    unit: str = "row"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def least_value(self) -> float:
        """The smallest possible value: -1 for differences, otherwise 0. The largest is
        1."""
        if self.parts is None:
            return 0.0
        return -1.0

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The lowest and the highest term that one additional row could have, computed
        from the logged propensities and the drawn rows."""
        low = 0.0
        high = 1.0
        if self.extremes is not None:
            low, high = self.extremes().ends()
        return self._with_values(low, high)

    def ends_within(self, floor: float | None) -> tuple[float, float]:
        """Return the ends if the logging policy gave every arm at least `floor` (if
        given), so that no weight is above max π / floor."""
        if floor is None:
            return self.ends
        if self.parts is not None:
            first, second = self.parts
            low, high = first.ends_within(floor)
            other_low, other_high = second.ends_within(floor)
            return low - other_high, high - other_low
        drawn = (self.whole or self).drawn
        most = 1.0
        if drawn is not None and drawn.target is not None:
            most = float(drawn.target.max())
        heavy = min(self.reach, most / floor)
        low = 0.0
        high = heavy
        if self.ratio and self.weights is not None:
            mean = float(self.values.mean())
            heavy /= float(self.weights.mean())
            low = mean - heavy * mean
            high = mean + heavy * (1.0 - mean)
        elif self.modelled:
            low = -heavy
            high = 1.0 + heavy
        return self._with_values(low, high)

    def _with_values(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends, extended to the lowest and the highest term."""
        least = float(self.values.min())
        most = float(self.values.max())
        return min(low, least), max(high, most)

    def minus(self, other: "Terms") -> "Terms":
        """Return the terms of the difference of two targets on the same log, paired row
        by row."""
        if len(self) != len(other):
            raise InvalidInput(
                f"terms must be of the same rows; got {len(self)} and {len(other)}"
            )
        whole = None
        if self.whole is not None or other.whole is not None:
            own_whole = self.whole or self
            other_whole = other.whole or other
            whole = own_whole.minus(other_whole)
        missing = np.maximum(self.missing, other.missing)
        bets = _difference(self.bets, other.bets)
        beforehand = self.beforehand and other.beforehand
        tuned = self.tuned or other.tuned
        ratio = self.ratio or other.ratio
        unbiased = self.unbiased and other.unbiased
        extremes = partial(_extremes, self, other)
        values = self.values - other.values
        return Terms(
            name=f"{self.name} - {other.name}",
            values=values,
            missing=missing,
            bets=bets,
            beforehand=beforehand,
            tuned=tuned,
            ratio=ratio,
            unbiased=unbiased,
            parts=(self, other),
            extremes=extremes,
            whole=whole,
            slates=self.slates,
        )

    def span(self, floor: float | None = None) -> tuple[float, float]:
        """Return the range of the terms, given the smallest propensity `floor` of the
        logging policy.

        With L = min(reach, 1/floor) it is [0, L], or [-L, 1 + L] with a reward model.
        Raise if no L is known.
        """
        if self.parts is not None:
            first, second = self.parts
            low, high = first.span(floor)
            other_low, other_high = second.span(floor)
            return low - other_high, high - other_low
        limit = self.limit(floor)
        if limit == np.inf:
            raise InvalidInput(
                f"this interval of {self.name} needs the range of its terms: give "
                "floor, the smallest propensity the logging policy can give (gamma / "
                "K), or "
                "clip at a chosen threshold; got neither"
            )
        if self.modelled:
            return (-limit, 1.0 + limit)
        return (0.0, limit)

    def limit(self, floor: float | None = None) -> float:
        """Return the largest number that can multiply a reward, given the smallest
        propensity `floor`. For a difference, return the larger number of the two
        targets."""
        if self.parts is not None:
            return max(part.limit(floor) for part in self.parts)
        if floor is None:
            return self.reach
        number("floor", floor, low=0, high=1, open_low=True)
        if self.least is not None and floor > self.least * (1 + 1e-9):
            got = f"{floor:g} and odds of {self.least:g}"
            raise InvalidInput(
                "floor must be at most all logged odds of arms that the target "
                f"draws; got {got}"
            )
        return min(self.reach, 1.0 / floor)

    def betting(self, floor: float | None = None) -> Bets:
        """Return the columns for betting. If `bets` has columns that need no bound,
        return these, with the bound from `floor` if given. Otherwise return the
        distances of the terms from both ends of their range."""
        if self.bets is not None:
            # A limit on the columns is valid only if no probability of the target is
            # missing.
            if floor is None or float(self.missing.mean()) > _NOTHING:
                return self.bets
            return self.bets._replace(limit=self.limit(floor))
        low, high = self.span(floor)
        gain = self.values - low
        return Bets(gain, high - self.values, -low, high)


def heaviest(terms: Array, odds: Array) -> float:
    """Return the mean of the largest terms whose propensities sum to 1, which is an
    upper bound of the expected largest of the T drawn terms.

    >>> heaviest(
    ...     np.array([[9.0, 1.0], [4.0, 1.0]]), np.array([[0.5, 0.5], [0.25, 0.75]])
    ... )
    5.75
    """
    flat = terms.ravel()
    mass = odds.ravel()
    size = min(_FIRST, flat.size)
    while True:
        rest = flat.size - size
        top = np.argpartition(flat, rest)[rest:]
        if size == flat.size or mass[top].sum() >= 1:
            break
        size = min(16 * size, flat.size)
    order = np.argsort(-flat[top], kind="stable")
    top = top[order]
    total_mass = np.minimum(np.cumsum(mass[top]), 1.0)
    shares = np.diff(total_mass, prepend=0.0)
    weighted = shares @ flat[top]
    return float(weighted / shares.sum())


def _extremes(first: Terms, second: Terms) -> Extremes:
    """Return the extremes of a difference of two targets, which have the same arm and
    the same reward in each row."""
    own = None
    if first.extremes is not None:
        own = first.extremes()
    other = None
    if second.extremes is not None:
        other = second.extremes()
    known = own or other
    odds = np.ones(len(first)) if known is None else known.odds
    rewards = Extremes(np.ones_like(odds), np.zeros_like(odds), odds)
    own = own or rewards
    other = other or rewards
    rewarded = own.rewarded - other.rewarded
    return Extremes(rewarded, own.unrewarded - other.unrewarded, odds)


def _difference(own: Bets | None, other: Bets | None) -> Bets | None:
    """Return bets on v_a - v_b. The gain of one target plus the loss of the other is
    nonnegative."""
    if own is None or other is None:
        return None
    gain = own.gain + other.loss
    loss = own.loss + other.gain
    gain_shift = own.gain_shift + other.loss_shift
    loss_shift = own.loss_shift + other.gain_shift
    return Bets(
        gain=gain,
        loss=loss,
        gain_shift=gain_shift,
        loss_shift=loss_shift,
    )
