"""What was measured, kept part by part, so that a run that was stopped goes on where it
was.

A part holds for the sources of oddsmith (all of them, files of the page as well), for
the benchmark's own, and for the machine and the packages it ran with. Comments and
docstrings do not count. It is not under version control.
"""

import ast
import datetime
import inspect
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import oddsmith
from benchmarks.bakeoff import code
from benchmarks.timing import machine
from benchmarks.told import Compared, Told, told
from oddsmith.files import disk

HERE = Path(__file__).parent
PACKAGES = (
    "oddsmith",
    "numpy",
    "scipy",
    "numba",
    "vowpalwabbit",
    "mabwiser",
    "river",
    "contextualbandits",
)


class Kept(NamedTuple):
    """A part that was measured: its section and comparisons, what it holds for (`key`),
    and the sources it ran on.

    `load` is how much other work the machine had before it, and `seconds` is what it
    took.
    """

    name: str
    key: str
    text: str
    compared: tuple[Compared, ...]
    source: str
    date: str
    load: float
    seconds: float


@lru_cache
def source() -> str:
    """The sources as they are, in eight digits."""
    root, content = Path(oddsmith.__file__).parent, sha256()
    for path in sorted(
        path
        for path in root.rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    ):
        said = (
            code(path.read_text()).encode()
            if path.suffix == ".py"
            else path.read_bytes()
        )
        content.update(
            f"{path.relative_to(root).as_posix()} {sha256(said).hexdigest()}\n".encode()
        )
    return content.hexdigest()[:8]


def files(first: Path) -> list[Path]:
    """A file and those of the benchmarks that it imports, or runs as a module, in the
    order of their names."""
    found, left = set[Path](), [first]
    while left:
        found.add(now := left.pop())
        nodes = list(ast.walk(ast.parse(now.read_text())))
        froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        names = [
            f"benchmarks.{one.name}"
            for node in froms
            if node.module == "benchmarks"
            for one in node.names
        ]
        names += [node.module for node in froms if node.module]
        names += [str(node.value) for node in nodes if isinstance(node, ast.Constant)]
        own = [name[11:] for name in names if re.fullmatch(r"benchmarks\.\w+", name)]
        left += [
            path
            for name in own
            if (path := HERE / f"{name}.py") not in found and path.exists()
        ]
    return sorted(found)


def key(part: Callable[..., Any]) -> str:
    """What the results of a part depend on, the machine's other work aside."""
    first = Path(inspect.getfile(part.func if isinstance(part, partial) else part))
    own = [code(path.read_text()) for path in files(first)]
    return sha256(json.dumps([source(), machine(PACKAGES), *own]).encode()).hexdigest()[
        :16
    ]


def measure(name: str, part: Callable[[], str | Told]) -> Kept:
    """Run a part now."""
    load, start = os.getloadavg()[0], time.perf_counter()
    text, compared = told(part())
    seconds = time.perf_counter() - start
    return Kept(
        name,
        key(part),
        text,
        compared,
        source(),
        f"{datetime.date.today():%Y-%m-%d}",
        load,
        seconds,
    )


def _path(folder: Path, name: str) -> Path:
    return folder / f"{name.replace(' ', '_')}.json"


def write(folder: Path, one: Kept) -> None:
    """Keep a part."""
    folder.mkdir(parents=True, exist_ok=True)
    content = one._asdict() | {"compared": [asdict(each) for each in one.compared]}
    disk.write(_path(folder, one.name), json.dumps(content, indent=1).encode())


def read(folder: Path, name: str) -> Kept | None:
    """A part that was kept, of whatever source."""
    path = _path(folder, name)
    if not path.exists():
        return None
    content = json.loads(path.read_text())
    return Kept(
        **content
        | {"compared": tuple(Compared(**each) for each in content["compared"])}
    )
