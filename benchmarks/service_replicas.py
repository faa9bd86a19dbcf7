"""Two replicas on one PostgreSQL under load, decisions and rewards one to one (L2 of
the test plan).

    python -m benchmarks.service_replicas [--seconds 60] [--clients 32]

C clients talk to each replica. Afterwards nothing may be lost, and both posteriors must
be the full replay's, bit for bit; the time until they are is told. Client, both
replicas and the database share this machine's cores.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from benchmarks.service_load import Load, Server, load
from oddsmith.core.weights import posterior
from oddsmith.server.fold.fold import restore
from oddsmith.server.fold.judge import judge_from_json
from oddsmith.server.store import PostgresReader
from server.store.postgres_server import Server as Database
from server.store.samples import WithoutSnapshots


def posterior_at(server: Server) -> Any:
    """What a replica answers."""
    with urllib.request.urlopen(
        f"http://127.0.0.1:{server.port}/v1/posterior", timeout=10
    ) as answer:
        return json.load(answer)


def ready(server: Server) -> None:
    """Wait until a replica knows its state."""
    end = time.monotonic() + 60
    while True:
        with (
            suppress(OSError),
            urllib.request.urlopen(
                f"http://127.0.0.1:{server.port}/readyz", timeout=10
            ),
        ):
            return
        if time.monotonic() > end:
            raise RuntimeError(
                f"the replica on port {server.port} was not ready after 60 s"
            )
        time.sleep(0.1)


async def both(replicas: list[Server], clients: int, seconds: float) -> list[Load]:
    """Load on all replicas at once."""
    return await asyncio.gather(
        *(load(replica, clients, seconds, rewards=True) for replica in replicas)
    )


def settled(replicas: list[Server], reader: PostgresReader) -> tuple[float, list[Any]]:
    """Seconds until all replicas are at the head, and what they say then."""
    start, head = time.perf_counter(), reader.head()
    while True:
        said = [posterior_at(replica) for replica in replicas]
        if (
            all(one["position"] >= head for one in said)
            or time.perf_counter() - start > 60
        ):
            return time.perf_counter() - start, said
        time.sleep(0.02)


def replayed(reader: PostgresReader) -> list[float]:
    """The posterior of a full replay, by the judge alone."""
    bare: Any = WithoutSnapshots(reader)
    folded = restore(bare, judge_from_json(reader.about["judge"]))
    weights: list[float] = posterior(folded.state.log_weights).tolist()
    return weights


def report(seconds: float = 20.0, clients: int = 32) -> str:
    """The table and what became of the events."""
    database = Database()
    replicas: list[Server] = []
    try:
        with tempfile.TemporaryDirectory() as place:
            for name in ("one", "two"):
                (Path(place) / name).mkdir()
                replicas.append(Server(database.url(), Path(place) / name))
                ready(replicas[-1])
            asyncio.run(both(replicas, clients, 1.0))
            loads = asyncio.run(both(replicas, clients, seconds))
            with PostgresReader(database.url(), experiment="load") as reader:
                caught_up, said = settled(replicas, reader)
                counted = reader.tally()
                whole = replayed(reader)
            equal = all(list(one["posterior"].values()) == whole for one in said)
    finally:
        for replica in replicas:
            replica.close()
        database.remove()
    lines = [
        "## Two replicas on PostgreSQL",
        "",
        "| replica | CPU us/request | requests/s | p50 ms | p99 ms | errors |",
    ]
    lines.append("|---|---:|---:|---:|---:|---:|")
    for name, one in zip(("one", "two"), loads, strict=True):
        lines.append(
            f"| {name} | {one.cpu_us:.0f} | {one.rate:,.0f} | {one.p50_ms:.1f} | "
            f"{one.p99_ms:.1f} | {one.errors} |"
        )
    together = sum(one.rate for one in loads)
    lines += [
        "",
        (
            f"Together {together:,.0f} requests/s. {counted['decision']:,} decisions "
            f"and {counted['reward']:,} rewards."
        ),
    ]
    lines.append(
        f"Both at the head after {caught_up:.2f} s; equal to the full replay bit for "
        f"bit: {equal}."
    )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--clients", type=int, default=32)
    asked = parser.parse_args()
    print(report(asked.seconds, asked.clients))


if __name__ == "__main__":
    main()
