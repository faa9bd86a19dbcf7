"""Read dsjson events of several slots: an event about a slate gives one row per slot.

    {"_outcomes": [{"_label_cost": -1, "_id": "top", "_a": [2, 0, 1], "_p": [0.6, 0.2,
    0.2]}, …], "EventId": "…", "c": {shared features, "_multi": [features of each arm],
    "_slots": [{"_id": "top", "sj": [features]}, …]}}

Actions are numbered from 0 in this format. `_a` lists the actions that earlier slots
did not take, with the drawn action first. The context of a row is the same as in a
service with slots: the shared features, the slot's number as "slot", and the slot's own
features.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from oddsmith.agent.slate import Slot, slot_context, slot_id
from oddsmith.contexts.flat import flat
from oddsmith.core.errors import BrokenLog, InvalidInput
from oddsmith.logs.jsonl import is_list_of

__all__ = ["are_slots", "slot_rows"]

Shared = Callable[[Mapping[str, Any], int], dict[str, Any]]
"""A function that reads the names, features and context that all slots of an event
share."""


def are_slots(event: Mapping[str, Any]) -> bool:
    """Return whether the event is about several slots."""
    if "_outcomes" in event:
        return True
    return isinstance(event.get("c"), dict) and "_slots" in event["c"]


def slot_rows(
    event: Mapping[str, Any], i: int, shared: Shared, odds: Callable[..., Any]
) -> list[dict[str, Any]]:
    """Return the rows of an event in the columns of `Log`. Errors name row `i`. The
    function `odds` reads the propensities of one decision."""
    slots, outcomes = _slots_and_outcomes(event, i)
    about = {key: value for key, value in event["c"].items() if key != "_slots"}
    actions = _objects(about.get("_multi"), "c", "a list of actions in _multi", i)
    n_arms = len(actions)
    common: dict[str, Any] = {"context": about}
    common |= shared(about, i)
    slate = _slate(event, i)
    rows: list[dict[str, Any]] = []
    taken: list[int] = []
    for place, (slot, outcome) in enumerate(zip(slots, outcomes, strict=True), 1):
        left = _remaining_actions(outcome, n_arms, taken, i)
        taken.append(left[0])
        cost = None if event.get("_skipLearn") else outcome.get("_label_cost")
        one = {"p": outcome.get("_p"), "_label_cost": cost}
        row = common | odds(one, left, i, n_arms)
        row["arm"] = left[0]
        row["eligible"] = np.isin(np.arange(n_arms), left)
        row["slate"] = slate
        row["slot"] = place
        row["decision_id"] = slot_id(slate, slot.name)
        row["time"] = event.get("Timestamp")
        try:
            row["context"] = slot_context(common["context"], place, slot)
        except InvalidInput as error:
            raise BrokenLog("c", i, str(error)) from error
        rows.append(row)
    return rows


def _slots_and_outcomes(
    event: Mapping[str, Any], i: int
) -> tuple[list[Slot], list[Mapping[str, Any]]]:
    """Return the slots, which must have distinct names, and their outcomes in the same
    order."""
    objects = _objects(event["c"].get("_slots"), "c", "a list of slots in _slots", i)
    outcomes = _objects(
        event.get("_outcomes"), "_outcomes", "an object for each slot", i
    )
    if len(objects) != len(outcomes):
        raise BrokenLog(
            "_outcomes", i, f"must be of the {len(objects)} slots; got {len(outcomes)}"
        )
    slots = []
    for place, (slot, outcome) in enumerate(zip(objects, outcomes, strict=True), 1):
        id = slot.get("_id")
        outcome_id = outcome.get("_id")
        if id is None:
            id = outcome_id
        if outcome_id not in (None, id):
            raise BrokenLog(
                "_outcomes",
                i,
                f"must be in the order of _slots; got {outcome_id!r:.40} for "
                f"{id!r:.40}",
            )
        name = str(place if id is None else id)
        slots.append(Slot(name, _features(slot, i) or None))
    names = [slot.name for slot in slots]
    if len(set(names)) < len(names):
        raise BrokenLog("c", i, f"must have slots with distinct _id; got {names!r:.60}")
    return slots, outcomes


def _objects(value: Any, where: str, what: str, i: int) -> list[Mapping[str, Any]]:
    if not value or not is_list_of(value, dict):
        raise BrokenLog(where, i, f"must have {what}; got {value!r:.60}")
    objects: list[Mapping[str, Any]] = value
    return objects


def _features(slot: Mapping[str, Any], i: int) -> dict[str, Any]:
    others = dict(slot)
    lists: list[Any] = []
    if is_list_of(slot.get("sj"), dict):
        lists = others.pop("sj")
    try:
        return flat([others, *lists])
    except InvalidInput as error:
        raise BrokenLog("c", i, f"slots: {error}") from error


def _remaining_actions(
    outcome: Mapping[str, Any], n: int, taken: Sequence[int], i: int
) -> list[int]:
    """Return the actions that were left for a slot, numbered from 0, with the drawn one
    first."""
    left: Any = outcome.get("_a")
    if not left or not is_list_of(left, int) or not all(0 <= a < n for a in left):
        raise BrokenLog(
            "_a", i, f"must be numbers of actions from 0 to {n - 1}; got {left!r:.60}"
        )
    if len(set(left)) < len(left):
        raise BrokenLog("_a", i, f"must have each action once; got {left!r:.60}")
    for action in left:
        if action in taken:
            raise BrokenLog(
                "_a",
                i,
                f"must be actions that are left; got {action}, which an earlier slot "
                "took",
            )
    return list(left)


def _slate(event: Mapping[str, Any], i: int) -> str:
    id = event.get("EventId")
    text: Any = str(id) if type(id) is int else id
    has_text = isinstance(text, str) and bool(text)
    if not has_text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise BrokenLog(
            "EventId", i, f"must be the text that names the slate; got {id!r:.60}"
        )
    return str(text)
