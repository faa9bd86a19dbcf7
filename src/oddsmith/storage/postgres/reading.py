"""PostgresReader: what an experiment's store holds, read by the window of finished transactions.

Transactions get their numbers when they begin to write, and finish in any order. Whoever reads "all that is new since
the last row I saw" misses for ever what was begun before it and finished after. So a reader sees only rows of
transactions older than every one that is still running (`pg_snapshot_xmin`): below that line nothing can come any more.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from oddsmith.decision import Decision
from oddsmith.errors import BadFile, InvalidInput
from oddsmith.spelling import hint
from oddsmith.storage.base import EventKind, Evidence, Line, Snapshot, Window
from oddsmith.storage.meta import Introduced, check_format
from oddsmith.storage.postgres.link import PATIENCE, PLACES, Link
from oddsmith.storage.rows import read_decision, read_evidence

__all__ = ["PostgresReader"]

_CHUNK = 2000  # lines that a reader takes at a time
_MANY = 500  # decisions that a reader takes at a time
_FINISHED = f"position < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << {PLACES}"
_LINE = "position, kind, found.id, key, value, time, deferred, seen"


class PostgresReader(Introduced):
    """The reading half of a store; needs neither the policy nor the right to write."""

    gapless = False  # positions are those of transactions

    def __init__(self, url: str, *, experiment: str) -> None:
        self._open(Link(url, experiment))

    def _open(self, link: Link) -> None:
        self._link = link
        try:
            if not link.read("select to_regclass('oddsmith.snapshots') is not null")[0][0]:
                raise BadFile(f"{link.where} must be a store; the database has none")
            query = (
                "select number, m.name, value from experiments e join meta m on experiment = number where e.name = $1"
            )
            found = link.read(query, link.experiment)
            if not found:
                names = [name for (name,) in link.read("select name from experiments order by name")]
                known, meant = ", ".join(names) or "none", hint(link.experiment, names)
                raise InvalidInput(f"experiment must be one of the database, {known}; got {link.experiment!r}{meant}")
            self.introduce(link.where, check_format(link.where, {name: value for _, name, value in found}))
        except BaseException:
            link.close()
            raise
        self._number: int = found[0][0]

    def head(self) -> int:
        """The last position below which all transactions are finished; 0 if there is none."""
        query = f"select coalesce(max(position), 0) from events where experiment = $1 and {_FINISHED}"
        return int(self._read(query, patience=PATIENCE)[0][0])

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """The lines with after < position <= until, in order."""
        query = (
            f"select {_LINE} from events found where experiment = $1 and position > $2 and position <= $3 "
            f"and {_FINISHED} order by position limit $4"
        )
        while after < until:
            found = self._read(query, after, until, _CHUNK)
            yield from map(Line._make, found)
            if len(found) < _CHUNK:
                return
            after = found[-1][0]

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """All lines about these decisions up to `until`, in order; beyond the head: those committed so far."""
        query = (
            f"select {_LINE} from unnest($2::text[]) as asked (id) cross join lateral (select * from events e "
            "where experiment = $1 and e.id = asked.id offset 0) found "  # by id, then by position: not the other way
            "where position <= $3 and kind not in ('expert added', 'expert retired')"
        )
        parts = (list(ids[first : first + _MANY]) for first in range(0, len(ids), _MANY))
        return sorted(Line._make(row) for part in parts for row in self._read(query, part, until))

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """The decisions made at these positions, in the order asked for."""
        query = (
            "select position, body, numbers, context, (select c.body from contexts c where c.experiment = $1 "
            "and c.position = d.position) from decisions d where experiment = $1 and position = any($2)"
        )
        return [read_decision(*row) for row in self._rows(query, positions)]

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        """What the odds of the decisions at these positions were made from, in the order asked for."""
        query = "select position, body, numbers from decisions where experiment = $1 and position = any($2)"
        return [read_evidence(*row) for row in self._rows(query, positions)]

    def tally(self) -> dict[EventKind, int]:
        """How many events there are of each kind."""
        return dict(self._read("select kind, count(*) from events where experiment = $1 group by kind", patience=60))

    def changes(self) -> list[Line]:
        """The experts that came and went, in order."""
        query = (
            f"select {_LINE} from events found where experiment = $1 and kind in ('expert added', 'expert retired') "
            f"and {_FINISHED} order by position"
        )
        return [Line._make(row) for row in self._read(query, patience=60)]

    def windows(self, after: int, limit: int) -> list[Window]:
        """The reward windows that opened after a position, in order, at most `limit`."""
        query = (
            "select position, id, time, coalesce((select true from events e where e.experiment = $1 and e.id = o.id "
            "and e.kind = any($2) limit 1), false) from events o where experiment = $1 and position > $3 "
            f"and kind in ('decision', 'activation') and not deferred and {_FINISHED} order by position limit $4"
        )
        closing = ["default"] if self.rule == "sum" else ["default", "reward"]
        return [Window._make(row) for row in self._read(query, closing, after, limit)]

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, oldest first."""
        query = "select position, fingerprint, format, time from snapshots where experiment = $1 order by position"
        return [Snapshot._make(row) for row in self._read(query)]

    def content(self, position: int) -> bytes:
        """What was kept as the snapshot at this position."""
        found = self._read(
            "select content from snapshots where experiment = $1 and position = $2", position, patience=60
        )
        if not found:
            raise InvalidInput(f"position must be that of a snapshot; got {position}")
        return bytes(found[0][0])

    def close(self) -> None:
        """Let go of the server."""
        self._link.close()

    def _rows(self, query: str, positions: Sequence[int]) -> list[Any]:
        """What a query finds of decisions by position, in the order asked for."""
        found: dict[int, Any] = {}
        for first in range(0, len(positions), _MANY):
            for row in self._read(query, list(positions[first : first + _MANY])):
                found[row[0]] = tuple(row)[1:]
        if missing := [position for position in positions if position not in found]:
            raise InvalidInput(f"positions must be those of decisions; got {missing[0]}")
        return [found[position] for position in positions]

    def _read(self, query: str, *values: Any, patience: float = 10.0) -> list[Any]:
        return self._link.read(query, self._number, *values, patience=patience)
