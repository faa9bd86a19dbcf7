"""ChoiceSums: what each expert's policy would earn and lose, by recorded votes over
recorded odds, in any order.

They are the four sums of `policies.parts.choices`, in whole units: a reward that turns
into another is taken out and put in again. What is earned and lost is rounded down,
squares are rounded up, so that intervals stay true.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["ChoiceSums", "MOST"]

MOST = 100
"""Experts that are compared: the first ones."""
_WAIT = 64  # rewards that are added at once
# 10^8 rewards of the largest weight fit
_UNITS = np.array([2.0**20, 2.0**20, 2.0**10, 2.0**10])[:, None]


@dataclass(slots=True)
class ChoiceSums:
    """Of n rewards, in units, the sums (4, 1 + N) of the first 100 experts; before them
    those of one that always slept.

    One that sleeps, or has not joined, would have done as was done: so one that joins
    begins with the first column. Rewards wait until there are some to be added at once:
    sums of units do not depend on when. Arrays are not written into.
    """

    n: int = 0
    sums: Ints = field(default_factory=lambda: np.zeros((4, 1), np.int64))
    waiting: list[tuple[Array, float, float, int]] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChoiceSums) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "ChoiceSums":
        """The same, to go on from."""
        return ChoiceSums(self.n, self.sums, self.waiting.copy())

    def count(self, count: Count, drawn: Draw) -> None:
        """A decision counts; without votes, or odds of its arm, it says nothing
        here."""
        votes, odds = drawn.votes, drawn.odds_drawn
        if votes is None or not odds > 0:
            return
        self.waiting.append((votes[:MOST], odds, count.value, 1))
        if count.before is None:
            self.n += 1
        else:
            self.waiting.append((votes[:MOST], odds, count.before, -1))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def choices(self, names: Sequence[str], predictor: int, present: Bools) -> Choices:
        """What they say of the policy's first experts; those that are not `present` are
        never called the best."""
        now = self.copy()
        now._settle()
        sums = _widened(now.sums, len(names))[:, 1 : 1 + len(names)] / _UNITS
        return choices_of(
            sums, now.n, names=names, predictor=predictor, present=present
        )

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        now = self.copy()
        now._settle()
        return {"n": now.n, "sums": pack_units(now.sums)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "ChoiceSums":
        """What `to_json` gave."""
        return cls(given["n"], unpack_units(given["sums"]).reshape(4, -1))

    def _settle(self) -> None:
        """Add the rewards that wait."""
        if not self.waiting:
            return
        votes, *columns = zip(*self.waiting, strict=True)
        self.sums = _widened(self.sums, max(map(len, votes)))
        cast = np.full((len(votes), self.sums.shape[1]), np.nan)
        for row, given in zip(cast, votes, strict=True):
            row[1 : 1 + len(given)] = given
        odds, rewards, times = (np.array(column)[:, None] for column in columns)
        with np.errstate(over="ignore"):
            # else it slept
            weights = np.where((cast >= 0) & (cast <= 1), cast / odds, 1.0)
        units = sums_of(weights, rewards) * _UNITS
        units[:, :2], units[:, 2:] = np.floor(units[:, :2]), np.ceil(units[:, 2:])
        self.sums = self.sums + (units.astype(np.int64) * times[:, :, None]).sum(axis=0)
        self.waiting = []


def _widened(sums: Ints, n_experts: int) -> Ints:
    """The sums of this many experts at least: those that were not asked yet have
    slept."""
    more = 1 + n_experts - sums.shape[1]
    return (
        sums if more <= 0 else np.hstack([sums, np.repeat(sums[:, :1], more, axis=1)])
    )
