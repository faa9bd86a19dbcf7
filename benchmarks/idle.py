"""What idle experiments cost: CPU, threads and open files of `oddsmith serve`, with a
limit of 1,024 files.

    python -m benchmarks.idle [--experiments 2000] [--seconds 60]

A third of the experiments have reward windows of ten seconds, a quarter erases contexts
that are a second old (looked at every twenty seconds here, and hourly otherwise). Each
is asked for a decision before; then there is no call for the given time, by which
windows have closed and contexts are erased; then each is asked again.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import numpy as np

from oddsmith.server.store import SQLiteReader

__all__ = ["Cost", "cpu_of", "idle", "report", "served"]

FILES = 1024
_BEFORE = "import oddsmith.server.experiment.experiment as e\ne._ERASE_EVERY = 20.0\n"


class Cost(NamedTuple):
    """What was measured; `unanswered`, `open_windows` and `contexts` should be 0."""

    start_s: float
    share: float
    threads: int
    files: int
    megabytes: float
    call_ms: float
    unanswered: int
    open_windows: int
    contexts: int


def policy_files(folder: Path, count: int) -> list[Path]:
    """Policy files of small experiments."""
    np.savez(
        folder / "lines.npz",
        weights=np.random.default_rng(0).normal(size=(4, 3, 2)),
        names=list("abcd"),
    )
    return [_policy_file(folder, number) for number in range(count)]


def _policy_file(folder: Path, number: int) -> Path:
    window = "window_s = 10\n" * (number % 3 == 0)
    erase = "erase_after_days = 1e-5\n" * (number % 4 == 0)
    text = (
        f'name = "e{number}"\narms = ["a", "b", "c"]\nseed = 5\n[experts.lines]\n'
        'kind = "linear"\n'
    )
    path = folder / f"e{number}.toml"
    path.write_text(
        f'{text}file = "lines.npz"\n[service]\ntimeout_ms = 60000\n{window}{erase}'
    )
    return path


@contextmanager
def served(
    files: Sequence[Path], before: str = ""
) -> Iterator[tuple[httpx.Client, int]]:
    """`oddsmith serve` with at most 1,024 open files, once it is ready: a client, and
    its process."""
    log = files[0].with_suffix(".log")
    code = (
        f"import sys\n{before}from oddsmith.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", code, "serve", *map(str, files), "--port", "0"]
    with open(log, "w") as said:
        server = subprocess.Popen(
            ["sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"', *command],
            stdout=said,
            stderr=said,
        )
    try:
        while not (
            found := re.search(r"listening on http://\S+:(\d+)", log.read_text())
        ):
            if server.poll() is not None:
                raise RuntimeError(log.read_text()[-2000:])
            time.sleep(0.1)
        with httpx.Client(
            base_url=f"http://127.0.0.1:{found[1]}", timeout=60
        ) as client:
            while client.get("/readyz").status_code != 200:
                time.sleep(0.5)
            yield client, server.pid
    finally:
        server.terminate()
        server.wait(120)


def idle(folder: Path, count: int, seconds: float, before: str = "") -> Cost:
    """The cost of so many experiments that are not called for so many seconds."""
    files = policy_files(folder, count)
    start = time.perf_counter()
    with served(files, _BEFORE + before) as (client, pid):
        started = time.perf_counter() - start
        start = time.perf_counter()
        refused = sum(not _decide(client, number) for number in range(count))
        call_ms = (time.perf_counter() - start) / count * 1000
        time.sleep(_REST)
        used = cpu_of(pid)
        time.sleep(seconds)
        share = (cpu_of(pid) - used) / seconds
        threads, open_files = (
            len(os.listdir(f"/proc/{pid}/task")),
            len(os.listdir(f"/proc/{pid}/fd")),
        )
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
        left = [_left(folder / f"e{number}.sqlite", number) for number in range(count)]
        refused += sum(not _decide(client, number) for number in range(count))
    memory = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    windows, contexts = (sum(column) for column in zip(*left, strict=True))
    return Cost(
        started, share, threads, open_files, memory, call_ms, refused, windows, contexts
    )


_ABOUT = """\
SQLite with a limit of 1,024 open files. After one call to each experiment there is a minute without calls. A third of the
experiments have windows of ten seconds, a quarter erase contexts after a second. *A call in turn* opens a store and closes another.
""".strip()
_REST = 40.0  # seconds until windows have closed and stores rest


def _decide(client: httpx.Client, number: int) -> bool:
    answer = client.post(
        "/v1/decide", json={"experiment": f"e{number}", "context": [0.1, 0.2]}
    )
    return answer.status_code == 200


def _left(path: Path, number: int) -> tuple[int, int]:
    """Windows that should be closed and are not, and contexts that should be erased and
    are there."""
    with SQLiteReader(path) as reader:
        tally, ((contexts,),) = (
            reader.tally(),
            reader._fetch("select count(*) from contexts"),
        )
    is_open = number % 3 == 0 and tally.get("default", 0) < tally["decision"]
    return int(is_open), contexts if number % 4 == 0 else 0


def cpu_of(pid: int) -> float:
    """Seconds of CPU that a process has taken."""
    user, system = (
        Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    )
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def report(count: int = 2000, seconds: float = 60.0) -> str:
    """The table."""
    with tempfile.TemporaryDirectory() as folder:
        cost = idle(Path(folder), count, seconds)
    head = (
        "| experiments | ready after s | idle: share of a core | threads | files | MB "
        "| ms a call in turn |"
    )
    row = (
        f"| {count:,} | {cost.start_s:.0f} | {cost.share:.2%} | {cost.threads} | "
        f"{cost.files} | {cost.megabytes:,.0f} | {cost.call_ms:.1f} |"
    )
    told = (
        f"Calls without a response: {cost.unanswered}; windows still open: "
        f"{cost.open_windows}; contexts not erased: "
    )
    lines = [
        "## Idle experiments",
        "",
        _ABOUT,
        "",
        head,
        "|" + "---:|" * 7,
        row,
        "",
        f"{told}{cost.contexts}.",
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--experiments", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=60.0)
    asked = parser.parse_args()
    print(report(asked.experiments, asked.seconds))
