"""Routes of decisions that were made: a page of them, and one with all that the log
knows of it."""

import asyncio
from functools import partial
from math import isnan
from typing import Any, Literal, NamedTuple

import msgspec
import numpy as np

from oddsmith.contexts.values import single
from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision
from oddsmith.core.errors import OddsmithError
from oddsmith.core.exact_json import encode
from oddsmith.core.prediction_clip import clip_counts
from oddsmith.core.weights import awake_weights
from oddsmith.experts.guard.guard import Guarded
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
from oddsmith.server.store.protocol import Erased, Line
from oddsmith.server.store.slates import asked_as_decision

__all__ = ["ROUTES", "decision", "decisions", "record_of"]

CLOSE = 1e-9  # predictions that differ by more are others


async def decisions(experiment: Experiment, query: lm.DecisionsQuery) -> lm.Decisions:
    """A page of decisions, the newest first."""
    rewarded = None if query.reward == "any" else query.reward == "some"
    wanted = PageQuery(query.before, query.limit, query.arm, rewarded)
    run = experiment.long_reads.run if wanted.chooses else asyncio.to_thread
    return await run(partial(_listed, experiment, wanted))


async def decision(experiment: Experiment, query: m.DecisionQuery) -> m.DecisionRecord:
    """The record of one decision."""
    read = partial(record_of, experiment, query.id, query.explain)
    run = experiment.long_reads.run if query.explain else asyncio.to_thread
    # to SQLite, what follows a NUL is not there
    record = await run(read) if is_id(query.id) else None
    if record is None:
        if is_id(query.id) and (
            slots := await asyncio.to_thread(experiment.store.of_slate, query.id)
        ):
            raise asked_as_decision(query.id, [line.id for line in slots])
        raise NotFound(
            f"there is no decision {query.id!r:.140} in experiment {experiment.name!r}"
        )
    if query.explain:
        async with experiment.follower.learning:
            record.choices_sentence = choices_sentence(experiment)
    return record


def _listed(experiment: Experiment, wanted: PageQuery) -> lm.Decisions:
    head = experiment.store.head()
    page = page_of(experiment.store, head, wanted)
    rows = [_row(experiment, one) for one in page.decisions]
    return lm.Decisions(experiment.name, head, rows, page.before, page.searched)


def _row(experiment: Experiment, one: ListEntry) -> lm.ListedDecision:
    line, account, draw = one
    return lm.ListedDecision(
        line.id,
        line.position,
        line.time,
        str(line.arm),
        draw.propensity,
        None if isnan(account.value) else experiment.scale.value(account.value),
        _counts(account),
        draw.shadow,
        bool(line.deferred),
        account.shown if line.deferred else None,
        # who it is for is part of what is hidden
        draw.unit if experiment.settings.show_contexts else None,
        draw.slate,
        draw.slot,
    )


def _counts(account: Account) -> Literal["reward", "default", "correction"] | None:
    """What a decision counts with; None until it does."""
    if not account.settled:
        return None
    if account.correction is not None:
        return "correction"
    return "reward" if account.parts else "default"


def record_of(experiment: Experiment, id: str, explain: bool) -> DecisionRecord | None:
    """All that the log knows of a decision; with `explain`, the state it was made with
    is folded again."""
    store = experiment.store
    lines = store.history([id], EVERYTHING)
    made = next((line for line in lines if line.kind == "decision"), None)
    if made is None:
        return None
    account = Account(store.rule, store.late, store.zero)
    for line in lines:
        account.take(line)
    decision, evidence = (
        store.decisions([made.position])[0],
        store.evidence([made.position])[0],
    )
    (draw,) = store.summaries([made.position])
    context, eligible, votes = decision.context, decision.eligible, evidence.votes
    arms, hidden = experiment.names_of(decision), not experiment.settings.show_contexts
    names = (
        None
        if eligible is None
        else [arm for arm, free in zip(arms, eligible, strict=True) if free]
    )
    explained = None
    if explain and votes is not None:
        explained = _explained(experiment, decision, votes, made)
    features: Any = decision.features
    if isinstance(features, Erased):
        features = "erased"
    elif features is not None:
        features = None if hidden else encode(dict(features))
    return DecisionRecord(
        id=made.id,
        experiment=experiment.name,
        arm=decision.arm,
        propensity=decision.propensity,
        odds=dict(zip(arms, decision.propensities.tolist(), strict=True)),
        step=decision.step,
        position=made.position,
        seen=made.seen or 0,
        context=None
        if hidden
        else "erased"
        if isinstance(context, Erased)
        else encode(context),
        context_hidden=hidden,
        eligible=names,
        shadow=evidence.shadow,
        deferred=bool(made.deferred),
        reward=None if isnan(account.value) else experiment.scale.value(account.value),
        counts_since=account.settled or None,
        slate=draw.slate,
        slot=draw.slot,
        events=[_event(experiment, line) for line in lines],
        features=features,
        experts=msgspec.UNSET if explained is None else explained.experts,
        notes=msgspec.UNSET if explained is None else explained.notes,
    )


def _event(experiment: Experiment, line: Line) -> dict[str, object]:
    value = None if line.value is None else experiment.scale.value(line.value)
    return {
        "position": line.position,
        "kind": line.kind,
        "value": value,
        "key": line.key,
        "time": line.time,
        "sender": line.sender,
    }


class _Explained(NamedTuple):
    """Each expert's part in a decision, the heaviest first, and notes about them."""

    experts: list[dict[str, object]]
    notes: list[str]


def _explained(
    experiment: Experiment, decision: Decision, votes: Array, made: Line
) -> _Explained:
    """Each expert's vote, its weight in the vote, and its predictions."""
    folded = restore_judge(experiment.store, experiment.setup.policy, made.seen or 0)
    judged = None if folded is None else gts_inside(folded.policy)
    if folded is None or judged is None:
        return _Explained([], [])  # votes are kept of policies that weigh them
    names = judged.experts.names
    weights = awake_weights(folded.state.log_weights, votes)
    advice = np.full(len(names), np.nan) if decision.advice is None else decision.advice
    arms = experiment.names_of(decision)
    again = _asked_again(experiment, decision, made)
    rows: list[dict[str, object]] = []
    for i in np.argsort(-weights, kind="stable").tolist():
        chosen = {
            arm: float(part)
            for arm, part in zip(arms, votes[i], strict=True)
            if part > 0
        }
        row = {
            "expert": names[i],
            "weight": float(weights[i]),
            "votes": chosen,
            "predicted": _number_or_none(advice[i]),
            "predictions": None,
        }
        if again is not None and not np.isnan(advice[i]):
            row["predictions"] = {
                arm: _number_or_none(mean)
                for arm, mean in zip(arms, again.predictions[i], strict=True)
            }
        rows.append(row)
    return _Explained(rows, [] if again is None else again.notes)


class _AskedAgain(NamedTuple):
    """What the experts predict of all arms (N, K), by the state of a decision."""

    predictions: Array
    notes: list[str]


def _asked_again(
    experiment: Experiment, decision: Decision, made: Line
) -> _AskedAgain | None:
    """What the experts say when they are asked again about a decision, by its state;
    None where its context was erased, or an expert gives another number than it gave.

    Experts that learn are folded to that state.
    """
    if isinstance(decision.context, Erased) or isinstance(decision.features, Erased):
        return None
    opened = experiment.setup
    try:
        folded = restore(
            experiment.store, opened.policy, until=made.seen or 0, change=opened.change
        )
        bank = gts_inside(folded.policy).experts  # type: ignore[union-attr]
        # without a limit of time; what is known of a store alone fails, and sleeps
        inner = bank.experts if isinstance(bank, Guarded) else bank
        patient = Guarded(inner, arms=bank.arms)
        own = folded.state.experts
        question = decision.question
        if decision.arms is None:
            question = single(question)
        predictions = patient.predict(own, question)
    except OddsmithError:  # a store that fails, contexts that are gone, an expert
        return None
    drawn = predictions[:, decision.number]
    recorded = np.isnan(drawn) if decision.advice is None else decision.advice
    is_same = np.isnan(recorded) | (np.abs(drawn - recorded) <= CLOSE)
    if not is_same.all():
        return None
    return _AskedAgain(
        predictions, [str(one) for one in clip_counts(bank, own, predictions)]
    )


def _number_or_none(value: float) -> float | None:
    return None if np.isnan(value) else float(value)


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
        "One decision.",
        READ,
        m.DecisionQuery,
        m.DecisionRecord,
        examples={"id": "visit-7", "explain": "true"},
    ),
)
