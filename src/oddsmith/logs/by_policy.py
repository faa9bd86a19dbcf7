"""A log as one policy sees it: over the policy's own arms, or by offers, and what the
policy answers to its rows."""

from collections.abc import Iterator, Sequence
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

_NUMBERS = 2**22  # odds and advice held at once, about
Question: TypeAlias = tuple[Ints, Any, Bools | None]
"""The numbers of some rows, their contexts or offers as a batch, and their eligible
arms."""


def for_policy(policy: Policy, log: Log) -> Log:
    """The log with the arms of a policy that was made with arms, by name; else as it
    is, where the policy takes it."""
    if policy.arms is not None:
        return over_arms(log, policy.arms)
    if log.offered is None or policy.takes_offers:
        return log
    if log.arms is None:
        raise InvalidInput(
            f"{type(policy).__name__} cannot choose among arms that come with the "
            "call, and this log's differ from row to row: give it its arms when it is "
            "made"
        )
    return log.without("offered", "features")


def over_arms(log: Log, arms: Sequence[str]) -> Log:
    """The log about these arms, by name: those that a row did not have are not eligible
    in it.

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
    stated = log.propensities is not None or log.eligible is not None
    if log.offered is None and (
        log.arms == names
        or (log.arms is None and not (stated and log.n_arms < len(names)))
    ):
        return log
    numbers = numbers_of(log, names)
    offered, rows = numbers >= 0, np.arange(len(log))[:, None]
    # places beyond an offer all write False and 0 into one more column, which is cut
    # off
    able, odds = np.zeros((2, len(log), len(names) + 1))
    able[rows, numbers] = offered if log.eligible is None else offered & log.eligible
    columns = log.columns() | {
        "arm": numbers[rows[:, 0], log.arm],
        "eligible": able[:, :-1] > 0,
    }
    if log.propensities is not None:
        odds[rows, numbers] = np.where(offered, log.propensities, 0.0)
        columns["propensities"] = odds[:, :-1]
    if log.control is not None:
        control = np.zeros((len(log), len(names) + 1))
        control[rows, numbers] = np.where(offered, log.control, 0.0)
        columns["control"] = control[:, :-1]
    kept = {
        name: value
        for name, value in columns.items()
        if name not in ("offered", "features")
    }
    return Log(**kept, arms=names, experts=log.experts, metrics=log.metrics)


def names_of(log: Log) -> tuple[str, ...]:
    """The names of all arms in a log: in the order in which rows first offered them, or
    numbers where none have names.

    >>> names_of(Log(arm=[0, 1], reward=[1, 0], offered=[["b"], ["c", "a"]]))
    ('b', 'c', 'a')
    """
    if log.offered is None:
        return (
            tuple(map(str, range(log.n_arms))) if log.arms is None else tuple(log.arms)
        )
    return tuple(
        dict.fromkeys(name for names in dict.fromkeys(log.offered) for name in names)
    )


def numbers_of(log: Log, arms: Sequence[str]) -> Ints:
    """The number of each row's arms (T, K) among these names, -1 beyond the arms that a
    row offered."""
    known = {name: number for number, name in enumerate(arms)}
    numbers = np.full((len(log), log.n_arms), -1, dtype=np.int64)
    if log.offered is None:
        names = tuple(arms)[: log.n_arms] if log.arms is None else log.arms
        if unknown := [name for name in names if name not in known]:
            raise InvalidInput(
                f"the log's arms must be among {list(arms)[:8]}; got {unknown[0]!r:.60}"
            )
        numbers[:] = [known[name] for name in names]
        return numbers
    for row, names in enumerate(log.offered):
        try:
            numbers[row, : len(names)] = [known[name] for name in names]
        except KeyError as error:
            raise BrokenLog(
                "offered",
                row,
                f"must be among the policy's arms {list(arms)[:8]}; got "
                f"{error.args[0]!r:.60}",
            ) from error
    return numbers


def as_offers(log: Log) -> Log:
    """The log as one whose rows each offered all of its arms: by their names, or by
    numbers where they have none."""
    if log.offered is not None:
        return log
    names = names_of(log)
    columns = log.columns() | {"offered": [names] * len(log)}
    return Log(**columns, experts=log.experts, metrics=log.metrics)


def only_drawn(log: Log) -> Log:
    """The log as one whose rows offered the drawn arm alone, for questions about
    nothing else."""
    names = [
        (names[arm],) for names, arm in zip(log.offered, log.arm.tolist(), strict=True)
    ]
    kept = {
        name: value
        for name, value in log.columns().items()
        if name in ("reward", "context", "step")
    }
    features = log.features and [
        row and {own[0]: row[own[0]]}
        for row, own in zip(log.features, names, strict=True)
    ]
    return Log(
        arm=np.zeros(len(log), dtype=np.int64), offered=names, features=features, **kept
    )


def answers(
    policy: Policy, state: State, log: Log, *, counted: bool = False
) -> Iterator[tuple[Ints, Odds]]:
    """The policy's odds for all rows, some at a time, with their numbers; `counted`
    says that steps are the log's.

    Rows go by equally many arms, where these came with the call.
    """
    n_experts = 0 if policy.bank is None else len(policy.bank.names)
    for places, question, eligible in _questions(
        log, max(1, _NUMBERS // (log.n_arms * (1 + n_experts)))
    ):
        step: Step = log.step[places] if counted and log.step is not None else None
        odds = policy.odds(state, question, eligible=eligible, step=step)
        yield places, check_odds(policy, odds, eligible=eligible, step=step)


def question_of(log: Log, context: Any, row: int) -> tuple[Any, Bools | None]:
    """What a policy is asked in one row, whose context is at hand, and which arms are
    eligible."""
    if log.offered is None:
        return context, None if log.eligible is None else log.eligible[row]
    names = log.offered[row]
    offer = Offer(context, names, None if log.features is None else log.features[row])
    return offer, None if log.eligible is None else log.eligible[row, : len(names)]


def _questions(log: Log, most: int) -> Iterator[Question]:
    """Rows of the log, at most so many at a time, as a policy is asked about them."""
    if log.offered is None:
        for first in range(0, len(log), most):
            part = log[first : first + most]
            yield np.arange(first, first + len(part)), part.context, part.eligible
        return
    contexts = [None] * len(log) if log.context is None else contexts_of(log.context)
    features = [None] * len(log) if log.features is None else log.features
    sizes = np.fromiter(map(len, log.offered), dtype=np.int64, count=len(log))
    for size in np.unique(sizes).tolist():
        same = np.flatnonzero(sizes == size)
        for places in np.split(same, range(most, len(same), most)):
            offers = OfferBatch(
                tuple(
                    Offer(contexts[i], log.offered[i], features[i])
                    for i in places.tolist()
                )
            )
            mask = None if log.eligible is None else log.eligible[places, :size]
            yield places, offers, None if mask is None or mask.all() else mask
