"""Contexts with names as data frames, in the columns that a model was fitted on."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

import numpy as np

from oddsmith.contexts.values import check_columns
from oddsmith.core.contexts import NamedRow, is_table, missing, rows, short_repr
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput, MissingExtra

__all__ = ["NAMES", "as_frame", "check_arms_differ", "ordered"]


def as_frame(contexts: Context) -> Any:
    """Contexts with names as a data frame: polars frames as they are, everything else
    in pandas, NaN for missing.

    A row alone becomes what it is in a batch. Dicts have no order: their columns are
    sorted, and marked as unordered.
    """
    if is_table(contexts) and hasattr(contexts, "to_dicts"):
        return contexts
    try:
        import pandas as pd
    except ImportError as error:
        raise MissingExtra(
            f"contexts with names need pandas (the extra oddsmith[lab]); {error}"
        ) from error
    if is_table(contexts):
        return _with_nan(
            contexts if hasattr(contexts, "iloc") else _converted(contexts.to_pandas)
        )
    each = rows(contexts)
    if wrong := [row for row in each if not isinstance(row, Mapping)]:
        raise InvalidInput(
            f"contexts must be in one form; got a dict and {short_repr(wrong[0])}: "
            "bring dicts or arrays"
        )
    records = [
        {name: np.nan if missing(value) else value for name, value in row.items()}
        for row in each
    ]
    frame = _converted(lambda: pd.DataFrame(records))
    empty = [name for name in frame.columns if frame[name].isna().all()]
    # which suits numbers and text alike
    frame = frame.astype(dict.fromkeys(empty, object))
    if all(isinstance(row, NamedRow) for row in each):
        return frame
    frame = frame[sorted(frame.columns, key=str)]
    frame.attrs[_UNORDERED] = True
    return frame


def _converted(convert: Callable[[], Any]) -> Any:
    """A frame that pandas makes; what it cannot hold is refused."""
    try:
        return convert()
    except Exception as error:  # pyarrow and pandas have their own reasons
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(
            f"contexts must be what a pandas frame can hold; {why:.160}"
        ) from error


def _with_nan(frame: Any) -> Any:
    """A pandas frame whose missing values are NaN, in columns of numpy's types: what
    models read."""
    changed = {}
    for place, (name, kind) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        if kind == "category" or (isinstance(kind, np.dtype) and kind != np.object_):
            continue
        column, gaps = frame.iloc[:, place], frame.iloc[:, place].isna()
        if not isinstance(kind, np.dtype) and getattr(kind, "kind", "O") in "iufb":
            changed[name] = (
                column.to_numpy(np.float64, na_value=np.nan)
                if gaps.any()
                else column.to_numpy()
            )
        elif gaps.any() and getattr(kind, "kind", "O") == "O":
            changed[name] = column.astype(object).where(~gaps, np.nan)
    return frame.assign(**changed) if changed and frame.columns.is_unique else frame


def ordered(frame: Any, model: object) -> Any:
    """The columns that a model was fitted on, in its order; NaN where the frame has
    none of that name."""
    if not is_table(frame):
        return frame
    booster = _booster(model)
    fitted, columns = _fitted_names(model, booster), tuple(frame.columns)
    if (
        not fitted
        and hasattr(model, "n_features_in_")
        and getattr(frame, "attrs", {}).get(_UNORDERED)
    ):
        raise InvalidInput(
            "context must be numbers in an array, as those the model was fitted on; "
            f"got a dict, whose order means nothing: fit it on a data frame, or {NAMES}"
        )
    if fitted and not set(fitted) <= set(columns):
        check_columns(fitted, columns)
        if not hasattr(frame, "reindex"):
            frame = as_frame(rows(frame))
        absent = [name for name in fitted if name not in columns]
        frame = frame.reindex(columns=list(fitted)).astype(
            dict.fromkeys(absent, object)
        )
    elif fitted and fitted != columns:
        frame = frame[list(fitted)]
    return (
        frame
        if booster is None or not hasattr(frame, "iloc")
        else _with_categories(frame, booster)
    )


def check_arms_differ(
    frame: Any, model: object, *, name: str, of_arms: Collection[str]
) -> None:
    """Refuse arms that a model cannot tell apart: it lacks a column, and none of its
    columns comes with the arms.

    A column that is absent is missing in all rows, which suits a context of which
    little is known; here it would make the rows of all arms the same, and votes even.
    """
    fitted, columns = _fitted_names(model, _booster(model)), tuple(frame.columns)
    absent = [column for column in fitted if column not in columns]
    if not absent or set(fitted) & set(of_arms):
        return
    check_columns(fitted, columns)
    got = f"columns {sorted(of_arms)}" if of_arms else "names alone"
    raise InvalidInput(
        f"arms must bring a column that model {name!r} reads, or all of them look "
        f"alike to it; got {got}, and no {absent[0]!r} in the context: call "
        f"decide(context, arms={{'gift': {{{absent[0]!r}: 'gift'}}, …}}), a dict of "
        "each arm's columns (None where a value is not known)"
    )


def _booster(model: object) -> Any:
    return getattr(
        model, "booster_", model if hasattr(model, "pandas_categorical") else None
    )


def _fitted_names(model: object, booster: Any) -> tuple[str, ...]:
    """The columns that a model was fitted on; none where it was fitted on an array,
    whose columns LightGBM numbers."""
    names = getattr(
        model, "feature_names_in_", () if booster is None else booster.feature_name()
    )
    fitted = tuple(str(name) for name in names)
    return (
        ()
        if booster is not None
        and fitted == tuple(f"Column_{i}" for i in range(len(fitted)))
        else fitted
    )


def _with_categories(frame: Any, booster: Any) -> Any:
    """The columns that LightGBM was fitted on as categories as such, with those it
    knows; all other text as numbers.

    Where the booster does not say which they were, those of text.
    """
    texts = [
        name
        for name, kind in zip(frame.columns, frame.dtypes, strict=True)
        if str(kind) in _TEXT
    ]
    known, settings = booster.pandas_categorical or [], booster.params
    places = settings.get("categorical_column", settings.get("categorical_feature"))
    if (
        not isinstance(places, list)
        or len(places) != len(known)
        or not all(isinstance(place, int) for place in places)
    ):
        return frame.astype(dict.fromkeys(texts, "category"))
    kinds = {
        frame.columns[place]: values
        for place, values in zip(places, known, strict=True)
    }
    frame = frame.astype({name: np.float64 for name in texts if name not in kinds})
    return frame.assign(
        **{
            name: frame[name].astype("category").cat.set_categories(values)
            for name, values in kinds.items()
        }
    )


_TEXT = ("object", "str", "string")
_UNORDERED = "oddsmith: columns of dicts"
NAMES = "ask the experts through Encoded(experts, schema), which reads names"
