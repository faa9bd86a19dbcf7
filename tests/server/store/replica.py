"""A replica in a process of its own: four writers, each with its own connection, and a
state that follows the log.

    replica.py URL EXPERIMENT window | sequence

It is told on standard input to `look` how far it is, to `stop` its writers, and then to
`tell` its state. `sequence` follows the log by a number that rows get before they are
committed: broken on purpose.
"""

import hashlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from oddsmith.core.decision import Decision
from oddsmith.server.fold.fold import advance, restore, save_snapshot
from oddsmith.server.store import DecisionMade, Line, PostgresStore, Reward
from oddsmith.server.store.protocol import Draw
from server.store.samples import append, bits, made, policy

__all__ = ["BySequence", "KINDS", "digest", "main"]

# of what each writer sends at a time: large transactions finish after small ones begun
# later
SIZES = (1, 1, 1, 50)


class BySequence(PostgresStore):
    """Positions are sequence numbers (column `seq`), and whatever is there may be
    read."""

    _LINE = (
        "select seq, kind, id, key, value, time, deferred, seen, null, null, null from "
        "events where experiment = $1"
    )

    def head(self) -> int:
        return int(
            self._fetch(
                "select coalesce(max(seq), 0) from events where experiment = $1"
            )[0][0]
        )

    def lines(self, after: int, until: int) -> Iterator[Line]:
        found = self._fetch(
            f"{self._LINE} and seq > $2 and seq <= $3 order by seq", after, until
        )
        return map(Line._make, found)

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        query = f"{self._LINE} and id = any($2) and seq <= $3 order by seq"
        return [Line._make(row) for row in self._fetch(query, list(ids), until)]

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        return super().decisions(self._places(positions))

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        return super().decisions_with_draws(self._places(positions))

    def _places(self, positions: Sequence[int]) -> list[int]:
        places = dict(
            self._fetch(
                "select seq, position from events where experiment = $1 and seq = "
                "any($2)",
                positions,
            )
        )
        return [places[position] for position in positions]


KINDS: dict[str, type[PostgresStore]] = {
    "window": PostgresStore,
    "sequence": BySequence,
}


def digest(state: Any) -> str:
    """A state, to the last bit."""
    return hashlib.blake2b(b"".join(bits(state)), digest_size=16).hexdigest()


def main() -> None:
    """Write and follow until told otherwise."""
    url, experiment, variant = sys.argv[1:]
    judge, done = policy(), threading.Event()
    orders: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=[orders], daemon=True).start()
    stores = [PostgresStore(url, judge, experiment=experiment) for _ in SIZES]
    each = [
        (store, f"{os.getpid()}-{i}", size, done)
        for i, (store, size) in enumerate(zip(stores, SIZES, strict=True))
    ]
    writers = [threading.Thread(target=_write, args=mine, daemon=True) for mine in each]
    with KINDS[variant](url, judge, experiment=experiment) as store:
        live, order = restore(store, judge), ""
        for writer in writers:
            writer.start()
        print("ready", flush=True)
        for turn in range(10**9):
            live = advance(store, judge, live)
            if turn % 50 == 49:
                save_snapshot(store, live, 0.0)
            order = orders.get() if not orders.empty() else ""
            if order == "stop":
                done.set()
                for writer in writers:
                    writer.join()
                print("stopped", flush=True)
            elif order == "look":
                print(live.position, flush=True)
            elif order == "tell":
                live = advance(store, judge, live)
                print(
                    json.dumps([live.position, live.state.learnt, digest(live.state)]),
                    flush=True,
                )
                break
            time.sleep(0.001)
    for one in stores:
        one.close()


def _write(store: PostgresStore, name: str, size: int, done: threading.Event) -> None:
    """Decisions and then their rewards, each sent twice, so many at a time."""
    decision, i = made(name).decision, 0
    while not done.is_set():
        ids = [f"{name}-{i + j}" for j in range(size)]
        append(store, *(DecisionMade(id, decision, 0, 0.0) for id in ids * 2))
        append(store, *(Reward(id, i % 2, 0.0) for id in ids * 2))
        i += size
        time.sleep(0.002 * size)


def _listen(orders: "queue.SimpleQueue[str]") -> None:
    for line in sys.stdin:
        orders.put(line.strip())


if __name__ == "__main__":
    main()
