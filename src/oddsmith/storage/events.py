"""What can happen: six kinds of events, checked when they are made.

Times are for people and for erasing old contexts: no state ever depends on them.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from oddsmith.arrays import Array, number
from oddsmith.decision import Decision
from oddsmith.errors import InvalidInput

__all__ = ["Activation", "Correction", "DecisionMade", "DefaultReward", "Event", "ExpertChange", "Reward"]

_LONGEST = 200


@dataclass(frozen=True, slots=True)
class DecisionMade:
    """A decision, the position of the state it was made with, and whether it counts only once it is activated.

    `votes` (N, K) are the ballots its odds were made from. `shadow` says that an incumbent acted: arm and odds are its.
    """

    id: str
    decision: Decision
    seen: int
    time: float
    deferred: bool = False
    votes: Array | None = None
    shadow: bool = False

    def __post_init__(self) -> None:
        _check_name("id", self.id, self.time)
        if not isinstance(self.decision, Decision) or any(a is not None and a.ndim != 1 for a in self.decision[4:8]):
            raise InvalidInput(f"decision must be a single Decision; got {self.decision!r:.60}")
        if not 0 <= self.seen < 2**63:
            raise InvalidInput(f"seen must be a position, 0 or above; got {self.seen}")
        if self.votes is not None and self.votes.shape[1:] != self.decision.propensities.shape:
            arms = len(self.decision.propensities)
            raise InvalidInput(f"votes must be ballots over the {arms} arms, (N, {arms}); got shape {self.votes.shape}")


@dataclass(frozen=True, slots=True)
class Activation:
    """A deferred decision was shown: from now on it counts."""

    id: str
    time: float

    def __post_init__(self) -> None:
        _check_name("id", self.id, self.time)


@dataclass(frozen=True, slots=True)
class Reward:
    """The reward of a decision in [0, 1], or with the rule "sum" one part of it, known by its key."""

    id: str
    value: float
    time: float
    key: str = ""

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)
        _check_name("key", self.key, empty=True)


@dataclass(frozen=True, slots=True)
class DefaultReward:
    """The reward window of a decision has closed: `value` counts unless a reward has come, or comes later."""

    id: str
    value: float
    time: float

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)


@dataclass(frozen=True, slots=True)
class Correction:
    """Another value in place of a decision's reward, as if it had been that from the start; the last one counts.

    `key` names the correction, so that repeating the call has no effect.
    """

    id: str
    value: float
    time: float
    key: str

    def __post_init__(self) -> None:
        _check_reward(self.id, self.value, self.time)
        _check_name("key", self.key)


@dataclass(frozen=True, slots=True)
class ExpertChange:
    """An expert joins with a prior share of the weight, or is retired; `key` names the change."""

    expert: str
    change: Literal["added", "retired"]
    time: float
    key: str
    share: float | None = None

    def __post_init__(self) -> None:
        _check_name("expert", self.expert, self.time)
        _check_name("key", self.key)
        if self.change not in ("added", "retired"):
            raise InvalidInput(f"change must be 'added' or 'retired'; got {self.change!r}")
        if (self.share is not None) != (self.change == "added"):
            raise InvalidInput(f"share must be given for an added expert, and only then; got {self.share!r}")
        if self.share is not None:
            number("share", self.share, low=0, high=1, open_low=True, open_high=True)


Event: TypeAlias = DecisionMade | Activation | Reward | DefaultReward | Correction | ExpertChange
"""Anything a store keeps."""


def _check_reward(decision: str, value: float, time: float) -> None:
    _check_name("id", decision, time)
    number("reward", value, low=0, high=1)


def _check_name(what: str, name: str, time: float = 0.0, *, empty: bool = False) -> None:
    """Refuses a name that cannot be kept, and the time of an event that is none."""
    if not isinstance(name, str) or len(name) > _LONGEST or (not name and not empty) or not name.isprintable():
        raise InvalidInput(f"{what} must be a string of 1 to {_LONGEST} printable characters; got {name!r:.60}")
    if type(time) is not float or not -1e12 <= time <= 1e12:
        number("time", time, low=-1e12, high=1e12)
