"""Dependencies of a result: every edit of the user's code that is run changes them, and
no other edit does."""

import importlib
import runpy
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.core.errors import NotPortable
from oddsmith.files.dependencies import changed_parts, dependencies

FILES = {
    "mine.py": '''"""A policy, a loss and a world of a user."""

import contextlib
import functools
from dataclasses import dataclass, field

import numpy as np

import tools
import tools.deeper as below
from tools.deeper import twice

SCALE = 2.0
LIMITS = {"low": [0.1, 0.9]}
TABLE = np.array([1.0, 2.0])
PATH = "PLACE/means.csv"
UNUSED = 1


def loud(function):
    @functools.wraps(function)
    def wrapper(*args):
        return function(*args) + 0.0

    return wrapper


def make(rate):
    def closure(x):
        return rate * x

    return closure


class Root:
    margin = 0.25

    def shift(self, x):
        return x + 1


class Wider(Root):
    pass


@dataclass(frozen=True)
class Policy(Root):
    """A policy."""

    gamma: float = 0.1
    names: list = field(default_factory=lambda: ["a", "b"])
    bonus = 3

    @property
    def wide(self):
        return self.gamma * 2

    @staticmethod
    def static(x):
        return x - 1

    @loud
    def odds(self, x, power=2, *, floor=0.5):
        # a comment
        inner = [y**power for y in x if y > floor]
        return below.scaled(sum(inner)) * SCALE + LIMITS["low"][0] + TABLE[0]


def loss(x, r):
    """A loss."""
    import tools.late

    return twice(x - r) ** 2 + tools.late.LATE + tools.used(x)


def read():
    with open(PATH) as file:
        return file.read()


def unrelated():
    return UNUSED + tools.not_used()


@contextlib.contextmanager
def opened(x):
    yield x - 3


def entered(x):
    with opened(x) as y:
        return y


add = lambda x, y: x + y
''',
    "tools/__init__.py": '''"""Helpers."""


def used(x):
    return x + 5


def not_used():
    return 6
''',
    "tools/deeper.py": """from tools.deepest import FACTOR


def twice(x):
    return 2 * x


def scaled(x):
    return FACTOR * x
""",
    "tools/deepest.py": "FACTOR = 7\n",
    "tools/late.py": "LATE = 8\n",
    "tools/idle.py": "IDLE = 9\n",
    "means.csv": "0.1,0.2\n",
}

EDITS = {
    "a line of a method": ("mine.py", "if y > floor", "if y >= floor"),
    "a constant in the code": ("mine.py", "x - 1", "x - 2"),
    "a loss": ("mine.py", "** 2 +", "** 4 +"),
    "a constant of the module": ("mine.py", "SCALE = 2.0", "SCALE = 2.5"),
    "a constant inside a collection": ("mine.py", "[0.1, 0.9]", "[0.2, 0.9]"),
    "an array of the module": ("mine.py", "[1.0, 2.0]", "[1.0, 3.0]"),
    "a default": ("mine.py", "power=2", "power=3"),
    "a default by keyword": ("mine.py", "floor=0.5", "floor=0.6"),
    "a class attribute": ("mine.py", "bonus = 3", "bonus = 4"),
    "a field's default": ("mine.py", "gamma: float = 0.1", "gamma: float = 0.2"),
    "a field's factory": ("mine.py", '["a", "b"]', '["a", "c"]'),
    "a property": ("mine.py", "self.gamma * 2", "self.gamma * 3"),
    "a static method": ("mine.py", "return x - 1", "return x"),
    "a decorator": ("mine.py", "+ 0.0", "+ 1.0"),
    "a decorator that is gone": ("mine.py", "    @loud\n", ""),
    "a method of a base class": ("mine.py", "x + 1", "x + 2"),
    "an attribute of a base class": ("mine.py", "margin = 0.25", "margin = 0.5"),
    "another base class": ("mine.py", "class Policy(Root)", "class Policy(Wider)"),
    "the value in a closure": ("mine.py", "", "closed"),
    "the code of a closure": ("mine.py", "rate * x", "rate + x"),
    "a bound parameter": ("mine.py", "", "bound"),
    "a function that a decorator of Python wraps": ("mine.py", "x - 3", "x - 4"),
    "a lambda": ("mine.py", "x + y", "x - y"),
    "an imported helper": ("tools/deeper.py", "2 * x", "3 * x"),
    "a helper by its module": ("tools/__init__.py", "x + 5", "x + 6"),
    "a helper by an alias": ("tools/deeper.py", "FACTOR * x", "FACTOR - x"),
    "a constant of the helper's helper": ("tools/deepest.py", "7", "8"),
    "an import inside a function": ("tools/late.py", "8", "9"),
    "the path of a data file": ("mine.py", "means.csv", "other.csv"),
    "the content of a data file": ("means.csv", "0.2", "0.3"),
}
NO_EDITS = {
    "nothing": ("mine.py", "", ""),
    "a comment": ("mine.py", "# a comment", "# another comment"),
    "a docstring": ("mine.py", '"""A loss."""', '"""A better loss."""'),
    "no docstring": ("mine.py", '    """A loss."""\n', ""),
    "the module's docstring": ("mine.py", "of a user", "of users"),
    "blank lines": ("mine.py", "def loss", "\n\n\n\ndef loss"),
    "line breaks": ("mine.py", "(x - r)", "(\n        x - r\n    )"),
    "an unused function": ("mine.py", "UNUSED +", "UNUSED -"),
    "an unused constant": ("mine.py", "UNUSED = 1", "UNUSED = 2"),
    "an unused helper": ("tools/__init__.py", "return 6", "return 7"),
    "a comment of a helper": ("tools/deeper.py", "def twice", "# two\ndef twice"),
    "an unused module": ("tools/idle.py", "9", "10"),
    "a further function": ("mine.py", "add =", "def more():\n    pass\n\n\nadd ="),
}


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield tmp_path
    forget()


def forget() -> None:
    for name in [*sys.modules]:
        if name.partition(".")[0] in ("mine", "tools"):
            del sys.modules[name]
    importlib.invalidate_caches()


def write(project: Path) -> None:
    for name, text in FILES.items():
        path = project / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.replace("PLACE", str(project)))
    (project / "other.csv").write_text(FILES["means.csv"])


def parts_of(change: str = "") -> dict[str, str]:
    """The dependencies of all that the project has, freshly imported."""
    forget()
    mine: Any = importlib.import_module("mine")
    policy = mine.Policy(0.3, ["x"])
    rate = 2.0 if change == "closed" else 1.0
    values = {
        "policy": policy,
        "loss": mine.loss,
        "closure": mine.make(rate),
        "partial": partial(mine.add, 2.0 if change == "bound" else 1.0),
        "method": policy.shift,
        "read": mine.read,
        "entered": mine.entered,
    }
    return dependencies(values)


def edited(project: Path, edit: tuple[str, str, str]) -> tuple[Any, Any]:
    """The dependencies before and after an edit."""
    name, old, new = edit
    write(project)
    before = parts_of()
    if not old:
        return before, parts_of(new)
    path = project / name
    text = path.read_text()
    assert text.count(old) == 1 or name != "mine.py"
    path.write_text(text.replace(old, new))
    return before, parts_of()


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_what_is_run_changes_the_dependencies(
    project: Path, name: str
) -> None:
    before, after = edited(project, EDITS[name])
    assert changed_parts(before, after)


@pytest.mark.parametrize("name", NO_EDITS)
def test_other_edits_do_not(project: Path, name: str) -> None:
    before, after = edited(project, NO_EDITS[name])
    assert changed_parts(before, after) == []


def test_changes_have_names(project: Path) -> None:
    """The part that was edited is the one that is reported."""
    for edit, part in {
        "a constant of the module": "mine.SCALE",
        "a constant of the helper's helper": "tools.deeper.FACTOR",
        "a helper by its module": "tools.used",
        "the content of a data file": f"file {project}/means.csv",
        "a class attribute": "mine.Policy",
        "a method of a base class": "mine.Root.shift",
    }.items():
        assert part in changed_parts(*edited(project, EDITS[edit]))


def test_names_that_are_computed_take_the_whole_module(project: Path) -> None:
    write(project)
    (project / "mine.py").write_text(
        "import tools\n\n\ndef loss(x, name):\n    return getattr(tools, name)(x)\n"
    )

    def parts() -> dict[str, str]:
        forget()
        return dependencies({"loss": importlib.import_module("mine").loss})

    before = parts()
    path = project / "tools" / "__init__.py"
    path.write_text(path.read_text().replace("return 6", "return 7"))
    assert changed_parts(before, parts())


def test_code_without_a_file_is_hashed(tmp_path: Path) -> None:
    """A notebook's functions have no source file."""

    def cell(text: str) -> Any:
        path = tmp_path / "cell.py"
        path.write_text(text)
        loss = runpy.run_path(str(path), run_name="__main__")["loss"]
        path.unlink()
        del loss.__globals__["__file__"]
        return loss

    def parts(text: str) -> dict[str, str]:
        return dependencies({"loss": cell(text)})

    text = "RATE = 2\nclass A:\n    b = 1\ndef loss(x):\n    return RATE * x * A.b\n"
    assert parts(text) == parts(text)
    for old, new in (("RATE = 2", "RATE = 3"), ("* x", "+ x"), ("b = 1", "b = 2")):
        assert parts(text) != parts(text.replace(old, new, 1))


def test_what_cannot_be_hashed_is_refused() -> None:
    lock = threading.Lock()
    with pytest.raises(
        NotPortable, match=r"got a _thread.lock \(policy, .*: create it"
    ):
        dependencies({"policy": lambda: lock})


def test_data_counts_by_content_not_by_identity() -> None:
    generator = np.random.default_rng
    alike = [{"a": [1, 2.0]}, {3, 1}, np.arange(3), generator(1), np.array([{}, "a"])]
    again = [{"a": [1, 2.0]}, {1, 3}, np.arange(3), generator(1), np.array([{}, "a"])]
    other = [{"a": [1, 2.5]}, {1, 4}, np.ones(3), generator(2), np.array([{}, "b"])]
    for one, same, different in zip(alike, again, other, strict=True):
        assert dependencies({"x": one}) == dependencies({"x": same})
        assert dependencies({"x": one}) != dependencies({"x": different})


def test_values_that_contain_themselves() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    assert dependencies({"x": loop}) == dependencies({"x": loop})
