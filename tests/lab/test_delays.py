"""Arrivals of rewards: fixed and random delays, against a plain queue."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core import kernels
from oddsmith.lab import GeometricDelay, simulate
from oddsmith.lab.delays import arrivals
from oddsmith.lab.worlds import TableWorld


@pytest.mark.parametrize(
    "delay", [0, 3, 50, GeometricDelay(4.0), GeometricDelay(100.0)]
)
def test_arrivals_are_those_of_a_queue(delay: Any) -> None:
    steps = 40
    found = arrivals(delay, steps, np.random.default_rng(5))
    late = (
        delay(steps, np.random.default_rng(5))
        if callable(delay)
        else np.full(steps, delay)
    )
    waiting: list[tuple[int, int]] = []
    learnt: list[int] = []
    for t in range(steps):
        waiting.append((t + int(late[t]), t))
        due = sorted(item for item in waiting if item[0] <= t)
        waiting = [item for item in waiting if item[0] > t]
        learnt += [s for _, s in due]
        assert found.arrived[t] == len(learnt)
    assert found.order.tolist() == learnt


def test_geometric_delays_have_their_mean() -> None:
    """100,000 draws of variance 12·13; 5 standard errors are 0.2."""
    drawn = GeometricDelay(12.0)(100_000, np.random.default_rng(0))
    assert drawn.min() == 0
    assert abs(drawn.mean() - 12.0) < 0.2


def test_both_paths_wait_alike() -> None:
    table = np.clip(np.random.default_rng(7).beta(2, 2, (6, 8, 3)), 0.05, 0.95)
    policy, world = (
        od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.1),
        TableWorld(table[:, 0]),
    )
    runs = {}
    for choice in ("numpy", "numba"):
        kernels.use(choice)
        runs[choice] = simulate(
            policy, world, steps=300, runs=5, delay=GeometricDelay(20.0)
        )
    kernels.use("auto")
    np.testing.assert_array_equal(runs["numpy"].arms, runs["numba"].arms)
    assert runs["numpy"].state.learnt == runs["numba"].state.learnt < 300


@pytest.mark.parametrize(
    "wrong", [-1, 1.5, True, "late", lambda steps, rng: np.full(steps, -1)]
)
def test_wrong_delays(wrong: Any) -> None:
    with pytest.raises(od.InvalidInput, match="delay must"):
        arrivals(wrong, 5, np.random.default_rng(0))
    with pytest.raises(od.InvalidInput, match="mean must"):
        GeometricDelay(-1.0)
