"""back_up: copy a store into one file while a service may be writing to it. The copy is
consistent, and is itself a SQLite store."""

import json
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.files.disk import check_absent, new_file
from oddsmith.server.store.formats import SCHEMAS, tables_of
from oddsmith.server.store.meta import FORMAT, backup_row, new_epoch
from oddsmith.server.store.place import is_address, open_reader
from oddsmith.server.store.postgres.copy import add_experiment, clear_away
from oddsmith.server.store.postgres.link import (
    Link,
    make_tables,
    one_line,
    server_errors,
)
from oddsmith.server.store.protocol import BackupFacts, DamagedSnapshot
from oddsmith.server.store.reader import StoreReader
from oddsmith.server.store.sqlite.copy import changing, read_pieces
from oddsmith.server.store.sqlite.file import Lock, connect, file_facts
from oddsmith.server.store.sqlite.reader import SQLiteReader

__all__ = [
    "Contents",
    "RestoredStore",
    "back_up",
    "contents_of",
    "mark_as_backup",
    "restore_backup",
]


class Contents(NamedTuple):
    """Contents of a store: the number of events by kind up to the position `head`, the
    time of the last event (seconds since 1970), and the store's current epoch."""

    experiment: str | None
    head: int
    events: dict[str, int]
    last: float | None
    epoch: str


def back_up(place: str, out: Path, *, experiment: str | None = None) -> Contents:
    """Write the store at a place into a new file that only its owner may read; return
    the contents of the file.

    The file gets its name when it is completely on disk. `verify`, `export`, `history`
    and `doctor` can read it directly. A service can only use it after a restore.
    """
    out = Path(out)
    with closing(open_reader(place, experiment)) as reading, new_file(out) as part:
        began = time.time()
        reading.copy(part)
        mark_as_backup(part, began)
    with closing(SQLiteReader(out)) as copy:
        return contents_of(copy)


def mark_as_backup(part: Path, now: float) -> None:
    """Mark a copy of any format as a backup."""
    with changing(part) as connection:
        (epochs,) = connection.execute(
            "select value from meta where name = 'epochs'"
        ).fetchone()
        (head,) = connection.execute(
            "select coalesce(max(position), 0) from events"
        ).fetchone()
        facts = BackupFacts(now, json.loads(epochs)[-1][0], head)
        connection.execute(
            "insert or replace into meta values (?, ?)", backup_row(facts)
        )


def contents_of(reading: StoreReader) -> Contents:
    """Return the contents of a store."""
    head = reading.head()
    last = None
    for line in reading.lines(head - 1, head):
        last = line.time
    events = {str(kind): count for kind, count in reading.tally().items()}
    epoch, _ = reading.epochs[-1]
    return Contents(reading.about.get("experiment"), head, events, last, epoch)


class RestoredStore(NamedTuple):
    """Result of a restore: the contents of the new store, the time of the backup, and
    the positions of damaged snapshots, which were not restored."""

    contents: Contents
    made: float
    left_out: list[int]


def restore_backup(
    file: Path, to: str, *, experiment: str | None = None
) -> RestoredStore:
    """Create a store from a backup: a new file, or a new experiment of a database
    (postgresql://…).

    `experiment` is the experiment's new name (default: its old name). The whole backup
    is read and checked first.
    """
    file = Path(file)
    with closing(_checked(file)) as backup:
        name: str | None = experiment or backup.about.get("experiment")
        left_out = _damaged(backup)
        facts = backup.backup or BackupFacts(
            time.time(), backup.epochs[-1][0], backup.head()
        )
        meta = backup.meta | _new_facts(backup, facts, name)
        if not is_address(to):
            _into_file(backup, Path(to), meta, left_out)
        elif name is None:
            raise InvalidInput(
                f"experiment must be given, because {file} does not contain its name, "
                "and a database contains many experiments"
            )
        else:
            _into_database(backup, to, name, meta | {"gapless": "false"}, left_out)
    with closing(open_reader(to, name if is_address(to) else None)) as store:
        return RestoredStore(contents_of(store), facts.time, left_out)


def _checked(file: Path) -> SQLiteReader:
    """Open a backup; raise if the file is not a complete backup."""
    reader = SQLiteReader(file)
    try:
        found = file_facts(file)
        if found.broken:
            raise BadFile(
                f"{file} is damaged, and nothing was restored: {found.broken:.160}; "
                "take another backup"
            )
        if found.holder is not None:
            use = f"process {found.holder} writes to it"
            raise BadFile(
                f"{file} must be a backup, or a store that is not in use; {use}. Make "
                "a backup with oddsmith backup"
            )
    except BaseException:
        reader.close()
        raise
    return reader


def _damaged(backup: SQLiteReader) -> list[int]:
    """Return the positions of damaged snapshots. A restore leaves them out, because
    states can be computed from the log."""
    damaged = []
    for snapshot in backup.snapshots():
        try:
            backup.content(snapshot.position)
        except DamagedSnapshot:
            damaged.append(snapshot.position)
    return damaged


def _new_facts(
    backup: SQLiteReader, facts: BackupFacts, name: str | None
) -> dict[str, str]:
    """Return the rows of the new table `meta` that differ from the backup's table."""
    about = dict(backup.about)
    if name is not None:
        about["experiment"] = name
    restored = facts._replace(restored=time.time())
    meta = dict([backup_row(restored)])
    meta["about"] = json.dumps(about)
    meta["epochs"] = json.dumps([*backup.epochs, new_epoch(backup.head())])
    return meta


def _into_file(
    backup: SQLiteReader, path: Path, meta: dict[str, str], left_out: list[int]
) -> None:
    # SQLite would replay a leftover write-ahead log into the new store
    for suffix in ("", "-wal", "-journal"):
        check_absent(path.with_name(path.name + suffix))
    lock = Lock(path)
    try:
        with new_file(path) as part:
            backup.copy(part)
            with changing(part) as connection:
                connection.execute("begin")
                connection.executemany(
                    "insert or replace into meta values (?, ?)", meta.items()
                )
                connection.executemany(
                    "delete from snapshots where position = ?",
                    ((one,) for one in left_out),
                )
                connection.execute("commit")
    finally:
        lock.release()


def _into_database(
    backup: SQLiteReader, url: str, name: str, meta: dict[str, str], left_out: list[int]
) -> None:
    link = Link(url, name)
    try:
        with closing(connect(backup.path, read_only=True)) as source:
            link.run(_added(link, source, meta, left_out))
    finally:
        link.close()


async def _added(
    link: Link, source: sqlite3.Connection, meta: dict[str, str], left_out: list[int]
) -> None:
    tables = tables_of(SCHEMAS[FORMAT])
    (head,) = source.execute("select coalesce(max(position), 0) from events").fetchone()
    try:
        connection = await link.connect()
        try:
            async with connection.transaction():
                await make_tables(connection, link.where)
            await clear_away(connection, tables)
            try:
                pieces = read_pieces(source, tables, left_out)
                await add_experiment(
                    connection, link.experiment, meta, head=head, pieces=pieces
                )
            except (InvalidInput, sqlite3.Error):
                await clear_away(connection, tables)
                raise
        finally:
            connection.terminate()
    except server_errors() as error:
        raise StoreFailed(
            f"{link.where} could not be restored: {one_line(error)}; no part of it is "
            "visible"
        ) from error
    except sqlite3.Error as error:
        raise StoreFailed(f"the backup could not be read: {error}") from error
