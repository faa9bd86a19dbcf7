"""Slates in a log. The decisions of a slate were made together, each for one slot. A
decision without slots has no slate."""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from oddsmith.core.errors import BrokenLog, InvalidInput

__all__ = [
    "add_missing_slates",
    "check_slates",
    "has_slates",
    "slate_column",
    "slot_column",
]

if TYPE_CHECKING:
    from oddsmith.logs.table import Log


def slate_column(rows: Collection[object]) -> npt.NDArray[np.object_]:
    """Return the slate of each row as text, or None for a decision without slots."""
    column = np.empty(len(rows), dtype=object)
    for row, slate in enumerate(rows):
        if slate is None or slate != slate:
            continue  # the column already contains None
        if not isinstance(slate, str) or not slate:
            raise BrokenLog(
                "slate",
                row,
                "must be text, or None where a decision stands alone; got "
                f"{slate!r:.60}",
            )
        column[row] = str(slate)
    return column


def slot_column(rows: Collection[object]) -> Collection[object]:
    """Return the slot of each row, or 0 for a row without one. A later check ensures
    that slots are whole numbers."""
    if isinstance(rows, np.ndarray) and rows.dtype.kind in "iu":
        return rows
    return [0 if slot is None or slot != slot else slot for slot in rows]


def check_slates(log: "Log") -> None:
    """Raise an error for a slate without slots, slots without a slate, a slot below 1,
    or a pair of slate and slot that occurs twice."""
    if (log.slate is None) != (log.slot is None):
        absent = "slot" if log.slot is None else "slate"
        raise InvalidInput(
            f"columns slate and slot must be given together; {absent} is missing"
        )
    if log.slate is None or log.slot is None:
        return
    seen: set[tuple[str, int]] = set()
    pairs = zip(log.slate.tolist(), log.slot.tolist(), strict=True)
    for row, (slate, slot) in enumerate(pairs):
        if (slate is None) != (slot == 0):
            raise BrokenLog(
                "slot",
                row,
                f"must be 1 or more in a slate, and 0 where there is none; got {slot}",
            )
        if slot < 0:
            raise BrokenLog("slot", row, f"must be 1 or more in a slate; got {slot}")
        if slate is None:
            continue
        if (slate, slot) in seen:
            raise BrokenLog(
                "slot",
                row,
                f"must be unique in a slate; got {slot} of {slate!r:.60} again",
            )
        seen.add((slate, slot))


def has_slates(log: "Log") -> bool:
    """Return whether the log has decisions with slots."""
    return log.slot is not None and bool((log.slot > 0).any())


def add_missing_slates(parts: Sequence[dict[str, Any]]) -> None:
    """Add empty slates to the parts of a log that have none, if other parts have
    slates."""
    if all(part.get("slate") is None for part in parts):
        return
    for part in parts:
        if part.get("slate") is None:
            rows = len(part["arm"])
            part["slate"] = np.full(rows, None, dtype=object)
            part["slot"] = np.zeros(rows, dtype=np.int64)
