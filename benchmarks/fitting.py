"""Learning from a log: `fit_log` next to a bare pyarrow-to-numpy loop with the same
arithmetic, and its memory."""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.timing import table
from benchmarks.told import Compared, Told, release

EVENTS, EXPERTS, ARMS, CHUNK = 5_000_000, 64, 10, 250_000
SIZES = (0.1, 0.25, 0.5, 1.0)  # shares of the events, for the cost's growth
ROUNDS = 3


def generate(path: Path, events: int) -> None:
    """A log with advice of all experts as fixed-size lists, chunk by chunk."""
    import pyarrow as pa
    from pyarrow import parquet

    rng, writer = np.random.default_rng(0), None
    for start in range(0, events, CHUNK):
        n = min(CHUNK, events - start)
        advice = rng.uniform(0.02, 0.98, n * EXPERTS)
        columns = {
            "arm": rng.integers(ARMS, size=n),
            "reward": (rng.random(n) < 0.3).astype(np.float64),
            "propensity": np.full(n, 1 / ARMS),
            "advice": pa.FixedSizeListArray.from_arrays(pa.array(advice), EXPERTS),
        }
        chunk = pa.table(columns)
        writer = writer or parquet.ParquetWriter(
            path, chunk.schema, compression="none", use_dictionary=False
        )
        writer.write_table(chunk)
    if writer is not None:
        writer.close()


def policy() -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(
        od.GivenExperts([f"expert {i}" for i in range(EXPERTS)]), gamma=0.0
    )


def ours(path: Path) -> Any:
    """The log weights by `fit_log`, in one process."""
    return od.fit_log(
        policy(), path, reader=od.logs.LogReader(experts=policy().experts.names)
    ).state.log_weights


def bare(path: Path) -> Any:
    """The same log weights without a library: no check of anything, one logarithm for
    each prediction."""
    from pyarrow import parquet

    total = np.zeros(EXPERTS)
    # as ours; as it comes it is slower
    file = parquet.ParquetFile(path, pre_buffer=False, buffer_size=2**20)
    for batch in file.iter_batches(65_536, columns=["reward", "advice"]):
        advice = batch.column("advice").flatten().to_numpy().reshape(-1, EXPERTS)
        won = batch.column("reward").to_numpy()[:, None] == 1
        for start in range(0, len(advice), 1024):
            rows = slice(start, start + 1024)
            total += np.log(np.where(won[rows], advice[rows], 1 - advice[rows])).sum(
                axis=0
            )
    log_weights = 0.5 * total
    return log_weights - log_weights.max()


LOOPS: dict[str, Callable[[Path], Any]] = {"fit_log": ours, "bare loop": bare}


def measured(path: Path, loop: str) -> dict[str, Any]:
    """Seconds of wall and CPU, and the peak of memory in MB, in a process of its
    own."""
    command = [sys.executable, "-m", "benchmarks.fitting", str(path), loop]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def child(path: Path, loop: str) -> dict[str, Any]:
    """One run, after imports."""
    LOOPS[loop](path.with_name("warm.parquet"))
    wall, cpu = time.perf_counter(), time.process_time()
    log_weights = LOOPS[loop](path)
    took = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    return took | {
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        "weights": log_weights.tolist(),
    }


def race(folder: Path, events: int) -> dict[str, dict[str, Any]]:
    """Medians over interleaved rounds of each loop on one log."""
    path = folder / f"{events}.parquet"
    generate(path, events)
    runs: dict[str, list[dict[str, Any]]] = {loop: [] for loop in LOOPS}
    for _ in range(ROUNDS):
        for loop, found in runs.items():
            found.append(measured(path, loop))
    path.unlink()
    return {
        loop: {
            key: statistics.median(run[key] for run in found)
            for key in ("wall", "cpu", "peak")
        }
        | {"weights": np.array(found[0]["weights"])}
        for loop, found in runs.items()
    }


def draw(sizes: list[int], seconds: dict[str, list[float]], path: Path) -> None:
    from oddsmith.files.reports.style import (
        COLOURS,
        DASHES,
        MARKERS,
        legend,
        panels,
        save,
    )

    figure, (panel,) = panels()
    for i, (loop, values) in enumerate(seconds.items()):
        style: Any = {"color": COLOURS[i], "ls": DASHES[i], "marker": MARKERS[i]}
        panel.plot(np.array(sizes) / 1e6, values, ms=6, label=loop, **style)
    panel.set(
        xlabel="events, millions",
        ylabel="seconds of CPU",
        xlim=(0, None),
        ylim=(0, None),
    )
    panel.set_title(f"Learning from a log, {EXPERTS} experts, one process", fontsize=11)
    legend(panel)
    save(figure, path)


def report(figures: Path, events: int = EVENTS) -> Told:
    sizes = [int(events * share) for share in SIZES]
    with tempfile.TemporaryDirectory() as name:
        generate(Path(name) / "warm.parquet", 2_000)
        races = [race(Path(name), size) for size in sizes]
    seconds = {loop: [found[loop]["cpu"] for found in races] for loop in LOOPS}
    draw(sizes, seconds, figures / "fitting.svg")
    rows = []
    for size, found in zip(sizes, races, strict=True):
        mine, theirs = found["fit_log"], found["bare loop"]
        row = [
            f"{size:,}",
            f"{mine['wall']:.1f}",
            f"{theirs['wall']:.1f}",
            f"{mine['cpu']:.1f}",
            f"{theirs['cpu']:.1f}",
        ]
        row += [
            f"{mine['cpu'] / theirs['cpu']:.2f}×",
            f"{mine['cpu'] / size * 1e6:.2f}",
            f"{mine['peak']:,.0f}",
        ]
        rows.append(
            [
                *row,
                (
                    f"{np.abs(mine['weights'] - theirs['weights']).max() / np.abs(theirs['weights']).max():.0e}"
                ),
            ]
        )
    header = [
        "events",
        "fit_log, s",
        "bare loop, s",
        "fit_log, CPU s",
        "bare loop, CPU s",
        "ratio",
        "CPU µs/event",
    ]
    peer = f"a bare loop, {release('pyarrow')} to {release('numpy')}"
    compared = Compared(
        f"learning from {sizes[-1]:,} events", peer, mine["cpu"], theirs["cpu"], "CPU s"
    )
    text = f"""## Learning from a log

`fit_log` in one process is compared with a minimal loop from pyarrow to numpy, which reads the same two columns and sums the
same log losses without checks: {EXPERTS} experts, advice stored as fixed-size lists in Parquet. Each run is a process
of its own; medians of {ROUNDS} interleaved rounds. *ratio* is of CPU time; *peak* is the process's memory; *apart* is
the largest difference of the log weights, relative to the largest of them.

{table([*header, "peak, MB", "apart"], rows)}

![seconds against events](figures/fitting.svg)
"""
    return Told(text, (compared,))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("loop", choices=tuple(LOOPS))
    arguments = parser.parse_args()
    print(json.dumps(child(arguments.path, arguments.loop)))


if __name__ == "__main__":
    main()
