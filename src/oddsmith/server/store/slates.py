"""Slates in a store: the id of a slot's decision, what keeps the slots of a slate
together, and ids apart."""

from collections.abc import Sequence

from oddsmith.agent.slate import slot_id
from oddsmith.core.errors import Conflict, InvalidInput, OddsmithError
from oddsmith.server.store.protocol import Receipt
from oddsmith.server.store.rows import EventRow

__all__ = ["OfSlate", "asked_as_decision", "not_kept", "places_of_firsts", "slot_id"]


class OfSlate(InvalidInput):
    """A reward or an activation has the id of a slate, whose slots have ids of their
    own."""


def asked_as_decision(slate: str, ids: Sequence[str]) -> InvalidInput:
    """The refusal of a slate's id where a decision's is asked for, with the ids of its
    slots.

    >>> print(asked_as_decision("page-7", ["page-7#1", "page-7#2"]))
    id must be that of a decision; got 'page-7', which is a slate: ask for those of its
    slots, 'page-7#1', 'page-7#2'
    """
    told = ", ".join(repr(id) for id in ids[:10]) + (
        f" and {len(ids) - 10:,} more" if len(ids) > 10 else ""
    )
    had = f"id must be that of a decision; got {slate!r:.140}, which is a slate"
    return InvalidInput(f"{had}: ask for those of its slots, {told}")


def places_of_firsts(rows: Sequence[EventRow]) -> list[int | None]:
    """For each row that is a further slot of a slate, the place of the row that is its
    first; else None.

    A further slot is kept only where the first one is new: else two calls for one
    slate, of which one has more slots, would become a slate that was never drawn.
    """
    firsts: dict[str, int] = {}
    places: list[int | None] = []
    for place, row in enumerate(rows):
        if row.slate is None or row.slot is None:
            places.append(None)
        elif row.slot == 1:
            firsts[row.slate] = place
            places.append(None)
        else:
            places.append(firsts.get(row.slate))
    return places


def not_kept(row: EventRow) -> Receipt:
    """The receipt of a row that is neither written nor there before.

    A slate has its id, or a decision has that of its slate, or the slate was there
    before, without this slot.
    """
    refusal: OddsmithError
    if row.slot == 1:
        refusal = Conflict(
            f"id {row.slate!r:.140} is that of a decision; ask for slots with another "
            "id"
        )
    elif row.slot is not None:
        refusal = Conflict(
            f"slate {row.slate!r:.80} was decided before, without a slot {row.slot}"
        )
    elif row.kind == "decision":
        refusal = Conflict(
            f"id {row.id!r:.140} is that of a slate; ask with another id"
        )
    else:
        refusal = OfSlate(
            f"id must be that of a decision; got {row.id!r:.140}, which is a slate"
        )
    return Receipt(0, False, refusal)
