"""The record of one decision: the decision, its events and reward, and on request the votes of all experts."""

from math import isnan

import msgspec
import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision
from oddsmith.core.exact_json import encode
from oddsmith.core.weights import awake_weights
from oddsmith.server.experiment.experiment import EVERYTHING, Experiment
from oddsmith.server.fold.accounts import Account
from oddsmith.server.fold.fold import restore_judge
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.messages.calls import DecisionRecord
from oddsmith.server.store.protocol import Erased, Line

__all__ = ["record_of"]


def record_of(experiment: Experiment, id: str, explain: bool) -> DecisionRecord | None:
    """All that the log knows of a decision; with `explain`, the state it was made with is folded again."""
    store = experiment.store
    lines = store.history([id], EVERYTHING)
    made = next((line for line in lines if line.kind == "decision"), None)
    if made is None:
        return None
    account = Account(store.rule, store.late, store.zero)
    for line in lines:
        account.take(line)
    decision, evidence = store.decisions([made.position])[0], store.evidence([made.position])[0]
    (draw,) = store.draws([made.position])
    context, eligible, votes = decision.context, decision.eligible, evidence.votes
    arms, hidden = experiment.names_of(decision), not experiment.settings.show_contexts
    names = None if eligible is None else [arm for arm, free in zip(arms, eligible, strict=True) if free]
    return DecisionRecord(
        id=made.id,
        experiment=experiment.name,
        arm=decision.arm,
        propensity=decision.propensity,
        odds=dict(zip(arms, decision.propensities.tolist(), strict=True)),
        step=decision.step,
        position=made.position,
        seen=made.seen or 0,
        context=None if hidden else "erased" if isinstance(context, Erased) else encode(context),
        context_hidden=hidden,
        eligible=names,
        shadow=evidence.shadow,
        deferred=bool(made.deferred),
        reward=None if isnan(account.value) else experiment.scale.value(account.value),
        counts_since=account.settled or None,
        slate=draw.slate,
        slot=draw.slot,
        events=[_event(experiment, line) for line in lines],
        experts=_experts(experiment, decision, votes, made) if explain and votes is not None else msgspec.UNSET,
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


def _experts(experiment: Experiment, decision: Decision, votes: Array, made: Line) -> list[dict[str, object]]:
    """Each expert's vote and its weight in the vote, the heaviest first."""
    folded = restore_judge(experiment.store, experiment.opened.policy, made.seen or 0)
    judged = None if folded is None else gts_inside(folded.policy)
    if folded is None or judged is None:
        return []  # votes are kept of policies that weigh them
    names = judged.experts.names
    weights = awake_weights(folded.state.log_weights, votes)
    predictions = np.full(len(names), np.nan) if decision.advice is None else decision.advice
    arms = experiment.names_of(decision)
    rows = []
    for i in np.argsort(-weights, kind="stable").tolist():
        chosen = {arm: float(part) for arm, part in zip(arms, votes[i], strict=True) if part > 0}
        predicted = None if predictions[i] != predictions[i] else float(predictions[i])
        rows.append({"expert": names[i], "weight": float(weights[i]), "votes": chosen, "predicted": predicted})
    return rows
