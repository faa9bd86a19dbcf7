"""Logs in files, for fitting on every engine."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

import oddsmith as od

EXPERTS = ("a", "b", "c", "d")


def policy(**settings: Any) -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(
        od.GivenExperts(EXPERTS), prior=[0.4, 0.3, 0.2, 0.1], **settings
    )


def event_log(rows: int, seed: int, *, sleepy: bool = False) -> od.Log:
    """Decisions of a uniform logger over contexts that hold every expert's prediction
    of every arm."""
    rng = np.random.default_rng(seed)
    context = rng.uniform(0.05, 0.95, (rows, 4, 3))
    if sleepy:
        context[::7, 1] = np.nan
    arm, reward = rng.integers(3, size=rows), rng.integers(2, size=rows).astype(float)
    reward[:5] = rng.random(5)  # in between, too
    reward[-1] = np.nan
    return od.Log(
        arm=arm,
        reward=reward,
        propensities=np.full((rows, 3), 1 / 3),
        advice=context[np.arange(rows), :, arm],
        log_weights=np.tile(policy().init().log_weights, (rows, 1)) if sleepy else None,
        context=context,
        experts=EXPERTS,
    )


def files(folder: Path, *, sleepy: bool = False) -> tuple[list[Path], od.Log]:
    """Three Parquet files of several row groups, and all of it in memory."""
    logs = [
        event_log(rows, seed, sleepy=sleepy) for seed, rows in enumerate((900, 400, 50))
    ]
    paths = [folder / f"{i}.parquet" for i in range(3)]
    for path, log in zip(paths, logs, strict=True):
        od.write_log(log.split(250), path)
    return paths, od.Log.concatenated(logs)


def write_table(columns: dict[str, list[Any]], path: Path, format: str) -> Any:
    """The file with these columns, or the table itself."""
    table = pa.table(columns)
    if format == "table":
        return table
    write = pa.csv.write_csv if format == "csv" else pa.parquet.write_table
    write(table, path)
    return path
