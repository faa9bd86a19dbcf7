"""Arms that are passed in a call: dicts, lists of names, or data frames with one row
per arm, named by the column `arm` or the index."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from oddsmith.contexts.numbers import numbers
from oddsmith.core.arrays import Array
from oddsmith.core.contexts import has_names, is_table, one, rows, short_repr
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import AnyOffer, Offer, OfferBatch

__all__ = [
    "Encoder",
    "LONGEST_NAME",
    "MOST_ARMS",
    "arm_records",
    "arm_rows",
    "encoded_offer",
    "feature_numbers",
    "make_offer",
    "named_rows",
]


def named_rows(table: Any) -> tuple[list[object], list[Any]]:
    """Return the names and features of the rows of a data frame."""
    is_arrow = hasattr(table, "column_names")
    columns = [
        str(name) for name in (table.column_names if is_arrow else table.columns)
    ]
    if "arm" in columns:
        names = []
        features: list[Any] = []
        for row in rows(table):
            record = dict(row)
            names.append(record.pop("arm"))
            features.append(record or None)
        return names, features
    if not hasattr(table, "iloc"):
        raise InvalidInput(
            "arms must have a column 'arm' with their names; got the columns "
            f"{columns[:8]}"
        )
    features = list(rows(table)) if columns else [None] * len(table)
    _check_index(table.index, columns, features)
    return table.index.tolist(), features


def _check_index(index: Any, columns: Sequence[str], features: Sequence[Any]) -> None:
    """Raise for the default index 0, 1, 2, … of a data frame if columns contain words.

    With this index, the arms' names would change from call to call. Rows that contain
    only numbers are allowed, because their numbers may be the names.
    """
    is_range = type(index).__name__ == "RangeIndex"
    is_default = is_range and index.name is None and index.start == 0
    if not is_default or index.step != 1:
        return
    words = [name for name in columns if _has_text(features, name)]
    if not words:
        return
    give = "give them an index, or a column 'arm', of names"
    for name in words:
        if len({str(row[name]) for row in features}) == len(features):
            give = f"for example arms.set_index({name!r})"
            break
    raise InvalidInput(
        "arms must be named by their column 'arm' or their index; got 0, 1, 2, …: "
        f"{give}"
    )


def _has_text(features: Sequence[Any], name: str) -> bool:
    """Return whether a column contains text in some row."""
    for row in features:
        if isinstance(row, dict) and isinstance(row.get(name), str):
            return True
    return False


MOST_ARMS = 1000
"""Maximum number of arms in one offer."""
LONGEST_NAME = 256
"""Maximum number of characters in a name."""
_INSTEAD = "give a schema, which reads names"


class Encoder(Protocol):
    """Converts contexts or features to numbers: a `Schema`."""

    def encode(self, context: Any) -> Array:
        """Return numbers (…, width)."""
        ...


def make_offer(context: Any, arms: Any) -> Offer:
    """Return the offer of these arms: a dict of name to features, a list of names, or a
    data frame with a row for each arm.

    A pandas frame names its rows by the column `arm` or by its index, a polars frame by
    the column `arm`.

    >>> make_offer(None, ["a", 7]).arms
    ('a', '7')
    """
    if isinstance(arms, Offer | OfferBatch):
        raise InvalidInput(
            "arms must be a dict, a list of names or a data frame; got an Offer: give "
            "its arms"
        )
    names: list[object]
    features: list[Any] = []
    if is_table(arms):
        names, features = named_rows(arms)
    elif isinstance(arms, Mapping):
        names = list(arms)
        features = [one(row) for row in arms.values()]
    elif _is_list(arms):
        names = list(arms)
    else:
        raise InvalidInput(
            "arms must be a dict of name: features, or a list of names; got "
            f"{short_repr(arms)}"
        )
    checked = _checked_names(names)
    if all(row is None for row in features):
        return Offer(context, checked)
    _check_kinds(checked, features)
    return Offer(context, checked, dict(zip(checked, features, strict=True)))


def _is_list(arms: Any) -> bool:
    if isinstance(arms, str | bytes):
        return False
    return isinstance(arms, Sequence | np.ndarray) and getattr(arms, "ndim", 1) > 0


def arm_rows(
    offer: AnyOffer, schema: Encoder | None = None, arm_schema: Encoder | None = None
) -> Array:
    """Return the numbers (K, d) of an offer, or (n, K, d) of a batch: one row per arm,
    with the context's numbers followed by the arm's."""
    if isinstance(offer, Offer):
        context = _context_numbers(offer.context, schema)
        features = _feature_numbers(offer, offer.arms, arm_schema)
        return _rows_of(context, features)
    blocks = [arm_rows(one, schema, arm_schema) for one in offer.offers]
    if len({block.shape for block in blocks}) > 1:
        widths = sorted({block.shape[-1] for block in blocks})
        raise InvalidInput(
            "offers must have the same number of values for each arm; got "
            f"{widths[0]} and {widths[-1]}"
        )
    return np.stack(blocks)


def encoded_offer(
    offer: AnyOffer, schema: Encoder | None, arm_schema: Encoder | None
) -> AnyOffer:
    """Return the offer with each arm's row of numbers as its features, and no context.
    If only the drawn arm has features, only it gets a row."""
    encoded = [_encode(one, schema, arm_schema) for one in offer.offers]
    if isinstance(offer, Offer):
        return encoded[0]
    return OfferBatch(tuple(encoded))


def arm_records(offer: AnyOffer) -> list[dict[str, object]]:
    """Return a dict for each arm, one offer after the other: the context's entries,
    then the arm's."""
    records = []
    for each in offer.offers:
        shared = {} if each.context is None else one(each.context)
        if not isinstance(shared, Mapping):
            raise InvalidInput(
                "context must be a dict if features are dicts; got "
                f"{short_repr(shared)}"
            )
        records += [_record(shared, arm, each.features_of(arm)) for arm in each.arms]
    return records


def _encode(offer: Offer, schema: Encoder | None, arm_schema: Encoder | None) -> Offer:
    arms: Sequence[str] = offer.arms
    if offer.features is not None:
        arms = [arm for arm in arms if arm in offer.features]
    context = _context_numbers(offer.context, schema)
    features = _feature_numbers(offer, arms, arm_schema)
    table = _rows_of(context, features)
    return Offer(None, offer.arms, dict(zip(arms, table, strict=True)))


def feature_numbers(
    arms: Sequence[str], features: Sequence[Any], read: Callable[[Any], Array]
) -> Array:
    """Return the numbers (arms, d) that `read` makes of features. An error names the
    first arm whose features are wrong."""
    try:
        return read(features)
    except InvalidInput:
        for arm, row in zip(arms, features, strict=True):
            try:
                read([row])
            except InvalidInput as error:
                rule = str(error).removeprefix("context ")
                raise InvalidInput(f"features of arm {arm!r:.40}: {rule}") from error
        raise


def _checked_names(names: Sequence[object]) -> tuple[str, ...]:
    """Return distinct names of 1 to 256 characters that any store can hold."""
    if not names:
        raise InvalidInput("arms must be at least one; got none")
    if len(names) > MOST_ARMS:
        raise InvalidInput(
            f"arms must be at most {MOST_ARMS:,} in one call; got {len(names):,}: "
            "offer a shortlist"
        )
    checked = tuple(name if type(name) is str else _as_text(name) for name in names)
    for name in checked:
        if not 0 < len(name) <= LONGEST_NAME:
            got = (
                f"{len(name):,} characters, {name[:20]!r}…" if name else "an empty one"
            )
            raise InvalidInput(
                f"names of arms must have 1 to {LONGEST_NAME} characters; got {got}"
            )
        if not name.isprintable() and _unstorable(name):
            raise InvalidInput(
                "names of arms must be text without NUL and lone surrogates; got "
                f"{name!r:.60}"
            )
    if len(set(checked)) < len(checked):
        twice = next(name for name in checked if checked.count(name) > 1)
        raise InvalidInput(
            f"names of arms must be distinct; got {twice!r:.60} twice: rename one of "
            "them"
        )
    return checked


def _as_text(name: object) -> str:
    if isinstance(name, bool) or not isinstance(name, str | int | np.integer):
        raise InvalidInput(
            f"names of arms must be text or whole numbers; got {short_repr(name)}"
        )
    return str(name)


def _unstorable(name: str) -> bool:
    return "\0" in name or any("\ud800" <= character <= "\udfff" for character in name)


def _check_kinds(arms: Sequence[str], features: Sequence[Any]) -> None:
    """Raise for features that are neither dicts nor numbers, are of two kinds, or
    arrays of different lengths."""
    first_arm = ""
    first_kind: object = None
    for arm, row in zip(arms, features, strict=True):
        if row is None:
            continue
        kind = _kind(arm, row)
        if first_kind is None:
            first_arm = arm
            first_kind = kind
        elif kind != first_kind:
            raise InvalidInput(
                f"features must be of one kind for all arms; got {_words(first_kind)} "
                f"for {first_arm!r:.40} and {_words(kind)} for {arm!r:.40}"
            )


def _kind(arm: str, row: Any) -> object:
    """Return -1 for a dict, otherwise the number of features."""
    if type(row) is np.ndarray and row.ndim == 1 and row.dtype.kind in "fiub":
        return len(row)
    if isinstance(row, Mapping):
        return -1
    if isinstance(row, str | bytes) or is_table(row):
        raise InvalidInput(
            f"features of arm {arm!r:.40} must be a dict, numbers or None; got "
            f"{short_repr(row)}"
        )
    floats = np.atleast_1d(numbers(row))
    if floats.ndim != 1:
        raise InvalidInput(
            f"features of arm {arm!r:.40} must be a dict, or numbers in a row; got "
            f"shape {floats.shape}"
        )
    return len(floats)


def _words(kind: object) -> str:
    return "a dict" if kind == -1 else f"{kind} numbers"


def _record(shared: Mapping[str, object], arm: str, own: Any) -> dict[str, object]:
    if own is None:
        return dict(shared)
    if not isinstance(own, Mapping):
        raise InvalidInput(
            f"features of arm {arm!r:.40} must be a dict, because these experts read "
            f"names; got {short_repr(own)}"
        )
    for name in own:
        if name in shared:
            raise InvalidInput(
                f"names of the context and of features must differ; got {name!r} in "
                "both: rename one"
            )
    return {**shared, **own}


def _context_numbers(context: Any, schema: Encoder | None) -> Array:
    if context is None and schema is None:
        return np.zeros(0)
    encoded = numbers(context, _INSTEAD) if schema is None else schema.encode(context)
    if encoded.ndim > 1:
        raise InvalidInput(
            f"context must be one context for all arms; got shape {encoded.shape}"
        )
    return np.atleast_1d(encoded)


def _feature_numbers(
    offer: Offer, arms: Sequence[str], schema: Encoder | None
) -> Array:
    """Return the numbers (arms, d) of the features, without columns if no arm has
    features."""
    known = [offer.features_of(arm) for arm in arms]
    if schema is not None:
        records = [{} if row is None else row for row in known]
        return feature_numbers(arms, records, schema.encode)
    if offer.features is None:
        return np.zeros((len(arms), 0))
    width: int | None = None
    for row in offer.features.values():
        if has_names(row):
            raise InvalidInput(
                f"features must be numbers in an array; got a dict: {_INSTEAD}"
            )
        if width is None and row is not None:
            width = np.atleast_1d(numbers(row)).shape[-1]
    table = np.full((len(arms), width or 0), np.nan)
    for place, row in enumerate(known):
        if row is not None:
            table[place] = numbers(row)
    return table


def _rows_of(context: Array, features: Array) -> Array:
    """Return one row per arm: the context's numbers, then the arm's."""
    repeated = np.broadcast_to(context, (len(features), len(context)))
    return np.concatenate([repeated, features], axis=1)
