"""The Store protocol: what any place for events must promise, and the light lines it is
read by."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, get_args

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Decision
from oddsmith.core.errors import BadFile, OddsmithError, StoreFailed
from oddsmith.server.store.events import (
    ARMS,
    KERNELS,
    ConfigurationChange,
    DecisionKind,
    DecisionMade,
    DecisionSummary,
    Event,
    ExpertChange,
    OwnDraw,
)
from oddsmith.server.store.trouble import HoldUp

__all__ = [
    "BackupFacts",
    "ContextErased",
    "DECISION_KINDS",
    "DamagedSnapshot",
    "DecisionSummary",
    "Draw",
    "Erased",
    "EventKind",
    "Evidence",
    "Foldable",
    "KINDS",
    "Late",
    "Line",
    "RULES",
    "Reading",
    "Receipt",
    "Rule",
    "Snapshot",
    "Store",
    "Window",
    "decision_line",
    "line_of",
]


class Draw(NamedTuple):
    """The arm of a decision, its number, the odds (K,) of all arms and which were
    eligible (None: all).

    `names` are those of arms that came with the call. Where an incumbent acted
    (`shadow`), arm and odds are its, and `own` is what the policy would have done, if
    that was kept. `votes` (N,) is what each expert gave the arm, NaN for one that
    slept; None where votes are not recorded. `control` (K,) are the odds of the
    experiment's control, `holdout` its share in the draw, and `group` the side that
    decided for the `unit`.
    """

    arm: str
    number: int
    odds: Array
    eligible: Bools | None = None
    names: tuple[str, ...] | None = None
    shadow: bool = False
    own: OwnDraw | None = None
    votes: Array | None = None
    control: Array | None = None
    holdout: float = 0.0
    group: str | None = None
    unit: str | None = None

    @classmethod
    def of(
        cls,
        decision: Decision,
        own: OwnDraw | None = None,
        *,
        shadow: bool = False,
        votes: Array | None = None,
    ) -> "Draw":
        """What a decision was drawn from.

        >>> Draw.of(
        ...     Decision(1, None, None, "b", np.array([0.25, 0.75]), index=1)
        ... ).odds_drawn
        0.75
        """
        mask = decision.eligible
        names = decision.arms
        return cls(
            str(decision.arm),
            decision.number,
            decision.propensities,
            mask,
            names,
            shadow,
            own,
            votes,
            decision.control,
            0.0 if decision.holdout is None else float(decision.holdout),
            decision.group,
            decision.unit,
        )

    @property
    def odds_drawn(self) -> float:
        """The odds of the arm that was drawn."""
        return float(self.odds[self.number])

    @property
    def n_eligible(self) -> int:
        """The number of arms that the caller allowed."""
        if self.eligible is None:
            return len(self.odds)
        return int(np.count_nonzero(self.eligible))


class ContextErased(StoreFailed):
    """A policy that learns from contexts was to be folded over one that was erased."""


class Erased:
    """The context of a decision after it was erased: to read it is refused; fixed
    experts never read it."""

    def _refuse(self, *_: object) -> NoReturn:
        learns = "a policy that learns from contexts"
        raise ContextErased(
            f"contexts must be there for {learns}; this one was erased, and no "
            "snapshot is later"
        )

    __array__ = __contains__ = __getitem__ = __iter__ = __len__ = __float__ = (
        __index__
    ) = _refuse

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            # copy and pickle need AttributeError for missing special methods
            raise AttributeError(name)
        self._refuse()

    def __repr__(self) -> str:
        return "Erased()"


ExperimentKind: TypeAlias = Literal["expert added", "expert retired", "configuration"]
"""The kinds of events about the experiment: its experts and settings."""
EventKind: TypeAlias = DecisionKind | ExperimentKind
DECISION_KINDS: tuple[DecisionKind, ...] = get_args(DecisionKind)
KINDS: tuple[EventKind, ...] = (*DECISION_KINDS, *get_args(ExperimentKind))

Rule: TypeAlias = Literal["first", "first_at_close", "sum"]
"""How rewards of one decision make one, and when: the first counts at once; or the
first, or the sum of all, counts when the window closes, where its absence counts."""
RULES: tuple[Rule, ...] = get_args(Rule)

Late: TypeAlias = Literal["arrives", "rewrites"]
"""Where a reward after its default counts: where it stands, changing what was learnt;
or, rewriting history, there."""


class Line(NamedTuple):
    """An event without the decision's body: what the bookkeeping of rewards needs.

    `id` is the decision's, or the name of an expert or a setting; `value` a reward, a
    default, a correction or a prior share; `seen` is the position of the state that a
    decision was made with; `sender` the name of the key that sent it, None for the
    service itself; `body` the JSON of what else an event has that is no decision; `arm`
    what was drawn.
    """

    position: int
    kind: EventKind
    id: str
    key: str
    value: float | None
    time: float
    deferred: bool
    seen: int | None
    sender: str | None = None
    body: str | None = None
    arm: str | None = None

    @property
    def of_decision(self) -> bool:
        """Whether it is about a decision, and not about the experts or the settings."""
        return self.kind in DECISION_KINDS

    @property
    def of_metric(self) -> bool:
        """Whether it is an amount of a metric, in the metric's unit."""
        return self.kind in ("metric", "metric_correction")

    @property
    def of_policy(self) -> bool:
        """Whether the policy changed: an expert came or went, or arms were added."""
        return self.kind in ("expert added", "expert retired") or (
            self.kind,
            self.id,
        ) == ("configuration", ARMS)

    @property
    def of_kernels(self) -> bool:
        """Whether the arithmetic changed, so that the state is folded again from the
        first event."""
        return (self.kind, self.id) == ("configuration", KERNELS)


def decision_line(lines: Iterable[Line]) -> Line | None:
    """The first decision among these lines; None where there is none."""
    for line in lines:
        if line.kind == "decision":
            return line
    return None


class Receipt(NamedTuple):
    """The answer of a store to an event. It adds the position in the log, or the
    refusal; `new` is False for an event that was there before.

    A `parked` reward or activation counts once its decision is in the log.
    """

    position: int
    new: bool
    refused: OddsmithError | None = None
    parked: bool = False

    def accepted(self) -> int:
        """The position; a refused event raises."""
        if self.refused is not None:
            raise self.refused
        return self.position


class Snapshot(NamedTuple):
    """A state saved at a position, with policy, format and time."""

    position: int
    fingerprint: str
    format: str
    time: float


class BackupFacts(NamedTuple):
    """The time, epoch and last position of a backup; `restored` is the time of its
    restore."""

    time: float
    epoch: str
    head: int
    restored: float | None = None


class Evidence(NamedTuple):
    """What a decision's odds were made from: ballots (N, K) if they were kept; `shadow`
    where an incumbent acted.

    `own` is what the policy would have done in its place.
    """

    votes: Array | None
    shadow: bool
    own: OwnDraw | None = None


class Window(NamedTuple):
    """A reward window: opened by a decision, or by the activation of a deferred one, at
    this position and time.

    `closed` if a default was written, or with the rule "first" a reward.
    """

    position: int
    id: str
    time: float
    closed: bool


class Foldable(Protocol):
    """What a fold reads of a store."""

    rule: Rule
    """How rewards of one decision make one."""
    late: Late
    """Where a reward after its default counts."""
    zero: float
    """Nothing, in the units of rewards, on the scale from 0 to 1: what a sum of no
    parts is."""

    reward_weights: Mapping[str, float]
    """What the reward is made from: weights of metrics, on the scale from 0 to 1."""
    metrics: Mapping[str, Mapping[str, Any]]
    """The declarations of metrics, as JSON by name."""

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """The lines with after < position <= until, in order."""

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """All lines about these decisions up to `until`, in order."""

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """The decisions made at these positions, in the order asked for; an erased
        context is `Erased`."""

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        """What the arms of the decisions at these positions were drawn from, in this
        order; None for a damaged one."""

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        """What `decisions` and `drawn` tell of these positions, from one reading."""


class Reading(Foldable, Protocol):
    """What can be read of a store without the policy it belongs to."""

    about: dict[str, Any]
    """The facts about the experiment that were given when the store was made: JSON."""
    experts: tuple[str, ...] | None
    """The experts whose predictions the first decisions hold as advice; None where they
    hold none, or votes."""
    fingerprint: str
    """That of the policy it was made with."""
    description: Any
    """What the fingerprint was made from, as JSON."""
    gapless: bool
    """Whether positions are 1, 2, 3 and so on, so that a missing one was taken away."""
    secret: bytes
    """What keys the digests that states hold of names and categories: 16 bytes."""
    epochs: list[tuple[str, int]]
    """The names that the store has had, and the positions after which: a new one each
    time it was restored."""
    backup: BackupFacts | None
    """Of a backup, and of what was restored from one; else None."""

    def head(self) -> int:
        """The last position that readers may see; 0 if there is none."""

    def hold_up(self) -> HoldUp | None:
        """The oldest transaction that keeps events from readers; None where no
        transaction can."""

    def writers(self) -> list[str]:
        """The programs that have the store open for writing, each in words."""

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        """What the odds of the decisions at these positions were made from, in the
        order asked for."""

    def lines_back(self, before: int, limit: int) -> list[Line]:
        """The last lines before a position, the newest first, at most `limit`."""

    def summaries(self, positions: Sequence[int]) -> list[DecisionSummary]:
        """What a list says of the decisions at these positions, in the order asked for;
        no context is read."""

    def newest(self) -> Line | None:
        """The last event with a time of the service's clock; None if there
        is none.

        Settings are written by other clocks, too: they do not count, but for `CLOCK`.
        """

    def tally(self) -> dict[EventKind, int]:
        """How many events there are of each kind, up to the head; what was counted
        before is not counted again."""

    def changes(self) -> list[Line]:
        """What changed the policy, in order: experts that came and went, arms that were
        added."""

    def of_setting(self, setting: str) -> list[Line]:
        """The changes of a setting, in order; the body of each has its value."""

    def of_unit(self, unit: str) -> list[Line]:
        """The decisions of a unit that keeps its own, the first one first."""

    def of_slate(self, slate: str) -> list[Line]:
        """The decisions that were made together for the slots of a slate, in the order
        of the slots."""

    def has_slates(self) -> bool:
        """Whether some decisions are slots of a slate."""

    def windows(self, after: int, limit: int) -> list[Window]:
        """The reward windows that opened after a position, in order, at most
        `limit`."""

    def snapshots(self) -> list[Snapshot]:
        """The snapshots, oldest first."""

    def content(self, position: int) -> bytes:
        """What was kept as the snapshot at this position; `DamagedSnapshot` where it is
        no longer what it was."""

    def close(self) -> None:
        """Let go of everything; a store writes what is queued first."""


class Store(Reading, Protocol):
    """The events of one experiment in one total order of positions: above 0, in the
    order of reading, maybe with gaps.

    An implementation promises:

    1. What `append` answered is on disk, and survives a power cut. Events that could
       not be written are not answered, the future raises `StoreFailed`; sending them
       again is safe.
    2. An event is kept once: (id, kind, key) is unique. A repeat gives the position of
       the first and changes nothing; a repeat with another value is refused with
       `Conflict`. Decisions are known by id alone, and where units keep theirs by unit
       and turn: the first one counts. Slots of a slate that are appended together are
       kept together: where the first one was there before, so are all, or they are
       refused with `Conflict`. A correction of a decision that has no reward and no
       default is refused with `InvalidInput`. A refused event does not harm the others
       of its batch. A reward or an activation without its decision is kept, and
       `parked`.
    3. Positions only grow in the order in which readers may see them: once a reader has
       seen `head()`, nothing new appears at or below it. (A sequence number that is
       handed out before commit does not promise that.)
    4. Lines and decisions never change. Only contexts can go, by `erase`, and what was
       known of arms with them.
    5. It belongs to the policy it was made with, and to one rule for rewards and late
       ones: others are refused.
    6. If a store cannot write, `write_trouble` contains the reason. It tries to recover
       by itself.
    """

    @property
    def write_trouble(self) -> str:
        """Why the last write did not go well, or the next one cannot; empty if all is
        well. Never waits."""

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        """Receipts in the order of `events`, once all of them are committed, in that
        order; from any thread."""

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Save a snapshot, and delete older ones (`retained_positions`)."""

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time, and features that no
        other needs; returns how many."""


class DamagedSnapshot(BadFile):
    """The content of a snapshot is not what was kept."""


def line_of(event: Event, position: int = 0) -> Line:
    """The light line of an event.

    >>> from oddsmith.server.store.events import Reward
    >>> line_of(Reward("a", 1.0, time=9.0))[:5]
    (0, 'reward', 'a', '', 1.0)
    """
    sender = event.sender or None
    if isinstance(event, ExpertChange):
        kind: EventKind = (
            "expert added" if event.change == "added" else "expert retired"
        )
        return Line(
            position,
            kind,
            event.expert,
            event.key,
            event.share,
            event.time,
            False,
            None,
            sender,
        )
    if isinstance(event, ConfigurationChange):
        body = event.body()
        return Line(
            position,
            "configuration",
            event.setting,
            event.key,
            None,
            event.time,
            False,
            None,
            sender,
            body,
        )
    key = getattr(event, "key", "")
    value = getattr(event, "value", None)
    deferred = getattr(event, "deferred", False)
    seen = getattr(event, "seen", None)
    given = None if value is None else float(value)
    arm = str(event.decision.arm) if isinstance(event, DecisionMade) else None
    facts = deferred, seen, sender, None, arm
    return Line(position, event.kind, event.id, key, given, float(event.time), *facts)
