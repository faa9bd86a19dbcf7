"""What a page's Python prints, block by block, beside what the page says that it
prints."""

import io
import re
import runpy
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

__all__ = ["follows", "spoken"]

BLOCK = re.compile(
    r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```)?", re.DOTALL | re.MULTILINE
)
BETWEEN = "\x1e"


def spoken(
    page: str, folder: Path, given: dict[str, Any] | None = None
) -> list[tuple[str, str | None]]:
    """For each `python` block of a page, all run as one program: what it printed, and
    the `text` block below it."""
    blocks = BLOCK.findall(page + "\n")
    script = folder / "page.py"
    script.write_text(
        f"\nprint({BETWEEN!r}, end='')\n".join(code for code, _ in blocks)
    )
    with redirect_stdout(io.StringIO()) as printed:
        runpy.run_path(str(script), init_globals=given or {})
    said = printed.getvalue().split(BETWEEN)
    return [(one, shown or None) for one, (_, shown) in zip(said, blocks, strict=False)]


def follows(said: str, page: str) -> bool:
    """Whether the page shows what was said; … on the page stands for anything."""
    said, page = (
        "\n".join(line.rstrip() for line in text.rstrip().splitlines())
        for text in (said, page)
    )
    return re.fullmatch(re.escape(page).replace("…", "(.|\n)*"), said) is not None
