"""SQLiteReader: read a store in one file, possibly while a service writes it."""

import json
import sqlite3
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

from oddsmith.core.errors import StoreFailed
from oddsmith.server.store.protocol import DECISION_KINDS
from oddsmith.server.store.reader import Queries, StoreReader
from oddsmith.server.store.sqlite.copy import copy_file
from oddsmith.server.store.sqlite.file import check_file, connect, holder_of, meta

__all__ = ["SQLiteReader"]

_LINE = (
    "position, kind, id, key, value, time, deferred, seen, sender, iif(kind = "
    "'decision', null, body), iif(kind = 'decision' and json_valid(body), "
    "cast(json_extract(body, '$.arm') as text), null)"
)


class SQLiteReader(StoreReader):
    """The reading half of a store; needs neither the policy nor write permission."""

    queries = Queries(
        head="select coalesce(max(position), 0) from events",
        lines=(
            f"select {_LINE} from events where position > ? and position <= ? order by "
            "position limit ?"
        ),
        lines_back=(
            f"select {_LINE} from events where position < ? order by position desc "
            "limit ?"
        ),
        history=(
            f"select {_LINE} from events where id in (select value from json_each(?)) "
            f"and position <= ? and kind in {DECISION_KINDS}"
        ),
        decisions=(
            "select e.position, e.body, e.numbers, c.position is not null, c.features, "
            "c.body from events e left join contexts c on c.time = e.time and "
            "c.position = e.position where e.position in (select value from "
            "json_each(?)) and e.kind = 'decision' and e.body is not null"
        ),
        evidence=(
            "select position, body, numbers from events where position in (select "
            "value from json_each(?)) and kind = 'decision' and body is not null"
        ),
        summaries=(
            "select position, unit, json_extract(body, '$.shadow') is not null, "
            "substr(numbers, 8 * coalesce(json_extract(body, '$.index'), "
            "json_extract(body, '$.arm')) + 1, 8), slate, slot from events where "
            "position in (select value from json_each(?)) and kind = 'decision' and "
            "body is not null"
        ),
        names=(
            "select digest, body from names where digest in (select value from "
            "json_each(?))"
        ),
        features=(
            "select digest, body from features where digest in (select value from "
            "json_each(?))"
        ),
        # "+position" makes SQLite scan an index instead of the table, whose rows are
        # long
        tally="select kind, count(*) from events where +position <= ? group by kind",
        tally_on=(
            "select kind, count(*) from events where position > ? and position <= ? "
            "group by kind"
        ),
        changes=(
            f"select {_LINE} from events where kind in ('expert added', 'expert "
            "retired', 'configuration') and (kind <> 'configuration' or id = 'arms') "
            "order by position"
        ),
        of_setting=(
            f"select {_LINE} from events where id = ? and kind = 'configuration' order "
            "by position"
        ),
        actions=(
            f"select {_LINE} from events where id = 'action' and kind = 'action' order "
            "by position"
        ),
        of_unit=f"select {_LINE} from events where unit = ? order by turn",
        of_slate=f"select {_LINE} from events where slate = ? order by slot",
        has_slates="select exists (select 1 from events where slate is not null)",
        windows=(
            "select position, id, time, exists (select 1 from events e where e.id = "
            "o.id and e.kind in (select value from json_each(?))) from events o where "
            "position > ? and case kind when 'decision' then not deferred or exists "
            "(select 1 from events a where a.id = o.id and a.kind = 'activation' and "
            "a.position < o.position) when 'activation' then exists (select 1 from "
            "events d where d.id = o.id and d.kind = 'decision' and d.deferred and "
            "d.position < o.position) else false end order by position limit ?"
        ),
        snapshots=(
            "select position, fingerprint, format, time from snapshots order by "
            "position"
        ),
        content=(
            "select position, fingerprint, format, time, digest, content from "
            "snapshots where position = ?"
        ),
    )

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        check_file(self.path)
        self._reading = connect(self.path, read_only=True)
        try:
            self.introduce(self.path, meta(self._reading, self.path))
        except BaseException:
            self._reading.close()
            raise
        self._reader = threading.Lock()

    def close(self) -> None:
        """Wait for running reads, then close the file. SQLite crashes if a connection
        is closed during a read."""
        with self._reader:
            self._reading.close()

    def writers(self) -> list[str]:
        """Return the process that has the lock of the file, if there is one."""
        holder = holder_of(self.path)
        return [] if holder is None else [f"process {holder}"]

    def copy(self, part: Path) -> None:
        """Write a consistent copy of the file, without affecting a writer."""
        with closing(connect(self.path, read_only=True)) as source:
            copy_file(source, part, "copying")

    def _fetch(
        self, query: str, *values: object, patience: float = 0.0
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement. `patience` is ignored, because a file has no
        time limit."""
        plain = [
            json.dumps(value) if isinstance(value, list) else value for value in values
        ]
        try:
            with self._reader:
                return self._reading.execute(query, plain).fetchall()
        except sqlite3.Error as error:
            raise StoreFailed(f"{self.path} could not be read: {error}") from error
