"""`oddsmith import`: the history of another service as a log, or in a store."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused, as_json, check_file_place
from oddsmith.errors import InvalidInput
from oddsmith.files import read_policy
from oddsmith.rewards import RewardScale
from oddsmith.spelling import counted

if TYPE_CHECKING:
    from oddsmith.logs.importing import ImportReport

__all__ = ["add_commands"]

_PARQUET = (".parquet", ".pq")


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    every = commands.add_parser("import", help="the history of another service, as a log")
    services = every.add_subparsers(title="services", required=True, metavar="SERVICE")
    one = services.add_parser("personalizer", help="the logs of Azure AI Personalizer: dsjson")
    one.add_argument("logs", nargs="+", metavar="LOG", help="the logs, in the order of time")
    one.add_argument("--to", required=True, metavar="FILE", help="the log to write, .parquet")
    one.add_argument("--policy", type=Path, metavar="FILE", help="the policy file; [reward] in it says the units")
    units = "the units of rewards (default: those of the policy file, else 0 1)"
    one.add_argument("--reward", nargs=2, type=float, metavar=("LOW", "HIGH"), help=units)
    named = "where to write, as JSON lines, each line that was not read, and why"
    one.add_argument("--report", type=Path, metavar="FILE", help=named)
    one.add_argument("--json", action="store_true", help="print JSON for programs")
    one.set_defaults(run=_personalizer)


def _personalizer(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.logs.importing import ImportReport, to_parquet
    from oddsmith.logs.personalizer import events

    scale = _scale(asked)
    if not asked.to.lower().endswith(_PARQUET):
        raise InvalidInput(f"to must be a file that ends in .parquet; got {asked.to!r:.60}")
    check_file_place(Path(asked.to))
    with ExitStack() as stack:
        report = ImportReport()
        if asked.report is not None:
            check_file_place(asked.report)
            report.sink = stack.enter_context(asked.report.open("w", encoding="utf-8"))
        to_parquet(events(asked.logs, scale), Path(asked.to), report)
    text = as_json(report.record()) if asked.json else _told(report, asked, scale)
    return text if report.read else Refused(text)


def _scale(asked: argparse.Namespace) -> RewardScale:
    """The units that rewards are in."""
    given = None if asked.reward is None else RewardScale(*asked.reward)
    if asked.policy is None:
        return given or RewardScale(0.0, 1.0)
    scale = read_policy(asked.policy).reward_scale
    if given not in (None, scale):
        raise InvalidInput(f"reward must be as in {asked.policy}, {scale.low:g} to {scale.high:g}; got {asked.reward}")
    return scale


def _told(report: "ImportReport", asked: argparse.Namespace, scale: RewardScale) -> str:
    """For people: what is there now, what was not read, and what to do next."""
    if not report.read:
        parts = [f"None of {counted(report.lines, 'line')} could be read as an event: nothing was written."]
        return "\n".join([*parts, "", *report.sentences()])
    read = f"{report.read:,} of {counted(report.lines, 'line')} are events, {report.rewarded:,} with a reward"
    first = [f"{read}; {'all lines were read' if report.read == report.lines else 'the others are told below'}."]
    if (scale.low, scale.high) != (0, 1):
        first.append(f"Rewards from {scale.low:g} to {scale.high:g} are kept as 0 to 1.")
    if report.unread["scale"]:
        first.append("--reward LOW HIGH says which rewards there may be, as in --reward -1 1.")
    said = report.sentences()
    return "\n".join([*first, *(["", *said] if said else []), "", f"log: {asked.to}"])
