"""Whole files: who may read them, and what is left after a failure."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from oddsmith.files import disk
from oddsmith.files.reports import write as write_page


@pytest.fixture(params=[0o022, 0o077, 0o027])
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_others_may_read_what_is_shared_as_the_umask_allows(
    tmp_path: Path, umask: int
) -> None:
    log = od.Log(
        arm=np.array([0, 1]), reward=np.ones(2), propensities=np.full((2, 2), 0.5)
    )
    for name in ("log.parquet", "log.csv", "log.jsonl", "log.dsjson"):
        od.write_log(log, tmp_path / name)
    write_page(tmp_path / "report.html", "title", "", [])
    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.GivenExperts(["a", "b"]), gamma=0.1), seed=1
    )
    agent.save(tmp_path / "agent.npz")
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == dict.fromkeys(
        (
            "log.parquet",
            "log.csv",
            "log.jsonl",
            "log.dsjson",
            "report.html",
            "agent.npz",
        ),
        0o666 & ~umask,
    )


def test_a_private_file_is_its_owners(tmp_path: Path, umask: int) -> None:
    path = tmp_path / "keys.json"
    path.touch(mode=0o644)
    disk.write(path, b"secret", private=True)
    assert mode(path) == 0o600
    assert umask  # whatever it is


def test_a_file_that_is_replaced_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.touch()
    path.chmod(0o640)
    disk.write(path, b"new")
    assert mode(path) == 0o640
    assert path.read_bytes() == b"new"


def test_a_failure_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "file"
    disk.write(path, b"old")

    def fail() -> None:
        with disk.replacing(path) as file:
            file.write(b"new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert [p.name for p in tmp_path.iterdir()] == ["file"]
    assert path.read_bytes() == b"old"
    with pytest.raises(od.BadFile, match="cannot write"):
        disk.write(tmp_path / "nowhere" / "file", b"")
