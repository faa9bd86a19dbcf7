"""SQLiteReader: what a store in one file holds; it can be read while a service writes."""

import json
import sqlite3
import threading
from pathlib import Path
from typing import Any

from oddsmith.errors import BadFile, StoreFailed
from oddsmith.storage.reading import Queries, StoreReader
from oddsmith.storage.sqlite.files import connect, meta

__all__ = ["SQLiteReader"]


class SQLiteReader(StoreReader):
    """The reading half of a store; needs neither the policy nor the right to write."""

    gapless = True  # a position is the largest one plus 1, inside the transaction
    queries = Queries(
        head="select coalesce(max(position), 0) from events",
        lines="select * from events where position > ? and position <= ? order by position limit ?",
        history="select * from events where id in (select value from json_each(?)) and position <= ? "
        "and kind not in ('expert added', 'expert retired')",
        decisions="select d.position, d.body, d.numbers, d.context, c.body from decisions d "
        "left join contexts c using (position) where d.position in (select value from json_each(?))",
        evidence="select position, body, numbers from decisions where position in (select value from json_each(?))",
        tally="select kind, count(*) from events group by kind",
        changes="select * from events where kind in ('expert added', 'expert retired') order by position",
        windows="select position, id, time, exists (select 1 from events e where e.id = o.id "
        "and e.kind in (select value from json_each(?))) from events o "
        "where kind in ('decision', 'activation') and not deferred and position > ? order by position limit ?",
        snapshots="select position, fingerprint, format, time from snapshots order by position",
        content="select content from snapshots where position = ?",
    )

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

    def close(self) -> None:
        """Let go of the file after the last read: SQLite does not survive a connection that is closed during one."""
        with self._reader:
            self._reading.close()

    def _read(self, query: str, *values: object, patience: float = 0.0) -> list[tuple[Any, ...]]:
        """The rows that a statement gives; a file needs no patience."""
        plain = [json.dumps(value) if isinstance(value, list) else value for value in values]
        try:
            with self._reader:
                return self._reading.execute(query, plain).fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(f"{self.path} could not be read: {error}") from error
