"""The steps of a fold: what is due, with the decisions that it is about."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from oddsmith.storage.accounts import Count, Shown
from oddsmith.storage.base import Foldable, Line, Reading
from oddsmith.storage.drawn import Drawn
from oddsmith.storage.due import due_after
from oddsmith.storage.sums import FORM, Step, Sums

__all__ = ["sums_at", "with_decisions"]

_CHUNK = 500  # decisions in memory at a time


def with_decisions(store: Foldable, items: Sequence[Count | Shown | Line], sums: Sums | None = None) -> Iterator[Step]:
    """The steps of a fold, with the decisions that were settled, and with what `sums` need, where they are kept.

    What an incumbent acted for is not in a decision, so it is read apart; but only once an incumbent has acted.
    """
    shadow = sums is not None and sums.shadow
    for first in range(0, len(items), _CHUNK):
        chunk = items[first : first + _CHUNK]
        settled = [item.made for item in chunk if isinstance(item, Count)]
        decisions = dict(zip(settled, store.decisions(settled), strict=True))
        drawn: dict[int, Drawn | None] = {}
        if sums is not None:
            shown = [made for item in chunk if (made := _shown(item))]
            drawn = dict(zip(shown, store.drawn(shown), strict=True))
            shadow = shadow or any(one is not None and one.shadow for one in drawn.values())
            missing = [position for position in decisions if position not in drawn]
            apart = store.drawn(missing) if shadow else map(Drawn.of, map(decisions.__getitem__, missing))
            drawn |= zip(missing, apart, strict=True)
        for item in chunk:
            made = item.made if isinstance(item, Count) else _shown(item)
            yield Step(item, decisions[made] if isinstance(item, Count) else None, drawn.get(made))


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
