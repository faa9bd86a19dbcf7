"""`oddsmith import`: convert the history of another service to a log, or add it to a
store."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import Refusal, as_json, check_file_place
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import InvalidInput, import_extra
from oddsmith.core.names import count_of
from oddsmith.files.policy import read_policy
from oddsmith.files.template import MADE, start_policy_file

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.server.compat.personalizer.log import PersonalizerEvent, Unread
    from oddsmith.server.compat.personalizer.log_import import ImportReport


_PARQUET = (".parquet", ".pq")


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    every = commands.add_parser(
        "import", help="import the history of another service, as a log or into a store"
    )
    services = every.add_subparsers(title="services", required=True, metavar="SERVICE")
    parser = add_command(
        services,
        "personalizer",
        "import the logs of Azure AI Personalizer (dsjson)",
        "oddsmith import personalizer logs/*.json --to log.parquet",
    )
    parser.add_argument("logs", nargs="+", metavar="LOG", help="logs in order of time")
    parser.add_argument(
        "--to",
        required=True,
        metavar="PLACE",
        help="output: a .parquet log, or the store of the policy file",
    )
    parser.add_argument(
        "--policy",
        type=Path,
        metavar="FILE",
        help="policy file, required for a store; created if it does not exist",
    )
    parser.add_argument(
        "--reward",
        nargs=2,
        type=float,
        metavar=("LOW", "HIGH"),
        help="units of rewards (default: those of the policy file, else -1 1)",
    )
    parser.add_argument(
        "--report",
        type=Path,
        metavar="FILE",
        help="write each unread line with the reason to this file, as JSON lines",
    )
    add_json(parser)
    parser.set_defaults(run=_personalizer)


def _personalizer(asked: argparse.Namespace) -> str | Refusal:
    from oddsmith.server.compat.personalizer.log import (
        RewardsOutside,
        check_rewards,
        events,
    )
    from oddsmith.server.compat.personalizer.log_import import ImportReport, to_parquet

    made = asked.policy is not None and start_policy_file(asked.policy)
    scale = _scale(asked)
    is_log = asked.to.lower().endswith(_PARQUET)
    for place in (Path(asked.to) if is_log else None, asked.report):
        if place is not None:
            check_file_place(place)
    store = None if is_log else _store(asked)
    first = f"{MADE.format(asked.policy)}.\n" if made else ""
    try:
        check_rewards(asked.logs, scale)
    except RewardsOutside as error:
        raise InvalidInput(
            f"{first}{error}. Nothing was written. {_cure(asked, error.units, store)}"
        ) from error
    with ExitStack() as stack:
        report = ImportReport()
        if asked.report is not None:
            report.sink = stack.enter_context(asked.report.open("w", encoding="utf-8"))
        found = stack.enter_context(closing(events(asked.logs, scale)))
        if is_log:
            to_parquet(found, Path(asked.to), report)
        else:
            _to_store(found, asked, report)
    if asked.json:
        text = as_json(report.record())
    else:
        text = first + _format_report(report, asked, scale)
    return text if report.read else Refusal(text)


def _store(asked: argparse.Namespace) -> str:
    """Return the store of the policy file. --to must name the same store."""
    from oddsmith.server.store.address import public_address

    given = public_address(asked.to)
    if asked.policy is None:
        raise InvalidInput(
            f"to must end in .parquet, or be a store; got {given!r:.60}: for a store, "
            "give its policy with --policy FILE"
        )
    import_extra("oddsmith.server.experiment.start", "a store needs", "service")
    from oddsmith.server.experiment.settings import read_settings

    settings = read_settings(read_policy(asked.policy))
    if _place(asked.to) != _place(settings.store):
        raise InvalidInput(
            f"to must be that of {asked.policy}, {settings.place} (store in [service] "
            f"names it); got {given!r:.120}"
        )
    return settings.store


def _to_store(
    found: "Iterator[PersonalizerEvent | Unread]",
    asked: argparse.Namespace,
    report: "ImportReport",
) -> None:
    """Write events into the store of the policy file."""
    from oddsmith.server.compat.personalizer.store_import import to_store
    from oddsmith.server.experiment.start import open_experiments

    (opened,) = open_experiments([asked.policy], history=True)
    with closing(opened.store):
        to_store(found, opened, report)


def _place(store: str) -> str:
    """Return the place of a store in a form that can be compared."""
    return store if "://" in store else str(Path(store).resolve())


def _scale(asked: argparse.Namespace) -> RewardScale:
    """Return the units of the rewards."""
    given = None if asked.reward is None else RewardScale(*asked.reward)
    if asked.policy is None:
        return given or RewardScale(-1.0, 1.0)
    scale = read_policy(asked.policy).reward_scale
    if given not in (None, scale):
        raise InvalidInput(
            f"reward must be as in {asked.policy}, {scale.low:g} to {scale.high:g}; "
            f"got {asked.reward}: [reward] in that file sets the units"
        )
    return scale


def _cure(asked: argparse.Namespace, units: RewardScale, store: str | None) -> str:
    """Return advice on rewards outside the scale. A store cannot change its units."""
    low = _exact(units.low)
    high = _exact(units.high)
    if asked.policy is None:
        return f"--reward {low} {high} accepts all of them."
    lines = (
        f"These lines in {asked.policy}, as its only [reward], accept all of "
        f"them:\n\n[reward]\nlow = {low}\nhigh = {high}"
    )
    if store is None:
        return lines
    if "://" in store:
        begun = "An existing store cannot change its units"
    elif Path(store).exists():
        begun = "The store already exists and cannot change its units"
    else:
        return lines
    return (
        f"{lines}\n\n{begun}: other units need a new store, named in [service] and in "
        "--to."
    )


def _exact(number: float) -> str:
    is_whole = number == round(number) and abs(number) < 1e15
    return str(int(number)) if is_whole else repr(number)


def _format_report(
    report: "ImportReport", asked: argparse.Namespace, scale: RewardScale
) -> str:
    """Format an import as text: the counts, the unread lines, and the next step."""
    from oddsmith.server.store.address import public_address

    lines = count_of(report.lines, "line")
    details = report.sentences()
    if not report.read:
        first = f"None of {lines} could be read as an event: nothing was written."
        return "\n".join([first, "", *details])
    others = "all lines were read"
    if report.read < report.lines:
        others = "the others are listed below"
    rewarded = f"{report.rewarded:,} with a reward"
    text = [f"{report.read:,} of {lines} are events, {rewarded}; {others}."]
    if report.decisions > report.read:
        text = [
            f"{report.read:,} of {lines} are events; {others}.",
            f"They contain {report.decisions:,} decisions, {rewarded}: an event with "
            "several slots is one decision per slot.",
        ]
    if report.known:
        events = count_of(report.read, "event")
        text.append(f"{report.known:,} of {events} were in the store before.")
    if report.unlearnt:
        refused = count_of(report.unlearnt, "reward", "was were")
        text.append(f"{refused} refused by the policy: it has not learnt from them.")
    if (scale.low, scale.high) != (0, 1):
        text.append(
            f"Rewards from {scale.low:g} to {scale.high:g} are stored as 0 to 1."
        )
    if details:
        text += ["", *details]
    what = "log" if asked.to.lower().endswith(_PARQUET) else "store"
    return "\n".join([*text, "", f"{what}: {public_address(asked.to)}"])
