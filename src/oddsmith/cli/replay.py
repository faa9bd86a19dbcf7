"""`oddsmith replay`: replay a log through a learning policy."""

import argparse
from math import hypot
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import (
    Refusal,
    add_reading,
    add_units,
    as_json,
    asking,
    checked_seed,
    reader,
    units_of,
)
from oddsmith.core.arrays import Array, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.files.policy import read_policy
from oddsmith.files.reports.answer import Span, chart, compared

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.evaluation.replay import Replayed


_LEAST = 100  # accepted rows that a comparison needs, as in `evaluate`
_LEVEL = 0.95


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = add_command(
        commands,
        "replay",
        "replay a log through a learning policy (rejection sampling)",
        "oddsmith replay log.parquet --policy news.toml",
    )
    parser.add_argument(
        "log", metavar="LOG", help="log with the propensities of all arms"
    )
    parser.add_argument(
        "--policy", type=Path, required=True, metavar="FILE", help="policy file"
    )
    parser.add_argument(
        "--seed",
        type=int,
        help="seed of the rejections (default: that of the policy file, else 0)",
    )
    parser.add_argument(
        "--floor",
        type=float,
        help="smallest propensity of the logging policy (default: the smallest in the "
        "log)",
    )
    parser.add_argument(
        "--steps",
        type=int,
        help="stop after this number of accepted rows (default: all)",
    )
    add_reading(parser)
    add_units(parser)
    add_json(parser)
    parser.set_defaults(run=_replay)


def _replay(asked: argparse.Namespace) -> str | Refusal:
    from oddsmith.evaluation.replay import replay
    from oddsmith.evaluation.rows import rewarded_rows

    file = read_policy(asked.policy)
    reading = reader(asked, file.arms, offers=file.arms is None)
    units = units_of(asked, [file], reading, [asked.log])
    log = units.reader.read_log(asked.log)
    n = len(rewarded_rows(log))
    seed = checked_seed(asked.seed, file.seed, 0)
    steps = asked.steps
    if steps is not None:
        whole("steps", steps)
    try:
        with asking(str(asked.policy)):
            run = replay(file.policy, log, seed=seed, floor=asked.floor, steps=steps)
    except InvalidInput as error:
        return _refuse(asked, {"refused": str(error)})
    accepted = len(run.rows)
    if accepted < 2:
        why = (
            f"{accepted} of {n:,} rows were accepted, which is too few to estimate a "
            "value; a uniform random logging policy has most rows accepted"
        )
        return _refuse(asked, {"refused": why, "accepted": accepted})
    scale = units.scale
    run = run._replace(rewards=scale.value(run.rewards))
    rewards = scale.value(log.rewarded().reward)
    width = scale.high - scale.low
    sentence, picture = _verdict(str(asked.policy), run, rewards, width)
    if asked.json:
        text = as_json(
            {
                "verdict": sentence,
                "value": run.value,
                "error": run.error,
                "accepted": accepted,
                "rows": n,
                "seed": seed,
            }
        )
    else:
        table = (
            f"value     {run.value:.4f} ± {run.error:.4f} (standard error), the mean "
            f"reward while learning\naccepted  {accepted:,} of {n:,} rows, as the "
            f"policy's own first {accepted:,} steps"
        )
        text = "\n\n".join(part for part in (sentence, picture, table) if part)
    return Refusal(text) if accepted < _LEAST or not run.error > 0 else text


def _refuse(asked: argparse.Namespace, record: dict[str, object]) -> Refusal:
    return Refusal(as_json(record) if asked.json else f"refused: {record['refused']}")


def _verdict(
    name: str, run: "Replayed", rewards: Array, width: float
) -> tuple[str, str]:
    """Return the policy's gain over the logging policy in its first steps, as a
    sentence and a picture (may be empty).

    Both means include the accepted rows, so their difference varies less than that of
    independent means. The interval assumes independence and is therefore conservative.
    """
    accepted = len(run.rows)
    today = float(rewards.mean())
    own = f"{name}, in its first {accepted:,} decisions of learning,"
    plain = (
        f"{own} earns {run.value:.3f} per decision, where the logging policy earns "
        f"{today:.3f}"
    )
    if accepted < _LEAST:
        few = "accepted rows are too few to compare them"
        return f"{plain}; {accepted} {few}, which needs at least {_LEAST}.", ""
    if not run.error > 0:
        next_step = "try another seed"
        if rewards.min() == rewards.max():
            next_step = "log decisions until some differ"
        same = "all of its rewards are equal, which gives no measure of chance"
        return f"{plain}; {same}: {next_step}.", ""
    error = hypot(run.error, float(rewards.std()) / np.sqrt(len(rewards)))
    reach = NormalDist().inv_cdf((1 + _LEVEL) / 2) * error
    gain = run.value - today
    low = max(-width, gain - reach)
    high = min(width, gain + reach)
    span = Span(gain, low, high)
    level = f"{_LEVEL:.0%}".replace("%", " %")
    sentence = compared(
        own, "the logging policy", span, f"{level} normal interval, replay"
    )
    return f"{sentence}.", chart([(name, span)], zero="the logging policy")
