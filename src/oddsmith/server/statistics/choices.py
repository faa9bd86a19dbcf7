"""ChoiceSums: estimates of what each expert's policy would gain and lose, from recorded
votes and propensities. The order of rewards does not matter.

The four sums of `policies.parts.choices` are stored as integers, so if a reward
changes, its terms can be subtracted and added again. Gains and losses are rounded down
and squares are rounded up, so that intervals remain valid.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.server.fold.accounts import Count
from oddsmith.server.statistics.snapshot import pack_units, unpack_units
from oddsmith.server.store.protocol import Draw

__all__ = ["ChoiceSums", "MOST"]

MOST = 100
"""Maximum number of experts that are compared."""
_WAIT = 64  # rewards per batch
# units such that sums of 10^8 rewards with the largest weight do not overflow
_UNITS = np.array([2.0**20, 2.0**20, 2.0**10, 2.0**10])[:, None]


class _Row(NamedTuple):
    """A reward with the votes and propensities of its arm; `times` is -1 to subtract
    the row."""

    votes: Array
    odds: float
    reward: float
    times: int


@dataclass(slots=True)
class ChoiceSums:
    """Sums (4, 1 + N) over n rewards for the first 100 experts, as integers.

    Column 0 is for an expert that never predicts. Without a prediction, an expert is
    counted as choosing like the policy, so an expert that joins starts from this
    column. Rewards are added in batches; integer sums do not depend on the order.
    Arrays are never changed in place.
    """

    n: int = 0
    sums: Ints = field(default_factory=lambda: np.zeros((4, 1), np.int64))
    waiting: list[_Row] = field(default_factory=list)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ChoiceSums) and self.to_json() == other.to_json()

    __hash__ = None  # type: ignore[assignment]

    def copy(self) -> "ChoiceSums":
        """Return a copy that can be changed without changing this one."""
        return ChoiceSums(self.n, self.sums, self.waiting.copy())

    def count(self, count: Count, drawn: Draw) -> None:
        """Add the reward of a decision with recorded votes and propensities."""
        odds = drawn.odds_drawn
        if drawn.votes is None or not odds > 0:
            return
        votes = drawn.votes[:MOST]
        self.waiting.append(_Row(votes, odds, count.value, 1))
        if count.before is None:
            self.n += 1
        else:
            self.waiting.append(_Row(votes, odds, count.before, -1))
        if len(self.waiting) >= _WAIT:
            self._settle()

    def choices(self, names: Sequence[str], predictor: int, present: Bools) -> Choices:
        """Compare the first experts of a policy.

        Experts that are not `present` are never reported as the best.
        """
        now = self._current()
        sums = _widen(now.sums, len(names))[:, 1 : 1 + len(names)] / _UNITS
        return choices_of(
            sums, now.n, names=names, predictor=predictor, present=present
        )

    def to_json(self) -> dict[str, Any]:
        """Return the sums as a snapshot contains them."""
        now = self._current()
        return {"n": now.n, "sums": pack_units(now.sums)}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "ChoiceSums":
        """Return the sums that `to_json` wrote."""
        return cls(given["n"], unpack_units(given["sums"]).reshape(4, -1))

    def _current(self) -> "ChoiceSums":
        """Return a copy to which all waiting rewards are added."""
        now = self.copy()
        now._settle()
        return now

    def _settle(self) -> None:
        """Add the waiting rewards."""
        if not self.waiting:
            return
        n_experts = max(len(row.votes) for row in self.waiting)
        self.sums = _widen(self.sums, n_experts)
        votes = np.full((len(self.waiting), self.sums.shape[1]), np.nan)
        for i, row in enumerate(self.waiting):
            votes[i, 1 : 1 + len(row.votes)] = row.votes
        odds = np.array([row.odds for row in self.waiting])[:, None]
        rewards = np.array([row.reward for row in self.waiting])[:, None]
        times = np.array([row.times for row in self.waiting])[:, None]
        has_vote = (votes >= 0) & (votes <= 1)
        with np.errstate(over="ignore"):
            weights = np.where(has_vote, votes / odds, 1.0)
        units = sums_of(weights, rewards) * _UNITS
        units[:, :2] = np.floor(units[:, :2])
        units[:, 2:] = np.ceil(units[:, 2:])
        added = units.astype(np.int64) * times[:, :, None]
        self.sums = self.sums + added.sum(axis=0)
        self.waiting = []


def _widen(sums: Ints, n_experts: int) -> Ints:
    """Return the sums with at least this many experts; new ones start without
    predictions."""
    more = 1 + n_experts - sums.shape[1]
    if more <= 0:
        return sums
    new = np.repeat(sums[:, :1], more, axis=1)
    return np.hstack([sums, new])
