"""Folds with the statistics that the dashboard shows."""

from functools import partial

from oddsmith.server.fold import fold
from oddsmith.server.fold.fold import FoldState
from oddsmith.server.statistics import Sums

__all__ = ["advance", "restore", "sums_of"]

restore = partial(fold.restore, statistics=Sums)
advance = partial(fold.advance, statistics=Sums)


def sums_of(folded: FoldState) -> Sums:
    """The statistics of a fold that has them."""
    assert isinstance(folded.sums, Sums)
    return folded.sums
