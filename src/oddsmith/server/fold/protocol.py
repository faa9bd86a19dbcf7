"""Statistics that are folded beside the state: the steps they are given, and what the
fold asks of them."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from oddsmith.core.decision import Decision, State
from oddsmith.core.policy import Policy
from oddsmith.server.fold.accounts import Count, Exposure
from oddsmith.server.store.protocol import Draw, Line

__all__ = ["Statistics", "StatisticsKind", "Step", "after_steps"]


class Step(NamedTuple):
    """A step of a fold: a decision that is made, shown or counts, or a change of the
    policy.

    `decision` is the one that counts; `drawn` is what the arm was drawn from, where a
    decision is made, shown or counts and statistics are kept.
    """

    item: Count | Exposure | Line
    decision: Decision | None = None
    drawn: Draw | None = None


class Statistics(Protocol):
    """Functions of the log up to a position, which are the same live, on replicas,
    after restarts and corrections."""

    def copy(self) -> Self:
        """The same statistics, to go on from."""

    def take(self, step: Step) -> None:
        """Take the next step of a fold."""

    def note_update(
        self, count: Count, decision: Decision, policy: Policy, state: State
    ) -> None:
        """A decision has counted: the policy, and the state after it."""

    def to_json(self) -> dict[str, Any]:
        """What a snapshot contains of them."""


class StatisticsKind(Protocol):
    """Makes the statistics of a store (see `monitor.sums.Sums`); the fold itself needs
    none."""

    def of(self, about: Mapping[str, Any]) -> Statistics:
        """Statistics before any event, of a store with these facts."""

    def from_json(self, kept: Mapping[str, Any] | None) -> Statistics | None:
        """The statistics that `to_json` gave; None where there are none, or of another
        form."""


_S = TypeVar("_S", bound=Statistics)


def after_steps(statistics: _S, steps: Iterable[Step]) -> _S:
    """The statistics after these steps, of a policy whose state is not known."""
    now = statistics.copy()
    for step in steps:
        now.take(step)
    return now
