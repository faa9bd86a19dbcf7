"""The messages of the routes for lists and long polls: experiments, decisions,
changes."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from oddsmith.server.messages.calls import Query
from oddsmith.server.store.events import LONGEST_ID

__all__ = [
    "Changes",
    "ChangesQuery",
    "Decisions",
    "DecisionsQuery",
    "ExperimentFacts",
    "Experiments",
    "ListedDecision",
    "RewardRange",
]

_POSITION = 2**63 - 1  # largest position that a database can store


class DecisionsQuery(Query):
    """A query for a page of at most `limit` decisions before a position, newest first.

    `arm` selects decisions that drew one arm. `reward` selects decisions with or
    without a reward; a default counts as a reward. At most 5,000 decisions are searched
    per page.
    """

    before: Annotated[int, Meta(ge=0, le=_POSITION)] = _POSITION
    limit: Annotated[int, Meta(ge=1, le=200)] = 50
    arm: Annotated[str, Meta(max_length=LONGEST_ID)] | None = None
    reward: Literal["any", "none", "some"] = "any"


class ChangesQuery(Query):
    """A call that is answered when the state is beyond the position `after`, or after
    `wait` seconds."""

    after: Annotated[int, Meta(ge=0, le=_POSITION)] = 0
    wait: Annotated[float, Meta(ge=0, le=25)] = 25.0


class RewardRange(msgspec.Struct):
    """The lowest and the highest reward, in the caller's units."""

    low: float
    high: float


class ExperimentFacts(msgspec.Struct):
    """Facts of an experiment: `arms` is null if calls pass their arms; `trouble` is the
    reason why it is not ready."""

    name: str
    arms: list[str] | None
    experts: list[str]
    shadow: bool
    sticky: bool
    window_s: float | None
    default_reward: float | None
    reward: RewardRange
    ready: bool
    trouble: str
    fingerprint: str
    policy: str
    show_contexts: bool


class Experiments(msgspec.Struct):
    """The experiments that a key may read, the version of the service, and whether it
    has keys.

    `served` is false if `oddsmith dashboard` shows stores without serving them.
    """

    experiments: list[ExperimentFacts]
    version: str
    keys: bool
    served: bool


class ListedDecision(msgspec.Struct):
    """A decision in a list: its time, its arm with the propensity, and its reward.

    `activated` is null for a decision that was not deferred. `counts` is null until it
    counts. `slate` and `slot` are null for a single decision.
    """

    id: str
    position: int
    t: float
    arm: str
    propensity: float
    reward: float | None
    counts: Literal["reward", "default", "correction"] | None
    shadow: bool
    deferred: bool
    activated: bool | None
    unit: str | None
    slate: str | None
    slot: int | None


class Decisions(msgspec.Struct):
    """Decisions, newest first, as of `position`. `before` is where the next page
    begins; null at the last page."""

    experiment: str
    position: int
    decisions: list[ListedDecision]
    before: int | None
    searched: int


class Changes(msgspec.Struct):
    """The last positions of the log and of the state."""

    experiment: str
    head: int
    position: int
