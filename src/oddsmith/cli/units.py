"""The units of rewards in commands about logs, from --reward or the policy files."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import InvalidInput
from oddsmith.files.policy import PolicyFile
from oddsmith.logs.formats import LogReader
from oddsmith.logs.table import Log

__all__ = ["Units", "add_units", "learnt_units", "units_of"]

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
