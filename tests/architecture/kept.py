"""The names that are kept or deprecated, as the code has them; `python -m
architecture.kept` writes them down. Routes are written down in
docs/reference/service.md, which tests/docs/test_service_walks.py compares with the
code."""

import argparse
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import oddsmith
from oddsmith.cli.main import command_parser
from oddsmith.files.kinds import KINDS, settings

__all__ = ["FILE", "MODULES", "kept_names"]

FILE = Path(__file__).with_name("kept_names.txt")
SOURCE = Path(oddsmith.__file__).parent
METRICS = SOURCE.parents[1] / "docs" / "reference" / "metrics.md"

_MODULES = (
    "client client.openfeature core.errors core.kernels core.losses evaluation experts "
    "files.reports lab lab.episodes lab.worlds logs policies server.audit "
    "server.http.keys server.store theory"
)
MODULES = ("oddsmith", *(f"oddsmith.{name}" for name in _MODULES.split()))


def kept_names() -> list[str]:
    """A line for each name; for what can be called, with its parameters in their
    order."""
    return sorted(
        {
            *_python(),
            *_commands("", command_parser()),
            *_files(),
            *_metrics(),
            *_environment(),
        }
    )


def _python() -> Iterator[str]:
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            value = getattr(module, name)
            yield " ".join([f"python {module.__name__}.{name}", *_parameters(value)])


def _parameters(value: object) -> list[str]:
    """Names of the parameters of a function or of a class of ours that is made by
    calling it."""
    is_error = isinstance(value, type) and issubclass(value, BaseException)
    if (
        not (inspect.isfunction(value) or inspect.isclass(value))
        or is_error
        or getattr(value, "_is_protocol", False)
    ):
        return []
    return [
        name for name in inspect.signature(value).parameters if not name.startswith("_")
    ]


def _commands(name: str, parser: argparse.ArgumentParser) -> Iterator[str]:
    inner = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    options = [
        option
        for action in parser._actions
        for option in action.option_strings
        if option.startswith("--")
    ]
    yield " ".join([f"command oddsmith{name}", *sorted(options)])
    for action in inner:
        for word, below in action.choices.items():
            yield from _commands(f"{name} {word}", below)


def _files() -> Iterator[str]:
    for kind in KINDS:
        yield " ".join([f"policy kind {kind}", *settings(kind)])


def _metrics() -> Iterator[str]:
    """From the page, which another test holds against what a running service
    exports."""
    cells = re.findall(r"^\| (`.*?) \|", METRICS.read_text(), re.MULTILINE)
    return (
        f"metric {name}" for cell in cells for name in re.findall(r"`([a-z_]+)`", cell)
    )


def _environment() -> Iterator[str]:
    for path in SOURCE.rglob("*.py"):
        yield from (
            f"environment {name}"
            for name in re.findall(r"\bODDSMITH_[A-Z_]+\b", path.read_text())
        )


if __name__ == "__main__":
    FILE.write_text("\n".join(kept_names()) + "\n")
