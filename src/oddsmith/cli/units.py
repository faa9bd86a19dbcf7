"""The units of rewards in a command about logs: those that were given, or those of the policy files."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from oddsmith.errors import InvalidInput
from oddsmith.files import PolicyFile
from oddsmith.logs.reading import LogReader
from oddsmith.logs.table import Log
from oddsmith.rewards import RewardScale

__all__ = ["Units", "add_units", "units_of"]

_PLAIN = RewardScale(0.0, 1.0)


def add_units(parser: argparse.ArgumentParser) -> None:
    """The option that says in which units the rewards of a log are."""
    units = "the units of the log's rewards (default: [reward] of the policy file; 0 1 in files that oddsmith wrote)"
    parser.add_argument("--reward", nargs=2, type=float, metavar=("LOW", "HIGH"), help=units)


class Units(NamedTuple):
    """The units of answers, the reader that maps rewards, if they are to be mapped, and a sentence, if one is due."""

    scale: RewardScale
    reader: LogReader
    note: str

    def doubt(self, log: Log) -> str:
        """What to say where units were taken from a policy file, and all rewards look as if they were in [0, 1]."""
        if self.reader.scale is None or not self.note or (self.scale.low >= 0 and self.scale.high <= 1):
            return ""
        rewards = self.scale.value(log.rewarded().reward)
        if not len(rewards) or rewards.min() < 0 or rewards.max() > 1:
            return ""
        return f"All of them are from {rewards.min():g} to {rewards.max():g}: if 1 is the highest, add --reward 0 1."


def units_of(asked: argparse.Namespace, files: Iterable[PolicyFile], reader: LogReader, logs: Sequence[str]) -> Units:
    """The units that were asked for, else those of the policy files that have [reward]; refused where they differ.

    Files that oddsmith wrote have rewards in [0, 1] already: units of policy files are then those of answers alone.
    """
    if asked.reward is not None:
        try:
            scale = RewardScale(*asked.reward)
        except InvalidInput as error:
            raise InvalidInput(f"reward: {error}") from error
        return Units(scale, replace(reader, scale=scale), "")
    stating = [file for file in files if "reward" in file.table]
    if not stating:
        return Units(_PLAIN, reader, "")
    first = stating[0]
    for other in stating[1:]:
        if other.reward_scale != first.reward_scale:
            got = " and ".join(f"{_words(file.reward_scale)} in {file.path}" for file in (first, other))
            raise InvalidInput(f"policy files must have the same [reward]; got {got}: --reward LOW HIGH says which")
    scale, own = first.reward_scale, [reader.is_own(one) for one in logs]
    where = f"are in the units of {first.path}, {_words(scale)}."
    if all(own):
        return Units(scale, reader, "" if scale == _PLAIN else f"Answers {where}")
    if any(own):
        mine, theirs = logs[int(np.argmax(own))], logs[int(np.argmin(own))]
        got = f"{mine} was written by oddsmith, in 0 to 1, {theirs} was not"
        raise InvalidInput(f"logs must have the same units; {got}")
    return Units(scale, replace(reader, scale=scale), "" if scale == _PLAIN else f"Rewards {where}")


def _words(scale: RewardScale) -> str:
    return f"{scale.low:g} to {scale.high:g}"
