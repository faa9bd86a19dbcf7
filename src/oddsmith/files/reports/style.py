"""Style of figures: distinguishable colours, each with a line style and a marker, and
SVG for pages.

In the SVG, text stays text, colours follow the page's theme, and ids are unique.
"""

import io
import re
from importlib import import_module
from math import ceil
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from oddsmith.core.arrays import Array
from oddsmith.core.errors import import_extra
from oddsmith.files.reports.theme import (
    COLOURS,
    EDGE,
    INK,
    RULE,
    SHEET,
    SOFT,
    TYPE,
    variables,
)

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
    "alone",
    "apart",
    "band",
    "check_drawing",
    "legend",
    "panels",
    "plain",
    "pyplot",
    "save",
    "svg",
    "themed",
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
_SVG = "{http://www.w3.org/2000/svg}"
_LINK = "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"(\d\.\d\d)\d+")
_PIXELS = 4 / 3  # pixels per point
_CHARACTERS = 11.5  # characters of a label per inch


def check_drawing() -> None:
    """Raise before a long computation if the figures of the report cannot be drawn."""
    import_extra("matplotlib", "reports with figures need", "lab")


def pyplot() -> ModuleType:
    """Return matplotlib.pyplot, set up to draw into memory."""
    import_extra("matplotlib", "plots need", "lab").use("Agg")
    return import_module("matplotlib.pyplot")


def panels(
    n: int = 1, *, height: float = 3.6, width: float | None = None
) -> "tuple[list[Figure], list[Any]]":
    """Return n figures with one panel each, and the panels. A wide page shows them side
    by side, a narrow one below each other.

    A panel is as wide as a phone can show with readable letters.
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
    """Draw the names of the lines above the panel, in as many columns as fit."""
    handles, labels = panel.get_legend_handles_labels()
    figure: Any = panel.figure
    width, height = figure.get_size_inches()
    longest = max(map(len, labels), default=0)
    fits = int(width * _CHARACTERS) // (longest + 8)
    columns = max(1, min(len(labels), fits))
    rows = ceil(len(labels) / columns) + bool(title)
    figure.set_size_inches(width, height + 0.2 * rows)
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
    """Draw a curve with its band of two standard errors, in the i-th colour, dash and
    marker."""
    # There are eight colours, so from the ninth line on change dashes and markers, too.
    shift = i // len(COLOURS)
    colour = COLOURS[i % len(COLOURS)]
    dashes = DASHES[(i + shift) % len(DASHES)]
    marker = MARKERS[(i + 2 * shift) % len(MARKERS)]
    every = max(1, len(x) // 8)
    panel.plot(
        x,
        mean,
        color=colour,
        ls=dashes,
        marker=marker,
        ms=5,
        markevery=every,
        label=plain(label),
    )
    low = mean - 2 * error
    high = mean + 2 * error
    panel.fill_between(x, low, high, color=colour, alpha=0.15, lw=0)


def plain(label: str, most: int = 56) -> str:
    """Return a label for matplotlib that is shown as it is. Dollar signs do not start a
    formula, a leading underscore does not hide the label, and long labels are shortened
    in the middle.

    >>> plain("_$a$"), plain("a name without end", 11)
    (' _\\\\$a\\\\$', 'a nam…t end')
    """
    if len(label) > most:
        end = len(label) - (most - 1) // 2
        label = f"{label[: most // 2]}…{label[end:]}"
    text = label.replace("$", r"\$")
    return f" {text}" if text[:1] in ("", "_") else text


def svg(figures: "list[Figure]") -> str:
    """Return the figures as SVG text, one element each, that follows the theme of its
    page. Close the figures."""
    plt = pyplot()
    elements = []
    for figure in figures:
        text = io.StringIO()
        for panel in figure.axes:
            title = panel.get_title()
            if title:
                panel.set_title("")
                panel.set_title(title, loc="left", fontsize=10.5, fontweight="bold")
            for axis in (panel.xaxis, panel.yaxis):
                if axis.get_scale() == "log":
                    _plain_numbers(axis)
        with plt.rc_context(LOOK):
            figure.savefig(text, format="svg", metadata={"Date": None})
        label = "; ".join(map(_text_alternative, figure.axes))
        elements.append(themed(text.getvalue(), label))
        plt.close(figure)
    return "\n".join(elements)


def save(figures: "list[Figure]", path: Path) -> None:
    """Write the figures as one SVG file, which follows the theme of its reader."""
    path.write_text(alone(svg(figures)), encoding="utf-8")


def _text_alternative(panel: "Axes") -> str:
    """Return the title, the axes and the lines of a panel as text."""
    axes = filter(None, (panel.get_ylabel(), panel.get_xlabel()))
    _, labels = panel.get_legend_handles_labels()
    names = ", ".join(label.strip().replace("\\$", "$") for label in labels)
    parts = (panel.get_title("left"), " against ".join(axes), names)
    return "Chart: " + "; ".join(" ".join(part.split()) for part in parts if part)


def _plain_numbers(axis: "Axis") -> None:
    """Label a log scale with 1, 10, 100, and also with 2 and 5 if the range is
    short."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

    if isinstance(axis.get_major_locator(), FixedLocator):
        return  # the figure has its own setting
    low, high = axis.get_view_interval()
    axis.set_major_locator(
        LogLocator(subs=(1.0, 2.0, 5.0) if high / low < 150 else (1.0,))
    )
    axis.set_major_formatter(
        FuncFormatter(lambda v, _: f"{v:,.0f}" if 1 <= v < 1e6 else f"{v:g}")
    )
    axis.set_minor_formatter(NullFormatter())


def themed(drawn: str, label: str) -> str:
    """Return the SVG element of a figure, with attributes instead of styles, and a
    label for screen readers.

    A page's style sheet overrides attributes, so that it can set the colours of the
    dark theme. Without a style sheet the figure keeps its drawn colours.
    """
    root = ElementTree.fromstring(drawn)
    for parent in list(root.iter()):
        for child in [
            one for one in parent if one.tag in (f"{_SVG}metadata", f"{_SVG}style")
        ]:
            parent.remove(child)
    for element in root.iter():
        _attributes(element)
    used = set(
        re.findall(
            r"#([\w.-]+)",
            " ".join(value for one in root.iter() for value in one.attrib.values()),
        )
    )
    for element in root.iter():
        if element.get("id") not in used:
            element.attrib.pop("id", None)
    for side in ("width", "height"):
        root.set(side, f"{float(root.attrib[side].removesuffix('pt')) * _PIXELS:.0f}")
    # matplotlib omits black, the default fill colour of SVG, so set the colour here
    root.attrib.update(
        {"role": "img", "aria-label": label, "fill": INK, "font-family": TYPE}
    )
    root.attrib.update({"stroke-linejoin": "round", "stroke-linecap": "butt"})
    return _text(root)


def _attributes(element: ElementTree.Element) -> None:
    """Turn styles into attributes and black into the ink colour, and shorten
    numbers."""
    for part in element.attrib.pop("style", "").split(";"):
        name, _, value = part.partition(":")
        if name.strip() not in ("", "font-family"):
            element.set(name.strip(), value.strip())
    for name in ("fill", "stroke"):
        if element.get(name) == "#000000":
            element.set(name, INK)
    if _LINK in element.attrib:
        element.set("href", element.attrib.pop(_LINK))
    for name in ("d", "x", "y"):
        if name in element.attrib:
            element.set(name, " ".join(_LONG.sub(r"\1", element.attrib[name]).split()))
    if element.tag != f"{_SVG}text" and not (element.text or "").strip():
        element.text = None
    element.tail = "\n"


def apart(svg: str, name: str) -> str:
    """Return the same figures with unique ids, so that several fit on one page.

    >>> apart('<svg><use href="#b" /></svg><svg><g clip-path="url(#b)" /></svg>', "f1")
    '<svg><use href="#f1-1-b" /></svg><svg><g clip-path="url(#f1-2-b)" /></svg>'
    """
    text = ""
    for i, figure in enumerate(re.split(r"(?=<svg\b)", svg)):
        text += re.sub(r'( id="|url\(#|href="#)', rf"\g<1>{name}-{i}-", figure)
    return text


def alone(svg: str) -> str:
    """Return the figures as one SVG file, side by side, that follows the theme of its
    reader."""
    group = ElementTree.fromstring(f"<g>{apart(svg, 'f')}</g>")
    width = 0.0
    height = 0.0
    for figure in group:
        figure.set("x", f"{width:g}")
        width += float(figure.attrib["width"])
        height = max(height, float(figure.attrib["height"]))
    root = ElementTree.Element(
        "svg",
        viewBox=f"0 0 {width:g} {height:g}",
        width=f"{width:g}",
        height=f"{height:g}",
    )
    ElementTree.SubElement(root, "style").text = variables()
    ElementTree.SubElement(root, "rect", width="100%", height="100%", fill=SHEET)
    root.extend(group)
    return f"{_text(root)}\n"


def _text(root: ElementTree.Element) -> str:
    for element in root.iter():
        element.tag = element.tag.removeprefix(_SVG)
    root.set("xmlns", _SVG[1:-1])
    return ElementTree.tostring(root, encoding="unicode").strip()
