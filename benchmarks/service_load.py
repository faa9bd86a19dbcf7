"""Load on the service: CPU of the server per request, throughput and latency, for one
variant after the other in turns.

    python -m benchmarks.service_load [--seconds 5] [--rounds 3] [--clients 32]
        [--variants bare,none,sqlite]

Our own client: one process, C connections, each sends its next request when the last
one is answered. The server's CPU is its process's user and system time. Latencies are
as a client sees them, on a machine it shares with the server.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from benchmarks.told import Compared, Told, release

EXPERTS, ARMS, FEATURES = 64, 8, 16
VARIANTS = "bare,none,sqlite,sqlite:mixed"


class Load(NamedTuple):
    """What one run of load measured."""

    requests: int
    errors: int
    seconds: float
    cpu_us: float
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return self.requests / self.seconds


class Server:
    """A variant of the service in a process of its own."""

    def __init__(self, variant: str, folder: Path) -> None:
        command = [
            sys.executable,
            "-m",
            "benchmarks.service_variants",
            variant,
            str(folder),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._watched = psutil.Process(self._process.pid)

    def cpu(self) -> float:
        """Seconds of CPU so far."""
        used = self._watched.cpu_times()
        return float(used.user + used.system)

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait(30)


def policy_file(folder: Path, store: str | None = None) -> Path:
    """64 linear experts over 8 arms and 16 numbers."""
    rng = np.random.default_rng(0)
    np.savez(
        folder / "bank.npz", weights=rng.normal(size=(EXPERTS, ARMS, FEATURES)) * 0.1
    )
    arms = json.dumps([f"arm {a}" for a in range(ARMS)])
    lines = [
        f"arms = {arms}",
        "seed = 7",
        "[experts.bank]",
        'kind = "linear"',
        'file = "bank.npz"',
    ]
    lines += [] if store is None else ["[service]", f'store = "{store}"']
    (folder / "load.toml").write_text("\n".join(lines) + "\n")
    return folder / "load.toml"


def request(path: str, body: dict[str, Any], port: int) -> bytes:
    """The bytes of a request."""
    content = json.dumps(body).encode()
    head = (
        f"POST {path} HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\ncontent-length: "
        f"{len(content)}\r\n\r\n"
    )
    return head.encode() + content


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Status and body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


async def load(
    server: Server,
    clients: int,
    seconds: float,
    *,
    rewards: bool = False,
    asked: Sequence[bytes] = (),
) -> Load:
    """C clients that decide, and if asked to give a reward for each decision, until the
    time is over.

    They send what is `asked` in turn, or contexts of their own.
    """
    latencies: list[float] = []
    errors = 0
    rng = random.Random(1)
    contexts = [
        [round(rng.gauss(0, 1), 4) for _ in range(FEATURES)] for _ in range(256)
    ]
    asked = asked or [
        request("/v1/decide", {"context": context}, server.port) for context in contexts
    ]
    end = time.perf_counter() + seconds

    async def send(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, content: bytes
    ) -> bytes:
        nonlocal errors
        start = time.perf_counter()
        writer.write(content)
        status, body = await answer(reader)
        latencies.append(time.perf_counter() - start)
        errors += status not in (200, 201)
        return body

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        turn = number
        while time.perf_counter() < end:
            turn += 1
            body = await send(reader, writer, asked[turn % len(asked)])
            # a refusal is an error, and has none
            if rewards and (id := json.loads(body).get("id")):
                told = {"id": id, "reward": turn % 2}
                await send(reader, writer, request("/v1/reward", told, server.port))
        writer.close()

    before, start = server.cpu(), time.perf_counter()
    await asyncio.gather(*(client(number) for number in range(clients)))
    took, used = time.perf_counter() - start, server.cpu() - before
    p50, p99 = (
        float(value) for value in np.percentile(np.array(latencies) * 1000, [50, 99])
    )
    return Load(len(latencies), errors, took, used / len(latencies) * 1e6, p50, p99)


def measure(
    variants: list[str], clients: int, seconds: float, rounds: int
) -> dict[str, list[Load]]:
    """Every variant in turns, warmed up first."""
    found: dict[str, list[Load]] = {variant: [] for variant in variants}
    with tempfile.TemporaryDirectory() as place:
        servers = {}
        for variant in variants:
            folder = Path(place) / variant.replace(":", "-")
            folder.mkdir()
            servers[variant] = Server(variant.split(":")[0], folder)
        try:
            for turn in range(rounds + 1):
                for variant, server in servers.items():
                    lasts = seconds if turn else 1.0
                    one = asyncio.run(
                        load(server, clients, lasts, rewards=variant.endswith(":mixed"))
                    )
                    if turn:
                        found[variant].append(one)
        finally:
            for server in servers.values():
                server.close()
    return found


def table(found: dict[str, list[Load]]) -> list[str]:
    """Medians over the rounds, and the ratio of CPU to the service without a store."""
    lines = [
        "| variant | CPU us/request | ratio | requests/s | p50 ms | p99 ms | p99/p50 | "
        "errors |"
    ]
    lines.append("|---|---:|---:|---:|---:|---:|---:|---:|")
    base = np.median(
        [one.cpu_us for one in found.get("none", next(iter(found.values())))]
    )
    for variant, runs in found.items():
        middle: Any = {
            name: float(np.median([getattr(run, name) for run in runs]))
            for name in ("cpu_us", "rate")
        }
        p50, p99 = (
            float(np.median([getattr(run, name) for run in runs]))
            for name in ("p50_ms", "p99_ms")
        )
        tail = float(np.median([run.p99_ms / run.p50_ms for run in runs]))
        errors = sum(run.errors for run in runs)
        lines.append(
            f"| {variant} | {middle['cpu_us']:.0f} | {middle['cpu_us'] / base:.2f} | "
            f"{middle['rate']:,.0f} | {p50:.2f} | {p99:.2f} | {tail:.1f} | {errors} |"
        )
    return lines


def compared(found: dict[str, list[Load]]) -> Compared:
    """A decision on disk beside a route that decides nothing and keeps nothing."""
    mine, bare = (
        float(np.median([run.cpu_us for run in found[variant]]))
        for variant in ("sqlite", "bare")
    )
    peer = (
        f"a bare route of {release('starlette', 'Starlette')} and "
        f"{release('msgspec')}, nothing decided or kept"
    )
    return Compared(
        "a decision over HTTP, on disk before its answer", peer, mine, bare, "CPU µs"
    )


def report(seconds: float = 8.0, rounds: int = 3) -> Told:
    """The section of RESULTS.md."""
    found = measure(VARIANTS.split(","), 32, seconds, rounds)
    says = (
        f"{EXPERTS} experts, {ARMS} arms, {FEATURES} numbers a context; 32 clients, "
        f"{rounds} rounds of {seconds:g} s;\n"
        "medians. CPU is the server's. `bare` is Starlette and msgspec alone, `none` "
        "the whole service with a store\n"
        "that keeps nothing, `sqlite` with SQLite and synchronous FULL, `sqlite:mixed` "
        "with a reward for each decision."
    )
    return Told(
        "\n".join(["## Service", "", says, "", *table(found), ""]), (compared(found),)
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--variants", default=VARIANTS)
    asked = parser.parse_args()
    found = measure(
        asked.variants.split(","), asked.clients, asked.seconds, asked.rounds
    )
    print("\n".join(table(found)))


if __name__ == "__main__":
    main()
