"""A simulated step: the compiled path for finite worlds against numpy over replicates, and its growth with experts."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.timing import interleaved, table
from oddsmith import kernels
from oddsmith.lab import simulate
from oddsmith.worlds import TableWorld

CONTEXTS, ARMS = 20, 10


def simulated(policy: Any, world: Any, choice: str, steps: int, runs: int) -> int:
    kernels.use(choice)
    simulate(policy, world, steps=steps, runs=runs)
    return steps * runs


def problem(n: int) -> tuple[Any, Any]:
    experts = np.random.default_rng(0).uniform(0.05, 0.95, (CONTEXTS, n, ARMS))
    policy = od.GeneralizedThompsonSampling(od.TableExperts(experts), eta=0.01, gamma=0.02)
    return policy, TableWorld(experts[:, 0])


def report() -> str:
    rows = []
    for n in (8, 64, 1_024, 16_384, 65_536):
        policy, world = problem(n)
        steps, runs = (500, 100) if n <= 64 else (100, 20) if n <= 1_024 else (50, 6)
        contenders: dict[str, Callable[[], int]] = {
            choice: partial(simulated, policy, world, choice, steps, runs) for choice in ("numpy", "numba")
        }
        timings = interleaved(contenders, rounds=5)
        slow, fast = timings["numpy"].cpu, timings["numba"].cpu
        rows.append([f"{n:,}", f"{slow:.3g}", f"{fast:.3g}", f"{slow / fast:.1f}×", f"{n * ARMS / fast * 1e6:.2g}"])
    kernels.use("auto")
    header = ["experts", "numpy, µs", "compiled, µs", "ratio", "expert-arm-steps/s"]
    return f"""## A simulated step

{CONTEXTS} contexts, {ARMS} arms, CPU time per run and step; numpy has the runs as a leading axis, the compiled path
does one run after the other with the votes of every context in a table, and draws the same arms.

{table(header, rows)}
"""
