"""Labelled data by name: bundled, .npz, OpenML."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import datasets as sklearn_datasets

import oddsmith as od
from oddsmith.lab.worlds import dataset


def test_bundled_data_are_scikit_learns() -> None:
    found = sklearn_datasets.load_wine()
    np.testing.assert_array_equal(dataset("wine").X, found.data)
    np.testing.assert_array_equal(dataset("wine").y, found.target)


def test_any_npz(tmp_path: Path) -> None:
    x, y = (
        np.random.default_rng(0).random((20, 3), dtype=np.float32),
        np.arange(20, dtype=np.int32) % 4,
    )
    np.savez(tmp_path / "own.npz", X=x, y=y)
    world = dataset(tmp_path / "own.npz", seed=3)
    assert world.n_arms == 4
    np.testing.assert_array_equal(world.X, x)


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_files_that_are_no_data(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "bad.npz"
    if content is None:
        np.savez(path, X=np.ones((2, 2)))
    else:
        path.write_bytes(content)
    with pytest.raises(
        od.InvalidInput, match=r"data must be a file\.npz with arrays X and y"
    ):
        dataset(path)
    with pytest.raises(od.InvalidInput, match=r"data must be an existing file\.npz"):
        dataset(tmp_path / "absent.npz")


def test_openml_frames_become_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame(
        {"age": [30.0, np.nan, 50.0], "city": pd.Categorical(["Rome", None, "Oslo"])}
    )
    fetched = SimpleNamespace(data=frame, target=pd.Series(["yes", "no", "yes"]))
    asked: dict[str, Any] = {}

    def fetch(name: str, **settings: Any) -> Any:
        asked.update(name=name, **settings)
        return fetched

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fetch)
    world = dataset("openml:survey")
    assert asked["name"] == "survey"
    np.testing.assert_array_equal(world.X, [[30, 1], [40, -1], [50, 0]])
    np.testing.assert_array_equal(world.y, [1, 0, 1])


def test_openml_without_a_network_is_one_sentence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fetch(name: str, **settings: Any) -> Any:
        raise OSError("no route to host")

    monkeypatch.setattr(sklearn_datasets, "fetch_openml", fetch)
    with pytest.raises(
        od.InvalidInput,
        match="openml:survey must be a data set that can be fetched; OSError",
    ):
        dataset("openml:survey")
