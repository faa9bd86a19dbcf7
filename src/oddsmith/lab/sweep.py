"""Run policies x worlds x seeds on any engine. Each finished cell is a file, so that a
sweep can be resumed."""

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Ints
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

# Number of steps at which the table reports each run. They go from 1 to the last step,
# evenly spaced on a log scale.
_POINTS = 25
_ORDER = ("world", "policy", "seed", "run", "step")
# Metadata keys in the file of a cell.
_NAME = b"cell"
_PARTS = b"parts"
_MOST_NAMES = 5


@dataclass(frozen=True, eq=False)
class Cell:
    """One policy in one world with one seed, with its names in the table."""

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
        """The policy, world and seed as text."""
        return f"{self.policy} in {self.world}, seed {self.seed}"

    @cached_property
    def parts(self) -> dict[str, str]:
        """Digests of the dependencies of the result, by name: settings, the user's own
        code and data, packages and the source of oddsmith."""
        if self.plays.unversioned:
            raise NoVersion(
                f"policy {self.policy!r} needs a version that changes with its "
                "models; give ModelExperts a version"
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
        """A hash of all dependencies of the result."""
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
    """Return all combinations of policies, worlds and seeds as cells."""
    numbers = list(seeds)
    for seed in numbers:
        check_seed(seed)
    cells = []
    for world, where in worlds.items():
        for policy, plays in policies.items():
            for seed in numbers:
                cells.append(
                    Cell(
                        policy,
                        world,
                        int(seed),
                        plays,
                        where,
                        steps,
                        runs,
                        delay,
                        noise,
                    )
                )
    return cells


def sweep(
    cells: Iterable[Cell],
    out: Path | str,
    *,
    engine: str = "local",
    workers: int | None = None,
) -> Any:
    """Run all cells and return their table (a `pyarrow.Table`), which is also written
    to out/table.parquet.

    The table has one row for each run and each of about 25 steps: policy, world, seed,
    run, step, and the regret and reward so far. Each finished cell is a file in
    out/cells, named by a hash of its settings and of your own code that it runs. A
    repeated sweep runs only the missing cells, and prints on standard error which cells
    it computes again because something changed. The rows are sorted, and do not depend
    on the engine or the number of workers.
    """
    cells = list(cells)
    _check_cells(cells)
    keys = [cell.key() for cell in cells]
    folder = _make_folder(Path(out) / "cells")
    paths = [folder / f"{key}.parquet" for key in keys]
    tables = [_read_cell(path) for path in paths]
    missing = []
    for i, table in enumerate(tables):
        if table is None:
            missing.append(i)
    unfinished = [cells[i] for i in missing]
    _report_changes(unfinished, folder)
    results = each(play, unfinished, engine=engine, workers=workers)
    for place, columns in progress(results, len(missing), "cells"):
        i = missing[place]
        cell = cells[i]
        about = {_NAME: cell.name, _PARTS: json.dumps(cell.parts)}
        tables[i] = _arrow().table(columns).replace_schema_metadata(about)
        _write(tables[i], paths[i])
    bare = [table.replace_schema_metadata(None) for table in tables]
    rows = _arrow().concat_tables(bare)
    rows = rows.sort_by([(name, "ascending") for name in _ORDER])
    _write(rows, Path(out) / "table.parquet")
    return rows


def _check_cells(cells: list[Cell]) -> None:
    """Raise an error if there are no cells, or two cells have the same policy, world
    and seed."""
    if not cells:
        raise InvalidInput("cells must not be empty; got 0 of them")
    names = [(cell.policy, cell.world, cell.seed) for cell in cells]
    counts = Counter(names)
    (policy, world, seed), most = counts.most_common(1)[0]
    if most > 1:
        raise InvalidInput(
            f"cells must differ in policy, world or seed; got {policy} in {world}, "
            f"seed {seed}, twice"
        )


def _make_folder(folder: Path) -> Path:
    """Return the folder, after removing incomplete files of a sweep that was killed
    while writing."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob(".*.part"):
            part.unlink()
    except OSError as error:
        raise InvalidInput(f"out must be a writable folder; {error}") from error
    return folder


def play(cell: Cell) -> dict[str, object]:
    """Return the columns of one cell: cumulative regret and reward of each run at some
    steps."""
    run = simulate(
        cell.plays,
        cell.where,
        steps=cell.steps,
        runs=cell.runs,
        seed=cell.seed,
        delay=cell.delay,
        noise=cell.noise,
    )
    even = np.geomspace(1, cell.steps, _POINTS).round()
    at = np.unique(even.astype(np.int64))
    n_rows = cell.runs * len(at)
    columns: dict[str, object] = {}
    columns["world"] = [cell.world] * n_rows
    columns["policy"] = [cell.policy] * n_rows
    columns["seed"] = np.full(n_rows, cell.seed)
    runs = np.arange(cell.runs)
    columns["run"] = np.repeat(runs, len(at))
    columns["step"] = np.tile(at, cell.runs)
    columns["regret"] = _sums_until(at, run.regret)
    columns["reward"] = _sums_until(at, run.rewards)
    return columns


def _sums_until(at: Ints, values: Array) -> Array:
    """Return the sums of values (T, runs) up to the steps `at`, as one array: all steps
    of the first run, then those of the next run."""
    sums = np.cumsum(values, axis=0)[at - 1]
    return sums.T.ravel()


def _report_changes(cells: list[Cell], folder: Path) -> None:
    """Print which finished cells are computed again, and which changes are the
    reason."""
    earlier = _earlier_parts(folder)
    stale = [cell for cell in cells if cell.name in earlier]
    if not stale:
        return
    changes: dict[str, None] = {}
    for cell in stale:
        candidates = []
        for old in earlier[cell.name]:
            candidates.append(changed_parts(old, cell.parts))
        for name in min(candidates, key=len):
            # Remove the number that distinguishes functions of the same name.
            changes[name.partition("#")[0]] = None
    names = list(changes)
    text = ", ".join(names[:_MOST_NAMES])
    if len(names) > _MOST_NAMES:
        text += f" and {len(names) - _MOST_NAMES} more"
    print(
        f"{len(stale)} finished cells are computed again, because this changed: {text}",
        file=sys.stderr,
    )


def _earlier_parts(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Return the dependencies of the finished cells in a folder, by the name of the
    cell."""
    parts_by_name: dict[str, list[dict[str, str]]] = {}
    for path in folder.glob("*.parquet"):
        try:
            about = _arrow("pyarrow.parquet").read_schema(path).metadata or {}
        except (OSError, ValueError):  # the file is incomplete
            continue
        if _NAME in about and _PARTS in about:
            name = about[_NAME].decode()
            parts = json.loads(about[_PARTS])
            parts_by_name.setdefault(name, []).append(parts)
    return parts_by_name


def _read_cell(path: Path) -> Any:
    """Return the table of a cell that was finished earlier, or None."""
    try:
        return _arrow("pyarrow.parquet").read_table(path)
    except (OSError, ValueError):
        # The file is missing or incomplete: compute the cell again.
        return None


def _write(table: Any, path: Path) -> None:
    with replacing(path) as file:
        _arrow("pyarrow.parquet").write_table(table, file)


def _arrow(module: str = "pyarrow") -> ModuleType:
    return import_extra(module, "sweeps need", "lab")
