"""Who may call each route, as docs/reference/service.md has it: written down apart from
the code."""

import re
from pathlib import Path

import oddsmith as od

__all__ = ["OPEN", "SCOPES"]

_PAGE = Path(od.__file__).parents[2] / "docs" / "reference" / "service.md"
_ROW = re.compile(r"^\| `(GET|POST) (\S+)` \| ([a-z, ]+) \|", re.MULTILINE)

SCOPES: dict[tuple[str, str], set[str]] = {}
"""Scopes of which a key needs one, by method and path; none where no key is needed."""
for _method, _path, _cell in _ROW.findall(_PAGE.read_text()):
    _words = _cell.partition(",")[0].split(" or ")
    SCOPES[_method, _path] = set() if _words == ["none"] else {*_words, "admin"}

OPEN = {path for (_, path), scopes in SCOPES.items() if not scopes}
"""Paths that need no key."""
