"""Sweeps: equal tables on every engine, resumed after kill -9, honest about what they
cannot tell apart."""

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LogisticRegression

import oddsmith as od
from lab.sweeping import cells
from oddsmith.core import kernels
from oddsmith.lab import Cell, grid, simulate, sweep
from oddsmith.lab.study import Study, read_study
from oddsmith.lab.worlds import Bernoulli, TableWorld, World


def test_the_table_is_what_simulate_says(tmp_path: Path) -> None:
    table = sweep(cells(), tmp_path, engine="serial")
    assert table.num_rows == 12 * 4 * len(set(table["step"].to_pylist()))
    cell = cells()[4]
    run = simulate(
        cell.plays,
        cell.where,
        steps=cell.steps,
        runs=cell.runs,
        seed=cell.seed,
        delay=cell.delay,
        noise=cell.noise,
    )
    rows = [
        r
        for r in table.to_pylist()
        if (r["policy"], r["world"], r["seed"]) == (cell.policy, cell.world, 1)
    ]
    for row in rows:
        assert row["regret"] == pytest.approx(
            run.regret[: row["step"], row["run"]].sum(), rel=1e-12
        )
        assert row["reward"] == pytest.approx(
            run.rewards[: row["step"], row["run"]].sum(), rel=1e-12
        )
    assert rows[-1]["step"] == cell.steps


@pytest.mark.parametrize(
    ("engine", "workers"), [("local", 1), ("local", 2), ("dask", 2)]
)
def test_tables_are_equal_on_every_engine(
    tmp_path: Path, engine: str, workers: int
) -> None:
    alone = sweep(cells(), tmp_path / "serial", engine="serial")
    assert sweep(cells(), tmp_path / engine, engine=engine, workers=workers).equals(
        alone
    )
    assert pq.read_table(tmp_path / engine / "table.parquet").equals(alone)


def test_killed_in_the_middle_it_goes_on_where_it_was(tmp_path: Path) -> None:
    steps = 800
    running = subprocess.Popen(
        [sys.executable, "-m", "lab.sweeping", str(tmp_path / "killed"), str(steps)],
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])},
        start_new_session=True,
    )
    folder = tmp_path / "killed" / "cells"
    try:
        deadline = time.monotonic() + 60
        while (
            len(list(folder.glob("*.parquet"))) < 3
            and time.monotonic() < deadline
            and running.poll() is None
        ):
            time.sleep(0.01)
    finally:
        os.killpg(running.pid, signal.SIGKILL)  # the sweep and the workers it started
        running.wait()
    before = {path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")}
    assert 3 <= len(before) < 12
    assert not (tmp_path / "killed" / "table.parquet").exists()
    resumed = sweep(cells(steps), tmp_path / "killed", engine="local", workers=2)
    assert resumed.equals(
        sweep(cells(steps), tmp_path / "undisturbed", engine="serial")
    )
    assert (
        before.items()
        <= {
            path.name: path.stat().st_mtime_ns for path in folder.glob("*.parquet")
        }.items()
    )
    assert not list(folder.glob("*.part"))


def test_a_damaged_cell_is_done_again(tmp_path: Path) -> None:
    first = sweep(cells()[:2], tmp_path, engine="serial")
    damaged = next((tmp_path / "cells").glob("*.parquet"))
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert sweep(cells()[:2], tmp_path, engine="serial").equals(first)


def test_what_changes_a_result_changes_the_key() -> None:
    table = np.array([[[0.2, 0.8], [0.6, 0.4]]])
    policy, world = (
        od.GeneralizedThompsonSampling(od.TableExperts(table), gamma=0.0),
        TableWorld(table[:, 0]),
    )
    other = od.GeneralizedThompsonSampling(od.TableExperts(table), eta=0.4, gamma=0.0)
    base: dict[str, Any] = {
        "policy": "a",
        "world": "w",
        "seed": 0,
        "plays": policy,
        "where": world,
        "steps": 5,
    }
    changes: list[dict[str, Any]] = [
        {},
        {"seed": 1},
        {"plays": other},
        {"where": TableWorld(table[:, 1])},
        {"steps": 6},
        {"runs": 2},
        {"delay": 1},
        {"policy": "b"},
    ]
    keys = {Cell(**(base | change)).key() for change in changes}
    assert len(keys) == len(changes)
    assert Cell(**base).key() in keys


def test_wrong_sweeps(tmp_path: Path) -> None:
    twice = cells()[:1] * 2
    with pytest.raises(
        od.InvalidInput, match=r"cells must differ .* got plain in still, seed 0, twice"
    ):
        sweep(twice, tmp_path)
    with pytest.raises(od.InvalidInput, match="cells must not be empty"):
        sweep([], tmp_path)
    with pytest.raises(od.InvalidInput, match="engine must be one of"):
        sweep(cells()[:1], tmp_path, engine="slurm")
    model = LogisticRegression().fit(np.eye(2), [0, 1])
    unnamed = od.GeneralizedThompsonSampling(
        od.ModelExperts({"m": model}, arms=["a", "b"]), gamma=0.0
    )
    with pytest.raises(od.errors.NoVersion, match="give ModelExperts a version"):
        sweep(grid({"p": unnamed}, {"w": TableWorld(np.eye(2))}, steps=3), tmp_path)


class Fickle(TableWorld):
    """A world that pays 0 whatever its table says."""

    def means(self, step: int, context: Any) -> Any:
        return super().means(step, context) * 0


class Plain(World):
    """A world that is no dataclass."""

    n_arms = 2

    def __init__(self, mean: object) -> None:
        self.mean = mean

    def context(self, step: int, runs: int, rng: Any, history: Any = None) -> Any:
        return np.zeros(runs, dtype=np.int64)

    def means(self, step: int, context: Any) -> Any:
        return np.full((len(context), 2), self.mean)


TWO = np.array([[[0.2, 0.8], [0.6, 0.4]]])


def test_what_cannot_be_told_apart_is_refused(tmp_path: Path) -> None:
    policy = od.GeneralizedThompsonSampling(od.TableExperts(TWO), gamma=0.0)
    keys = {
        grid({"p": policy}, {"w": Plain(mean)}, steps=3)[0].key()
        for mean in (0.1, 0.2, 0.1)
    }
    assert len(keys) == 2
    with pytest.raises(
        od.errors.NotPortable,
        match=r"got a _thread.lock \(the world 'w', attribute mean of Plain\)",
    ):
        sweep(grid({"p": policy}, {"w": Plain(Lock())}, steps=3), tmp_path)


MINE = """
import numpy as np
import oddsmith as od

RATE = 0.9


class Fixed(od.Policy):
    reads_context = False

    def init(self, shape=()):
        return shape

    def odds(self, state, context, *, eligible=None, step=None):
        return od.Odds(np.tile([RATE, 1 - RATE], (*state, 1)))

    def update(self, state, decision, reward):
        return state


def make(arms):
    return Fixed()
"""
STUDY = """
steps = 40
runs = 2
[worlds.w]
kind = "table"
means = [[0.9, 0.1]]
experts = [[[0.9, 0.1]]]
[policies.own]
kind = "python"
factory = "mine_of_sweep:make"
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's module that can be edited and imported again."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path = tmp_path / "mine_of_sweep.py"
    path.write_text(MINE)
    (tmp_path / "study.toml").write_text(STUDY)
    yield path
    sys.modules.pop("mine_of_sweep", None)


def edit(path: Path, old: str, new: str) -> None:
    path.write_text(path.read_text().replace(old, new))
    sys.modules.pop("mine_of_sweep", None)
    importlib.invalidate_caches()


def test_an_edited_policy_is_computed_again(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def regret(out: str) -> float:
        policies = {"own": importlib.import_module("mine_of_sweep").make(None)}
        worlds = {"w": TableWorld(np.array([[0.9, 0.1]]))}
        cells = grid(policies, worlds, seeds=(0, 1), steps=40)
        table = sweep(cells, own.parent / out, engine="serial")
        return float(np.sum(table["regret"].to_numpy()))

    before = regret("out")
    assert regret("out") == before
    edit(own, "import numpy as np", "# a comment\nimport numpy as np")
    assert regret("out") == before
    assert capsys.readouterr().err == ""
    edit(own, "RATE = 0.9", "RATE = 0.1")
    assert regret("out") == pytest.approx(9 * before) == regret("fresh")
    assert capsys.readouterr().err == (
        "2 finished cells are computed again, because this changed: "
        "mine_of_sweep.RATE\n"
    )


def test_an_edited_policy_of_an_experiment_file_is_computed_again(
    own: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(out: str) -> tuple[tuple[str, ...], ...]:
        study = read_study(own.parent / "study.toml")
        assert isinstance(study, Study)
        return study.run(own.parent / out, engine="serial").table.rows

    before = rows("out")
    edit(own, "RATE, 1 - RATE", "1 - RATE, RATE")
    assert rows("out") == rows("fresh") != before
    assert "changed: mine_of_sweep.Fixed.odds\n" in capsys.readouterr().err


def test_seeds_may_be_read_once_and_names_must_differ(tmp_path: Path) -> None:
    policy, world = (
        od.GeneralizedThompsonSampling(od.TableExperts(TWO), gamma=0.0),
        TableWorld(TWO[:, 0]),
    )
    assert (
        len(
            grid(
                {"a": policy, "b": policy}, {"w": world}, seeds=iter([0, 1, 2]), steps=3
            )
        )
        == 6
    )
    other = od.GeneralizedThompsonSampling(od.TableExperts(TWO), eta=0.1, gamma=0.0)
    with pytest.raises(od.InvalidInput, match="cells must differ"):
        sweep(
            [
                *grid({"a": policy}, {"w": world}, steps=3),
                *grid({"a": other}, {"w": world}, steps=3),
            ],
            tmp_path,
        )
    with pytest.raises(od.InvalidInput, match="seed must be"):
        grid({"a": policy}, {"w": world}, seeds=[1.7], steps=3)  # type: ignore[list-item]


def test_workers_use_the_kernels_that_were_chosen(tmp_path: Path) -> None:
    kernels.use("numpy")
    alone = sweep(cells()[:4], tmp_path / "serial", engine="serial")
    assert sweep(cells()[:4], tmp_path / "local", engine="local", workers=2).equals(
        alone
    )
    kernels.use("auto")


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "table.parquet").mkdir()
    for out, said in (
        ("file", "out must be a writable folder"),
        ("taken", "cannot write .*table.parquet: .*Is a directory"),
    ):
        with pytest.raises((od.InvalidInput, od.BadFile), match=said):
            sweep(cells()[:1], tmp_path / out, engine="serial")


def test_a_subclass_goes_step_by_step() -> None:
    policy = od.GeneralizedThompsonSampling(od.TableExperts(TWO), gamma=0.1)
    assert simulate(policy, Fickle(TWO[:, 0]), steps=20, runs=3).rewards.sum() == 0
    assert (
        simulate(
            policy, TableWorld(TWO[:, 0]), steps=20, runs=3, noise=Never()
        ).rewards.sum()
        == 0
    )


class Never(Bernoulli):
    """Pays nothing."""

    def __call__(self, means: Any, rng: Any) -> Any:
        return means * 0
