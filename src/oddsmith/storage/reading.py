"""StoreReader: reading a store in SQL, by the queries of its database."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, Self

from oddsmith.decision import Decision
from oddsmith.errors import BadFile, InvalidInput
from oddsmith.storage.base import EventKind, Evidence, Line, Rule, Snapshot, Window
from oddsmith.storage.rows import read_decision, read_evidence

__all__ = ["Queries", "StoreReader"]

_CHUNK = 2000  # lines in one statement: short reads let a write-ahead log be emptied
_MANY = 500  # ids or positions in one statement
_SHORT, _USUAL, _LONG = 2.0, 10.0, 60.0  # seconds that a statement may take, where a server answers


class Queries(NamedTuple):
    """The statements of one database, with the values that each takes after those that are the same for all."""

    head: str
    lines: str  # after, until, limit
    history: str  # ids, until
    decisions: str  # positions
    evidence: str  # positions
    tally: str
    changes: str
    windows: str  # kinds that close a window, after, limit
    snapshots: str
    content: str  # position


class StoreReader(ABC):
    """What is read in the same way from each database; a subclass has the queries and `_read`."""

    queries: ClassVar[Queries]

    def introduce(self, where: object, meta: Mapping[str, str]) -> None:
        """Keep what the store's table `meta` states."""
        try:
            self._about: dict[str, Any] = json.loads(meta["about"])
        except json.JSONDecodeError as error:
            raise BadFile(f"{where} must say in JSON what it is about; {error}") from error
        self._rule: Rule = "sum" if meta["rule"] == "sum" else "first"
        self._fingerprint = meta["fingerprint"]
        names = json.loads(meta["experts"])
        self._experts = None if names is None else tuple(names)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def rule(self) -> Rule:
        """How rewards of one decision make one."""
        return self._rule

    @property
    def about(self) -> dict[str, Any]:
        """The facts about the experiment that were given when the store was made."""
        return self._about

    @property
    def fingerprint(self) -> str:
        """That of the policy it was made with."""
        return self._fingerprint

    @property
    def experts(self) -> tuple[str, ...] | None:
        """The experts whose predictions the first decisions hold as advice; None where they hold none, or votes."""
        return self._experts

    def head(self) -> int:
        """The last position that readers may see; 0 if there is none."""
        return int(self._read(self.queries.head, patience=_SHORT)[0][0])

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """The lines with after < position <= until, in order."""
        while after < until:
            rows = self._read(self.queries.lines, after, until, _CHUNK)
            yield from map(Line._make, rows)
            if len(rows) < _CHUNK:
                return
            after = rows[-1][0]

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """All lines about these decisions up to `until`, in order; beyond the head: those committed so far."""
        parts = (list(ids[first : first + _MANY]) for first in range(0, len(ids), _MANY))
        return sorted(Line._make(row) for part in parts for row in self._read(self.queries.history, part, until))

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """The decisions made at these positions, in the order asked for."""
        return [read_decision(*row) for row in self._rows(self.queries.decisions, positions)]

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        """What the odds of the decisions at these positions were made from, in the order asked for."""
        return [read_evidence(*row) for row in self._rows(self.queries.evidence, positions)]

    def tally(self) -> dict[EventKind, int]:
        """How many events there are of each kind."""
        return dict(self._read(self.queries.tally, patience=_LONG))

    def changes(self) -> list[Line]:
        """The experts that came and went, in order."""
        return [Line._make(row) for row in self._read(self.queries.changes, patience=_LONG)]

    def windows(self, after: int, limit: int) -> list[Window]:
        """The reward windows that opened after a position, in order, at most `limit`."""
        closing = ["default"] if self.rule == "sum" else ["default", "reward"]
        rows = self._read(self.queries.windows, closing, after, limit)
        return [Window(position, id, time, bool(closed)) for position, id, time, closed in rows]

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, oldest first."""
        return [Snapshot._make(row) for row in self._read(self.queries.snapshots)]

    def content(self, position: int) -> bytes:
        """What was kept as the snapshot at this position."""
        rows = self._read(self.queries.content, position, patience=_LONG)
        if not rows:
            raise InvalidInput(f"position must be that of a snapshot; got {position}")
        return bytes(rows[0][0])

    @abstractmethod
    def close(self) -> None:
        """Let go of everything."""

    def _rows(self, query: str, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """The rows of decisions that a query gives, without their positions, in the order asked for."""
        rows: dict[int, tuple[Any, ...]] = {}
        for first in range(0, len(positions), _MANY):
            for row in self._read(query, list(positions[first : first + _MANY])):
                rows[row[0]] = tuple(row)[1:]
        if missing := [position for position in positions if position not in rows]:
            raise InvalidInput(f"positions must be those of decisions; got {missing[0]}")
        return [rows[position] for position in positions]

    @abstractmethod
    def _read(self, query: str, *values: object, patience: float = _USUAL) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""
