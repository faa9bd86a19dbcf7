"""What the checks of policies and worlds cost: simulated steps with and without them,
in short interleaved rounds; run `python -m benchmarks.checks`.

A round plays each contender once, in turns from the front and from the back. The answer
is the median over rounds of the ratio of two processor times, so that a busy machine
changes little; the same ratio of two contenders that are equal is the control. Other
processes empty the caches, which also takes processor time, so the ratio of the
quickest rounds is beside it.
"""

import statistics
import time
from collections.abc import Callable
from unittest.mock import patch

import oddsmith as od
from benchmarks.timing import table
from oddsmith.lab import checks, simulate
from oddsmith.lab.worlds import TableWorld
from oddsmith.lab.worlds.tables import random_table

RUNS = (1, 20, 1000)
ARMS = (3, 10)
ROUNDS = 61


class World(TableWorld):
    """A subclass, which is simulated step by step."""


def contender(runs: int, arms: int, *, checked: bool) -> Callable[[], float]:
    """A simulation of GTS over 32 experts, as it is or without its checks; it returns
    the microseconds per step."""
    predictions = random_table(10, 32, arms)
    policy = od.GeneralizedThompsonSampling(od.TableExperts(predictions), gamma=0.05)
    world = World(predictions[:, 0])
    steps = 512 if runs < 1000 else 64
    add = checks.StepChecks.add if checked else _nothing

    def run() -> float:
        with patch.object(checks.StepChecks, "add", add):
            start = time.process_time_ns()
            simulate(policy, world, steps=steps, runs=runs)
            spent = time.process_time_ns() - start
        return spent / steps / 1e3

    return run


def _nothing(*_: object) -> None:
    """Check nothing."""


def main() -> None:
    """Print the time of a step with checks over that without, and the control."""
    rows = []
    for runs in RUNS:
        for arms in ARMS:
            contenders = [
                contender(runs, arms, checked=checked)
                for checked in (True, False, False)
            ]
            times: list[list[float]] = [[], [], []]
            for number in range(ROUNDS + 1):
                order = (0, 1, 2) if number % 2 else (2, 1, 0)
                for place in order:
                    spent = contenders[place]()
                    if number:  # the first round loads what is needed
                        times[place].append(spent)
            checked, plain, again = times
            ratios = [a / b for a, b in zip(checked, plain, strict=True)]
            controls = [a / b for a, b in zip(again, plain, strict=True)]
            columns = [
                f"{statistics.median(checked):.1f}",
                f"{statistics.median(plain):.1f}",
                f"{statistics.median(ratios):.3f}",
                f"{statistics.median(controls):.3f}",
                f"{_tenth(checked) / _tenth(plain):.3f}",
                f"{_tenth(again) / _tenth(plain):.3f}",
            ]
            rows.append([f"{runs:,}", str(arms), *columns])
    header = ["runs", "arms", "CPU µs per step, checked", "unchecked", "ratio"]
    quick = ["ratio of first tenths", "its control"]
    print(table([*header, "control", *quick], rows))


def _tenth(times: list[float]) -> float:
    """The time that a tenth of the rounds did not take: near that of an idle
    machine."""
    return statistics.quantiles(times, n=10)[0]


if __name__ == "__main__":
    main()
