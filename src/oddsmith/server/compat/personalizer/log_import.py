"""Convert events of another service to a log, and report which lines were read."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
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

_ROWS = 1000  # decisions in memory at a time; each may have 50 arms with 40 features
# maximum number of lines that the report lists; a file contains the complete list
_NAMED = 1000
_COUNTED: tuple[UnreadKind, ...] = ("empty", "skipped")
"""Kinds of lines that are counted but not listed in the text."""
_COLUMNS = {
    "propensities": "odds",
    "eligible": "eligible",
    "context": "context",
    "time": "time",
    "decision_id": "id",
    "offered": "arms",
    "features": "features",
    "slate": "slate",
    "slot": "slot",
}
"""Columns of a log, with the field of events that each column is filled from."""
_COUNTS = ("lines", "read", "decisions", "rewarded", "known", "unlearnt", "dropped")


@dataclass
class ImportReport:
    """Counts of the lines of an imported log.

    `read` is the number of events, and `decisions` the number of their decisions, one
    per slot. `rewarded` decisions have a reward. `known` events were in the store
    before. `unlearnt` rewards are in the store, but the policy refused to learn from
    them. `dropped` is the number of events from a log that was sampled; the share of
    dropped events is between `least` and `most`. `unread` counts the lines that are not
    events, by kind, and `named` contains the first of them; each of them is also
    written to `sink` as a line of JSON.
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
        """Yield the events among the lines, and count all lines. The slots of an event
        follow each other."""
        for one in progress(found, None, "lines"):
            if isinstance(one, Unread):
                self.lines += 1
                self.note_unread(one)
                continue
            self.decisions += 1
            self.rewarded += one.reward is not None
            is_first_slot = one.slot is None or one.slot == 1
            if is_first_slot:
                self.lines += 1
                self.read += 1
                self.dropped += one.pdrop > 0
            self.least = min(self.least, one.pdrop)
            self.most = max(self.most, one.pdrop)
            yield one

    def note_unread(self, one: Unread) -> None:
        """Count and report a line that is not an event."""
        self.unread[one.kind] += 1
        if one.kind not in _COUNTED and len(self.named) < _NAMED:
            self.named.append(one)
        if self.sink is not None:
            self.sink.write(json.dumps(one._asdict()) + "\n")

    def refuse(
        self, slots: Sequence[PersonalizerEvent], why: str, kind: UnreadKind = "broken"
    ) -> None:
        """Report that an event was read but not imported, with all its slots."""
        first = slots[0]
        self.read -= 1
        self.decisions -= len(slots)
        self.rewarded -= sum(one.reward is not None for one in slots)
        self.dropped -= first.pdrop > 0
        self.note_unread(Unread(first.file, first.line, kind, why))

    def sentences(self, most: int = 20) -> list[str]:
        """Describe the lines that were not read: counts, the effect of dropped events,
        and the first lines by number."""
        sentences: list[str] = []
        for kind, words in UNREAD.items():
            if self.unread[kind]:
                sentences.append(f"{count_of(self.unread[kind], 'line')} {words}")
        if self.dropped:
            shares = f"{self.least:g} to {self.most:g}"
            if self.least == self.most:
                shares = f"{self.most:g}"
            sentences.append(
                f"{count_of(self.dropped, 'event')} of a sample (pdrop {shares}): "
                "their propensities are exact, because dropping did not depend on "
                "rewards; rows are not weighted for it, so values are means over the "
                "events that remained"
            )
        sentences += [str(one) for one in self.named[:most]]
        n_named = sum(self.unread[kind] for kind in UNREAD if kind not in _COUNTED)
        if n_named > most:
            sentences.append(
                f"and {n_named - most:,} more: --report FILE lists them all"
            )
        return sentences

    def record(self) -> dict[str, object]:
        """Return the report as JSON."""
        record: dict[str, object] = {name: getattr(self, name) for name in _COUNTS}
        record["pdrop"] = [self.least, self.most] if self.read else None
        record["unread"] = {kind: self.unread[kind] for kind in UNREAD}
        record["named"] = [one._asdict() for one in self.named]
        return record


def to_parquet(
    found: Iterable[PersonalizerEvent | Unread], path: Path, report: ImportReport
) -> None:
    """Write events as a Parquet log, in bounded memory. No file is written if it is
    interrupted or there are no events (`report.read` is 0)."""
    try:
        write_log(_logs(report.events(found), report), path, format="parquet")
    except RewardsOutside:
        raise
    except InvalidInput:
        if report.read:
            raise


def _logs(events: Iterator[PersonalizerEvent], report: ImportReport) -> Iterator[Log]:
    """Yield logs of some events each. An event that breaks a rule of logs is reported,
    and left out with all its slots."""
    lines = by_line(events)
    while True:
        batch = _next_batch(lines)
        if not batch:
            return
        try:
            yield log_of_events([one for line in batch for one in line])
        except InvalidInput:
            valid: list[PersonalizerEvent] = []
            for line in batch:
                if _keeps_rules(line, report):
                    valid += line
            if valid:
                yield log_of_events(valid)


def by_line(events: Iterable[PersonalizerEvent]) -> Iterator[list[PersonalizerEvent]]:
    """Yield the decisions of each event: one, or one per slot."""
    for _, line in groupby(events, key=attrgetter("file", "line")):
        yield list(line)


def _next_batch(
    lines: Iterator[list[PersonalizerEvent]],
) -> list[list[PersonalizerEvent]]:
    """Return the next events, as many as fit into memory."""
    batch: list[list[PersonalizerEvent]] = []
    decisions = 0
    for line in lines:
        batch.append(line)
        decisions += len(line)
        if decisions >= _ROWS:
            break
    return batch


def _keeps_rules(line: list[PersonalizerEvent], report: ImportReport) -> bool:
    try:
        log_of_events(line)
    except InvalidInput as error:
        report.refuse(line, str(error))
        return False
    return True


def log_of_events(events: list[PersonalizerEvent]) -> Log:
    """Return some events as a log. The columns do not depend on the events."""
    rewards = [np.nan if one.reward is None else one.reward for one in events]
    columns: dict[str, Any] = {
        "arm": np.array([one.arm for one in events], dtype=np.int64),
        "reward": np.array(rewards, dtype=np.float64),
    }
    for column, name in _COLUMNS.items():
        columns[column] = [getattr(one, name) for one in events]
    return Log(**columns)
