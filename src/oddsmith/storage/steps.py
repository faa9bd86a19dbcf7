"""The steps of a fold: what is due, with the decisions that it is about."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oddsmith.decision import Decision
from oddsmith.storage.accounts import Count, Shown
from oddsmith.storage.base import Foldable, Line, Reading
from oddsmith.storage.drawn import Drawn
from oddsmith.storage.due import due_after
from oddsmith.storage.sums import FORM, Step, Sums

__all__ = ["sums_at", "with_decisions"]

_CHUNK = 500  # decisions in memory at a time


def with_decisions(store: Foldable, items: Sequence[Count | Shown | Line], sums: Sums | None = None) -> Iterator[Step]:
    """The steps of a fold, with the decisions that were settled, and with what `sums` need, where they are kept."""
    for first in range(0, len(items), _CHUNK):
        chunk = items[first : first + _CHUNK]
        made = [item.made for item in chunk if isinstance(item, Count)]
        decisions: dict[int, Decision] = {}
        drawn: dict[int, Drawn | None] = {}
        if sums is None:
            decisions |= zip(made, store.decisions(made), strict=True)
        else:
            for position, (decision, draw) in zip(made, store.settled(made), strict=True):
                decisions[position], drawn[position] = decision, draw
            shown = [position for item in chunk if (position := _shown(item)) and position not in drawn]
            drawn |= zip(shown, store.drawn(shown), strict=True)
        for item in chunk:
            if isinstance(item, Count):
                yield Step(item, decisions[item.made], drawn.get(item.made))
            else:
                yield Step(item, None, drawn.get(_shown(item)))


def sums_at(store: Reading, position: int, kept: Mapping[str, Any] | None) -> Sums:
    """The sums as a snapshot at this position has kept them; where it has none, or others, from the log.

    Weights on the way are not in the log: there they begin anew.
    """
    if kept is not None and kept.get("form") == FORM:
        return Sums.from_json(kept)
    none = Sums.of(store.about)
    return none.after(with_decisions(store, due_after(store, 0, position).items, none))


def _shown(item: Count | Shown | Line) -> int:
    """The position of the decision that an item shows; 0 if it shows none."""
    if isinstance(item, Shown):
        return item.made
    return item.position if isinstance(item, Line) and item.kind == "decision" and not item.deferred else 0
