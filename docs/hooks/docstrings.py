"""An extension of griffe: docstrings as Markdown. Sessions become blocks of code, and
marks in formulas stay."""

import re
from typing import Any

import griffe

__all__ = ["Docstrings", "as_markdown"]

_SESSION = re.compile(r"^>>> .*(?:\n(?!\s*$).*)*", re.MULTILINE)
_CODE = re.compile(r"(^```.*?^```|^    [^\n]*|`[^`\n]*`)", re.DOTALL | re.MULTILINE)
_MARKS = re.compile(r"(?<=[^\s*])\*(?!\*)|(?<=\])\[")  # of p*, and of P[s][a]


def as_markdown(text: str) -> str:
    """A docstring as Markdown: `>>>` up to an empty line is a block of code; p* and
    P[s][a] stay as they are."""
    parts = _CODE.split(_SESSION.sub(lambda found: f"```pycon\n{found[0]}\n```", text))
    parts[::2] = [_MARKS.sub(r"\\\g<0>", part) for part in parts[::2]]
    return "".join(parts)


class Docstrings(griffe.Extension):  # type: ignore[misc]
    """Called by griffe for every object that it reads."""

    def on_object(self, *, obj: Any, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)
