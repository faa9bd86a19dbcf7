"""retained_positions: choose the snapshots that are not deleted."""

from collections.abc import Sequence

__all__ = ["retained_positions"]


def retained_positions(positions: Sequence[int]) -> set[int]:
    """Return the positions of the snapshots that are not deleted.

    These are the snapshot before any event, the two newest ones, and the oldest one for
    each doubling of age. So there are few snapshots, but for every old reward there is
    one shortly before it, from which the state can be computed again after a
    correction.

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
