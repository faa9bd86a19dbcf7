"""Logged advice as a policy learns from it: by the names of its experts; the others are
asked anew, or refused."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.core.checks import check_odds
from oddsmith.core.contexts import rows as contexts_of
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput, NotPortable
from oddsmith.core.policy import Policy
from oddsmith.files.fingerprint import fingerprint
from oddsmith.logs.by_policy import answers, for_policy, only_drawn, question_of
from oddsmith.logs.table import Log

__all__ = [
    "Places",
    "complete",
    "decision_for",
    "decisions_for",
    "named_advice",
    "places_of",
]

Places: TypeAlias = Sequence[int | None]
"""For each expert of a policy the column of a log's advice that is its own, or None."""


def decisions_for(
    policy: Policy, state: State, log: Log, places: Places | None = None
) -> Decision:
    """The log's decisions as `policy` learns from them: advice of its experts by name,
    else what they say now.

    Odds that the log does not know are NaN, and refused for policies that divide by
    them. `places` saves looking for them again in a log of the same experts.
    """
    log = for_policy(policy, log)
    bare = _without_advice(policy, log)
    if policy.bank is None:
        return bare
    columns = places_of(policy, log) if places is None else places
    if not complete(columns):
        return _asked(policy, state, log, columns, bare)
    known = [place for place in columns if place is not None]
    advice, bonus, log_weights = (
        _taken(column, known) for column in (log.advice, log.bonus, log.log_weights)
    )
    return bare._replace(advice=advice, bonus=bonus, log_weights=log_weights)


def decision_for(policy: Policy, state: State, log: Log, places: Places) -> Decision:
    """The only decision of a log, as `policy` learns from it.

    Experts that learn are asked about one row at a time, for which a question without
    a batch axis takes a fraction of the time.
    """
    only_drawn_known = log.offered is not None and log.known_features == "drawn"
    has_question = log.context is not None or log.offered is not None
    has_advice = any(place is not None for place in places)
    if policy.bank is None or only_drawn_known or has_advice or not has_question:
        return decisions_for(policy, state, log, places).rows()[0]
    decision = _without_advice(policy, log).rows()[0]
    context = None if log.context is None else contexts_of(log.context)[0]
    question, eligible = question_of(log, context, 0)
    if log.offered is not None and eligible is not None and eligible.all():
        eligible = None
    odds = policy.odds(state, question, eligible=eligible, step=decision.step)
    check_odds(policy, odds, eligible=eligible, step=decision.step)
    if odds.bonus is not None and policy.importance_weighted:
        return decisions_for(policy, state, log, places).rows()[0]
    arm = int(decision.number)
    if odds.advice is None:
        return decision
    if arm >= odds.advice.shape[-1]:
        return decisions_for(policy, state, log, places).rows()[0]
    drawn = np.ascontiguousarray(odds.advice[..., arm])
    return decision._replace(
        advice=drawn, bonus=odds.bonus, log_weights=odds.log_weights
    )


def _without_advice(policy: Policy, log: Log) -> Decision:
    """The log's decisions without what experts predicted."""
    if log.propensities is None and policy.importance_weighted:
        log.require("weights")
    odds = log.propensities
    if odds is None:
        odds = np.full((len(log), log.n_arms), np.nan)
        if log.propensity is not None:
            np.put_along_axis(odds, log.arm[:, None], log.propensity[:, None], axis=1)
    brought = (None, None) if log.offered is None else (log.offered, log.features)
    return Decision(
        log.step,
        log.context,
        log.eligible,
        log.arm,
        odds,
        None,
        None,
        None,
        None,
        *brought,
    )


def complete(places: Places) -> bool:
    """Whether a log has advice of all experts."""
    return None not in places


def places_of(policy: Policy, log: Log) -> Places:
    """Which column of a log's advice is whose, by name.

    Named advice is predictions; importance weighted policies learn from votes instead.
    Advice without names, and votes, belong to the policy that decided, by its
    fingerprint.
    """
    names = [] if policy.bank is None else list(policy.bank.names)
    if log.advice is None:
        return [None] * len(names)
    if log.experts is None or policy.importance_weighted:
        return (
            list(range(log.advice.shape[1]))
            if _decided(policy, log)
            else [None] * len(names)
        )
    held = {name: place for place, name in enumerate(log.experts)}
    return [held.get(name) for name in names]


def named_advice(policy: Policy) -> tuple[str, ...] | None:
    """The experts whose predictions the policy's decisions hold as advice; None where
    they hold none, or votes."""
    return (
        None
        if policy.bank is None or policy.importance_weighted
        else tuple(policy.bank.names)
    )


def _decided(policy: Policy, log: Log) -> bool:
    """Whether every row says that this very policy made it."""
    if log.fingerprint is None:
        return False
    try:
        return bool((log.fingerprint == fingerprint(policy)).all())
    except NotPortable:  # it has none
        return False


def _taken(column: Array | None, places: list[int]) -> Array | None:
    if column is None or places == list(range(column.shape[1])):
        return column
    taken: Array = column[:, places]
    return taken


def _asked(
    policy: Policy, state: State, log: Log, places: Places, bare: Decision
) -> Decision:
    """The decisions with what the experts say now of the drawn arms, where the log does
    not have it."""
    if log.context is None and log.offered is None:
        raise InvalidInput(_refusal(policy, log, places))
    said = _said(policy, state, log)
    if said is None:
        return bare
    drawn, bonus, weights = said
    for expert, place in enumerate(places):
        if place is not None and log.advice is not None:
            drawn[:, expert] = log.advice[:, place]
    # one slept then, all are awake now
    if weights is None and log.advice is not None and np.isnan(drawn).any():
        with np.errstate(divide="ignore"):
            weights = np.broadcast_to(np.log(policy.posterior(state)), drawn.shape)
    return bare._replace(advice=drawn, bonus=bonus, log_weights=weights)


def _said(
    policy: Policy, state: State, log: Log
) -> tuple[Array, Array | None, Array | None] | None:
    """What the experts say now: advice of the drawn arms, bonus and weights (T, N)
    each; None where they say nothing.

    Where the features of drawn arms alone are known, only these are asked about.
    """
    few = log.offered is not None and log.known_features == "drawn"
    asked, drawn = only_drawn(log) if few else log, np.empty((len(log), 0))
    bonus = weights = None
    for places, odds in answers(policy, state, asked, counted=True):
        # it is made of the logger's odds and ballots
        if odds.bonus is not None and policy.importance_weighted:
            raise InvalidInput(
                f"columns advice and bonus: must be there for {type(policy).__name__}; "
                "got none"
            )
        if odds.advice is None:
            return None
        if odds.bonus is not None and few:  # it compares arms
            log.require("models")
        arm, (n, n_arms) = asked.arm[places], odds.advice.shape[-2:]
        if (arm >= n_arms).any():
            raise InvalidInput(
                f"column arm: must be below the experts' {n_arms} arms; got "
                f"{int(arm.max())}"
            )
        drawn = drawn if drawn.shape[1] == n else np.empty((len(log), n))
        advice = np.broadcast_to(odds.advice, (len(places), n, n_arms))
        drawn[places] = np.take_along_axis(advice, arm[:, None, None], axis=-1)[..., 0]
        bonus, weights = (
            _put(bonus, odds.bonus, places, drawn),
            _put(weights, odds.log_weights, places, drawn),
        )
    return drawn, bonus, weights


def _put(
    column: Array | None, values: Array | None, places: Ints, like: Array
) -> Array | None:
    """The column (T, N) with these rows of it; NaN, which is never read, where it was
    not needed."""
    if values is None:
        return column
    column = np.full(like.shape, np.nan) if column is None else column
    column[places] = values
    return column


def _refusal(policy: Policy, log: Log, places: Places) -> str:
    if log.advice is None:
        return (
            "column advice: must be there, or context to ask the experts; got neither"
        )
    if log.experts is None:
        name = (
            "name the experts (Log(experts=…), read_log(experts=…)), or keep context "
            "to ask them"
        )
        return f"column advice: whose it is is not known: {name}"
    if policy.importance_weighted:
        return (
            f"column advice: must be votes for {type(policy).__name__}, or context to "
            "ask for them; got predictions"
        )
    names = [] if policy.bank is None else list(policy.bank.names)
    missing = names[list(places).index(None)]
    got = f"got that of {', '.join(log.experts[:8])}, and no context"
    return (
        f"column advice: must be there for the expert {missing!r}, or context to ask "
        f"it; {got}"
    )
