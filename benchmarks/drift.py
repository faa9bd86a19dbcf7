"""Time-ordered sets in their own order, and worlds that change: `auto` with and without
`share`.

    python -m benchmarks.drift --data ../shared/data/bakeoff

In their own order, the first rows of a set, 5,000 at most. Changed worlds: shuffled
rows whose answers turn by one class every 1,500 rows. Each the mean over runs that
differ in their draws.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from benchmarks.contenders import Ours
from benchmarks.games import Round
from benchmarks.timing import table
from oddsmith.logs.engines import each

ORDERED = ("eeg_eye_state", "bank_marketing", "ozone_1hr", "wall_robot24")
CHANGED = ("pendigits", "wall_robot24")
SHARES, ROWS, TURN = (0.0, 1e-5, 1e-4, 1e-3), 5000, 1500


def wrong_share(policy: Any, x: Any, y: Any, seed: list[int]) -> float:
    """The progressive error of one of our policies over labelled rows."""
    player, right = Ours(policy), np.eye(int(y.max()) + 1)
    none, wrong = np.zeros((len(right), 0)), 0.0
    for context, answer, uniform in zip(
        x, y, np.random.default_rng(seed).random(len(y)).tolist(), strict=True
    ):
        now = Round(context, none, (), right[answer], right[answer])
        reward = float(now.rewards[player.act(now, uniform)])
        player.learn(reward)
        wrong += 1 - reward
    return wrong / len(y)


def rows_of(path: Path, changed: bool) -> tuple[Any, Any, int]:
    with np.load(path) as arrays:
        x, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    n_arms = int(y.max()) + 1
    if changed:
        order = np.random.default_rng(0).permutation(len(y))
        x, y = x[order], (y[order] + np.arange(len(y)) // TURN) % n_arms
    return x[:ROWS], y[:ROWS], n_arms


def error(cell: tuple[Path, bool, float, int]) -> float:
    """The progressive error of one run."""
    path, changed, share, run = cell
    x, y, n_arms = rows_of(path, changed)
    return wrong_share(
        od.auto([str(k) for k in range(n_arms)], share=share), x, y, [run, 2019]
    )


def cells(data: Path, runs: int) -> Iterator[tuple[Path, bool, float, int]]:
    for changed, names in ((False, ORDERED), (True, CHANGED)):
        for name in names:
            for share in SHARES:
                for run in range(runs):
                    yield data / f"{name}.npz", changed, share, run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/bakeoff"))
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--workers", type=int)
    arguments = parser.parse_args()
    wanted = list(cells(arguments.data, arguments.runs))
    found: dict[tuple[str, bool, float], list[float]] = {}
    for place, value in each(error, wanted, engine="local", workers=arguments.workers):
        path, changed, share, _ = wanted[place]
        found.setdefault((path.stem, changed, share), []).append(value)
    rows = []
    for name, changed in [(n, False) for n in ORDERED] + [(n, True) for n in CHANGED]:
        means = [np.mean(found[name, changed, share]) for share in SHARES]
        spread = (
            np.std(found[name, changed, 0.0], ddof=1) / np.sqrt(arguments.runs)
            if arguments.runs > 1
            else np.nan
        )
        label = f"{name}, {'turned every 1,500 rows' if changed else 'own order'}"
        rows.append(
            [
                label,
                f"{means[0]:.4f} ± {spread:.4f}",
                *(f"{m:.4f} ({m / means[0]:.2f}×)" for m in means[1:]),
            ]
        )
    print(
        table(["set", "no share", *(f"share {share:g}" for share in SHARES[1:])], rows)
    )


if __name__ == "__main__":
    main()
