"""`oddsmith reproduce | simulate`: the paper's claims and a user's own experiments as reports."""

import argparse
from pathlib import Path

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the two commands to a parser."""
    again = commands.add_parser("reproduce", help="run the paper's claims as experiments and write a report")
    again.add_argument("names", nargs="*", metavar="NAME", help="experiments to run (default: all)")
    again.add_argument("--quick", action="store_true", help="shorter horizons and fewer runs")
    _where(again)
    again.set_defaults(run=_reproduce)
    own = commands.add_parser("simulate", help="run an experiment of your own, described in a TOML file")
    own.add_argument("file", type=Path, help="the experiment: steps (or episodes), runs, worlds, policies")
    _where(own)
    own.set_defaults(run=_simulate)


def _where(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="folder for the report and the results")
    parser.add_argument("--engine", default="local", help="serial, local (default), dask, ray or spark")
    parser.add_argument("--workers", type=int, help="number of processes (default: all cores)")


def _reproduce(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.lab.reproduce import reproduce, verdict

    outcomes = reproduce(asked.out, asked.names, quick=asked.quick, engine=asked.engine, workers=asked.workers)
    lines = [verdict(outcomes), ""]
    for name, outcome in outcomes.items():
        held = sum(claim.holds for claim in outcome.claims)
        lines.append(f"{name:14}{held:4} of {len(outcome.claims):3} claims hold   {outcome.title}")
        lines += [f"    does not hold: {c.what}; {c.predicted}, {c.measured}" for c in outcome.claims if not c.holds]
    text = "\n".join([*lines, "", f"report: {asked.out / 'index.html'}"])
    return text if all(claim.holds for outcome in outcomes.values() for claim in outcome.claims) else Refused(text)


def _simulate(asked: argparse.Namespace) -> str:
    from oddsmith.files.keys import read_toml
    from oddsmith.lab.episode_study import EpisodeStudy, read_episode_study
    from oddsmith.lab.study import Study, read_study

    of_episodes = "episodes" in read_toml(asked.file).values
    study: Study | EpisodeStudy = read_episode_study(asked.file) if of_episodes else read_study(asked.file)
    report = study.run(asked.out, engine=asked.engine, workers=asked.workers)
    parts = ["\n".join(report.sentences), report.picture, str(report.table), f"report: {asked.out / 'index.html'}"]
    return "\n\n".join(part for part in parts if part)
