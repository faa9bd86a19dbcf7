"""Copy an experiment of a database to a file and back. Rows are copied in small pieces
and keep their positions."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing, closing
from pathlib import Path
from secrets import token_hex
from typing import Any

from oddsmith.core.errors import InvalidInput
from oddsmith.logs.progress import Bar
from oddsmith.server.store.formats import Piece, Table, tables_of
from oddsmith.server.store.postgres.link import PLACES, SHIFT, Connection
from oddsmith.server.store.sqlite.copy import fill

__all__ = ["add_experiment", "check_new", "clear_away", "copy_experiment"]

_PIECE = 250  # rows in memory at a time; 1 for snapshots, which are large
_PATIENCE = 60.0  # seconds per piece
# Prefix of an experiment's name while it is being restored. A valid name never starts
# with a period.
_UNFINISHED = ".restoring-"
# First key of the lock that a restore holds. The second key is the number of the
# experiment.
_RESTORING = 0x6F646473


async def copy_experiment(
    connection: Connection, number: int, part: Path, schema: Path
) -> None:
    """Write the current rows of an experiment into an empty file with the tables of
    this schema.

    The rows are read in one transaction, which has a consistent snapshot and locks
    nothing. Events of transactions that are still open, and all events after them, are
    not copied. So the copied events have no gaps.
    """
    await connection.execute("begin isolation level repeatable read read only")
    # force the index, whatever the table statistics say
    await connection.execute("set local enable_sort = off")
    border = await connection.fetchval(
        f"select (pg_snapshot_xmin(pg_current_snapshot())::text::bigint + {SHIFT}) << "
        f"{PLACES}",
        number,
    )
    meta = await connection.fetch(
        "select name, value from meta where experiment = $1", number
    )
    count = "select count(*) from events where experiment = $1 and position < $2"
    total = await connection.fetchval(count, number, border)
    with closing(Bar("backing up")) as bar, fill(part, schema) as target:
        target.executemany("insert into meta values (?, ?)", map(tuple, meta))
        done = 0
        for table in tables_of(schema):
            marks = ", ".join("?" * len(table.columns))
            async with aclosing(_pieces(connection, number, table, border)) as pieces:
                async for rows in pieces:
                    target.executemany(
                        f"insert into {table.name} values ({marks})", map(tuple, rows)
                    )
                    done += len(rows) if table.name == "events" else 0
                    bar.reach(done, total)
    await connection.execute("rollback")


async def _pieces(
    connection: Connection, number: int, table: Table, border: int
) -> AsyncGenerator[Sequence[tuple[Any, ...]], None]:
    """Yield small groups of the table's rows that belong to events below the position
    `border`, in the order of the table's key."""
    columns = ", ".join(table.columns)
    key = ", ".join(table.key)
    below = f"and position < {border} " if "position" in table.columns else ""
    query = (
        f"select {columns} from {table.name} where experiment = {number} {below}order "
        f"by {key}"
    )
    await connection.execute(f"declare piece_{table.name} no scroll cursor for {query}")
    limit = 1 if table.name == "snapshots" else _PIECE
    while True:
        async with asyncio.timeout(_PATIENCE):
            rows = await connection.fetch(f"fetch {limit} from piece_{table.name}")
        if rows:
            yield rows
        if len(rows) < limit:
            break
    await connection.execute(f"close piece_{table.name}")


async def add_experiment(
    connection: Connection,
    name: str,
    meta: Mapping[str, str],
    *,
    head: int,
    pieces: Iterable[Piece],
) -> None:
    """Create an experiment from rows that keep their positions. New events get
    positions above `head`.

    The experiment gets its name when it is complete. Each piece is written in a
    separate transaction, because a single long transaction would delay the learners of
    all experiments in the database.
    """
    await check_new(connection, name)
    hidden = f"{_UNFINISHED}{token_hex(8)}"
    async with connection.transaction():
        number = await connection.fetchval(
            "insert into experiments (name) values ($1) returning number", hidden
        )
        await connection.execute("select pg_advisory_lock($1, $2)", _RESTORING, number)
    for table, rows in pieces:
        async with asyncio.timeout(_PATIENCE):
            await _write(connection, number, table, rows)
    async with connection.transaction():
        await check_new(connection, name)
        await connection.executemany(
            "insert into meta values ($1, $2, $3)",
            [(number, *pair) for pair in meta.items()],
        )
        shift = (
            "greatest(0, $2::bigint + 1 - "
            "pg_snapshot_xmin(pg_current_snapshot())::text::bigint)"
        )
        query = f"update experiments set name = $3, shift = {shift} where number = $1"
        await connection.execute(query, number, head >> PLACES, name)


async def check_new(connection: Connection, name: str) -> None:
    """Raise if an experiment has this name already."""
    if await connection.fetchval("select true from experiments where name = $1", name):
        raise InvalidInput(
            f"experiment must be a new name; the database already contains {name!r}"
        )


async def _write(
    connection: Connection, number: int, table: Table, rows: Sequence[tuple[Any, ...]]
) -> None:
    """Write rows of a file into a table of the database."""
    columns = ["experiment", *table.columns]
    records: list[tuple[Any, ...]] = []
    for row in rows:
        record = [number, *row]
        if "deferred" in columns:  # SQLite stores booleans as numbers
            place = columns.index("deferred")
            record[place] = bool(record[place])
        records.append(tuple(record))
    await connection.copy_records_to_table(
        table.name, schema_name="oddsmith", columns=columns, records=records
    )


async def clear_away(connection: Connection, tables: Sequence[Table]) -> None:
    """Delete the rows of unfinished restores that were killed, or that failed on this
    connection."""
    left = await connection.fetch(
        "select number from experiments where starts_with(name, $1)", _UNFINISHED
    )
    for (number,) in left:
        # if we get the lock, the restore that held it has died
        if await connection.fetchval(
            "select pg_try_advisory_lock($1, $2)", _RESTORING, number
        ):
            for table in tables:
                await connection.execute(
                    f"delete from {table.name} where experiment = $1", number
                )
            await connection.execute(
                "delete from experiments where number = $1", number
            )
            await connection.execute(
                "select pg_advisory_unlock($1, $2)", _RESTORING, number
            )
