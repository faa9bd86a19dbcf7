"""Responses of the service as named tuples, and its errors as exceptions."""

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

from oddsmith.core.errors import Conflict, InvalidInput, OddsmithError, ServiceError

__all__ = [
    "DecisionEvent",
    "ExpertPart",
    "PosteriorWeights",
    "RecordedDecision",
    "ServedDecision",
    "ServedSlate",
    "StoredEvent",
    "one_of",
    "read_batch",
    "read_record",
    "read_slate",
    "read_slate_records",
    "refusal",
]

T = TypeVar("T")


class ServedDecision(NamedTuple):
    """A decision stored in the log: the arm, its exact propensities, and the position
    of the state that made it.

    `new` is False if the id was answered before. `odds` contains the propensities of
    all arms if there are at most 100. `would` is the arm that the policy drew although
    an incumbent acts, and `asleep` names the experts without a prediction; only the
    first response to an id contains these two fields. A `fallback` is the caller's own
    arm with its propensities, used when the service did not answer: it is not in the
    log yet, and has no step and no position. For a decision of a slate, `slot` is the
    number and `name` the name of its slot.
    """

    id: str
    experiment: str
    arm: str
    propensity: float
    step: int | None
    position: int | None
    seen: int | None
    new: bool
    odds: dict[str, float] | None = None
    would: str | None = None
    asleep: list[str] | None = None
    fallback: bool = False
    slot: int | None = None
    name: str | None = None


class ServedSlate(NamedTuple):
    """The decisions for the slots of a page, in order, all stored in the log. `slate`
    is their common id."""

    slate: str
    experiment: str
    slots: list[ServedDecision]
    new: bool


class StoredEvent(NamedTuple):
    """An event stored in the log at this position. `new` is False if it had been stored
    before.

    `parked` is True for a reward or an activation whose decision is not in the log yet
    (with a mistyped id this never changes). Events of a fallback that is not reported
    yet are kept by the client, without a position.
    """

    id: str
    position: int | None
    new: bool
    parked: bool = False


class AppliedAction(NamedTuple):
    """An action of an operator, stored in the log at this position, and the
    restrictions that apply since then. `new` is False if the action had been stored
    before."""

    experiment: str
    position: int
    new: bool
    in_force: dict[str, Any]


class DecisionEvent(NamedTuple):
    """An event of a decision: position, kind, value, sender and time."""

    position: int
    kind: str
    value: float | None
    key: str
    time: float
    sender: str | None


class ExpertPart(NamedTuple):
    """An expert's part in a decision: its weight, its vote by arm, and its predictions
    from 0 to 1.

    `predicted` is the prediction for the drawn arm, None if the expert made none.
    `predictions` are for all arms, None if the expert cannot be called again.
    """

    expert: str
    weight: float
    votes: dict[str, float]
    predicted: float | None
    predictions: dict[str, float | None] | None = None


class RecordedDecision(NamedTuple):
    """The record of a decision in the log.

    `reward` is the value that counts, from position `counts_since` on. Both are None
    while the decision does not count. `context` and `features` of the offer are
    "erased" if they were erased, and None if the service does not show them
    (`context_hidden`). With `explain`, the record contains `experts` (largest weight
    first), `notes` about their predictions, and a sentence about their choices. If
    `paused`, the control decided because the experiment was paused; `barred` has the
    reason for each arm that was not eligible.
    """

    id: str
    experiment: str
    arm: str
    propensity: float
    odds: dict[str, float]
    step: int
    position: int
    seen: int
    context: Any
    context_hidden: bool
    eligible: list[str] | None
    shadow: bool
    deferred: bool
    reward: float | None
    counts_since: int | None
    slate: str | None
    slot: int | None
    events: list[DecisionEvent]
    features: Any = None
    experts: list[ExpertPart] | None = None
    notes: list[str] | None = None
    choices_sentence: str | None = None
    paused: bool = False
    barred: dict[str, str] | None = None


class PosteriorWeights(NamedTuple):
    """The posterior weight of each expert, or the posterior of arms
    (`Agent.posterior`), after all events up to a position."""

    experiment: str
    position: int
    learnt: int
    posterior: dict[str, Any]
    retired: list[str]


def one_of(kind: Callable[..., T], answer: Mapping[str, object]) -> T:
    """Convert the response to a named tuple of this type, ignoring unknown fields of
    later versions.

    >>> one_of(StoredEvent, {"id": "a", "position": 3, "new": True, "later": "more"})
    StoredEvent(id='a', position=3, new=True, parked=False)
    """
    names = [name for name in kind.__annotations__ if name in answer]
    return kind(**{name: answer[name] for name in names})


def read_record(answer: Mapping[str, Any]) -> RecordedDecision:
    """Read the response about a decision in the log."""
    events = [one_of(DecisionEvent, event) for event in answer["events"]]
    record = one_of(RecordedDecision, {**answer, "events": events})
    if record.experts is None:
        return record
    parts = [one_of(ExpertPart, part) for part in answer["experts"]]
    return record._replace(experts=parts)


def read_slate_records(answer: Mapping[str, Any]) -> list[RecordedDecision]:
    """Read the response about a slate in the log; raise for a decision without a
    slate."""
    if "slots" not in answer:
        raise InvalidInput(
            f"slate must be the id of a slate; got {answer.get('id')!r:.80}, which is "
            "the id of a decision"
        )
    return [read_record(record) for record in answer["slots"]]


def read_batch(
    kind: Callable[..., T], answer: Mapping[str, Any]
) -> list[T | OddsmithError]:
    """Read the entries in order. A failed entry is returned as an exception, not
    raised."""
    entries: list[T | OddsmithError] = []
    for entry in answer["results"]:
        if "error" in entry:
            entries.append(_entry_error(entry))
        else:
            entries.append(one_of(kind, entry))
    return entries


def read_slate(answer: Mapping[str, Any]) -> ServedSlate:
    """Read the response about a slate."""
    slots = [one_of(ServedDecision, slot) for slot in answer["slots"]]
    return one_of(ServedSlate, {**answer, "slots": slots})


def refusal(status: int, body: bytes) -> OddsmithError:
    """Return the exception for an error response, with the message of the service.

    >>> refusal(409, b'{"error": "reward must be as before", "code": "conflict"}')
    Conflict('reward must be as before')
    """
    sentence = f"the service answered {status}"
    code = ""
    try:
        answer = json.loads(body)
        if "errorDetails" in answer:  # error response of OpenFeature
            answer = {"error": answer["errorDetails"], "code": answer["errorCode"]}
        own_sentence = str(answer["error"])
        code = str(answer["code"])
        sentence = own_sentence
    except (ValueError, KeyError, TypeError):
        pass  # the body is not our JSON; it may be a proxy's error page
    if status == 409:
        return Conflict(sentence)
    if status in (400, 422):
        return InvalidInput(sentence)
    return ServiceError(sentence, status, code)


def _entry_error(entry: Mapping[str, object]) -> OddsmithError:
    kind = Conflict if entry.get("code") == "conflict" else InvalidInput
    return kind(str(entry["error"]))
