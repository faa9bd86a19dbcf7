"""The features of linear policies: arrays as they are, everything that has names
through a schema."""

from collections.abc import Sequence

import numpy as np

from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.offers import arm_rows
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import AnyOffer

__all__ = ["checked_dim", "feature_names", "named_weights", "read_features"]


def checked_dim(dim: object, *schemas: object) -> int:
    """How many features there are: `dim`, or what the schemas say, their numbers and
    a 1.

    >>> checked_dim(3, None), checked_dim(0, Schema(numbers=("age",)))
    (3, 2)
    """
    if wrong := [schema for schema in schemas if not isinstance(schema, Schema | None)]:
        raise InvalidInput(f"schema must be a Schema; got {type(wrong[0]).__name__}")
    widths = [schema.width for schema in schemas if isinstance(schema, Schema)]
    if (
        isinstance(dim, bool)
        or not isinstance(dim, int | np.integer)
        or dim < (0 if widths else 1)
    ):
        raise InvalidInput(
            "dim must be a whole number of at least 1, or left out beside a schema; "
            f"got {dim!r}"
        )
    if widths and dim not in (0, sum(widths) + 1):
        raise InvalidInput(
            f"dim must be left out beside a schema, which has {sum(widths)} numbers "
            f"and a 1; got {dim}"
        )
    if widths:
        return sum(widths) + 1
    return int(dim)


def read_features(
    context: Context, schema: Schema | None, arm_schema: Schema | None = None
) -> Array:
    """The context as float64 (…, dim). Through a schema a missing number is 0, and a 1
    comes last.

    Of an offer, a row for each arm: the numbers of the context, then those of the arm.

    >>> read_features({"age": None}, Schema(numbers=("age",)))
    array([0., 1.])
    """
    if isinstance(context, AnyOffer):
        encoded = arm_rows(context, schema, arm_schema)
        if schema is None and arm_schema is None:
            return encoded
        return _completed(encoded)
    if schema is None:
        return numbers(context, "give the policy a schema=Schema(…), which reads names")
    return _completed(schema.encode(context))


def _completed(encoded: Array) -> Array:
    return np.concatenate(
        [np.nan_to_num(encoded, nan=0.0), np.ones((*encoded.shape[:-1], 1))], axis=-1
    )


def feature_names(dim: int, *schemas: Schema | None) -> tuple[str, ...]:
    """A name for each feature: the schemas' columns, or numbers.

    >>> (
    ...     feature_names(2, None),
    ...     feature_names(3, Schema(categories=("city",), buckets=2)),
    ... )
    (('column 0', 'column 1'), ('city 0', 'city 1', 'constant'))
    """
    names = [
        name for schema in schemas if schema is not None for name in schema.columns
    ]
    if names:
        return (*names, "constant")
    return tuple(f"column {i}" for i in range(dim))


def named_weights(
    arms: Sequence[str] | None, columns: Sequence[str], means: Array, sds: Array
) -> dict[str, dict[str, tuple[float, float]]]:
    """Means and standard deviations (G, d) by arm and column; by "all arms" where these
    share a belief.

    >>> named_weights(["a", "b"], ["age"], np.array([[0.5]]), np.array([[1.0]]))
    {'all arms': {'age': (0.5, 1.0)}}
    """
    n = len(means)
    given = ["all arms"] if n == 1 else [str(arm) for arm in range(n)]
    names = arms if arms is not None and len(arms) == n else given
    rows = (
        zip(mean, sd, strict=True)
        for mean, sd in zip(means.tolist(), sds.tolist(), strict=True)
    )
    return {
        name: dict(zip(columns, row, strict=True))
        for name, row in zip(names, rows, strict=True)
    }
