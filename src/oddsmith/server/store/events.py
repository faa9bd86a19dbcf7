"""The kinds of events, validated when they are constructed.

`sender` is the name of the key that sent an event; empty for the service itself. Times
are for people and for erasing old contexts: no state ever depends on them.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple, TypeAlias, get_args

from oddsmith.contexts.metrics import METRIC_NAME
from oddsmith.core.arrays import Array, number
from oddsmith.core.decision import Decision
from oddsmith.core.errors import InvalidInput
from oddsmith.core.exact_json import Json

__all__ = [
    "ACTION",
    "ARMS",
    "Action",
    "ActionName",
    "Activation",
    "CLOCK",
    "ConfigurationChange",
    "Correction",
    "DESIGN",
    "DecisionKind",
    "DecisionMade",
    "DecisionSummary",
    "DefaultReward",
    "Event",
    "ExpertChange",
    "KERNELS",
    "LONGEST_ID",
    "METRICS",
    "MetricAmount",
    "MetricCorrection",
    "OwnDraw",
    "Reward",
    "SETTINGS",
    "is_id",
    "metric_of",
]

ACTION = "action"
"""The kind of an `Action`, and its id in the log."""
ARMS = "arms"
"""The setting of a `ConfigurationChange` that lists all arms from then on; new arms are
at the end."""
CLOCK = "clock"
"""The setting of a `ConfigurationChange` about a clock that was far from the newest
event, or that the operator confirmed."""
KERNELS = "kernels"
"""The setting of a `ConfigurationChange` that names the kernels from then on; the state
is folded again."""
METRICS = "metrics"
"""The setting of a `ConfigurationChange` that declares the metrics; the last one
applies to the whole log."""
DESIGN = "design"
"""The setting of a `ConfigurationChange` that names the control, the holdout and the
rules of the policy file from then on."""
SETTINGS = "personalizer"
"""The setting of a `ConfigurationChange` that overrides the policy file from then on;
the last one counts."""
_FIRST = -62_135_596_800.0
_END = 253_402_300_800.0  # seconds since 1970; the range covers the years 1 to 9999
LONGEST_ID = 256
"""Maximum characters of an id, a key, or the name of a unit, an expert or an arm."""
_LONGEST_PART = 160
_LARGEST_AMOUNT = 1e100
_LONGEST_REASON = 500
ActionName: TypeAlias = Literal[
    "pause_arm",
    "resume_arm",
    "pause",
    "resume",
    "kill",
    "restore",
    "freeze",
    "learn",
    "holdout",
    "set",
    "finish",
]
"""The actions of an operator."""
DecisionKind: TypeAlias = Literal[
    "decision",
    "activation",
    "reward",
    "default",
    "correction",
    "metric",
    "metric_correction",
]
"""The kinds of events about one decision, which a store's `history` returns."""
_ID = re.compile(rf"[^\x00\ud800-\udfff]{{1,{LONGEST_ID}}}")
_NOT_STORED = re.compile(r"[\x00\ud800-\udfff]")


class DecisionSummary(NamedTuple):
    """Fields of a decision for a list, in addition to its line: the propensity of its
    arm, its unit, and whether an incumbent acted.

    `slate` and `slot` are set if it was made together with others.
    """

    unit: str | None
    shadow: bool
    propensity: float
    slate: str | None = None
    slot: int | None = None


class OwnDraw(NamedTuple):
    """The draw that the policy would have made when an incumbent acted: the index of
    the arm, and the propensities (K,)."""

    would: int
    odds: Array


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A decision as an event. It adds to the `Decision` the id, the time, the sender,
    and the position of the state that decided (`seen`).

    `votes` (N, K) are the ballots behind its propensities. A `deferred` decision counts
    only after its activation. If `shadow`, an incumbent acted: arm and propensities are
    the incumbent's, and `own` is the draw of the policy. If a `unit` keeps its
    decision, its decisions are numbered by `turn`, starting at 1. Decisions of one
    `slate` were made together, each for a `slot`.

    `action` is the position of the last action that applied. `barred` contains the
    reason why an arm of the call was not eligible, by its number. `killed` is whether
    the environment of the process, not an action, had stopped the experiment.
    """

    kind: ClassVar[DecisionKind] = "decision"
    id: str
    decision: Decision
    seen: int
    time: float
    deferred: bool = False
    votes: Array | None = None
    shadow: bool = False
    sender: str = ""
    unit: str | None = None
    turn: int | None = None
    slate: str | None = None
    slot: int | None = None
    own: OwnDraw | None = None
    action: int = 0
    barred: Mapping[int, str] | None = None
    killed: bool = False

    def __post_init__(self) -> None:
        if not (
            isinstance(self.id, str)
            and _ID.fullmatch(self.id)
            and _FIRST <= self.time < _END
        ):
            _check_name("id", self.id, self.time)  # raises with the detailed reason
        if self.unit is not None:
            _check_name("unit", self.unit)
        if self.slate is not None:
            _check_name("slate", self.slate)
        if self.unit is None and self.turn is not None:
            raise InvalidInput(
                f"unit must be given with its turn {self.turn}; got none"
            )
        if (self.slate is None) != (self.slot is None):
            raise InvalidInput(
                f"slate and its place must be given together; got {self.slate!r:.60} "
                f"and {self.slot!r}"
            )
        if not isinstance(self.decision, Decision) or any(
            a is not None and a.ndim != 1 for a in self.decision[4:8]
        ):
            raise InvalidInput(
                f"decision must be a single Decision; got {self.decision!r:.60}"
            )
        if not 0 <= self.seen < 2**63:
            raise InvalidInput(f"seen must be a position, 0 or above; got {self.seen}")
        if (
            self.votes is not None
            and self.votes.shape[1:] != self.decision.propensities.shape
        ):
            arms = len(self.decision.propensities)
            raise InvalidInput(
                f"votes must be ballots over the {arms} arms, (N, {arms}); got shape "
                f"{self.votes.shape}"
            )


@dataclass(frozen=True, slots=True)
class Activation:
    """A deferred decision was shown; it counts from now on."""

    kind: ClassVar[DecisionKind] = "activation"
    id: str
    time: float
    sender: str = ""

    def __post_init__(self) -> None:
        _check_name("id", self.id, self.time)


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a decision in [0, 1]; with the rule "sum", one part of it,
    identified by its key."""

    kind: ClassVar[DecisionKind] = "reward"
    id: str
    value: float
    time: float
    key: str = ""
    sender: str = ""

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)
        _check_name("key", self.key, empty=True)


@dataclass(frozen=True, slots=True)
class DefaultReward:
    """The reward window of a decision has closed. `value` counts unless there is a
    reward, now or later."""

    kind: ClassVar[DecisionKind] = "default"
    id: str
    value: float
    time: float
    sender: str = ""

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)


@dataclass(frozen=True, slots=True)
class Correction:
    """Replaces the reward of a decision, as if it had been this value from the start;
    the last correction counts.

    `key` identifies the correction, so that repeating the call has no effect.
    """

    kind: ClassVar[DecisionKind] = "correction"
    id: str
    value: float
    time: float
    key: str
    sender: str = ""

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)
        _check_name("key", self.key)


@dataclass(frozen=True, slots=True)
class MetricAmount:
    """The amount of a metric of a decision, in the metric's unit; with a `part`, one of
    several amounts that are added up.

    Amounts are separate events: they may come before, with, or after the reward.
    """

    kind: ClassVar[DecisionKind] = "metric"
    id: str
    name: str
    value: float
    time: float
    part: str = ""
    sender: str = ""

    def __post_init__(self) -> None:
        _check_metric(self.id, self.name, self.value, self.time)
        _check_part("part", self.part, empty=True)

    @property
    def key(self) -> str:
        """The metric, and the part if there is one."""
        return f"{self.name}:{self.part}" if self.part else self.name


@dataclass(frozen=True, slots=True)
class MetricCorrection:
    """Replaces the amount of a metric, as if it had been this value from the start; the
    last correction counts. `correction` identifies it, so that repeating it has no
    effect."""

    kind: ClassVar[DecisionKind] = "metric_correction"
    id: str
    name: str
    value: float
    time: float
    correction: str
    sender: str = ""

    def __post_init__(self) -> None:
        _check_metric(self.id, self.name, self.value, self.time)
        _check_part("correction", self.correction)

    @property
    def key(self) -> str:
        """The metric, and the name of the correction."""
        return f"{self.name}:{self.correction}"


@dataclass(frozen=True, slots=True)
class ExpertChange:
    """An expert joins with a prior share of the weight, or is retired; `key` names the
    change."""

    expert: str
    change: Literal["added", "retired"]
    time: float
    key: str
    share: float | None = None
    sender: str = ""

    def __post_init__(self) -> None:
        _check_name("expert", self.expert, self.time)
        _check_name("key", self.key)
        if self.change not in ("added", "retired"):
            raise InvalidInput(
                f"change must be 'added' or 'retired'; got {self.change!r}"
            )
        if (self.share is not None) != (self.change == "added"):
            raise InvalidInput(
                "share must be given for an added expert, and only then; got "
                f"{self.share!r}"
            )
        if self.share is not None:
            number("share", self.share, low=0, high=1, open_low=True, open_high=True)


@dataclass(frozen=True, slots=True)
class ConfigurationChange:
    """A setting of the experiment has a new value from here on; `key` identifies the
    change."""

    setting: str
    value: Json
    time: float
    key: str
    sender: str = ""

    def __post_init__(self) -> None:
        _check_name("setting", self.setting, self.time)
        _check_name("key", self.key)

    def body(self) -> str:
        """The value as JSON."""
        try:
            return json.dumps({"value": self.value}, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise InvalidInput(
                f"value of {self.setting!r} must be JSON; {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class Action:
    """An action of an operator or a guardrail, which applies from here on.

    `value` are the fields of the action, such as the arm. `request_id` identifies a
    repeated call. `after` is the position of the action before, 0 for the first one. If
    two actions have the same `after`, the store accepts only the first, so that each
    action was checked against the restrictions that it changed.
    """

    action: ActionName
    value: Json
    reason: str
    request_id: str
    after: int
    time: float
    sender: str = ""

    def __post_init__(self) -> None:
        if self.action not in get_args(ActionName):
            raise InvalidInput(
                f"action must be one of {', '.join(get_args(ActionName))}; got "
                f"{self.action!r:.60}"
            )
        _check_name("request_id", self.request_id, self.time)
        reason = self.reason
        is_text = isinstance(reason, str) and not _NOT_STORED.search(reason)
        if not is_text or not reason.strip() or len(reason) > _LONGEST_REASON:
            raise InvalidInput(
                f"reason must be a text of 1 to {_LONGEST_REASON} characters, without "
                f"NUL and lone surrogates; got {reason!r:.60}"
            )

    @property
    def key(self) -> str:
        """The position of the action before. A store accepts only one action for each
        position."""
        return f"after {self.after}"

    def body(self) -> str:
        """All fields but the sender and the time, as JSON."""
        fields = {
            "action": self.action,
            "value": self.value,
            "reason": self.reason,
            "request_id": self.request_id,
        }
        return json.dumps(fields, allow_nan=False, sort_keys=True)


Event: TypeAlias = (
    DecisionMade
    | Activation
    | Reward
    | DefaultReward
    | Correction
    | MetricAmount
    | MetricCorrection
    | ExpertChange
    | ConfigurationChange
    | Action
)
"""Any event that a store contains."""


def _check_reward(decision: str, value: float, time: float) -> None:
    _check_name("id", decision, time)
    number("reward", value, low=0, high=1)


def _check_metric(decision: str, name: str, value: float, time: float) -> None:
    _check_name("id", decision, time)
    if not METRIC_NAME.fullmatch(name):
        raise InvalidInput(f"metric must be the name of a metric; got {name!r:.60}")
    number(f"metric {name}", value, low=-_LARGEST_AMOUNT, high=_LARGEST_AMOUNT)


def _check_part(what: str, text: str, *, empty: bool = False) -> None:
    """Raise if a text cannot be a part of a metric's key."""
    _check_name(what, text, empty=empty)
    if len(text) > _LONGEST_PART:
        raise InvalidInput(
            f"{what} must have at most {_LONGEST_PART} characters; got {len(text)}"
        )


def metric_of(key: str) -> str:
    """Return the name of the metric in the key of its events.

    >>> metric_of("revenue:order-7"), metric_of("revenue")
    ('revenue', 'revenue')
    """
    return key.partition(":")[0]


def is_id(text: object) -> bool:
    """Return whether a text can be stored as an id or a name: 1 to 256 characters,
    without NUL and lone surrogates.

    >>> [is_id(text) for text in ("visit/7 é", "", "a" * 257, "\\x00", "\\ud800")]
    [True, False, False, False, False]
    """
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def _check_name(
    what: str, name: str, time: float = 0.0, *, empty: bool = False
) -> None:
    """Raise if a name cannot be stored, or if the time of an event is invalid."""
    if not (isinstance(name, str) and (_ID.fullmatch(name) or (empty and not name))):
        allowed = f"1 to {LONGEST_ID} characters, without NUL and lone surrogates"
        raise InvalidInput(f"{what} must be a string of {allowed}; got {name!r:.60}")
    if type(time) is not float or not _FIRST <= time < _END:
        number("time", time, low=_FIRST, high=_END, open_high=True)
