"""Convert events to rows of a store, and rows to decisions.

A decision is stored as a line of JSON, plus the bytes of its arrays (float64,
little-endian), of which the votes are the last. This is as exact as `to_json`, and
needs half the space and half the time. The context is stored separately, so that it can
be erased. Lists of names and features of arms are stored only once, by digest.
"""

import json
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Decision
from oddsmith.core.errors import Conflict, InvalidInput
from oddsmith.core.exact_json import decode, encode
from oddsmith.server.store.contents import (
    Content,
    FeatureRow,
    feature_row,
    parts_of,
    text_of,
    written,
)
from oddsmith.server.store.events import DecisionMade, Event, OwnDraw, Reward
from oddsmith.server.store.protocol import (
    Draw,
    Erased,
    EventKind,
    Evidence,
    Receipt,
    Rule,
    line_of,
)

__all__ = [
    "AnotherValue",
    "COLUMNS",
    "ContextRow",
    "DecisionRow",
    "EARLY",
    "EventRow",
    "Form",
    "WHOLE",
    "columns_of",
    "pack_votes",
    "read_decision",
    "read_drawn",
    "read_evidence",
    "repeated",
    "row_of",
    "shared",
    "unpack_votes",
    "unrewarded",
    "votes_on",
]

Form: TypeAlias = tuple[int, str]
"""The number of arms, and the encoding of votes for them."""
WHOLE = (("u1", 2**8 - 1), ("<u2", 2**16 - 1))
"""Integer types for the number of an arm. The largest value of each type means "no
arm"."""
_NO_ARM = dict(WHOLE)


def unpack_votes(form: Form, content: bytes) -> Array:
    """Return the ballots that `pack_votes` wrote."""
    n_arms, kind = form
    if kind == "f8":
        return (
            np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(-1, n_arms)
        )
    if kind == "bits":
        packed = np.frombuffer(content, dtype="u1").reshape(-1, (n_arms + 7) // 8)
        return shared(np.unpackbits(packed, axis=1, count=n_arms).astype(bool))
    votes: Array = (
        np.frombuffer(content, dtype=kind)[:, None] == np.arange(n_arms)
    ).astype(np.float64)
    return votes


def votes_on(arm: int, form: Form, content: bytes) -> Array:
    """Return each expert's vote for one arm (N,), from the ballots that `pack_votes`
    wrote; NaN for experts without a prediction.

    >>> votes_on(1, (2, "u1"), b"\\x01\\xff\\x00")
    array([ 1., nan,  0.])
    """
    kind = form[1]
    if kind in _NO_ARM:
        places = np.frombuffer(content, dtype=kind)
        votes: Array = (places == arm).astype(np.float64)
        votes[places == _NO_ARM[kind]] = np.nan
        return votes
    ballots = unpack_votes(form, content)
    return np.where(ballots.any(axis=1), ballots[:, arm], np.nan)


def shared(cast: Bools) -> Array:
    """Return ballots that divide the vote of each expert equally among the arms that it
    voted for."""
    shares: Array = cast / np.maximum(cast.sum(axis=1, keepdims=True), 1)
    return shares


EARLY = ("reward", "activation", "metric")
"""The kinds of lines that may come before their decision."""

_UNIFORM = "uniform"
_NUMBERS = ("propensities", "advice", "bonus", "log_weights")


class ContextRow(NamedTuple):
    """The part of a decision that can be erased: the digests of features, and the
    context as JSON."""

    features: bytes | None
    body: str | None


class EventRow(NamedTuple):
    """An event as a store writes it: the columns of the table `events`, and the content
    of other tables.

    For a decision, `body` is its JSON, and `numbers` contains the bytes of its arrays.
    `context`, `names` and `features` belong to other tables.
    """

    kind: EventKind
    id: str
    key: str
    value: float | None
    time: float
    deferred: bool
    seen: int | None
    sender: str | None
    body: str | None
    unit: str | None = None
    turn: int | None = None
    slate: str | None = None
    slot: int | None = None
    numbers: bytes | None = None
    context: ContextRow | None = None
    names: Content | None = None
    features: tuple[FeatureRow, ...] = ()


COLUMNS = (
    "kind",
    "id",
    "key",
    "value",
    "time",
    "deferred",
    "seen",
    "sender",
    "unit",
    "turn",
    "slate",
    "slot",
    "body",
    "numbers",
)
"""The columns of `events` that an event fills."""
columns_of: Callable[[EventRow], tuple[object, ...]] = attrgetter(*COLUMNS)
"""Return the values of the columns `COLUMNS` of a row."""


def row_of(event: Event, rule: Rule) -> EventRow:
    """Return the row of an event; raise if the event cannot be stored, or is not
    allowed by the reward rule."""
    if not isinstance(event, DecisionMade):
        if rule != "sum" and isinstance(event, Reward) and event.key:
            raise InvalidInput(
                "key must be empty where the first reward counts (rule 'sum' adds "
                "parts up)"
            )
        line = line_of(event)
        return EventRow(
            kind=line.kind,
            id=line.id,
            key=line.key,
            value=line.value,
            time=line.time,
            deferred=line.deferred,
            seen=line.seen,
            sender=line.sender,
            body=line.body,
        )
    decision = event.decision
    arrays = {
        name: values
        for name, values in zip(_NUMBERS, decision[4:8], strict=True)
        if values is not None
    }
    plain: dict[str, Any] = {
        "step": decision.step,
        "eligible": decision.eligible,
        "arm": decision.arm,
    }
    plain["index"], plain["numbers"] = (
        decision.index,
        {name: len(values) for name, values in arrays.items()},
    )
    numbers = b"".join(
        [np.asarray(values, dtype="<f8").tobytes() for values in arrays.values()]
    )
    if event.votes is not None:
        plain["votes"], votes = pack_votes(event.votes)
        numbers += votes
    if event.shadow:
        plain["shadow"] = (
            True
            if event.own is None
            else {"would": event.own.would, "odds": event.own.odds}
        )
    if decision.control is not None or decision.group is not None:
        plain["control"] = _control_facts(decision)
    if event.action or event.barred or event.killed:
        plain["force"] = _force_facts(event)
    context: ContextRow | None = None
    names: Content | None = None
    features: tuple[FeatureRow, ...] = ()
    if decision.context is not None:
        plain["context"] = True
        context = ContextRow(None, written(encode(decision.context)))
    if decision.arms is not None or decision.features is not None:
        names, features = _offer(decision, plain)
        if decision.features is not None:
            context = ContextRow(
                bytes.fromhex("".join(one.digest for one in features)),
                None if context is None else context.body,
            )
    try:
        body = written(plain)
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            "decision must have a step, arm and eligible arms that JSON can hold; "
            f"{error}"
        ) from error
    return EventRow(
        kind=event.kind,
        id=event.id,
        key="",
        value=None,
        time=float(event.time),
        deferred=event.deferred,
        seen=event.seen,
        sender=event.sender or None,
        body=body,
        unit=event.unit,
        turn=event.turn,
        slate=event.slate,
        slot=event.slot,
        numbers=numbers,
        context=context,
        names=names,
        features=features,
    )


def _force_facts(event: DecisionMade) -> dict[str, Any]:
    """Return the facts about the actions and rules that applied."""
    facts: dict[str, Any] = {"action": event.action}
    if event.barred:
        facts["barred"] = {str(arm): reason for arm, reason in event.barred.items()}
    if event.killed:
        facts["killed"] = True
    return facts


def _control_facts(decision: Decision) -> dict[str, Any]:
    """Return the facts about the control: its propensities (as the index of an arm,
    "uniform" or a list), its share of the draw, and the group if units are assigned."""
    return {
        "odds": _short_odds(decision.control, decision.eligible),
        "holdout": decision.holdout,
        "group": decision.group,
        "unit": decision.unit,
    }


def _short_odds(control: Array | None, eligible: Bools | None) -> Any:
    if control is None:
        return None
    if control.max() == 1.0 and np.count_nonzero(control) == 1:
        return int(control.argmax())
    mask = np.ones(len(control), dtype=np.bool_)
    if eligible is not None:
        mask = np.asarray(eligible)
    if np.array_equal(control, mask / mask.sum()):
        return _UNIFORM
    return control.tolist()


def _control_odds(odds: Any, plain: Mapping[str, Any]) -> Array | None:
    """Return the propensities (K,) that `_control_facts` wrote."""
    if odds is None:
        return None
    n_arms = len(plain["propensities"])
    if isinstance(odds, int):
        return np.asarray(np.arange(n_arms) == odds, dtype=np.float64)
    if odds != _UNIFORM:
        return np.array(odds, dtype=np.float64)
    eligible = plain["eligible"]
    mask = np.ones(n_arms, dtype=np.bool_)
    if eligible is not None:
        mask = np.asarray(eligible)
    uniform: Array = mask / mask.sum()
    return uniform


def _offer(
    decision: Decision, plain: dict[str, Any]
) -> tuple[Content, tuple[FeatureRow, ...]]:
    """Return the names of the offered arms, and the features of all arms or of the
    drawn arm.

    If the arms are fixed, features are stored in the decision, with the names of their
    arms.
    """
    names = text_of(
        written(list(decision.features if decision.arms is None else decision.arms))
    )
    plain["arms"] = names.digest
    if decision.features is None:
        return names, ()
    if decision.arms is None:
        plain["features"] = "beside"
        return names, tuple(feature_row(row) for row in decision.features.values())
    known = [arm for arm in decision.arms if arm in decision.features]
    if len(known) != len(decision.arms) and known != [decision.arm]:
        raise InvalidInput(
            f"features must be those of all arms or of the drawn one; got {len(known)} "
            "of them"
        )
    plain["features"] = "all" if len(known) == len(decision.arms) else "drawn"
    return names, tuple(feature_row(decision.features[arm]) for arm in known)


class AnotherValue(Conflict):
    """Error: an event with the value `first` was repeated with another value.

    >>> row = row_of(Reward("visit-7", 0.6, time=0.0), "first")
    >>> print(AnotherValue(row, 0.5).in_units(RewardScale(0.0, 20.0)))
    reward of 'visit-7' must be 10, as it was first; got 12
    """

    def __init__(self, row: EventRow, first: float | None) -> None:
        self.row = row
        self.first = first
        super().__init__(self._sentence(first, row.value))

    def in_units(self, scale: RewardScale) -> Conflict:
        """Return the error with values in the caller's units. Shares of the weight have
        no units."""
        got = self.row.value
        if self.row.kind not in ("reward", "default", "correction"):
            return self
        if self.first is None or got is None:
            return self
        return Conflict(self._sentence(scale.value(self.first), scale.value(got)))

    def _sentence(self, first: float | None, got: float | None) -> str:
        key = f" with key {self.row.key!r}" if self.row.key else ""
        return (
            f"{self.row.kind} of {self.row.id!r}{key} must be {first:.12g}, as it "
            f"was first; got {got:.12g}"
        )


def repeated(
    row: EventRow,
    position: int,
    value: float | None,
    body: str | None,
    *,
    parked: bool = False,
) -> Receipt:
    """Return the receipt of a row that was stored before. `position`, `value` and
    `body` are those of the stored row.

    A decision is identified by its id or unit, and may be repeated with another body.
    """
    if value != row.value:
        return Receipt(position, False, AnotherValue(row, value), parked)
    if row.kind != "decision" and body != row.body:
        same = f"{row.kind} of {row.id!r} must be {body!s:.80}, as it was first"
        return Receipt(
            position, False, Conflict(f"{same}; got {row.body!s:.80}"), parked
        )
    return Receipt(position, False, None, parked)


def unrewarded(row: EventRow) -> Receipt:
    """Return the receipt of a refused correction: its decision has no reward to
    correct."""
    return Receipt(
        0,
        False,
        InvalidInput(f"decision {row.id!r} must have a reward to correct; it has none"),
    )


class DecisionRow(NamedTuple):
    """The columns of a decision. `there` is true if the decision's context still
    exists."""

    plain: dict[str, Any]
    numbers: bytes
    there: bool
    features: bytes | None
    context: str | None


def read_decision(
    row: DecisionRow, names: Mapping[str, str], features: Mapping[str, str]
) -> Decision:
    """Return the decision with its context, or `Erased` in its place.

    `names` and `features` map digests to texts.
    """
    plain = dict(row.plain)
    counts = plain.pop("numbers")
    stored = np.frombuffer(row.numbers, dtype="<f8", count=sum(counts.values()))
    values = stored.astype(np.float64)  # writable copy
    end = 0
    for name, length in counts.items():
        plain[name] = values[end : end + length]
        end += length
    plain.pop("votes", None)
    plain.pop("shadow", None)
    plain.pop("force", None)
    if "control" in plain:
        facts = plain.pop("control")
        plain["control"] = _control_odds(facts["odds"], plain)
        plain |= {name: facts[name] for name in ("holdout", "group", "unit")}
    if plain["eligible"] is not None:
        plain["eligible"] = np.array(plain["eligible"])
    had = plain.pop("context", False)
    known = plain.pop("features", None)
    digests = parts_of(row.features) if row.features else []
    # features may have been erased since the row was read
    there = row.there and all(digest in features for digest in digests)
    if "arms" in plain:
        plain["arms"] = tuple(json.loads(names[plain["arms"]]))
    if had:
        plain["context"] = Erased()
        if there and row.context is not None:
            plain["context"] = decode(json.loads(row.context))
    if known is not None and not there:
        plain["features"] = Erased()
    elif known is not None:
        arms = (plain["arm"],) if known == "drawn" else plain["arms"]
        texts = [features[digest] for digest in digests]
        rows = [decode(json.loads(text)) for text in texts]
        plain["features"] = dict(zip(arms, rows, strict=True))
    if known == "beside":
        del plain["arms"]
    return Decision(**{"context": None} | plain)


def read_evidence(body: str, numbers: bytes) -> Evidence:
    """Return the inputs that the propensities of a decision were computed from."""
    plain: dict[str, Any] = json.loads(body)
    votes = None
    if "votes" in plain:
        votes = unpack_votes(plain["votes"], _after_numbers(plain, numbers))
    shadow, own = _shadow(plain.get("shadow", False))
    return Evidence(votes, shadow, own, *_force(plain))


def read_drawn(
    plain: dict[str, Any] | None, numbers: bytes, names: Mapping[str, str]
) -> Draw | None:
    """Return the draw of an arm; None if the row is damaged.

    `names` contains lists of names by their digests.
    """
    if plain is None:
        return None
    try:
        n_arms = plain["numbers"]["propensities"]
        odds = np.frombuffer(numbers, dtype="<f8", count=n_arms)
        number = plain["index"]
        if number is None:
            number = plain["arm"]
        place = range(len(odds))[number]
        mask = plain["eligible"]
        if mask is not None:
            mask = np.array(mask, dtype=np.bool_)
        offered = None
        if "arms" in plain and plain.get("features") != "beside":
            offered = tuple(json.loads(names[plain["arms"]]))
        votes = None
        form = plain.get("votes")
        if form is not None:
            votes = votes_on(place, form, _after_numbers(plain, numbers))
        shadow = False
        own = None
        if "shadow" in plain:
            shadow, own = _shadow(plain["shadow"])
        draw = Draw(str(plain["arm"]), place, odds, mask, offered, shadow, own, votes)
        if "control" not in plain:
            return draw
        facts = plain["control"]
        known = {"propensities": odds, "eligible": mask}
        return draw._replace(
            control=_control_odds(facts["odds"], known),
            holdout=facts["holdout"] or 0.0,
            group=facts["group"],
            unit=facts["unit"],
        )
    except (KeyError, ValueError, TypeError, IndexError):
        return None


def _force(plain: Mapping[str, Any]) -> tuple[int, dict[int, str], bool]:
    """Return the position of the last operator action, the reasons why arms were not
    eligible, and whether an environment variable had stopped the experiment."""
    facts = plain.get("force", {})
    barred = {int(arm): str(why) for arm, why in facts.get("barred", {}).items()}
    return int(facts.get("action", 0)), barred, bool(facts.get("killed", False))


def _after_numbers(plain: dict[str, Any], numbers: bytes) -> bytes:
    """Return the bytes of the votes, which come last."""
    return numbers[8 * sum(plain["numbers"].values()) :]


def _shadow(shadow: Any) -> tuple[bool, OwnDraw | None]:
    """Return whether an incumbent acted, and the policy's own draw if it was
    recorded."""
    if not isinstance(shadow, dict):
        return bool(shadow), None
    odds = np.array(shadow["odds"], dtype=np.float64)
    return True, OwnDraw(int(shadow["would"]), odds)


def pack_votes(votes: Array) -> tuple[Form, bytes]:
    """Encode ballots (N, K); return the form of the encoding, and the bytes.

    The form contains the number of arms and the name of an encoding. "u1" and "<u2"
    store the number of each expert's arm, or "no arm". "bits" stores which arms share
    the vote of each expert. "f8" stores all numbers unchanged.

    >>> pack_votes(np.array([[0.0, 1.0], [0.0, 0.0]]))
    ((2, 'u1'), b'\\x01\\xff')
    """
    n_experts, n_arms = votes.shape
    # usual case: every expert votes for one arm
    if n_arms < WHOLE[0][1] and np.count_nonzero(votes) == n_experts:
        places = votes.argmax(axis=1)
        if np.count_nonzero(votes[np.arange(n_experts), places] == 1.0) == n_experts:
            return (n_arms, "u1"), places.astype("u1").tobytes()
    cast = votes > 0
    count = cast.sum(axis=1)
    if count.max(initial=0) <= 1 and (votes == cast).all():
        for kind, none in WHOLE:
            if n_arms < none:
                places = np.where(count > 0, cast.argmax(axis=1), none)
                return (n_arms, kind), places.astype(kind).tobytes()
    if (shared(cast) == votes).all():
        return (n_arms, "bits"), np.packbits(cast, axis=1).tobytes()
    return (n_arms, "f8"), np.asarray(votes, dtype="<f8").tobytes()
