"""A hook of mkdocs: formulas between dollars become MathML when a page is built, and so render without scripts."""

import re
from typing import Any

from latex2mathml.converter import convert

__all__ = ["hidden", "on_page_content", "on_page_markdown", "shown"]

_CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$((?:(?!\n\n)[^$])+?)\$", re.DOTALL)
_PLACE = re.compile(r"formula(block|inline)x([0-9a-f]+)x")


def hidden(markdown: str) -> str:
    """The page with every formula as a word that Markdown leaves alone; code stays as it is."""

    def word(found: re.Match[str]) -> str:
        block, inline = found.groups()
        kind, formula = ("block", block) if block else ("inline", inline)
        return f"formula{kind}x{formula.strip().encode().hex()}x"

    parts = _CODE.split(markdown)
    parts[::2] = [_FORMULA.sub(word, part) for part in parts[::2]]
    return "".join(parts)


def shown(html: str) -> str:
    """The page with every such word as MathML."""

    def math(found: re.Match[str]) -> str:
        kind, formula = found.groups()
        return str(convert(bytes.fromhex(formula).decode(), display=kind))

    return _PLACE.sub(math, html)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs before Markdown; only pages about mathematics have formulas."""
    return hidden(markdown) if page.file.src_uri.startswith("math/") else markdown


def on_page_content(html: str, page: Any, **_: Any) -> str:
    """Called by mkdocs after Markdown."""
    return shown(html) if page.file.src_uri.startswith("math/") else html
