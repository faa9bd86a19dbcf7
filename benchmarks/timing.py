"""Interleaved timing: every contender runs one chunk per round, so that a busy machine
slows all of them alike."""

import platform
import statistics
import time
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import NamedTuple


class Timing(NamedTuple):
    """Microseconds per step: medians over the rounds of CPU time of the thread, and of
    wall time; the mean CPU time of all of them, in which what happens seldom counts;
    the longest step.
    """

    cpu: float
    wall: float
    mean: float = 0.0
    longest: float = 0.0


def interleaved(
    contenders: Mapping[str, Callable[[], int | list[int]]], rounds: int
) -> dict[str, Timing]:
    """Time each contender once per round; it returns how many steps it did, or
    nanoseconds of CPU for each of them."""
    longest = dict.fromkeys(contenders, 0.0)
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    for run in contenders.values():
        run()  # warm up: imports, compilation, caches
    for _ in range(rounds):
        for name, run in contenders.items():
            wall_start, cpu_start = time.perf_counter(), time.thread_time()
            done = run()
            cpu_spent, wall_spent = (
                time.thread_time() - cpu_start,
                time.perf_counter() - wall_start,
            )
            steps = done if isinstance(done, int) else len(done)
            cpu[name].append(cpu_spent / steps * 1e6)
            wall[name].append(wall_spent / steps * 1e6)
            if not isinstance(done, int):
                longest[name] = max(longest[name], max(done) / 1e3)
    return {
        name: Timing(
            statistics.median(cpu[name]),
            statistics.median(wall[name]),
            statistics.mean(cpu[name]),
            longest[name],
        )
        for name in contenders
    }


def machine(packages: tuple[str, ...]) -> str:
    """The machine and the versions of packages that are there, for the head of the
    results."""
    model = platform.processor() or platform.machine()
    for line in (
        Path("/proc/cpuinfo").read_text().splitlines()
        if Path("/proc/cpuinfo").exists()
        else ()
    ):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    versions = ", ".join(
        f"{name} {found}" for name in packages if (found := _version(name))
    )
    return (
        f"{model}, {platform.system()}, Python {platform.python_version()}; {versions}"
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def table(header: list[str], rows: list[list[str]]) -> str:
    """A Markdown table, numbers to the right."""
    marks = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in [header, marks, *rows])
