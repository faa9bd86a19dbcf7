"""Slates in a store: the id of a slot's decision, and what keeps the slots of a slate together."""

from collections.abc import Sequence

from oddsmith.errors import Conflict
from oddsmith.slate import slot_id
from oddsmith.storage.base import Receipt
from oddsmith.storage.rows import EventRow

__all__ = ["other_slots", "places_of_firsts", "slot_id"]


def places_of_firsts(rows: Sequence[EventRow]) -> list[int | None]:
    """For each row that is a further slot of a slate, the place of the row that is its first; else None.

    A further slot is kept only where the first one is new: else two calls for one slate, of which one has more slots,
    would become a slate that was never drawn.
    """
    firsts: dict[str, int] = {}
    places: list[int | None] = []
    for place, row in enumerate(rows):
        slate, slot = row.columns[10:12]
        if slot == 1:
            firsts[slate] = place
        places.append(firsts.get(slate) if slot is not None and slot > 1 else None)
    return places


def other_slots(row: EventRow) -> Receipt:
    """The receipt of a slot that a slate, which was there before, does not have."""
    slate, slot = row.columns[10:12]
    return Receipt(0, False, Conflict(f"slate {slate!r:.80} was decided before, without a slot {slot}"))
