"""Chart: facts about a store for `oddsmith doctor`. They are collected in a single pass
over the events."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from oddsmith.core.arrays import Bools
from oddsmith.core.decision import LEAST_PROPENSITY, Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.policy import Policy
from oddsmith.files.state import unpack_meta, unpack_part
from oddsmith.logs.progress import progress
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.server.audit.checks import Draws
from oddsmith.server.audit.proof import judge_of
from oddsmith.server.audit.verdicts import Differs
from oddsmith.server.audit.walk import (
    UNREADABLE,
    DecisionRecord,
    read_decisions,
    start_of,
)
from oddsmith.server.fold.accounts import Account, Count
from oddsmith.server.fold.fold import FoldState, roster_change, settle
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.fold.protocol import Item
from oddsmith.server.fold.steps import in_order, with_decisions
from oddsmith.server.statistics import Sums
from oddsmith.server.store.changes import window_of
from oddsmith.server.store.protocol import Line, Reading, Snapshot
from oddsmith.server.store.rows import EARLY
from oddsmith.server.store.sqlite.file import FileFacts, file_facts

__all__ = ["Chart", "RECENT", "chart_of"]

RECENT = 1000
"""Number of decisions that findings call "the last" decisions."""
_DAY = 86_400.0
_GRACE = 60.0
_WINDOWS = 5000  # reward windows per read


@dataclass
class Chart:
    """Facts about a store, which the checks of `oddsmith doctor` use. Times are in
    seconds.

    `folded` is the state at the end of the log. It is None if the store does not
    describe how the policy weighs experts, or if an event could not be applied; `why`
    is the reason. `lost` contains ids that have events since the store was restored,
    but no decision. `choices` compares experts over the last decisions with votes and
    rewards. `statistics` describes statistics that are missing in the last snapshot.
    The draws of the last decisions are repeated from propensities, seed and id:
    `redrawn` counts the decisions with the recorded arm, and `other_draws` contains the
    positions of decisions with another arm.
    """

    reading: Reading
    now: float
    head: int
    kinds: Counter[str] = field(default_factory=Counter)
    unmatched: int = 0
    lost: list[str] = field(default_factory=list)
    overdue: int = 0
    opened: int = 0
    settled: int = 0
    backwards: int = 0
    first_backwards: int = 0
    future: int = 0
    silence: float = 0.0
    silence_at: int = 0
    last_time: float = float("-inf")
    rewards: "array[float]" = field(default_factory=lambda: array("d"))
    recent: "list[tuple[int, Decision]]" = field(default_factory=list)
    folded: FoldState | None = None
    why: str = ""
    file: FileFacts | None = None
    broken_snapshots: list[int] = field(default_factory=list)
    choices: Choices | None = None
    statistics: str = ""
    redrawn: int = 0
    other_draws: "list[int]" = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """The names of the experts; empty if they are not known."""
        inner = self._inner
        return [] if inner is None else list(inner.experts.names)

    @property
    def present(self) -> Bools | None:
        """A mask of experts that are not retired (N,), if they are known."""
        inner = self._inner
        return None if inner is None else inner.prior > 0

    @property
    def _inner(self) -> GeneralizedThompsonSampling | None:
        return None if self.folded is None else gts_inside(self.folded.policy)

    @property
    def since_snapshot(self) -> int:
        """The number of events after the last usable snapshot, which a restart would
        read."""
        last = 0
        for snapshot in self.reading.snapshots():
            last = snapshot.position
        if self.reading.gapless:
            return self.head - last
        return sum(1 for _ in self.reading.lines(last, self.head))


def chart_of(reading: Reading, place: str, now: float) -> Chart:
    """Collect facts about the store at a place."""
    chart = Chart(reading, now, reading.head())
    items, made = _read_lines(chart)
    records = dict(zip(made, read_decisions(reading, made), strict=True))
    for position, record in records.items():
        if record.decision is not None:
            chart.recent.append((position, record.decision))
    _redraw(chart, records)
    _read_windows(chart)
    arbiter = judge_of(reading)
    if arbiter is None:
        chart.why = "the store does not say how its policy weighs votes"
    else:
        start = start_of(reading, arbiter)
        steps = progress(with_decisions(reading, items), len(items), "folding")
        try:
            chart.folded = settle(start, steps, chart.head, roster_change())
        except UNREADABLE as error:
            chart.why = f"the events cannot be folded: {error}"
    chart.choices = _choices(chart, records, items)
    chart.statistics = _statistics_trouble(reading)
    for snapshot in reading.snapshots():
        if not _is_readable(reading, snapshot, arbiter):
            chart.broken_snapshots.append(snapshot.position)
    if Path(place).is_file():
        chart.file = file_facts(Path(place))
    return chart


def _redraw(chart: Chart, records: Mapping[int, DecisionRecord]) -> None:
    """Repeat the draws of the last decisions."""
    if not records:
        return
    draws = Draws(chart.reading)
    for line in chart.reading.lines(min(records) - 1, max(records)):
        record = records.get(line.position)
        if record is None or record.decision is None or line.kind != "decision":
            continue
        answer = draws.check(line, record.decision, record.evidence)
        if answer is None:
            chart.redrawn += 1
        elif isinstance(answer, Differs):
            chart.other_draws.append(line.position)


def _choices(
    chart: Chart,
    records: Mapping[int, DecisionRecord],
    items: Sequence[Item],
) -> Choices | None:
    """Compare the experts' policies by the votes and rewards of the last decisions.

    An expert without a vote counts as if it had agreed with the policy.
    """
    rewards = {item.made: item.value for item in items if isinstance(item, Count)}
    rows = []
    for position, decision in chart.recent:
        votes = records[position].evidence.votes
        if votes is None or len(votes) != len(chart.names) or position not in rewards:
            continue
        # old stores may contain smaller values
        p = max(decision.propensity, LEAST_PROPENSITY)
        weights = np.where(votes.any(axis=1), votes[:, decision.number] / p, 1.0)
        rows.append(sums_of(weights, np.asarray(rewards[position])))
    if not rows or chart.folded is None:
        return None
    total = np.sum(rows, axis=0)
    predictor = int(chart.folded.state.log_weights.argmax())
    return choices_of(
        total,
        len(rows),
        names=chart.names,
        predictor=predictor,
        present=chart.present,
    )


def _statistics_trouble(reading: Reading) -> str:
    """Describe the statistics that had failed at the last snapshot."""
    for snapshot in reading.snapshots()[-1:]:
        with suppress(*UNREADABLE):  # damaged snapshots are reported by another check
            meta = unpack_meta(reading.content(snapshot.position), "the snapshot")
            sums = Sums.from_json(meta.get("sums"))
            return "" if sums is None else sums.trouble
    return ""


def _is_readable(reading: Reading, snapshot: Snapshot, arbiter: Policy | None) -> bool:
    """Return whether a snapshot can be read, except for the parts that need models."""
    try:
        content = reading.content(snapshot.position)
        if arbiter is not None:
            unpack_part(content, arbiter, "the snapshot")
    except UNREADABLE as error:
        # the snapshot was deleted in the meantime
        return isinstance(error, InvalidInput)
    return True


def _read_lines(chart: Chart) -> tuple[list[Item], list[int]]:
    """Read all lines into the chart. Return the steps from which the state is computed,
    and the positions of the last decisions."""
    reading = chart.reading
    accounts: dict[str, Account] = {}
    changes: list[Line] = []
    made = array("q")
    total = sum(reading.tally().values())
    _, epoch_after = reading.epochs[-1]
    waiting: dict[str, None] = {}
    for line in progress(reading.lines(0, chart.head), total, "reading"):
        chart.kinds[line.kind] += 1
        _check_time(chart, line)
        if not line.of_decision:
            if line.of_policy:
                changes.append(line)
            continue
        if line.kind == "decision":
            made.append(line.position)
        if line.kind in EARLY and line.position > epoch_after > 0:
            waiting[line.id] = None
        account = accounts.setdefault(line.id, Account.of(reading))
        account.take(line)
    items = in_order((account.counts for account in accounts.values()), changes)
    for account in accounts.values():
        if not account.made:
            chart.unmatched += len(account.parts)
    for item in items:
        if isinstance(item, Count):
            chart.settled = item.position
    window = window_of(reading)
    chart.rewards = _reward_values(accounts.values(), window, chart.last_time)
    chart.lost = [id for id in waiting if not accounts[id].made]
    return items, made[-RECENT:].tolist()


def _reward_values(
    accounts: Iterable[Account], window: float | None, now: float
) -> "array[float]":
    """Return the rewards and defaults that count, in the order of the decisions.

    Decisions with an open window are left out. Their positive rewards often arrive
    early, so the mean would be too high.
    """
    counted = [one for one in accounts if one.settled]
    if window is not None:
        counted = [one for one in counted if one.decided + window <= now]
    counted.sort(key=lambda one: one.made)
    return array("d", [one.value for one in counted])


def _check_time(chart: Chart, line: Line) -> None:
    silence = line.time - chart.last_time
    if line.time < chart.last_time - 1:
        chart.backwards += 1
        chart.first_backwards = chart.first_backwards or line.position
    elif np.isfinite(chart.last_time) and silence > chart.silence:
        chart.silence = silence
        chart.silence_at = line.position
    chart.last_time = line.time
    chart.future += line.time > chart.now + _GRACE


def _read_windows(chart: Chart) -> None:
    """Count the reward windows that opened, and the windows that should be closed by
    now.

    If the experiment has no window, a decision without a reward is overdue after a day.
    """
    window = window_of(chart.reading)
    patience = _DAY if window is None else window + _GRACE
    after = 0
    while after < chart.head:
        windows = chart.reading.windows(after, _WINDOWS)
        if not windows:
            return
        after = windows[-1].position
        chart.opened += len(windows)
        for one in windows:
            chart.overdue += not one.closed and one.time + patience < chart.now
