"""Whole slates: the value of a target that fills all slots, by the product of its slots' weights."""

from functools import partial

import numpy as np

from oddsmith.arrays import Bools
from oddsmith.errors import InvalidInput
from oddsmith.evaluation.rows import Rows, rows_of
from oddsmith.evaluation.slates import Slates, slates_of
from oddsmith.evaluation.terms import Bets, Drawn, Extremes, Terms
from oddsmith.logs.table import Log

__all__ = ["whole_slates"]


def whole_slates(log: Log, target: object) -> Terms:
    """W r of each slate: W = Π π/p over its slots, r the mean of their rewards, which all must have come.

    Its mean is the mean reward per slot of slates that the target fills alone, each slot from what it left itself,
    however the rewards of slots depend on one another. W multiplies where other estimators add, so few logs carry it.

    >>> odds = [[0.5, 0.5, 0.0], [0.5, 0.0, 0.5]] * 2
    >>> log = Log(arm=[0, 2, 1, 0], reward=[1, 0, 1, 1], propensities=odds, slate=list("aabb"), slot=[1, 2, 1, 2])
    >>> whole_slates(log, [[0.8, 0.2, 0], [0.5, 0, 0.5], [0.8, 0.2, 0], [0.5, 0, 0.5]]).values
    array([0.8, 0.4])
    """
    rows = rows_of(log, target)
    kept, slates = _complete(log, rows)
    weights = np.ones((int(slates.number.max()) + 1, int(slates.place.max())))
    missing = np.zeros_like(weights)
    where = slates.number, slates.place - 1
    weights[where], missing[where] = rows.weights[kept], rows.missing[kept]
    whole = weights.prod(axis=1)
    before = np.cumprod(np.insert(weights[:, :-1], 0, 1.0, axis=1), axis=1)
    lost = np.minimum((before * missing).sum(axis=1), 1.0)  # of the target's own slates, as the weights count them
    reward, n = slates.means(rows.reward[kept]), len(whole)
    gain = whole * reward
    return Terms(
        name="ips of whole slates",
        values=gain,
        missing=lost,
        weights=whole,
        least=None if rows.least is None else rows.least ** weights.shape[1],
        bets=Bets(gain, whole - gain, 0.0, 1.0),
        drawn=Drawn((1.0 - lost)[:, None], whole, reward),
        extremes=partial(Extremes, whole, np.zeros(n), np.ones(n)),
        unit="slate",
    )


def _complete(log: Log, rows: Rows) -> tuple[Bools, Slates]:
    """Which of the rewarded rows are of slates that have all their rewards, and the slates that these are.

    Refused where a slot is not in the log.
    """
    alone = Slates(np.arange(len(log)), np.ones(len(log), np.int64))
    number, place, _ = slates_of(log) or alone
    waiting = np.bincount(number, weights=np.isnan(log.reward))[number] > 0
    if waiting.all():
        raise InvalidInput(f"whole slates need all their rewards; got none with them in {len(log):,} rows")
    most = np.bincount(number)[number]
    if (beyond := place > most).any():
        row = int(np.argmax(beyond))
        got = f"slate {log.slate[row]!r:.40} has slot {place[row]}, and {most[row]} slots in all"
        raise InvalidInput(f"whole slates need all their slots; {got}")
    _, numbers = np.unique(number[~waiting], return_inverse=True)
    return ~waiting[rows.known], Slates(numbers, place[~waiting])
