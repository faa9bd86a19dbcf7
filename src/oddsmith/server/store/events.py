"""Classes of events. Their constructors validate the fields.

`sender` is the name of the API key that sent an event; it is empty for events of the
service itself. Times are shown to people and used to erase old contexts. No state
depends on times.
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
"""Kind of every `Action`, which is also its id in the log."""
ARMS = "arms"
"""Name of the setting that lists all arms. New arms are at the end."""
CLOCK = "clock"
"""Name of the setting that records a clock far from the time of the newest event, or a
clock that the operator confirmed."""
KERNELS = "kernels"
"""Name of the setting that records the kernels in use. After a change, the state is
computed again from the first event."""
METRICS = "metrics"
"""Name of the setting that declares the metrics. The last declaration applies to the
whole log."""
DESIGN = "design"
"""Name of the setting that contains the control, the holdout and the rules of the
policy file."""
SETTINGS = "personalizer"
"""Name of the setting that overrides the service settings of the policy file. The last
value applies."""
_FIRST = -62_135_596_800.0
_END = 253_402_300_800.0  # seconds since 1970; the range covers the years 1 to 9999
LONGEST_ID = 256
"""Maximum number of characters in an id, a key, or the name of a unit, an expert or an
arm."""
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
    """Fields that a list of decisions shows in addition to the decision's line: the
    propensity of the drawn arm, the unit, and whether an incumbent acted.

    `slate` and `slot` are set if the decision is one slot of a slate.
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
    """Event of a decision: the `Decision` with its id, time, sender, and the position
    of the state that it was made with (`seen`).

    `votes` (N, K) are the ballots behind its propensities. A `deferred` decision counts
    only after its activation. If `shadow`, an incumbent acted: the arm and the
    propensities are the incumbent's, and `own` is the draw of the policy. In a sticky
    experiment a `unit` keeps its arm, and `turn` numbers its decisions, starting at 1.
    A decision of a `slate` fills one `slot` of it.

    `action` is the position of the last operator action that applied. `barred` contains
    the reason why an arm was not eligible, by arm number. `killed` is true if an
    environment variable, not an action, had stopped the experiment.
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
    """Event: a deferred decision was shown to the user, so it counts from now on."""

    kind: ClassVar[DecisionKind] = "activation"
    id: str
    time: float
    sender: str = ""

    def __post_init__(self) -> None:
        _check_name("id", self.id, self.time)


@dataclass(frozen=True, slots=True)
class Reward:
    """Event: the reward of a decision, in [0, 1]. With the rule "sum" it is one part of
    the reward, identified by its key."""

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
    """Event: the reward window of a decision has closed. The default `value` counts
    unless a reward is in the log, or arrives later."""

    kind: ClassVar[DecisionKind] = "default"
    id: str
    value: float
    time: float
    sender: str = ""

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)


@dataclass(frozen=True, slots=True)
class Correction:
    """Event: the reward of a decision is replaced, as if it had had this value from the
    start. The last correction counts.

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
    """Event: the amount of a decision's metric, in the metric's unit. With a `part`, it
    is one of several amounts that are added up.

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
        """The name of the metric, with the part if there is one."""
        return f"{self.name}:{self.part}" if self.part else self.name


@dataclass(frozen=True, slots=True)
class MetricCorrection:
    """Event: the amount of a metric is replaced, as if it had had this value from the
    start. The last correction counts. `correction` identifies the correction, so that
    repeating the call has no effect."""

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
        """The name of the metric, with the name of the correction."""
        return f"{self.name}:{self.correction}"


@dataclass(frozen=True, slots=True)
class ExpertChange:
    """Event: an expert is added with a prior share of the weight, or is retired. `key`
    identifies the change."""

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
    """Event: a setting of the experiment has a new value from here on. `key` identifies
    the change."""

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
    """Event: an operator or a guardrail took an action, which applies from here on.

    `value` contains the fields of the action, such as the arm. `request_id` identifies
    a repeated call. `after` is the position of the previous action, or 0 for the first
    one. If two actions have the same `after`, the store accepts only the first. So each
    action was checked with knowledge of all actions before it.
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
        """The position of the previous action. A store accepts only one action with the
        same key."""
        return f"after {self.after}"

    def body(self) -> str:
        """All fields as JSON, except the sender and the time."""
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
    """Return the name of the metric from the key of a metric's event.

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
