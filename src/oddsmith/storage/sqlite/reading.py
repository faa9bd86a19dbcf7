"""SQLiteReader: what a store in one file holds, for anyone who may read it, also while a service writes."""

import json
import sqlite3
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from oddsmith.decision import Decision
from oddsmith.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.storage.base import EventKind, Evidence, Line, Snapshot, Window
from oddsmith.storage.meta import Introduced
from oddsmith.storage.rows import read_decision, read_evidence
from oddsmith.storage.sqlite.files import connect, meta

__all__ = ["SQLiteReader"]

_CHUNK = 2000  # lines a reader takes at a time: short reads let the write-ahead log be emptied
_MANY = 500  # ids or positions in one statement


class SQLiteReader(Introduced):
    """The reading half of a store; needs neither the policy nor the right to write."""

    gapless = True  # a position is the largest one plus 1, inside the transaction

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise BadFile(f"{self.path} must be a store; there is no such file")
        self._reading = connect(self.path, read_only=True)
        try:
            self.introduce(self.path, meta(self._reading, self.path))
        except BaseException:
            self._reading.close()
            raise
        self._reader = threading.Lock()

    def head(self) -> int:
        """The last committed position; 0 if there is none."""
        return int(self._read("select coalesce(max(position), 0) from events")[0][0])

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """The lines with after < position <= until, in order."""
        while after < until:
            query = "select * from events where position > ? and position <= ? order by position limit ?"
            found = self._read(query, (after, until, _CHUNK))
            yield from map(Line._make, found)
            if len(found) < _CHUNK:
                return
            after = found[-1][0]

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """All lines about these decisions up to `until`, in order."""
        query = (
            "select * from events where id in (select value from json_each(?)) and position <= ? "
            "and kind not in ('expert added', 'expert retired')"
        )
        parts = (ids[first : first + _MANY] for first in range(0, len(ids), _MANY))
        return sorted(Line._make(row) for part in parts for row in self._read(query, (json.dumps(part), until)))

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """The decisions made at these positions, in the order asked for."""
        query = (
            "select d.position, d.body, d.numbers, d.context, c.body from decisions d "
            "left join contexts c using (position) where d.position in (select value from json_each(?))"
        )
        return [read_decision(*row) for row in self._rows(query, positions)]

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        """What the odds of the decisions at these positions were made from, in the order asked for."""
        query = "select position, body, numbers from decisions where position in (select value from json_each(?))"
        return [read_evidence(*row) for row in self._rows(query, positions)]

    def tally(self) -> dict[EventKind, int]:
        """How many events there are of each kind."""
        return dict(self._read("select kind, count(*) from events group by kind"))

    def changes(self) -> list[Line]:
        """The experts that came and went, in order."""
        query = "select * from events where kind in ('expert added', 'expert retired') order by position"
        return [Line._make(row) for row in self._read(query)]

    def windows(self, after: int, limit: int) -> list[Window]:
        """The reward windows that opened after a position, in order, at most `limit`."""
        closing = "('default')" if self.rule == "sum" else "('default', 'reward')"
        query = (
            f"select position, id, time, exists (select 1 from events e where e.id = o.id and e.kind in {closing}) "
            "from events o where kind in ('decision', 'activation') and not deferred and position > ? "
            "order by position limit ?"
        )
        return [
            Window(position, id, time, bool(closed)) for position, id, time, closed in self._read(query, (after, limit))
        ]

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, oldest first."""
        query = "select position, fingerprint, format, time from snapshots order by position"
        return [Snapshot._make(row) for row in self._read(query)]

    def content(self, position: int) -> bytes:
        """What was kept as the snapshot at this position."""
        found = self._read("select content from snapshots where position = ?", (position,))
        if not found:
            raise InvalidInput(f"position must be that of a snapshot; got {position}")
        return bytes(found[0][0])

    def close(self) -> None:
        """Let go of the file, once nobody reads: SQLite does not survive a connection that is closed under a reader."""
        with self._reader:
            self._reading.close()

    def _rows(self, query: str, positions: Sequence[int]) -> list[Any]:
        """What a query finds of decisions by position, in the order asked for."""
        found: dict[int, Any] = {}
        for first in range(0, len(positions), _MANY):
            for row in self._read(query, (json.dumps(list(positions[first : first + _MANY])),)):
                found[row[0]] = row[1:]
        if missing := [position for position in positions if position not in found]:
            raise InvalidInput(f"positions must be those of decisions; got {missing[0]}")
        return [found[position] for position in positions]

    def _read(self, query: str, values: tuple[Any, ...] = ()) -> list[Any]:
        try:
            with self._reader:
                return self._reading.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(f"{self.path} could not be read: {error}") from error
