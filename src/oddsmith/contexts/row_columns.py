"""RowColumns: the columns of a row of numbers, for a context and, if arms are passed in
the call, for an arm's features."""

from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from oddsmith.contexts.columns import (
    Columns,
    empty_columns,
    learn_columns,
    read_context,
    read_rows,
)
from oddsmith.contexts.offers import feature_numbers
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import AnyOffer, Offer

__all__ = ["RowColumns", "Schemas", "empty_row_columns", "learn_row", "read_offer"]

_Kind = TypeVar("_Kind", np.bool_, np.float64)


class RowColumns(NamedTuple):
    """The meaning of a row's numbers: the columns of the context, those of the arm, and
    which of the numbers (d) are the arm's.

    In a row, the numbers of context and arm are mixed, in the order in which their
    columns were learnt.
    """

    context: Columns
    features: Columns
    is_own: Bools

    @property
    def is_category(self) -> Bools:
        """Whether each number (d) is an indicator (0 or 1)."""
        return self.join(self.context.is_category, self.features.is_category)

    @property
    def fill(self) -> Array:
        """The value (d) that each number has in rows learnt before its column
        existed."""
        return self.join(self.context.fill, self.features.fill)

    def join(
        self, context: npt.NDArray[_Kind], own: npt.NDArray[_Kind]
    ) -> npt.NDArray[_Kind]:
        """Combine numbers of the context (c) and of the arm (…, f) to rows (…, d)."""
        rows = np.empty((*own.shape[:-1], len(self.is_own)), own.dtype)
        rows[..., ~self.is_own] = context
        rows[..., self.is_own] = own
        return rows


class Schemas(NamedTuple):
    """The schemas of contexts and of features. Without a schema (None), all names are
    read."""

    context: Schema | None = None
    features: Schema | None = None


def empty_row_columns() -> RowColumns:
    """Return the state without columns."""
    return RowColumns(empty_columns(), empty_columns(), np.zeros(0, np.bool_))


def learn_row(
    columns: RowColumns, context: Any, known: Any, schemas: Schemas
) -> RowColumns:
    """Return the columns after learning from a context and the known features of an arm
    (None if there are none), or the same object if no column was added.

    >>> columns = learn_row(
    ...     empty_row_columns(), {"hour": 9}, {"topic": "tech"}, Schemas()
    ... )
    >>> learn_row(columns, {"hour": 9.5, "new": True}, None, Schemas()).is_own
    array([False,  True, False])
    """
    own = columns.context
    features = columns.features
    if context is not None:
        own = learn_columns(own, context, schemas.context)
    if known is not None:
        features = learn_columns(features, known, schemas.features)
    if own is columns.context and features is columns.features:
        return columns
    n_own = len(own.kinds) - len(columns.context.kinds)
    n_features = len(features.kinds) - len(columns.features.kinds)
    is_new_own = np.repeat([False, True], [n_own, n_features])
    return RowColumns(own, features, np.append(columns.is_own, is_new_own))


def read_offer(columns: RowColumns, offer: AnyOffer, schemas: Schemas) -> Array:
    """Return one row per arm, (…, K, d), with the numbers of the context and of the
    arm."""
    rows = [_read_one(columns, one, schemas) for one in offer.offers]
    if isinstance(offer, Offer):
        return rows[0]
    return np.stack(rows)


def _read_one(columns: RowColumns, offer: Offer, schemas: Schemas) -> Array:
    of_context = {} if offer.context is None else offer.context
    context = read_context(columns.context, of_context, schemas.context)
    features = offer.features or {}
    known = [{} if features.get(arm) is None else features[arm] for arm in offer.arms]
    read = partial(read_rows, columns.features, schema=schemas.features)
    own = feature_numbers(offer.arms, known, read)
    if context.ndim != 1 or own.ndim != 2:
        got = context.shape if context.ndim != 1 else own.shape[1:]
        raise InvalidInput(
            "context and features must be one dict or row of numbers each; got shape "
            f"{got}"
        )
    return columns.join(context, own)
