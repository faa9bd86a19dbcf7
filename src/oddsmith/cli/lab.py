"""`oddsmith reproduce | simulate`: the paper's claims and a user's own experiments as
reports."""

import argparse
from pathlib import Path

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused
from oddsmith.core.errors import InvalidInput

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the two commands to a parser."""
    again = commands.add_parser(
        "reproduce", help="run the paper's claims as experiments and write a report"
    )
    again.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments to run (default: all)"
    )
    again.add_argument(
        "--quick", action="store_true", help="shorter horizons and fewer runs"
    )
    how = again.add_mutually_exclusive_group()
    how.add_argument(
        "--rules",
        action="store_true",
        help="print what is accepted, and how often that errs; run nothing",
    )
    how.add_argument(
        "--broken",
        action="store_true",
        help="make errors on purpose, and see that claims reject them",
    )
    _where(again, required=False)
    again.set_defaults(run=_reproduce)
    own = commands.add_parser(
        "simulate", help="run an experiment of your own, described in a TOML file"
    )
    own.add_argument(
        "file",
        type=Path,
        help="the experiment: steps (or episodes), runs, worlds, policies",
    )
    _where(own)
    own.set_defaults(run=_simulate)


def _where(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        required=required,
        metavar="DIR",
        help="folder for the report and the results",
    )
    parser.add_argument(
        "--engine", default="local", help="serial, local (default), dask, ray or spark"
    )
    parser.add_argument(
        "--workers", type=int, help="number of processes (default: all cores)"
    )


def _reproduce(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.claims.report import verdict
    from oddsmith.claims.reproduce import reproduce

    if asked.rules:
        return _rules(asked)
    if asked.broken:
        return _broken(asked)
    if asked.out is None:
        raise InvalidInput(
            "reproduce needs --out DIR, a folder for the report; --rules and --broken "
            "need none"
        )
    outcomes = reproduce(
        asked.out,
        asked.names,
        quick=asked.quick,
        engine=asked.engine,
        workers=asked.workers,
    )
    lines = [verdict(outcomes), ""]
    for name, outcome in outcomes.items():
        held = sum(claim.holds for claim in outcome.claims)
        cases = (
            f"{held:4} of {len(outcome.claims):3} cases hold"
            if outcome.claims
            else "           figures alone"
        )
        lines.append(f"{name:20}{cases}   {outcome.title}")
        failing = [claim for claim in outcome.claims if not claim.holds]
        lines += [
            (
                f"    does not hold: {c.rule.statement}, {c.case}; {c.predicted}, "
                f"{c.measured}"
            )
            for c in failing
        ]
    text = "\n".join([*lines, "", f"report: {asked.out / 'index.html'}"])
    return (
        text
        if all(claim.holds for outcome in outcomes.values() for claim in outcome.claims)
        else Refused(text)
    )


def _rules(asked: argparse.Namespace) -> str:
    from oddsmith.claims import EXPERIMENTS
    from oddsmith.claims.reproduce import experiment_names

    lines = []
    for name in experiment_names(asked.names):
        for rule in EXPERIMENTS[name].rules:
            cases = "" if rule.cases == 1 else f", over {rule.cases} cases"
            lines += [
                f"{name}: {rule.statement} ({rule.where})",
                f"    {rule.accept} ({rule.errors}{cases})",
            ]
    return "\n".join(lines) or "These experiments show figures and claim nothing."


def _broken(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.claims import EXPERIMENTS
    from oddsmith.claims.reproduce import experiment_names, rejected_statements

    rejected = rejected_statements(
        asked.names, quick=asked.quick, engine=asked.engine, workers=asked.workers
    )
    missed = [
        f"{name}: {wrong}" for (name, wrong), found in rejected.items() if not found
    ]
    seen = {statement for found in rejected.values() for statement in found}
    rules = [
        rule.statement
        for name in experiment_names(asked.names)
        for rule in EXPERIMENTS[name].rules
    ]
    blind = [statement for statement in rules if statement not in seen]
    lines = [
        (
            f"{len(rejected) - len(missed)} of {len(rejected)} errors made on purpose "
            f"are caught; {len(rules) - len(blind)} of {len(rules)} statements reject "
            "at least one."
        ),
        "",
    ]
    for (name, wrong), found in rejected.items():
        lines.append(f"{name}: {wrong}")
        lines += [f"    rejected: {statement}" for statement in found] or [
            "    not caught"
        ]
    lines += [f"no error makes this fail: {statement}" for statement in blind]
    return Refused("\n".join(lines)) if missed or blind else "\n".join(lines)


def _simulate(asked: argparse.Namespace) -> str:
    from oddsmith.files.keys import read_toml
    from oddsmith.lab.episodes.study import EpisodeStudy, read_episode_study
    from oddsmith.lab.study import Study, read_study

    of_episodes = "episodes" in read_toml(asked.file).values
    study: Study | EpisodeStudy = (
        read_episode_study(asked.file) if of_episodes else read_study(asked.file)
    )
    report = study.run(asked.out, engine=asked.engine, workers=asked.workers)
    parts = [
        "\n".join(report.sentences),
        report.picture,
        str(report.table),
        f"report: {asked.out / 'index.html'}",
    ]
    return "\n\n".join(part for part in parts if part)
