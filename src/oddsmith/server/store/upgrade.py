"""upgrade: make a backup of a store in an older format, and convert the store to the
current format in one transaction."""

import asyncio
import sqlite3
import time
from collections.abc import Awaitable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from oddsmith.core.errors import BadFile, StoreFailed
from oddsmith.files.disk import new_file
from oddsmith.server.store.backup import mark_as_backup
from oddsmith.server.store.formats import SCHEMAS, Migration, steps_from
from oddsmith.server.store.meta import check_format
from oddsmith.server.store.place import is_address
from oddsmith.server.store.postgres.copy import copy_experiment
from oddsmith.server.store.postgres.link import (
    FORMAT_LOCK,
    Connection,
    connect,
    database_of,
    one_line,
    server_errors,
)
from oddsmith.server.store.sqlite import file as files
from oddsmith.server.store.sqlite.copy import copy_file

__all__ = ["UpgradeResult", "upgrade"]

_BEGIN = "begin immediate"


class UpgradeResult(NamedTuple):
    """Result of an upgrade: the formats before and after it, which are equal if nothing
    had to be done, and the files of the backups."""

    was: str
    now: str
    backups: list[Path]


def upgrade(place: str, *, backup: Path | None) -> UpgradeResult:
    """Convert the store in a file, or all experiments of a database, to the current
    format.

    `backup` is the path of a new file or, for a database, of a folder in which each
    experiment gets a file. With None no backup is made. A store that is in use is
    refused. If the upgrade is killed, either all of its changes are in the store or
    none.
    """
    if is_address(place):
        return asyncio.run(_upgrade_database(place, backup))
    path = Path(place)
    files.check_file(path)
    # check first, so that a file that is not a store is left unchanged
    with closing(files.connect(path, read_only=True)) as reading:
        _format_of(reading, path)
    lock = files.Lock(path)
    try:
        with closing(files.connect(path)) as connection:
            return _upgrade_file(connection, path, backup)
    finally:
        lock.release()


def _format_of(connection: sqlite3.Connection, path: Path) -> str:
    try:
        row = connection.execute(
            "select value from meta where name = 'format'"
        ).fetchone()
    except sqlite3.DatabaseError as error:
        raise BadFile(f"{path} must be a store; {error}") from error
    return str(row[0]) if row else ""


def _upgrade_file(
    connection: sqlite3.Connection, path: Path, backup: Path | None
) -> UpgradeResult:
    was = _format_of(connection, path)
    steps = _steps(path, was)
    if not steps:
        return UpgradeResult(was, was, [])
    if backup is not None:
        with new_file(backup) as part:
            copy_file(connection, part, "backing up")
            mark_as_backup(part, time.time())
    try:
        connection.execute(_BEGIN)
        for action in (action for step in steps for action in step.sqlite):
            connection.execute(action) if isinstance(action, str) else action(
                connection
            )
        connection.execute(
            "update meta set value = ? where name = 'format'", (steps[-1].to,)
        )
        connection.execute("commit")
    except sqlite3.Error as error:
        raise StoreFailed(
            f"{path} could not be upgraded, and was not changed: {error}"
        ) from error
    return UpgradeResult(was, steps[-1].to, [] if backup is None else [backup])


def _steps(where: object, was: str) -> list[Migration]:
    """Return the migrations from a format to the current format; raise if this format
    cannot be converted."""
    steps = steps_from(was)
    check_format(where, steps[-1].to if steps else was)
    return steps


async def _upgrade_database(url: str, folder: Path | None) -> UpgradeResult:
    where = database_of(url)
    if folder is not None and not folder.is_dir():
        raise BadFile(
            f"{folder} must be a folder with room for the backups of all experiments "
            f"of {where}; there is none"
        )
    try:
        connection = await connect(url)
        try:
            upgraded = await _upgrade_tables(connection, where, folder)
            # unlock explicitly, because a server may notice a closed connection late
            await connection.execute("select pg_advisory_unlock($1)", FORMAT_LOCK)
            return upgraded
        finally:
            connection.terminate()
    except server_errors() as error:
        raise StoreFailed(
            f"{where} could not be upgraded, and was not changed: {one_line(error)}"
        ) from error


async def _upgrade_tables(
    connection: Connection, where: str, folder: Path | None
) -> UpgradeResult:
    if not await connection.fetchval(
        "select to_regclass('oddsmith.format') is not null"
    ):
        raise BadFile(
            f"{where} must have stores; it has none, or of a format that was never "
            "released"
        )
    if not await connection.fetchval("select pg_try_advisory_lock($1)", FORMAT_LOCK):
        raise StoreFailed(
            f"{where} must not be in use; stop its services and whatever else reads "
            "stores there first"
        )
    was: str = await connection.fetchval("select value from format")
    steps = _steps(where, was)
    if not steps:
        return UpgradeResult(was, was, [])
    backups = [] if folder is None else await _back_up_all(connection, folder, was)
    async with connection.transaction():
        for action in (action for step in steps for action in step.postgres):
            done: Awaitable[object] = (
                connection.execute(action)
                if isinstance(action, str)
                else action(connection)
            )
            await done
        await connection.execute(
            "update meta set value = $1 where name = 'format'", steps[-1].to
        )
        await connection.execute("update format set value = $1", steps[-1].to)
    return UpgradeResult(was, steps[-1].to, backups)


async def _back_up_all(connection: Connection, folder: Path, format: str) -> list[Path]:
    """Back up each experiment, with the tables of its format."""
    backups = []
    experiments = (
        "select number, name from experiments where name not like '.%' order by name"
    )
    for number, name in await connection.fetch(experiments):
        with new_file(folder / f"{name}.sqlite") as part:
            await copy_experiment(connection, number, part, SCHEMAS[format])
            mark_as_backup(part, time.time())
        backups.append(folder / f"{name}.sqlite")
    return backups
