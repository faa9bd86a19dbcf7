"""A made-up next format of stores: events have one more column, and the bodies of
decisions are written otherwise.

    next_format.py STORE BACKUP [half FILE] [open]

upgrades a store to it; with `half` it stops in the middle, once it has made FILE, and
waits to be killed; with `open` it works without a transaction, which is wrong.
"""

import asyncio
import json
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from oddsmith.server.store import formats, meta
from oddsmith.server.store import upgrade as upgrading
from oddsmith.server.store.formats import Migration
from oddsmith.server.store.postgres import link
from oddsmith.server.store.upgrade import upgrade

__all__ = ["NEXT", "install", "shorter"]

NEXT = "oddsmith store 4"
_COLUMN = "alter table events add column cost {}"


def install(patch: pytest.MonkeyPatch, half: Path | None = None) -> None:
    """Make it the current format."""

    def in_file(connection: sqlite3.Connection) -> None:
        found = connection.execute(
            "select position, body from events where kind = 'decision'"
        ).fetchall()
        connection.executemany(
            "update events set body = ? where position = ?",
            [(shorter(b), p) for p, b in found],
        )

    async def in_database(connection: Any) -> None:
        query = "select experiment, position, body from events where kind = 'decision'"
        rows = [
            (shorter(body), number, place)
            for number, place, body in await connection.fetch(query)
        ]
        await connection.executemany(
            "update events set body = $1 where experiment = $2 and position = $3", rows
        )

    def stop(_: Any) -> None:
        if half is not None:
            half.touch()
            time.sleep(600)

    async def stop_here(_: Any) -> None:
        if half is not None:
            half.touch()
            await asyncio.sleep(600)

    sqlite = (
        _COLUMN.format("real"),
        in_file,
        stop,
        "create index dear on events (cost)",
    )
    postgres = (
        _COLUMN.format("float8"),
        in_database,
        stop_here,
        "create index dear on events (experiment, cost)",
    )
    patch.setitem(formats.MIGRATIONS, meta.FORMAT, Migration(NEXT, sqlite, postgres))
    for module in (meta, link):
        patch.setattr(module, "FORMAT", NEXT)


def shorter(body: str) -> str:
    """The same JSON without spaces."""
    return json.dumps(json.loads(body), separators=(",", ":"))


def main(place: str, backup: str, *more: str) -> None:
    """Upgrade a store."""
    if "open" in more:
        upgrading._BEGIN = "select 1"
    install(pytest.MonkeyPatch(), Path(more[1]) if more else None)
    upgrade(place, backup=Path(backup))


if __name__ == "__main__":
    main(*sys.argv[1:])
