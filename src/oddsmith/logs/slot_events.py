"""dsjson of several slots: one event about a slate, a row of ours for each of its
slots.

    {"_outcomes": [{"_label_cost": -1, "_id": "top", "_a": [2, 0, 1], "_p": [0.6, 0.2, 0.2]}, …], "EventId": "…",
     "c": {shared features, "_multi": [features of each arm], "_slots": [{"_id": "top", "sj": [features]}, …]}}

Actions count from 0 here; `_a` has the drawn one first and lists what is left, so an
action that an earlier slot took is not in it. A row's context is what a service with
slots makes of the same call: the shared features, the slot's number as "slot", and the
slot's own features.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oddsmith.agent.slate import Slot, slot_context, slot_id
from oddsmith.contexts.flat import flat
from oddsmith.core.errors import BrokenLog, InvalidInput

__all__ = ["are_slots", "slot_rows"]

Shared = Callable[[Mapping[str, Any], int], dict[str, Any]]
"""Names, features and context of what an event says of all slots."""


def are_slots(event: Mapping[str, Any]) -> bool:
    """Whether an event is about several slots."""
    return "_outcomes" in event or (
        isinstance(event.get("c"), dict) and "_slots" in event["c"]
    )


def slot_rows(
    event: Mapping[str, Any], i: int, shared: Shared, odds: Callable[..., Any]
) -> list[dict[str, Any]]:
    """The rows of an event by our columns; a violation names row `i`. `odds` reads
    those of a decision among arms."""
    slots, outcomes = _pairs(event, i)
    about = {key: value for key, value in event["c"].items() if key != "_slots"}
    actions = _objects(about.get("_multi"), "c", "a list of actions in _multi", i)
    common, slate = {"context": about} | shared(about, i), _slate(event, i)
    rows: list[dict[str, Any]] = []
    for place, (slot, outcome) in enumerate(zip(slots, outcomes, strict=True), 1):
        left = _left(outcome, len(actions), [row["arm"] for row in rows], i)
        one = {
            "p": outcome.get("_p"),
            "_label_cost": None
            if event.get("_skipLearn")
            else outcome.get("_label_cost"),
        }
        row = common | odds(one, left, i, len(actions))
        row |= {"arm": left[0], "eligible": np.isin(np.arange(len(actions)), left)}
        row |= {
            "slate": slate,
            "slot": place,
            "decision_id": slot_id(slate, slot.name),
            "time": event.get("Timestamp"),
        }
        try:
            row["context"] = slot_context(common["context"], place, slot)
        except InvalidInput as error:
            raise BrokenLog("c", i, str(error)) from error
        rows.append(row)
    return rows


def _pairs(
    event: Mapping[str, Any], i: int
) -> tuple[list[Slot], list[Mapping[str, Any]]]:
    """The slots, with distinct names, and what came of them, in one order."""
    slots = _objects(event["c"].get("_slots"), "c", "a list of slots in _slots", i)
    outcomes = _objects(
        event.get("_outcomes"), "_outcomes", "an object for each slot", i
    )
    if len(slots) != len(outcomes):
        raise BrokenLog(
            "_outcomes", i, f"must be of the {len(slots)} slots; got {len(outcomes)}"
        )
    found = []
    for place, (slot, outcome) in enumerate(zip(slots, outcomes, strict=True), 1):
        own, other = (one.get("_id") for one in (slot, outcome))
        if None not in (own, other) and own != other:
            raise BrokenLog(
                "_outcomes",
                i,
                f"must be in the order of _slots; got {other!r:.40} for {own!r:.40}",
            )
        name = (
            str(place)
            if own is None and other is None
            else str(other if own is None else own)
        )
        found.append(Slot(name, _features(slot, i) or None))
    if len({slot.name for slot in found}) < len(found):
        raise BrokenLog(
            "c",
            i,
            "must have slots with distinct _id; got "
            f"{[slot.name for slot in found]!r:.60}",
        )
    return found, outcomes


def _objects(listed: object, where: str, what: str, i: int) -> list[Mapping[str, Any]]:
    if (
        not isinstance(listed, list)
        or not listed
        or not all(isinstance(one, dict) for one in listed)
    ):
        raise BrokenLog(where, i, f"must have {what}; got {listed!r:.60}")
    return listed


def _features(slot: Mapping[str, Any], i: int) -> dict[str, Any]:
    try:
        own = slot.get("sj")
        listed = (
            own
            if isinstance(own, list) and all(isinstance(one, dict) for one in own)
            else None
        )
        rest = {
            key: value for key, value in slot.items() if listed is None or key != "sj"
        }
        return flat([rest, *(listed or ())])
    except InvalidInput as error:
        raise BrokenLog("c", i, f"slots: {error}") from error


def _left(
    outcome: Mapping[str, Any], n: int, taken: Sequence[int], i: int
) -> list[int]:
    """The actions that a slot could show, from 0 on, the drawn one first."""
    left = outcome.get("_a")
    if (
        not isinstance(left, list)
        or not left
        or not all(type(a) is int and 0 <= a < n for a in left)
    ):
        raise BrokenLog(
            "_a", i, f"must be numbers of actions from 0 to {n - 1}; got {left!r:.60}"
        )
    if len(set(left)) < len(left):
        raise BrokenLog("_a", i, f"must have each action once; got {left!r:.60}")
    if gone := [a for a in left if a in taken]:
        raise BrokenLog(
            "_a",
            i,
            f"must be actions that are left; got {gone[0]}, which a slot before has "
            "taken",
        )
    return left


def _slate(event: Mapping[str, Any], i: int) -> str:
    id = event.get("EventId")
    text = str(id) if isinstance(id, int) and not isinstance(id, bool) else id
    if (
        not isinstance(text, str)
        or not text
        or any("\ud800" <= one <= "\udfff" for one in text)
    ):
        raise BrokenLog(
            "EventId", i, f"must be the text that names the slate; got {id!r:.60}"
        )
    return text
