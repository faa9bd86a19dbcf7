"""PostgresReader: what an experiment's store holds, read by the window of finished transactions.

Transactions get their numbers when they begin to write, and finish in any order. A reader of "all that is new since the
last row I saw" would miss for ever what was begun before that row and finished after it. So a reader sees only rows of
transactions older than every one that is still running (`pg_snapshot_xmin`): below that line nothing can come any more.
"""

from typing import Any

from oddsmith.errors import BadFile, InvalidInput
from oddsmith.spelling import hint
from oddsmith.storage.meta import check_format
from oddsmith.storage.postgres.link import PLACES, Link
from oddsmith.storage.reading import Queries, StoreReader

__all__ = ["PostgresReader"]

_FINISHED = f"position < pg_snapshot_xmin(pg_current_snapshot())::text::bigint << {PLACES}"
_LINE = "position, kind, found.id, key, value, time, deferred, seen"


class PostgresReader(StoreReader):
    """The reading half of a store; needs neither the policy nor the right to write."""

    gapless = False  # positions are those of transactions
    queries = Queries(
        head=f"select coalesce(max(position), 0) from events where experiment = $1 and {_FINISHED}",
        lines=f"select {_LINE} from events found where experiment = $1 and position > $2 and position <= $3 "
        f"and {_FINISHED} order by position limit $4",
        history=f"select {_LINE} from unnest($2::text[]) as asked (id) cross join lateral (select * from events e "
        "where experiment = $1 and e.id = asked.id offset 0) found "  # by id, then by position: not the other way
        "where position <= $3 and kind not in ('expert added', 'expert retired')",
        decisions="select position, body, numbers, context, (select c.body from contexts c where c.experiment = $1 "
        "and c.position = d.position) from decisions d where experiment = $1 and position = any($2)",
        evidence="select position, body, numbers from decisions where experiment = $1 and position = any($2)",
        tally="select kind, count(*) from events where experiment = $1 group by kind",
        changes=f"select {_LINE} from events found where experiment = $1 "
        f"and kind in ('expert added', 'expert retired') and {_FINISHED} order by position",
        windows="select position, id, time, coalesce((select true from events e where e.experiment = $1 "
        "and e.id = o.id and e.kind = any($2) limit 1), false) from events o where experiment = $1 and position > $3 "
        f"and kind in ('decision', 'activation') and not deferred and {_FINISHED} order by position limit $4",
        snapshots="select position, fingerprint, format, time from snapshots where experiment = $1 order by position",
        content="select content from snapshots where experiment = $1 and position = $2",
    )

    def __init__(self, url: str, *, experiment: str) -> None:
        self._open(Link(url, experiment))

    def _open(self, link: Link) -> None:
        self._link = link
        try:
            if not link.read("select to_regclass('oddsmith.snapshots') is not null")[0][0]:
                raise BadFile(f"{link.where} must be a store; the database has none")
            query = "select number, m.name, value from experiments e join meta m on experiment = number"
            rows = link.read(f"{query} where e.name = $1", link.experiment)
            if not rows:
                names = [name for (name,) in link.read("select name from experiments order by name")]
                listed, meant = ", ".join(names) or "none", hint(link.experiment, names)
                raise InvalidInput(f"experiment must be one of the database, {listed}; got {link.experiment!r}{meant}")
            self.introduce(link.where, check_format(link.where, {name: value for _, name, value in rows}))
        except BaseException:
            link.close()
            raise
        self._number: int = rows[0][0]

    def close(self) -> None:
        """Let go of the server."""
        self._link.close()

    def _read(self, query: str, *values: object, patience: float = 10.0) -> list[tuple[Any, ...]]:
        return self._link.read(query, self._number, *values, patience=patience)
