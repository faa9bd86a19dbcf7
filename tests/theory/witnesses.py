"""Losses whose counterexamples are known, and a bound of kappa_2 in plain loops."""

from typing import Any, NamedTuple

import numpy as np

__all__ = ["OFF_CENTRE", "OffCentre", "plain_kappa2"]


class OffCentre(NamedTuple):
    """A loss that breaks C1, the edges of its cells, and the mean and prediction of the
    largest excess."""

    text: str
    low: float
    high: float
    cells: int
    f: float
    g: float

    @property
    def edges(self) -> Any:
        return np.linspace(self.low, self.high, self.cells + 1)


# Means are middles of cells: 9/32 … 23/32. A step is the slope of the expected loss by
# its weight, at most a quarter of the range (1/8), and does not leave the range.
OFF_CENTRE = {
    "a tenth lower": OffCentre(
        "(g-r)**2/10 + g**2/100", 0.25, 0.75, 8, 23 / 32, 0.9 * 23 / 32
    ),
    "a quarter lower": OffCentre("(g-r)**2 + g**2", 0.25, 0.75, 8, 23 / 32, 19 / 32),
    "a quarter higher": OffCentre("(g-r)**2 - g**2/2", 0.25, 0.75, 8, 19 / 32, 23 / 32),
    "lowest": OffCentre("(g-r)**2 - exp(-9*g)", 0.0, 1.0, 3, 1 / 6, 0.0),
    "highest": OffCentre("(g-r)**2 - exp(9*g - 9)", 0.0, 1.0, 3, 5 / 6, 1.0),
}


def plain_kappa2(edges: Any, low: Any, high: Any, area: Any, top: Any) -> float:
    """The largest bound over cells of mean and prediction, one at a time; M_1 between
    two edges is in [low, high]."""
    worst = 0.0
    cells = range(len(edges) - 1)
    for i in cells:
        shares = [edges[i], edges[i + 1]]
        if shares[0] <= 0.5 <= shares[1]:
            shares.append(0.5)
        variance = max(share * (1 - share) for share in shares)
        for j in cells:
            far = (i, j + 1) if j >= i else (i + 1, j)
            near = (i + 1, j) if j >= i else (i, j + 1)
            growth = 2 * max(top[min(i, j) : max(i, j) + 1])
            if abs(i - j) > 1 and low[near] > 0:
                growth = min(growth, area[far] ** 2 / low[near])
            worst = max(worst, high[far] + variance * growth)
    return worst
