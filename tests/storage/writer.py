"""A process that writes events from several threads and says on standard output what was answered, until it is killed.

    writer.py STORE once | full | normal | early

`normal` writes with synchronous NORMAL, `early` says so before the commit: both are broken on purpose.
"""

import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from oddsmith.storage import Reward, SQLiteStore, advance, restore, save_snapshot
from oddsmith.storage.sqlite import files
from storage.samples import append, made, policy

__all__ = ["main"]


def main() -> None:
    """Write for ever."""
    path, variant = sys.argv[1:]
    if variant == "normal":
        files.SYNCHRONOUS = "NORMAL"
    judge = policy()
    store = SQLiteStore(path, judge)
    if variant == "once":
        store.close()
        return
    live = restore(store, judge)
    for name in range(8):
        threading.Thread(target=_write, args=(store, f"{os.getpid()}-{name}", variant == "early"), daemon=True).start()
    while True:
        time.sleep(0.05)
        live = advance(store, judge, live)
        save_snapshot(store, live, 0.0)


def _write(store: SQLiteStore, name: str, early: bool) -> None:
    event = made(name)
    for i in range(10**9):
        decision, reward = event.__class__(f"{name}-{i}", event.decision, 0, 0.0), Reward(f"{name}-{i}", i % 2, 0.0)
        for one in (decision, reward, reward):  # everything is sent again, as a client without an answer would
            if early:
                store.append([one])
            else:
                append(store, one)
            os.write(1, f"{type(one).__name__} {one.id}\n".encode())


if __name__ == "__main__":
    main()
