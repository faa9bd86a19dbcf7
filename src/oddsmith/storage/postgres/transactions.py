"""The oldest open transaction of a PostgreSQL server, and what it keeps from readers.

Readers see rows below `pg_snapshot_xmin`: the lowest number of a transaction that has written and is still open, in any
database of the server, or is prepared. Transactions that only read, and replication slots, hold up the server's
cleaning, but not readers: they have no number of their own.
"""

import time
from collections.abc import Callable
from typing import Any, TypeAlias

from oddsmith.storage.hold_up import HoldUp
from oddsmith.storage.postgres.link import PLACES

__all__ = ["OldestTransaction"]

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
_UNREAD = f"""
select e.name, count(*), min(found.time) from experiments e cross join lateral (
    select time from events where experiment = e.number
    and position >= (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + e.shift) << {PLACES} limit 10000
) found group by e.name
"""
_Read: TypeAlias = Callable[..., list[tuple[Any, ...]]]


class OldestTransaction:
    """Looks for the oldest open transaction; how old it is where the server does not say, by when it was first seen."""

    def __init__(self) -> None:
        self._number, self._since = "", 0.0

    def look(self, read: _Read) -> HoldUp:
        """What holds up readers now; `read` gives the rows of a statement."""
        rows, now = read(_OLDEST, patience=2.0), time.monotonic()
        if not rows:
            return HoldUp()
        number, kind, name, owner, place, age_s = rows[0]
        if number != self._number:
            self._number, self._since = number, now
        seen_s = now - self._since
        holder = " ".join(f"the {kind} of user {owner} in database {place} ({name})".split())
        unread = {experiment: (count, first) for experiment, count, first in read(_UNREAD, patience=2.0)}
        return HoldUp(holder, max(0.0, seen_s if age_s is None else age_s), unread)
