"""A hook of mkdocs: llms.txt, the list of pages for programs that read, llms-full.txt,
and each page as Markdown.

`tutorial/simulate/` is a page, `tutorial/simulate.md` its text. Decisions are left out
of llms-full.txt.
"""

import inspect
import pkgutil
import posixpath
import re
from pathlib import Path
from typing import Any

__all__ = [
    "described",
    "expanded",
    "on_nav",
    "on_page_markdown",
    "on_post_build",
    "outline",
    "summary",
]

_texts: dict[str, str] = {}
_sections: list[tuple[str, list[tuple[str, str]]]] = []
_ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)
_LONGEST = 240  # letters of a summary of several sentences
_LEFT_OUT = ("decisions/", "changelog.md")


def summary(markdown: str) -> str:
    """A page's first paragraph, links as plain words, cut after a sentence; empty if
    there is none."""
    blocks = re.split(r"\n\s*\n", re.sub(r"```.*?```", "", markdown, flags=re.DOTALL))
    plain = [
        block
        for block in blocks
        if block.strip() and not re.match(r"\s*([#|<!>-]|\* |\d+\.)", block)
    ]
    words = " ".join(_plain(plain[0]).split()) if plain else ""
    said = ""
    for sentence in re.split(r"(?<=[.?!])\s", words):
        if said and len(said) + len(sentence) > _LONGEST:
            break
        said = f"{said} {sentence}".strip()
    return said


def described(index: str) -> dict[str, str]:
    """What a section's first page says of the others, by their paths: the cell after a
    link, or the words after it."""
    rows = re.findall(
        r"^\|[^\n]*?\]\((\S+?\.md)\)[^|\n]*\|([^|\n]*)\|", index, re.MULTILINE
    )
    items = re.findall(r"^\* \[[^\]]*\]\((\S+?\.md)\): ([^\n]*)", index, re.MULTILINE)
    return {path: _plain(words).strip() for path, words in [*rows, *items]}


def _plain(markdown: str) -> str:
    """Without links and marks of emphasis."""
    return re.sub(r"!?\[([^\]]*)\]\([^)]*\)|\*\*", r"\1", markdown)


def expanded(markdown: str) -> str:
    """A page of the API with signature and docstring in the place of each name."""

    def told(found: re.Match[str]) -> str:
        name = found[1].rpartition(".")[2]
        try:
            thing = pkgutil.resolve_name(found[1])
            shape = str(inspect.signature(thing)) if callable(thing) else ""
        except (ImportError, ValueError, TypeError):
            return f"### {name}"
        own = inspect.getdoc(thing) if callable(thing) else ""
        return f"### {name}\n\n```python\n{found[1]}{shape}\n```\n\n{own or ''}"

    return _ENTRY.sub(told, markdown)


def outline(
    name: str,
    lead: str,
    sections: list[tuple[str, list[tuple[str, str]]]],
    texts: dict[str, str],
) -> str:
    """llms.txt: the name, what it is, and each section's pages (title and path) with
    what they are for."""
    lines = [f"# {name}", "", f"> {lead}", ""]
    for title, pages in sections:
        folder, _, _ = pages[0][1].rpartition("/")
        known = {
            posixpath.join(folder, path): said
            for path, said in described(texts[pages[0][1]]).items()
        }
        lines += [f"## {title}", ""]
        lines += [
            f"- [{head}]({path}): {known.get(path) or summary(texts[path])}"
            for head, path in pages
        ]
        lines += [""]
    return "\n".join(line.removesuffix(": ") for line in lines)


def on_nav(nav: Any, **_: Any) -> Any:
    """Called by mkdocs when it knows the sections."""
    _sections.clear()
    for item in nav.items:
        children = item.children or [item]
        pages = [
            page
            for child in children
            for page in (child.children or [child])
            if page.is_page
        ]
        _sections.append(
            (item.title or "Start", [(page.title, page.file.src_uri) for page in pages])
        )
    return nav


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page, before formulas are made."""
    _texts[page.file.src_uri] = (
        expanded(markdown) if page.file.src_uri.startswith("api/") else markdown
    )
    return markdown


def on_post_build(config: Any, **_: Any) -> None:
    """Called by mkdocs at the end."""
    folder = Path(config.site_dir)
    for path, text in _texts.items():
        (folder / path).write_text(text)
    named = [
        (title, [(head or _title(path), path) for head, path in pages])
        for title, pages in _sections
    ]
    lead = str(config.site_description)
    (folder / "llms.txt").write_text(outline(config.site_name, lead, named, _texts))
    paths = [
        path
        for _, pages in named
        for _, path in pages
        if not path.startswith(_LEFT_OUT)
    ]
    (folder / "llms-full.txt").write_text(
        "\n\n".join(f"<!-- {path} -->\n\n{_texts[path]}" for path in paths)
    )


def _title(path: str) -> str:
    """The heading of a page."""
    found = re.search(r"^# (.+)$", _texts[path], re.MULTILINE)
    return found[1] if found else path
