"""What each part of `auto` buys: one thing changed at a time, on the open sets.

    python -m benchmarks.ablation --data ../shared/data/bakeoff --cap 1000 --shuffles 2

Mean progressive error over sets, and the mean over sets of the ratio to `auto` as it is, with its standard error.
"""

import argparse
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.contenders import wrong_share
from benchmarks.timing import table
from oddsmith.engines import each
from oddsmith.experts.ballots import InverseGap, Optimistic, PosteriorBest, Softened
from oddsmith.experts.features import Fourier, Joined, Plain, Products
from oddsmith.experts.learners import Forest, LearningExperts, Logistic, Ridge
from oddsmith.progress import progress

CURVED, FOREST = Ridge(Joined((Plain(), Fourier(128)))), Forest(16)
TWO, PRIOR = (CURVED, FOREST), (0.5, 0.05, 0.45)
Make = Callable[[list[str]], od.GeneralizedThompsonSampling]


def variant(
    learners: Any = TWO,
    blend: int = 2,
    prior: Any = PRIOR,
    ballots: Any = None,
    loss: Any = od.square_loss,
    eta: float = 2.0,
    gamma: float = 0.005,
) -> Make:
    """`auto` with something changed."""

    def make(arms: list[str]) -> od.GeneralizedThompsonSampling:
        bank = LearningExperts(arms, learners, blend=blend, ballots=ballots or Optimistic())
        return od.GeneralizedThompsonSampling(bank, loss, eta=eta, gamma=gamma, prior=prior)

    return make


def ridge(features: Any, strength: float = 0.3) -> Make:
    return variant((Ridge(features, strength),), 0, None)


VARIANTS: dict[str, Make] = {
    "auto": variant(),
    "experts: linear alone": ridge(Plain()),
    "experts: Fourier features alone": ridge(Fourier(128)),
    "experts: linear + Fourier, alone": ridge(CURVED.features),
    "experts: linear + products, alone": ridge(Joined((Plain(), Products(128)))),
    "experts: logistic, linear + Fourier, alone": variant((Logistic(CURVED.features),), 0, None),
    "experts: forest alone": variant((FOREST,), 0, None),
    "experts: no blend": variant(blend=0, prior=(0.9, 0.1)),
    "experts: the blend only": variant(prior=(0.0, 0.0, 1.0)),
    "experts: and a linear one": variant((CURVED, FOREST, Ridge(Plain())), 2, (0.3, 0.05, 0.2, 0.45)),
    "experts: and a logistic one": variant((CURVED, FOREST, Logistic(CURVED.features)), 2, (0.3, 0.05, 0.2, 0.45)),
    "experts: 64 waves": variant((Ridge(Joined((Plain(), Fourier(64)))), FOREST)),
    "experts: 256 waves, 32 trees": variant((Ridge(Joined((Plain(), Fourier(256)))), Forest(32))),
    "experts: scale 0.8": variant((Ridge(Joined((Plain(), Fourier(128, 0.8)))), FOREST)),
    "experts: scale 2": variant((Ridge(Joined((Plain(), Fourier(128, 2.0)))), FOREST)),
    "experts: ridge 1": variant((Ridge(CURVED.features, 1.0), FOREST)),
    "experts: ridge 0.1": variant((Ridge(CURVED.features, 0.1), FOREST)),
    "prior: uniform": variant(prior=None),
    "loss: square, eta 0.5": variant(eta=0.5),
    "loss: square, eta 8": variant(eta=8.0),
    "loss: log, eta 1": variant(loss=od.log_loss, eta=1.0),
    "gamma 0.001": variant(gamma=0.001),
    "gamma 0.02": variant(gamma=0.02),
    "gamma 0.05": variant(gamma=0.05),
    "votes: greedy": variant(ballots=Optimistic(0.0)),
    "votes: optimism 0.6": variant(ballots=Optimistic(0.6)),
    "votes: posterior best, scale 0.3": variant(ballots=PosteriorBest(0.3)),
    "votes: posterior best, scale 1": variant(ballots=PosteriorBest(1.0)),
    "votes: softened, temperature 0.02": variant(ballots=Softened()),
    "votes: inverse gap, 100": variant(ballots=InverseGap(100.0)),
}


def play(cell: tuple[str, Path, int, int]) -> tuple[float, float]:
    """Progressive error of one variant on one shuffle of one set, and µs per step."""
    name, path, shuffle, cap = cell
    with np.load(path) as arrays:
        x, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    order = np.random.default_rng([shuffle, 2018]).permutation(len(y))[:cap]
    policy, start = VARIANTS[name]([str(k) for k in range(int(y.max()) + 1)]), time.process_time()
    error = wrong_share(policy, x[order], y[order], [shuffle, 2019])
    return error, (time.process_time() - start) / len(order) * 1e6


def cells(sets: list[Path], shuffles: int, cap: int) -> Iterator[tuple[str, Path, int, int]]:
    return ((name, path, s, cap) for path in sets for s in range(shuffles) for name in VARIANTS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data/bakeoff"))
    parser.add_argument("--cap", type=int, default=1000)
    parser.add_argument("--shuffles", type=int, default=2)
    parser.add_argument("--widest", type=int, default=300, help="leave out sets of more numbers")
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    sets = [p for p in sorted(arguments.data.glob("*.npz")) if np.load(p)["X"].shape[1] <= arguments.widest]
    wanted = list(cells(sets, arguments.shuffles, arguments.cap))
    found: dict[str, dict[Path, list[float]]] = {name: {path: [] for path in sets} for name in VARIANTS}
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    results = each(play, wanted, engine="local", workers=arguments.workers)
    for place, (error, us) in progress(results, len(wanted), "cells"):
        found[wanted[place][0]][wanted[place][1]].append(error)
        times[wanted[place][0]].append(us)
    errors = {name: np.array([np.mean(by_set[path]) for path in sets]) for name, by_set in found.items()}
    rows = []
    for name, mine in errors.items():
        ratio = mine / errors["auto"]
        spread = ratio.std(ddof=1) / np.sqrt(len(sets))
        rows.append(
            [name, f"{mine.mean():.4f}", f"{ratio.mean():.3f} ± {spread:.3f}", f"{np.median(times[name]):,.0f}"]
        )
    print(f"{len(sets)} sets, {arguments.cap:,} rows at most, {arguments.shuffles} shuffles.\n")
    print(table(["changed", "mean error", "ratio to auto", "µs per step"], rows))


if __name__ == "__main__":
    main()
