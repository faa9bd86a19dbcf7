"""Convert a log to one policy's arms or offers, and compute the policy's propensities
for its rows."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, TypeAlias

import numpy as np

from oddsmith.core.arrays import Bools, Ints
from oddsmith.core.checks import check_odds
from oddsmith.core.contexts import rows as contexts_of
from oddsmith.core.decision import Odds, State, Step
from oddsmith.core.errors import BrokenLog, InvalidInput
from oddsmith.core.offer import Offer, OfferBatch
from oddsmith.core.policy import Policy
from oddsmith.logs.table import Log

__all__ = [
    "answers",
    "as_offers",
    "for_policy",
    "names_of",
    "numbers_of",
    "only_drawn",
    "over_arms",
    "question_of",
]

# approximate maximum of propensities and predictions in memory at once
_NUMBERS = 2**22
Question: TypeAlias = tuple[Ints, Any, Bools | None]
"""The numbers of some rows, their contexts or offers as a batch, and their eligible
arms."""


def for_policy(policy: Policy, log: Log) -> Log:
    """Return the log with the arms of the policy, matched by name, if the policy was
    created with arms. Otherwise return the log unchanged; raise if the policy cannot
    choose among its offers."""
    if policy.arms is not None:
        return over_arms(log, policy.arms)
    if log.offered is None or policy.takes_offers:
        return log
    if log.arms is None:
        raise InvalidInput(
            f"{type(policy).__name__} cannot choose among arms that are passed in the "
            "call, and this log's arms differ from row to row: give it its arms when "
            "it is created"
        )
    return log.without("offered", "features")


def over_arms(log: Log, arms: Sequence[str]) -> Log:
    """Return the log with these arms, by name. Arms that a row did not offer are not
    eligible in it.

    >>> log = Log(
    ...     arm=[0, 1],
    ...     reward=[1, 0],
    ...     offered=[["b"], ["c", "a"]],
    ...     propensities=[[1.0, 0.0], [0.5, 0.5]],
    ... )
    >>> over_arms(log, ["a", "b", "c"]).propensities.tolist()
    [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]]
    """
    names = tuple(arms)
    if log.offered is None:
        has_width = log.propensities is not None or log.eligible is not None
        is_narrow = has_width and log.n_arms < len(names)
        if log.arms == names or (log.arms is None and not is_narrow):
            return log
    numbers = numbers_of(log, names)
    is_offered = numbers >= 0
    rows = np.arange(len(log))
    # Offers shorter than the table are padded with -1: write the padding into one more
    # column, which is then cut off.
    shape = (len(log), len(names) + 1)
    eligible = np.zeros(shape, dtype=np.bool_)
    is_eligible = is_offered if log.eligible is None else is_offered & log.eligible
    eligible[rows[:, None], numbers] = is_eligible
    columns = log.columns()
    columns.pop("offered", None)
    columns.pop("features", None)
    columns["arm"] = numbers[rows, log.arm]
    columns["eligible"] = eligible[:, :-1]
    if log.propensities is not None:
        odds = np.zeros(shape)
        odds[rows[:, None], numbers] = np.where(is_offered, log.propensities, 0.0)
        columns["propensities"] = odds[:, :-1]
    if log.control is not None:
        control = np.zeros(shape)
        control[rows[:, None], numbers] = np.where(is_offered, log.control, 0.0)
        columns["control"] = control[:, :-1]
    return Log(**columns, arms=names, experts=log.experts, metrics=log.metrics)


def names_of(log: Log) -> tuple[str, ...]:
    """Return the names of all arms in a log: in the order in which rows first offered
    them, or numbers if the arms have no names.

    >>> names_of(Log(arm=[0, 1], reward=[1, 0], offered=[["b"], ["c", "a"]]))
    ('b', 'c', 'a')
    """
    if log.offered is not None:
        offers = dict.fromkeys(log.offered)
        return tuple(dict.fromkeys(chain.from_iterable(offers)))
    if log.arms is None:
        return tuple(map(str, range(log.n_arms)))
    return tuple(log.arms)


def numbers_of(log: Log, arms: Sequence[str]) -> Ints:
    """Return the number of each row's arms (T, K) among these names, -1 beyond the arms
    that a row offered."""
    number_of = {name: number for number, name in enumerate(arms)}
    numbers = np.full((len(log), log.n_arms), -1, dtype=np.int64)
    if log.offered is None:
        names = tuple(arms)[: log.n_arms] if log.arms is None else log.arms
        for name in names:
            if name not in number_of:
                raise InvalidInput(
                    f"the log's arms must be among {list(arms)[:8]}; got {name!r:.60}"
                )
        numbers[:] = [number_of[name] for name in names]
        return numbers
    for row, names in enumerate(log.offered):
        try:
            numbers[row, : len(names)] = [number_of[name] for name in names]
        except KeyError as error:
            raise BrokenLog(
                "offered",
                row,
                f"must be among the policy's arms {list(arms)[:8]}; got "
                f"{error.args[0]!r:.60}",
            ) from error
    return numbers


def as_offers(log: Log) -> Log:
    """Return the log as one in which every row offered all of its arms, by their names
    or numbers."""
    if log.offered is not None:
        return log
    columns = log.columns()
    columns["offered"] = [names_of(log)] * len(log)
    return Log(**columns, experts=log.experts, metrics=log.metrics)


def only_drawn(log: Log) -> Log:
    """Return the log as one in which every row offered only the drawn arm."""
    arms = log.arm.tolist()
    drawn_names = [names[arm] for names, arm in zip(log.offered, arms, strict=True)]
    features = None
    if log.features is not None:
        features = []
        for row, name in zip(log.features, drawn_names, strict=True):
            features.append({name: row[name]} if row else None)
    offered = [(name,) for name in drawn_names]
    return Log(
        arm=np.zeros(len(log), dtype=np.int64),
        reward=log.reward,
        context=log.context,
        step=log.step,
        offered=offered,
        features=features,
    )


def answers(
    policy: Policy, state: State, log: Log, *, counted: bool = False
) -> Iterator[tuple[Ints, Odds]]:
    """Yield the numbers of some rows and the policy's propensities for them, until all
    rows are done. If `counted`, pass the steps of the log to the policy.

    If arms were passed in the call, rows with equal numbers of arms go together.
    """
    n_experts = 0 if policy.bank is None else len(policy.bank.names)
    most_rows = max(1, _NUMBERS // (log.n_arms * (1 + n_experts)))
    for rows, question, eligible in _questions(log, most_rows):
        step: Step = None
        if counted and log.step is not None:
            step = log.step[rows]
        odds = policy.odds(state, question, eligible=eligible, step=step)
        yield rows, check_odds(policy, odds, eligible=eligible, step=step)


def question_of(log: Log, context: Any, row: int) -> tuple[Any, Bools | None]:
    """Return the policy's input for one row with this context, and the eligible
    arms."""
    eligible = None if log.eligible is None else log.eligible[row]
    if log.offered is None:
        return context, eligible
    names = log.offered[row]
    features = None if log.features is None else log.features[row]
    if eligible is not None:
        eligible = eligible[: len(names)]
    return Offer(context, names, features), eligible


def _questions(log: Log, most: int) -> Iterator[Question]:
    """Yield the policy's inputs for the rows of the log, at most `most` rows at a
    time."""
    if log.offered is None:
        for first in range(0, len(log), most):
            part = log[first : first + most]
            yield np.arange(first, first + len(part)), part.context, part.eligible
        return
    none = [None] * len(log)
    contexts = none if log.context is None else contexts_of(log.context)
    features = none if log.features is None else log.features
    sizes = np.fromiter(map(len, log.offered), dtype=np.int64, count=len(log))
    for size in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == size)
        for rows in np.split(same, range(most, len(same), most)):
            offers = tuple(
                Offer(contexts[row], log.offered[row], features[row])
                for row in rows.tolist()
            )
            mask = None
            if log.eligible is not None and not log.eligible[rows, :size].all():
                mask = log.eligible[rows, :size]
            yield rows, OfferBatch(offers), mask
