"""A report as one HTML file in the style of the dashboard, with tables and figures,
without scripts.

The page is read from a file without a network, follows the reader's theme, prints on
white, and fits on a phone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.files import disk
from oddsmith.files.reports.style import alone, apart
from oddsmith.files.reports.theme import variables

__all__ = ["Figure", "Section", "Table", "render", "write"]


@dataclass(frozen=True)
class Figure:
    """A picture (SVG text of one or more panels) and its caption."""

    svg: str
    caption: str

    def file(self) -> str:
        """Return the picture as a separate SVG file that follows the reader's theme."""
        return alone(self.svg)


@dataclass(frozen=True)
class Table:
    """A table with headers and rows of text. On a page, "yes" and "no" are coloured.
    `print` shows the table in a terminal.

    >>> print(Table(("who", "regret"), (("one", "7.5"), ("another", "12.0"))))
    who      regret
    one         7.5
    another    12.0
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __str__(self) -> str:
        columns = []
        for header, *cells in zip(self.headers, *self.rows, strict=True):
            width = max(map(len, (header, *cells)))
            align = str.rjust if _is_numeric(cells) else str.ljust
            columns.append([align(cell, width) for cell in (header, *cells)])
        lines = ["  ".join(row).rstrip() for row in zip(*columns, strict=True)]
        return "\n".join(lines)


@dataclass(frozen=True)
class Section:
    """A section of a page: a heading, paragraphs, figures, tables, and preformatted
    text. Details are collapsed."""

    title: str
    text: str = ""
    printed: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    folded: bool = False


# Forbid scripts and downloads, in case a name in the report contains HTML.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(title: str, intro: str, sections: list[Section]) -> str:
    """Return the page as HTML text. The first paragraph of `intro` is the verdict, in
    one sentence.

    >>> "<h2" in render("Title", "What this is.", [Section("First", "Some words.")])
    True
    """
    lead = _paragraphs(intro).replace("<p>", '<p class="lead">', 1)
    body = [_section(section, f"s{i}") for i, section in enumerate(sections)]
    if len(sections) > 2:
        links = ""
        for i, section in enumerate(sections[1:], 1):
            links += f'<li><a href="#s{i}">{escape(section.title)}</a></li>'
        nav = f'<nav aria-label="More on this page"><ul>{links}</ul></nav>'
        body.insert(1, nav)  # navigation goes below the first figure
    if lead:
        body.insert(0, f'<section aria-label="Verdict">{lead}</section>')
    css = Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title>\n<style>\n{variables()}\n{css}</style>",
    ]
    return "\n".join(
        [
            f'<!doctype html>\n<html lang="en"><head>{"".join(head)}</head><body>',
            f"<header><h1>{escape(title)}</h1></header>\n<main>",
            *body,
            "</main></body></html>\n",
        ]
    )


def write(path: Path, title: str, intro: str, sections: list[Section]) -> Path:
    """Write the page atomically, create its folder if necessary, and return its
    path."""
    content = render(title, intro, sections).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, content)
    except (OSError, BadFile) as error:
        raise InvalidInput(f"out must be a writable folder; {error}") from error
    return path


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part)


def _section(section: Section, name: str) -> str:
    heading = f'<h2 id="{name}-title">{escape(section.title)}</h2>'
    if section.folded:
        heading = f"<details><summary>{heading}</summary>"
    parts = [heading, _paragraphs(section.text)]
    for i, figure in enumerate(section.figures):
        pictures = f'<div class="pictures">{apart(figure.svg, f"{name}-{i}")}</div>'
        caption = f"<figcaption>{escape(figure.caption)}</figcaption>"
        parts.append(f"<figure>{pictures}{caption}</figure>")
    for table in section.tables:
        parts.append(_table(table, table.caption or section.title))
    if section.printed:
        parts.append(
            f'<pre tabindex="0" aria-labelledby="{name}-title" '
            f'role="group">{escape(section.printed)}</pre>'
        )
    if section.folded:
        parts.append("</details>")
    inside = "\n".join(filter(None, parts))
    return f'<section id="{name}" aria-labelledby="{name}-title">{inside}</section>'


def _table(table: Table, caption: str) -> str:
    head = ""
    for name, *cells in zip(table.headers, *table.rows, strict=True):
        kind = ' class="number"' if _is_numeric(cells) else ""
        head += f'<th scope="col"{kind}>{escape(name)}</th>'
    rows = ""
    for first, *others in table.rows:
        beside = "".join(map(_cell, others))
        rows += f'<tr><th scope="row">{escape(first)}</th>{beside}</tr>\n'
    label = escape(caption)
    return (
        '<div class="scroll" tabindex="0" role="group" '
        f'aria-label="{label}"><table><caption>{label}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )


def _is_number(text: str) -> bool:
    return len(text) < 24 and (text[:1].isdigit() or text[:1] in ("-", "+", "≤", "≥"))


def _is_numeric(cells: Sequence[str]) -> bool:
    """Return whether a column has numbers; some may be missing."""
    full = [cell for cell in cells if cell]
    return bool(full) and all(map(_is_number, full))


def _cell(text: str) -> str:
    kind = ""
    if text in ("yes", "no"):
        kind = f' class="{text}"'
    elif _is_number(text):
        kind = ' class="number"'
    elif 0 < len(text) < 16:
        kind = ' class="short"'
    return f"<td{kind}>{escape(text)}</td>"
