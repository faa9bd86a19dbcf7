"""Routes of decisions that were made: a page of them, and one with all that the log
knows of it."""

import asyncio
from functools import partial
from math import isnan
from typing import Literal

import msgspec
import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision
from oddsmith.core.exact_json import encode
from oddsmith.core.weights import awake_weights
from oddsmith.server.experiment.experiment import EVERYTHING, Experiment
from oddsmith.server.fold.accounts import Account
from oddsmith.server.fold.decisions import Listed, Wanted, page_of
from oddsmith.server.fold.fold import restore_judge
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


async def decisions(experiment: Experiment, query: lm.DecisionsQuery) -> lm.Decisions:
    """A page of decisions, the newest first."""
    rewarded = None if query.reward == "any" else query.reward == "some"
    wanted = Wanted(query.before, query.limit, query.arm, rewarded)
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


def _listed(experiment: Experiment, wanted: Wanted) -> lm.Decisions:
    head = experiment.store.head()
    page = page_of(experiment.store, head, wanted)
    rows = [_row(experiment, one) for one in page.decisions]
    return lm.Decisions(experiment.name, head, rows, page.before, page.searched)


def _row(experiment: Experiment, one: Listed) -> lm.ListedDecision:
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
    (draw,) = store.draws([made.position])
    context, eligible, votes = decision.context, decision.eligible, evidence.votes
    arms, hidden = experiment.names_of(decision), not experiment.settings.show_contexts
    names = (
        None
        if eligible is None
        else [arm for arm, free in zip(arms, eligible, strict=True) if free]
    )
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
        experts=_experts(experiment, decision, votes, made)
        if explain and votes is not None
        else msgspec.UNSET,
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


def _experts(
    experiment: Experiment, decision: Decision, votes: Array, made: Line
) -> list[dict[str, object]]:
    """Each expert's vote and its weight in the vote, the heaviest first."""
    folded = restore_judge(experiment.store, experiment.opened.policy, made.seen or 0)
    judged = None if folded is None else gts_inside(folded.policy)
    if folded is None or judged is None:
        return []  # votes are kept of policies that weigh them
    names = judged.experts.names
    weights = awake_weights(folded.state.log_weights, votes)
    predictions = (
        np.full(len(names), np.nan) if decision.advice is None else decision.advice
    )
    arms = experiment.names_of(decision)
    rows = []
    for i in np.argsort(-weights, kind="stable").tolist():
        chosen = {
            arm: float(part)
            for arm, part in zip(arms, votes[i], strict=True)
            if part > 0
        }
        predicted = None if predictions[i] != predictions[i] else float(predictions[i])
        rows.append(
            {
                "expert": names[i],
                "weight": float(weights[i]),
                "votes": chosen,
                "predicted": predicted,
            }
        )
    return rows


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
