"""export: a store as a log, batch by batch, to evaluate, replay or fit."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith.contexts.metrics import Metric
from oddsmith.core.arrays import Array
from oddsmith.core.decision import LEAST_PROPENSITY, Context, Decision
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
from oddsmith.server.store.changes import arms_at
from oddsmith.server.store.protocol import Erased, Line, Reading

__all__ = ["Exported", "export", "log_batches_of"]

_ROWS = 5000


class Exported(NamedTuple):
    """What went into a log: rows, and how many of them have a reward, an incumbent's
    odds, no context any more.

    `unshown` decisions were deferred and never activated: they are left out, as are
    those `without` a context where only others were asked for, and those whose arm had
    a propensity below 1e-12, which is `impossible` in a log.
    """

    rows: int = 0
    rewarded: int = 0
    shadows: int = 0
    erased: int = 0
    unshown: int = 0
    without: int = 0
    impossible: int = 0

    def __add__(self, other: "Exported") -> "Exported":  # type: ignore[override]
        return Exported(
            *(mine + theirs for mine, theirs in zip(self, other, strict=True))
        )


def export(
    reading: Reading, path: Path | str, *, contexts_only: bool = False
) -> Exported:
    """Write the store's decisions as a log, by the suffix of `path`: Parquet, CSV, JSON
    lines or dsjson.

    Rewards are what the decisions count with, as of the last event; NaN where they do
    not count yet. The odds of an incumbent are its own. Advice has a column for every
    expert of the roster; one that joined later sleeps in what was decided before, under
    the weights of that time. Where experts joined a policy whose votes cannot be
    weighed again from the store, there is no advice. An arm that was added later was
    not eligible before. With `contexts_only`, decisions whose context was erased are
    left out. Rows are in the order of the states they were made with.
    """
    total = Exported()

    def logs() -> Iterator[Log]:
        nonlocal total
        for log, counted in log_batches_of(reading, contexts_only=contexts_only):
            total += counted
            if log is not None:
                yield log
        if not total.rows:
            left_out = total.unshown + total.without + total.impossible
            raise InvalidInput(
                f"a store must have decisions to export; of {left_out} none is left"
            )

    write_log(logs(), path)
    return total


def log_batches_of(
    reading: Reading, *, contexts_only: bool = False
) -> Iterator[tuple[Log | None, Exported]]:
    """The store's decisions as logs of some thousand rows, and what is in each; None
    for a log without rows."""
    head = reading.head()
    joined = [line.id for line in reading.lines(0, head) if line.kind == "expert added"]
    roster, start = _advisers(reading, joined)
    visits = progress(walk(reading, start, roster_change(), head), None, "decisions")
    slates = reading.has_slates()
    while batch := list(islice(visits, _ROWS)):
        log, counted = _log_of(reading, batch, head, roster, contexts_only)
        yield (
            (_with_slates(reading, log, batch) if slates and log is not None else log),
            counted,
        )


class _Roster(NamedTuple):
    """The experts of the advice columns; without names, columns are as recorded.

    Where experts joined a policy whose votes cannot be weighed again from the store,
    decisions have no common columns: their advice is left out.
    """

    names: tuple[str, ...] | None
    has_advice: bool = True


def _advisers(
    reading: Reading, joined: Sequence[str]
) -> tuple[_Roster, FoldState | None]:
    """The roster at the end, and the state from which weights at each decision follow;
    no state where no expert joined."""
    if not joined:
        return _Roster(reading.experts), None
    arbiter = judge_of(reading)
    if arbiter is None or reading.experts is None:
        return _Roster(None, has_advice=False), None
    names = tuple(dict.fromkeys([*reading.experts, *joined]))
    return _Roster(names), start_of(reading, arbiter)


def _with_slates(reading: Reading, log: Log, visits: Sequence[Visit]) -> Log:
    """The log with the slates and slots of its decisions, which are some of those
    visited."""
    positions = {visit.line.id: visit.line.position for visit in visits}
    draws = reading.summaries([positions[one] for one in log.decision_id])
    places = np.array([draw.slot or 0 for draw in draws], dtype=np.int64)
    return replace(log, slate=[draw.slate for draw in draws], slot=places)


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
    shown = [
        visit
        for visit in visits
        if accounts[visit.line.id].shown or not visit.line.deferred
    ]
    known = [
        visit
        for visit in shown
        if not contexts_only or not isinstance(_decision(visit).context, Erased)
    ]
    kept = [visit for visit in known if _decision(visit).propensity >= LEAST_PROPENSITY]
    decisions = [_decision(visit) for visit in kept]
    settled = [accounts[visit.line.id] for visit in kept]
    rewards = np.array(
        [account.value if account.settled else np.nan for account in settled],
        dtype=np.float64,
    )
    counted = Exported(
        rows=len(kept),
        rewarded=int(np.count_nonzero(~np.isnan(rewards))),
        shadows=sum(visit.evidence.shadow for visit in kept),
        erased=sum(isinstance(decision.context, Erased) for decision in decisions),
        unshown=len(visits) - len(shown),
        without=len(shown) - len(known),
        impossible=len(known) - len(kept),
    )
    if not kept:
        return None, counted
    arms = arms_at(reading, head)
    wide = [
        _with_columns(decision, len(arms)) if arms is not None else decision
        for decision in decisions
    ]
    advice = [_spread(visit, roster) for visit in kept]
    columns = _columns(wide, advice) | _experiment_columns(wide)
    columns |= outcomes.columns([visit.line.id for visit in kept])
    log = Log(
        reward=rewards,
        decision_id=[visit.line.id for visit in kept],
        time=(np.array([visit.line.time for visit in kept]) * 1e6).astype(
            "datetime64[us]"
        ),
        fingerprint=[reading.fingerprint] * len(kept),
        arms=arms,
        experts=roster.names if "advice" in columns else None,
        **columns,
    )
    return log, counted


class _Outcomes:
    """The amounts of the metrics of some decisions."""

    def __init__(self, reading: Reading) -> None:
        declared = {
            name: Metric.from_json(one) for name, one in reading.metrics.items()
        }
        self._names = [name for name, one in declared.items() if one.ratio is None]
        self._defaults = {
            name: one.default
            for name, one in declared.items()
            if one.default is not None
        }
        self._accounts: dict[str, AmountAccount] = {}

    def take(self, line: Line, settled: int) -> None:
        """Take the next line about a decision."""
        if self._names:
            account = self._accounts.setdefault(line.id, AmountAccount(self._defaults))
            account.take(line, settled)

    def columns(self, ids: Sequence[str]) -> dict[str, Any]:
        """The column of amounts, NaN where none came, and the metrics' names."""
        if not self._names:
            return {}
        amounts = np.full((len(ids), len(self._names)), np.nan)
        for row, id in enumerate(ids):
            for step in self._accounts[id].steps:  # the last step of a metric counts
                amounts[row, self._names.index(step.metric)] = step.value
        return {"metric": amounts, "metrics": self._names}


def _experiment_columns(decisions: Sequence[Decision]) -> dict[str, Any]:
    """The columns of an experiment with a control. A decision from before it had one is
    compared with itself."""
    if all(one.holdout is None for one in decisions):
        return {}
    control = [
        one.propensities if one.control is None else one.control for one in decisions
    ]
    columns: dict[str, Any] = {
        "control": control if decisions[0].arms is not None else np.array(control),
        "holdout": np.array([one.holdout or 0.0 for one in decisions]),
    }
    for name in ("group", "unit"):
        values = [getattr(one, name) for one in decisions]
        if any(value is not None for value in values):
            columns[name] = values
    return columns


def _columns(
    decisions: Sequence[Decision], learnt: Sequence[tuple[Array | None, ...]]
) -> dict[str, Any]:
    """The columns of decisions: always the same, whatever some of them lack."""
    odds = [decision.propensities for decision in decisions]
    masks = [
        np.ones(len(p), np.bool_) if d.eligible is None else d.eligible
        for d, p in zip(decisions, odds, strict=True)
    ]
    offers = decisions[0].arms is not None
    columns: dict[str, Any] = {
        "arm": [decision.number for decision in decisions],
        "propensities": odds if offers else np.array(odds),
        "eligible": masks if offers else np.array(masks),
        "context": [_plain(decision.context) for decision in decisions],
    }
    if offers:
        columns["offered"] = [decision.arms for decision in decisions]
        features = [
            None if isinstance(decision.features, Erased) else decision.features
            for decision in decisions
        ]
        columns |= {"features": features} if any(features) else {}
    if all(decision.step is not None for decision in decisions):
        columns["step"] = [decision.step for decision in decisions]
    for name, values in zip(
        ("advice", "bonus", "log_weights"), zip(*learnt, strict=True), strict=False
    ):
        if any(value is not None for value in values):
            columns[name] = np.array(values)
    return columns


def _with_columns(decision: Decision, n_arms: int) -> Decision:
    """The decision over all arms that there are at the end; those that were added after
    it were not eligible."""
    missing = n_arms - len(decision.propensities)
    if missing <= 0:
        return decision
    mask = (
        np.ones(len(decision.propensities), np.bool_)
        if decision.eligible is None
        else decision.eligible
    )
    odds, eligible = (
        np.append(decision.propensities, np.zeros(missing)),
        np.append(mask, np.zeros(missing, np.bool_)),
    )
    control = decision.control
    if control is not None:
        control = np.append(control, np.zeros(missing))
    return decision._replace(propensities=odds, eligible=eligible, control=control)


def _spread(
    visit: Visit, roster: _Roster
) -> tuple[Array | None, Array | None, Array | None]:
    """Advice, bonus and log weights over the roster at the end; log weights are NaN
    where no expert slept."""
    decision = _decision(visit)
    if decision.advice is None or not roster.has_advice:
        return None, None, None
    missing = 0
    if roster.names is not None:
        missing = len(roster.names) - len(decision.advice)
    if missing:
        own = (
            _drawn_with(visit) if decision.log_weights is None else decision.log_weights
        )
        places = np.append(np.arange(len(decision.advice)), np.full(missing, -1))
        wider = np.append(own, np.full(missing, -np.inf))
        decision = in_places(decision, places, wider)
    log_weights = (
        np.full_like(decision.advice, np.nan)
        if decision.log_weights is None
        else decision.log_weights
    )
    return decision.advice, decision.bonus, log_weights


def _drawn_with(visit: Visit) -> Array:
    """The log weights of the state it was made with."""
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
    """A context as JSON has it, so that all batches are alike; None for one that was
    erased."""
    if isinstance(context, Erased):
        return None
    return context.tolist() if isinstance(context, np.ndarray) else context
