"""The pages of the API have every public name exactly once, each by a path that leads
to it."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

import oddsmith as od
from architecture.kept import MODULES

REPOSITORY = Path(od.__file__).parents[2]
API = REPOSITORY / "docs" / "api"
ENTRY = re.compile(r"^::: (\S+)$", re.MULTILINE)
EXTRAS = ("oddsmith.client.openfeature.", "oddsmith.lab.episodes.gymnasium.")
# modules whose `__all__` is public; what is beyond them may change in any version
DOCUMENTED = (
    "oddsmith",
    "oddsmith.server.audit",
    "oddsmith.client",
    "oddsmith.lab.episodes",
    "oddsmith.evaluation",
    "oddsmith.experts",
    "oddsmith.experts.learners",
    "oddsmith.core.errors",
    "oddsmith.core.kernels",
    "oddsmith.lab",
    "oddsmith.logs",
    "oddsmith.core.losses",
    "oddsmith.policies",
    "oddsmith.files.reports",
    "oddsmith.server.http.keys",
    "oddsmith.server.store",
    "oddsmith.theory",
    "oddsmith.lab.worlds",
)


def entries() -> list[str]:
    """The paths of names on all pages."""
    return [
        path
        for page in sorted(API.glob("*.md"))
        for path in ENTRY.findall(page.read_text())
    ]


def public() -> dict[str, Any]:
    """Every public name by its path, modules left out: they have pages, not entries."""
    modules = {name: importlib.import_module(name) for name in DOCUMENTED}
    named = {
        f"{name}.{one}": getattr(module, one)
        for name, module in modules.items()
        for one in module.__all__
    }
    assert all(
        thing.__name__ in DOCUMENTED
        for thing in named.values()
        if inspect.ismodule(thing)
    )
    return {
        path: thing
        for path, thing in named.items()
        if not inspect.ismodule(thing) and not _is_helper(path, thing)
    }


def _is_helper(path: str, thing: object) -> bool:
    """Whether it is a function of the module of errors: its classes are public."""
    return path.startswith("oddsmith.core.errors.") and inspect.isfunction(thing)


def things() -> dict[str, Any]:
    """What the paths lead to, by path; those that need an extra are left out."""
    return {
        path: pkgutil.resolve_name(path)
        for path in entries()
        if not path.startswith(EXTRAS)
    }


def test_every_path_leads_to_a_public_name() -> None:
    for path in entries():
        home, _, name = path.rpartition(".")
        source = REPOSITORY / "src" / f"{home.replace('.', '/')}.py"
        if path.startswith(EXTRAS):
            assert (
                f'"{name}"'
                in source.read_text().partition("__all__ = ")[2].partition("]")[0]
            ), path
        else:
            assert name in importlib.import_module(home).__all__, path


def test_no_path_is_also_a_modules() -> None:
    """The generator reads sources, and of two things of one path it takes the
    module."""
    sources = REPOSITORY / "src"
    for path in entries():
        place = sources / path.replace(".", "/")
        assert not place.with_suffix(".py").exists(), path
        assert not place.is_dir(), path


def test_every_public_name_is_on_a_page_exactly_once() -> None:
    shown = [id(thing) for thing in things().values()]
    assert len(shown) == len(set(shown)) > 200
    missing = [path for path, thing in public().items() if id(thing) not in shown]
    assert not missing


def test_teeth_a_name_that_no_page_has_is_found_out() -> None:
    shown = {id(thing) for path, thing in things().items() if path != "oddsmith.Agent"}
    assert [path for path, thing in public().items() if id(thing) not in shown] == [
        "oddsmith.Agent"
    ]


def test_what_is_kept_is_documented() -> None:
    """Modules whose names are kept or deprecated, but for one that needs an extra."""
    assert set(MODULES) - set(DOCUMENTED) == {"oddsmith.client.openfeature"}
