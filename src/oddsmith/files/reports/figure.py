"""Conversion of matplotlib's SVG for HTML pages: text remains text, colours follow the
theme, and ids are unique."""

import re
from xml.etree import ElementTree

from oddsmith.files.reports.theme import INK, SHEET, TYPE, variables

__all__ = ["alone", "apart", "themed"]

_SVG, _LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
_LONG = re.compile(r"(\d\.\d\d)\d+")
_PIXELS = 4 / 3  # pixels per point


def themed(drawn: str, label: str) -> str:
    """Return the SVG element of a figure, with plain attributes instead of styles, and
    a label for screen readers.

    A page's style sheet beats attributes, so that it can give each colour of the
    palette its value in the dark theme; without a style sheet the figure is what was
    drawn.
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
    """Turns styles into attributes, black into ink, and shortens numbers."""
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
    """Return the same figures, each with its own ids, so that many fit on one page.

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
