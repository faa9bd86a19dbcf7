"""The store formats that this version supports, with their tables and the migrations
between them."""

import sqlite3
from collections.abc import Awaitable, Callable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

__all__ = [
    "MIGRATIONS",
    "Migration",
    "Piece",
    "SCHEMAS",
    "Table",
    "steps_from",
    "tables_of",
]

if TYPE_CHECKING:
    from oddsmith.server.store.postgres.link import Connection


SCHEMAS = {"oddsmith store 3": Path(__file__).parent / "sqlite" / "schema.sql"}
"""SQL file that creates the tables of each format. A backup of a store in an older
format has the tables of that format."""


class Migration(NamedTuple):
    """A migration to the format `to`. Its steps are SQL statements or functions of a
    connection.

    The steps run in one transaction, which also changes the format. In PostgreSQL they
    apply to all experiments at the same time. They must not change the content of a
    store or the positions of events.
    """

    to: str
    sqlite: "Sequence[str | Callable[[sqlite3.Connection], object]]"
    postgres: "Sequence[str | Callable[[Connection], Awaitable[object]]]"


MIGRATIONS: dict[str, Migration] = {}
"""Migrations by the format that they start from. It is empty, because format 3 is the
only supported format so far."""


def steps_from(got: str) -> list[Migration]:
    """Return the migrations that a store of this format needs, in order.

    >>> steps_from("oddsmith store 1")
    []
    """
    steps = []
    while got in MIGRATIONS:
        steps.append(MIGRATIONS[got])
        got = steps[-1].to
    return steps


class Table(NamedTuple):
    """A table of a store with its columns and its primary key.

    In PostgreSQL the experiment comes first.
    """

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


Piece: TypeAlias = tuple[Table, list[tuple[Any, ...]]]
"""Some rows of a table."""


@cache
def tables_of(schema: Path) -> tuple[Table, ...]:
    """Return the tables that a SQL file creates, without `meta`.

    >>> [table.name for table in tables_of(SCHEMAS["oddsmith store 3"])]
    ['events', 'contexts', 'features', 'names', 'snapshots']
    """
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema.read_text())
        names = connection.execute(
            "select name from sqlite_master where type = 'table' and name != 'meta'"
        ).fetchall()
        return tuple(_table(connection, name) for (name,) in names)


def _table(connection: sqlite3.Connection, name: str) -> Table:
    query = "select name, pk from pragma_table_info(?)"
    places = dict(connection.execute(query, (name,)).fetchall())
    key = sorted(
        (column for column in places if places[column]), key=places.__getitem__
    )
    return Table(name, tuple(places), tuple(key))
