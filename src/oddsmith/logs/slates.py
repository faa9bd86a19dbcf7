"""Slates in a log: decisions that were made together, each for a slot; a decision that
stands alone has none."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddsmith.core.errors import BrokenLog, InvalidInput

__all__ = ["check_slates", "filled", "has_slates", "slate_column", "slot_column"]

if TYPE_CHECKING:
    from oddsmith.logs.table import Log


def slate_column(rows: Collection[object]) -> npt.NDArray[np.object_]:
    """The slate of each row: text, or None where a decision stands alone."""
    column = np.empty(len(rows), dtype=object)
    for row, one in enumerate(rows):
        alone = one is None or one != one
        if not alone and (not isinstance(one, str) or not one):
            raise BrokenLog(
                "slate",
                row,
                f"must be text, or None where a decision stands alone; got {one!r:.60}",
            )
        column[row] = None if alone else str(one)
    return column


def slot_column(rows: Collection[object]) -> Collection[object]:
    """The slot of each row, 0 where there is none; whether these are whole numbers is
    not checked yet."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu":
        return rows
    return [0 if one is None or one != one else one for one in rows]


def check_slates(log: "Log") -> None:
    """Refuses a slate without slots or slots without a slate, a place below 1, and a
    pair that was there before."""
    if (log.slate is None) != (log.slot is None):
        absent = "slot" if log.slot is None else "slate"
        raise InvalidInput(
            f"columns slate and slot must be there together; {absent} is not"
        )
    if log.slate is None or log.slot is None:
        return
    seen: set[tuple[str, int]] = set()
    for row, (slate, slot) in enumerate(
        zip(log.slate.tolist(), log.slot.tolist(), strict=True)
    ):
        if (slate is None) != (slot == 0):
            raise BrokenLog(
                "slot",
                row,
                f"must be 1 or more in a slate, and 0 where there is none; got {slot}",
            )
        if slot < 0:
            raise BrokenLog("slot", row, f"must be 1 or more in a slate; got {slot}")
        if slate is not None and (slate, slot) in seen:
            raise BrokenLog(
                "slot",
                row,
                f"must be there once in a slate; got {slot} of {slate!r:.60} again",
            )
        seen.add((slate, slot))


def has_slates(log: "Log") -> bool:
    """Whether some decisions of a log were made together."""
    return log.slot is not None and bool((log.slot > 0).any())


def filled(parts: Sequence[dict[str, Any]]) -> None:
    """Gives the parts of a log that lack slates what other parts have: none."""
    if all(part.get("slate") is None for part in parts):
        return
    for part in parts:
        if part.get("slate") is None:
            part |= _alone(len(part["arm"]))


def _alone(rows: int) -> Mapping[str, npt.NDArray[np.generic]]:
    return {
        "slate": np.full(rows, None, dtype=object),
        "slot": np.zeros(rows, dtype=np.int64),
    }
