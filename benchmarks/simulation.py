"""A simulated step: the compiled path for finite worlds against numpy over replicates,
and against the machine."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.timing import Timing, interleaved, table
from oddsmith.core import kernels
from oddsmith.files.reports.style import COLOURS, EDGE, legend, panels, save
from oddsmith.lab import simulate
from oddsmith.lab.worlds import TableWorld

CONTEXTS, ARMS = 20, 10
EXPERTS = (8, 64, 256, 1_024, 4_096, 16_384, 65_536)
# numbers that fit in the first cache, and numbers that fit in none
CACHED, LARGE = 2_048, 4_000_000
# an expert's log weight and weight, read and written, its vote and its advice, per step
BYTES = 16 + 16 + 8 + 8


def simulated(policy: Any, world: Any, choice: str, steps: int, runs: int) -> int:
    kernels.use(choice)
    simulate(policy, world, steps=steps, runs=runs)
    return steps * runs


def problem(n: int) -> tuple[Any, Any]:
    experts = np.random.default_rng(0).uniform(0.05, 0.95, (CONTEXTS, n, ARMS))
    policy = od.GeneralizedThompsonSampling(
        od.TableExperts(experts), eta=0.01, gamma=0.02
    )
    return policy, TableWorld(experts[:, 0])


def limits() -> dict[str, Callable[[], int]]:
    """What this machine can do: exponentials of numbers in the cache by our own kernel,
    and bytes copied."""
    from numba import njit

    from oddsmith.experts.kernels.vectormath import exp

    @njit(error_model="numpy")  # type: ignore[untyped-decorator]
    def exponentials(x: Any, y: Any, times: int) -> None:
        for _ in range(times):
            for i in range(x.size):
                y[i] = exp(x[i])

    x, y = np.linspace(-5, 0, CACHED), np.empty(CACHED)
    source, target = np.ones(LARGE), np.empty(LARGE)

    def exps() -> int:
        exponentials(x, y, 200)
        return 200 * CACHED

    def copied() -> int:
        np.copyto(target, source)
        return 2 * source.nbytes

    return {"exp": exps, "copy": copied}


def measure() -> dict[int, dict[str, Timing]]:
    """For each number of experts both paths and both limits, interleaved."""
    measured = {}
    for n in EXPERTS:
        policy, world = problem(n)
        steps, runs = (500, 100) if n <= 64 else (100, 20) if n <= 4_096 else (50, 6)
        paths: dict[str, Callable[[], int]] = {
            choice: partial(simulated, policy, world, choice, steps, runs)
            for choice in ("numpy", "numba")
        }
        measured[n] = interleaved(paths | limits(), rounds=5)
    kernels.use("auto")
    return measured


def draw(measured: dict[int, dict[str, Timing]], path: Path) -> None:
    figure, (panel,) = panels()
    for i, (choice, label) in enumerate(
        (("numpy", "numpy, runs as an axis"), ("numba", "compiled"))
    ):
        panel.plot(
            EXPERTS,
            [measured[n][choice].cpu for n in EXPERTS],
            "os"[i] + "-",
            color=COLOURS[i],
            label=label,
        )
    last = measured[EXPERTS[-1]]["numba"].cpu
    panel.plot(
        EXPERTS,
        [last * n / EXPERTS[-1] for n in EXPERTS],
        ":",
        color=EDGE,
        label="in proportion to experts",
    )
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="experts",
        ylabel="µs per simulated step (CPU)",
    )
    panel.set_title(f"Simulated steps, {ARMS} arms")
    legend(panel)
    save(figure, path)


def report(figures: Path) -> str:
    measured = measure()
    draw(measured, figures / "simulation.svg")
    rows = []
    for n, timings in measured.items():
        slow, fast = timings["numpy"].cpu, timings["numba"].cpu
        exps, copy = 1 / timings["exp"].cpu * 1e6, 1 / timings["copy"].cpu * 1e6
        row = [
            f"{n:,}",
            f"{slow:.3g}",
            f"{fast:.3g}",
            f"{slow / fast:.1f}×",
            f"{n * ARMS / fast * 1e6:.2g}",
        ]
        per_second = n / fast * 1e6
        row += [
            f"{per_second:.2g}",
            f"{exps:.2g}",
            f"{2 * per_second / exps:.0%}",
            f"{BYTES * per_second / copy:.0%}",
        ]
        rows.append([*row, f"{copy / 1e9:.1f}"])
    header = [
        "experts",
        "numpy, µs",
        "compiled, µs",
        "ratio",
        "expert-arm-steps/s",
        "expert-steps/s",
    ]
    header += ["exp/s here", "2 exps per expert", "bytes", "copy, GB/s"]
    return f"""## A simulated step

{CONTEXTS} contexts, {ARMS} arms, CPU time per run and step. With numpy, the runs are a leading axis. The compiled code
simulates one run after the other, with the votes of every context in a table, and draws the same arms. The same rounds
measure the limits of the machine: exponentials of numbers in the cache (*exp/s here*) and bytes copied between large
arrays (*copy*). In each step every expert needs an exponential (its weight) and a logarithm (its loss): *2 exps per expert*
is their share of the arithmetic limit. *bytes* is the share of the memory limit if all {BYTES} bytes per expert and
step came from memory. Up to 16,384 experts they come from the caches.

{table(header, rows)}

![µs per simulated step against the number of experts](figures/simulation.svg)
"""
