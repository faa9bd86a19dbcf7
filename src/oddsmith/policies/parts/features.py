"""Features of linear policies: arrays are used unchanged, contexts with names are
encoded by a schema."""

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
    """Return the number of features: `dim` or, if there are schemas, the number of
    their encoded numbers plus 1.

    >>> checked_dim(3, None), checked_dim(0, Schema(numbers=("age",)))
    (3, 2)
    """
    widths = list[int]()
    for schema in schemas:
        if isinstance(schema, Schema):
            widths.append(schema.width)
        elif schema is not None:
            raise InvalidInput(f"schema must be a Schema; got {type(schema).__name__}")
    size = -1
    if isinstance(dim, int | np.integer) and not isinstance(dim, bool):
        size = int(dim)
    if size < (0 if widths else 1):
        raise InvalidInput(
            "dim must be a whole number of at least 1, or left out if there is a "
            f"schema; got {dim!r}"
        )
    if not widths:
        return size
    total = sum(widths)
    if size not in (0, total + 1):
        raise InvalidInput(
            f"dim must be left out if there is a schema, which has {total} numbers "
            f"and a 1; got {dim}"
        )
    return total + 1


def read_features(
    context: Context, schema: Schema | None, arm_schema: Schema | None = None
) -> Array:
    """Return the context as float64 (…, dim). A schema encodes missing numbers as 0 and
    appends a 1.

    For an offer, return a row for each arm: the numbers of the context, followed by the
    arm's numbers.

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
    numbers = np.nan_to_num(encoded, nan=0.0)
    ones = np.ones((*encoded.shape[:-1], 1))
    return np.concatenate([numbers, ones], axis=-1)


def feature_names(dim: int, *schemas: Schema | None) -> tuple[str, ...]:
    """Return a name for each feature: the schemas' columns, or numbers.

    >>> (
    ...     feature_names(2, None),
    ...     feature_names(3, Schema(categories=("city",), buckets=2)),
    ... )
    (('column 0', 'column 1'), ('city 0', 'city 1', 'constant'))
    """
    names = list[str]()
    for schema in schemas:
        if schema is not None:
            names += schema.columns
    if names:
        return (*names, "constant")
    return tuple(f"column {i}" for i in range(dim))


def named_weights(
    arms: Sequence[str] | None, columns: Sequence[str], means: Array, sds: Array
) -> dict[str, dict[str, tuple[float, float]]]:
    """Return means and standard deviations (G, d) by arm and column, or under "all
    arms" if the arms share one posterior.

    >>> named_weights(["a", "b"], ["age"], np.array([[0.5]]), np.array([[1.0]]))
    {'all arms': {'age': (0.5, 1.0)}}
    """
    names: Sequence[str] = ["all arms"]
    if arms is not None and len(arms) == len(means):
        names = arms
    elif len(means) > 1:
        names = [str(arm) for arm in range(len(means))]
    by_arm = {}
    for name, mean, sd in zip(names, means.tolist(), sds.tolist(), strict=True):
        pairs = zip(mean, sd, strict=True)
        by_arm[name] = dict(zip(columns, pairs, strict=True))
    return by_arm
