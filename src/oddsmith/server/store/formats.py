"""The formats of stores that this version knows: the tables of each, and how a store
gets from one to the next."""

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
"""The tables of each format in SQL, as a file has them: backups of older formats are
written by these."""


class Migration(NamedTuple):
    """How a store becomes one of the format `to`: statements, or functions of a
    connection, in both databases.

    They run in one transaction, with which the format changes, too; PostgreSQL's are
    for all experiments at once. What a store says must not change by it, and positions
    never do.
    """

    to: str
    sqlite: "Sequence[str | Callable[[sqlite3.Connection], object]]"
    postgres: "Sequence[str | Callable[[Connection], Awaitable[object]]]"


MIGRATIONS: dict[str, Migration] = {}
"""From each format that can be brought forwards; 3 is the first one that is kept, and
there is none after it yet."""


def steps_from(got: str) -> list[Migration]:
    """The migrations of a store of this format, in order; empty where there is none.

    >>> steps_from("oddsmith store 1")
    []
    """
    steps = []
    while got in MIGRATIONS:
        steps.append(MIGRATIONS[got])
        got = steps[-1].to
    return steps


class Table(NamedTuple):
    """A table of a store: its columns, and those it is sorted by; in PostgreSQL the
    experiment comes first."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]


Piece: TypeAlias = tuple[Table, list[tuple[Any, ...]]]
"""Some rows of a table."""


@cache
def tables_of(schema: Path) -> tuple[Table, ...]:
    """The tables that a file of SQL makes, `meta` left out.

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
    facts = connection.execute(
        "select name, pk from pragma_table_info(?)", (name,)
    ).fetchall()
    key = sorted((place, column) for column, place in facts if place)
    return Table(
        name, tuple(column for column, _ in facts), tuple(column for _, column in key)
    )
