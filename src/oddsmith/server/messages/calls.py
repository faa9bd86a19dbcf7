"""The messages of HTTP as types, which validate requests, encode answers and generate
the OpenAPI schemas."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from oddsmith.contexts.offers import MOST_ARMS
from oddsmith.core.errors import Conflict, OddsmithError, StoreFailed
from oddsmith.server.store.events import LONGEST_ID
from oddsmith.server.store.slates import slot_id

__all__ = [
    "Activate",
    "Correct",
    "Decide",
    "DecideBatch",
    "DecideEntry",
    "DecisionAnswer",
    "DecisionQuery",
    "DecisionRecord",
    "ErrorAnswer",
    "EventAnswer",
    "PATTERNS",
    "PosteriorAnswer",
    "Query",
    "Results",
    "RewardBatch",
    "RewardEntry",
    "RewardGiven",
    "RosterChange",
    "SlateAnswer",
    "SlateRecord",
    "SlotAnswer",
    "SlotEntry",
]

MOST = 1000  # maximum number of entries in a batch
_NAME = r"^[a-z0-9_-]{1,64}$"
_TEXT = r"^[^\x00]*$"  # a body with a lone surrogate is not valid JSON
PATTERNS = {_NAME: "1 to 64 of a-z, 0-9, _ and -", _TEXT: "a string without NUL"}
"""What each pattern allows, in words."""

_Name = Annotated[str, Meta(pattern=_NAME)]
_Id = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID, pattern=_TEXT)]
_Key = Annotated[str, Meta(max_length=LONGEST_ID, pattern=_TEXT)]
_Arm = Annotated[str, Meta(min_length=1, max_length=LONGEST_ID)]
_FEATURES = (
    "The features of the arm: an object, or a list of numbers, of one kind for all "
    "arms; null for none."
)
_Features = Annotated[Any, Meta(description=_FEATURES)]
_Offered = Annotated[
    dict[_Arm, _Features] | list[_Arm | int] | None,
    Meta(
        description=(
            f"The arms of this call, 1 to {MOST_ARMS:,}: names with their features, or "
            "names alone. Needed where the policy file has no arms; else some of its "
            "arms. A body with arms has at most 1 MiB."
        ),
    ),
]
_Amounts = Annotated[
    dict[_Name, float],
    Meta(
        description=(
            "Amounts of metrics of the policy file, each in its unit: "
            '{"revenue": 34.9}.'
        )
    ),
]
_Odds = dict[_Arm, Annotated[float, Meta(ge=0, le=1)]]
# No decision has another name, so such a name gives 404: the pattern is documented but
# not checked.
_AnyName = Annotated[str, Meta(extra_json_schema={"pattern": _NAME})]
_AnyId = Annotated[
    str,
    Meta(extra_json_schema={"minLength": 1, "maxLength": LONGEST_ID, "pattern": _TEXT}),
]


class _Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A request body. `experiment` can be omitted if the service has only one
    experiment."""

    experiment: _Name | None = None


class Query(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A query about an experiment. `experiment` can be omitted if the service has only
    one experiment."""

    experiment: _AnyName | None = None


class DecisionQuery(Query):
    """A query about one decision. With `explain`, the answer contains every expert's
    vote and weight, and whether the experts choose well."""

    id: _AnyId
    explain: bool = False


class DecideEntry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """One decision of a batch. `odds` decides whether the answer contains the
    propensities of all arms; by default it does if there are at most 100 arms."""

    context: Any
    arms: _Offered = None
    id: _Id | None = None
    eligible: Annotated[list[_Arm], Meta(min_length=1, max_length=10_000)] | None = None
    unit: _Id | None = None
    deferred: bool = False
    incumbent: _Arm | None = None
    incumbent_odds: _Odds | None = None
    odds: bool | None = None


class SlotEntry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A slot of a page: its features, its eligible arms, and in shadow mode the
    incumbent's arm.

    `features` are joined with the context: two objects by their fields, or two lists
    one after the other.
    """

    name: _Id
    features: Any = None
    eligible: Annotated[list[_Arm], Meta(min_length=1, max_length=10_000)] | None = None
    incumbent: _Arm | None = None
    incumbent_odds: _Odds | None = None


_Slots = Annotated[
    Annotated[int, Meta(ge=1, le=MOST_ARMS)]
    | Annotated[list[SlotEntry], Meta(min_length=1, max_length=MOST_ARMS)],
    Meta(
        description=(
            "The number of arms to draw, for slots that are named by their numbers, or "
            "the slots: the first is drawn from all arms, the next from the others. "
            "The context is joined by "
            '"slot", the slot\'s number.'
        )
    ),
]


class Decide(DecideEntry):
    """Draw an arm for a context. A repeated id gets the first answer, or status 409 if
    the arm of the first answer is not offered now.

    With `slots`, an arm is drawn for each slot, and all decisions are written together;
    `id` is then the id of the slate.
    """

    experiment: _Name | None = None
    slots: _Slots | None = None

    def __len__(self) -> int:
        """Return the number of decisions."""
        if self.slots is None:
            return 1
        if isinstance(self.slots, int):
            return self.slots
        return len(self.slots)


class DecideBatch(_Body):
    """Many decisions at once, answered in order; an entry that fails does not affect
    the others.

    `arms` applies to all entries that have no arms of their own. The number of entries
    times arms is at most 100,000.
    """

    decisions: Annotated[list[DecideEntry], Meta(min_length=1, max_length=MOST)]
    arms: _Offered = None

    def __len__(self) -> int:
        return len(self.decisions)


class RewardEntry(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The reward, amounts of metrics, or both, of the decision `id`, or of the slot
    with this name or number in a `slate`."""

    id: _Id = ""
    reward: float | UnsetType = UNSET
    metrics: _Amounts | UnsetType = UNSET
    key: _Key = ""
    slate: _Id | None = None
    slot: _Id | int | None = None

    def __post_init__(self) -> None:
        given = {"id": self.id or None, "slate": self.slate, "slot": self.slot}
        names = [name for name, value in given.items() if value is not None]
        if names == ["slate", "slot"]:
            self.id = slot_id(str(self.slate), str(self.slot))
        elif names != ["id"]:
            got = " and ".join(names) or "none"
            raise ValueError(
                f"id must be given, or slate and slot in its place; got {got}"
            )
        if self.reward is UNSET and not self.metrics:
            raise ValueError("reward or metrics must be given; got neither")


class RewardGiven(RewardEntry):
    """The reward of a decision, in the units of [reward], and amounts of metrics. If a
    metric or, with the rule "sum", the reward has several parts, `key` identifies the
    part.

    A decision is identified by its `id`. The decision of a slot can also be identified
    by the `slate` and the slot's name.
    """

    experiment: _Name | None = None


class RewardBatch(_Body):
    """Many rewards at once, answered in order; an entry that fails does not affect the
    others."""

    rewards: Annotated[list[RewardEntry], Meta(min_length=1, max_length=MOST)]

    def __len__(self) -> int:
        return len(self.rewards)


class Correct(_Body):
    """Replace the reward of a decision, or amounts of its metrics. `key` identifies the
    correction, so that repeating it has no effect."""

    id: _Id
    key: _Id
    reward: float | UnsetType = UNSET
    metrics: _Amounts | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.reward is UNSET and not self.metrics:
            raise ValueError("reward or metrics must be given; got neither")


class Activate(_Body):
    """Activate a deferred decision, by its id or by slate and slot, or all decisions of
    a slate."""

    id: _Id | None = None
    slate: _Id | None = None
    slot: _Id | int | None = None


class RosterChange(_Body):
    """Add an expert with a share of the weight, or retire an expert."""

    expert: _Id
    change: Literal["added", "retired"]
    key: _Id
    share: Annotated[float, Meta(gt=0, lt=1)] | None = None


class _DecisionFacts(msgspec.Struct, kw_only=True):
    """The fields that all answers about a decision have."""

    id: str
    experiment: str
    arm: str
    propensity: float
    step: int
    position: int
    seen: int


class DecisionAnswer(_DecisionFacts, kw_only=True):
    """A decision that is on disk, with its position in the log.

    `propensity` is the propensity of the drawn arm; `odds` contains the propensities of
    all arms, by default if there are at most 100. `seen` is the position in the log of
    the last event that the state of this decision had learned. In shadow mode `would`
    is the arm that the policy itself chose. Experts in `asleep` made no prediction.
    """

    new: bool
    odds: dict[str, float] | UnsetType = UNSET
    would: str | UnsetType = UNSET
    asleep: list[str] | UnsetType = UNSET


class SlotAnswer(DecisionAnswer, kw_only=True):
    """The decision of a slot, whose number is `slot`. Its propensities are conditional
    on the arms in earlier slots."""

    slot: int
    name: str


class SlateAnswer(msgspec.Struct):
    """The decisions for the slots of a slate, in order, all of them on disk."""

    slate: str
    experiment: str
    slots: list[SlotAnswer]
    new: bool

    @property
    def id(self) -> str:
        """Id for the access log."""
        return self.slate


class EventAnswer(msgspec.Struct):
    """An event that is on disk; `new` is false if it was stored before.

    `parked` is true for a reward or an activation of an id without a decision. It
    counts once the decision is made; with a mistyped id it never does.
    """

    id: str
    position: int
    new: bool
    parked: bool = False


class ErrorAnswer(msgspec.Struct):
    """A message of one sentence, and an error code for programs."""

    error: str
    code: str

    @classmethod
    def of(cls, error: BaseException) -> "ErrorAnswer":
        """Return the answer to an entry of a batch that was refused.

        Errors that the entry has not caused are raised, and set the status of the whole
        batch: unexpected errors, and a store that fails, because such entries must be
        sent again.
        """
        if not isinstance(error, OddsmithError) or isinstance(error, StoreFailed):
            raise error
        code = "conflict" if isinstance(error, Conflict) else "invalid"
        return cls(str(error), code)


_ENTRIES = [
    {"$ref": f"#/components/schemas/{name}"}
    for name in ("DecisionAnswer", "EventAnswer", "ErrorAnswer")
]


class Results(msgspec.Struct):
    """The answers of a batch, in order."""

    results: list[Annotated[Any, Meta(extra_json_schema={"anyOf": _ENTRIES})]]


class DecisionRecord(_DecisionFacts, kw_only=True):
    """The record of one decision in the log. With `context_hidden`, context and
    features are null.

    `features` are null if the call passed no arms, and "erased" if they were erased. An
    expert's `predicted` is its prediction for the drawn arm, and `predictions` are
    those for all arms: null if it made none, or cannot predict again. If `paused`, the
    control decided because the experiment was paused; `barred` has the reason for each
    arm that was not eligible: "paused", or the number of a rule.
    """

    odds: dict[str, float]
    context: Any
    context_hidden: bool
    eligible: list[str] | None
    shadow: bool
    deferred: bool
    reward: float | None
    counts_since: int | None
    slate: str | None
    slot: int | None
    events: list[dict[str, Any]]
    features: Any = None
    paused: bool = False
    barred: dict[str, str] = {}
    experts: list[dict[str, Any]] | UnsetType = UNSET
    notes: list[str] | UnsetType = UNSET
    choices_sentence: str | UnsetType = UNSET


class SlateRecord(msgspec.Struct):
    """The records of the decisions for the slots of a slate, in order."""

    slate: str
    experiment: str
    slots: list[DecisionRecord]

    @property
    def id(self) -> str:
        """Id for the access log."""
        return self.slate


class PosteriorAnswer(msgspec.Struct):
    """The posterior over experts, or the estimates of arms, after all events up to a
    position."""

    experiment: str
    position: int
    learnt: int
    posterior: dict[str, Any]
    retired: list[str]
