"""Interleaved timing: every contender runs one chunk per round, so that a busy machine slows all of them alike."""

import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple


class Timing(NamedTuple):
    """Microseconds per step: medians over the rounds of CPU time of the thread, and of wall time."""

    cpu: float
    wall: float


def interleaved(contenders: dict[str, Callable[[], int]], rounds: int) -> dict[str, Timing]:
    """Time each contender once per round; a contender returns how many steps it did."""
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # warm up: imports, compilation, caches
    for _ in range(rounds):
        for name, run in contenders.items():
            wall_start, cpu_start = time.perf_counter(), time.thread_time()
            steps = run()
            cpu[name].append((time.thread_time() - cpu_start) / steps * 1e6)
            wall[name].append((time.perf_counter() - wall_start) / steps * 1e6)
    return {name: Timing(statistics.median(cpu[name]), statistics.median(wall[name])) for name in contenders}


def machine(packages: tuple[str, ...]) -> str:
    """The machine and the versions, for the head of the results."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else ():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    versions = ", ".join(f"{name} {version(name)}" for name in packages)
    return f"{model}, {platform.system()}, Python {platform.python_version()}; {versions}"


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    marks = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, marks, *rows])
