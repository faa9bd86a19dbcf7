"""Read and write Parquet files batch by batch."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.files.npz import check_unpacked
from oddsmith.logs.arrow import arrow, batch_of, pieces
from oddsmith.logs.pieces import Layout, Piece, column_list, found_columns
from oddsmith.logs.table import Log

__all__ = ["batches", "names", "read_pieces", "row_groups", "rows", "write"]

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile


_BUFFER = 2**20  # bytes per read


def read_pieces(
    path: Path, layout: Layout, groups: Sequence[int] | None = None
) -> Iterator[Piece]:
    """Read a Parquet file, or some of its row groups, in pieces. Only the needed
    columns are decoded."""
    with _open(path) as file:
        found = found_columns(file.schema_arrow.names, layout, str(path))
        names: list[str] = []
        for theirs in found.values():
            names += column_list(theirs)
        batches = file.iter_batches(layout.rows, row_groups=groups, columns=names)
        rows_before = 0
        for group in range(groups[0] if groups else 0):
            rows_before += file.metadata.row_group(group).num_rows
        try:
            for piece in pieces(batches, found, str(path)):
                yield piece._replace(first=piece.first + rows_before)
        except (arrow().ArrowException, OSError) as error:
            raise BadFile(f"{path} must be a complete Parquet file; {error}") from error


def batches(path: Path, rows: int) -> "Iterator[pa.RecordBatch]":
    """Yield record batches of all columns."""
    with _open(path) as file:
        try:
            yield from file.iter_batches(rows)
        except (arrow().ArrowException, OSError) as error:
            raise BadFile(f"{path} must be a complete Parquet file; {error}") from error


def names(path: Path) -> list[str]:
    """Return the names of the columns."""
    with _open(path) as file:
        return list(file.schema_arrow.names)


def row_groups(path: Path) -> int:
    """Return the number of row groups of a file."""
    with _open(path) as file:
        return int(file.num_row_groups)


def rows(path: Path) -> int:
    """Return the number of rows from the metadata of a file."""
    with _open(path) as file:
        return int(file.metadata.num_rows)


def write(logs: Iterable[Log], file: IO[bytes]) -> None:
    """Write logs with the same columns as Parquet, one row group each."""
    arrow()
    from pyarrow import parquet

    writer = None
    try:
        for log in logs:
            batch = batch_of(log)
            if writer is None:
                writer = parquet.ParquetWriter(
                    file, batch.schema, write_page_checksum=True
                )
            if batch.schema != writer.schema:
                raise InvalidInput(
                    f"logs must have the same columns and arms; got {log!r}"
                )
            writer.write_batch(batch)
    finally:
        if writer is not None:
            writer.close()


def _open(path: Path) -> "ParquetFile":
    pa = arrow()
    from pyarrow import parquet

    try:
        # Read pages when they are needed: pre-buffering would load all row groups into
        # memory.
        file = parquet.ParquetFile(
            path, page_checksum_verification=True, pre_buffer=False, buffer_size=_BUFFER
        )
        _check_sizes(file)
        return file
    except (pa.ArrowException, OSError, ValueError) as error:
        raise BadFile(f"{path} must be a Parquet file; {error}") from error


def _check_sizes(file: "ParquetFile") -> None:
    """Raise if a row group is too large when decompressed. Row groups are read one at a
    time."""
    about = file.metadata
    for number in range(about.num_row_groups):
        group = about.row_group(number)
        columns = [group.column(i) for i in range(group.num_columns)]
        unpacked = sum(column.total_uncompressed_size for column in columns)
        packed = sum(column.total_compressed_size for column in columns)
        check_unpacked(f"its row group {number}", unpacked, packed)
