"""What the page costs the service: CPU and latencies at 200 decisions a second, without
a page, with one, in turns.

    python -m benchmarks.page [--rounds 3] [--seconds 20] [--rate 200] [--policies
        news,bank]

`oddsmith serve` on SQLite (synchronous FULL). `news` is the README's policy (auto,
three articles with each call, a click on one of them), `bank` has 64 linear experts and
8 fixed arms; every decision gets a reward. The client is paced: eight connections, each
decision at its time. "open" is Chromium with the page, at the lowest priority. "one"
sends what that page had sent, at the same moments and without a browser, which takes
time from server and client where they share cores. "ten" sends it ten times over, a
tenth of a second apart: on a machine with other work the cost of one page is less than
the noise, and a tenth of the cost of ten is not. The server's CPU is that of
/proc/PID/stat.
"""

import argparse
import asyncio
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import count, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import numpy as np

from benchmarks import page_million
from benchmarks.idle import cpu_of, served
from benchmarks.page_browser import Asked, Browser, find_chromium
from benchmarks.service_load import FEATURES, answer, policy_file, request
from benchmarks.timing import table

RATE, CONNECTIONS = 200.0, 8
PAGES = {"none": 0, "open": 1, "one": 1, "ten": 10}
_CONNECTIONS_OF_BROWSERS = 60
_ABOUT = """\
`oddsmith serve` on SQLite (synchronous FULL), every decision with a reward. `news` is the README's policy, `bank` has
64 linear experts and 8 arms. CPU is the server's. "What it asks" is what the open page had sent, at the same moments,
without a browser that draws on the same cores; "what ten ask" is that ten times over, and its "more" for one page.
""".strip()
_TITLES = {
    "none": "no page",
    "open": "a page open",
    "one": "what it asks, no browser",
    "ten": "what ten ask",
}


class Phase(NamedTuple):
    """Some seconds of load: the server's share of a core, latencies of decisions,
    decisions and reads a second."""

    share: float
    p50_ms: float
    p99_ms: float
    rate: float
    reads: float
    errors: int


class Traffic(NamedTuple):
    """What is asked for, in turn, and the reward of an arm."""

    bodies: list[dict[str, Any]]
    reward: Callable[[str, int], float]


def news(folder: Path) -> Path:
    """The README's policy file."""
    path = folder / "news.toml"
    path.write_text('[policy]\nkind = "auto"\n')
    return path


def news_traffic() -> Traffic:
    """The README's visitors, who read one article and nothing else."""
    arms = {
        "article-17": {"topic": "sports"},
        "article-18": {"topic": "tech"},
        "article-19": {"topic": "tech"},
    }
    return Traffic(
        [{"context": {"hour": i}, "arms": arms} for i in range(24)],
        lambda arm, _: arm == "article-19",
    )


def bank_traffic() -> Traffic:
    """Contexts of 16 numbers."""
    rows = np.random.default_rng(1).normal(size=(256, FEATURES)).round(4)
    return Traffic(
        [{"context": row} for row in rows.tolist()], lambda _, turn: turn % 2
    )


POLICIES = {"news": (news, news_traffic), "bank": (policy_file, bank_traffic)}


class Client:
    """A paced client: so many decisions a second, each with its reward."""

    def __init__(self, port: int, traffic: Traffic) -> None:
        self.port, self._traffic, self._turns = port, traffic, count()
        self.latencies: list[float] = []
        self.errors = 0

    async def run(self, seconds: float, rate: float) -> None:
        """Send, each decision at its time, until the time is over."""
        start = time.perf_counter()
        times = (start + turn / rate for turn in range(int(seconds * rate)))
        await asyncio.gather(*(self._connection(times) for _ in range(CONNECTIONS)))

    async def _connection(self, times: Iterator[float]) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        bodies, reward = self._traffic
        for when in times:
            await asyncio.sleep(max(0.0, when - time.perf_counter()))
            turn = next(self._turns)
            start = time.perf_counter()
            writer.write(request("/v1/decide", bodies[turn % len(bodies)], self.port))
            status, body = await answer(reader)
            self.latencies.append(time.perf_counter() - start)
            decided = json.loads(body) if status == 200 else {"id": "", "arm": ""}
            told = {"id": decided["id"], "reward": float(reward(decided["arm"], turn))}
            writer.write(request("/v1/reward", told, self.port))
            self.errors += (status != 200) + ((await answer(reader))[0] != 200)
        writer.close()


async def ask(port: int, asked: Iterable[tuple[float, bytes]]) -> None:
    """Send these requests, each so many seconds from now, over as many connections as
    ten browsers have."""
    start, free = time.perf_counter(), asyncio.Queue[Any]()
    for _ in range(_CONNECTIONS_OF_BROWSERS):
        free.put_nowait(await asyncio.open_connection("127.0.0.1", port))

    async def one(after: float, content: bytes) -> None:
        await asyncio.sleep(start + after - time.perf_counter())
        reader, writer = await free.get()
        writer.write(content)
        await answer(reader)
        free.put_nowait((reader, writer))

    await asyncio.gather(*(one(*each) for each in asked))
    while not free.empty():
        free.get_nowait()[1].close()


async def _phase(
    pid: int,
    client: Client,
    asked: list[tuple[float, bytes]],
    seconds: float,
    rate: float,
) -> Phase:
    before, start = cpu_of(pid), time.perf_counter()
    await asyncio.gather(client.run(seconds, rate), ask(client.port, asked))
    took = time.perf_counter() - start
    share = (cpu_of(pid) - before) / took
    p50, p99 = (
        float(value)
        for value in np.percentile(np.array(client.latencies) * 1000, [50, 99])
    )
    return Phase(
        share, p50, p99, len(client.latencies) / took, len(asked) / took, client.errors
    )


def measure(
    policy: str, rounds: int, seconds: float, rate: float
) -> dict[str, list[Phase]]:
    """All kinds of phases in turns, after one to warm up."""
    make, traffic = POLICIES[policy]
    found: dict[str, list[Phase]] = {kind: [] for kind in PAGES}
    with (
        tempfile.TemporaryDirectory() as place,
        served([make(Path(place))]) as (http, pid),
    ):
        asked: list[tuple[float, bytes]] = []
        port = httpx.URL(str(http.base_url)).port or 0

        def phase(lasts: float, content: list[tuple[float, bytes]]) -> Phase:
            return asyncio.run(
                _phase(pid, Client(port, traffic()), content, lasts, rate)
            )

        phase(5.0, [])
        for _ in range(rounds):
            found["none"].append(phase(seconds, []))
            with Browser(f"http://127.0.0.1:{port}/dashboard/") as browser:
                time.sleep(2.0)
                start = time.time()
                seen = phase(seconds, [])
                asked = _between(browser.close(), start, start + seconds)
            found["open"].append(seen._replace(reads=len(asked) / seconds))
            time.sleep(1.0)
            for kind in ("one", "ten"):
                found[kind].append(phase(seconds, _copies(asked, PAGES[kind])))
        found["none"].append(phase(seconds, []))
    return found


def _between(asked: list[Asked], start: float, end: float) -> list[tuple[float, bytes]]:
    return [(one.time - start, one.content) for one in asked if start <= one.time < end]


def _copies(asked: list[tuple[float, bytes]], pages: int) -> list[tuple[float, bytes]]:
    return [
        (after + page / pages, content)
        for after, content in asked
        for page in range(pages)
    ]


def rows(policy: str, found: dict[str, list[Phase]]) -> list[list[str]]:
    """Medians over the rounds, and the difference to what as many decisions take
    without a page."""
    told = []
    for place, (kind, phases) in enumerate(found.items()):
        more = _more(phases, found["none"], place / len(found)) if place else []
        more = [one / PAGES[kind] for one in more]
        tail = [one.p99_ms for one in phases]
        told.append(
            [
                f"{policy}: {_TITLES[kind]}",
                f"{_median(one.share for one in phases):.1%}",
                ""
                if kind == "none"
                else f"{_median(more):+.2%} ({min(more):+.2%} … {max(more):+.2%})",
                f"{_median(one.reads for one in phases):.1f}",
                f"{_median(one.p50_ms for one in phases):.2f}",
                f"{_median(tail):.1f} ({min(tail):.1f} … {max(tail):.1f})",
                f"{_median(one.rate for one in phases):.0f}",
                str(sum(one.errors for one in phases)),
            ]
        )
    return told


def _more(phases: list[Phase], none: list[Phase], place: float) -> list[float]:
    """The share beyond that of as many decisions without a page, by the phases before
    and after: what is learnt makes decisions dearer.
    """
    each = [one.share / one.rate for one in none]
    alone = [(1 - place) * before + place * after for before, after in pairwise(each)]
    return [
        one.share - one.rate * cost for one, cost in zip(phases, alone, strict=True)
    ]


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))


def load_report(
    policies: Iterable[str], rounds: int, seconds: float, rate: float
) -> str:
    """The table of phases."""
    header = [
        "200 decisions/s",
        "share of a core",
        "more, of a core",
        "reads/s",
        "p50 ms",
        "p99 ms",
        "decisions/s",
        "errors",
    ]
    header[0] = f"{rate:.0f} decisions/s"
    found = [
        row
        for policy in policies
        for row in rows(policy, measure(policy, rounds, seconds, rate))
    ]
    return f"""{rounds} rounds of {seconds:.0f} s in turns, medians (lowest … highest). "more" is beyond what as many
decisions took without a page, before and after. {os.cpu_count()} cores that client, server, browser and others share
(load {os.getloadavg()[1]:.1f}).

{table(header, found)}
"""


def report(
    policies: Iterable[str] = POLICIES,
    rounds: int = 3,
    seconds: float = 8.0,
    rate: float = RATE,
) -> str:
    """The section of RESULTS.md."""
    head = f"## The dashboard beside the service\n\n{_ABOUT}\n\n"
    if find_chromium() is None:
        return (
            f"{head}Not measured: there is no Chromium, or no Playwright "
            "(requirements/browser.txt).\n"
        )
    return (
        f"{head}{load_report(policies, rounds, seconds, rate)}\n{page_million.report()}"
    )


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rate", type=float, default=RATE)
    parser.add_argument("--policies", default=",".join(POLICIES))
    asked = parser.parse_args()
    print(
        load_report(asked.policies.split(","), asked.rounds, asked.seconds, asked.rate)
    )


if __name__ == "__main__":
    main()
