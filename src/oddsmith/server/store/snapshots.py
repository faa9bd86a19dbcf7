"""retained_positions: which snapshots of a state stay."""

from collections.abc import Sequence

__all__ = ["retained_positions"]


def retained_positions(positions: Sequence[int]) -> set[int]:
    """Which snapshots stay: one before any event, the two newest, and of others the
    oldest for each doubling of age.

    So there are few of them, and a correction of an old reward still finds one not far
    before it.

    >>> sorted(retained_positions([10, 20, 30, 40, 50, 60, 70, 80]))
    [10, 20, 50, 70, 80]
    """
    ordered = sorted(positions)
    oldest: dict[int, int] = {}
    for position in ordered:
        oldest.setdefault((ordered[-1] - position).bit_length(), position)
    return {
        *oldest.values(),
        *ordered[-2:],
        *(position for position in ordered if position == 0),
    }
