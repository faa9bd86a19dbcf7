"""Arrow tables and logs: common code for Parquet, CSV, pandas, polars and DuckDB."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from oddsmith.core.contexts import rows as rows_of
from oddsmith.core.decision import Context
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput, import_extra
from oddsmith.core.exact_json import decode, encode
from oddsmith.logs.offers import BY_ARM, Features, offer_mask
from oddsmith.logs.pieces import Piece, metric_names, suffixes
from oddsmith.logs.table import Log

__all__ = ["FORMAT", "arrow", "batch_of", "pieces", "slices", "stream"]

if TYPE_CHECKING:
    import pyarrow as pa


Values: TypeAlias = npt.NDArray[np.generic] | list[Any]
"""A column: an array, or a list if numpy has no type for its values."""
FORMAT = "oddsmith log 1"
_KEY = b"oddsmith"


def arrow() -> ModuleType:
    """Import pyarrow, or raise an error that names the extra."""
    return import_extra("pyarrow", "this format needs", "logs")


def stream(table: object, rows: int) -> "Iterator[pa.RecordBatch]":
    """Yield record batches with at most this many rows from any table with the Arrow
    stream interface."""
    for batch in arrow().RecordBatchReader.from_stream(table):
        yield from slices(batch, rows)


def slices(batch: "pa.RecordBatch", rows: int) -> "Iterator[pa.RecordBatch]":
    """Split the batch into pieces with at most this many rows."""
    for start in range(0, len(batch), rows):
        yield batch.slice(start, rows)


def pieces(
    batches: "Iterable[pa.RecordBatch]",
    found: Mapping[str, str | list[str]],
    source: str,
) -> Iterator[Piece]:
    """Return the rows of record batches as columns of `Log`. `found` maps the names of
    these columns to the table's names."""
    first = 0
    for batch in batches:
        about = _about(batch.schema, source)
        arms = about.get("arms") or suffixes(found, "propensities", "eligible")
        if arms and "offered" in found:
            raise BadFile(
                f"{source} must have lists in the order of offered; it has one column "
                f"per arm, such as {arms[0]!r}"
            )
        experts = about.get("experts") or suffixes(found, "advice")
        metrics = about.get("metrics") or metric_names(found)
        columns = {}
        try:
            for name, theirs in found.items():
                if isinstance(theirs, str):
                    columns[name] = _column(batch, name, theirs, about)
                else:
                    columns[name] = _joined_columns(batch, name, theirs)
        except BrokenLog as error:
            raise error.shift(first, source) from error
        own = "format" in about or "fingerprint" in batch.schema.names
        yield Piece(columns, first, arms, experts, own, metrics)
        first += len(batch)


def batch_of(log: Log) -> "pa.RecordBatch":
    """Return a log as one record batch with the column names of `Log`. Contexts that
    are not arrays become JSON text."""
    pa = arrow()
    names = {"arms": log.arms, "experts": log.experts, "metrics": log.metrics}
    if log.offered is not None:
        names["arms"] = None
    about: dict[str, object] = {"format": FORMAT}
    for what, column_names in names.items():
        about[what] = None if column_names is None else list(column_names)
    columns = {}
    for name, value in log.columns().items():
        if name == "context":
            columns[name], about["context"] = _context(value)
        elif name == "offered":
            columns[name] = pa.array(value, pa.list_(pa.string()))
        elif name == "features":
            columns[name] = pa.array(_texts(value), pa.string()).dictionary_encode()
        elif name in BY_ARM and log.offered is not None:
            columns[name] = _offered_entries(value, log.offered)
        elif value.ndim == 2:
            columns[name] = _fixed_lists(value, value.shape[1])
        elif name == "fingerprint":
            columns[name] = pa.array(value, pa.string()).dictionary_encode()
        else:
            kind = pa.string() if value.dtype == object else None
            columns[name] = pa.array(value, kind)
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.replace_schema_metadata({_KEY: json.dumps(about)})


def _fixed_lists(values: npt.NDArray[np.generic], width: int) -> "pa.Array":
    """Return values as lists of one width."""
    pa = arrow()
    return pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), width)


def _texts(rows: Sequence[Features]) -> list[str | None]:
    """Return features as JSON text by name; each object is encoded once."""
    text_of: dict[int, str] = {}
    texts: list[str | None] = []
    for row in rows:
        if row is not None and id(row) not in text_of:
            text_of[id(row)] = json.dumps(encode(dict(row)), allow_nan=False)
        texts.append(text_of.get(id(row)))
    return texts


def _offered_entries(
    column: npt.NDArray[np.generic], offers: Sequence[tuple[str, ...]]
) -> "pa.ListArray":
    """Return lists with one entry per offered arm."""
    pa = arrow()
    mask = offer_mask(offers, column.shape[1])
    widths = mask.sum(axis=1)
    offsets = np.append(0, widths.cumsum()).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(column[mask]))


def _about(schema: "pa.Schema", source: str) -> dict[str, Any]:
    """Return the metadata that `batch_of` wrote; empty for other tables."""
    metadata = schema.metadata or {}
    try:
        about: dict[str, Any] = json.loads(metadata.get(_KEY, b"{}"))
    except ValueError as error:
        raise BadFile(
            f"{source} must have JSON about itself in its metadata; {error}"
        ) from error
    if about.get("format", FORMAT) != FORMAT:
        raise BadFile(f"{source} must be of format {FORMAT!r}; got {about['format']!r}")
    return about


def _context(context: Context) -> "tuple[pa.Array, list[int] | str]":
    """Return the column of contexts, and how to read it: the shape of each row, or
    "json"."""
    pa = arrow()
    rows = rows_of(context)
    kinds = set()
    for row in rows:
        is_array = isinstance(row, np.ndarray)
        kinds.add((row.shape, row.dtype.char) if is_array else ((), "O"))
    shape, kind = next(iter(kinds))
    if len(kinds) == 1 and np.dtype(kind).kind in "fiu" and shape:
        values = np.stack(list(rows))
        length = int(np.prod(shape))
        return _fixed_lists(values, length), list(shape)
    texts = [json.dumps(encode(row), allow_nan=False) for row in rows]
    return pa.array(texts, pa.string()), "json"


def _is_json(values: Values) -> bool:
    """Return whether contexts are JSON objects as text, as in a log that oddsmith wrote
    and another program has rewritten."""
    for text in values:
        if text is not None:
            is_text = isinstance(text, str)
            return is_text and text.startswith("{") and text.endswith("}")
    return False


def _decode(text: Any, row: int) -> object:
    if text is None:
        return None
    try:
        return decode(json.loads(text))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenLog(
            "context", row, f"must be JSON, like the rows before; {error!s:.100}"
        ) from error


def _column(
    batch: "pa.RecordBatch", name: str, theirs: str, about: Mapping[str, Any]
) -> Values:
    """Return the values of one column."""
    values = _values(batch.column(theirs), name)
    if name != "context":
        return values
    how = about.get("context")
    if how == "json":
        return [decode(json.loads(text)) for text in values]
    if how is not None:
        return np.reshape(values, (-1, *how))
    if _is_json(values):
        return [_decode(text, row) for row, text in enumerate(values)]
    return values


def _joined_columns(
    batch: "pa.RecordBatch", name: str, theirs: Sequence[str]
) -> Values:
    """Join several columns of the table into one column of `Log`."""
    parts = [_values(batch.column(column), name) for column in theirs]
    keys = [column.removeprefix("context.") for column in theirs]
    if name == "context" and "context.json" in theirs:
        return _contexts(dict(zip(keys, parts, strict=True)))
    is_numbers = [
        isinstance(part, np.ndarray) and part.dtype.kind in "fiub" for part in parts
    ]
    if all(is_numbers):
        return np.column_stack(parts)
    if name != "context":
        for column, is_number in zip(theirs, is_numbers, strict=True):
            if not is_number:
                raise InvalidInput(f"column {name}: must be numbers; {column!r} is not")
    return [dict(zip(keys, row, strict=True)) for row in _rows(parts)]


def _rows(columns: Iterable[Values]) -> Iterator[tuple[Any, ...]]:
    """Return the rows of columns as Python values."""
    lists = []
    for values in columns:
        lists.append(values.tolist() if isinstance(values, np.ndarray) else values)
    return zip(*lists, strict=True)


def _contexts(columns: dict[str, Values]) -> list[Context]:
    """Return contexts from JSON texts in the column `json`. Rows without such a text
    have their values in one column per key."""
    texts = list(columns.pop("json"))
    # If all keys are digits, the context was a list of numbers.
    is_list = all(key.isdigit() for key in columns)
    rows = _rows(columns.values()) if columns else iter([()] * len(texts))
    contexts: list[Context] = []
    for text, row in zip(texts, rows, strict=True):
        if isinstance(text, str) and text:
            contexts.append(decode(json.loads(text)))
        elif is_list:
            contexts.append(list(row))
        else:
            contexts.append(dict(zip(columns, row, strict=True)))
    return contexts


def _values(array: "pa.Array", name: str) -> Values:
    """Return the values of an Arrow array."""
    pa = arrow()
    kinds = pa.types
    if kinds.is_string(array.type) or kinds.is_large_string(array.type):
        return _shared_texts(array.dictionary_encode())
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    for is_list in (kinds.is_fixed_size_list, kinds.is_list, kinds.is_large_list):
        if is_list(array.type):
            return _lists(array, name)
    if kinds.is_timestamp(array.type) or kinds.is_date(array.type):
        array = array.cast(pa.timestamp("us"), safe=False)
    if kinds.is_decimal(array.type):
        array = array.cast(pa.float64())
    with_dtype = (
        kinds.is_timestamp,
        kinds.is_integer,
        kinds.is_floating,
        kinds.is_boolean,
    )
    if any(is_kind(array.type) for is_kind in with_dtype):
        numbers: Values = array.to_numpy(zero_copy_only=False)
        return numbers
    values: Values = array.to_pylist()
    return values


def _shared_texts(coded: "pa.DictionaryArray") -> list[Any]:
    """Return texts, with None for missing ones. Equal texts share one object to save
    memory."""
    texts = [*coded.dictionary.to_pylist(), None]
    missing = len(texts) - 1
    codes = coded.indices.fill_null(missing).to_numpy(zero_copy_only=False)
    return [texts[code] for code in codes.tolist()]


def _lists(array: "pa.Array", name: str) -> Values:
    """Return lists of equal lengths as an array (T, n). Propensities of rows with
    different numbers of arms become a list of arrays."""
    kinds = arrow().types
    entry = array.type.value_type
    if not kinds.is_primitive(entry) and not kinds.is_boolean(entry):
        rows: list[Any] = array.to_pylist()
        return rows
    if array.null_count:
        row = array.is_null().to_pylist().index(True)
        raise BrokenLog(name, row, "must be a list; got null")
    flat = array.flatten().to_numpy(zero_copy_only=False)
    if not kinds.is_fixed_size_list(array.type):
        lengths = np.asarray(array.value_lengths())
        is_other = lengths != lengths[:1]
        if is_other.any() and name in BY_ARM:
            # The check of the log compares these lengths with the offers.
            return np.split(flat, lengths.cumsum()[:-1])
        if is_other.any():
            row = int(np.argmax(is_other))
            raise BrokenLog(
                name,
                row,
                f"must have {lengths[0]} entries like row 0; got {lengths[row]}",
            )
    return np.reshape(flat, (len(array), -1) if len(array) else (0, 0))
