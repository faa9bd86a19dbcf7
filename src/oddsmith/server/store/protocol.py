"""The protocol `Store`, with the guarantees of every event store, and the classes of
what is read from a store."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, NoReturn, Protocol, TypeAlias, get_args

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import PAUSED, Decision
from oddsmith.core.errors import BadFile, OddsmithError, StoreFailed
from oddsmith.server.store.events import (
    ACTION,
    ARMS,
    KERNELS,
    Action,
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
    """The draw of a decision: the drawn arm and its index, the propensities (K,) of all
    arms, and the mask of eligible arms (None if all were eligible).

    `names` are the names of arms that came with the call. If an incumbent acted
    (`shadow`), the arm and the propensities are the incumbent's, and `own` is the draw
    that the policy would have made, if it was recorded. `votes` (N,) contains each
    expert's vote for the arm, NaN for experts without a prediction; None if votes are
    not recorded. `control` (K,) contains the propensities of the experiment's control,
    and `holdout` is the control's share of the draw. `group` is the group of the
    `unit`: policy or control.
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
        """Return the draw of a decision.

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
    def is_paused(self) -> bool:
        """Whether the experiment was paused, so that the control made the draw."""
        return self.group == PAUSED

    @property
    def odds_drawn(self) -> float:
        """Propensity of the drawn arm."""
        return float(self.odds[self.number])

    @property
    def n_eligible(self) -> int:
        """Number of arms that the caller allowed."""
        if self.eligible is None:
            return len(self.odds)
        return int(np.count_nonzero(self.eligible))


class ContextErased(StoreFailed):
    """The policy must learn from a decision's context, but the context was erased."""


class Erased:
    """Stands for an erased context. Every use of it raises `ContextErased`. Experts
    that do not learn never use old contexts."""

    def _refuse(self, *_: object) -> NoReturn:
        learns = "a policy that learns from contexts"
        raise ContextErased(
            f"contexts must be available for {learns}; this one was erased, and there "
            "is no later snapshot"
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


ExperimentKind: TypeAlias = Literal[
    "expert added", "expert retired", "configuration", "action"
]
"""The kinds of events about the experiment: its experts, settings and operators."""
EventKind: TypeAlias = DecisionKind | ExperimentKind
DECISION_KINDS: tuple[DecisionKind, ...] = get_args(DecisionKind)
KINDS: tuple[EventKind, ...] = (*DECISION_KINDS, *get_args(ExperimentKind))

Rule: TypeAlias = Literal["first", "first_at_close", "sum"]
"""How the rewards of one decision are combined. "first": the first reward counts as
soon as it arrives. "first_at_close": the first reward counts when the window closes.
"sum": the sum of all rewards counts when the window closes. If there is no reward when
a window closes, the default counts."""
RULES: tuple[Rule, ...] = get_args(Rule)

Late: TypeAlias = Literal["arrives", "rewrites"]
"""Position at which a reward counts that comes after the default: the reward's own
position ("arrives") or the position of the default ("rewrites"). The latter changes all
later states."""


class Line(NamedTuple):
    """An event with the fields that the accounting of rewards needs, but without the
    content of a decision.

    `id` is the id of a decision, or the name of an expert or a setting. `value` is a
    reward, a default, a correction or a prior share. `seen` is the position of the
    state that a decision was made with. `sender` is the name of the API key that sent
    the event, or None for the service itself. `body` contains the other fields of
    events that are not decisions, as JSON. `arm` is the arm that a decision drew.
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
        """Whether the event is about a decision, not about experts or settings."""
        return self.kind in DECISION_KINDS

    @property
    def of_metric(self) -> bool:
        """Whether the event is about the amount of a metric, so that `value` is in the
        metric's unit."""
        return self.kind in ("metric", "metric_correction")

    @property
    def of_policy(self) -> bool:
        """Whether the policy changed: an expert was added or retired, or arms were
        added."""
        return self.kind in ("expert added", "expert retired") or (
            self.kind,
            self.id,
        ) == ("configuration", ARMS)

    @property
    def of_kernels(self) -> bool:
        """Whether the kernels changed, so that the state must be computed again from
        the first event."""
        return (self.kind, self.id) == ("configuration", KERNELS)


def decision_line(lines: Iterable[Line]) -> Line | None:
    """Return the first line that is a decision; None if there is none."""
    for line in lines:
        if line.kind == "decision":
            return line
    return None


class Receipt(NamedTuple):
    """The answer of a store to an event: the event's position in the log, or the reason
    for its refusal. `new` is False if the event was stored before.

    A `parked` reward or activation counts once its decision is in the log.
    """

    position: int
    new: bool
    refused: OddsmithError | None = None
    parked: bool = False

    def accepted(self) -> int:
        """Return the position of the event; raise if the event was refused."""
        if self.refused is not None:
            raise self.refused
        return self.position


class Snapshot(NamedTuple):
    """Description of a saved state: its position, format and time, and the policy."""

    position: int
    fingerprint: str
    format: str
    time: float


class BackupFacts(NamedTuple):
    """The time, epoch and last position of a backup; `restored` is the time when it was
    restored, or None."""

    time: float
    epoch: str
    head: int
    restored: float | None = None


class Evidence(NamedTuple):
    """The inputs that a decision's propensities were computed from: `votes` are the
    ballots (N, K), if they were recorded, and `shadow` is true if an incumbent acted.

    `own` is the draw that the policy would have made in place of the incumbent.
    `action` is the position of the last operator action that applied. `barred` contains
    the reasons why arms were not eligible, by arm number. `killed` is true if an
    environment variable had stopped the experiment.
    """

    votes: Array | None
    shadow: bool
    own: OwnDraw | None = None
    action: int = 0
    barred: Mapping[int, str] = MappingProxyType({})
    killed: bool = False


class Window(NamedTuple):
    """A reward window, opened at this position and time by a decision or by the
    activation of a deferred one.

    It is `closed` if a default was written or if, with the rule "first", a reward was
    written.
    """

    position: int
    id: str
    time: float
    closed: bool


class Foldable(Protocol):
    """The methods of a store that are used to compute a state from its events."""

    rule: Rule
    """How the rewards of one decision are combined."""
    late: Late
    """Position at which a reward counts that comes after the default."""
    zero: float
    """The position of the user's 0 on the scale from 0 to 1. This is the value of a sum
    without parts."""

    reward_weights: Mapping[str, float]
    """Weight of each metric that the reward is computed from, for rewards on the scale
    from 0 to 1."""
    metrics: Mapping[str, Mapping[str, Any]]
    """The declaration of each metric as JSON, by name."""

    def lines(self, after: int, until: int) -> Iterator[Line]:
        """Yield the lines with after < position <= until, in order."""

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        """Return all lines about these decisions up to `until`, in order."""

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        """Return the decisions at these positions, in this order. An erased context is
        replaced by `Erased`."""

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        """Return the draws of the decisions at these positions, in this order; None for
        a damaged one."""

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        """Return the results of `decisions` and `draws` for these positions, from a
        single read."""


class Reading(Foldable, Protocol):
    """The methods of a store that need no policy."""

    about: dict[str, Any]
    """Facts about the experiment at the time when the store was created, as JSON."""
    experts: tuple[str, ...] | None
    """Names of the experts whose predictions are recorded in the first decisions. None
    if decisions contain no predictions."""
    fingerprint: str
    """Fingerprint of the policy that the store was created with."""
    description: Any
    """Description of the policy as JSON, from which the fingerprint was computed."""
    gapless: bool
    """Whether positions are 1, 2, 3 and so on, so that a missing one means that an
    event was deleted."""
    secret: bytes
    """Key of the digests of names and categories in states: 16 bytes."""
    epochs: list[tuple[str, int]]
    """Names of the store, each with the position after which the name applies. Every
    restore adds a new name."""
    backup: BackupFacts | None
    """Facts of a backup, or of the backup that the store was restored from; None for
    other stores."""

    def head(self) -> int:
        """Return the last position that readers may see; 0 if the store is empty."""

    def hold_up(self) -> HoldUp | None:
        """Return the oldest transaction that hides events from readers; None for kinds
        of stores that have no such transactions."""

    def writers(self) -> list[str]:
        """Describe the programs that have the store open for writing."""

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        """Return the inputs that the propensities were computed from, for the decisions
        at these positions, in this order."""

    def lines_back(self, before: int, limit: int) -> list[Line]:
        """Return at most `limit` lines before a position, newest first."""

    def summaries(self, positions: Sequence[int]) -> list[DecisionSummary]:
        """Return summaries of the decisions at these positions, in this order, without
        reading contexts."""

    def newest(self) -> Line | None:
        """Return the last event whose time was read from the service's clock; None if
        there is no such event.

        Changes of settings do not count, except for `CLOCK`, because their times may
        come from other clocks.
        """

    def tally(self) -> dict[EventKind, int]:
        """Return the number of events by kind up to the head. Counts are cached."""

    def changes(self) -> list[Line]:
        """Return the changes of the policy, in order: experts added or retired, and
        arms added."""

    def of_setting(self, setting: str) -> list[Line]:
        """Return the changes of a setting, in order. The body of each line contains the
        new value."""

    def actions(self) -> list[Line]:
        """Return the actions of operators and guardrails, in order. This includes
        actions that other readers cannot see yet because of open transactions."""

    def of_unit(self, unit: str) -> list[Line]:
        """Return the decisions of a unit in a sticky experiment, oldest first."""

    def of_slate(self, slate: str) -> list[Line]:
        """Return the decisions of a slate, in the order of its slots."""

    def has_slates(self) -> bool:
        """Return whether some decisions are slots of a slate."""

    def windows(self, after: int, limit: int) -> list[Window]:
        """Return at most `limit` reward windows that opened after a position, in
        order."""

    def snapshots(self) -> list[Snapshot]:
        """Return the snapshots, oldest first."""

    def content(self, position: int) -> bytes:
        """Return the content of the snapshot at this position; raise `DamagedSnapshot`
        if it has changed."""

    def close(self) -> None:
        """Release all resources. A store that can be written to writes its queue
        first."""


class Store(Reading, Protocol):
    """The events of one experiment in one total order. Positions are above 0, increase
    in the order of reading, and may have gaps.

    An implementation guarantees:

    1. Events that `append` has answered are on disk and survive a power failure. If
       events could not be written, the future raises `StoreFailed`; sending them again
       is safe.
    2. An event is stored once: (id, kind, key) is unique. A repeat returns the position
       of the first one and changes nothing; a repeat with another value is refused with
       `Conflict`. Decisions are identified by id alone, or by unit and turn if units
       keep their decisions: the first one counts. Slots of a slate that are appended
       together are stored together: if the first one was stored before, all were, or
       they are refused with `Conflict`. A correction of a decision without a reward or
       default is refused with `InvalidInput`. A refused event does not affect the rest
       of its batch. A reward or activation without its decision is stored, and
       `parked`.
    3. Positions only grow in the order in which readers may see them: once a reader has
       seen `head()`, nothing new appears at or below it. (Sequence numbers assigned
       before the commit do not guarantee this.)
    4. Lines and decisions never change. Only `erase` removes data: contexts, and
       features of arms with them.
    5. The store belongs to the policy that it was made with, and to one rule for
       rewards and late rewards: others are refused.
    6. If a store cannot write, `write_trouble` contains the reason. It tries to recover
       by itself.
    """

    @property
    def write_trouble(self) -> str:
        """The reason why the last write failed, or why the next write cannot succeed;
        empty if there is no fault. Reading this property never blocks."""

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        """Append events; return a future with their receipts, in the same order, after
        the commit. Can be called from any thread."""

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Save a snapshot, and delete older ones (`retained_positions`)."""

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time, and features that no
        other decision needs; return the number of contexts."""


class DamagedSnapshot(BadFile):
    """The content of a snapshot differs from the content that was saved."""


def line_of(event: Event, position: int = 0) -> Line:
    """Return the line of an event.

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
    if isinstance(event, Action):
        return Line(
            position,
            "action",
            ACTION,
            event.key,
            None,
            event.time,
            False,
            None,
            sender,
            event.body(),
        )
    key = getattr(event, "key", "")
    value = getattr(event, "value", None)
    deferred = getattr(event, "deferred", False)
    seen = getattr(event, "seen", None)
    given = None if value is None else float(value)
    arm = str(event.decision.arm) if isinstance(event, DecisionMade) else None
    facts = deferred, seen, sender, None, arm
    return Line(position, event.kind, event.id, key, given, float(event.time), *facts)
