"""The units of rewards in a command about logs: those that were given, or those of the
policy files."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import InvalidInput
from oddsmith.files.policy import PolicyFile
from oddsmith.logs.formats import LogReader
from oddsmith.logs.table import Log

__all__ = ["Units", "add_units", "learnt_units", "units_of"]

_PLAIN = RewardScale(0.0, 1.0)


def add_units(parser: argparse.ArgumentParser) -> None:
    """The option that says in which units the rewards of a log are."""
    units = (
        "the units of rewards (default: [reward] of the policy file); files that "
        "oddsmith wrote have 0 to 1 in them"
    )
    parser.add_argument(
        "--reward", nargs=2, type=float, metavar=("LOW", "HIGH"), help=units
    )


class Units(NamedTuple):
    """The units of answers, the reader that maps rewards, if they are to be mapped, and
    a sentence, if one is due."""

    scale: RewardScale
    reader: LogReader
    note: str

    def doubt(self, log: Log) -> str:
        """What to say where units were taken from a policy file, and all rewards look
        as if they were in [0, 1]."""
        if (
            self.reader.scale is None
            or not self.note
            or (self.scale.low >= 0 and self.scale.high <= 1)
        ):
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
    """The units that were asked for, else those of the policy files that have [reward];
    refused where they differ.

    Files that oddsmith wrote have rewards in [0, 1] already: units are then those of
    answers alone.
    """
    if asked.reward is not None:
        scale = _asked(asked.reward)
        if not _own(reader, logs):
            return Units(scale, replace(reader, scale=scale), "")
        told = (
            f"Answers are in units of {_words(scale)}: {logs[0]} was written by "
            "oddsmith, with rewards in 0 to 1."
        )
        return Units(scale, reader, "" if scale == _PLAIN else told)
    stating = [file for file in files if "reward" in file.table]
    if not stating:
        return Units(_PLAIN, reader, "")
    first = stating[0]
    for other in stating[1:]:
        if other.reward_scale != first.reward_scale:
            got = " and ".join(
                f"{_words(file.reward_scale)} in {file.path}" for file in (first, other)
            )
            raise InvalidInput(
                f"policy files must have the same [reward]; got {got}: --reward LOW "
                "HIGH says which"
            )
    scale = first.reward_scale
    where = f"are in the units of {first.path}, {_words(scale)}."
    if _own(reader, logs):
        return Units(scale, reader, "" if scale == _PLAIN else f"Answers {where}")
    return Units(
        scale,
        replace(reader, scale=scale),
        "" if scale == _PLAIN else f"Rewards {where}",
    )


def learnt_units(asked: argparse.Namespace, file: PolicyFile) -> RewardScale:
    """The units that 0 and 1 stand for where a policy learns: its file's, else those
    that were asked for."""
    return (
        file.reward_scale
        if asked.reward is None or "reward" in file.table
        else _asked(asked.reward)
    )


def _asked(reward: Sequence[float]) -> RewardScale:
    try:
        return RewardScale(*reward)
    except InvalidInput as error:
        raise InvalidInput(f"reward: {error}") from error


def _own(reader: LogReader, logs: Sequence[str]) -> bool:
    """Whether oddsmith wrote the logs; refused where it wrote some of them only."""
    own = [reader.is_own(one) for one in logs]
    if any(own) and not all(own):
        mine, theirs = logs[int(np.argmax(own))], logs[int(np.argmin(own))]
        got = f"{mine} was written by oddsmith, in 0 to 1, {theirs} was not"
        raise InvalidInput(f"logs must have the same units; {got}")
    return all(own)


def _words(scale: RewardScale) -> str:
    return f"{scale.low:g} to {scale.high:g}"
