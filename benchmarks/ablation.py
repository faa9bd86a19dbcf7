"""What each part of `auto` buys: one thing changed at a time, on the open sets.

    python -m benchmarks.ablation --family clicks --data ../shared/data/bakeoff --cap
        1000 --shuffles 2

Mean regret a round over sets, and the mean over sets of the ratio to `auto` as it is,
with its standard error.
"""

import argparse
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.bakeoff import Cell, game, played
from benchmarks.ballot_rules import InverseGap, PosteriorBest, Softened
from benchmarks.contenders import Ours
from benchmarks.entries import Entry
from benchmarks.games import LABELLED, NOISES
from benchmarks.timing import table
from oddsmith.experts.ballots import Optimistic
from oddsmith.experts.learners import Forest, LearningExperts, Ridge
from oddsmith.experts.learners.features import Curves, Plain
from oddsmith.logs.engines import each
from oddsmith.logs.progress import progress

CURVED, FOREST = Ridge(Curves(128)), Forest(16)
TWO, PRIOR = (CURVED, FOREST), (0.1, 0.1, 0.8)
Make = Callable[[list[str]], od.GeneralizedThompsonSampling]


def variant(
    learners: Any = TWO,
    blend: bool = True,
    prior: Any = PRIOR,
    ballots: Any = None,
    loss: Any = od.square_loss,
    eta: float = 2.0,
    gamma: float = 0.005,
) -> Make:
    """`auto` with something changed."""

    def make(arms: list[str]) -> od.GeneralizedThompsonSampling:
        bank = LearningExperts(
            arms, learners, blend=blend, ballots=ballots or Optimistic()
        )
        return od.GeneralizedThompsonSampling(
            bank, loss, eta=eta, gamma=gamma, prior=prior
        )

    return make


VARIANTS: dict[str, Make] = {
    "auto": variant(),
    "experts: linear alone": variant((Ridge(Plain()),), False, None),
    "experts: curves alone": variant((CURVED,), False, None),
    "experts: forest alone": variant((FOREST,), False, None),
    "experts: no blend": variant(blend=False, prior=(0.9, 0.1)),
    "experts: the blend only": variant(prior=(0.0, 0.0, 1.0)),
    "experts: and a linear one": variant(
        (CURVED, FOREST, Ridge(Plain())), True, (0.3, 0.05, 0.2, 0.45)
    ),
    "experts: 64 waves": variant((Ridge(Curves(64)), FOREST)),
    "experts: 256 waves, 32 trees": variant((Ridge(Curves(256)), Forest(32))),
    "experts: scale 0.8": variant((Ridge(Curves(128, 0.8)), FOREST)),
    "experts: scale 2": variant((Ridge(Curves(128, 2.0)), FOREST)),
    "ridge: 0.3/0.3 alone": variant((Ridge(CURVED.features, ((0.3, 0.3),)), FOREST)),
    "ridge: 1/3 alone": variant((Ridge(CURVED.features, ((1.0, 3.0),)), FOREST)),
    "ridge: 3/30 alone": variant((Ridge(CURVED.features, ((3.0, 30.0),)), FOREST)),
    "ridge: 0.1, 1, 10, 100": variant(
        (
            Ridge(
                CURVED.features, ((0.1, 0.1), (1.0, 1.0), (10.0, 10.0), (100.0, 100.0))
            ),
            FOREST,
        )
    ),
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


def play(cell: Cell) -> dict[str, Any]:
    """One variant on one shuffle of one set."""
    given = game(cell, standardised=False)
    return played(
        given,
        Entry(
            cell.name, "", lambda g: Ours(VARIANTS[cell.name](list(g.rounds[0].names)))
        ),
        np.inf,
    )


def cells(sets: list[Path], arguments: argparse.Namespace) -> Iterator[Cell]:
    noises = NOISES if arguments.family == "clicks" else ("",)
    for path, shuffle, noise, name in product(
        sets, range(arguments.shuffles), noises, VARIANTS
    ):
        yield Cell(
            str(path),
            arguments.family,
            noise,
            shuffle,
            arguments.cap,
            "oddsmith",
            name,
            np.inf,
        )


def rows(wanted: list[Cell], found: dict[int, dict[str, Any]]) -> Iterator[list[str]]:
    """A line for each variant: mean regret, the mean over sets of its ratio to auto's,
    and time."""
    regrets: dict[str, dict[tuple[str, str], list[float]]] = {}
    times: dict[str, list[float]] = {}
    for place, cell in enumerate(wanted):
        result = found[place]
        places = regrets.setdefault(cell.name, {}).setdefault(
            (cell.path, cell.noise), []
        )
        places.append(result["regret"] / result["steps"])
        times.setdefault(cell.name, []).append(result["us"])
    means = {
        name: np.array([np.mean(v) for v in by_set.values()])
        for name, by_set in regrets.items()
    }
    for name, mine in means.items():
        ratio = mine / np.maximum(means["auto"], 1e-9)
        spread = ratio.std(ddof=1) / np.sqrt(len(ratio))
        yield [
            name,
            f"{mine.mean():.4f}",
            f"{ratio.mean():.3f} ± {spread:.3f}",
            f"{np.median(times[name]):,.0f}",
        ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=LABELLED, default="labels")
    parser.add_argument("--data", type=Path, default=Path("../shared/data/bakeoff"))
    parser.add_argument("--cap", type=int, default=1000)
    parser.add_argument("--shuffles", type=int, default=2)
    parser.add_argument(
        "--widest", type=int, default=300, help="leave out sets of more numbers"
    )
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    sets = [
        p
        for p in sorted(arguments.data.glob("*.npz"))
        if np.load(p)["X"].shape[1] <= arguments.widest
    ]
    wanted = list(cells(sets, arguments))
    found = dict(
        progress(
            each(play, wanted, engine="local", workers=arguments.workers),
            len(wanted),
            "cells",
        )
    )
    print(
        f"{arguments.family}: {len(sets)} sets, {arguments.cap:,} rows at most, "
        f"{arguments.shuffles} shuffles.\n"
    )
    print(
        table(
            ["changed", "mean regret", "ratio to auto", "µs per step"],
            list(rows(wanted, found)),
        )
    )


if __name__ == "__main__":
    main()
