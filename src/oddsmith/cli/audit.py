"""`oddsmith verify | export | history | doctor`: check, read and export a store."""

import argparse
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import Refusal, as_json, check_file_place
from oddsmith.core.names import count_of
from oddsmith.files.policy import read_policy

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.files.policy import PolicyFile
    from oddsmith.server.audit import Finding, VerifyReport


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    proof = add_command(
        commands,
        "verify",
        "check that every decision of a store can be reproduced",
        "oddsmith verify news.sqlite --models news.toml",
    )
    _add_store(proof)
    proof.add_argument(
        "--models",
        type=Path,
        metavar="FILE",
        help="policy file: recompute the predictions of its experts, too (default: use "
        "the recorded predictions)",
    )
    proof.add_argument(
        "--tolerance",
        type=float,
        default=0.0,
        help="largest allowed difference of propensities, for another machine (default "
        "0)",
    )
    proof.add_argument(
        "--strict",
        action="store_true",
        help="exit with 1 if a possible check was skipped",
    )
    add_json(proof)
    proof.set_defaults(run=_verify)
    out = add_command(
        commands,
        "export",
        "write a store as a log for evaluate, replay and fit",
        "oddsmith export news.sqlite --out news.parquet",
    )
    _add_store(out)
    out.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="file to write: .parquet, .csv, .jsonl or .dsjson",
    )
    out.add_argument(
        "--with-context",
        action="store_true",
        help="leave out decisions whose context was erased",
    )
    add_json(out)
    out.set_defaults(run=_export)
    history = add_command(
        commands,
        "history",
        "print the history of one decision",
        "oddsmith history news.sqlite d-17",
    )
    _add_store(history)
    history.add_argument("id", metavar="ID", help="id of the decision")
    add_json(history)
    history.set_defaults(run=_history)
    health = add_command(
        commands,
        "doctor",
        "find problems of stores, with a remedy for each",
        "oddsmith doctor news.sqlite shop.sqlite",
    )
    health.add_argument(
        "stores",
        nargs="+",
        metavar="STORE",
        help="files of stores, or postgresql://…",
    )
    health.add_argument(
        "--experiment",
        metavar="NAME",
        help="name of the experiment; a database may have several",
    )
    add_json(health)
    health.set_defaults(run=_doctor)


def _add_store(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "store", metavar="STORE", help="file of a store; the store may be in use"
    )
    parser.add_argument(
        "--experiment", metavar="NAME", help="expected name of the experiment"
    )


def _verify(asked: argparse.Namespace) -> str | Refusal:
    from oddsmith.server.audit.proof import verify
    from oddsmith.server.store.place import open_reader

    file = None if asked.models is None else read_policy(asked.models)
    models: dict[str, Any] = {}
    with closing(open_reader(asked.store, asked.experiment)) as reading:
        if file is not None:
            first = _with_first_arms(file, reading.about.get("arms"))
            models["policy"] = first.policy
            models["bench"] = first.bench
            models["facts"] = _facts(file)
        verdict = verify(reading, tolerance=asked.tolerance, **models)
    if asked.json:
        text = as_json(verdict.record())
    else:
        text = _format_report(verdict, models=file is not None)
    if not verdict.holds:
        return Refusal(text)
    if asked.strict and not verdict.complete:
        return Refusal(text, 1)
    return text


def _with_first_arms(file: "PolicyFile", arms: list[str] | None) -> "PolicyFile":
    """Return the policy file with the first arms of the log, in case arms were added
    later."""
    if arms is None or file.arms is None or len(arms) >= len(file.arms):
        return file
    if list(file.arms)[: len(arms)] != arms:
        return file
    return read_policy(file.path, arms=arms)


def _facts(file: "PolicyFile") -> dict[str, object]:
    """Return the settings of a policy file that a store records."""
    facts: dict[str, object] = {
        "experiment": file.name,
        "reward": [file.reward_scale.low, file.reward_scale.high],
    }
    if file.arms is not None:
        facts["arms"] = list(file.arms)
    if file.seed is not None:
        facts["seed"] = file.seed
    return facts


def _format_report(verdict: "VerifyReport", *, models: bool) -> str:
    from oddsmith.files.reports.page import Table

    every = "Every" if verdict.holds else "Not every"
    parts = [
        f"{every} checked decision was reproduced. {verdict.experiment or 'store'}: "
        f"{verdict.events:,} events, {verdict.decisions:,} decisions."
    ]
    rows = []
    reasons = []
    for level in verdict.levels:
        counts = (level.checked, level.followed, sum(level.untested.values()))
        rows.append((level.name, *(f"{count:,}" for count in counts)))
        for why, count in level.untested.items():
            reasons.append(f"{level.name}, {count:,} not checked: {why}")
    head = ("level", "checked", "followed", "not checked")
    parts.append(str(Table(head, tuple(rows))))
    parts.append("\n".join(reasons))
    if not verdict.holds:
        misses = "\n".join(map(str, verdict.misses))
        parts.append(f"The first records that do not follow:\n{misses}")
    if verdict.rounding:
        parts.append(
            "All differences are rounding errors, as caused by other kernels or "
            "another numpy version than the service's: run this on the service's "
            "machine, with ODDSMITH_KERNELS=numpy or numba, or with --tolerance 1e-9."
        )
    lacking = sum(level.lacking for level in verdict.levels)
    if lacking:
        parts.append(
            f"{count_of(lacking, 'check', 'was were')} left out that a whole store "
            "allows: with --strict this exits with 1."
        )
    if not models:
        parts.append(
            "The experts' predictions were not recomputed: --models FILE does so, "
            "with their policy file."
        )
    return "\n\n".join(filter(None, parts))


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
    remarks = {
        "were drawn by the incumbent policy, with its propensities": counts.shadows,
        "were deferred and never activated: left out": counts.unshown,
        "were the control's, because the experiment was paused: left out": (
            counts.paused
        ),
        "have no context any more (--with-context leaves them out)": counts.erased,
        "whose context was erased: left out": counts.without,
        "with a propensity below 1e-12, which logs must not have: left out": (
            counts.impossible
        ),
    }
    lines += [f"{count:,} {remark}" for remark, count in remarks.items() if count]
    if (low, high) != (0, 1):
        lines.append(
            f"rewards are in 0 to 1; add --reward {low:g} {high:g} to get results in "
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
    rows = []
    for one in story.happenings:
        position = f"{one.position:,}"
        value = "" if one.value is None else f"{one.value:.12g}"
        rows.append((position, one.time, one.what, value, one.sender or "", one.effect))
    head = ("position", "time", "what", "value", "sender", "effect")
    return f"{story}\n\n{Table(head, tuple(rows))}"


def _doctor(asked: argparse.Namespace) -> str | Refusal:
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
    if any(finding.level == "problem" for finding in findings):
        return Refusal(text)
    return text


def _diagnosis(findings: "list[Finding]") -> str:
    """Return one sentence about all stores, with the worst problem first."""
    problems = [finding for finding in findings if finding.level == "problem"]
    notices = [finding for finding in findings if finding.level == "notice"]
    if problems:
        first = problems[0]
        more = ""
        if len(problems) > 1:
            more = f", the first of {count_of(len(problems), 'problem')}"
        return f"Something is wrong with {first.place}{more}: {first.what}."
    places = list(dict.fromkeys(finding.place for finding in findings))
    where = places[0] if len(places) == 1 else count_of(len(places), "store")
    also = ""
    if notices:
        also = f"; {count_of(len(notices), 'thing')} may deserve a look"
    return f"Nothing is wrong with {where}{also}."
