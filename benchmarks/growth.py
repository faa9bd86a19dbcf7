"""How a step grows with experts and arms, and how far large banks are from the memory's
limit."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.timing import Timing, interleaved, table
from oddsmith.core import kernels
from oddsmith.files.reports.style import COLOURS, EDGE, MARKERS, legend, panels, save

EXPERTS, ARMS, FEATURES = (8, 64, 512, 4_096, 65_536), (2, 10, 100), 20
LARGE, LARGE_ARMS, LARGE_FEATURES = (65_536, 262_144, 1_000_000), 10, 16


def stepper(bank: Any, contexts: Any, choice: str) -> Callable[[], int]:
    """Decide and update, bare policy, over the contexts."""
    policy = od.GeneralizedThompsonSampling(
        od.LinearExperts(bank), eta=0.01, gamma=0.02
    )
    states = [policy.init()]

    def run() -> int:
        kernels.use(choice)
        for t, context in enumerate(contexts):
            decision = od.decide(
                policy, states[0], context, (t * 0.37) % 1.0, step=t + 1
            )
            states[0] = policy.update(states[0], decision, float(t % 2))
        return len(contexts)

    return run


def growth() -> dict[tuple[int, int], dict[str, Timing]]:
    rng = np.random.default_rng(0)
    measured = {}
    for n in EXPERTS:
        bank = rng.normal(size=(n, FEATURES)) / np.sqrt(FEATURES)
        for k in ARMS:
            contexts = rng.normal(
                size=(max(3, min(400, 2_000_000 // (n * k))), k, FEATURES)
            )
            runs = {
                choice: stepper(bank, contexts, choice) for choice in ("numpy", "numba")
            }
            measured[n, k] = interleaved(runs, rounds=7)
    return measured


def draw(measured: dict[tuple[int, int], dict[str, Timing]], path: Path) -> None:
    figure, (panel,) = panels()
    for i, k in enumerate(ARMS):
        for choice, dash in (("numpy", "--"), ("numba", "-")):
            line = [measured[n, k][choice].cpu for n in EXPERTS]
            panel.plot(
                EXPERTS,
                line,
                dash,
                color=COLOURS[i],
                marker=MARKERS[i],
                ms=4,
                label=f"{k} arms, {choice}",
            )
    panel.plot(
        EXPERTS[2:],
        [0.012 * n for n in EXPERTS[2:]],
        ":",
        color=EDGE,
        label="in proportion to experts",
    )
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="experts",
        ylabel="µs per decision and reward (CPU)",
    )
    panel.set_title(f"One exact step: all odds, all weights ({FEATURES} features)")
    legend(panel)
    save(figure, path)


def reader(values: Any) -> Callable[[], int]:
    flat = values.reshape(-1)

    def run() -> int:
        np.dot(flat, flat)
        return 1

    return run


def copier(values: Any) -> Callable[[], int]:
    target = np.empty_like(values)

    def run() -> int:
        np.copyto(target, values)
        return 1

    return run


def large() -> list[list[str]]:
    """Rows: the step against reading all weight vectors once, and its traffic against a
    plain copy."""
    rng, rows = np.random.default_rng(1), []
    for n in LARGE:
        for dtype in (np.float64, np.float32):
            bank = rng.normal(size=(n, LARGE_FEATURES)).astype(dtype)
            contexts = rng.normal(size=(3, LARGE_ARMS, LARGE_FEATURES)).astype(dtype)
            runs = {
                "numpy": stepper(bank, contexts, "numpy"),
                "numba": stepper(bank, contexts, "numba"),
            }
            timings = interleaved(
                runs | {"read": reader(bank), "copy": copier(bank)}, rounds=5
            )
            # read the bank, write and read the predictions, read and write the log
            # weights and the advice
            least = bank.nbytes + 2 * n * LARGE_ARMS * bank.itemsize + 4 * n * 8
            bandwidth = 2 * bank.nbytes / timings["copy"].wall
            row = [f"{n:,}", np.dtype(dtype).name, f"{timings['read'].wall / 1e3:.2f}"]
            for choice in ("numpy", "numba"):
                row += [
                    f"{timings[choice].wall / 1e3:.1f}",
                    f"{timings[choice].wall / timings['read'].wall:.1f}×",
                ]
            rows.append(
                [
                    *row,
                    f"{least / timings['numba'].wall / bandwidth:.0%}",
                    f"{bandwidth / 1e3:.1f}",
                ]
            )
    return rows


def report(figures: Path) -> str:
    measured = growth()
    draw(measured, figures / "growth.svg")
    header = [
        "experts",
        *(f"K={k}, {choice}" for k in ARMS for choice in ("numpy", "numba")),
    ]
    cells = [
        [
            f"{n:,}",
            *(
                f"{measured[n, k][c].cpu:,.1f}"
                for k in ARMS
                for c in ("numpy", "numba")
            ),
        ]
        for n in EXPERTS
    ]
    limits = [
        "experts",
        "dtype",
        "read once, ms",
        "numpy, ms",
        "÷ read",
        "numba, ms",
        "÷ read",
        "traffic",
        "copy, GB/s",
    ]
    rows = large()
    kernels.use("auto")
    return f"""## Growth with experts and arms

µs of CPU per decision and reward, bare policy, {FEATURES} features.

{table(header, cells)}

![µs per step against the number of experts](figures/growth.svg)

## Large banks against the memory

{LARGE_ARMS} arms, {LARGE_FEATURES} features, wall time. *÷ read* is the time of a step divided by the time of
reading all weight vectors once. *traffic* is the smallest number of bytes per second that an exact step must move (bank in,
predictions out and in, log weights and advice), as a share of the speed of a plain copy in the same run.

{table(limits, rows)}
"""
