"""The rows of a store: what is written of an event, and how a decision is read back.

A decision is a line of JSON and its numbers as they lie in memory (float64, little-endian): exact as `to_json` is, in
half the room and half the time. Votes come last: one byte for each expert, its arm, where each votes for one arm or
none. The context is kept apart, so that it can be erased.
"""

import json
from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array
from oddsmith.decision import Decision
from oddsmith.errors import Conflict, InvalidInput
from oddsmith.exact_json import decode, encode
from oddsmith.rewards import RewardScale
from oddsmith.storage.base import Erased, Evidence, Line, Receipt, Rule, line_of
from oddsmith.storage.events import DecisionMade, Event, Reward

__all__ = ["AnotherValue", "EARLY", "EventRow", "read_decision", "read_evidence", "repeated", "row_of", "unrewarded"]

EARLY = ("reward", "activation")
"""The kinds of lines that may come before the decision they are about."""

_NO_ARM = 255
_NUMBERS = ("propensities", "advice", "bonus", "log_weights")


class EventRow(NamedTuple):
    """An event's line, and for a decision its JSON, its numbers, and the JSON of its context."""

    line: Line
    body: str | None = None
    numbers: bytes = b""
    context: str | None = None


def row_of(event: Event, rule: Rule) -> EventRow:
    """What is written of an event; whatever cannot be written, or must not with this rule, is refused here."""
    if not isinstance(event, DecisionMade):
        if rule == "first" and isinstance(event, Reward) and event.key:
            raise InvalidInput("key must be empty where the first reward counts (rule 'sum' adds parts up)")
        return EventRow(line_of(event))
    decision = event.decision
    arrays = {name: values for name in _NUMBERS if (values := getattr(decision, name)) is not None}
    plain = {name: getattr(decision, name) for name in ("step", "eligible", "arm", "index")}
    plain["numbers"] = {name: len(values) for name, values in arrays.items()}
    numbers = b"".join(np.asarray(values, dtype="<f8").tobytes() for values in arrays.values())
    if event.votes is not None:
        plain["votes"], votes = _pack_votes(event.votes)
        numbers += votes
    if event.shadow:
        plain["shadow"] = True
    try:
        body = _written(plain)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"decision must have a step, arm and eligible arms that JSON can hold; {error}") from error
    context = None if decision.context is None else _written(encode(decision.context))
    line = Line(0, "decision", event.id, "", None, float(event.time), event.deferred, event.seen)
    return EventRow(line, body, numbers, context)


class AnotherValue(Conflict):
    """An event that was kept with the value `first` comes again with another one.

    >>> line = Line(0, "reward", "visit-7", "", 0.6, 0.0, False, None)
    >>> print(AnotherValue(line, 0.5).in_units(RewardScale(0.0, 20.0)))
    reward of 'visit-7' must be 10, as it was first; got 12
    """

    def __init__(self, line: Line, first: float | None) -> None:
        self.line, self.first = line, first
        super().__init__(self._sentence(first, line.value))

    def in_units(self, scale: RewardScale) -> Conflict:
        """The same in the units that rewards are sent in; shares of the weight have none."""
        if self.first is None or self.line.value is None or self.line.kind not in ("reward", "default", "correction"):
            return self
        return Conflict(self._sentence(scale.value(self.first), scale.value(self.line.value)))

    def _sentence(self, first: float | None, got: float | None) -> str:
        key = f" with key {self.line.key!r}" if self.line.key else ""
        return f"{self.line.kind} of {self.line.id!r}{key} must be {first:.12g}, as it was first; got {got:.12g}"


def repeated(line: Line, position: int, value: float | None, *, parked: bool = False) -> Receipt:
    """The receipt of a line that was there before, at this position and with this value."""
    return Receipt(position, False, None if value == line.value else AnotherValue(line, value), parked)


def unrewarded(line: Line) -> Receipt:
    """The receipt of a correction that has nothing to correct."""
    return Receipt(0, False, InvalidInput(f"decision {line.id!r} must have a reward to correct; it has none"))


def read_decision(body: str, numbers: bytes, had_context: int, context: str | None) -> Decision:
    """The decision that was written, with its context, or `Erased` in its place."""
    plain: dict[str, Any] = json.loads(body)
    counts, end = plain.pop("numbers"), 0
    values = np.frombuffer(numbers, dtype="<f8", count=sum(counts.values())).astype(np.float64)  # may be written to
    for name, length in counts.items():
        plain[name], end = values[end : end + length], end + length
    plain.pop("votes", None), plain.pop("shadow", None)
    if plain["eligible"] is not None:
        plain["eligible"] = np.array(plain["eligible"])
    if not had_context:
        return Decision(context=None, **plain)
    return Decision(context=Erased() if context is None else decode(json.loads(context)), **plain)


def read_evidence(body: str, numbers: bytes) -> Evidence:
    """What the decision's odds were made from."""
    plain: dict[str, Any] = json.loads(body)
    votes = None
    if "votes" in plain:
        votes = _unpack_votes(plain["votes"], numbers[8 * sum(plain["numbers"].values()) :])
    return Evidence(votes, plain.get("shadow", False))


def _pack_votes(votes: Array) -> tuple[tuple[int, str], bytes]:
    """[K, kind], and the bytes: "u1" is the arm of each expert, _NO_ARM for none; "f8" all ballots as they are."""
    n_arms, whole = votes.shape[1], votes == 1.0
    cast = whole.any(axis=1)
    if n_arms < _NO_ARM and np.count_nonzero(votes) == np.count_nonzero(whole) == np.count_nonzero(cast):
        return (n_arms, "u1"), np.where(cast, whole.argmax(axis=1), _NO_ARM).astype("u1").tobytes()
    return (n_arms, "f8"), np.asarray(votes, dtype="<f8").tobytes()


def _unpack_votes(form: tuple[int, str], content: bytes) -> Array:
    n_arms, kind = form
    if kind == "f8":
        return np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(-1, n_arms)
    arms = np.frombuffer(content, dtype="u1")
    votes: Array = (arms[:, None] == np.arange(n_arms)).astype(np.float64)
    return votes


def _plain(value: object) -> object:
    """An array, or a number of numpy's, as a list or a number."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(f"got {type(value).__name__}")


_written = json.JSONEncoder(allow_nan=False, default=_plain).encode
