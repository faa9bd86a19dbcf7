"""Experts' predictions ("advice") in a log, matched by name with the experts of a
policy. Experts without predictions in the log predict now, if the log has contexts."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

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
"""For each expert of a policy, the number of its column in a log's advice, or None."""


def decisions_for(
    policy: Policy, state: State, log: Log, places: Places | None = None
) -> Decision:
    """Return the log's decisions for `policy` to learn from. They contain the logged
    predictions of experts with the same names, and current predictions of all other
    experts.

    Unknown propensities are NaN, which policies that divide by them reject. `places` is
    the result of `places_of` for this log, if it is already known.
    """
    log = for_policy(policy, log)
    bare = _without_advice(policy, log)
    if policy.bank is None:
        return bare
    columns = places_of(policy, log) if places is None else places
    if not complete(columns):
        return _ask_experts(policy, state, log, columns, bare)
    present = [place for place in columns if place is not None]
    return bare._replace(
        advice=_select_columns(log.advice, present),
        bonus=_select_columns(log.bonus, present),
        log_weights=_select_columns(log.log_weights, present),
    )


def decision_for(policy: Policy, state: State, log: Log, places: Places) -> Decision:
    """Return the single decision of a one-row log for `policy` to learn from.

    Experts that learn predict one row at a time, and a decision without a batch axis
    takes a fraction of the time.
    """
    has_few = log.offered is not None and log.known_features == "drawn"
    has_question = log.context is not None or log.offered is not None
    has_advice = any(place is not None for place in places)
    if policy.bank is None or has_few or has_advice or not has_question:
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
    if odds.advice is None:
        return decision
    arm = int(decision.number)
    if arm >= odds.advice.shape[-1]:
        return decisions_for(policy, state, log, places).rows()[0]
    advice = np.ascontiguousarray(odds.advice[..., arm])
    return decision._replace(
        advice=advice, bonus=odds.bonus, log_weights=odds.log_weights
    )


def _without_advice(policy: Policy, log: Log) -> Decision:
    """Return the log's decisions without the experts' predictions."""
    if log.propensities is None and policy.importance_weighted:
        log.require("weights")
    odds = log.propensities
    if odds is None:
        odds = np.full((len(log), log.n_arms), np.nan)
        if log.propensity is not None:
            np.put_along_axis(odds, log.arm[:, None], log.propensity[:, None], axis=1)
    bare = Decision(log.step, log.context, log.eligible, log.arm, odds)
    if log.offered is None:
        return bare
    return bare._replace(arms=log.offered, features=log.features)


def complete(places: Places) -> bool:
    """Return whether a log has advice of all experts."""
    return None not in places


def places_of(policy: Policy, log: Log) -> Places:
    """Return the number of each expert's column in the log's advice, found by name.

    Advice with names contains predictions. Advice without names, and votes (from which
    importance-weighted policies learn), are used only if the fingerprints show that
    this policy made the decisions.
    """
    names = [] if policy.bank is None else list(policy.bank.names)
    nowhere = [None] * len(names)
    if log.advice is None:
        return nowhere
    if log.experts is None or policy.importance_weighted:
        n_columns = log.advice.shape[1]
        return list(range(n_columns)) if _is_author(policy, log) else nowhere
    place_of = {name: place for place, name in enumerate(log.experts)}
    return [place_of.get(name) for name in names]


def named_advice(policy: Policy) -> tuple[str, ...] | None:
    """Return the experts whose predictions are recorded in the policy's decisions, or
    None if it records none, or votes."""
    if policy.bank is None or policy.importance_weighted:
        return None
    return tuple(policy.bank.names)


def _is_author(policy: Policy, log: Log) -> bool:
    """Return whether this policy made all decisions, by the fingerprints in the log."""
    if log.fingerprint is None:
        return False
    try:
        return bool((log.fingerprint == fingerprint(policy)).all())
    except NotPortable:  # the policy has no portable fingerprint
        return False


def _select_columns(column: Array | None, places: list[int]) -> Array | None:
    if column is None or places == list(range(column.shape[1])):
        return column
    selected: Array = column[:, places]
    return selected


def _ask_experts(
    policy: Policy, state: State, log: Log, places: Places, bare: Decision
) -> Decision:
    """Return the decisions with predictions for the drawn arms. Experts predict now if
    the log lacks their predictions."""
    if log.context is None and log.offered is None:
        raise InvalidInput(_refusal(policy, log, places))
    advice = _advice_now(policy, state, log)
    if advice is None:
        return bare
    drawn = advice.drawn
    weights = advice.log_weights
    if log.advice is not None:
        for expert, place in enumerate(places):
            if place is not None:
                drawn[:, expert] = log.advice[:, place]
        # When the row was logged, some expert made no prediction; now all experts do.
        if weights is None and np.isnan(drawn).any():
            with np.errstate(divide="ignore"):
                weights = np.broadcast_to(np.log(policy.posterior(state)), drawn.shape)
    return bare._replace(advice=drawn, bonus=advice.bonus, log_weights=weights)


class _Advice(NamedTuple):
    """Predictions of the drawn arms, bonus and weights, (T, N) each."""

    drawn: Array
    bonus: Array | None
    log_weights: Array | None


def _advice_now(policy: Policy, state: State, log: Log) -> _Advice | None:
    """Return the experts' current predictions, or None if the policy has no experts.

    If only the features of drawn arms are known, the experts predict only for these.
    """
    has_few = log.offered is not None and log.known_features == "drawn"
    question = only_drawn(log) if has_few else log
    drawn = np.empty((len(log), 0))
    bonus = weights = None
    for rows, odds in answers(policy, state, question, counted=True):
        # The bonus depends on propensities and ballots of the logging policy.
        if odds.bonus is not None and policy.importance_weighted:
            raise InvalidInput(
                f"columns advice and bonus: required for {type(policy).__name__}; got "
                "none"
            )
        if odds.advice is None:
            return None
        # The bonus compares arms, so it needs more than one.
        if odds.bonus is not None and has_few:
            log.require("models")
        arm = question.arm[rows]
        n_experts, n_arms = odds.advice.shape[-2:]
        if (arm >= n_arms).any():
            raise InvalidInput(
                f"column arm: must be below the experts' {n_arms} arms; got "
                f"{int(arm.max())}"
            )
        if drawn.shape[1] != n_experts:
            drawn = np.empty((len(log), n_experts))
        advice = np.broadcast_to(odds.advice, (len(rows), n_experts, n_arms))
        of_arm = np.take_along_axis(advice, arm[:, None, None], axis=-1)
        drawn[rows] = of_arm[..., 0]
        bonus = _put(bonus, odds.bonus, rows, drawn)
        weights = _put(weights, odds.log_weights, rows, drawn)
    return _Advice(drawn, bonus, weights)


def _put(
    column: Array | None, values: Array | None, rows: Ints, like: Array
) -> Array | None:
    """Return the column (T, N) with these rows filled in. Other rows are NaN and are
    never read."""
    if values is None:
        return column
    if column is None:
        column = np.full(like.shape, np.nan)
    column[rows] = values
    return column


def _refusal(policy: Policy, log: Log, places: Places) -> str:
    if log.advice is None:
        return (
            "column advice: required, or context so that the experts can predict; "
            "got neither"
        )
    if log.experts is None:
        return (
            "column advice: the experts of its columns are not known: name them "
            "(Log(experts=…), read_log(experts=…)), or keep context so that they can "
            "predict"
        )
    if policy.importance_weighted:
        return (
            f"column advice: must contain votes for {type(policy).__name__}, or "
            "context must be given to compute them; got predictions"
        )
    names = [] if policy.bank is None else list(policy.bank.names)
    missing = names[list(places).index(None)]
    return (
        f"column advice: must contain the expert {missing!r}, or context must be "
        f"given so that it can predict; got advice of {', '.join(log.experts[:8])}, "
        "and no context"
    )
