"""The messages of Personalizer's API as types; fields that it does not know are passed over."""

from typing import Annotated, Any, TypeAlias

import msgspec
from msgspec import Meta

from oddsmith.service.doors.door import Told

__all__ = ["Action", "MOST_ACTIONS", "RankAnswer", "RankRequest", "Ranked", "RewardRequest"]

MOST_ACTIONS = 50
Id: TypeAlias = str | int | float  # programs send numbers, too
Features: TypeAlias = list[dict[str, Any]]


class Action(msgspec.Struct):
    """An action and what is known of it."""

    id: Id
    features: Features


class RankRequest(msgspec.Struct, rename="camel"):
    """What to choose from, in the order in which the program would show it by itself."""

    actions: Annotated[list[Action], Meta(min_length=1, max_length=MOST_ACTIONS)]
    context_features: Features | None = None
    excluded_actions: list[Id] | None = None
    event_id: Id | None = None
    defer_activation: bool | None = None


class Ranked(msgspec.Struct):
    """An action and its exact odds."""

    id: str
    probability: float


class RankAnswer(Told, rename="camel"):
    """The ranking, and the action to show."""

    ranking: list[Ranked]
    event_id: str
    reward_action_id: str

    @property
    def id(self) -> str:
        """That of the event."""
        return self.event_id


class RewardRequest(msgspec.Struct):
    """The reward of an event."""

    value: float
