"""A hook of mkdocs: pages outside of docs become pages of the site, and links between
the two sides lead there.

Links are written as they work in the repository. One to a file that is no page leads to
the source.
"""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File

__all__ = ["OUTSIDE", "on_files", "on_page_markdown", "rewritten"]

SOURCE = "https://github.com/oddsmith/oddsmith/blob/main/"
OUTSIDE = {  # by path in the repository: on the site
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "benchmarks/RESULTS.md": "benchmarks/results.md",
    "benchmarks/BAKEOFF.md": "benchmarks/bakeoff.md",
    "benchmarks/BAKEOFF_SETS.md": "benchmarks/bakeoff-sets.md",
    "benchmarks/MATHEMATICS.md": "benchmarks/mathematics.md",
    "benchmarks/RELIABILITY.md": "reference/reliability.md",
}
_PICTURES = "benchmarks/figures"
_ORIGINS = {there: here for here, there in OUTSIDE.items()}
_LINK = re.compile(r"(!?\[[^\]\[]*\])\(([^)\s#]+)(#[^)\s]*)?\)")
_CODE = re.compile(r"(^```.*?^```|`[^`\n]*`)", re.DOTALL | re.MULTILINE)


def _on_site(path: str) -> str | None:
    """Where a file of the repository is on the site, or None."""
    inside = path.removeprefix("docs/") if path.startswith("docs/") else None
    return (
        inside
        or OUTSIDE.get(path)
        or (path if path.startswith(f"{_PICTURES}/") else None)
    )


def rewritten(markdown: str, page: str) -> str:
    """The text of a page of the site with links that lead to places of the site, or to
    the source."""
    folder = posixpath.dirname(_ORIGINS.get(page, f"docs/{page}"))

    def link(found: re.Match[str]) -> str:
        text, target, anchor = found[1], found[2], found[3] or ""
        if re.match(r"\w+:", target):
            return found[0]
        path = posixpath.normpath(posixpath.join(folder, target))
        there = _on_site(path)
        to = (
            SOURCE + path
            if there is None
            else posixpath.relpath(there, posixpath.dirname(page) or ".")
        )
        return f"{text}({to}{anchor})"

    parts = _CODE.split(markdown)
    parts[::2] = [_LINK.sub(link, part) for part in parts[::2]]
    return "".join(parts)


def on_files(files: Any, config: Any, **_: Any) -> Any:
    """Called by mkdocs when it has listed docs."""
    root = Path(config.config_file_path).parent
    there = {here: place for here, place in OUTSIDE.items() if (root / here).exists()}
    there |= {
        str(path.relative_to(root)): str(path.relative_to(root))
        for path in (root / _PICTURES).iterdir()
    }
    for here, place in there.items():
        files.append(File.generated(config, place, abs_src_path=str(root / here)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Called by mkdocs for every page."""
    return rewritten(markdown, page.file.src_uri)
