"""The features of linear policies: arrays as they are, everything that has names through a schema."""

from collections.abc import Sequence

import numpy as np

from oddsmith.arrays import Array
from oddsmith.contexts import numbers
from oddsmith.decision import Context
from oddsmith.errors import InvalidInput
from oddsmith.experts.schema import Schema

__all__ = ["checked_dim", "feature_names", "named_weights", "read_features"]


def checked_dim(dim: object, schema: object) -> int:
    """How many features there are: `dim`, or what the schema says, its numbers and a 1.

    >>> checked_dim(3, None), checked_dim(0, Schema(numbers=("age",)))
    (3, 2)
    """
    if schema is not None and not isinstance(schema, Schema):
        raise InvalidInput(f"schema must be a Schema; got {type(schema).__name__}")
    if isinstance(dim, bool) or not isinstance(dim, int | np.integer) or dim < (1 if schema is None else 0):
        raise InvalidInput(f"dim must be a whole number of at least 1, or left out beside a schema; got {dim!r}")
    if schema is None:
        return int(dim)
    if dim not in (0, schema.width + 1):
        raise InvalidInput(f"dim must be left out beside a schema, which has {schema.width} numbers and a 1; got {dim}")
    return schema.width + 1


def read_features(context: Context, schema: Schema | None) -> Array:
    """The context as float64 (…, dim). Through a schema a missing number is 0, and a 1 comes last.

    >>> read_features({"age": None}, Schema(numbers=("age",)))
    array([0., 1.])
    """
    if schema is None:
        return numbers(context, "give the policy a schema=Schema(…), which reads names")
    encoded = schema.encode(context)
    return np.concatenate([np.nan_to_num(encoded, nan=0.0), np.ones((*encoded.shape[:-1], 1))], axis=-1)


def feature_names(dim: int, schema: Schema | None) -> tuple[str, ...]:
    """A name for each feature: the schema's columns, or numbers.

    >>> feature_names(2, None), feature_names(3, Schema(categories=("city",), buckets=2))
    (('column 0', 'column 1'), ('city 0', 'city 1', 'constant'))
    """
    return tuple(f"column {i}" for i in range(dim)) if schema is None else (*schema.columns, "constant")


def named_weights(
    arms: Sequence[str] | None, columns: Sequence[str], means: Array, sds: Array
) -> dict[str, dict[str, tuple[float, float]]]:
    """Means and standard deviations (G, d) by arm and column; by "all arms" where these share a belief.

    >>> named_weights(["a", "b"], ["age"], np.array([[0.5]]), np.array([[1.0]]))
    {'all arms': {'age': (0.5, 1.0)}}
    """
    n = len(means)
    names = [str(arm) for arm in range(n)] if arms is None else arms if len(arms) == n else ["all arms"]
    rows = (zip(mean, sd, strict=True) for mean, sd in zip(means.tolist(), sds.tolist(), strict=True))
    return {name: dict(zip(columns, row, strict=True)) for name, row in zip(names, rows, strict=True)}
