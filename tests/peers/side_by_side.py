"""Pages with two codes for each task: blocks `py` are the peer's, `python` ours, and
those before a pair are both's."""

import re
import runpy
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import oddsmith as od

FOLDER = Path(od.__file__).parents[2] / "docs" / "comparison"
_SECTION = re.compile(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
_BLOCK = re.compile(r"^```(py|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)

Names = dict[str, Any]
Check = Callable[[Names, Names], None]


class Section(NamedTuple):
    """A task: its title, and its blocks with their languages."""

    title: str
    blocks: list[tuple[str, str]]

    @property
    def has_both(self) -> bool:
        return any(kind == "py" for kind, _ in self.blocks)


def peer(name: str) -> Any:
    """The peer's package, or a skip that names it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            name, reason=f"peer {name} is not installed (make bench installs it)"
        )


def sections(page: str) -> Iterator[Section]:
    """The tasks of a page; what stands before the first one has the title "start"."""
    text = (FOLDER / page).read_text()
    for title, body in _SECTION.findall("## start\n" + text):
        yield Section(title, _BLOCK.findall(body))


def play(page: str, checks: Mapping[str, Check]) -> None:
    """Run both codes of every task, each with names of its own, and then the task's
    check."""
    theirs: Names = {"od": od}
    ours: Names = {}
    for title, blocks in sections(page):
        paired = False
        for kind, code in blocks:
            paired = paired or kind == "py"
            if kind == "py":
                theirs |= _run(code, theirs)
            else:
                left = _run(code, ours)
                ours |= left
                # before the peer's: the world that both see
                theirs |= {} if paired else left
        if title in checks:
            checks[title](theirs, ours)


def _run(code: str, names: Names) -> Names:
    """The names that a block makes or changes; it is a script in the current folder, as
    a reader would have it."""
    script = Path("block.py")
    script.write_text(code)
    left = runpy.run_path(str(script), init_globals=names)
    return {
        name: value
        for name, value in left.items()
        if name[:2] != "__" and names.get(name) is not value
    }


def complete(page: str, checks: Mapping[str, Check]) -> None:
    """Every task with two codes has a check, and every check a task."""
    found = list(sections(page))
    pairs = {section.title for section in found if section.has_both}
    assert pairs <= set(checks) <= {section.title for section in found}
    assert len(pairs) > 6


def same_shares(odds: Any, drawn: Sequence[Any], arms: Sequence[Any]) -> None:
    """Draws have the shares that odds say, to five standard errors of a share, 2.5 /
    sqrt(n) at most.

    Odds that are right fail for fewer than one of 100,000 seeds.
    """
    shares = [list(drawn).count(arm) / len(drawn) for arm in arms]
    np.testing.assert_allclose(odds, shares, atol=2.5 / np.sqrt(len(drawn)))
