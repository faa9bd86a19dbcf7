"""Convert contexts with names to data frames with the columns that a model was fitted
on."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from oddsmith.contexts.values import check_columns
from oddsmith.core.contexts import NamedRow, is_table, missing, rows, short_repr
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput, MissingExtra

__all__ = ["NAMES", "as_frame", "check_arms_differ", "order_columns"]


def as_frame(contexts: Context) -> Any:
    """Return contexts with names as a data frame: polars frames unchanged, everything
    else in pandas, NaN for missing.

    A single row has the same types as in a batch. Dicts have no order, so their columns
    are sorted and marked as unordered.
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
        frame = contexts
        if not hasattr(contexts, "iloc"):
            frame = _convert(contexts.to_pandas)
        return _with_nan(frame)
    records = list[dict[Any, Any]]()
    each = rows(contexts)
    for row in each:
        if not isinstance(row, Mapping):
            raise InvalidInput(
                f"contexts must have one form; got a dict and {short_repr(row)}: pass "
                "only dicts or only arrays"
            )
        records.append({n: np.nan if missing(v) else v for n, v in row.items()})
    frame = _convert(lambda: pd.DataFrame(records))
    # Empty columns become object, which suits numbers and text.
    empty = [name for name in frame.columns if frame[name].isna().all()]
    frame = frame.astype(dict.fromkeys(empty, object))
    if all(isinstance(row, NamedRow) for row in each):
        return frame
    frame = frame[sorted(frame.columns, key=str)]
    frame.attrs[_UNORDERED] = True
    return frame


def _convert(convert: Callable[[], Any]) -> Any:
    """Return a frame that pandas makes; raise for contexts that pandas does not
    support."""
    try:
        return convert()
    except Exception as error:  # pyarrow and pandas raise various errors
        why = " ".join(f"{type(error).__name__}: {error}".split())
        raise InvalidInput(
            f"contexts must be values that a pandas frame supports; {why:.160}"
        ) from error


def _with_nan(frame: Any) -> Any:
    """Return a pandas frame with NaN for missing values and with numpy's types, for
    models."""
    changed = {}
    for place, (name, dtype) in enumerate(
        zip(frame.columns, frame.dtypes, strict=True)
    ):
        is_numpy = isinstance(dtype, np.dtype)
        if dtype == "category" or (is_numpy and dtype != np.object_):
            continue
        column = frame.iloc[:, place]
        gaps = column.isna()
        kind = getattr(dtype, "kind", "O")
        if is_numpy or kind not in "iufb":
            if gaps.any() and kind == "O":
                changed[name] = column.astype(object).where(~gaps, np.nan)
        elif gaps.any():
            changed[name] = column.to_numpy(np.float64, na_value=np.nan)
        else:
            changed[name] = column.to_numpy()
    if changed and frame.columns.is_unique:
        return frame.assign(**changed)
    return frame


def order_columns(frame: Any, model: object) -> Any:
    """Return the columns that a model was fitted on, in its order, with NaN in columns
    that the frame lacks."""
    if not is_table(frame):
        return frame
    booster = _booster(model)
    fitted = _fitted_names(model, booster)
    columns = tuple(frame.columns)
    is_unordered = getattr(frame, "attrs", {}).get(_UNORDERED)
    if not fitted and is_unordered and hasattr(model, "n_features_in_"):
        raise InvalidInput(
            "context must be an array of numbers, like the data the model was fitted "
            "on; got a dict, whose order is undefined: fit the model on a data "
            f"frame, or {NAMES}"
        )
    absent = [name for name in fitted if name not in columns]
    if absent:
        check_columns(fitted, columns)
        if not hasattr(frame, "reindex"):
            frame = as_frame(rows(frame))
        frame = frame.reindex(columns=list(fitted))
        frame = frame.astype(dict.fromkeys(absent, object))
    elif fitted and fitted != columns:
        frame = frame[list(fitted)]
    if booster is None or not hasattr(frame, "iloc"):
        return frame
    return _with_categories(frame, booster)


def check_arms_differ(
    frame: Any, model: object, *, name: str, of_arms: Collection[str]
) -> None:
    """Raise if a model cannot distinguish the arms, because it lacks a column and none
    of its columns describes the arms.

    A column that the input lacks is NaN in every row. This is acceptable for a column
    of the context. But if all columns that describe arms are NaN, the rows of all arms
    are equal, and so are their predictions.
    """
    fitted = _fitted_names(model, _booster(model))
    columns = tuple(frame.columns)
    absent = [column for column in fitted if column not in columns]
    if not absent or set(fitted) & set(of_arms):
        return
    check_columns(fitted, columns)
    got = f"columns {sorted(of_arms)}" if of_arms else "names alone"
    raise InvalidInput(
        f"arms must have a column that model {name!r} reads, because otherwise "
        f"its predictions are the same for all arms; got {got}, and "
        f"no {absent[0]!r} in the context: call "
        f"decide(context, arms={{'gift': {{{absent[0]!r}: 'gift'}}, …}}), a dict of "
        "each arm's columns (None where a value is not known)"
    )


def _booster(model: object) -> Any:
    """Return LightGBM's booster, if the model is one or has one."""
    if hasattr(model, "booster_"):
        return model.booster_
    if hasattr(model, "pandas_categorical"):
        return model
    return None


def _fitted_names(model: object, booster: Any) -> tuple[str, ...]:
    """Return the columns that a model was fitted on, or none if it was fitted on an
    array, whose columns LightGBM numbers."""
    names: Sequence[object] = ()
    if hasattr(model, "feature_names_in_"):
        names = model.feature_names_in_
    elif booster is not None:
        names = booster.feature_name()
    fitted = tuple(str(name) for name in names)
    numbered = tuple(f"Column_{i}" for i in range(len(fitted)))
    if booster is not None and fitted == numbered:
        return ()
    return fitted


def _with_categories(frame: Any, booster: Any) -> Any:
    """Return a frame in which LightGBM's categorical columns have the categories of its
    training. All other text becomes numbers.

    If the booster does not list its categorical columns, these are the text columns.
    """
    dtypes = zip(frame.columns, frame.dtypes, strict=True)
    texts = [name for name, dtype in dtypes if str(dtype) in _TEXT]
    categories = booster.pandas_categorical or []
    settings = booster.params
    places = settings.get("categorical_column", settings.get("categorical_feature"))
    is_listed = isinstance(places, list) and len(places) == len(categories)
    if not is_listed or not all(isinstance(place, int) for place in places):
        return frame.astype(dict.fromkeys(texts, "category"))
    by_name = dict(zip(frame.columns[places], categories, strict=True))
    plain = [name for name in texts if name not in by_name]
    frame = frame.astype(dict.fromkeys(plain, np.float64))
    for name, values in by_name.items():
        column = frame[name].astype("category")
        by_name[name] = column.cat.set_categories(values)
    return frame.assign(**by_name)


_TEXT = ("object", "str", "string")
_UNORDERED = "oddsmith: columns of dicts"
NAMES = "use Encoded(experts, schema), which reads names"
