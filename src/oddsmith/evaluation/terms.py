"""Terms: what an estimator makes of each row; their mean is the estimate, and intervals need nothing else."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array, number
from oddsmith.errors import InvalidInput

__all__ = ["Bets", "Terms"]


class Bets(NamedTuple):
    """Two nonnegative columns that a confidence sequence bets on, without any bound from above.

    E gain = value + gain_shift and E loss = loss_shift - value. Of `ips` they are w r and w (1 - r), shifts 0 and 1,
    as the mean weight is 1 (Karampatziakis, Mineiro and Ramdas 2021).
    """

    gain: Array
    loss: Array
    gain_shift: float
    loss_shift: float


@dataclass(frozen=True, eq=False)
class Terms:
    """T numbers, one per rewarded row, whose mean is the estimate of a target's value.

    `weights` are the importance weights π/p as they are, before clipping (None: not used); `expected_squares` E[w² | x]
    by the logged odds, where all are logged; `missing` the target's mass where the log had none. `reach` is the largest
    number that can multiply a reward, known beforehand (∞: unknown). A `ratio` (snips) has terms around the ratio with
    the delta method's spread; `modelled` says that a reward model is part of the terms, `tuned` that a setting was
    chosen from the same rows. `unbiased` is exact or, for snips, nearly so. `parts` are the two sides of a difference.
    """

    name: str
    values: Array
    missing: Array
    weights: Array | None = None
    expected_squares: Array | None = None
    bets: Bets | None = None
    reach: float = np.inf
    setting: float | None = None
    ratio: bool = False
    modelled: bool = False
    tuned: bool = False
    unbiased: bool = True
    parts: "tuple[Terms, Terms] | None" = None

    def __len__(self) -> int:
        return len(self.values)

    def minus(self, other: "Terms") -> "Terms":
        """The terms of the difference of two targets on the same log: paired, row by row."""
        if len(self) != len(other):
            raise InvalidInput(f"terms must be of the same rows; got {len(self)} and {len(other)}")
        return Terms(
            name=f"{self.name} - {other.name}",
            values=self.values - other.values,
            missing=np.maximum(self.missing, other.missing),
            bets=_difference(self, other),
            tuned=self.tuned or other.tuned,
            ratio=self.ratio or other.ratio,
            unbiased=self.unbiased and other.unbiased,
            parts=(self, other),
        )

    def span(self, floor: float | None = None) -> tuple[float, float]:
        """The range of the terms, given the smallest propensity `floor` that the logger could give to any arm.

        With L = min(reach, 1/floor): [0, L], or [-L, 1 + L] with a reward model. Refused if no L is known.
        """
        if self.parts is not None:
            (low, high), (other_low, other_high) = (part.span(floor) for part in self.parts)
            return low - other_high, high - other_low
        limit = self.reach
        if floor is not None:
            number("floor", floor, low=0, high=1, open_low=True)
            if self.weights is not None and self.weights.max() > (1 + 1e-9) / floor:
                most = float(self.weights.max())
                raise InvalidInput(
                    f"floor must be below all propensities of the log; got {floor:g} and a weight of {most:g}"
                )
            limit = min(limit, 1.0 / floor)
        if limit == np.inf:
            raise InvalidInput(
                f"this interval of {self.name} needs the range of its terms: give floor, the smallest propensity the "
                "logger can give (gamma / K), or clip at a chosen threshold; got neither"
            )
        return (-limit, 1.0 + limit) if self.modelled else (0.0, limit)

    def betting(self, floor: float | None = None) -> Bets:
        """What to bet on: the columns that need no bound, else the distances from both ends of the range."""
        if self.bets is not None:
            return self.bets
        low, high = self.span(floor)
        return Bets(self.values - low, high - self.values, -low, high)


def _difference(a: Terms, b: Terms) -> Bets | None:
    """Bets on v_a - v_b: the gain of one and the loss of the other are nonnegative together."""
    if a.bets is None or b.bets is None:
        return None
    gain, loss = a.bets.gain + b.bets.loss, a.bets.loss + b.bets.gain
    return Bets(gain, loss, a.bets.gain_shift + b.bets.loss_shift, a.bets.loss_shift + b.bets.gain_shift)
