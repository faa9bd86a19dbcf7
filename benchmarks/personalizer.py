"""What a rank through Personalizer's door costs, next to our own decide with the same
offer.

    python -m benchmarks.personalizer [--rounds 5] [--seconds 4] [--clients 8]

50 actions with 40 features each (30 numbers, 10 words), 10 numbers of context, out of
500 known actions; `auto()` after 300 rewards, SQLite with synchronous FULL. One service
has all: our own decide, a rank whose features are in one object, and one whose features
are in objects inside an object, take turns.
"""

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import psutil

from benchmarks.offers_served import Asked, decide_request, teach
from benchmarks.service_load import Load, Server, load, request
from benchmarks.timing import table
from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.server import serve

ACTIONS, NUMBERS, WORDS, CONTEXT, KNOWN, LEARNT, CALLS = 50, 30, 10, 10, 500, 300, 128
POLICY = (
    'name = "news"\nseed = 7\n[policy]\nkind = "auto"\n[service]\n'
    'store = "news.sqlite"\n'
)


def calls_of(seed: int, n: int) -> list[Asked]:
    """Calls whose actions are some of those known, with the same features at every
    call."""
    rng = np.random.default_rng(0)
    numbers, words = (
        rng.normal(size=(KNOWN, NUMBERS)).round(4),
        rng.integers(8, size=(KNOWN, WORDS)),
    )
    features = [
        {f"sizes.{i}": float(x) for i, x in enumerate(row)}
        | {f"words.{i}": f"value {w}" for i, w in enumerate(said)}
        for row, said in zip(numbers, words, strict=True)
    ]
    rng, calls = np.random.default_rng(seed), []
    for _ in range(n):
        drawn = rng.choice(KNOWN, ACTIONS, replace=False)
        context = {
            f"context{i}": float(x)
            for i, x in enumerate(rng.normal(size=CONTEXT).round(4))
        }
        calls.append(Asked(context, {f"item-{k}": features[k] for k in drawn}))
    return calls


def rank_request(call: Asked, port: int) -> bytes:
    """The bytes of the same call as Personalizer's programs send it."""
    actions = [{"id": name, "features": [known]} for name, known in call.arms.items()]
    body: dict[str, Any] = {
        "contextFeatures": [call.context],
        "actions": actions,
        "deferActivation": False,
    }
    return request("/personalizer/v1.0/rank", body, port)


def nested_request(call: Asked, port: int) -> bytes:
    """The same with the features of each action in two objects inside one."""
    return rank_request(
        Asked(
            call.context, {name: _nested(known) for name, known in call.arms.items()}
        ),
        port,
    )


def _nested(features: dict[str, Any]) -> dict[str, Any]:
    nested: dict[str, dict[str, Any]] = {}
    for name, value in features.items():
        outer, _, inner = name.partition(".")
        nested.setdefault(outer, {})[inner] = value
    return nested


FORMS = {
    "decide": decide_request,
    "rank": rank_request,
    "rank, objects inside": nested_request,
}


class Service(Server):
    """A service with the door open, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        (folder / "news.toml").write_text(POLICY)
        command = [
            sys.executable,
            "-m",
            "benchmarks.personalizer",
            "--serve",
            str(folder / "news.toml"),
        ]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        self.port = int(self._process.stdout.readline())
        self._watched = psutil.Process(self._process.pid)


@contextmanager
def service() -> Iterator[Service]:
    """A service with an empty store."""
    with tempfile.TemporaryDirectory() as place:
        server = Service(Path(place))
        try:
            yield server
        finally:
            server.close()


def measure(clients: int, seconds: float, rounds: int) -> dict[str, list[Load]]:
    """Rounds in turns, after one to warm up; every second one in the other order."""
    calls: list[Asked] = calls_of(2, CALLS)
    found: dict[str, list[Load]] = {form: [] for form in FORMS}
    with service() as server:
        while httpx.get(f"http://127.0.0.1:{server.port}/readyz").status_code != 200:
            time.sleep(0.1)  # its state is being restored
        asyncio.run(teach(server, calls_of(1, LEARNT)))  # type: ignore[arg-type]
        asked = {
            form: [make(call, server.port) for call in calls]
            for form, make in FORMS.items()
        }
        for turn in range(rounds + 1):
            for form in list(FORMS)[:: 1 if turn % 2 else -1]:
                one = asyncio.run(
                    load(server, clients, seconds if turn else 1.0, asked=asked[form])
                )
                found[form] += [one] if turn else []
    return found


def rows_of(clients: int, found: dict[str, list[Load]]) -> list[list[str]]:
    """Medians over the rounds."""
    rows = []
    for form, loads in found.items():
        ratios = [
            one.cpu_us / ours.cpu_us
            for one, ours in zip(loads, found["decide"], strict=True)
        ]
        cells = [[one.cpu_us for one in loads], ratios, [one.p50_ms for one in loads]]
        cpu, ratio, p50 = (float(np.median(values)) for values in cells)
        tail = float(np.median([one.p99_ms / one.p50_ms for one in loads]))
        errors = sum(one.errors for one in loads)
        rows.append(
            [
                form,
                f"{clients}",
                f"{cpu:,.0f}",
                f"{ratio:.2f}",
                f"{p50:.1f}",
                f"{tail:.1f}",
                f"{errors}",
            ]
        )
    return rows


def report(
    seconds: float = 4.0, rounds: int = 5, clients: Sequence[int] = (1, 8)
) -> str:
    """The section of RESULTS.md."""
    header = ["call", "clients", "CPU us", "ratio", "p50 ms", "p99/p50", "errors"]
    rows = [row for n in clients for row in rows_of(n, measure(n, seconds, rounds))]
    return f"""## A rank call through Personalizer's API

{ACTIONS} actions with {NUMBERS} numbers and {WORDS} words each, {CONTEXT} numbers of context; `auto()` after {LEARNT}
rewards, SQLite with synchronous FULL. CPU is the server's user and system time a request; medians of {rounds} rounds of
{seconds:g} s alternating with `/v1/decide` on the same service with the same offers; {os.cpu_count()} cores that
client, server and others share.

{table(header, rows)}
"""


def main() -> None:
    """Measure and print, or serve."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--serve", metavar="FILE")
    asked = parser.parse_args()
    if asked.serve is None:
        print(report(asked.seconds, asked.rounds, asked.clients))
        return
    door = socket.create_server(("127.0.0.1", 0), backlog=1024)
    print(door.getsockname()[1], flush=True)
    serve(make_app(open_experiments([asked.serve]), doors=[Personalizer()]), door)


if __name__ == "__main__":
    main()
