"""A sweep for tests: two worlds, two policies, three seeds; run as a script it sweeps
into a folder."""

import sys
from pathlib import Path

import numpy as np

import oddsmith as od
from oddsmith.lab import Cell, GeometricDelay, grid, sweep
from oddsmith.lab.worlds import Beta, SwitchingWorld, TableWorld

TABLE = np.clip(np.random.default_rng(7).beta(2, 2, (6, 8, 3)), 0.05, 0.95)


def cells(steps: int = 200) -> list[Cell]:
    """Twelve cells, on the compiled path and off it."""
    still, other = TableWorld(TABLE[:, 0]), TableWorld(TABLE[:, 1])
    experts = od.TableExperts(TABLE)
    policies = {
        "plain": od.GeneralizedThompsonSampling(experts, gamma=0.05),
        "sharing": od.GeneralizedThompsonSampling(experts, gamma=0.05, share=0.01),
    }
    worlds = {
        "still": still,
        "switching": SwitchingWorld([still, other], until=[steps // 2]),
    }
    return grid(
        policies,
        worlds,
        seeds=range(3),
        steps=steps,
        runs=4,
        delay=GeometricDelay(3.0),
        noise=Beta(4.0),
    )


if __name__ == "__main__":
    sweep(cells(int(sys.argv[2])), Path(sys.argv[1]), engine="local", workers=2)
