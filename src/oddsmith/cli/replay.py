"""`oddsmith replay`: what a policy that learns would have lived through, from a log."""

import argparse
from math import hypot
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.cli.parser import Commands
from oddsmith.cli.units import add_units, units_of
from oddsmith.cli.words import (
    Refused,
    add_reading,
    as_json,
    asking,
    checked_seed,
    reader,
)
from oddsmith.core.arrays import Array, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.files.policy import read_policy
from oddsmith.files.reports.answer import Span, chart, compared

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.evaluation.replay import Replayed


_LEAST = 100  # accepted rows for a comparison: as many as evaluate asks for
_LEVEL = 0.95


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    again = commands.add_parser(
        "replay", help="what a policy would have lived through, learning, by rejection"
    )
    again.add_argument("log", metavar="LOG", help="the log, with the odds of all arms")
    again.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="the policy file"
    )
    again.add_argument(
        "--seed", type=int, help="of acceptance (default: the policy file's, else 0)"
    )
    again.add_argument(
        "--floor",
        type=float,
        help="at most every odds of the logger (default: found in the log)",
    )
    again.add_argument("--steps", type=int, help="stop after so many accepted rows")
    add_reading(again)
    add_units(again)
    again.add_argument("--json", action="store_true", help="print JSON for programs")
    again.set_defaults(run=_replay)


def _replay(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.evaluation.replay import replay
    from oddsmith.evaluation.rows import rewarded_rows

    file = read_policy(asked.policy)
    units = units_of(
        asked, [file], reader(asked, file.arms, offers=file.arms is None), [asked.log]
    )
    log = units.reader.read_log(asked.log)
    n = len(rewarded_rows(log))
    seed = checked_seed(asked.seed, file.seed, 0)
    if asked.steps is not None:
        whole("steps", asked.steps)
    try:
        with asking(str(asked.policy)):
            lived = replay(
                file.policy, log, seed=seed, floor=asked.floor, steps=asked.steps
            )
    except InvalidInput as error:
        return Refused(
            as_json({"refused": str(error)}) if asked.json else f"refused: {error}"
        )
    accepted = len(lived.rows)
    if accepted < 2:
        why = (
            f"{accepted} of {n:,} rows were accepted, which is too few for a value; a "
            "uniform logger accepts most"
        )
        return Refused(
            as_json({"refused": why, "accepted": accepted})
            if asked.json
            else f"refused: {why}"
        )
    width = units.scale.high - units.scale.low
    lived = lived._replace(rewards=units.scale.value(lived.rewards))
    sentence, picture = _verdict(
        str(asked.policy), lived, units.scale.value(log.rewarded().reward), width
    )
    if asked.json:
        numbers = {
            "value": lived.value,
            "error": lived.error,
            "accepted": accepted,
            "rows": n,
            "seed": seed,
        }
        text = as_json({"verdict": sentence} | numbers)
    else:
        table = (
            f"value     {lived.value:.4f} ± {lived.error:.4f} (standard error), the "
            "mean reward while learning\n"
            f"accepted  {accepted:,} of {n:,} rows, as the policy's own first "
            f"{accepted:,} steps"
        )
        text = "\n\n".join(part for part in (sentence, picture, table) if part)
    return Refused(text) if accepted < _LEAST or not lived.error > 0 else text


def _verdict(
    name: str, lived: "Replayed", rewards: Array, width: float
) -> tuple[str, str]:
    """What the policy earns more than the logger in its first steps, as a sentence and
    a picture, if there is one.

    The two means share rows, which makes their difference vary less than that of
    independent ones: the interval, made as for independent ones, is on the safe side.
    """
    accepted = len(lived.rows)
    today, own = (
        float(rewards.mean()),
        f"{name}, in its first {accepted:,} decisions of learning,",
    )
    plain = (
        f"{own} earns {lived.value:.3f} per decision, where the logger earns "
        f"{today:.3f}"
    )
    if accepted < _LEAST:
        return (
            (
                f"{plain}; {accepted} accepted rows are too few to compare them, "
                f"{_LEAST} would do."
            ),
            "",
        )
    if not lived.error > 0:
        next_step = (
            "log decisions until some differ"
            if rewards.min() == rewards.max()
            else "try another seed"
        )
        return (
            (
                f"{plain}; all of its rewards are the same, which says nothing about "
                f"chance: {next_step}."
            ),
            "",
        )
    reach = NormalDist().inv_cdf((1 + _LEVEL) / 2) * hypot(
        lived.error, float(rewards.std()) / np.sqrt(len(rewards))
    )
    more = lived.value - today
    span = Span(more, max(-width, more - reach), min(width, more + reach))
    sentence = compared(
        own,
        "the logger",
        span,
        f"{_LEVEL:.0%} normal interval, replay".replace("%", " %"),
    )
    return f"{sentence}.", chart([(name, span)], zero="the logger")
