"""Ids that come again: whether the first answer may still be given."""

from collections.abc import Hashable, Sequence

from oddsmith.arrays import Bools
from oddsmith.errors import Conflict

__all__ = ["check_again"]


def check_again(what: str, arm: Hashable, names: Sequence[Hashable] | None, eligible: Bools | None) -> None:
    """Refuses to answer again with an arm that the repeated call does not offer, or that is not eligible in it."""
    if names is None:
        return
    if arm not in names:
        had = f"{what} was answered with arm {arm!r}, which is not among those offered now"
        raise Conflict(f"{had}; offer it, or ask with another id")
    if eligible is not None and not eligible[list(names).index(arm)]:
        had = f"{what} was answered with arm {arm!r}, which is not eligible now"
        raise Conflict(f"{had}; make it eligible, or ask with another id")
