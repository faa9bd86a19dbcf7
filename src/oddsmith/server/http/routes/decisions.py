"""Routes that read decisions: a page of the list of decisions, or the record of one
decision."""

import asyncio
from collections.abc import Sequence
from functools import partial
from math import isnan
from typing import Any, Literal, NamedTuple

import numpy as np

from oddsmith.contexts.values import single
from oddsmith.core.arrays import Array
from oddsmith.core.decision import PAUSED, Decision
from oddsmith.core.errors import OddsmithError
from oddsmith.core.exact_json import Json, encode
from oddsmith.core.weights import awake_weights
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.prediction_clip import clip_counts
from oddsmith.server.experiment.experiment import EVERYTHING, Experiment
from oddsmith.server.fold.accounts import Account
from oddsmith.server.fold.decisions import ListEntry, PageQuery, page_of
from oddsmith.server.fold.fold import restore, restore_judge
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.http.routes.route import READ, Route
from oddsmith.server.http.service import NotFound
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import lists as lm
from oddsmith.server.messages.calls import DecisionRecord
from oddsmith.server.monitor.choice import choices_sentence
from oddsmith.server.store.events import is_id
from oddsmith.server.store.protocol import Erased, Line, decision_line

__all__ = ["ROUTES", "decision", "decisions", "record_of"]

CLOSE = 1e-9  # tolerance when comparing predictions


async def decisions(experiment: Experiment, query: lm.DecisionsQuery) -> lm.Decisions:
    """Return a page of decisions, newest first."""
    rewarded = None if query.reward == "any" else query.reward == "some"
    page_query = PageQuery(query.before, query.limit, query.arm, rewarded)
    read = partial(_read_page, experiment, page_query)
    if page_query.chooses:
        return await experiment.long_reads.run(read)
    return await asyncio.to_thread(read)


async def decision(
    experiment: Experiment, query: m.DecisionQuery
) -> m.DecisionRecord | m.SlateRecord:
    """Return the record of one decision, or the records of a slate's slots."""
    record = None
    slots: list[Line] = []
    if is_id(query.id):  # other texts cannot be ids; SQLite would cut a text at a NUL
        read = partial(record_of, experiment, query.id, query.explain)
        run = experiment.long_reads.run if query.explain else asyncio.to_thread
        record = await run(read)
        if record is None:
            slots = await asyncio.to_thread(experiment.store.of_slate, query.id)
    if slots:
        ids = [line.id for line in slots]
        return await asyncio.to_thread(_slate_record, experiment, query.id, ids)
    if record is None:
        raise NotFound(
            f"there is no decision {query.id!r:.140} in experiment {experiment.name!r}"
        )
    if query.explain:
        async with experiment.follower.learning:
            record.choices_sentence = choices_sentence(experiment)
    return record


def _slate_record(
    experiment: Experiment, slate: str, ids: Sequence[str]
) -> m.SlateRecord:
    found = [record_of(experiment, id, explain=False) for id in ids]
    records = [record for record in found if record is not None]
    return m.SlateRecord(slate, experiment.name, records)


def _read_page(experiment: Experiment, query: PageQuery) -> lm.Decisions:
    head = experiment.store.head()
    page = page_of(experiment.store, head, query)
    rows = [_listed_decision(experiment, entry) for entry in page.decisions]
    return lm.Decisions(experiment.name, head, rows, page.before, page.searched)


def _listed_decision(experiment: Experiment, entry: ListEntry) -> lm.ListedDecision:
    line = entry.line
    account = entry.account
    draw = entry.draw
    activated = account.shown if line.deferred else None
    # the unit identifies a person, so it is hidden together with the context
    unit = draw.unit if experiment.settings.show_contexts else None
    return lm.ListedDecision(
        line.id,
        line.position,
        line.time,
        str(line.arm),
        draw.propensity,
        _reward_in_units(experiment, account),
        _counts(account),
        draw.shadow,
        deferred=bool(line.deferred),
        activated=activated,
        unit=unit,
        slate=draw.slate,
        slot=draw.slot,
    )


def _reward_in_units(experiment: Experiment, account: Account) -> float | None:
    """Return the reward of a decision in the caller's units; None if there is none
    yet."""
    if isnan(account.value):
        return None
    return experiment.scale.value(account.value)


def _counts(account: Account) -> Literal["reward", "default", "correction"] | None:
    """Return whether a decision counts with its reward, the default, or a correction;
    None if it does not count yet."""
    if not account.settled:
        return None
    if account.correction is not None:
        return "correction"
    if account.has_reward:
        return "reward"
    return "default"


def record_of(experiment: Experiment, id: str, explain: bool) -> DecisionRecord | None:
    """Return the record of a decision in the log. With `explain`, compute again the
    state that the decision was made with, to explain the propensities."""
    store = experiment.store
    lines = store.history([id], EVERYTHING)
    made = decision_line(lines)
    if made is None:
        return None
    account = Account.of(store)
    for line in lines:
        account.take(line)
    (decision,) = store.decisions([made.position])
    (evidence,) = store.evidence([made.position])
    (draw,) = store.summaries([made.position])
    arms = experiment.names_of(decision)
    odds = decision.propensities.tolist()
    eligible = None
    if decision.eligible is not None:
        pairs = zip(arms, decision.eligible, strict=True)
        eligible = [arm for arm, is_free in pairs if is_free]
    is_hidden = not experiment.settings.show_contexts
    context = None if is_hidden else _readable(decision.context)
    record = DecisionRecord(
        id=made.id,
        experiment=experiment.name,
        arm=decision.arm,
        propensity=decision.propensity,
        odds=dict(zip(arms, odds, strict=True)),
        step=decision.step,
        position=made.position,
        seen=made.seen or 0,
        context=context,
        context_hidden=is_hidden,
        eligible=eligible,
        shadow=evidence.shadow,
        deferred=bool(made.deferred),
        reward=_reward_in_units(experiment, account),
        counts_since=account.settled or None,
        slate=draw.slate,
        slot=draw.slot,
        events=[_event(experiment, line) for line in lines],
        features=_features(decision, is_hidden=is_hidden),
        paused=decision.group == PAUSED,
        barred={arms[place]: why for place, why in evidence.barred.items()},
    )
    if explain and evidence.votes is not None:
        explanation = _explain(experiment, decision, evidence.votes, made)
        record.experts = explanation.experts
        record.notes = explanation.notes
    return record


def _readable(value: object) -> Json:
    """Return a context or features as JSON; "erased" if they were erased."""
    if isinstance(value, Erased):
        return "erased"
    return encode(value)


def _features(decision: Decision, *, is_hidden: bool) -> Json:
    """Return the features of the offered arms, "erased" if they were erased, or None if
    there are none or they are hidden."""
    features: Any = decision.features
    if features is None or isinstance(features, Erased):
        if features is None:
            return None
        return "erased"
    if is_hidden:
        return None
    return encode(dict(features))


def _event(experiment: Experiment, line: Line) -> dict[str, object]:
    value = line.value
    if value is not None and not line.of_metric:
        value = experiment.scale.value(value)
    return {
        "position": line.position,
        "kind": line.kind,
        "value": value,
        "key": line.key,
        "time": line.time,
        "sender": line.sender,
    }


class _Explanation(NamedTuple):
    """The contribution of each expert to a decision, sorted by decreasing weight, with
    notes for the reader."""

    experts: list[dict[str, object]]
    notes: list[str]


def _explain(
    experiment: Experiment, decision: Decision, votes: Array, made: Line
) -> _Explanation:
    """Explain a decision by each expert's vote, its weight in the vote, and its
    predictions."""
    folded = restore_judge(experiment.store, experiment.setup.policy, made.seen or 0)
    judge = None if folded is None else gts_inside(folded.policy)
    if folded is None or judge is None:
        return _Explanation([], [])  # the policy does not record votes
    names = judge.experts.names
    weights = awake_weights(folded.state.log_weights, votes)
    advice = decision.advice
    if advice is None:
        advice = np.full(len(names), np.nan)
    arms = experiment.names_of(decision)
    predictions = _predict_again(experiment, decision, made)
    rows: list[dict[str, object]] = []
    for i in np.argsort(-weights, kind="stable").tolist():
        by_arm = dict(zip(arms, votes[i].tolist(), strict=True))
        row: dict[str, object] = {
            "expert": names[i],
            "weight": float(weights[i]),
            "votes": {arm: vote for arm, vote in by_arm.items() if vote > 0},
            "predicted": _number_or_none(advice[i]),
            "predictions": None,
        }
        if predictions is not None and not np.isnan(advice[i]):
            means = [_number_or_none(mean) for mean in predictions.values[i]]
            row["predictions"] = dict(zip(arms, means, strict=True))
        rows.append(row)
    notes = [] if predictions is None else predictions.notes
    return _Explanation(rows, notes)


class _Predictions(NamedTuple):
    """The predictions (N, K) of all experts for all arms, with the state that a
    decision was made with."""

    values: Array
    notes: list[str]


def _predict_again(
    experiment: Experiment, decision: Decision, made: Line
) -> _Predictions | None:
    """Let the experts predict again with the state that a decision was made with.

    Return None if the context was erased, or if an expert's prediction for the drawn
    arm has changed. For experts that learn, the state is computed again from the log.
    """
    if isinstance(decision.context, Erased) or isinstance(decision.features, Erased):
        return None
    setup = experiment.setup
    seen = made.seen or 0
    try:
        folded = restore(
            experiment.store, setup.policy, until=seen, change=setup.change
        )
        bank = gts_inside(folded.policy).experts  # type: ignore[union-attr]
        # Call the experts without a time limit. This fails if only a store is known,
        # which does not contain the models.
        inner = bank.experts if isinstance(bank, Guarded) else bank
        patient = Guarded(inner, arms=bank.arms)
        own_state = folded.state.experts
        question = decision.question
        if decision.arms is None:
            question = single(question)
        predictions = patient.predict(own_state, question)
    except OddsmithError:  # the store failed, a context was erased, or an expert failed
        return None
    drawn = predictions[:, decision.number]
    recorded = np.isnan(drawn) if decision.advice is None else decision.advice
    is_same = np.isnan(recorded) | (np.abs(drawn - recorded) <= CLOSE)
    if not is_same.all():
        return None
    notes = [str(count) for count in clip_counts(bank, own_state, predictions)]
    return _Predictions(predictions, notes)


def _number_or_none(value: float) -> float | None:
    if np.isnan(value):
        return None
    return float(value)


ROUTES = (
    Route(
        "GET",
        "/v1/decisions",
        decisions,
        "The latest decisions.",
        READ,
        lm.DecisionsQuery,
        lm.Decisions,
        examples={"limit": 5, "reward": "some"},
    ),
    Route(
        "GET",
        "/v1/decisions/{id}",
        decision,
        "One decision, or the slots of a slate.",
        READ,
        m.DecisionQuery,
        m.DecisionRecord,
        slate_answer=m.SlateRecord,
        examples={"id": "visit-7", "explain": "true"},
    ),
)
