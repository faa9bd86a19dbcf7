"""Labelled data as worlds: the data sets of scikit-learn, any .npz file, and OpenML
data sets by name."""

from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from oddsmith.core.errors import InvalidInput, import_extra
from oddsmith.files.npz import NOT_NPZ, read_arrays
from oddsmith.lab.worlds.classification import ClassificationWorld

__all__ = ["dataset"]

_BUNDLED = ("breast_cancer", "digits", "iris", "wine")


def dataset(source: str | Path, *, seed: int = 0) -> ClassificationWorld:
    """Return the world with this name: digits (bundled with scikit-learn),
    folder/name.npz, or openml:name.

    >>> dataset("iris").n_arms
    3
    """
    text = str(source)
    if text.startswith("openml:"):
        return _openml(text.removeprefix("openml:"), seed=seed)
    if text.endswith(".npz"):
        return _from_npz(Path(text), seed=seed)
    if text in _BUNDLED:
        return _bundled(text, seed=seed)
    raise InvalidInput(
        f"data must be one of {', '.join(_BUNDLED)}, a file.npz or openml:name; got "
        f"{text!r}"
    )


def _bundled(name: str, *, seed: int) -> ClassificationWorld:
    load = getattr(_datasets(), f"load_{name}")
    data = load()
    columns = tuple(str(column) for column in data.feature_names)
    return ClassificationWorld(data.data, data.target, seed, columns=columns)


def _from_npz(path: Path, *, seed: int) -> ClassificationWorld:
    """Return the world of a file.npz with the arrays X (rows, features), y (a class for
    each row, in 0 … K-1) and optionally columns (names)."""
    if not Path(path).is_file():
        raise InvalidInput(f"data must be an existing file.npz; got {path}")
    try:
        arrays = read_arrays(path.read_bytes())
        x = arrays["X"]
        y = arrays["y"]
        columns = ()
        if "columns" in arrays:
            columns = arrays["columns"].tolist()
    except NOT_NPZ as error:
        raise InvalidInput(
            f"data must be a file.npz with arrays X and y; {path}: {error}"
        ) from error
    return ClassificationWorld(x, y, seed, columns=columns)


def _openml(name: str, *, seed: int) -> ClassificationWorld:
    """Fetch the newest active data set with this name from OpenML. Needs a network.

    Categories become numbers. A missing number becomes its column's median; missing
    categories form a category of their own.
    """
    datasets = _datasets()
    try:
        data = datasets.fetch_openml(name, as_frame=True, parser="liac-arff")
    # Download and parser raise many types of errors.
    except Exception as error:
        raise InvalidInput(
            f"openml:{name} must be a data set that can be fetched; "
            f"{type(error).__name__}: {error}"
        ) from error
    features = _as_numbers(data.data)
    classes = _codes(data.target)
    columns = tuple(str(column) for column in data.data.columns)
    return ClassificationWorld(features, classes, seed, columns=columns)


def _as_numbers(frame: Any) -> Any:
    """Return the columns of a data frame as float64 (rows, columns).

    >>> import pandas as pd
    >>> _as_numbers(
    ...     pd.DataFrame({"size": [1.0, None, 3.0], "colour": ["red", "blue", None]})
    ... )
    array([[ 1.,  1.],
           [ 2.,  0.],
           [ 3., -1.]])
    """
    columns = []
    for name in frame.columns:
        column = frame[name]
        if column.dtype.kind in "ifub":
            numbers = column.astype(np.float64).fillna(column.median()).to_numpy()
        else:
            numbers = _codes(column).astype(np.float64)
        columns.append(numbers)
    return np.stack(columns, axis=1)


def _codes(column: Any) -> Any:
    """Return the number of each row's category, -1 for a missing one."""
    return column.astype("category").cat.codes.to_numpy()


def _datasets() -> ModuleType:
    return import_extra("sklearn.datasets", "bundled and OpenML data need", "models")
