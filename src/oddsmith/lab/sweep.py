"""sweep: policies x worlds x seeds on any engine; every finished cell is kept, so that
a sweep can be resumed."""

import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from oddsmith.core.errors import InvalidInput, NoVersion, import_extra
from oddsmith.core.policy import Policy
from oddsmith.files.dependencies import changed_parts, dependencies
from oddsmith.files.disk import replacing
from oddsmith.files.fingerprint import source_digest
from oddsmith.lab.delays import Delay
from oddsmith.lab.simulate import check_seed, simulate
from oddsmith.lab.worlds.world import Noise, World
from oddsmith.logs.engines import each
from oddsmith.logs.progress import progress

__all__ = ["Cell", "grid", "sweep"]

# steps of each run that are written down, from 1 to the last, evenly on a log scale
_POINTS = 25
_ORDER = ("world", "policy", "seed", "run", "step")
# metadata of a cell's file
_NAME = b"cell"
_PARTS = b"parts"
_MOST_NAMES = 5


@dataclass(frozen=True, eq=False)
class Cell:
    """One policy in one world with one seed, under names for the table."""

    policy: str
    world: str
    seed: int
    plays: Policy
    where: World
    steps: int
    runs: int = 1
    delay: int | Delay = 0
    noise: Noise | None = None

    @property
    def name(self) -> str:
        """The policy, world and seed."""
        return f"{self.policy} in {self.world}, seed {self.seed}"

    @cached_property
    def parts(self) -> dict[str, str]:
        """The digest of everything the result depends on, by name: settings, the user's
        own code and data, packages and the source of oddsmith."""
        if self.plays.unversioned:
            raise NoVersion(
                f"policy {self.policy!r} must tell its models apart; give ModelExperts "
                "a version"
            )
        settings = {
            f"the policy {self.policy!r}": self.plays,
            f"the world {self.world!r}": self.where,
            "delay": self.delay,
            "noise": self.noise,
            "seed": self.seed,
            "steps": self.steps,
            "runs": self.runs,
        }
        return {"oddsmith": source_digest()} | dependencies(settings)

    def key(self) -> str:
        """A hash of everything the result depends on."""
        content = json.dumps([self.name, self.parts], sort_keys=True)
        return sha256(content.encode()).hexdigest()[:32]


def grid(
    policies: Mapping[str, Policy],
    worlds: Mapping[str, World],
    *,
    seeds: Iterable[int] = (0,),
    steps: int,
    runs: int = 1,
    delay: int | Delay = 0,
    noise: Noise | None = None,
) -> list[Cell]:
    """All combinations of policies, worlds and seeds."""
    numbers = list(seeds)
    for seed in numbers:
        check_seed(seed)
    return [
        Cell(policy, world, int(seed), plays, where, steps, runs, delay, noise)
        for world, where in worlds.items()
        for policy, plays in policies.items()
        for seed in numbers
    ]


def sweep(
    cells: Iterable[Cell],
    out: Path | str,
    *,
    engine: str = "local",
    workers: int | None = None,
) -> Any:
    """The table of all cells (a `pyarrow.Table`), also written to out/table.parquet.

    One row for each run and each of some 25 steps: policy, world, seed, run, step, and
    the regret and reward so far. Every finished cell is a file in out/cells, named by a
    hash of its settings and of your own code that it runs: started again, a sweep does
    only what is missing, and says on standard error which cells are computed again
    because something changed. The rows are sorted, and the same whatever the engine and
    the number of workers.
    """
    found = list(cells)
    if not found:
        raise InvalidInput("cells must not be empty; got 0 of them")
    names = [(cell.policy, cell.world, cell.seed) for cell in found]
    if len(set(names)) < len(names):
        policy, world, seed = next(name for name in names if names.count(name) > 1)
        raise InvalidInput(
            f"cells must differ in policy, world or seed; got {policy} in {world}, "
            f"seed {seed}, twice"
        )
    keys = [cell.key() for cell in found]
    folder = Path(out) / "cells"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob(".*.part"):  # of a sweep that was killed while it wrote
            part.unlink()
    except OSError as error:
        raise InvalidInput(
            f"out must be a folder that can be written to; {error}"
        ) from error
    tables = {
        i: table
        for i, key in enumerate(keys)
        if (table := _finished(folder / f"{key}.parquet")) is not None
    }
    missing = [i for i in range(len(found)) if i not in tables]
    _report_changes([found[i] for i in missing], folder)
    results = each(play, [found[i] for i in missing], engine=engine, workers=workers)
    for place, columns in progress(results, len(missing), "cells"):
        i = missing[place]
        about = {_NAME: found[i].name, _PARTS: json.dumps(found[i].parts)}
        table = _arrow().table(columns).replace_schema_metadata(about)
        _write(table, folder / f"{keys[i]}.parquet")
        tables[i] = table
    bare = [tables[i].replace_schema_metadata(None) for i in range(len(found))]
    whole = _arrow().concat_tables(bare)
    whole = whole.sort_by([(name, "ascending") for name in _ORDER])
    _write(whole, Path(out) / "table.parquet")
    return whole


def play(cell: Cell) -> dict[str, object]:
    """The columns of one cell: regret and reward so far of each run at some steps."""
    run = simulate(
        cell.plays,
        cell.where,
        steps=cell.steps,
        runs=cell.runs,
        seed=cell.seed,
        delay=cell.delay,
        noise=cell.noise,
    )
    at = np.unique(np.geomspace(1, cell.steps, _POINTS).round().astype(np.int64))
    regret, reward = (
        np.cumsum(values, axis=0)[at - 1].T.ravel()
        for values in (run.regret, run.rewards)
    )
    rows = regret.size
    return {
        "world": [cell.world] * rows,
        "policy": [cell.policy] * rows,
        "seed": np.full(rows, cell.seed),
        "run": np.repeat(np.arange(cell.runs), len(at)),
        "step": np.tile(at, cell.runs),
        "regret": regret,
        "reward": reward,
    }


def _report_changes(cells: list[Cell], folder: Path) -> None:
    """Say which finished cells are computed again, and because of what."""
    earlier = _earlier_parts(folder)
    stale = [cell for cell in cells if cell.name in earlier]
    if not stale:
        return
    changes: dict[str, None] = {}
    for cell in stale:
        names = min(
            (changed_parts(parts, cell.parts) for parts in earlier[cell.name]), key=len
        )
        # a second function of one name has a number
        changes |= dict.fromkeys(name.partition("#")[0] for name in names)
    names = list(changes)
    listed = ", ".join(names[:_MOST_NAMES])
    more = len(names) - _MOST_NAMES
    rest = f" and {more} more" if more > 0 else ""
    print(
        f"{len(stale)} finished cells are computed again, because this changed: "
        f"{listed}{rest}",
        file=sys.stderr,
    )


def _earlier_parts(folder: Path) -> dict[str, list[dict[str, str]]]:
    """What the finished cells in a folder depended on, by the name of the cell."""
    found: dict[str, list[dict[str, str]]] = {}
    for path in folder.glob("*.parquet"):
        try:
            about = _arrow("pyarrow.parquet").read_schema(path).metadata or {}
        except (OSError, ValueError):  # no whole file
            continue
        if _NAME in about and _PARTS in about:
            parts = json.loads(about[_PARTS])
            found.setdefault(about[_NAME].decode(), []).append(parts)
    return found


def _finished(path: Path) -> Any:
    """The table of a cell that was finished earlier, or None."""
    try:
        return _arrow("pyarrow.parquet").read_table(path)
    except (OSError, ValueError):  # absent, or no whole file: done again
        return None


def _write(table: Any, path: Path) -> None:
    with replacing(path) as file:
        _arrow("pyarrow.parquet").write_table(table, file)


def _arrow(module: str = "pyarrow") -> ModuleType:
    return import_extra(module, "sweeps need", "lab")
