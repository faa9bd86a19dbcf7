"""The bake-off: our policies and peers on the same rounds, family by family.

    python -m benchmarks.bakeoff --family labels --data ../shared/data/bakeoff
        --shuffles 3
    python -m benchmarks.bakeoff --family worlds --shuffles 3
    python -m benchmarks.bakeoff --family groups --data ../shared/data/choices
        --shuffles 3

`benchmarks.games` says what a round is, `benchmarks.entries` who takes part,
`benchmarks.standings` what is made of it. Regret is counted by true means: on labels it
is the number of wrong answers, on clicks that number times what a right answer is
worth. A finished cell (set, shuffle, configuration) is a line of the family's results
file, under a hash of the data, the library's version (our source, for ours), the
shuffle and the cap: run again, only what is missing is done. A cell that takes longer
than --cell-seconds is a DNF and is charged the regret of uniform play; one that, after
a fifth of that time, is on its way to more than twice of it is given up at once.
"""

import argparse
import ast
import json
import sys
import time
import warnings
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oddsmith
from benchmarks import click_worlds, standing_report
from benchmarks.entries import Entry, entries
from benchmarks.games import CHOICES, FAMILIES, NOISES, RULES, Game, choices, labelled
from oddsmith.logs.engines import ENGINES, each
from oddsmith.logs.progress import progress

HERE = Path(__file__).parent
SHARED = Path("../shared/data")


class Cell(NamedTuple):
    """One configuration on one shuffle of one set (a file, or the name of a world)."""

    path: str
    family: str
    noise: str
    shuffle: int
    cap: int
    library: str
    name: str
    seconds: float

    def key(self, data: str, build: str) -> str:
        """A hash of everything the result depends on, the machine's speed aside."""
        parts = [
            data,
            RULES,
            self.family,
            self.noise,
            self.shuffle,
            self.cap,
            self.library,
            self.name,
            build,
        ]
        return sha256(json.dumps(parts).encode()).hexdigest()[:24]


def build(entry: Entry) -> str:
    """The version of a library; for ours, a hash of the sources of which a policy is
    made."""
    return (
        source(entry.made_of) if entry.library == "oddsmith" else version(entry.library)
    )


@lru_cache
def source(made_of: tuple[str, ...]) -> str:
    root, content = Path(oddsmith.__file__).parent, sha256()
    for name in made_of:
        for path in (
            [root / name]
            if name.endswith(".py")
            else sorted((root / name).rglob("*.py"))
        ):
            content.update(
                f"{path.relative_to(root).as_posix()} {code(path.read_text())}".encode()
            )
    return content.hexdigest()[:32]


def code(text: str) -> str:
    """What a source says without its comments and docstrings, which change no
    result."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if (
            isinstance(body, list)
            and body
            and isinstance(body[0], ast.Expr)
            and isinstance(body[0].value, ast.Constant)
        ):
            del body[0]
    return ast.dump(tree)


def everyone(family: str) -> dict[tuple[str, str], Entry]:
    return {(entry.library, entry.name): entry for entry in entries(family, slow=True)}


def game(cell: Cell, *, standardised: bool) -> Game:
    """The rounds of a cell."""
    if cell.family == "worlds":
        return click_worlds.game(cell.path, shuffle=cell.shuffle, cap=cell.cap)
    rest: Any = {"shuffle": cell.shuffle, "cap": cell.cap, "standardised": standardised}
    if cell.family in CHOICES:
        return choices(Path(cell.path), cell.family, **rest)
    return labelled(Path(cell.path), cell.noise, **rest)


def play(cell: Cell) -> dict[str, Any]:
    """What a cell came to: its regret, that of uniform play, µs a step, and whether it
    finished."""
    entry = everyone(cell.family)[cell.library, cell.name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # those of the peers
        return played(game(cell, standardised=entry.standardised), entry, cell.seconds)


def played(given: Game, entry: Entry, seconds: float) -> dict[str, Any]:
    """One run over a game; `squares` are those of each round's regret."""
    n, player = len(given.rounds), entry.player(given)
    uniforms = np.random.default_rng([given.shuffle, 2019]).random(n).tolist()
    start, regrets, late = time.process_time(), np.zeros(n), False
    for t, now in enumerate(given.rounds):
        arm = player.act(now, uniforms[t])
        player.learn(float(now.rewards[arm]))
        regrets[t] = now.means.max() - now.means[arm]
        if t + 1 < n and (
            late := _late(seconds, time.process_time() - start, (t + 1) / n)
        ):
            break
    spent = time.process_time() - start
    blind = np.array([now.means.max() - now.means.mean() for now in given.rounds])
    return {
        "regret": float(blind.sum() if late else regrets.sum()),
        "squares": float((blind**2).sum() if late else (regrets**2).sum()),
        "uniform": float(blind.sum()),
        "steps": n,
        "arms": float(np.mean([len(now.names) for now in given.rounds])),
        "us": spent / (t + 1) * 1e6,
        "finished": not late,
    }


def _late(seconds: float, spent: float, share: float) -> bool:
    """Whether a cell took too long, or is on its way to."""
    return spent > seconds or (spent > seconds / 5 and spent / share > 2 * seconds)


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


def sets(arguments: argparse.Namespace) -> dict[str, str]:
    """Files or names of worlds that were asked for, each with a hash of its content."""
    if arguments.family == "worlds":
        found = dict.fromkeys(click_worlds.WORLDS, "")
    else:
        found = {str(path): "" for path in sorted(arguments.data.glob("*.npz"))}
    found = {
        path: ""
        for path in found
        if not arguments.sets or Path(path).stem in arguments.sets
    }
    if not found:
        sys.exit(
            f"sets must be .npz files of {arguments.data}, or worlds; got none that "
            "were asked for"
        )
    return {
        path: click_worlds.digest(path)
        if arguments.family == "worlds"
        else _content(path)
        for path in found
    }


def _content(path: str) -> str:
    """A hash of a set, with what is written about it."""
    about = Path(path).with_suffix(".json")
    return sha256(
        Path(path).read_bytes() + (about.read_bytes() if about.exists() else b"")
    ).hexdigest()


def cells(arguments: argparse.Namespace) -> Iterator[tuple[str, Cell]]:
    """All cells asked for, with their keys: the first shuffle of everything before the
    second."""
    hashes = sets(arguments)
    family = arguments.family
    chosen = [
        entry
        for entry in entries(family, slow=arguments.slow)
        if not arguments.only
        or any(word in f"{entry.library} {entry.name}" for word in arguments.only)
    ]
    for shuffle in range(arguments.shuffles):
        for entry in chosen:
            for noise in NOISES if family == "clicks" else ("",):
                for path, data in hashes.items():
                    seconds = min(entry.seconds, arguments.cell_seconds)
                    cell = Cell(
                        path,
                        family,
                        noise,
                        shuffle,
                        arguments.cap,
                        entry.library,
                        entry.name,
                        seconds,
                    )
                    yield cell.key(data, build(entry)), cell


def run(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    """All cells asked for, from the results file or played now."""
    known, wanted = read(arguments.results), dict(cells(arguments))
    # a cell that did not finish in less time than is allowed now is tried again
    missing = [
        key
        for key, cell in wanted.items()
        if key not in known
        or not (known[key]["finished"] or known[key]["seconds"] >= cell.seconds)
    ]
    if arguments.only_known:
        return [known[key] for key in wanted if key in known]
    known |= play_all({key: wanted[key] for key in missing}, arguments)
    return [known[key] for key in wanted]


def play_all(
    wanted: dict[str, Cell], arguments: argparse.Namespace
) -> dict[str, dict[str, Any]]:
    """These cells, played now and added to the results file, by key."""
    found, keys = {}, list(wanted)
    results = each(
        play, list(wanted.values()), engine=arguments.engine, workers=arguments.workers
    )
    with arguments.results.open("a") as file:
        for place, result in progress(results, len(keys), "cells"):
            cell = wanted[keys[place]]
            record = {
                "key": keys[place],
                "set": Path(cell.path).stem,
                **cell._asdict(),
                **result,
            }
            del record["path"]
            found[record["key"]] = record
            file.write(json.dumps(record) + "\n")
            file.flush()
    return found


def parsed(words: list[str] | None = None) -> argparse.Namespace:
    """The arguments of the command line, with what depends on the family filled in."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--family", choices=FAMILIES, default="labels")
    parser.add_argument(
        "--data",
        type=Path,
        help="folder of .npz files, or one with a folder for each family",
    )
    parser.add_argument(
        "--sets", nargs="*", default=(), help="names of sets (default: all)"
    )
    parser.add_argument(
        "--only", nargs="*", default=(), help="configurations with one of these words"
    )
    parser.add_argument(
        "--slow",
        action="store_true",
        help="libraries that take hours at 5,000 rows, too",
    )
    parser.add_argument("--shuffles", type=int, default=3)
    parser.add_argument(
        "--cap",
        type=int,
        help="rounds of a set, at most (default: 5000; for choices 2000)",
    )
    parser.add_argument(
        "--cell-seconds",
        type=float,
        default=300.0,
        help="CPU time of a cell before it is a DNF",
    )
    parser.add_argument("--engine", choices=ENGINES, default="local")
    parser.add_argument("--workers", type=int)
    parser.add_argument("--results", type=Path, help="results, read and added to")
    parser.add_argument(
        "--only-known",
        action="store_true",
        help="tables of what was played, playing nothing",
    )
    parser.add_argument("--out", type=Path, help="folder for tables and figures")
    arguments = parser.parse_args(words)
    family = arguments.family
    if arguments.data is None:
        arguments.data = SHARED / ("choices" if family in CHOICES else "bakeoff")
    if (arguments.data / family).is_dir():
        arguments.data = arguments.data / family
    if family != "worlds" and not arguments.data.is_dir():
        parser.error(f"data must be a folder of .npz files; got {arguments.data}")
    arguments.cap = arguments.cap or (2000 if family in CHOICES else 5000)
    arguments.results = arguments.results or HERE / "results" / f"{family}.jsonl"
    return arguments


def main() -> None:
    arguments = parsed()
    print(standing_report.report(run(arguments), arguments.out))


if __name__ == "__main__":
    main()
