"""What the checks of policies and worlds cost: simulated steps with and without them,
in interleaved rounds; run `python -m benchmarks.checks`."""

from collections.abc import Callable
from contextlib import ExitStack
from unittest.mock import patch

import oddsmith as od
from benchmarks.timing import interleaved, table
from oddsmith.lab import checks, simulate
from oddsmith.lab.worlds import TableWorld
from oddsmith.lab.worlds.tables import random_table

RUNS = (1, 20, 1000)
ARMS = (3, 10)
ROUNDS = 21


class World(TableWorld):
    """A subclass, which is simulated step by step."""


def contender(runs: int, arms: int, *, checked: bool) -> Callable[[], int]:
    """A simulation of GTS over 32 experts, as it is or without its checks."""
    predictions = random_table(10, 32, arms)
    policy = od.GeneralizedThompsonSampling(od.TableExperts(predictions), gamma=0.05)
    world = World(predictions[:, 0])
    steps = 320 if runs < 1000 else 64

    def run() -> int:
        with ExitStack() as patches:
            if not checked:
                patches.enter_context(patch.object(checks.StepChecks, "add", _nothing))
            simulate(policy, world, steps=steps, runs=runs)
        return steps

    return run


def _nothing(*_: object) -> None:
    """Check nothing."""


def main() -> None:
    """Print a table with the time of a step with checks over that without."""
    rows = []
    for runs in RUNS:
        for arms in ARMS:
            timings = interleaved(
                {
                    "with": contender(runs, arms, checked=True),
                    "without": contender(runs, arms, checked=False),
                },
                ROUNDS,
            )
            ratio = timings["with"].cpu / timings["without"].cpu
            times = [f"{timings[name].cpu:.1f}" for name in ("with", "without")]
            rows.append([f"{runs:,}", str(arms), *times, f"{ratio:.3f}"])
    header = ["runs", "arms", "CPU µs per step, checked", "unchecked", "ratio"]
    print(table(header, rows))


if __name__ == "__main__":
    main()
