"""Shared parts of commands: JSON for programs, refusals, and options for reading a log
in its units of rewards."""

import argparse
import importlib
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import isfinite, isnan
from pathlib import Path
from typing import NamedTuple

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import whole
from oddsmith.core.errors import BadFile, ExpertFailed, InvalidInput, OddsmithError
from oddsmith.core.losses import LOSSES, Loss
from oddsmith.files.policy import PolicyFile
from oddsmith.logs.formats import FORMATS, LogReader
from oddsmith.logs.table import Log

__all__ = [
    "Refusal",
    "Units",
    "add_reading",
    "add_units",
    "as_json",
    "asking",
    "check_file_place",
    "checked_seed",
    "learnt_units",
    "loss_named",
    "reader",
    "units_of",
]


class Refusal(NamedTuple):
    """The output of a command that has no result, or a negative one. The command exits
    with `code`."""

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
        "context=age,city (a trailing comma makes a list of one; time= ignores our "
        "column time)",
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
    """Return the reader for these options. `arms` are those of a policy file; `offers`
    is set if the file has none."""
    columns: dict[str, str | Sequence[str]] = {}
    for pair in asked.columns:
        ours, sign, theirs = pair.partition("=")
        if not sign or not ours:
            raise InvalidInput(
                "columns must have the form OURS=THEIRS, as in reward=clicked; got "
                f"{pair!r}"
            )
        if ours in columns:
            raise InvalidInput(
                f"columns must name each of our columns once; got {ours!r} twice"
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
    """Raise an error before the work if the output file could not be written after
    it."""
    problem = ""
    if path.is_dir():
        problem = "it is a folder"
    elif not path.parent.is_dir():
        problem = "its folder does not exist"
    if problem:
        raise BadFile(f"out must be a writable file; got {str(path)!r}, {problem}")


def checked_seed(*choices: int | None) -> int:
    """Return the first seed that is given."""
    first = next(seed for seed in choices if seed is not None)
    return whole("seed", first, low=0, high=2**63 - 1)


@contextmanager
def asking(what: str) -> Iterator[None]:
    """Convert exceptions of a user's own experts to an error of one sentence."""
    try:
        yield
    except (OddsmithError, MemoryError):
        raise
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise ExpertFailed(
            f"{what} must accept the log's contexts; {problem:.160}"
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
    """Return the loss with this name in `LOSSES`, the function named by
    module:function, or the loss given as a formula of prediction g and reward r."""
    if text in LOSSES:
        return LOSSES[text]
    module, colon, name = text.partition(":")
    if not colon:
        return _formula(text)
    sys.path.insert(0, str(Path.cwd()))
    try:
        function = getattr(importlib.import_module(module), name)
    except Exception as error:
        # Report any exception in a user's module as one sentence.
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


_PLAIN = RewardScale(0.0, 1.0)


def add_units(parser: argparse.ArgumentParser) -> None:
    """Add the option --reward, the units of the rewards in a log."""
    units = (
        "units of rewards (default: [reward] of the policy file, else 0 1); logs "
        "that oddsmith wrote have rewards from 0 to 1"
    )
    parser.add_argument(
        "--reward", nargs=2, type=float, metavar=("LOW", "HIGH"), help=units
    )


class Units(NamedTuple):
    """The units of the results, a reader that converts rewards if necessary, and a note
    for the output (may be empty)."""

    scale: RewardScale
    reader: LogReader
    note: str

    def doubt(self, log: Log) -> str:
        """Return a hint if the units come from a policy file and all rewards are in [0,
        1], otherwise ""."""
        if self.reader.scale is None or not self.note:
            return ""
        if self.scale.low >= 0 and self.scale.high <= 1:
            return ""
        rewards = self.scale.value(log.rewarded().reward)
        if not len(rewards) or rewards.min() < 0 or rewards.max() > 1:
            return ""
        return (
            f"All of them are from {rewards.min():g} to {rewards.max():g}: if 1 is the "
            "highest, add --reward 0 1."
        )


def units_of(
    asked: argparse.Namespace,
    files: Iterable[PolicyFile],
    reader: LogReader,
    logs: Sequence[str],
) -> Units:
    """Return the units of --reward, otherwise those of the policy files with [reward].
    Files with different units are an error.

    Logs that oddsmith wrote have rewards in [0, 1] already; units then affect only the
    output.
    """
    with_units = [file for file in files if "reward" in file.table]
    if asked.reward is not None:
        scale = _given_scale(asked.reward)
    elif not with_units:
        return Units(_PLAIN, reader, "")
    else:
        scale = _common_scale(with_units)
    is_own = _is_own(reader, logs)
    if not is_own:
        reader = replace(reader, scale=scale)
    note = ""
    if asked.reward is None:
        what = "Answers" if is_own else "Rewards"
        note = f"{what} are in the units of {with_units[0].path}, {_words(scale)}."
    elif is_own:
        note = (
            f"Results are in units of {_words(scale)}: {logs[0]} was written by "
            "oddsmith, with rewards from 0 to 1."
        )
    return Units(scale, reader, "" if scale == _PLAIN else note)


def _common_scale(files: Sequence[PolicyFile]) -> RewardScale:
    first = files[0]
    for other in files[1:]:
        if other.reward_scale != first.reward_scale:
            raise InvalidInput(
                "policy files must have the same [reward]; got "
                f"{_words(first.reward_scale)} in {first.path} and "
                f"{_words(other.reward_scale)} in {other.path}: choose with --reward "
                "LOW HIGH"
            )
    return first.reward_scale


def learnt_units(asked: argparse.Namespace, file: PolicyFile) -> RewardScale:
    """Return the scale that maps rewards to 0 and 1 for a policy that learns: that of
    its file, otherwise of --reward."""
    if asked.reward is None or "reward" in file.table:
        return file.reward_scale
    return _given_scale(asked.reward)


def _given_scale(reward: Sequence[float]) -> RewardScale:
    try:
        return RewardScale(*reward)
    except InvalidInput as error:
        raise InvalidInput(f"reward: {error}") from error


def _is_own(reader: LogReader, logs: Sequence[str]) -> bool:
    """Return whether oddsmith wrote the logs. Logs of both kinds together are an
    error."""
    own = [log for log in logs if reader.is_own(log)]
    others = [log for log in logs if log not in own]
    if own and others:
        raise InvalidInput(
            f"logs must have the same units; {own[0]} was written by oddsmith, with "
            f"rewards from 0 to 1, {others[0]} was not"
        )
    return bool(own)


def _words(scale: RewardScale) -> str:
    return f"{scale.low:g} to {scale.high:g}"
