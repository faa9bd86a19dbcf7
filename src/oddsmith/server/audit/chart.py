"""Chart: what a doctor needs to know of a store, from one reading of its lines and one
fold."""

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import LEAST_PROPENSITY, Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.policy import Policy
from oddsmith.files.state import unpack_meta, unpack_part
from oddsmith.logs.progress import progress
from oddsmith.policies.parts.choices import Choices, choices_of, sums_of
from oddsmith.server.audit.checks import Draws
from oddsmith.server.audit.proof import judge_of
from oddsmith.server.audit.verdicts import Differs
from oddsmith.server.audit.walk import UNREADABLE, read_decisions, start_of
from oddsmith.server.fold.accounts import Account, Count
from oddsmith.server.fold.fold import FoldState, roster_change, settle
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.fold.protocol import Item
from oddsmith.server.fold.steps import in_order, with_decisions
from oddsmith.server.statistics import Sums
from oddsmith.server.store.changes import window_of
from oddsmith.server.store.protocol import Evidence, Line, Reading, Snapshot
from oddsmith.server.store.rows import EARLY
from oddsmith.server.store.sqlite.file import FileFacts, file_facts

__all__ = ["Chart", "RECENT", "chart_of"]

RECENT = 1000  # decisions that "the last ones" are
_DAY, _GRACE = 86_400.0, 60.0
_WINDOWS = 5000  # reward windows looked at in one go


@dataclass
class Chart:
    """What was seen. Times are in seconds; where there is no judge or the fold failed,
    `folded` is None, and `why`.

    `lost` are the decisions that something came for since the store was restored, and
    that are not there. `choices` are about the last decisions, as far as they have
    votes and rewards. `statistics` says which statistics the last snapshot lacks.
    votes and rewards. Of these, `redrawn` follow from their odds, seed and id, and
    those at the positions `other_draws` do not, as `verify` has it.
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
        """The experts, where they are known."""
        inner = None if self.folded is None else gts_inside(self.folded.policy)
        return [] if inner is None else list(inner.experts.names)

    @property
    def present(self) -> Bools | None:
        """Which experts are not retired (N,), where it is known."""
        inner = None if self.folded is None else gts_inside(self.folded.policy)
        return None if inner is None else inner.prior > 0

    @property
    def since_snapshot(self) -> int:
        """How many events a restart would read."""
        kept = self.reading.snapshots()
        last = kept[-1].position if kept else 0
        return (
            self.head - last
            if self.reading.gapless
            else sum(1 for _ in self.reading.lines(last, self.head))
        )


def chart_of(reading: Reading, place: str, now: float) -> Chart:
    """The chart of a store at a place."""
    chart = Chart(reading, now, reading.head())
    items, made = _read_lines(chart)
    read = dict(zip(made, read_decisions(reading, made), strict=True))
    chart.recent = [
        (position, decision)
        for position, (decision, *_) in read.items()
        if decision is not None
    ]
    _redraw(chart, read)
    _read_windows(chart)
    arbiter = judge_of(reading)
    if arbiter is None:
        chart.why = "the store does not say how its policy weighs votes"
    else:
        steps = progress(with_decisions(reading, items), len(items), "folding")
        try:
            chart.folded = settle(
                start_of(reading, arbiter), steps, chart.head, roster_change()
            )
        except UNREADABLE as error:
            chart.why = f"the events cannot be folded: {error}"
    chart.choices = _choices(
        chart,
        {position: evidence.votes for position, (_, evidence, _) in read.items()},
        items,
    )
    chart.statistics = _statistics_trouble(reading)
    chart.broken_snapshots = [
        one.position for one in reading.snapshots() if not _opens(reading, one, arbiter)
    ]
    if Path(place).is_file():
        chart.file = file_facts(Path(place))
    return chart


def _redraw(
    chart: Chart, read: Mapping[int, tuple[Decision | None, Evidence, str]]
) -> None:
    """Draw the last decisions again."""
    if not read:
        return
    draws = Draws(chart.reading)
    for line in chart.reading.lines(min(read) - 1, max(read)):
        if line.position not in read:
            continue
        decision, evidence, _ = read[line.position]
        if line.kind != "decision" or decision is None:
            continue
        answer = draws.check(line, decision, evidence)
        if answer is None:
            chart.redrawn += 1
        elif isinstance(answer, Differs):
            chart.other_draws.append(line.position)


def _choices(
    chart: Chart,
    votes: Mapping[int, Array | None],
    items: Sequence[Item],
) -> Choices | None:
    """What the votes and rewards of the last decisions say about the experts' policies;
    a sleeper would have agreed."""
    rewards = {item.made: item.value for item in items if isinstance(item, Count)}
    rows = []
    for position, decision in chart.recent:
        cast = votes[position]
        if cast is not None and len(cast) == len(chart.names) and position in rewards:
            p = max(decision.propensity, LEAST_PROPENSITY)  # of old stores
            voted = np.where(cast.any(axis=1), cast[:, decision.number] / p, 1.0)
            rows.append(sums_of(voted, np.asarray(rewards[position])))
    if not rows or chart.folded is None:
        return None
    predictor = int(chart.folded.state.log_weights.argmax())
    return choices_of(
        np.sum(rows, axis=0),
        len(rows),
        names=chart.names,
        predictor=predictor,
        present=chart.present,
    )


def _statistics_trouble(reading: Reading) -> str:
    """A sentence about statistics that were not computed up to the last snapshot."""
    for snapshot in reading.snapshots()[-1:]:
        with suppress(*UNREADABLE):  # a damaged one is another finding
            meta = unpack_meta(reading.content(snapshot.position), "the snapshot")
            sums = Sums.from_json(meta.get("sums"))
            return "" if sums is None else sums.trouble
    return ""


def _opens(reading: Reading, snapshot: Snapshot, arbiter: Policy | None) -> bool:
    """Whether a snapshot can be read, as far as it can be told without the models."""
    try:
        content = reading.content(snapshot.position)
        if arbiter is not None:
            unpack_part(content, arbiter, "the snapshot")
    except UNREADABLE as error:
        return isinstance(error, InvalidInput)  # it was thinned out meanwhile
    return True


def _read_lines(chart: Chart) -> tuple[list[Item], list[int]]:
    """What is to be folded, and the positions of the last decisions."""
    accounts: dict[str, Account] = {}
    changes: list[Line] = []
    made = array("q")
    total, epoch_after = (
        sum(chart.reading.tally().values()),
        chart.reading.epochs[-1][1],
    )
    waiting: dict[str, None] = {}
    for line in progress(chart.reading.lines(0, chart.head), total, "reading"):
        chart.kinds[line.kind] += 1
        _look_at_clock(chart, line)
        if not line.of_decision:
            changes += [line] if line.of_policy else []
            continue
        if line.kind == "decision":
            made.append(line.position)
        if line.kind in EARLY and line.position > epoch_after > 0:
            waiting[line.id] = None
        account = accounts.setdefault(line.id, Account.of(chart.reading))
        account.take(line)
    chart.unmatched = sum(
        len(account.parts) for account in accounts.values() if not account.made
    )
    items = in_order((account.counts for account in accounts.values()), changes)
    chart.settled = max(
        (item.position for item in items if isinstance(item, Count)), default=0
    )
    chart.rewards = _settled(
        accounts.values(), window_of(chart.reading), chart.last_time
    )
    chart.lost = [id for id in waiting if not accounts[id].made]
    return items, made[-RECENT:].tolist()


def _settled(
    accounts: Iterable[Account], window: float | None, now: float
) -> "array[float]":
    """What decisions count with, in the order they were made in: rewards, and defaults
    where there are none.

    Of decisions whose window is open only the good news may be there: they are left
    out.
    """
    settled = [
        one
        for one in accounts
        if one.settled and (window is None or one.decided + window <= now)
    ]
    return array("d", (one.value for one in sorted(settled, key=lambda one: one.made)))


def _look_at_clock(chart: Chart, line: Line) -> None:
    if line.time < chart.last_time - 1:
        chart.backwards += 1
        chart.first_backwards = chart.first_backwards or line.position
    elif np.isfinite(chart.last_time) and line.time - chart.last_time > chart.silence:
        chart.silence, chart.silence_at = line.time - chart.last_time, line.position
    chart.last_time = line.time
    chart.future += line.time > chart.now + _GRACE


def _read_windows(chart: Chart) -> None:
    """How many reward windows were opened, and how many are open that should be closed:
    by then, or after a day."""
    window, after = window_of(chart.reading), 0
    patience = _DAY if window is None else window + _GRACE
    while after < chart.head and (windows := chart.reading.windows(after, _WINDOWS)):
        after = windows[-1].position
        late = [
            one for one in windows if not one.closed and one.time + patience < chart.now
        ]
        chart.opened += len(windows)
        chart.overdue += len(late)
