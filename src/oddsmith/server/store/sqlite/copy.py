"""Copy whole stores: make a consistent copy of a file while a service may write to it,
or fill a new file row by row."""

import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from oddsmith.core.errors import StoreFailed
from oddsmith.logs.progress import Bar
from oddsmith.server.store.formats import Piece, Table

__all__ = ["changing", "copy_file", "fill", "read_pieces"]

_BEGIN = "begin"
_PAGES = 256  # pages of 4 KiB copied per step
_ROWS = 250  # rows in memory at a time; 1 for snapshots, which are large


def copy_file(source: sqlite3.Connection, part: Path, what: str) -> None:
    """Copy the current content of a database into an empty file.

    All reads are in one transaction. Meanwhile a writer can append to the write-ahead
    log, and its commits do not restart the copy.
    """
    try:
        source.execute(_BEGIN)
        # the first read fixes the snapshot that this transaction sees
        source.execute("select count(*) from sqlite_master").fetchone()
        with closing(Bar(what)) as bar, changing(part) as target:
            source.backup(
                target,
                pages=_PAGES,
                progress=lambda _, left, total: bar.reach(total - left, total),
            )
    except sqlite3.Error as error:
        raise StoreFailed(f"the store could not be copied: {error}") from error
    finally:
        if source.in_transaction:
            source.execute("rollback")


@contextmanager
def fill(part: Path, schema: Path) -> Iterator[sqlite3.Connection]:
    """Create a file with the tables of a schema, and yield a connection that fills it
    in one transaction."""
    with changing(part) as connection:
        connection.executescript(schema.read_text())
        connection.execute("begin")
        yield connection
        connection.execute("commit")


def read_pieces(
    source: sqlite3.Connection, tables: Sequence[Table], left_out: Collection[int]
) -> Iterator[Piece]:
    """Yield small groups of the tables' rows, in the order of their keys.

    `left_out` contains the positions of snapshots that are skipped.
    """
    (total,) = source.execute("select count(*) from events").fetchone()
    done = 0
    with closing(Bar("restoring")) as bar:
        for table in tables:
            query = (
                f"select {', '.join(table.columns)} from {table.name} order by "
                f"{', '.join(table.key)}"
            )
            cursor = source.execute(query)
            are_large = table.name == "snapshots"
            while rows := cursor.fetchmany(1 if are_large else _ROWS):
                if not are_large or rows[0][0] not in left_out:
                    yield table, rows
                if table.name == "events":
                    done += len(rows)
                bar.reach(done, total)


@contextmanager
def changing(part: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection that writes to an unfinished file without syncs, journals or
    other additional files."""
    with closing(
        sqlite3.connect(part, isolation_level=None, check_same_thread=False)
    ) as connection:
        try:
            connection.execute("pragma synchronous = off")
            connection.execute("pragma secure_delete = on")
            yield connection
            # the copy inherits WAL mode, which a single file must not have
            connection.execute("pragma journal_mode = delete")
        except sqlite3.Error as error:
            raise StoreFailed(f"the copy could not be written: {error}") from error
