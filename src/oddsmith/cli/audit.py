"""`oddsmith verify | export | history | doctor`: whether a store's decisions follow,
and what is to know of it."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused, as_json, check_file_place
from oddsmith.core.names import count_of
from oddsmith.files.policy import read_policy

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.files.policy import PolicyFile
    from oddsmith.server.audit import Finding, VerifyReport


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    proof = commands.add_parser(
        "verify", help="whether every decision of a store follows from what it says"
    )
    _store(proof)
    proof.add_argument(
        "--models",
        type=Path,
        metavar="FILE",
        help="the policy file: ask the experts again, too",
    )
    proof.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        help="of odds from another machine (default 0)",
    )
    strict = (
        "exit with 1 where something was not checked that a whole store allows to be "
        "checked"
    )
    proof.add_argument("--strict", action="store_true", help=strict)
    proof.add_argument("--json", action="store_true", help="print JSON for programs")
    proof.set_defaults(run=_verify)
    out = commands.add_parser(
        "export", help="a store as a log, for evaluate, replay and fit"
    )
    _store(out)
    out.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help=".parquet, .csv, .jsonl or .dsjson",
    )
    out.add_argument(
        "--with-context",
        action="store_true",
        help="leave out decisions whose context was erased",
    )
    out.add_argument("--json", action="store_true", help="print JSON for programs")
    out.set_defaults(run=_export)
    told = commands.add_parser("history", help="what became of one decision")
    _store(told)
    told.add_argument("id", metavar="ID", help="the decision's id")
    told.add_argument("--json", action="store_true", help="print JSON for programs")
    told.set_defaults(run=_history)
    health = commands.add_parser(
        "doctor", help="what is wrong with stores, and what to do"
    )
    health.add_argument(
        "stores",
        nargs="+",
        metavar="STORE",
        help="the files of stores, or postgresql://…",
    )
    health.add_argument(
        "--experiment",
        metavar="NAME",
        help="the experiment they must be of, or which one of a database",
    )
    health.add_argument("--json", action="store_true", help="print JSON for programs")
    health.set_defaults(run=_doctor)


def _store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "store", metavar="STORE", help="the file of a store; it may be in use"
    )
    parser.add_argument(
        "--experiment", metavar="NAME", help="the experiment it must be of"
    )


def _verify(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.server.audit.proof import verify
    from oddsmith.server.store.place import open_reader

    file = None if asked.models is None else read_policy(asked.models)
    models: dict[str, Any] = {}
    with closing(open_reader(asked.store, asked.experiment)) as reading:
        if file is not None:
            first = _as_begun(file, reading.about.get("arms"))
            models = {
                "policy": first.policy,
                "bench": first.bench,
                "facts": _facts(file),
            }
        verdict = verify(reading, tolerance=asked.tolerance, **models)
    text = (
        as_json(verdict.record())
        if asked.json
        else _told(verdict, models=asked.models is not None)
    )
    if not verdict.holds:
        return Refused(text)
    return Refused(text, 1) if asked.strict and not verdict.complete else text


def _as_begun(file: "PolicyFile", arms: list[str] | None) -> "PolicyFile":
    """The file with the arms that the log was begun with, where it has gained others
    since."""
    more = arms is not None and file.arms is not None and len(arms) < len(file.arms)
    return (
        read_policy(file.path, arms=arms)
        if more and list(file.arms or ())[: len(arms or ())] == arms
        else file
    )


def _facts(file: "PolicyFile") -> dict[str, object]:
    """What a policy file says of the store it is served with."""
    facts: dict[str, object] = {
        "experiment": file.name,
        "reward": [file.reward_scale.low, file.reward_scale.high],
    }
    facts |= {} if file.arms is None else {"arms": list(file.arms)}
    return facts if file.seed is None else facts | {"seed": file.seed}


def _told(verdict: "VerifyReport", *, models: bool) -> str:
    from oddsmith.files.reports.page import Table

    counts = [
        (level.name, level.checked, level.followed, sum(level.untested.values()))
        for level in verdict.levels
    ]
    rows = tuple((name, *(f"{n:,}" for n in numbers)) for name, *numbers in counts)
    about = (
        f"{verdict.experiment or 'store'}: {verdict.events:,} events, "
        f"{verdict.decisions:,} decisions"
    )
    parts = [
        f"{'Every' if verdict.holds else 'Not every'} checked decision was reproduced. "
        f"{about}."
    ]
    parts.append(str(Table(("level", "checked", "followed", "not checked"), rows)))
    reasons = [
        f"{level.name}, {n:,} not checked: {why}"
        for level in verdict.levels
        for why, n in level.untested.items()
    ]
    parts += ["\n".join(reasons)] if reasons else []
    if not verdict.holds:
        parts.append(
            "\n".join(
                ["The first records that do not follow:", *map(str, verdict.misses)]
            )
        )
    if verdict.rounding:
        parts.append(
            "All of it is rounding, as by other kernels or another numpy than the "
            "service's: run this where it ran, with ODDSMITH_KERNELS=numpy or numba, "
            "or with --tolerance 1e-9."
        )
    if lacking := sum(level.lacking for level in verdict.levels):
        left_out = (
            f"{count_of(lacking, 'check', 'was were')} left out that a whole store "
            "allows"
        )
        parts.append(f"{left_out}: with --strict this exits with 1.")
    if not models:
        parts.append(
            "The experts were not asked again: --models FILE does so, with their "
            "policy file."
        )
    return "\n\n".join(parts)


def _export(asked: argparse.Namespace) -> str:
    from oddsmith.server.audit.log_export import export
    from oddsmith.server.store.place import open_reader

    check_file_place(asked.out)
    with closing(open_reader(asked.store, asked.experiment)) as reading:
        counts = export(reading, asked.out, contexts_only=asked.with_context)
        low, high = reading.about.get("reward") or (0.0, 1.0)
    if asked.json:
        return as_json(counts._asdict())
    lines = [f"{counts.rows:,} decisions, {counts.rewarded:,} of them with a reward"]
    lines += (
        [f"{counts.shadows:,} were an incumbent's, with its odds"]
        if counts.shadows
        else []
    )
    lines += (
        [f"{counts.unshown:,} were deferred and never activated: left out"]
        if counts.unshown
        else []
    )
    lines += (
        [f"{counts.erased:,} have no context any more (--with-context leaves them out)"]
        if counts.erased
        else []
    )
    lines += (
        [f"{counts.without:,} whose context was erased: left out"]
        if counts.without
        else []
    )
    if counts.impossible:
        lines.append(
            f"{counts.impossible:,} with a propensity below 1e-12, which no log may "
            "have: left out"
        )
    if (low, high) != (0, 1):
        lines.append(
            f"rewards are in 0 to 1; add --reward {low:g} {high:g} to have answers in "
            "your units"
        )
    return "\n".join([*lines, "", f"log: {asked.out}"])


def _history(asked: argparse.Namespace) -> str:
    from oddsmith.files.reports.page import Table
    from oddsmith.server.audit.story import story_of
    from oddsmith.server.store.place import open_reader

    with closing(open_reader(asked.store, asked.experiment)) as reading:
        story = story_of(reading, asked.id)
    if asked.json:
        return as_json(story.record())
    rows = tuple(
        (
            f"{one.position:,}",
            one.time,
            one.what,
            "" if one.value is None else f"{one.value:.12g}",
            one.sender or "",
            one.effect,
        )
        for one in story.happenings
    )
    return (
        f"{story}\n\n"
        f"{Table(('position', 'time', 'what', 'value', 'sender', 'effect'), rows)}"
    )


def _doctor(asked: argparse.Namespace) -> str | Refused:
    from oddsmith.server.audit.doctor import doctor
    from oddsmith.server.store.address import public_address

    findings = doctor(asked.stores, experiment=asked.experiment)
    if asked.json:
        text = as_json([finding._asdict() for finding in findings])
    else:
        parts = [_diagnosis(findings)]
        for place in dict.fromkeys(map(public_address, asked.stores)):
            mine = [str(finding) for finding in findings if finding.place == place]
            parts.append("\n".join([place, *mine]))
        text = "\n\n".join(parts)
    return (
        Refused(text)
        if any(finding.level == "problem" for finding in findings)
        else text
    )


def _diagnosis(findings: "list[Finding]") -> str:
    """What a manager could read aloud: what is wrong where, the worst first."""
    stores = list(dict.fromkeys(finding.place for finding in findings))
    wrong = {
        level: [f for f in findings if f.level == level]
        for level in ("problem", "notice")
    }
    where = stores[0] if len(stores) == 1 else count_of(len(stores), "store")
    if not wrong["problem"]:
        also = (
            f"; {count_of(len(wrong['notice']), 'thing')} may deserve a look"
            if wrong["notice"]
            else ""
        )
        return f"Nothing is wrong with {where}{also}."
    first = wrong["problem"][0]
    more = (
        f", the first of {count_of(len(wrong['problem']), 'problem')}"
        if len(wrong["problem"]) > 1
        else ""
    )
    return f"Something is wrong with {first.place}{more}: {first.what}."
