"""How figures look: colours that all readers can tell apart, a line style and a marker beside each colour."""

import io
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oddsmith.arrays import Array
from oddsmith.errors import import_extra

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "DASHES", "MARKERS", "band", "panels", "plain", "pyplot", "svg"]

# Okabe and Ito's palette, readable with any kind of colour vision
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
DASHES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)))


def pyplot() -> ModuleType:
    """matplotlib.pyplot, drawing into memory."""
    import_extra("matplotlib", "plots need", "lab").use("Agg")
    return import_module("matplotlib.pyplot")


def panels(n: int = 1, *, height: float = 4.2, width: float = 5.6) -> "tuple[Figure, list[Any]]":
    """A figure and its n panels side by side (a list), without clutter."""
    figure, axes = pyplot().subplots(1, n, figsize=(width * n, height), layout="constrained", squeeze=False)
    for panel in axes[0]:
        panel.grid(alpha=0.3)
        panel.spines[["top", "right"]].set_visible(False)
    return figure, list(axes[0])


def band(panel: "Axes", x: Array, mean: Array, error: Array, i: int, label: str) -> None:
    """A curve with its band of two standard errors, in the i-th colour, dash and marker."""
    again = i // len(COLOURS)  # beyond seven, dashes and markers go on by another step, so that no two lines agree
    colour, every = COLOURS[i % len(COLOURS)], max(1, len(x) // 8)
    dash, marker = DASHES[(i + again) % len(DASHES)], MARKERS[(i + 2 * again) % len(MARKERS)]
    panel.plot(x, mean, color=colour, ls=dash, marker=marker, ms=5, markevery=every, label=plain(label))
    panel.fill_between(x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.15, lw=0)


def plain(label: str) -> str:
    """A label as it is written: no formula between dollars, no hiding behind an underscore.

    >>> plain("_$a$")
    ' _\\\\$a\\\\$'
    """
    shown = label.replace("$", r"\$")
    return f" {shown}" if shown[:1] in ("", "_") else shown


def svg(figure: "Figure") -> str:
    """The figure as SVG text, with letters as shapes, so that it looks the same everywhere; closes the figure."""
    plt = pyplot()
    text = io.StringIO()
    for panel in figure.axes:
        for axis in (panel.xaxis, panel.yaxis):
            if axis.get_scale() == "log":
                _plain_numbers(axis)
    with plt.rc_context({"svg.fonttype": "path", "svg.hashsalt": "oddsmith"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    drawn = text.getvalue()
    return drawn[drawn.index("<svg") :]


def _plain_numbers(axis: "Axis") -> None:
    """1, 10, 100 on a log scale, with 2 and 5 between them where the range is short."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 150 else (1.0,)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: f"{v:,.0f}" if 1 <= v < 1e6 else f"{v:g}"))
    axis.set_minor_formatter(NullFormatter())
