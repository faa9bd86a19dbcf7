"""Logs of experiments with a control: the policy's propensities, logs with one row per
unit, and the rows that can be used to compare policy and control."""

from typing import Any

import numpy as np

from oddsmith.contexts.metrics import REWARD
from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.contexts import take_rows
from oddsmith.core.errors import InvalidInput
from oddsmith.logs.table import Log

__all__ = [
    "compared_rows",
    "excluded_rows_note",
    "has_groups",
    "policy_odds",
    "rows_before_end",
    "unit_log",
    "unit_numbers",
]

_GROUPS = ("policy", "control")


def compared_rows(log: Log) -> Bools:
    """Return a mask (T,) of the rows that can be used to compare policy and control.

    After the end of an experiment the control has a share of 1, so later rows contain
    nothing about the policy. Rows with a share of NaN had no control. If units were
    assigned to groups, rows need a group and a share between 0 and 1.

    >>> log = Log(arm=[0, 0], reward=[1, 0], holdout=[0.1, 1.0])
    >>> compared_rows(log).tolist()
    [True, False]
    """
    if log.holdout is None:
        return np.ones(len(log), np.bool_)
    has_both: Bools = log.holdout < 1
    if not has_groups(log):
        return has_both
    is_in_group = np.array([group is not None for group in log.group], np.bool_)
    return has_both & is_in_group & (log.holdout > 0)


def rows_before_end(log: Log) -> Bools:
    """Return a mask (T,) of the rows before the end of an experiment. After the end,
    the share of the control is 1."""
    if log.holdout is None:
        return np.ones(len(log), np.bool_)
    before_end: Bools = ~(log.holdout >= 1)
    return before_end


def has_groups(log: Log) -> bool:
    """Return whether units, or slates, were assigned to groups."""
    return log.group is not None and any(group is not None for group in log.group)


def excluded_rows_note(log: Log, is_compared: Bools) -> str:
    """Return a sentence with the number of rows that are not compared; "" if all are.

    >>> log = Log(arm=[0, 0], reward=[1, 0], holdout=[0.1, 1.0])
    >>> excluded_rows_note(log, compared_rows(log))
    '1 of 2 rows is left out: after the experiment everyone gets the control.'
    """
    n_excluded = int((~is_compared).sum())
    if n_excluded == 0 or log.holdout is None:
        return ""
    verb = "is" if n_excluded == 1 else "are"
    note = f"{n_excluded:,} of {len(log):,} rows {verb} left out: "
    if (log.holdout[~is_compared] >= 1).all():
        return note + "after the experiment everyone gets the control."
    return note + (
        "they had no control or no group, or came after the end of the experiment."
    )


def policy_odds(log: Log) -> Array:
    """Return the propensities π (T, K) of the policy alone, for a holdout by decision.
    The logged propensities are (1 - h) π + h β, where h is the share of the control and
    β are the control's propensities.

    The result is NaN in rows after the end of the experiment, where h is 1, and in rows
    without a control; `score_metrics` leaves such rows out.

    >>> log = Log(
    ...     arm=[0],
    ...     reward=[1],
    ...     propensities=[[0.25, 0.75]],
    ...     control=[[1.0, 0.0]],
    ...     holdout=[0.1],
    ... )
    >>> policy_odds(log).round(3).tolist()
    [[0.167, 0.833]]
    """
    if log.propensities is None or log.control is None or log.holdout is None:
        raise InvalidInput(
            "the propensities of the policy in a holdout need the columns "
            f"propensities, control and holdout; got {', '.join(log.columns())}"
        )
    share = np.where(log.holdout < 1, log.holdout, np.nan)[:, None]
    odds = (log.propensities - share * log.control) / (1 - share)
    odds = np.maximum(odds, 0.0)
    policy: Array = odds / odds.sum(axis=1, keepdims=True)
    return policy


def unit_log(log: Log) -> Log:
    """Return a log with one row per unit of a holdout by unit, with the totals of its
    amounts.

    Its arms are the groups, policy and control, with propensities 1 - h and h for the
    share h. Group, share, context and time of a unit are those of its first decision
    with a reward or an amount. Rows that cannot be used to compare policy and control
    are left out (`compared_rows`). The total of rewards is the metric `reward`.

    >>> log = Log(
    ...     arm=[0, 1, 0],
    ...     reward=[1, 0, 1],
    ...     group=["policy", "control", "policy"],
    ...     holdout=[0.1] * 3,
    ...     unit=["ann", "bob", "ann"],
    ... )
    >>> unit_log(log).metric.tolist()
    [[2.0], [0.0]]
    """
    if not has_groups(log) or log.holdout is None:
        raise InvalidInput(
            "rows by unit need the columns group and holdout; got "
            f"{', '.join(log.columns())}"
        )
    is_compared = compared_rows(log)
    if not is_compared.any():
        raise InvalidInput(
            "rows by unit need rows with a group and a holdout between 0 and 1; got "
            "none"
        )
    own = log if is_compared.all() else log[is_compared]
    numbers = unit_numbers(own)
    if numbers is None:
        numbers = np.arange(len(own))
    amounts = own.reward[:, None]
    if own.metric is not None:
        amounts = np.column_stack([amounts, own.metric])
    has_amount: Bools = np.asarray(~np.isnan(amounts).all(axis=1))
    first = _first_rows(numbers, has_amount)
    share = np.asarray(own.holdout)[first]
    columns: dict[str, Any] = {}
    if own.context is not None:
        columns["context"] = take_rows(own.context, first)
    if own.time is not None:
        columns["time"] = own.time[first]
    return Log(
        arm=np.array([_GROUPS.index(own.group[row]) for row in first]),
        reward=np.zeros(len(first)),
        propensities=np.column_stack([1 - share, share]),
        metric=np.column_stack([_totals(column, numbers) for column in amounts.T]),
        arms=_GROUPS,
        metrics=(REWARD, *(own.metrics or ())),
        **columns,
    )


def _first_rows(units: Ints, has_amount: Bools) -> Ints:
    """Return the first row of each unit that has an amount, or its first row."""
    order = np.lexsort((np.arange(len(units)), ~has_amount, units))
    _, places = np.unique(units[order], return_index=True)
    first: Ints = order[places]
    return first


def _totals(column: Array, units: Ints) -> Array:
    """Return the sum of each unit's amounts, or NaN for a unit without amounts."""
    known = ~np.isnan(column)
    counts = np.bincount(units, weights=known)
    sums = np.bincount(units, weights=np.where(known, column, 0.0))
    return np.where(counts > 0, sums, np.nan)


def unit_numbers(log: Log) -> Ints | None:
    """Return the number (T,) of each row's unit, or None if every unit has a single
    row. A row without a unit counts as a unit."""
    if log.unit is None:
        return None
    known: dict[object, int] = {}
    numbers = np.empty(len(log), dtype=np.int64)
    for row, unit in enumerate(log.unit):
        key = (row, None) if unit is None else unit
        numbers[row] = known.setdefault(key, len(known))
    return None if len(known) == len(log) else numbers
