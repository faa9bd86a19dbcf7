"""Events per second that a store keeps, and seconds to restore a state: 64 experts, 8
arms, 8 numbers as context.

python -m benchmarks.stores [--events 100000] [--clients 32] [--url postgresql://…]
"""

import argparse
import threading
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import oddsmith as od
from oddsmith.server.fold.fold import restore, save_snapshot
from oddsmith.server.store import (
    DecisionMade,
    PostgresStore,
    Reward,
    SQLiteStore,
    Store,
)

__all__ = ["main"]

EXPERTS, ARMS, BATCH = 64, 8, 200


def main() -> None:
    """Print both figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument(
        "--url",
        help=(
            "a database to use instead of a file; its experiment is named after the "
            "time"
        ),
    )
    asked = parser.parse_args()
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts([f"e{i}" for i in range(EXPERTS)]), gamma=0.1
    )
    with (
        TemporaryDirectory(dir=".") as folder,
        _opened(asked.url, Path(folder), policy) as store,
    ):
        _write(store, policy, asked.clients)
        _fill(store, policy, asked.events)
        _restore(store, policy)


def _opened(
    url: str | None, folder: Path, policy: od.Policy
) -> SQLiteStore | PostgresStore:
    if url is None:
        return SQLiteStore(folder / "events.sqlite", policy)
    return PostgresStore(url, policy, experiment=f"benchmark-{time.time_ns()}")


def _decision(policy: od.Policy, seed: int) -> od.Decision:
    rng = np.random.default_rng(seed)
    odds = policy.odds(policy.init(), rng.uniform(0.05, 0.95, (EXPERTS, ARMS)), step=1)
    return od.draw(odds, rng.normal(size=8), float(rng.random()), step=1)


def _write(
    store: SQLiteStore | PostgresStore,
    policy: od.Policy,
    clients: int,
    seconds: float = 3.0,
) -> None:
    """Clients that wait for each answer: a decision, then its reward."""
    decision, counts = _decision(policy, 0), [0] * clients
    end = time.monotonic() + seconds

    def client(number: int) -> None:
        while time.monotonic() < end:
            name = f"w{number}-{counts[number]}"
            store.append([DecisionMade(name, decision, 0, 0.0)]).result()
            store.append([Reward(name, 1.0, 0.0)]).result()
            counts[number] += 2

    threads = [
        threading.Thread(target=client, args=(number,)) for number in range(clients)
    ]
    start, work, commits = time.monotonic(), time.process_time(), store.commits
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    events, taken = sum(counts), time.monotonic() - start
    print(
        f"{clients} clients: {events / taken:,.0f} events/s, "
        f"{events / (store.commits - commits):.1f} per commit, "
        f"{(time.process_time() - work) / events * 1e6:.0f} us of CPU each"
    )


def _fill(store: Store, policy: od.Policy, events: int) -> None:
    decisions = [_decision(policy, seed) for seed in range(100)]
    start, work = time.monotonic(), time.process_time()
    for first in range(0, events // 2, BATCH):
        rows = [(f"f{i}", decisions[i % 100]) for i in range(first, first + BATCH)]
        store.append([DecisionMade(name, decision, 0, 0.0) for name, decision in rows])
        store.append(
            [Reward(name, float(i % 2), 0.0) for i, (name, _) in enumerate(rows)]
        ).result()
    each = (time.process_time() - work) / events * 1e6
    print(
        f"batches of {BATCH}: {events / (time.monotonic() - start):,.0f} events/s, "
        f"{each:.0f} us of CPU each"
    )


def _restore(store: Store, policy: od.Policy) -> None:
    start, work = time.monotonic(), time.process_time()
    whole = restore(store, policy)
    taken, worked = time.monotonic() - start, time.process_time() - work
    events = sum(store.tally().values())
    print(
        f"restore from the beginning: {taken:.2f} s, {worked:.2f} s of CPU, for "
        f"{events:,} events"
    )
    save_snapshot(store, whole, 0.0)
    start = time.monotonic()
    again = restore(store, policy)
    print(
        f"restore from a snapshot at the head: {time.monotonic() - start:.4f} s, to "
        f"position {again.position:,}"
    )


if __name__ == "__main__":
    main()
