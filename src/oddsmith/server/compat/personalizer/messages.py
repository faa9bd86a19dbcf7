"""Types of the messages of Personalizer's API. Unknown fields are ignored."""

from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from oddsmith.core.errors import InvalidInput
from oddsmith.server.http.door import DoorAnswer, Visit
from oddsmith.server.store.events import LONGEST_ID, is_id

__all__ = [
    "Action",
    "ApplyContract",
    "EvaluationContract",
    "MOST_ACTIONS",
    "MOST_POLICIES",
    "MultiSlotAnswer",
    "MultiSlotRequest",
    "MultiSlotRewards",
    "PageSlot",
    "PolicyContract",
    "RankAnswer",
    "RankEntry",
    "RankRequest",
    "RewardRequest",
    "ServiceConfiguration",
    "SlotAction",
    "SlotReward",
    "checked_id",
    "event_id",
    "request_id",
    "text_of",
]

MOST_POLICIES = 10
Name: TypeAlias = Annotated[str, Meta(min_length=1, max_length=256)]


class PolicyContract(msgspec.Struct):
    """The name of a policy, and its arguments."""

    name: Name
    arguments: Annotated[str, Meta(max_length=1024)]


class EvaluationContract(msgspec.Struct, rename="camel"):
    """A request for an evaluation: the policies and the time range."""

    name: Name
    start_time: str
    end_time: str
    policies: Annotated[list[PolicyContract], Meta(max_length=MOST_POLICIES)] = []
    enable_offline_experimentation: bool | None = None


class ApplyContract(msgspec.Struct, rename="camel"):
    """A policy of an evaluation that should be served from now on."""

    evaluation_id: str
    policy_name: str


MOST_ACTIONS = 50
# ids may be numbers, because some clients send numbers
Id: TypeAlias = str | int | float
Features: TypeAlias = list[dict[str, Any]]


class Action(msgspec.Struct):
    """An action and its features."""

    id: Id
    features: Features


class RankRequest(msgspec.Struct, rename="camel"):
    """The actions, in the order in which the application would show them without the
    service."""

    actions: Annotated[list[Action], Meta(min_length=1, max_length=MOST_ACTIONS)]
    context_features: Features | None = None
    excluded_actions: list[Id] | None = None
    event_id: Id | None = None
    defer_activation: bool | None = None


class RankEntry(msgspec.Struct):
    """An action and its propensity."""

    id: str
    probability: float


class RankAnswer(DoorAnswer, rename="camel"):
    """The ranking, and the action to show."""

    ranking: list[RankEntry]
    event_id: str
    reward_action_id: str

    @property
    def id(self) -> str:
        """Id of the event."""
        return self.event_id


class PageSlot(msgspec.Struct, rename="camel"):
    """A slot of a page, and the action that the application would show there."""

    id: Id
    baseline_action: Id
    features: Features | None = None
    excluded_actions: list[Id] | None = None


class MultiSlotRequest(msgspec.Struct, rename="camel"):
    """The actions for several slots, with the most important slot first."""

    actions: Annotated[list[Action], Meta(min_length=1, max_length=MOST_ACTIONS)]
    slots: Annotated[list[PageSlot], Meta(min_length=1, max_length=MOST_ACTIONS)]
    context_features: Features | None = None
    event_id: Id | None = None
    defer_activation: bool | None = None


class SlotAction(msgspec.Struct, rename="camel"):
    """A slot and the action to show in it."""

    id: str
    reward_action_id: str


class MultiSlotAnswer(DoorAnswer, rename="camel"):
    """The action to show in each slot."""

    slots: list[SlotAction]
    event_id: str

    @property
    def id(self) -> str:
        """Id of the event."""
        return self.event_id


class SlotReward(msgspec.Struct, rename="camel"):
    """The reward of one slot."""

    slot_id: Id
    value: float


class MultiSlotRewards(msgspec.Struct):
    """Rewards of some slots of an event."""

    reward: Annotated[list[SlotReward], Meta(min_length=1, max_length=1000)]


class RewardRequest(msgspec.Struct):
    """The reward of an event."""

    value: float


class ServiceConfiguration(msgspec.Struct, rename="camel", kw_only=True):
    """The whole configuration of a service. Optional fields that are null or absent
    stay unchanged."""

    reward_wait_time: str
    default_reward: Annotated[float, Meta(ge=-1, le=1)]
    reward_aggregation: Annotated[str, Meta(max_length=256)]
    exploration_percentage: Annotated[float, Meta(ge=0, le=1)]
    model_export_frequency: str
    log_retention_days: Annotated[float, Meta(ge=-1, le=36_500)]
    log_mirror_enabled: bool | None = None
    log_mirror_sas_uri: Annotated[str, Meta(max_length=2048)] | None = None
    learning_mode: Literal["Online", "Apprentice", "LoggingOnly"] | None = None
    is_auto_optimization_enabled: bool | None = None
    auto_optimization_frequency: str | None = None
    auto_optimization_start_date: Annotated[str, Meta(max_length=64)] | None = None
    is_inference_explainability_enabled: bool | None = None


def text_of(id: Id) -> str:
    """Return an id as text; numbers are formatted as in JSON."""
    if isinstance(id, str):
        return id
    return str(id)


def checked_id(what: str, given: Id) -> str:
    """Return an id as text; raise if it cannot be stored."""
    id = text_of(given)
    if not is_id(id):
        raise InvalidInput(
            f"{what} must have 1 to {LONGEST_ID} characters, none of them NUL; got "
            f"{id!r:.60}"
        )
    return id


def request_id(visit: Visit) -> str | None:
    """Return the id of the request, which identifies repeated requests; None if there
    is none, or if it cannot be stored."""
    sent = visit.header(b"x-ms-client-request-id")
    if is_id(sent):
        return sent
    return None


def event_id(given: Id | None, visit: Visit) -> str | None:
    """Return the id of an event, or of the HTTP request, so that a repeated request
    creates no second event."""
    if given is None:
        return request_id(visit)
    return checked_id("eventId", given)
