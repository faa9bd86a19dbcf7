"""How figures look: colours that all readers can tell apart, a line style and a marker
beside each colour."""

import io
from importlib import import_module
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from oddsmith.core.arrays import Array
from oddsmith.core.errors import import_extra
from oddsmith.files.reports.figure import alone, themed
from oddsmith.files.reports.theme import COLOURS, EDGE, INK, RULE, SHEET, SOFT

__all__ = [
    "COLOURS",
    "DASHES",
    "EDGE",
    "INK",
    "LOOK",
    "MARKERS",
    "RULE",
    "SHEET",
    "SOFT",
    "band",
    "check_drawing",
    "legend",
    "panels",
    "plain",
    "pyplot",
    "save",
    "svg",
]

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure


MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p")
DASHES = (
    "-",
    "--",
    "-.",
    ":",
    (0, (5, 1)),
    (0, (3, 1, 1, 1)),
    (0, (1, 1)),
    (0, (8, 2, 2, 2)),
)
LOOK: dict[str, Any] = {
    "svg.fonttype": "none",
    "svg.hashsalt": "oddsmith",
    "figure.facecolor": "none",
    "savefig.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": EDGE,
    "axes.labelcolor": SOFT,
    "axes.axisbelow": True,
    "axes.prop_cycle": f"cycler('color', {list(COLOURS)!r})",
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": RULE,
    "xtick.color": EDGE,
    "ytick.color": EDGE,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
}
_CHARACTERS = 11.5  # of a label, in an inch


def check_drawing() -> None:
    """Refuse a report with figures where they cannot be drawn, before what it is about
    is computed."""
    import_extra("matplotlib", "reports with figures need", "lab")


def pyplot() -> ModuleType:
    """matplotlib.pyplot, drawing into memory."""
    import_extra("matplotlib", "plots need", "lab").use("Agg")
    return import_module("matplotlib.pyplot")


def panels(
    n: int = 1, *, height: float = 3.6, width: float | None = None
) -> "tuple[list[Figure], list[Any]]":
    """n figures with a panel each, and the panels; on a wide page they stand side by
    side, on a narrow one below.

    One panel is as wide as a phone can show with letters that can be read; so are
    several, below each other.
    """
    plt, figures, axes = pyplot(), [], []
    inches = width or (5.8 if n == 1 else 4.6)
    with plt.rc_context(LOOK):
        for _ in range(n):
            figure, panel = plt.subplots(figsize=(inches, height), layout="constrained")
            figures.append(figure)
            axes.append(panel)
    return figures, axes


def legend(panel: "Axes", *, title: str | None = None) -> None:
    """Names of the lines above the panel, where they hide nothing, in as many columns
    as there is room for."""
    handles, labels = panel.get_legend_handles_labels()
    figure: Any = panel.figure
    width, height = figure.get_size_inches()
    fits = int(width * _CHARACTERS) // (max(map(len, labels), default=0) + 8)
    columns = max(1, min(len(labels), fits))
    figure.set_size_inches(
        width, height + 0.2 * (ceil(len(labels) / columns) + bool(title))
    )
    figure.legend(
        handles,
        labels,
        loc="outside upper left",
        frameon=False,
        ncols=columns,
        title=title,
        alignment="left",
    )


def band(
    panel: "Axes", x: Array, mean: Array, error: Array, i: int, label: str
) -> None:
    """A curve with its band of two standard errors, in the i-th colour, dash and
    marker."""
    # beyond eight, dashes and markers go on by another step, so that no two lines agree
    again = i // len(COLOURS)
    colour, every = COLOURS[i % len(COLOURS)], max(1, len(x) // 8)
    dash, marker = (
        DASHES[(i + again) % len(DASHES)],
        MARKERS[(i + 2 * again) % len(MARKERS)],
    )
    panel.plot(
        x,
        mean,
        color=colour,
        ls=dash,
        marker=marker,
        ms=5,
        markevery=every,
        label=plain(label),
    )
    panel.fill_between(
        x, mean - 2 * error, mean + 2 * error, color=colour, alpha=0.15, lw=0
    )


def plain(label: str, most: int = 56) -> str:
    """A label as it is written: no formula in dollars, no hiding behind an underscore;
    a long one loses its middle.

    >>> plain("_$a$"), plain("a name without end", 11)
    (' _\\\\$a\\\\$', 'a nam…t end')
    """
    short = (
        label
        if len(label) <= most
        else f"{label[: most // 2]}…{label[-((most - 1) // 2) :]}"
    )
    shown = short.replace("$", r"\$")
    return f" {shown}" if shown[:1] in ("", "_") else shown


def svg(figures: "list[Figure]") -> str:
    """The figures as SVG text, an element each, that follows the theme of its page;
    closes the figures."""
    plt, drawn = pyplot(), []
    for figure in figures:
        text = io.StringIO()
        for panel in figure.axes:
            _finish(panel)
        with plt.rc_context(LOOK):
            figure.savefig(text, format="svg", metadata={"Date": None})
        drawn.append(themed(text.getvalue(), "; ".join(map(_told, figure.axes))))
        plt.close(figure)
    return "\n".join(drawn)


def save(figures: "list[Figure]", path: Path) -> None:
    """Write the figures as one SVG file, which follows the theme of its reader."""
    path.write_text(alone(svg(figures)), encoding="utf-8")


def _finish(panel: "Axes") -> None:
    """Puts the title to the left, where the eye begins, and plain numbers on log
    scales."""
    if title := panel.get_title():
        panel.set_title("")
        panel.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
    for axis in (panel.xaxis, panel.yaxis):
        if axis.get_scale() == "log":
            _plain_numbers(axis)


def _told(panel: "Axes") -> str:
    """What is drawn against what, and the names of the lines, for those who do not see
    the panel."""
    axes = " against ".join(
        name for name in (panel.get_ylabel(), panel.get_xlabel()) if name
    )
    names = ", ".join(
        label.strip().replace("\\$", "$")
        for label in panel.get_legend_handles_labels()[1]
    )
    return "Chart: " + "; ".join(
        " ".join(part.split())
        for part in (panel.get_title("left"), axes, names)
        if part
    )


def _plain_numbers(axis: "Axis") -> None:
    """1, 10, 100 on a log scale, with 2 and 5 between them where the range is short."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    if isinstance(axis.get_major_locator(), FixedLocator):
        return  # the figure has chosen its own
    low, high = axis.get_view_interval()
    axis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 150 else (1.0,))
    )
    axis.set_major_formatter(
        FuncFormatter(lambda v, _: f"{v:,.0f}" if 1 <= v < 1e6 else f"{v:g}")
    )
    axis.set_minor_formatter(NullFormatter())
