"""Write rows into a PostgresStore, each row once. One statement, and so one
transaction, writes a whole group.

Rows are inserted in the order of their unique columns, so that two replicas that write
the same events cannot deadlock. Their positions follow the order of the arguments.
Further slots of a slate are inserted after its first slot, and only if the first slot
is new. An id belongs either to a slate or to a decision.
"""

from collections.abc import Iterator, Sequence
from operator import attrgetter

from oddsmith.server.store.postgres.link import PLACES, SHIFT, Connection
from oddsmith.server.store.protocol import Receipt
from oddsmith.server.store.rows import (
    EARLY,
    EventRow,
    columns_of,
    repeated,
    unrewarded,
)
from oddsmith.server.store.slates import not_kept, places_of_firsts

__all__ = ["GROUP", "groups_of", "write"]

GROUP = 2000  # rows per statement; far below the limit of 2^20 rows per transaction

_ROWS = """
    select $1::integer, base + place, kind, id, key, value, time, deferred, seen, sender, unit, turn, slate, slot,
           body, numbers
    from given
"""
_IN_ORDER = """
    order by unit collate "C" nulls first, turn, slate collate "C" nulls first, slot,
             id collate "C", kind collate "C", key collate "C", place
    on conflict do nothing
    returning position
"""
_IS_FREE = """
    case when slot = 1
    then not exists (select from events e where e.experiment = $1 and e.id = given.slate and e.kind = 'decision')
    when slot is null and kind in ('decision', 'reward', 'activation', 'metric')
    then not exists (select from events e where e.experiment = $1 and e.slate = given.id)
    else true end
"""
_WRITE = f"""
with given as (
    select (pg_current_xact_id()::text::bigint + {SHIFT}) << {PLACES} as base, *
    from unnest($2::text[], $3::text[], $4::text[], $5::float8[], $6::float8[], $7::bool[], $8::bigint[], $9::text[],
                $10::text[], $11::integer[], $12::text[], $13::integer[], $14::text[], $15::bytea[],
                $16::bool[], $17::bytea[], $18::text[], $19::bigint[])
    with ordinality as g (kind, id, key, value, time, deferred, seen, sender, unit, turn, slate, slot, body, numbers,
                          there, features, context, first, place)
), alone as (
    insert into events {_ROWS} where first is null and {_IS_FREE} {_IN_ORDER}
), behind as (
    insert into events {_ROWS} where base + first in (select position from alone) {_IN_ORDER}
), written as (
    select position from alone union all select position from behind
), kept as (
    insert into contexts select $1, time, position, null, features, context
    from given join written on position = base + place where there
)
select position, not exists (
    select from events e where e.experiment = $1 and e.id = given.id and e.kind = 'decision'
) from given join written on position = base + place order by position
"""

_NAMES = """
insert into names select $1::integer, * from unnest($2::text[], $3::text[]) as g (digest, body)
order by digest on conflict do nothing
"""

_FEATURES = """
insert into features as f
select $1::integer, * from unnest($2::text[], $3::float8[], $4::text[]) as g (digest, time, body)
order by digest on conflict (experiment, digest) do update set time = excluded.time where excluded.time > f.time
"""

_REPEATED = """
select place, position, value, body, not exists (
    select from events e where e.experiment = $1 and e.id = g.id and e.kind = 'decision'
) from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::integer[], $7::text[], $8::integer[])
with ordinality as g (id, kind, key, unit, turn, slate, slot, place)
cross join lateral (
    select position, value, body from events e
    where experiment = $1 and e.id = g.id and e.kind = g.kind and e.key = g.key
    union all
    select position, value, body from events e where experiment = $1 and e.unit = g.unit and e.turn = g.turn
    union all
    select position, value, body from events e where experiment = $1 and e.slate = g.slate and e.slot = g.slot
    limit 1
) found
"""

_REWARDED = (
    "select distinct id from events where experiment = $1 and id = any($2) and kind in "
    "('reward', 'default')"
)

# Columns with unique indexes: (id, kind, key), (unit, turn) and (slate, slot).
_UNIQUE = attrgetter("id", "kind", "key", "unit", "turn", "slate", "slot")


async def write(
    connection: Connection, experiment: int, rows: Sequence[EventRow]
) -> list[Receipt]:
    """Write the rows that are not stored yet; return the receipts of all rows."""
    receipts: dict[int, Receipt] = {
        i: unrewarded(rows[i]) for i in await _idle(connection, experiment, rows)
    }
    given = [i for i in range(len(rows)) if i not in receipts]
    if given:
        # Names and features come first: they are harmless if their decisions are never
        # written.
        await _write_contents(connection, experiment, [rows[i] for i in given])
        made = _decided_before(rows)
        chosen = [rows[i] for i in given]
        firsts = [
            None if place is None else place + 1 for place in places_of_firsts(chosen)
        ]
        columns = map(list, zip(*(_columns(row) for row in chosen), strict=True))
        for position, alone in await connection.fetch(
            _WRITE, experiment, *columns, firsts
        ):
            i = given[position % 2**PLACES - 1]
            receipts[i] = Receipt(
                position,
                True,
                parked=alone and rows[i].kind in EARLY and i not in made,
            )
    old = [i for i in given if i not in receipts]
    if old:
        names = [_UNIQUE(rows[i]) for i in old]
        for place, position, value, body, alone in await connection.fetch(
            _REPEATED, experiment, *map(list, zip(*names, strict=True))
        ):
            row = rows[old[place - 1]]
            parked = alone and row.kind in EARLY
            receipts[old[place - 1]] = repeated(
                row, position, value, body, parked=parked
            )
    return [
        receipts[i] if i in receipts else not_kept(rows[i]) for i in range(len(rows))
    ]


def groups_of(rows: Sequence[EventRow]) -> Iterator[Sequence[EventRow]]:
    """Split the rows into groups, one per statement. A slate (at most 1,000 slots) is
    never split."""
    while len(rows) > GROUP:
        end = GROUP
        while end > GROUP // 2 and (rows[end].slot or 1) > 1:
            end -= 1
        yield rows[:end]
        rows = rows[end:]
    yield rows


async def _write_contents(
    connection: Connection, experiment: int, rows: Sequence[EventRow]
) -> None:
    """Write the lists of names and the features that these rows need, unless they are
    stored already."""
    names = {row.names.digest: row.names.body for row in rows if row.names is not None}
    if not names:
        return
    await connection.fetch(_NAMES, experiment, list(names), list(names.values()))
    features: dict[str, tuple[float, str]] = {}
    for row in rows:
        for one in row.features:
            earlier, _ = features.get(one.digest, (row.time, ""))
            features[one.digest] = max(earlier, row.time), one.body
    times, bodies = (
        [time for time, _ in features.values()],
        [body for _, body in features.values()],
    )
    await connection.fetch(_FEATURES, experiment, list(features), times, bodies)


def _columns(row: EventRow) -> tuple[object, ...]:
    features, context = row.context or (None, None)
    return (*columns_of(row), row.context is not None, features, context)


def _decided_before(rows: Sequence[EventRow]) -> set[int]:
    """Return the indices of rows whose decision comes earlier in the same group. They
    need special treatment, because a statement does not see the rows that it writes."""
    decided: set[str] = set()
    places = set()
    for i, row in enumerate(rows):
        if row.kind == "decision":
            decided.add(row.id)
        elif row.id in decided:
            places.add(i)
    return places


async def _idle(
    connection: Connection, experiment: int, rows: Sequence[EventRow]
) -> list[int]:
    """Return the indices of corrections that have no reward to correct, neither in the
    store nor earlier in the group."""
    ids = {row.id for row in rows if row.kind == "correction"}
    if not ids:
        return []
    rewarded = {
        id for (id,) in await connection.fetch(_REWARDED, experiment, list(ids))
    }
    idle = []
    for i, row in enumerate(rows):
        if row.kind in ("reward", "default"):
            rewarded.add(row.id)
        elif row.kind == "correction" and row.id not in rewarded:
            idle.append(i)
    return idle
