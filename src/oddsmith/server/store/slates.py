"""Slates in a store: ids of slots, and the rules that keep slates and decisions
apart."""

from collections.abc import Sequence

from oddsmith.agent.slate import slot_id
from oddsmith.core.errors import Conflict, InvalidInput, OddsmithError
from oddsmith.server.store.protocol import Receipt
from oddsmith.server.store.rows import EventRow

__all__ = ["OfSlate", "asked_as_decision", "not_kept", "places_of_firsts", "slot_id"]


class OfSlate(InvalidInput):
    """Error: a reward or an activation has the id of a slate instead of the id of a
    slot."""


def asked_as_decision(slate: str, ids: Sequence[str]) -> InvalidInput:
    """Return the error for the id of a slate where a decision is required.

    >>> print(asked_as_decision("page-7", ["page-7#1", "page-7#2"]))
    id must be that of a decision; got 'page-7', which is a slate: ask for those of its
    slots, 'page-7#1', 'page-7#2'
    """
    slots = ", ".join(map(repr, ids[:10]))
    if len(ids) > 10:
        slots += f" and {len(ids) - 10:,} more"
    return InvalidInput(
        f"id must be that of a decision; got {slate!r:.140}, which is a slate: ask for "
        f"those of its slots, {slots}"
    )


def places_of_firsts(rows: Sequence[EventRow]) -> list[int | None]:
    """For each row that is a slot of a slate, return the index of the row with the
    slate's first slot; None for other rows.

    A further slot is stored only if the first one is new. Otherwise two calls for one
    slate with different numbers of slots would mix.
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
    """Return the receipt of a row that is refused.

    This happens if a slate has the id already, if a decision has the id of the slate,
    or if the slate was decided before without this slot.
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
