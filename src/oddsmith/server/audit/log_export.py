"""export: write the decisions of a store as a log, in batches. Logs can be evaluated,
replayed or used to fit models."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import isnan
from operator import add
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.metrics import Metric
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import LEAST_PROPENSITY, PAUSED, Context, Decision
from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.core.expert_policy import in_places
from oddsmith.logs.formats import write_log
from oddsmith.logs.progress import progress
from oddsmith.logs.table import Log
from oddsmith.server.audit.proof import judge_of
from oddsmith.server.audit.walk import Visit, start_of, walk
from oddsmith.server.fold.accounts import Account
from oddsmith.server.fold.amounts import AmountAccount
from oddsmith.server.fold.fold import FoldState, roster_change
from oddsmith.server.operations.design import designs_of
from oddsmith.server.store.changes import arms_at
from oddsmith.server.store.protocol import Erased, Line, Reading

__all__ = ["Exported", "export", "log_batches_of"]

_ROWS = 5000


class Exported(NamedTuple):
    """Counts of an export: the rows of the log, and how many of them have a reward, an
    incumbent's decision, or an erased context.

    Four kinds of decisions are left out of the log, and counted: `unshown` were
    deferred and never activated; `paused` were made by the control while the experiment
    was paused; `without` have no context, although contexts are required; `impossible`
    have a propensity below 1e-12.
    """

    rows: int = 0
    rewarded: int = 0
    shadows: int = 0
    erased: int = 0
    unshown: int = 0
    without: int = 0
    impossible: int = 0
    paused: int = 0

    def __add__(self, other: "Exported") -> "Exported":  # type: ignore[override]
        return Exported(*map(add, self, other))


def export(
    reading: Reading, path: Path | str, *, contexts_only: bool = False
) -> Exported:
    """Write the store's decisions as a log. The suffix of `path` selects Parquet, CSV,
    JSON lines or dsjson.

    The reward of a row is the decision's reward as of the last event, or NaN if the
    decision does not count yet. If an incumbent decided, the propensities are the
    incumbent's. The columns of advice contain every expert of the experiment; before it
    joined, an expert has no predictions. There is no advice if experts joined a policy
    whose votes cannot be weighed again from the store. Before it was added, an arm
    counts as not eligible. With `contexts_only`, decisions with an erased context are
    left out. Rows are sorted by the position of the state that the decision was made
    with.
    """
    total = Exported()

    def logs() -> Iterator[Log]:
        nonlocal total
        for log, exported in log_batches_of(reading, contexts_only=contexts_only):
            total += exported
            if log is not None:
                yield log
        if not total.rows:
            left_out = total.unshown + total.without + total.impossible + total.paused
            raise InvalidInput(
                f"a store must have decisions to export; {left_out} were left out, so "
                "none remains"
            )

    write_log(logs(), path)
    return total


def log_batches_of(
    reading: Reading, *, contexts_only: bool = False
) -> Iterator[tuple[Log | None, Exported]]:
    """Yield the store's decisions as logs of a few thousand rows; None for a batch
    without rows."""
    head = reading.head()
    joined = [line.id for line in reading.lines(0, head) if line.kind == "expert added"]
    roster, start = _advisers(reading, joined)
    visits = progress(walk(reading, start, roster_change(), head), None, "decisions")
    slates = reading.has_slates()
    while batch := list(islice(visits, _ROWS)):
        log, exported = _log_of(reading, batch, head, roster, contexts_only)
        if slates and log is not None:
            log = _with_slates(reading, log, batch)
        yield log, exported


class _Roster(NamedTuple):
    """The names of the experts in the advice columns. If `names` is None, the columns
    contain the experts of each decision in the recorded order.

    `has_advice` is false if experts joined and the votes of the policy cannot be
    weighed again from the store. Decisions would then have different columns.
    """

    names: tuple[str, ...] | None
    has_advice: bool = True


def _advisers(
    reading: Reading, joined: Sequence[str]
) -> tuple[_Roster, FoldState | None]:
    """Return the experts at the end of the log, and the state before the first event,
    from which their weights are computed.

    If no expert joined, the weights are not needed, and there is no state.
    """
    if not joined:
        return _Roster(reading.experts), None
    arbiter = judge_of(reading)
    if arbiter is None or reading.experts is None:
        return _Roster(None, has_advice=False), None
    names = tuple(dict.fromkeys([*reading.experts, *joined]))
    return _Roster(names), start_of(reading, arbiter)


def _with_slates(reading: Reading, log: Log, visits: Sequence[Visit]) -> Log:
    """Return the log with the slates and slots of its decisions."""
    positions = {visit.line.id: visit.line.position for visit in visits}
    draws = reading.summaries([positions[id] for id in log.decision_id])
    slates = [draw.slate for draw in draws]
    slots = np.array([draw.slot or 0 for draw in draws], dtype=np.int64)
    return replace(log, slate=slates, slot=slots)


def _log_of(
    reading: Reading,
    visits: Sequence[Visit],
    head: int,
    roster: _Roster,
    contexts_only: bool,
) -> tuple[Log | None, Exported]:
    accounts = {visit.line.id: Account.of(reading) for visit in visits}
    outcomes = _Outcomes(reading)
    for line in reading.history(list(accounts), head):
        accounts[line.id].take(line)
        outcomes.take(line, accounts[line.id].settled)
    kept: list[Visit] = []
    decisions: list[Decision] = []
    rewards: list[float] = []
    counts = Counter[str]()
    for visit in visits:
        account = accounts[visit.line.id]
        if visit.line.deferred and not account.shown:
            counts["unshown"] += 1
            continue
        decision = _decision(visit)
        if decision.group == PAUSED:
            counts["paused"] += 1
            continue
        is_erased = isinstance(decision.context, Erased)
        if contexts_only and is_erased:
            counts["without"] += 1
        elif decision.propensity < LEAST_PROPENSITY:
            counts["impossible"] += 1
        else:
            kept.append(visit)
            decisions.append(decision)
            rewards.append(account.value if account.settled else np.nan)
            counts["rewarded"] += not isnan(rewards[-1])
            counts["shadows"] += visit.evidence.shadow
            counts["erased"] += is_erased
    exported = Exported(rows=len(kept), **counts)
    if not kept:
        return None, exported
    arms = arms_at(reading, head)
    wide = decisions
    if arms is not None:
        wide = [_with_columns(decision, len(arms)) for decision in decisions]
    columns = _columns(wide, [_advice(visit, roster) for visit in kept])
    has_control = any("control" in facts for facts in designs_of(reading))
    if has_control or any(one.holdout is not None for one in wide):
        columns |= _experiment_columns(wide, kept)
    columns |= outcomes.columns([visit.line.id for visit in kept])
    times = np.array([visit.line.time for visit in kept]) * 1e6
    log = Log(
        reward=np.array(rewards, dtype=np.float64),
        decision_id=[visit.line.id for visit in kept],
        time=times.astype("datetime64[us]"),
        fingerprint=[reading.fingerprint] * len(kept),
        arms=arms,
        experts=roster.names if "advice" in columns else None,
        **columns,
    )
    return log, exported


class _Advice(NamedTuple):
    """Advice, bonus and log weights of a decision. They have one entry for each expert
    that exists at the end of the log."""

    advice: Array | None = None
    bonus: Array | None = None
    log_weights: Array | None = None


class _Outcomes:
    """The amounts of the metrics of some decisions."""

    def __init__(self, reading: Reading) -> None:
        declared = {
            name: Metric.from_json(one) for name, one in reading.metrics.items()
        }
        self._names = [name for name, one in declared.items() if one.has_amounts]
        self._defaults = {
            name: one.default
            for name, one in declared.items()
            if one.default is not None
        }
        self._accounts: dict[str, AmountAccount] = {}

    def take(self, line: Line, settled: int) -> None:
        """Add the next line about one of the decisions."""
        if self._names:
            account = self._accounts.setdefault(line.id, AmountAccount(self._defaults))
            account.take(line, settled)

    def columns(self, ids: Sequence[str]) -> dict[str, Any]:
        """Return the columns of the metrics: the amounts (NaN if there is none), and
        the names."""
        if not self._names:
            return {}
        amounts = np.full((len(ids), len(self._names)), np.nan)
        for row, id in enumerate(ids):
            for step in self._accounts[id].steps:  # the last amount of a metric counts
                amounts[row, self._names.index(step.metric)] = step.value
        return {"metric": amounts, "metrics": self._names}


def _experiment_columns(
    decisions: Sequence[Decision], visits: Sequence[Visit]
) -> dict[str, Any]:
    """Return the columns of an experiment with a control.

    Some decisions cannot be compared with the control, because they have no control, or
    because an incumbent acted that is not the control. Their share of the control is
    NaN. If the control's propensities are missing, the decision's own propensities are
    in their place.
    """
    shares = []
    control = []
    for one, visit in zip(decisions, visits, strict=True):
        is_compared = one.holdout is not None
        if visit.evidence.shadow and one.group is None:
            is_compared = False
        shares.append(one.holdout if is_compared else np.nan)
        control.append(one.propensities if one.control is None else one.control)
    return {
        "control": control if decisions[0].arms is not None else np.array(control),
        "holdout": np.array(shares, dtype=np.float64),
        "group": [one.group for one in decisions],
        "unit": [one.unit for one in decisions],
    }


def _columns(
    decisions: Sequence[Decision], advice: Sequence[_Advice]
) -> dict[str, Any]:
    """Return the columns of a batch of decisions. All batches of a log have the same
    columns."""
    odds: Any = [decision.propensities for decision in decisions]
    masks: Any = [_mask(decision) for decision in decisions]
    columns: dict[str, Any] = {
        "arm": [decision.number for decision in decisions],
        "context": [_plain(decision.context) for decision in decisions],
    }
    if decisions[0].arms is not None:
        columns["offered"] = [decision.arms for decision in decisions]
        features = [decision.features for decision in decisions]
        features = [None if isinstance(one, Erased) else one for one in features]
        if any(features):
            columns["features"] = features
    else:
        odds = np.array(odds)
        masks = np.array(masks)
    columns["propensities"] = odds
    columns["eligible"] = masks
    if all(decision.step is not None for decision in decisions):
        columns["step"] = [decision.step for decision in decisions]
    for name in _Advice._fields:
        values = [getattr(one, name) for one in advice]
        if any(value is not None for value in values):
            columns[name] = np.array(values)
    return columns


def _mask(decision: Decision) -> Bools:
    """Return the eligible arms."""
    if decision.eligible is None:
        return np.ones(len(decision.propensities), np.bool_)
    return decision.eligible


def _with_columns(decision: Decision, n_arms: int) -> Decision:
    """Return the decision with entries for all arms of the log. Arms that were added
    after the decision are not eligible."""
    missing = n_arms - len(decision.propensities)
    if missing <= 0:
        return decision
    odds = np.append(decision.propensities, np.zeros(missing))
    eligible = np.append(_mask(decision), np.zeros(missing, np.bool_))
    control = decision.control
    if control is not None:
        control = np.append(control, np.zeros(missing))
    return decision._replace(propensities=odds, eligible=eligible, control=control)


def _advice(visit: Visit, roster: _Roster) -> _Advice:
    """Return the advice of a decision, with one entry for each expert that exists at
    the end of the log.

    Log weights are NaN if all experts had predictions.
    """
    decision = _decision(visit)
    if decision.advice is None or not roster.has_advice:
        return _Advice()
    n_recorded = len(decision.advice)
    missing = 0
    if roster.names is not None:
        missing = len(roster.names) - n_recorded
    if missing:
        own = decision.log_weights
        if own is None:
            own = _log_weights(visit)
        places = np.append(np.arange(n_recorded), np.full(missing, -1))
        wider = np.append(own, np.full(missing, -np.inf))
        decision = in_places(decision, places, wider)
    log_weights = decision.log_weights
    if log_weights is None:
        log_weights = np.full_like(decision.advice, np.nan)
    return _Advice(decision.advice, decision.bonus, log_weights)


def _log_weights(visit: Visit) -> Array:
    """Return the log weights of the state that a decision was made with."""
    if visit.folded is None:
        raise BadFile(
            f"decision {visit.line.id!r} must have a state it was made with; "
            f"{visit.why or visit.line.seen}"
        )
    log_weights: Array = visit.folded.state.log_weights
    return log_weights


def _decision(visit: Visit) -> Decision:
    if visit.decision is None:
        raise BadFile(
            f"decision {visit.line.id!r} at position {visit.line.position} cannot be "
            f"read; {visit.why}"
        )
    return visit.decision


def _plain(context: Context) -> Context:
    """Return a context as JSON values, so that all batches have the same types; None if
    it was erased."""
    if isinstance(context, Erased):
        return None
    if isinstance(context, np.ndarray):
        return context.tolist()
    return context
