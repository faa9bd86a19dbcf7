"""A hook of mkdocs: formulas between dollars become MathML when a page is built, and so
render without scripts."""

import re
from typing import Any
from xml.etree import ElementTree as ET

from latex2mathml.converter import convert

__all__ = ["hidden", "on_page_content", "on_page_markdown", "parted", "shown"]

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$((?:(?!\n\n)[^$])+?)\$", re.DOTALL)
_PLACE = re.compile(r"formula(block|inline)x([0-9a-f]+)x")
_FOLDERS = ("math/", "explanation/")  # elsewhere a dollar is a dollar
_SPACE = "http://www.w3.org/1998/Math/MathML"
_RELATIONS = frozenset("=≤≥<>←→≈∼∈≡≪≫⟹⇒")
_LONG = 24  # letters and signs of a formula that a narrow screen may have to break


def hidden(markdown: str) -> str:
    """The page with every formula as a word that Markdown leaves alone; code stays as
    it is."""

    def word(found: re.Match[str]) -> str:
        block, inline = found.groups()
        kind, formula = ("block", block) if block else ("inline", inline)
        return f"formula{kind}x{formula.strip().encode().hex()}x"

    parts = _CODE.split(markdown)
    parts[::2] = [_FORMULA.sub(word, part) for part in parts[::2]]
    return "".join(parts)


def _runs(row: ET.Element) -> list[list[ET.Element]]:
    """The parts of a row: each begins at a relation, or after a comma, that no bracket
    encloses."""
    runs: list[list[ET.Element]] = [[]]
    depth, comma = 0, False
    for child in row:
        sign = (child.text or "").strip() if child.tag.endswith("}mo") else ""
        if runs[-1] and depth == 0 and (comma or (sign in _RELATIONS and sign)):
            runs.append([])
        if sign in _RELATIONS:
            child.set("form", "infix")
        depth += (sign in ("(", "[", "{")) - (sign in (")", "]", "}"))
        comma = sign == ","
        runs[-1].append(child)
    return runs


def parted(math: str) -> str:
    """A long formula within a line as several, so that a line may break between them:
    browsers break none by itself."""
    ET.register_namespace("", _SPACE)
    root = ET.fromstring(math)
    row = root[0]
    if len(root) != 1 or len("".join(root.itertext())) <= _LONG:
        return math
    parts = []
    for run in _runs(row):
        part = ET.Element(root.tag, root.attrib)
        ET.SubElement(part, row.tag).extend(run)
        parts.append(ET.tostring(part, encoding="unicode"))
    return "<wbr>".join(parts)


def shown(html: str) -> str:
    """The page with every such word as MathML; a formula of its own stands in a box
    that scrolls."""

    def math(found: re.Match[str]) -> str:
        kind, formula = found.groups()
        made = str(convert(bytes.fromhex(formula).decode(), display=kind))
        return (
            f'<span class="formula">{made}</span>' if kind == "block" else parted(made)
        )

    return _PLACE.sub(math, html)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs before Markdown."""
    return hidden(markdown) if page.file.src_uri.startswith(_FOLDERS) else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs after Markdown."""
    return shown(html) if page.file.src_uri.startswith(_FOLDERS) else html
