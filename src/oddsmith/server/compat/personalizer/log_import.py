"""Events of another service as a log of ours, and a report of what was read and what
was not."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import IO, Any

import numpy as np

from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import count_of
from oddsmith.logs.formats import write_log
from oddsmith.logs.progress import progress
from oddsmith.logs.table import Log
from oddsmith.server.compat.personalizer.log import (
    UNREAD,
    PersonalizerEvent,
    RewardsOutside,
    Unread,
    UnreadKind,
)

__all__ = ["ImportReport", "by_line", "log_of_events", "to_parquet"]

_ROWS = 1000  # decisions held at once: each may have 50 arms with 40 features
_NAMED = 1000  # lines that are kept for the report; a file takes all of them
_COUNTED: tuple[UnreadKind, ...] = ("empty", "skipped")
"""What is counted, and not named in the text."""
_COUNTS = ("lines", "read", "decisions", "rewarded", "known", "unlearnt", "dropped")


@dataclass
class ImportReport:
    """What became of the lines of a log. Of `read` events some have several slots,
    which are `decisions` of their own, and so many decisions are `rewarded`; `known`
    events were in the store before, rewards that are `unlearnt` are in it and the
    policy would not take them; `dropped` events are read, where others like them were
    dropped, with shares from `least` to `most`; `unread` counts lines that are no
    events by kind, and `named` has the first of them. `sink` takes a line of JSON for
    each.
    """

    lines: int = 0
    read: int = 0
    decisions: int = 0
    rewarded: int = 0
    known: int = 0
    unlearnt: int = 0
    dropped: int = 0
    least: float = 1.0
    most: float = 0.0
    unread: Counter[UnreadKind] = field(default_factory=Counter)
    named: list[Unread] = field(default_factory=list)
    sink: IO[str] | None = None

    def events(
        self, found: Iterable[PersonalizerEvent | Unread]
    ) -> Iterator[PersonalizerEvent]:
        """The events among what was found, the slots of each one after the other; all
        of it is counted."""
        for one in progress(found, None, "lines"):
            if isinstance(one, Unread):
                self.lines += 1
                self.miss(one)
                continue
            self.decisions += 1
            self.rewarded += one.reward is not None
            if (one.slot or 1) == 1:
                self.lines += 1
                self.read += 1
                self.dropped += one.pdrop > 0
            self.least, self.most = (
                min(self.least, one.pdrop),
                max(self.most, one.pdrop),
            )
            yield one

    def miss(self, one: Unread) -> None:
        """Count and name a line that is no event."""
        self.unread[one.kind] += 1
        if one.kind not in _COUNTED and len(self.named) < _NAMED:
            self.named.append(one)
        if self.sink is not None:
            self.sink.write(json.dumps(one._asdict()) + "\n")

    def refuse(
        self, line: Sequence[PersonalizerEvent], why: str, kind: UnreadKind = "broken"
    ) -> None:
        """Name an event that was read, with all its slots, and could not be kept."""
        self.read -= 1
        self.decisions -= len(line)
        self.rewarded -= sum(one.reward is not None for one in line)
        self.dropped -= line[0].pdrop > 0
        self.miss(Unread(line[0].file, line[0].line, kind, why))

    def sentences(self, most: int = 20) -> list[str]:
        """What was not read, for people: counts, what dropping means, and the first
        lines by number."""
        told = [
            f"{count_of(n, 'line')} {UNREAD[kind]}"
            for kind in UNREAD
            if (n := self.unread[kind])
        ]
        if self.dropped:
            shares = (
                f"{self.most:g}"
                if self.least == self.most
                else f"{self.least:g} to {self.most:g}"
            )
            told.append(
                f"{count_of(self.dropped, 'event')} of a sample (pdrop {shares}): odds "
                "are exact, for what was dropped did not depend on rewards; nothing "
                "is weighed, and values are means over the events that were kept"
            )
        told += [str(one) for one in self.named[:most]]
        if (
            more := sum(self.unread[kind] for kind in UNREAD if kind not in _COUNTED)
            - most
        ) > 0:
            told.append(f"and {more:,} more: --report FILE names them all")
        return told

    def record(self) -> dict[str, object]:
        """The same for programs."""
        counts = {name: getattr(self, name) for name in _COUNTS}
        pdrop = [self.least, self.most] if self.read else None
        unread = {kind: self.unread[kind] for kind in UNREAD}
        return {
            **counts,
            "pdrop": pdrop,
            "unread": unread,
            "named": [one._asdict() for one in self.named],
        }


def to_parquet(
    found: Iterable[PersonalizerEvent | Unread], path: Path, report: ImportReport
) -> None:
    """Write events as a Parquet log, in bounded memory: all of them or, where it is
    stopped, nothing.

    Without any event nothing is written: `report.read` is then 0.
    """
    try:
        write_log(_logs(report.events(found), report), path, format="parquet")
    except RewardsOutside:
        raise
    except InvalidInput:
        if report.read:
            raise


def _logs(events: Iterator[PersonalizerEvent], report: ImportReport) -> Iterator[Log]:
    """Logs of some events each; an event that breaks a rule of logs is named, and left
    out with all its slots."""
    lines = by_line(events)
    while some := _taken(lines):
        try:
            yield log_of_events([one for line in some for one in line])
        except InvalidInput:
            if kept := [
                one for line in some if _keeps_rules(line, report) for one in line
            ]:
                yield log_of_events(kept)


def by_line(events: Iterable[PersonalizerEvent]) -> Iterator[list[PersonalizerEvent]]:
    """The decisions of each event: one, or one for each of its slots."""
    return (
        list(line) for _, line in groupby(events, key=lambda one: (one.file, one.line))
    )


def _taken(lines: Iterator[list[PersonalizerEvent]]) -> list[list[PersonalizerEvent]]:
    """The next events, of so many decisions in all that they fit into memory."""
    some, decisions = [], 0
    for line in lines:
        some.append(line)
        decisions += len(line)
        if decisions >= _ROWS:
            break
    return some


def _keeps_rules(line: list[PersonalizerEvent], report: ImportReport) -> bool:
    try:
        log_of_events(line)
    except InvalidInput as error:
        report.refuse(line, str(error))
        return False
    return True


def log_of_events(events: list[PersonalizerEvent]) -> Log:
    """The log of some events: always the same columns, whatever some of them lack."""
    columns: dict[str, Any] = {
        "arm": np.array([one.arm for one in events], dtype=np.int64),
        "reward": np.array(
            [np.nan if one.reward is None else one.reward for one in events],
            dtype=np.float64,
        ),
        "propensities": [one.odds for one in events],
        "eligible": [one.eligible for one in events],
        "context": [one.context for one in events],
        "time": [one.time for one in events],
        "decision_id": [one.id for one in events],
        "offered": [one.arms for one in events],
        "features": [one.features for one in events],
        "slate": [one.slate for one in events],
        "slot": [one.slot for one in events],
    }
    return Log(**columns)
