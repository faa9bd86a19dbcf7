"""Protocols of the statistics that are computed together with the state."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

from oddsmith.core.decision import Decision, State
from oddsmith.core.policy import Policy
from oddsmith.server.fold.accounts import Count, Exposure
from oddsmith.server.fold.amounts import Amount
from oddsmith.server.store.protocol import Draw, Line

__all__ = ["Item", "Statistics", "StatisticsKind", "Step", "after_steps"]


Item: TypeAlias = Count | Exposure | Amount | Line
"""The event that a step in the computation of a state applies."""


class Step(NamedTuple):
    """A step in the computation of a state: a decision is made, is shown or counts, a
    metric gets an amount, or the policy changes.

    `decision` is the decision that counts. If statistics are computed, `drawn` contains
    the decision's propensities.
    """

    item: Item
    decision: Decision | None = None
    drawn: Draw | None = None


class Statistics(Protocol):
    """Statistics of the log up to a position. They are the same in a running service,
    on replicas, and after restarts and corrections."""

    def copy(self) -> Self:
        """Return a copy that can be changed without changing this one."""

    def take(self, step: Step) -> None:
        """Add the next step of a fold."""

    def note_update(
        self, count: Count, decision: Decision, policy: Policy, state: State
    ) -> None:
        """Add the policy and the state after a decision has counted."""

    def is_of(self, about: Mapping[str, Any]) -> bool:
        """Return whether these are the statistics of a store with these facts."""

    def to_json(self) -> dict[str, Any]:
        """Return the statistics as a snapshot contains them."""


class StatisticsKind(Protocol):
    """Protocol of a class that creates the statistics of a store (see
    `server.statistics.Sums`)."""

    def of(self, about: Mapping[str, Any]) -> Statistics:
        """Return empty statistics for a store with these facts."""

    def from_json(self, kept: Mapping[str, Any] | None) -> Statistics | None:
        """Return the statistics that `to_json` wrote; None if there are none, or if
        they have another form."""


_S = TypeVar("_S", bound=Statistics)


def after_steps(statistics: _S, steps: Iterable[Step]) -> _S:
    """Return the statistics after these steps, without weights of the policy."""
    now = statistics.copy()
    for step in steps:
        now.take(step)
    return now
