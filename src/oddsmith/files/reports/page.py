"""A report: one HTML file in the look of the service's page, with tables and figures
inside, and without a script.

It is read from a file, without a network; follows the reader's theme; is printed on
white; and fits a phone.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.files import disk
from oddsmith.files.reports.figure import alone, apart
from oddsmith.files.reports.theme import variables

__all__ = ["Figure", "Section", "Table", "render", "write"]


@dataclass(frozen=True)
class Figure:
    """A picture (SVG text of one or more panels) and the sentence under it, which says
    what to see."""

    svg: str
    caption: str

    def file(self) -> str:
        """The picture as an SVG file of its own, which follows the theme of its
        reader."""
        return alone(self.svg)


@dataclass(frozen=True)
class Table:
    """Headers and rows of text; on a page "yes" and "no" are coloured, printed it is a
    table for a terminal.

    >>> print(Table(("who", "regret"), (("one", "7.5"), ("another", "12.0"))))
    who      regret
    one         7.5
    another    12.0
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""

    def __str__(self) -> str:
        columns = list(zip(self.headers, *self.rows, strict=True))
        padded = []
        for header, *cells in columns:
            width = max(len(cell) for cell in (header, *cells))
            right = _is_numeric(cells)
            padded.append(
                [
                    f"{cell:>{width}}" if right else f"{cell:{width}}"
                    for cell in (header, *cells)
                ]
            )
        return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))


@dataclass(frozen=True)
class Section:
    """A heading, then paragraphs, figures, tables, and text as it would be printed;
    details are folded."""

    title: str
    text: str = ""
    printed: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()
    folded: bool = False


# nothing is fetched and nothing runs, whatever a name in the report says
_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def render(title: str, intro: str, sections: list[Section]) -> str:
    """The page as HTML text. The first paragraph of `intro` is the verdict, in one
    sentence.

    >>> "<h2" in render("Title", "What this is.", [Section("First", "Some words.")])
    True
    """
    lead = _paragraphs(intro).replace("<p>", '<p class="lead">', 1)
    body = [f'<section aria-label="Verdict">{lead}</section>'] if lead else []
    body += [_section(section, f"s{i}") for i, section in enumerate(sections)]
    # below the first picture, which comes before everything but the verdict
    if len(sections) > 2:
        links = "".join(
            f'<li><a href="#s{i}">{escape(one.title)}</a></li>'
            for i, one in enumerate(sections)
            if i
        )
        body.insert(
            len(body) - len(sections) + 1,
            f'<nav aria-label="More on this page"><ul>{links}</ul></nav>',
        )
    style = (
        variables()
        + "\n"
        + Path(__file__).with_name("report.css").read_text(encoding="utf-8")
    )
    head = [
        '<meta charset="utf-8">',
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">',
        '<meta name="viewport" content="width=device-width">',
        f"<title>{escape(title)}</title>\n<style>\n{style}</style>",
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
    """Write the page, the whole of it or nothing, and its folder if need be; the path
    of the page."""
    content = render(title, intro, sections).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, content)
    except (OSError, BadFile) as error:
        raise InvalidInput(
            f"out must be a folder that can be written to; {error}"
        ) from error
    return path


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part)


def _section(section: Section, name: str) -> str:
    heading = f'<h2 id="{name}-title">{escape(section.title)}</h2>'
    parts = [_paragraphs(section.text)]
    parts += [
        _figure(figure, f"{name}-{i}") for i, figure in enumerate(section.figures)
    ]
    parts += [_table(table, table.caption or section.title) for table in section.tables]
    if section.printed:
        parts.append(
            f'<pre tabindex="0" aria-labelledby="{name}-title" '
            f'role="group">{escape(section.printed)}</pre>'
        )
    before, after = ("<details><summary>", "</summary>") if section.folded else ("", "")
    inside = "\n".join(
        [
            f"{before}{heading}{after}",
            *filter(None, parts),
            *(["</details>"] if before else []),
        ]
    )
    return f'<section id="{name}" aria-labelledby="{name}-title">{inside}</section>'


def _table(table: Table, caption: str) -> str:
    numeric = [_is_numeric(cells) for cells in zip(*table.rows, strict=True)] or [
        False
    ] * len(table.headers)
    head = "".join(
        f'<th scope="col"{_kind("number" if right else "")}>{escape(name)}</th>'
        for name, right in zip(table.headers, numeric, strict=True)
    )
    rows = "".join(f"<tr>{_row(row)}</tr>\n" for row in table.rows)
    shown = escape(caption)
    return (
        '<div class="scroll" tabindex="0" role="group" '
        f'aria-label="{shown}"><table><caption>{shown}</caption>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table></div>"
    )


def _row(row: tuple[str, ...]) -> str:
    first, *others = row
    return f'<th scope="row">{escape(first)}</th>' + "".join(map(_cell, others))


def _is_number(text: str) -> bool:
    return len(text) < 24 and (text[:1].isdigit() or text[:1] in ("-", "+", "≤", "≥"))


def _is_numeric(cells: Sequence[str]) -> bool:
    """Whether a column is one of numbers, some of which may be missing."""
    return any(map(_is_number, cells)) and all(
        _is_number(cell) or not cell for cell in cells
    )


def _cell(text: str) -> str:
    kind = (
        text
        if text in ("yes", "no")
        else "number"
        if _is_number(text)
        else "short"
        if 0 < len(text) < 16
        else ""
    )
    return f"<td{_kind(kind)}>{escape(text)}</td>"


def _kind(kind: str) -> str:
    return f' class="{kind}"' if kind else ""


def _figure(figure: Figure, name: str) -> str:
    pictures = f'<div class="pictures">{apart(figure.svg, name)}</div>'
    return (
        f"<figure>{pictures}<figcaption>{escape(figure.caption)}</figcaption></figure>"
    )
