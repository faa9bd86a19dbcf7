"""Logs that unpack to more than they may are refused before their rows are read."""

import gzip
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from oddsmith.core.errors import BadFile
from oddsmith.files import npz
from oddsmith.logs.formats import log_batches, read_log
from oddsmith.logs.long import read_long

LARGEST = 100_000
ROWS = 20_000
SMALL = 100


def write_parquet(path: Path, rows: int, row_group: int = ROWS) -> Path:
    """Zeros in one page, which compresses well."""
    table = pa.table(
        {
            "arm": np.zeros(rows, dtype=np.int64),
            "reward": np.zeros(rows),
            "propensity": np.ones(rows),
        }
    )
    target = path / "log.parquet"
    parquet.write_table(
        table,
        target,
        use_dictionary=False,
        compression="zstd",
        row_group_size=row_group,
    )
    return target


def write_csv(path: Path, rows: int) -> Path:
    """The same row again and again."""
    target = path / "log.csv.gz"
    lines = "arm,reward,propensity\n" + "0,1,0.5\n" * rows
    target.write_bytes(gzip.compress(lines.encode()))
    return target


READERS: dict[str, Callable[[Path], object]] = {
    "read_log": lambda path: read_log(path, format=form_of(path)),
    "log_batches": lambda path: next(log_batches(path, format=form_of(path))),
    "read_long": lambda path: read_long(path, format=form_of(path)),
}


def form_of(path: Path) -> str:
    return path.name.split(".")[1]


@pytest.mark.parametrize("write", [write_parquet, write_csv])
@pytest.mark.parametrize("reader", READERS)
def test_what_is_too_large_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, int], Path],
    reader: str,
) -> None:
    monkeypatch.setattr(npz, "_LARGEST", LARGEST)
    path = write(tmp_path, ROWS)
    assert path.stat().st_size < LARGEST / 20
    with pytest.raises(BadFile, match="must have at most 100,000 bytes when unpacked"):
        READERS[reader](path)


@pytest.mark.parametrize("write", [write_parquet, write_csv])
def test_what_is_small_is_read(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path, int], Path],
) -> None:
    monkeypatch.setattr(npz, "_LARGEST", LARGEST)
    path = write(tmp_path, SMALL)
    assert len(read_log(path, format=form_of(path))) == SMALL


def test_a_file_may_be_larger_than_its_row_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npz, "_LARGEST", LARGEST)
    path = write_parquet(tmp_path, ROWS, row_group=1_000)
    assert len(read_log(path)) == ROWS


def test_compressed_json_lines_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"arm": 0, "reward": 1, "propensity": 0.5}\n'))
    with pytest.raises(BadFile, match="must be a text file of JSON lines"):
        read_log(path, format="jsonl")
