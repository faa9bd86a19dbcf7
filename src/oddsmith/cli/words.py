"""What commands share: JSON for programs, answers that are refused, and how a log is to
be read."""

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
    "Refused",
    "add_reading",
    "as_json",
    "asking",
    "check_file_place",
    "checked_seed",
    "loss_named",
    "reader",
]


class Refused(NamedTuple):
    """What to print where no answer can be given, or the answer is no: the command then
    exits with `code`."""

    text: str
    code: int = 3


def as_json(value: object) -> str:
    """Strict JSON: infinities as strings, what is no number as null.

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
    """The options that say how a log is to be read."""
    names = (
        "their names of our columns: arm=shown reward=clicked context=age,city (a "
        "trailing comma: a list of one; "
    )
    names += "time= leaves ours out)"
    parser.add_argument(
        "--columns",
        nargs="+",
        action="extend",
        default=[],
        metavar="OURS=THEIRS",
        help=names,
    )
    parser.add_argument(
        "--arms",
        nargs="+",
        metavar="NAME",
        help="the arms' names, in the order of their numbers",
    )
    parser.add_argument(
        "--format",
        help=f"{', '.join(FORMATS[:-1])} (default: by the file's name and content)",
    )


def reader(
    asked: argparse.Namespace,
    arms: Sequence[str] | None = None,
    *,
    offers: bool = False,
) -> LogReader:
    """The reader that these options describe; `arms` are those of a policy file,
    `offers` is for one without."""
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
        columns[ours] = (
            [one for one in theirs.split(",") if one] if "," in theirs else theirs
        )
    if asked.arms is not None and arms is not None and tuple(asked.arms) != tuple(arms):
        raise InvalidInput(
            f"arms must be those of the policy file, {list(arms)}; got {asked.arms}"
        )
    return LogReader(
        columns, asked.arms if arms is None else arms, asked.format, offers=offers
    )


def check_file_place(path: Path) -> None:
    """Refuses, before the work, a file that could not be written after it."""
    if path.is_dir() or not path.parent.is_dir():
        why = "it is a folder" if path.is_dir() else "its folder does not exist"
        raise BadFile(
            f"out must be a file that can be written; got {str(path)!r}, {why}"
        )


def checked_seed(*choices: int | None) -> int:
    """The first seed that is given."""
    return whole(
        "seed", next(one for one in choices if one is not None), low=0, high=2**63 - 1
    )


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Turns what a user's own experts raise into one sentence."""
    try:
        yield
    except (OddsmithError, MemoryError):
        raise
    except Exception as error:
        raised = f"{type(error).__name__}: {error}"
        raise ExpertFailed(
            f"{what} must answer the log's contexts; {raised:.160}"
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
    """The loss with this name in `LOSSES`, the function that module:function names, or
    a formula of prediction g and reward r."""
    if text in LOSSES:
        return LOSSES[text]
    module, colon, name = text.partition(":")
    if not colon:
        return _formula(text)
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever a user's module raises becomes one sentence
        raised = f"{type(error).__name__}: {error}"
        raise InvalidInput(
            f"loss must be a function that can be imported; got {text!r}, {raised:.120}"
        ) from error
    finally:
        sys.path.pop(0)
    if not callable(function):
        raise InvalidInput(
            f"loss must be a function of prediction and reward; got {text!r}"
        )
    return function  # type: ignore[no-any-return]
