"""A report: one HTML file with tables and figures inside, readable without a network."""

import base64
from dataclasses import dataclass
from html import escape
from pathlib import Path

from oddsmith import disk
from oddsmith.errors import BadFile, InvalidInput

__all__ = ["Figure", "Section", "Table", "render", "write"]


@dataclass(frozen=True)
class Figure:
    """A picture (SVG text) and the sentence under it, which says what to see."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Table:
    """Headers and rows of text; on a page "yes" and "no" are coloured, printed it is a table for a terminal.

    >>> print(Table(("who", "regret"), (("one", "7.5"), ("another", "12.0"))))
    who      regret
    one         7.5
    another    12.0
    """

    headers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        columns = list(zip(self.headers, *self.rows, strict=True))
        padded = []
        for header, *cells in columns:
            width = max(len(cell) for cell in (header, *cells))
            right = any(map(_is_number, cells)) and all(_is_number(cell) or not cell for cell in cells)
            padded.append([f"{cell:>{width}}" if right else f"{cell:{width}}" for cell in (header, *cells)])
        return "\n".join("  ".join(row).rstrip() for row in zip(*padded, strict=True))


@dataclass(frozen=True)
class Section:
    """A heading, paragraphs, text as it would be printed, figures and tables, in this order."""

    title: str
    text: str = ""
    printed: str = ""
    tables: tuple[Table, ...] = ()
    figures: tuple[Figure, ...] = ()


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 2rem auto; padding: 0 1rem; color: #1a1a1a; }
h1 { font-size: 1.7rem; } h1 + p { font-size: 1.2rem; font-weight: 600; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #ddd; }
table { border-collapse: collapse; margin: 1rem 0; font-size: .92rem; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #e5e5e5; vertical-align: top; }
td.where { white-space: nowrap; }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
td.yes { color: #00684a; font-weight: 600; } td.no { color: #b00020; font-weight: 700; }
figure { margin: 1.2rem 0; } figure img { max-width: 100%; } figcaption { color: #444; font-size: .95rem; }
pre { overflow-x: auto; font-size: .85rem; }
nav a { margin-right: 1rem; }
"""


def render(title: str, intro: str, sections: list[Section]) -> str:
    """The page as HTML text. The first paragraph of `intro` is the answer, in one sentence.

    >>> "<h2" in render("Title", "What this is.", [Section("First", "Some words.")])
    True
    """
    body = [f"<h1>{escape(title)}</h1>", _paragraphs(intro)]
    if len(sections) > 2:
        links = (f'<a href="#s{i}">{escape(s.title)}</a>' for i, s in enumerate(sections))
        body.append(f"<nav>{' '.join(links)}</nav>")
    for i, section in enumerate(sections):
        body += [f'<section id="s{i}"><h2>{escape(section.title)}</h2>', _paragraphs(section.text)]
        body += [f"<pre>{escape(section.printed)}</pre>"] if section.printed else []
        body += [_figure(figure) for figure in section.figures]
        body += [_table(table) for table in section.tables]
        body.append("</section>")
    head = (
        f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{escape(title)}</title>'
        f"<style>{_STYLE}</style>"
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>\n' + "\n".join(body) + "\n</body></html>\n"


def write(path: Path, title: str, intro: str, sections: list[Section]) -> Path:
    """Write the page, the whole of it or nothing, and its folder if need be; the path of the page."""
    content = render(title, intro, sections).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        disk.write(path, content)
    except (OSError, BadFile) as error:
        raise InvalidInput(f"out must be a folder that can be written to; {error}") from error
    return path


def _paragraphs(text: str) -> str:
    return "".join(f"<p>{escape(part)}</p>" for part in text.split("\n\n") if part)


def _table(table: Table) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in table.headers)
    rows = "".join("<tr>" + "".join(_cell(cell) for cell in row) + "</tr>" for row in table.rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _is_number(text: str) -> bool:
    return len(text) < 24 and (text[:1].isdigit() or text[:1] in ("-", "≤", "≥"))


def _cell(text: str) -> str:
    kind = text if text in ("yes", "no") else "number" if _is_number(text) else "where" if len(text) < 16 else ""
    return f'<td class="{kind}">{escape(text)}</td>' if kind else f"<td>{escape(text)}</td>"


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.svg.encode()).decode()
    caption = escape(figure.caption)
    image = f'<img src="data:image/svg+xml;base64,{data}" alt="{caption}">'
    return f"<figure>{image}<figcaption>{caption}</figcaption></figure>"
