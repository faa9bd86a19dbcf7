"""Lines that several figures draw: means with two standard errors, and totals over
time."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.files.reports.style import COLOURS, DASHES, MARKERS, band
from oddsmith.lab.run import mean_and_error

__all__ = ["draw_growth", "draw_means", "line_style", "means_and_errors"]


def line_style(i: int, *, marked: bool = False) -> dict[str, Any]:
    """Return the colour, the dashes and optionally the marker of line `i`."""
    style: dict[str, Any] = {"color": COLOURS[i], "ls": DASHES[i]}
    if marked:
        style["marker"] = MARKERS[i]
    return style


def means_and_errors(totals: Sequence[Array] | Array) -> tuple[Array, Array]:
    """Return the means and standard errors, (n,) each, of samples (n, runs)."""
    table = np.array([mean_and_error(total) for total in totals])
    return table[:, 0], table[:, 1]


def draw_means(panel: Any, x: Any, totals: Sequence[Array], i: int, label: str) -> None:
    """Draw means with two standard errors in colour `i`."""
    means, errors = means_and_errors(totals)
    style = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 5}
    panel.errorbar(x, means, 2 * errors, label=label, **style)


def draw_growth(
    panel: Any, totals: Array, i: int, label: str, *, points: int = 50
) -> None:
    """Draw a total (T, runs) against the number of steps, at points evenly spaced on a
    log scale."""
    even = np.geomspace(1, len(totals), points)
    steps = np.unique(even.round().astype(int))
    means, errors = means_and_errors(totals[steps - 1])
    band(panel, steps, means, errors, i, label)
