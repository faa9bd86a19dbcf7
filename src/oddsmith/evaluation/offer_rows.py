"""Joined rows: what a reward model sees of arms that came with the call, a row of
numbers for each arm offered."""

from collections import Counter
from typing import Any

import numpy as np

from oddsmith.contexts.numbers import numbers
from oddsmith.contexts.schema import Schema, numeric
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.contexts import has_names
from oddsmith.logs.table import Log

__all__ = ["JoinedRows", "complete", "context_rows"]

_NAMED = 32  # arms that have a column of their own: those drawn most


class JoinedRows:
    """The numbers of the context, of the arm's features, and zeros and ones that say
    which of the commonest arms it is.

    The commonest are those drawn most. `row` and `place` (M,) say which arm of which
    offer each of the M rows is.
    """

    def __init__(
        self, log: Log, schema: Schema | None = None, arm_schema: Schema | None = None
    ) -> None:
        log.require("models")
        sizes = np.fromiter(map(len, log.offered), dtype=np.int64, count=len(log))
        self.row = np.repeat(np.arange(len(log)), sizes)
        self.place = np.arange(len(self.row)) - np.repeat(
            np.cumsum(sizes) - sizes, sizes
        )
        self._context = complete(context_rows(log, schema))
        self._feature, table = _features(log, arm_schema)
        self._table = complete(table)
        self._name = _most_drawn(log)

    def of(self, chosen: Any) -> Array:
        """The numbers (m, d) of some of the rows."""
        names = self._name[chosen][:, None] == np.arange(self._name.max(initial=-1) + 1)
        return np.hstack(
            [self._context[self.row[chosen]], self._table[self._feature[chosen]], names]
        )


def context_rows(log: Log, schema: Schema | None) -> Array:
    """The contexts as numbers (T, d): arrays as they are, else by a schema; without
    context a 1."""
    context = log.context
    if context is None:
        return np.ones((len(log), 1))
    if schema is not None:
        return schema.encode(context)
    if not has_names(context):
        return numeric(numbers(context).reshape(len(log), -1))
    return Schema.of(context).encode(context)


def complete(features: Array) -> Array:
    """The features (T, d) without NaN: the column's mean instead, and behind them
    columns of 0 and 1 that say where."""
    missing = np.isnan(features)
    some = missing.any(axis=0)
    if not some.any():
        return features
    present = (~missing).sum(axis=0)
    means = np.where(missing, 0.0, features).sum(axis=0) / np.maximum(present, 1)
    return np.hstack(
        [np.where(missing, means, features), missing[:, some].astype(np.float64)]
    )


def _features(log: Log, schema: Schema | None) -> tuple[Ints, Array]:
    """The numbers of all features that differ, and which of them each arm of each row
    has; no columns without any."""
    if log.features is None:
        return np.zeros(sum(map(len, log.offered)), np.int64), np.zeros((1, 0))
    known: dict[int, int] = {}
    distinct: list[Any] = []
    which = []
    for names, features in zip(log.offered, log.features, strict=True):
        for name in names:
            own = None if features is None else features[name]
            if id(own) not in known:
                known[id(own)] = len(distinct)
                distinct.append(own)
            which.append(known[id(own)])
    return np.array(which), _encoded(distinct, schema)


def _encoded(features: list[Any], schema: Schema | None) -> Array:
    """Features, of which some may be None, as numbers (n, d): NaN where they are
    missing."""
    first = next((one for one in features if one is not None), None)
    if first is None:
        return np.zeros((len(features), 0))
    if schema is not None or has_names(first):
        records = [{} if one is None else one for one in features]
        return (
            schema or Schema.of([one for one in features if one is not None])
        ).encode(records)
    table = np.full((len(features), np.atleast_1d(numbers(first)).size), np.nan)
    for place, one in enumerate(features):
        if one is not None:
            table[place] = numbers(one)
    return numeric(table)


def _most_drawn(log: Log) -> Ints:
    """The number (M,) of each arm of each row among the names drawn most, -1 for the
    others."""
    pairs = zip(log.offered, log.arm.tolist(), strict=True)
    most = Counter(names[arm] for names, arm in pairs).most_common(_NAMED)
    numbers_ = {name: number for number, (name, _) in enumerate(most)}
    return np.array(
        [numbers_.get(name, -1) for names in log.offered for name in names],
        dtype=np.int64,
    )
