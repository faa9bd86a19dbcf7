"""What a decision among arms of the call costs in the service, next to the same
decision in the process.

    python -m benchmarks.offers_served [--rounds 5] [--seconds 4] [--clients 8]
    python -m benchmarks.offers_served --memory 100000

50 arms of 20 numbers out of 500 known ones, 10 numbers of context, `auto()`, SQLite
with synchronous FULL. Server and process have learnt as many rewards, and take turns.
`--memory`: 10,000 arms come and go during so many decisions, every second one with a
reward, up to `--rewards`; what the server holds in memory meanwhile.
"""

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

import oddsmith as od
from benchmarks.service_load import Load, Server, answer, load, request
from benchmarks.timing import table

ARMS, FEATURES, CONTEXT, KNOWN, LEARNT, OFFERS = 50, 20, 10, 500, 300, 256
FORMS = {"features by name": True, "features in a list": False}


class Asked(NamedTuple):
    """A call: its context and its arms."""

    context: Any
    arms: dict[str, Any]


def calls_of(
    seed: int, n: int, *, n_arms: int = ARMS, known: int = KNOWN, named: bool = True
) -> list[Asked]:
    """Calls whose arms are some of those known, with the same features at every
    call."""
    features = [
        _form("x", row, named)
        for row in np.random.default_rng(0).normal(size=(known, FEATURES)).round(4)
    ]
    rng, calls = np.random.default_rng(seed), []
    for _ in range(n):
        drawn = rng.choice(known, n_arms, replace=False)
        context = _form("c", rng.normal(size=CONTEXT).round(4), named)
        calls.append(Asked(context, {f"item-{k}": features[k] for k in drawn}))
    return calls


def _form(letter: str, row: Any, named: bool) -> Any:
    values = row.tolist()
    return (
        {f"{letter}{i}": value for i, value in enumerate(values)} if named else values
    )


class Service(Server):
    """`oddsmith serve` in a process of its own, with a policy file without arms."""

    def __init__(self, folder: Path, most_arms: int) -> None:
        file, policy = (
            folder / "news.toml",
            f'[policy]\nkind = "auto"\nmost_arms = {most_arms}\n',
        )
        file.write_text(
            f'name = "news"\nseed = 7\n{policy}[service]\nstore = "news.sqlite"\n'
        )
        log, command = (
            folder / "log",
            [sys.executable, "-m", "oddsmith", "serve", str(file), "--port", "0"],
        )
        with open(log, "w") as said:
            self._process = subprocess.Popen(
                command, stdout=said, stderr=said, text=True
            )
        while not (
            found := re.search(r"listening on http://\S+:(\d+)", log.read_text())
        ):
            if self._process.poll() is not None:
                raise RuntimeError(log.read_text())
            time.sleep(0.05)
        self.port = int(found[1])
        self._watched = psutil.Process(self._process.pid)
        time.sleep(1.0)  # its state is being restored

    def memory(self) -> float:
        """Megabytes that it holds."""
        return float(self._watched.memory_info().rss) / 1e6


@contextmanager
def service(most_arms: int = 10_000) -> Iterator[Service]:
    """A service with an empty store, which remembers so many arms."""
    with tempfile.TemporaryDirectory() as place:
        server = Service(Path(place), most_arms)
        try:
            yield server
        finally:
            server.close()


def decide_request(call: Asked, port: int) -> bytes:
    """The bytes of a call."""
    return request("/v1/decide", {"context": call.context, "arms": call.arms}, port)


async def teach(server: Service, calls: Sequence[Asked]) -> None:
    """Decisions with rewards, one after the other."""
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    for turn, call in enumerate(calls):
        writer.write(decide_request(call, server.port))
        status, body = await answer(reader)
        if status != 200:
            raise RuntimeError(body.decode())
        writer.write(
            request(
                "/v1/reward",
                {"id": json.loads(body)["id"], "reward": turn % 2},
                server.port,
            )
        )
        await answer(reader)
    writer.close()


def taught(calls: Sequence[Asked]) -> od.Agent:
    """An agent that has learnt as much."""
    agent = od.Agent(od.auto(), seed=7)
    for turn, call in enumerate(calls):
        agent.learn(agent.decide(call.context, arms=call.arms), turn % 2)
    return agent


def in_process(agent: od.Agent, calls: Sequence[Asked]) -> float:
    """Microseconds of CPU for a decision."""
    start = time.process_time()
    for call in calls:
        agent.decide(call.context, arms=call.arms)
    return (time.process_time() - start) / len(calls) * 1e6


class Turn(NamedTuple):
    """One round: the service under load, with one client, and the process."""

    many: Load
    one: Load
    process_us: float


def measure(named: bool, clients: int, seconds: float, rounds: int) -> list[Turn]:
    """Rounds in turns, after one to warm up."""
    lessons, calls = calls_of(1, LEARNT, named=named), calls_of(2, OFFERS, named=named)
    agent, turns = taught(lessons), []
    with service() as server:
        asyncio.run(teach(server, lessons))
        asked = [decide_request(call, server.port) for call in calls]
        for turn in range(rounds + 1):
            many = asyncio.run(
                load(server, clients, seconds if turn else 1.0, asked=asked)
            )
            alone = in_process(agent, calls)
            one = asyncio.run(load(server, 1, seconds / 2, asked=asked))
            turns.append(Turn(many, one, (alone + in_process(agent, calls)) / 2))
    return turns[1:]


def row(form: str, turns: Sequence[Turn]) -> list[str]:
    """Medians over the rounds."""

    def median(values: Iterable[float]) -> float:
        return float(np.median(list(values)))

    loads = [turn.many for turn in turns], [turn.one for turn in turns]
    process = [turn.process_us for turn in turns]
    ratios = [
        median(one.cpu_us / us for one, us in zip(of, process, strict=True))
        for of in loads
    ]
    p50 = [f"{median(one.p50_ms for one in of):.1f}" for of in loads]
    tails = [f"{median(one.p99_ms / one.p50_ms for one in of):.1f}" for of in loads]
    cpu = median(one.cpu_us for one in loads[0])
    errors = sum(one.errors for of in loads for one in of)
    return [
        form,
        f"{median(process):,.0f}",
        f"{cpu:,.0f}",
        *(f"{r:.2f}" for r in ratios),
        *p50,
        *tails,
        str(errors),
    ]


def report(clients: int = 8, seconds: float = 4.0, rounds: int = 5) -> str:
    """The section of RESULTS.md."""
    rows = [
        row(form, measure(named, clients, seconds, rounds))
        for form, named in FORMS.items()
    ]
    header = [
        "50 arms x 20 numbers",
        "process, CPU us",
        "service, CPU us",
        "ratio",
        "ratio, 1 client",
    ]
    header += [
        f"p50 ms, {clients} clients",
        "1 client",
        f"p99/p50, {clients} clients",
        "1 client",
        "errors",
    ]
    return f"""## A decision among arms of the call, over HTTP and on disk

`auto()` after {LEARNT} rewards; arms are {ARMS} of {KNOWN} known ones, with another list in each call. CPU is user and
system time of `oddsmith serve` on SQLite (synchronous FULL), and of `agent.decide` with the same offers; medians of
{rounds} rounds in turns, {os.cpu_count()} cores that client, server and others share.

{table(header, rows)}
"""


def crowd(n: int, arms: int = 10_000, seed: int = 5) -> Iterator[Asked]:
    """Calls during which so many arms come and go: each offers some of those that are
    there, the oldest goes first."""
    rng, there = np.random.default_rng(seed), KNOWN
    features = rng.normal(size=(arms, FEATURES)).round(4)
    for turn in range(n):
        first = turn * (arms - there) // n
        drawn = first + rng.choice(there, ARMS, replace=False)
        yield Asked(
            rng.normal(size=CONTEXT).round(4).tolist(),
            {f"item-{k}": features[k].tolist() for k in drawn},
        )


async def held(
    server: Service, n: int, rewards: int, clients: int = 4, samples: int = 20
) -> list[float]:
    """Megabytes of the server after each part of the decisions, of which every second
    one has a reward at first."""
    calls, found, left = crowd(n), [], iter(range(1, n + 1))

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        for call in calls:
            writer.write(decide_request(call, server.port))
            status, body = await answer(reader)
            if status != 200:
                raise RuntimeError(body.decode())
            done = next(left)
            if done % 2 and done < 2 * rewards:
                told = {"id": json.loads(body)["id"], "reward": done % 4 // 2}
                writer.write(request("/v1/reward", told, server.port))
                await answer(reader)
            if done % max(n // samples, 1) == 0:
                found.append(server.memory())
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return found


def memory_report(n: int, most_arms: int, rewards: int) -> str:
    """What the server holds while 10,000 arms come and go."""
    with service(most_arms) as server:
        start = time.monotonic()
        found = asyncio.run(held(server, n, rewards))
        took = time.monotonic() - start
    rows = [
        [f"{(i + 1) / len(found):.0%}", f"{megabytes:,.0f}"]
        for i, megabytes in enumerate(found)
    ]
    return f"""## Memory of the service while 10,000 arms come and go

{n:,} decisions ({min(rewards, n // 2):,} rewards) in {took:,.0f} s, {ARMS} arms each out of {KNOWN} that are there at a
time; it remembers at most {most_arms:,} arms.

{table(["of the decisions", "MB"], rows)}
"""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument(
        "--memory",
        type=int,
        help="so many decisions while 10,000 arms come and go, instead",
    )
    parser.add_argument(
        "--most-arms",
        type=int,
        default=10_000,
        help="arms that the learners remember meanwhile",
    )
    parser.add_argument(
        "--rewards",
        type=int,
        default=10**9,
        help="at most so many, for every second decision",
    )
    asked = parser.parse_args()
    if asked.memory:
        print(memory_report(asked.memory, asked.most_arms, asked.rewards))
    else:
        print(report(asked.clients, asked.seconds, asked.rounds))


if __name__ == "__main__":
    main()
