"""A log in several files or in a folder is the log of all their rows."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from logs.fit_logs import event_log, files, policy
from oddsmith.logs.files import lines_in


def texts(folder: Path) -> tuple[list[Path], list[str]]:
    """A table in three files, each with rows of one arm alone, by its name."""
    paths = []
    rows = []
    for arm, name in (("left", "b.csv"), ("right", "a.csv"), ("middle", "c.csv")):
        own = [f"{arm},1,0.25", f"{arm},0,0.5"]
        path = folder / name
        path.write_text("\n".join(["arm,reward,propensity", *own]) + "\n")
        paths.append(path)
        rows.extend(own)
    return paths, rows


@pytest.mark.parametrize("as_folder", [False, True])
def test_several_files_are_one_log(tmp_path: Path, as_folder: bool) -> None:
    """In the order given; those of a folder by name, without hidden and other files."""
    paths, rows = texts(tmp_path)
    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / ".c.csv").write_text("half")
    (tmp_path / "notes.txt").write_text("of March")
    source: Any = tmp_path if as_folder else paths
    if as_folder:
        rows = [*rows[2:4], *rows[:2], *rows[4:]]
    log = od.read_log(source)
    assert log.arms == ("left", "middle", "right")
    assert [(log.arms or ())[arm] for arm in log.arm] == [
        row.split(",")[0] for row in rows
    ]
    assert log.propensity is not None
    assert log.propensity.tolist() == [float(row.split(",")[2]) for row in rows]


def test_a_folder_is_fitted_as_its_files(tmp_path: Path) -> None:
    paths, _ = files(tmp_path)
    gts = policy()
    expected = od.fit_log(gts, paths).state.log_weights
    for engine in ("serial", "local"):
        fit = od.fit_log(gts, tmp_path, engine=engine, workers=1)
        np.testing.assert_allclose(fit.state.log_weights, expected, atol=1e-9)


def test_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    paths, _ = texts(tmp_path)
    (tmp_path / "bare.csv").write_text("arm,reward\nleft,1\n")
    with pytest.raises(od.BadFile, match=r"bare.csv must have the column 'propensity'"):
        od.read_log([*paths, tmp_path / "bare.csv"])
    od.write_log(event_log(20, 1), tmp_path / "z.parquet")
    with pytest.raises(
        od.BadFile, match=r"one format; it has a.csv \(csv\) and z.parquet \(parquet\)"
    ):
        od.fit_log(policy(), tmp_path)
    with pytest.raises(od.InvalidInput, match="got a Log in a list"):
        od.read_log([event_log(20, 1)])


def test_an_id_that_comes_again_in_another_file_is_refused(tmp_path: Path) -> None:
    lines = [f"{row % 2},1,d-{row}" for row in range(6)]
    paths = [tmp_path / name for name in ("jan.csv", "feb.csv")]
    for path, own in zip(paths, (lines[:4], lines[3:]), strict=True):
        path.write_text("\n".join(["arm,reward,decision_id", *own]) + "\n")
    with pytest.raises(
        od.errors.BrokenLog, match=r"feb.csv: column decision_id, row 0: .* 'd-3' again"
    ):
        od.read_log(paths)
    whole = tmp_path / "whole.csv"
    whole.write_text("\n".join(["arm,reward,decision_id", *lines, lines[1]]) + "\n")
    with pytest.raises(od.errors.BrokenLog, match=r"decision_id, row 6: .* again"):
        od.logs.LogReader(rows=2).read_log(whole)


def test_rows_are_known_before_they_are_read(tmp_path: Path) -> None:
    """From what Parquet says, and from the lines of text, by some of them if it is
    large."""
    reader = od.logs.LogReader()
    paths, log = files(tmp_path)
    assert sum(reader.rows_in(path) or 0 for path in paths) == len(log)
    assert reader.rows_in(log) == len(log)
    large = tmp_path / "large.jsonl"
    rng = np.random.default_rng(0)
    large.write_text("".join("x" * n + "\n" for n in rng.integers(5, 60, 80_000)))
    assert lines_in(large) == pytest.approx(80_000, rel=0.02)
