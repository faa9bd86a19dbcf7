"""A store in memory: events in a list, for tests of folds over many small logs."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.server.store import (
    Action,
    ConfigurationChange,
    DecisionMade,
    Event,
    ExpertChange,
    Line,
    Snapshot,
)
from oddsmith.server.store.protocol import Draw, Erased, Late, Rule, line_of

__all__ = ["Memory"]


class Memory:
    """What a fold reads; positions are 10, 20, 30, or 1, 2, 3: above 0 and growing.
    Every event is taken as it is."""

    def __init__(
        self, rule: Rule = "first", step: int = 10, late: Late = "arrives"
    ) -> None:
        self.rule, self.late, self.step, self.zero = rule, late, step, 0.0
        self.secret = bytes(range(16))
        self.events: list[tuple[int, Event]] = []
        self.kept: dict[int, tuple[Snapshot, bytes]] = {}
        self.asked: list[int] = []
        self.erased: set[int] = set()
        self.about: dict[str, Any] = {}
        self.metrics: Mapping[str, Mapping[str, Any]] = {}
        self.reward_weights: Mapping[str, float] = {}

    def append(self, *events: Event) -> int:
        """The position of the last."""
        for event in events:
            self.events.append((self.head() + self.step, event))
        return self.head()

    def head(self) -> int:
        return self.events[-1][0] if self.events else 0

    def lines(self, after: int, until: int) -> Iterator[Line]:
        return (
            line_of(event, place)
            for place, event in self.events
            if after < place <= until
        )

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        return [
            line for line in self.lines(0, until) if line.id in ids and line.of_decision
        ]

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        made = {
            place: event.decision
            for place, event in self.events
            if isinstance(event, DecisionMade)
        }
        self.asked.append(len(positions))
        return [
            made[place]._replace(context=Erased())
            if place in self.erased
            else made[place]
            for place in positions
        ]

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        made = {
            place: event
            for place, event in self.events
            if isinstance(event, DecisionMade)
        }
        events = [made[place] for place in positions]
        return [
            Draw.of(one.decision, one.own, shadow=one.shadow, votes=_votes_on_arm(one))
            for one in events
        ]

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        return list(zip(self.decisions(positions), self.draws(positions), strict=True))

    def changes(self) -> list[Line]:
        return [
            line_of(event, place)
            for place, event in self.events
            if isinstance(event, ExpertChange | ConfigurationChange)
        ]

    def actions(self) -> list[Line]:
        return [
            line_of(event, place)
            for place, event in self.events
            if isinstance(event, Action)
        ]

    def snapshots(self) -> list[Snapshot]:
        return [self.kept[place][0] for place in sorted(self.kept)]

    def content(self, position: int) -> bytes:
        if not self.kept[position][1]:
            raise InvalidInput(f"position must be that of a snapshot; got {position}")
        return self.kept[position][1]

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        self.kept[snapshot.position] = (snapshot, content)


def _votes_on_arm(event: DecisionMade) -> Array | None:
    """What each expert gives the drawn arm; NaN where it gives no arm anything."""
    if event.votes is None:
        return None
    return np.array(
        [row[event.decision.number] if row.any() else np.nan for row in event.votes]
    )
