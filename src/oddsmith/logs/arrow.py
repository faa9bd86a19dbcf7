"""Arrow tables and logs: what Parquet, CSV, pandas, polars and DuckDB have in
common."""

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
from oddsmith.logs.pieces import Piece, suffixes
from oddsmith.logs.table import Log

__all__ = ["FORMAT", "arrow", "batch_of", "pieces", "stream"]

if TYPE_CHECKING:
    import pyarrow as pa


Values: TypeAlias = npt.NDArray[np.generic] | list[Any]
"""A column: an array, or a list where numpy has no type for its values."""
FORMAT = "oddsmith log 1"
_KEY = b"oddsmith"


def arrow() -> ModuleType:
    """pyarrow, or one sentence about the extra that brings it."""
    return import_extra("pyarrow", "this format needs", "logs")


def stream(table: object, rows: int) -> "Iterator[pa.RecordBatch]":
    """Record batches of at most so many rows of anything that speaks the Arrow stream
    interface."""
    for batch in arrow().RecordBatchReader.from_stream(table):
        yield from (batch.slice(start, rows) for start in range(0, len(batch), rows))


def pieces(
    batches: "Iterable[pa.RecordBatch]",
    found: Mapping[str, str | list[str]],
    source: str,
) -> Iterator[Piece]:
    """The rows of record batches by our names, which are `found` among theirs."""
    first = 0
    for batch in batches:
        about = _about(batch.schema, source)
        arms = about.get("arms") or suffixes(found, "propensities", "eligible")
        if arms and "offered" in found:
            raise BadFile(
                f"{source} must have lists in the order of offered; it has columns "
                f"by name, {arms[0]!r}"
            )
        experts = about.get("experts") or suffixes(found, "advice")
        metrics = about.get("metrics") or suffixes(found, "metric")
        try:
            columns = {
                name: _column(batch, name, theirs, about)
                for name, theirs in found.items()
            }
        except BrokenLog as error:
            raise error.shift(first, source) from error
        own = "format" in about or "fingerprint" in batch.schema.names
        yield Piece(columns, first, arms, experts, own, metrics)
        first += len(batch)


def batch_of(log: Log) -> "pa.RecordBatch":
    """One record batch with our column names; contexts that are no arrays are JSON
    text."""
    pa = arrow()
    names = {
        "arms": log.arms if log.offered is None else None,
        "experts": log.experts,
        "metrics": log.metrics,
    }
    about: dict[str, object] = {"format": FORMAT} | {
        what: all_of and list(all_of) for what, all_of in names.items()
    }
    columns = {}
    for name, value in log.columns().items():
        if name == "context":
            columns[name], about["context"] = _context(value)
        elif name == "offered":
            columns[name] = pa.array(value, pa.list_(pa.string()))
        elif name == "features":
            columns[name] = pa.array(_texts(value), pa.string()).dictionary_encode()
        elif name in BY_ARM and log.offered is not None:
            columns[name] = _trimmed(value, log.offered)
        elif value.ndim == 2:
            columns[name] = pa.FixedSizeListArray.from_arrays(
                pa.array(value.ravel()), value.shape[1]
            )
        elif name == "fingerprint":
            columns[name] = pa.array(value, pa.string()).dictionary_encode()
        else:
            columns[name] = pa.array(
                value, pa.string() if value.dtype == object else None
            )
    batch = pa.RecordBatch.from_pydict(columns)
    return batch.replace_schema_metadata({_KEY: json.dumps(about)})


def _texts(rows: Sequence[Features]) -> list[str | None]:
    """Features as JSON text, by name; the same ones are written once."""
    distinct = {id(row): row for row in rows if row is not None}
    known = {
        place: json.dumps(encode(dict(row)), allow_nan=False)
        for place, row in distinct.items()
    }
    return [known.get(id(row)) for row in rows]


def _trimmed(
    column: npt.NDArray[np.generic], offers: Sequence[tuple[str, ...]]
) -> "pa.ListArray":
    """Lists with an entry for each arm offered."""
    pa, mask = arrow(), offer_mask(offers, column.shape[1])
    offsets = np.append(0, mask.sum(axis=1).cumsum()).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(column[mask]))


def _about(schema: "pa.Schema", source: str) -> dict[str, Any]:
    """What `batch_of` wrote about the table; nothing for tables of other origin."""
    try:
        about: dict[str, Any] = json.loads((schema.metadata or {}).get(_KEY, b"{}"))
    except ValueError as error:
        raise BadFile(
            f"{source} must have JSON about itself in its metadata; {error}"
        ) from error
    if about.get("format", FORMAT) != FORMAT:
        raise BadFile(f"{source} must be of format {FORMAT!r}; got {about['format']!r}")
    return about


def _context(context: Context) -> "tuple[pa.Array, list[int] | str]":
    """The column of contexts, and how to read it: the shape of each row, or "json"."""
    pa = arrow()
    rows = rows_of(context)
    kinds = {
        (row.shape, row.dtype.char) if isinstance(row, np.ndarray) else ((), "O")
        for row in rows
    }
    shape, kind = next(iter(kinds))
    if len(kinds) == 1 and np.dtype(kind).kind in "fiu" and shape:
        values = np.stack(list(rows)).ravel()
        return pa.FixedSizeListArray.from_arrays(
            pa.array(values), int(np.prod(shape))
        ), list(shape)
    return pa.array(
        [json.dumps(encode(row), allow_nan=False) for row in rows], pa.string()
    ), "json"


def _is_json(values: Values) -> bool:
    """Whether contexts are JSON objects in text, as in a log of ours that another
    program wrote anew."""
    first = next((one for one in values if one is not None), None)
    return isinstance(first, str) and first.startswith("{") and first.endswith("}")


def _decoded(text: object, row: int) -> object:
    try:
        return None if text is None else decode(json.loads(text))  # type: ignore[arg-type]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BrokenLog(
            "context", row, f"must be JSON, as rows before are; {error!s:.100}"
        ) from error


def _column(
    batch: "pa.RecordBatch",
    name: str,
    theirs: str | Sequence[str],
    about: Mapping[str, Any],
) -> Values:
    if isinstance(theirs, str):
        values = _values(batch.column(theirs), name)
        how = about.get("context") if name == "context" else None
        if how == "json":
            return [decode(json.loads(text)) for text in values]
        if how is None and name == "context" and _is_json(values):
            return [_decoded(text, row) for row, text in enumerate(values)]
        return values if how is None else np.reshape(values, (-1, *how))
    parts = [_values(batch.column(one), name) for one in theirs]
    if name == "context" and "context.json" in theirs:
        return _contexts(
            {
                one.removeprefix("context."): part
                for one, part in zip(theirs, parts, strict=True)
            }
        )
    if all(
        isinstance(part, np.ndarray) and part.dtype.kind in "fiub" for part in parts
    ):
        return np.column_stack(parts)
    if name != "context":
        wrong = next(
            one
            for one, part in zip(theirs, parts, strict=True)
            if not hasattr(part, "dtype")
        )
        raise InvalidInput(f"column {name}: must be numbers; {wrong!r} is not")
    names = [one.removeprefix("context.") for one in theirs]
    lists = [part.tolist() if isinstance(part, np.ndarray) else part for part in parts]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)]


def _contexts(columns: dict[str, Values]) -> list[Context]:
    """Contexts of which some are JSON, in the column `json`, and the others are in
    columns of their keys."""
    texts = list(columns.pop("json"))
    # a row without keys was a list of numbers
    listed = all(key.isdigit() for key in columns)
    rows = zip(
        *(
            part.tolist() if isinstance(part, np.ndarray) else part
            for part in columns.values()
        ),
        strict=True,
    )
    plain = iter(rows) if columns else iter([()] * len(texts))
    pairs = zip(
        texts,
        (
            list(row) if listed else dict(zip(columns, row, strict=True))
            for row in plain
        ),
        strict=True,
    )
    return [
        decode(json.loads(text)) if isinstance(text, str) and text else row
        for text, row in pairs
    ]


def _values(array: "pa.Array", name: str) -> Values:
    """The values of an Arrow array."""
    pa = arrow()
    kinds = pa.types
    if kinds.is_string(array.type) or kinds.is_large_string(array.type):
        return _texts_of(array.dictionary_encode())
    if kinds.is_dictionary(array.type):
        array = array.dictionary_decode()
    if (
        kinds.is_fixed_size_list(array.type)
        or kinds.is_list(array.type)
        or kinds.is_large_list(array.type)
    ):
        return _lists(array, name)
    if kinds.is_timestamp(array.type) or kinds.is_date(array.type):
        array = array.cast(pa.timestamp("us"), safe=False)
    if kinds.is_decimal(array.type):
        array = array.cast(pa.float64())
    known = (kinds.is_timestamp, kinds.is_integer, kinds.is_floating, kinds.is_boolean)
    is_known = any(is_kind(array.type) for is_kind in known)
    values: Values = (
        array.to_numpy(zero_copy_only=False) if is_known else array.to_pylist()
    )
    return values


def _texts_of(coded: "pa.DictionaryArray") -> list[Any]:
    """Texts, None where they are missing; equal ones are one object in memory."""
    texts = [*coded.dictionary.to_pylist(), None]
    codes = coded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)
    return [texts[code] for code in codes.tolist()]


def _lists(array: "pa.Array", name: str) -> Values:
    """Lists of equal lengths as (T, n); odds of different numbers of arms as a list of
    arrays."""
    pa = arrow()
    if not (
        pa.types.is_primitive(array.type.value_type)
        or pa.types.is_boolean(array.type.value_type)
    ):
        rows: list[Any] = array.to_pylist()
        return rows
    if array.null_count:
        row = array.is_null().to_pylist().index(True)
        raise BrokenLog(name, row, "must be a list; got null")
    lengths = (
        np.asarray(array.value_lengths())
        if not pa.types.is_fixed_size_list(array.type)
        else np.array([])
    )
    flat = array.flatten().to_numpy(zero_copy_only=False)
    if (lengths != lengths[:1]).any():
        if name in BY_ARM:  # as many as were offered: checked when the log is made
            return np.split(flat, lengths.cumsum()[:-1])
        row = int(np.argmax(lengths != lengths[0]))
        raise BrokenLog(
            name, row, f"must have {lengths[0]} entries like row 0; got {lengths[row]}"
        )
    return np.reshape(flat, (len(array), -1) if len(array) else (0, 0))
