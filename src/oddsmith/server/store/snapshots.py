"""retained_positions: the snapshots of a state that stay."""

from collections.abc import Sequence

__all__ = ["retained_positions"]


def retained_positions(positions: Sequence[int]) -> set[int]:
    """Return the positions of the snapshots that stay.

    These are one before any event, the two newest, and the oldest for each doubling of
    age. They are few, but a correction of an old reward still finds one shortly before
    it.

    >>> sorted(retained_positions([10, 20, 30, 40, 50, 60, 70, 80]))
    [10, 20, 50, 70, 80]
    """
    ordered = sorted(positions)
    oldest: dict[int, int] = {}
    for position in ordered:
        oldest.setdefault((ordered[-1] - position).bit_length(), position)
    stay = {*oldest.values(), *ordered[-2:]}
    if 0 in ordered:
        stay.add(0)
    return stay
