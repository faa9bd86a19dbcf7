"""The page over a million events: how soon it is painted, and what each route that it
reads costs.

    python -m benchmarks.page_million [--events 1000000] [--store FOLDER]

The store of `benchmarks.restart`, one decision a second up to now, so that all ranges
of time are full; the service starts from a snapshot 10,000 events back. Times count
from the moment that the browser is given the address.
"""

import argparse
import sqlite3
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.idle import cpu_of, served
from benchmarks.page_browser import Browser
from benchmarks.restart import fill
from benchmarks.timing import table

RANGES = ("hour", "day", "week", "all")
ROUTES = {
    **{f"series, {range_}": f"/v1/series?range={range_}" for range_ in RANGES},
    "posterior/history": "/v1/posterior/history",
    "values": "/v1/values",
    "checks": "/v1/checks",
    "stats": "/v1/stats",
    "posterior": "/v1/posterior",
    "decisions, 50": "/v1/decisions?limit=50",
    "decisions, one without reward": "/v1/decisions?limit=1&reward=none",
    "experiments": "/v1/experiments",
    "changes": "/v1/changes",
}
_TIMES = 20


def route_row(http: httpx.Client, pid: int, name: str) -> list[str]:
    """Milliseconds, of the server's CPU and until the answer is there, and its
    bytes."""
    body = http.get(ROUTES[name]).raise_for_status().content
    used, start = cpu_of(pid), time.perf_counter()
    for _ in range(_TIMES):
        http.get(ROUTES[name])
    took, cpu = time.perf_counter() - start, cpu_of(pid) - used
    return [
        name,
        f"{cpu / _TIMES * 1000:.1f}",
        f"{took / _TIMES * 1000:.1f}",
        f"{len(body):,}",
    ]


def snapshot_bytes(folder: Path) -> int:
    """The size of the newest snapshot."""
    connection = sqlite3.connect(folder / "load.sqlite")
    try:
        ((size,),) = connection.execute(
            "select length(content) from snapshots order by position desc limit 1"
        )
    finally:
        connection.close()
    return int(size)


def measure(folder: Path, looks: int) -> str:
    """The page and its routes over this store."""
    start = time.perf_counter()
    with served([folder / "load.toml"]) as (http, pid):
        ready = time.perf_counter() - start
        url = f"{http.base_url}/dashboard/"
        seen = []
        for _ in range(looks):
            with Browser(url) as browser:
                seen.append([f"{browser.paint_ms:,.0f}", f"{browser.drawn_ms:,.0f}"])
        head = http.get("/v1/changes").json()["head"]
        routes = [route_row(http, pid, name) for name in ROUTES]
    size = snapshot_bytes(folder) / 1e3
    looked = [[f"{turn + 1}", *one] for turn, one in enumerate(seen)]
    return f"""{head:,} events, a snapshot of {size:,.0f} kB; ready {ready:.1f} s after the start of its process.

{table(["look", "first paint ms", "all panels ms"], looked)}

{table(["route", "CPU ms", "ms", "bytes"], routes)}
"""


def report(events: int = 1_000_000, looks: int = 3, store: str | None = None) -> str:
    """The part of the section."""
    if store is not None:
        return measure(Path(store), looks)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        fill(folder, events, snapshot=True, since=time.time() - events / 2)
        return measure(folder, looks)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--looks", type=int, default=3)
    parser.add_argument("--store", help="a folder that was filled before")
    asked = parser.parse_args()
    print(report(asked.events, asked.looks, asked.store))


if __name__ == "__main__":
    main()
