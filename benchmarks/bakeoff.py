"""The bake-off: every labelled set of a folder as a bandit, our policies and peers on the same shuffles.

    python -m benchmarks.bakeoff --data ../shared/data/bakeoff --shuffles 5 --cap 5000
    python -m benchmarks.bakeoff --family groups --shuffles 2 --cap 2000

Progressive error: each row is shown once, in an order that belongs to the shuffle; the error is the share of wrong
answers. With --family, sets of choices among items with features (`benchmarks.choices` says what a round is): regret to
the best item of each round, against Vowpal Wabbit. A finished cell (set, shuffle, configuration) is a line of the
results file, under a hash of the data, the library's version (our source, for ours), the shuffle and the cap: run
again, only what is missing is done. A cell that takes longer than --cell-seconds is a DNF and is charged the error of
uniform play; one that, after a fifth of that time, is on its way to more than twice of it is given up at once.
"""

import argparse
import json
import sys
import time
import warnings
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks import choice_standings, standings
from benchmarks.choices import FAMILIES, RULES, game
from benchmarks.choosers import Entry, entries
from benchmarks.contenders import Contender, ours, peers
from oddsmith.engines import ENGINES, each
from oddsmith.fingerprint import source_digest
from oddsmith.progress import progress

HERE = Path(__file__).parent


class Cell(NamedTuple):
    """One configuration on one shuffle of one set."""

    path: str
    shuffle: int
    cap: int
    library: str
    name: str
    seconds: float
    family: str = ""

    def key(self, data: str) -> str:
        """A hash of everything the result depends on, the machine's speed aside."""
        build = source_digest() if self.library == "oddsmith" else version(self.library)
        parts = [data, self.shuffle, self.cap, self.library, self.name, build]
        if self.family:
            parts += [self.family, RULES]
        return sha256(json.dumps(parts).encode()).hexdigest()[:24]


def contenders() -> dict[tuple[str, str], Contender]:
    return {(c.library, c.name): c for c in [*ours(), *peers()]}


def choosers(family: str) -> dict[tuple[str, str], Entry]:
    return {(c.library, c.name): c for c in entries(family)}


def play(cell: Cell) -> dict[str, Any]:
    """What a cell came to: error or regret, µs per step, and whether it finished."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the peers
        return play_choices(cell) if cell.family else play_labels(cell)


def play_labels(cell: Cell) -> dict[str, Any]:
    """The progressive error on labelled rows."""
    with np.load(cell.path) as arrays:
        x, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    contender, n_arms = contenders()[cell.library, cell.name], int(y.max()) + 1
    if contender.standardised:
        sd = x.std(axis=0)
        x = (x - x.mean(axis=0)) / np.where(sd > 0, sd, 1.0)
    order = np.random.default_rng([cell.shuffle, 2018]).permutation(len(y))[: cell.cap]
    uniforms = np.random.default_rng([cell.shuffle, 2019]).random(len(order)).tolist()
    player = contender.player(n_arms, x.shape[1], cell.shuffle)
    wrong, steps, seconds = _played(player, x[order], y[order], uniforms, cell)
    finished = steps == len(order)
    error = wrong / steps if finished else 1 - 1 / n_arms
    return {
        "error": error,
        "steps": len(order),
        "arms": n_arms,
        "us": seconds / max(steps, 1) * 1e6,
        "finished": finished,
    }


def _played(player: Any, x: Any, y: Any, uniforms: list[float], cell: Cell) -> tuple[float, int, float]:
    start, wrong = time.process_time(), 0.0
    for t in range(len(y)):
        reward = float(player.act(x[t], uniforms[t]) == y[t])
        player.learn(reward)
        if hasattr(player, "tell"):
            player.tell(int(y[t]))
        wrong += 1 - reward
        spent = time.process_time() - start
        if _late(cell, spent, (t + 1) / len(y)):
            return wrong, t + 1 if t + 1 < len(y) else t, spent
    return wrong, len(y), time.process_time() - start


def play_choices(cell: Cell) -> dict[str, Any]:
    """The regret to the best item of each round, summed, and that of uniform play."""
    entry = choosers(cell.family)[cell.library, cell.name]
    played = game(Path(cell.path), cell.family, shuffle=cell.shuffle, cap=cell.cap, standardised=entry.standardised)
    n, chooser = len(played.rounds), entry.chooser(played)
    uniforms = np.random.default_rng([cell.shuffle, 2019]).random(n).tolist()
    start, regret, finished, t = time.process_time(), 0.0, True, 0
    for t, (now, uniform) in enumerate(zip(played.rounds, uniforms, strict=True), start=1):
        reward = float(now.rewards[chooser.act(now, uniform)])
        chooser.learn(reward)
        regret += float(now.rewards.max()) - reward
        if t < n and _late(cell, time.process_time() - start, t / n):
            finished = False
            break
    uniform_regret = sum(float(now.rewards.max() - now.rewards.mean()) for now in played.rounds)
    return {
        "regret": regret if finished else uniform_regret,
        "uniform": uniform_regret,
        "steps": n,
        "arms": float(np.mean([len(now.names) for now in played.rounds])),
        "us": (time.process_time() - start) / t * 1e6,
        "finished": finished,
    }


def _late(cell: Cell, spent: float, share: float) -> bool:
    """Whether a cell took too long, or is on its way to."""
    return spent > cell.seconds or (spent > cell.seconds / 5 and spent / share > 2 * cell.seconds)


def read(path: Path) -> dict[str, dict[str, Any]]:
    """The results so far, by key; a line that was cut off is left out."""
    found = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            record = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[record["key"]] = record
    return found


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All cells asked for, from the results file or played now."""
    sets = sorted(arguments.data.glob("*.npz"))
    if arguments.sets:
        sets = [path for path in sets if path.stem in arguments.sets]
    if not sets:
        sys.exit(f"data must be a folder with .npz files; got {arguments.data} without any that were asked for")
    known, hashes = read(arguments.results), {path: _content(path, arguments.family) for path in sets}
    everyone = choosers(arguments.family) if arguments.family else contenders()
    chosen = [c for c in everyone if not arguments.only or any(word in " ".join(c) for word in arguments.only)]
    cells = {
        cell.key(hashes[path]): cell
        for shuffle in range(arguments.shuffles)
        for path in sets
        for library, name in chosen
        for cell in [
            Cell(str(path), shuffle, arguments.cap, library, name, arguments.cell_seconds, arguments.family or "")
        ]
    }
    # a cell that did not finish in less time than is allowed now is tried again
    done = {key for key, r in known.items() if r["finished"] or r["seconds"] >= arguments.cell_seconds}
    missing = [key for key in cells if key not in done]
    results = each(play, [cells[key] for key in missing], engine=arguments.engine, workers=arguments.workers)
    with arguments.results.open("a") as file:
        for place, result in progress(results, len(missing), "cells"):
            cell = cells[missing[place]]
            record = {"key": missing[place], "set": Path(cell.path).stem, **cell._asdict(), **result}
            del record["path"]
            known[record["key"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    return [known[key] for key in cells]


def _content(path: Path, family: str | None) -> str:
    """A hash of a set, with what is written about it where rounds depend on that."""
    about = path.with_suffix(".json").read_bytes() if family else b""
    return sha256(path.read_bytes() + about).hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=FAMILIES, help="choices among items with features (default: labels)")
    parser.add_argument("--data", type=Path, help="folder of .npz files (default: that of the family in ../shared)")
    parser.add_argument("--sets", nargs="*", default=(), help="names of sets (default: all)")
    parser.add_argument("--only", nargs="*", default=(), help="configurations with one of these words")
    parser.add_argument("--shuffles", type=int, default=5)
    parser.add_argument("--cap", type=int, default=5000, help="rows of a set, at most")
    parser.add_argument("--cell-seconds", type=float, default=300.0, help="CPU time of a cell before it is a DNF")
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--results", type=Path, help="results, read and added to")
    parser.add_argument("--out", type=Path, help="folder for tables and figures")
    arguments = parser.parse_args()
    family = arguments.family
    arguments.data = arguments.data or Path("../shared/data") / (f"choices/{family}" if family else "bakeoff")
    arguments.results = arguments.results or HERE / ("choices.jsonl" if family else "bakeoff.jsonl")
    if not arguments.data.is_dir():
        sys.exit(f"data must be a folder of .npz files; got {arguments.data}")
    records = run(arguments)
    print((choice_standings if family else standings).report(records, arguments.out))


if __name__ == "__main__":
    main()
