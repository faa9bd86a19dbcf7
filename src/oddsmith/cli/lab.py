"""`oddsmith reproduce | simulate`: test the paper's claims or run your own experiments,
and write reports."""

import argparse
from pathlib import Path

from oddsmith.cli.parser import Commands, add_command
from oddsmith.cli.words import Refusal
from oddsmith.core.errors import InvalidInput

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the two commands to a parser."""
    paper = add_command(
        commands,
        "reproduce",
        "run the claims of the paper as experiments and write a report",
        "oddsmith reproduce --quick --out report",
    )
    paper.add_argument(
        "names", nargs="*", metavar="NAME", help="experiments to run (default: all)"
    )
    paper.add_argument(
        "--quick", action="store_true", help="use shorter horizons and fewer runs"
    )
    how = paper.add_mutually_exclusive_group()
    how.add_argument(
        "--rules",
        action="store_true",
        help="print the acceptance rules with their error rates, without running the "
        "experiments",
    )
    how.add_argument(
        "--broken",
        action="store_true",
        help="run the experiments with deliberate errors, and check that the claims "
        "reject them",
    )
    _add_place(paper, required=False)
    paper.set_defaults(run=_reproduce)
    own = add_command(
        commands,
        "simulate",
        "run your own experiment from a TOML file and write a report",
        "oddsmith simulate experiment.toml --out report",
    )
    own.add_argument(
        "file",
        type=Path,
        help="experiment: steps (or episodes), runs, worlds, policies",
    )
    _add_place(own)
    own.set_defaults(run=_simulate)


def _add_place(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    parser.add_argument(
        "--out",
        type=Path,
        required=required,
        metavar="DIR",
        help="folder for the report and the results",
    )
    parser.add_argument(
        "--engine",
        default="local",
        help="where to run: serial, local (default), dask, ray or spark",
    )
    parser.add_argument(
        "--workers", type=int, help="number of processes (default: all cores)"
    )


def _reproduce(asked: argparse.Namespace) -> str | Refusal:
    from oddsmith.claims.report import verdict
    from oddsmith.claims.reproduce import reproduce

    if asked.rules:
        return _rules(asked)
    if asked.broken:
        return _check_claims(asked)
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
    all_hold = True
    for name, outcome in outcomes.items():
        failures = [claim for claim in outcome.claims if not claim.holds]
        n_claims = len(outcome.claims)
        cases = "           figures alone"
        if n_claims:
            cases = f"{n_claims - len(failures):4} of {n_claims:3} cases hold"
        lines.append(f"{name:20}{cases}   {outcome.title}")
        for claim in failures:
            all_hold = False
            lines.append(
                f"    does not hold: {claim.rule.statement}, {claim.case}; "
                f"{claim.predicted}, {claim.measured}"
            )
    text = "\n".join([*lines, "", f"report: {asked.out / 'index.html'}"])
    return text if all_hold else Refusal(text)


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
    return "\n".join(lines) or "These experiments only draw figures and have no claims."


def _check_claims(asked: argparse.Namespace) -> str | Refusal:
    from oddsmith.claims import EXPERIMENTS
    from oddsmith.claims.reproduce import experiment_names, rejected_statements

    rejected = rejected_statements(
        asked.names, quick=asked.quick, engine=asked.engine, workers=asked.workers
    )
    lines = []
    n_caught = 0
    rejecting: set[str] = set()
    for (name, error), statements in rejected.items():
        lines.append(f"{name}: {error}")
        rejecting.update(statements)
        if statements:
            n_caught += 1
            lines += [f"    rejected: {statement}" for statement in statements]
        else:
            lines.append("    not caught")
    n_rules = 0
    blind = []
    for name in experiment_names(asked.names):
        for rule in EXPERIMENTS[name].rules:
            n_rules += 1
            if rule.statement not in rejecting:
                blind.append(rule.statement)
    lines += [
        f"no deliberate error makes this fail: {statement}" for statement in blind
    ]
    first = (
        f"{n_caught} of {len(rejected)} deliberate errors are caught; "
        f"{n_rules - len(blind)} of {n_rules} statements reject at least one."
    )
    text = "\n".join([first, "", *lines])
    return Refusal(text) if blind or n_caught < len(rejected) else text


def _simulate(asked: argparse.Namespace) -> str:
    from oddsmith.files.keys import read_toml
    from oddsmith.lab.episodes.study import EpisodeStudy, read_episode_study
    from oddsmith.lab.study import Study, read_study

    study: Study | EpisodeStudy
    if "episodes" in read_toml(asked.file).values:
        study = read_episode_study(asked.file)
    else:
        study = read_study(asked.file)
    report = study.run(asked.out, engine=asked.engine, workers=asked.workers)
    parts = ["\n".join(report.sentences), report.picture, str(report.table)]
    parts.append(f"report: {asked.out / 'index.html'}")
    return "\n\n".join(part for part in parts if part)
