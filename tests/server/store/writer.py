"""A process that writes events from several threads and says on standard output what
was answered, until it is killed.

    writer.py STORE once | full | normal | early | deaf | credulous

Broken on purpose are `normal`, which writes with synchronous NORMAL; `early`, which
says so before the commit; `deaf`, which takes a commit that failed for one that went
well; and `credulous`, which goes on where the last process stopped and takes what it
finds for synced.
"""

import os
import sqlite3
import sys
import threading
import time
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from oddsmith.core.errors import StoreFailed
from oddsmith.server.fold.fold import advance, restore, save_snapshot
from oddsmith.server.store import Event, Reward, SQLiteStore
from oddsmith.server.store.sqlite import file as files
from oddsmith.server.store.sqlite import writer as writing
from server.store.samples import append, made, policy

__all__ = ["main"]


class Deaf(sqlite3.Connection):
    """Does not hear that a commit failed."""

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        """As ever, but for that."""
        if statement != "commit":
            return super().execute(statement, *values)
        with suppress(sqlite3.Error):
            return super().execute(statement)
        return super().execute("rollback" if self.in_transaction else "select 1")


def main() -> None:
    """Write for ever."""
    path, variant = sys.argv[1:]
    if variant == "normal":
        files.SYNCHRONOUS = "NORMAL"
    judge = policy()
    sql: Any = sqlite3
    way: Any = writing.WritePath
    if variant == "deaf":
        sql.connect = partial(sqlite3.connect, factory=Deaf)
    if variant == "credulous":
        way._sync_anew = lambda path: None
    store = SQLiteStore(path, judge)
    if variant == "once":
        store.close()
        return
    live = restore(store, judge)
    for name in range(8):
        threading.Thread(
            target=_write,
            args=(store, f"{os.getpid()}-{name}", variant == "early"),
            daemon=True,
        ).start()
    while True:
        time.sleep(0.05)
        with suppress(StoreFailed):
            live = advance(store, judge, live)
            save_snapshot(store, live, 0.0)


def _write(store: SQLiteStore, name: str, early: bool) -> None:
    event = made(name)
    for i in range(10**9):
        decision, reward = (
            event.__class__(f"{name}-{i}", event.decision, 0, 0.0),
            Reward(f"{name}-{i}", i % 2, 0.0),
        )
        # everything is sent again, as a client without an answer would
        for one in (decision, reward, reward):
            if early:
                store.append([one])
            else:
                _send(store, one)
            os.write(1, f"{type(one).__name__} {one.id}\n".encode())


def _send(store: SQLiteStore, event: Event) -> None:
    """Until it is answered."""
    while True:
        try:
            append(store, event)
        except StoreFailed:
            time.sleep(0.02)
        else:
            return


if __name__ == "__main__":
    main()
