"""Shared parts of commands: JSON for programs, refusals, and options for reading a
log."""

import argparse
import importlib
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite, isnan
from pathlib import Path
from typing import NamedTuple

from oddsmith.core.arrays import whole
from oddsmith.core.errors import BadFile, ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.losses import LOSSES, Loss
from oddsmith.logs.formats import FORMATS, LogReader

__all__ = [
    "Refusal",
    "add_reading",
    "as_json",
    "asking",
    "check_file_place",
    "checked_seed",
    "loss_named",
    "reader",
]


class Refusal(NamedTuple):
    """The text of a command that has no answer, or answers no; it exits with
    `code`."""

    text: str
    code: int = 3


def as_json(value: object) -> str:
    """Return strict JSON: infinities as strings, NaN as null.

    >>> as_json({"bound": float("inf"), "value": float("nan")})
    '{\\n  "bound": "inf",\\n  "value": null\\n}'
    """

    def plain(inner: object) -> object:
        if isinstance(inner, dict):
            return {name: plain(one) for name, one in inner.items()}
        if isinstance(inner, list | tuple):
            return [plain(one) for one in inner]
        if not isinstance(inner, float) or isfinite(inner):
            return inner
        return None if isnan(inner) else str(inner)

    return json.dumps(plain(value), indent=2, allow_nan=False)


def add_reading(parser: argparse.ArgumentParser) -> None:
    """Add the options for reading a log."""
    group = parser.add_argument_group("format of the log")
    group.add_argument(
        "--columns",
        nargs="+",
        action="extend",
        default=[],
        metavar="OURS=THEIRS",
        help="names of columns that differ from ours: arm=shown reward=clicked "
        "context=age,city (a trailing comma: a list of one; time= leaves ours out)",
    )
    group.add_argument(
        "--arms",
        nargs="+",
        metavar="NAME",
        help="names of the arms, in the order of their numbers",
    )
    group.add_argument(
        "--format",
        help=f"{', '.join(FORMATS[:-1])} (default: by the file's name and content)",
    )


def reader(
    asked: argparse.Namespace,
    arms: Sequence[str] | None = None,
    *,
    offers: bool = False,
) -> LogReader:
    """Return the reader for these options; `arms` are those of a policy file, `offers`
    is for a file without."""
    columns: dict[str, str | Sequence[str]] = {}
    for pair in asked.columns:
        ours, sign, theirs = pair.partition("=")
        if not sign or not ours:
            raise InvalidInput(
                f"columns must be OURS=THEIRS like reward=clicked; got {pair!r}"
            )
        if ours in columns:
            raise InvalidInput(
                f"columns must name each of ours once; got {ours!r} twice"
            )
        columns[ours] = theirs
        if "," in theirs:
            columns[ours] = [one for one in theirs.split(",") if one]
    if arms is None:
        arms = asked.arms
    elif asked.arms is not None and tuple(asked.arms) != tuple(arms):
        raise InvalidInput(
            f"arms must be those of the policy file, {list(arms)}; got {asked.arms}"
        )
    return LogReader(columns, arms, asked.format, offers=offers)


def check_file_place(path: Path) -> None:
    """Refuse, before the work, a file that could not be written after it."""
    problem = ""
    if path.is_dir():
        problem = "it is a folder"
    elif not path.parent.is_dir():
        problem = "its folder does not exist"
    if problem:
        raise BadFile(
            f"out must be a file that can be written; got {str(path)!r}, {problem}"
        )


def checked_seed(*choices: int | None) -> int:
    """Return the first seed that is given."""
    first = next(seed for seed in choices if seed is not None)
    return whole("seed", first, low=0, high=2**63 - 1)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turn exceptions of a user's own experts into one sentence."""
    try:
        yield
    except (OddsmithError, MemoryError):
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ExpertFailed(
            f"{what} must answer the log's contexts; {problem:.160}"
        ) from error


def _formula(text: str) -> Loss:
    from oddsmith.theory.expressions import parse_loss

    try:
        return parse_loss(text)
    except InvalidInput as error:
        names = ", ".join(LOSSES)
        raise InvalidInput(
            f"loss must be one of {names}, module:function, or a formula of prediction "
            f"g and reward r with + - * / **, log, exp and sqrt; got {text!r}"
        ) from error


def loss_named(text: str) -> Loss:
    """Return the loss with this name in `LOSSES`, the function of module:function, or
    the loss of a formula of prediction g and reward r."""
    if text in LOSSES:
        return LOSSES[text]
    module, colon, name = text.partition(":")
    if not colon:
        return _formula(text)
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        # report any exception of a user's module as one sentence
        problem = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            "loss must be a function that can be imported; got "
            f"{text!r}, {problem:.120}"
        ) from error
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise InvalidInput(
            f"loss must be a function of prediction and reward; got {text!r}"
        )
    return function  # type: ignore[no-any-return]
