"""How rows get into a PostgresStore, once: one statement for a whole group, so that it is one transaction.

Rows go in sorted by what makes them unique, so that two replicas that write the same events wait for each other in one
order and do not block each other for ever. Their positions are those of the order in which they were given.
"""

from collections.abc import Sequence

from oddsmith.storage.base import Receipt
from oddsmith.storage.postgres.link import PLACES, Connection
from oddsmith.storage.rows import EARLY, EventRow, repeated, unrewarded

__all__ = ["GROUP", "write"]

GROUP = 2000  # rows in one statement; far below the 2^20 places of a transaction

_WRITE = f"""
with given as (
    select pg_current_xact_id()::text::bigint << {PLACES} as base, *
    from unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::float8[], $7::bool[], $8::bigint[],
                $9::text[], $10::bytea[], $11::text[])
    with ordinality as g (kind, id, key, value, time, deferred, seen, body, numbers, context, place)
), written as (
    insert into events
    select $1::integer, base + place, kind, id, key, value, time, deferred, seen
    from given order by id collate "C", kind collate "C", key collate "C", place
    on conflict (experiment, id, kind, key) do nothing
    returning position
), bodies as (
    insert into decisions select $1, position, body, numbers, context is not null
    from given join written on position = base + place where body is not null
), kept as (
    insert into contexts select $1, position, time, context
    from given join written on position = base + place where context is not null
)
select position, not exists (
    select from events e where e.experiment = $1 and e.id = given.id and e.kind = 'decision'
) from given join written on position = base + place order by position
"""

_REPEATED = """
select id, kind, key, position, value, not exists (
    select from events e where e.experiment = $1 and e.id = g.id and e.kind = 'decision'
) from unnest($2::text[], $3::text[], $4::text[]) as g (id, kind, key)
cross join lateral (
    select position, value from events e where experiment = $1 and e.id = g.id and e.kind = g.kind and e.key = g.key
) found
"""

_REWARDED = "select distinct id from events where experiment = $1 and id = any($2) and kind in ('reward', 'default')"


async def write(connection: Connection, experiment: int, rows: Sequence[EventRow]) -> list[Receipt]:
    """Write the rows that are not there yet; returns the receipts of all."""
    receipts: dict[int, Receipt] = {i: unrewarded(rows[i].line) for i in await _idle(connection, experiment, rows)}
    given = [i for i in range(len(rows)) if i not in receipts]
    if given:
        table = [(*rows[i].line[1:], rows[i].body, rows[i].numbers, rows[i].context) for i in given]
        made = _decided_before(rows)
        for position, alone in await connection.fetch(_WRITE, experiment, *map(list, zip(*table, strict=True))):
            i = given[position % 2**PLACES - 1]
            receipts[i] = Receipt(position, True, parked=alone and rows[i].line.kind in EARLY and i not in made)
    old = [i for i in given if i not in receipts]
    if old:
        names = [(rows[i].line.id, rows[i].line.kind, rows[i].line.key) for i in old]
        repeats = await connection.fetch(_REPEATED, experiment, *map(list, zip(*names, strict=True)))
        first = {tuple(row)[:3]: tuple(row)[3:] for row in repeats}
        for i, name in zip(old, names, strict=True):
            position, value, alone = first[name]
            receipts[i] = repeated(rows[i].line, position, value, parked=alone and rows[i].line.kind in EARLY)
    return [receipts[i] for i in range(len(rows))]


def _decided_before(rows: Sequence[EventRow]) -> set[int]:
    """Which rows come after their decision in the same group: one statement does not see what it writes."""
    decided: set[str] = set()
    places = set()
    for i, row in enumerate(rows):
        if row.line.kind == "decision":
            decided.add(row.line.id)
        elif row.line.id in decided:
            places.add(i)
    return places


async def _idle(connection: Connection, experiment: int, rows: Sequence[EventRow]) -> list[int]:
    """Which rows correct a decision that has no reward, neither in the store nor before them in the group."""
    ids = {row.line.id for row in rows if row.line.kind == "correction"}
    if not ids:
        return []
    rewarded = {id for (id,) in await connection.fetch(_REWARDED, experiment, list(ids))}
    idle = []
    for i, row in enumerate(rows):
        if row.line.kind in ("reward", "default"):
            rewarded.add(row.line.id)
        elif row.line.kind == "correction" and row.line.id not in rewarded:
            idle.append(i)
    return idle
