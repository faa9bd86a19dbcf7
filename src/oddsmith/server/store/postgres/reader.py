"""PostgresReader: read the store of an experiment without missing events of open
transactions.

Transactions get their numbers when they begin to write, but commit in any order. A
reader that asks for all rows after the last row that it saw would miss rows of a
transaction that began earlier and committed later. So a reader sees only rows of
transactions that are older than all open transactions (`pg_snapshot_xmin`). No new rows
can appear among them.
"""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.core.names import hint
from oddsmith.server.store.formats import SCHEMAS
from oddsmith.server.store.meta import FORMAT, UNRELEASED, check_format
from oddsmith.server.store.postgres.copy import copy_experiment
from oddsmith.server.store.postgres.link import (
    KERNEL_LOCKS,
    PLACES,
    SHIFT,
    Link,
    one_line,
    server_errors,
)
from oddsmith.server.store.protocol import DECISION_KINDS
from oddsmith.server.store.reader import Queries, StoreReader
from oddsmith.server.store.trouble import HoldUp

__all__ = ["OldestTransaction", "PostgresReader"]

_OLDEST = """
select number, kind, name, owner, place, age_s from (
    select backend_xid::text as number, 'transaction' as kind, 'process ' || pid as name, usename::text as owner,
        datname::text as place, extract(epoch from clock_timestamp() - xact_start)::float8 as age_s,
        age(backend_xid) as distance
    from pg_stat_activity where backend_xid is not null
    union all
    select transaction::text, 'prepared transaction', quote_literal(gid), owner::text, database::text,
        extract(epoch from clock_timestamp() - prepared)::float8, age(transaction)
    from pg_prepared_xacts
) open order by distance desc limit 1
"""
_NOW = "select extract(epoch from clock_timestamp())::float8"
_UNREAD = f"""
select e.name, count(*), min(found.time) from experiments e cross join lateral (
    select time from events where experiment = e.number
    and position >= (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + e.shift) << {PLACES} limit 10000
) found group by e.name
"""
_WRITERS = f"""
select 'process ' || pid || case when client_addr is null then '' else ' for ' || host(client_addr) end
from pg_locks join pg_stat_activity using (pid)
where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())
    and classid = $1 and objid in ({", ".join(map(str, KERNEL_LOCKS.values()))}) and objsubid = 2 and granted
order by backend_start
"""
_Read: TypeAlias = Callable[..., list[tuple[Any, ...]]]


class OldestTransaction:
    """Finds the oldest open transaction. If the server does not report the
    transaction's age, the age is measured from the first time that `look` found it."""

    def __init__(self) -> None:
        self._number = ""
        self._since = 0.0

    def look(self, read: _Read) -> HoldUp:
        """Return the transaction that readers wait for now. `read` executes a statement
        and returns its rows."""
        rows = read(_OLDEST, patience=2.0)
        now = time.monotonic()
        if not rows:
            return HoldUp()
        number, kind, name, owner, place, age_s = rows[0]
        if number != self._number:
            self._number = number
            self._since = now
        seen_s = now - self._since
        holder = " ".join(
            f"the {kind} of user {owner} in database {place} ({name})".split()
        )
        unread = {
            experiment: (count, first)
            for experiment, count, first in read(_UNREAD, patience=2.0)
        }
        return HoldUp(holder, max(0.0, seen_s if age_s is None else age_s), unread)


_FINISHED = (
    f"position < (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + {SHIFT}) << "
    f"{PLACES}"
)
_LINE = (
    "position, kind, found.id, key, value, time, deferred, seen, sender, case kind "
    "when 'decision' then null else body end, case kind when 'decision' then "
    "body::json ->> 'arm' end"
)


class PostgresReader(StoreReader):
    """The reading half of a store; needs neither the policy nor write permission."""

    queries = Queries(  # $1 is the number of the experiment in all statements
        head=(
            "select coalesce(max(position), 0) from events where experiment = $1 and "
            f"{_FINISHED}"
        ),
        lines=(
            f"select {_LINE} from events found where experiment = $1 and position > $2 "
            f"and position <= $3 and {_FINISHED} order by position limit $4"
        ),
        lines_back=(
            f"select {_LINE} from events found where experiment = $1 and position < $2 "
            f"and {_FINISHED} order by position desc limit $3"
        ),
        history=(
            f"select {_LINE} from unnest($2::text[]) as asked (id) cross join lateral "
            "(select * from events e "
            # "offset 0" forces the search by id first, then the filter by position
            "where experiment = $1 and e.id = asked.id offset 0) found where position "
            f"<= $3 and kind in {DECISION_KINDS}"
        ),
        decisions=(
            "select e.position, e.body, e.numbers, c.position is not null, c.features, "
            "c.body from events e left join contexts c on c.experiment = $1 and c.time "
            "= e.time and c.position = e.position where e.experiment = $1 and "
            "e.position = any($2) and e.kind = 'decision' and e.body is not null"
        ),
        evidence="select position, body, numbers from events where experiment = $1 "
        "and position = any($2) and kind = 'decision' and body is not null",
        summaries=(
            "select position, unit, body::json ->> 'shadow' is not null, "
            "substring(numbers from 8 * coalesce(body::json ->> 'index', body::json "
            "->> 'arm')::integer + 1 for 8), slate, slot from events where experiment "
            "= $1 and position = any($2) and kind = 'decision' and body is not null"
        ),
        names=(
            "select digest, body from names where experiment = $1 and digest = any($2)"
        ),
        features=(
            "select digest, body from features where experiment = $1 and digest = "
            "any($2)"
        ),
        tally=(
            "select kind, count(*) from events where experiment = $1 and position <= "
            "$2 group by kind"
        ),
        tally_on=(
            "select kind, count(*) from events where experiment = $1 and position > $2 "
            "and position <= $3 group by kind"
        ),
        changes=(
            f"select {_LINE} from events found where experiment = $1 and kind in "
            "('expert added', 'expert retired', 'configuration') and (kind <> "
            f"'configuration' or id = 'arms') and {_FINISHED} order by position"
        ),
        of_setting=(
            f"select {_LINE} from events found where experiment = $1 and id = $2 and "
            f"kind = 'configuration' and {_FINISHED} order by position"
        ),
        # without `_FINISHED`, because an action applies even if older transactions are
        # still open
        actions=(
            f"select {_LINE} from events found where experiment = $1 and id = 'action' "
            "and kind = 'action' order by position"
        ),
        of_unit=(
            f"select {_LINE} from events found where experiment = $1 and unit = $2 "
            "order by turn"
        ),
        of_slate=(
            f"select {_LINE} from events found where experiment = $1 and slate = $2 "
            "order by slot"
        ),
        has_slates=(
            "select exists (select from events where experiment = $1 and slate is not "
            f"null and {_FINISHED})"
        ),
        windows=(
            "select position, id, time, exists (select from events e where "
            "e.experiment = $1 and e.id = o.id and e.kind = any($2)) from events o "
            "where experiment = $1 and position > $3 and case kind when 'decision' "
            "then not deferred or exists (select from events a where a.experiment = "
            "$1 and a.id = o.id and a.kind = 'activation' and a.position < "
            "o.position) when 'activation' then exists (select from events d where "
            "d.experiment = $1 and d.id = o.id and d.kind = 'decision' and d.deferred "
            f"and d.position < o.position) else false end and {_FINISHED} order by "
            "position limit $4"
        ),
        snapshots=(
            "select position, fingerprint, format, time from snapshots where "
            "experiment = $1 order by position"
        ),
        content=(
            "select position, fingerprint, format, time, digest, content from "
            "snapshots where experiment = $1 and position = $2"
        ),
    )

    def __init__(self, url: str, *, experiment: str) -> None:
        self._open(Link(url, experiment))

    def _open(self, link: Link) -> None:
        self._link = link
        self._oldest = OldestTransaction()
        try:
            if not link.fetch("select to_regclass('oddsmith.snapshots') is not null")[
                0
            ][0]:
                raise BadFile(f"{link.where} must be a store; the database has none")
            has_format = link.fetch(
                "select to_regclass('oddsmith.format') is not null"
            )[0][0]
            found = (
                link.fetch("select value from format")[0][0]
                if has_format
                else UNRELEASED
            )
            check_format(link.where, found)
            link.format_is_checked = True
            query = (
                "select number, m.name, value from experiments e join meta m on "
                "experiment = number"
            )
            rows = link.fetch(f"{query} where e.name = $1", link.experiment)
            if not rows:
                there = link.fetch(
                    "select name from experiments where name not like '.%' order by "
                    "name"
                )
                names = [name for (name,) in there]
                listed = ", ".join(names) or "none"
                meant = hint(link.experiment, names)
                raise InvalidInput(
                    f"experiment must be one of the database, {listed}; got "
                    f"{link.experiment!r}{meant}"
                )
            self.introduce(link.where, {name: value for _, name, value in rows})
        except BaseException:
            link.close()
            raise
        self._number: int = rows[0][0]

    def hold_up(self) -> HoldUp:
        """Return the oldest open transaction on the server, and the events that it
        hides from readers."""
        return self._oldest.look(self._link.fetch)

    def clock(self) -> float:
        """Return the seconds since 1970 by the server's clock."""
        ((now,),) = self._link.fetch(_NOW, patience=2.0)
        return float(now)

    def writers(self) -> list[str]:
        """Return descriptions of the server processes of all replicas, which are found
        by the locks that they hold."""
        return [words for (words,) in self._fetch(_WRITERS)]

    def close(self) -> None:
        """Close the connections to the server."""
        self._link.close()

    def copy(self, part: Path) -> None:
        """Write a copy of the experiment into a file."""
        self._link.run(self._copy_rows(part))

    async def _copy_rows(self, part: Path) -> None:
        try:
            connection = await self._link.connect()
            try:
                await copy_experiment(connection, self._number, part, SCHEMAS[FORMAT])
            finally:
                connection.terminate()
        except server_errors() as error:
            raise StoreFailed(
                f"{self._link.where} could not be read: {one_line(error)}"
            ) from error

    def _fetch(
        self, query: str, *values: object, patience: float = 10.0
    ) -> list[tuple[Any, ...]]:
        return self._link.fetch(query, self._number, *values, patience=patience)
