"""`oddsmith import`: the history of another service as a log, or in a store."""

import argparse
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import Refused, as_json, check_file_place
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
        "import", help="the history of another service, as a log or in a store"
    )
    services = every.add_subparsers(title="services", required=True, metavar="SERVICE")
    one = services.add_parser(
        "personalizer", help="the logs of Azure AI Personalizer: dsjson"
    )
    one.add_argument(
        "logs", nargs="+", metavar="LOG", help="the logs, in the order of time"
    )
    one.add_argument(
        "--to",
        required=True,
        metavar="PLACE",
        help="a log, .parquet, or the store of the policy file",
    )
    file = "the policy file; a store needs it, and one that does not exist is made"
    one.add_argument("--policy", type=Path, metavar="FILE", help=file)
    units = "the units of rewards (default: those of the policy file, else -1 1)"
    one.add_argument(
        "--reward", nargs=2, type=float, metavar=("LOW", "HIGH"), help=units
    )
    named = "where to write, as JSON lines, each line that was not read, and why"
    one.add_argument("--report", type=Path, metavar="FILE", help=named)
    one.add_argument("--json", action="store_true", help="print JSON for programs")
    one.set_defaults(run=_personalizer)


def _personalizer(asked: argparse.Namespace) -> str | Refused:
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
    text = (
        as_json(report.record()) if asked.json else first + _told(report, asked, scale)
    )
    return text if report.read else Refused(text)


def _store(asked: argparse.Namespace) -> str:
    """The store of the policy file, which must be the one that was meant."""
    from oddsmith.server.store.address import public_address

    if asked.policy is None:
        needs = "a store belongs to a policy: --policy FILE says which"
        raise InvalidInput(
            "to must end in .parquet, or be a store; got "
            f"{public_address(asked.to)!r:.60}: {needs}"
        )
    import_extra("oddsmith.server.experiment.start", "a store needs", "service")
    from oddsmith.server.experiment.settings import read_settings

    settings = read_settings(read_policy(asked.policy))
    if _place(asked.to) != _place(settings.store):
        own = f"that of {asked.policy}, {settings.place} (store in [service] names it)"
        raise InvalidInput(f"to must be {own}; got {public_address(asked.to)!r:.120}")
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
    """The place of a store, written in one way."""
    return store if "://" in store else str(Path(store).resolve())


def _scale(asked: argparse.Namespace) -> RewardScale:
    """The units that rewards are in."""
    given = None if asked.reward is None else RewardScale(*asked.reward)
    if asked.policy is None:
        return given or RewardScale(-1.0, 1.0)
    scale = read_policy(asked.policy).reward_scale
    if given not in (None, scale):
        raise InvalidInput(
            f"reward must be as in {asked.policy}, {scale.low:g} to {scale.high:g}; "
            f"got {asked.reward}: low and high of [reward] in that file are the units"
        )
    return scale


def _cure(asked: argparse.Namespace, units: RewardScale, store: str | None) -> str:
    """What to do where rewards are outside of the scale. The units of a store are those
    that it was begun with."""
    low, high = (
        str(int(one)) if one == round(one) and abs(one) < 1e15 else repr(one)
        for one in (units.low, units.high)
    )
    if asked.policy is None:
        return f"--reward {low} {high} takes them all."
    lines = (
        f"These lines in {asked.policy}, as its only [reward], take them all:\n\n"
        f"[reward]\nlow = {low}\nhigh = {high}"
    )
    if store is None or not ("://" in store or Path(store).exists()):
        return lines
    begun = (
        "A store that was begun keeps the units that it has"
        if "://" in store
        else "The store was begun before"
    )
    return (
        f"{lines}\n\n{begun}: with other units a new one is needed, another store in "
        "[service] and the same as --to."
    )


def _told(report: "ImportReport", asked: argparse.Namespace, scale: RewardScale) -> str:
    """For people: what is there now, what was not read, and what to do next."""
    from oddsmith.server.store.address import public_address

    if not report.read:
        parts = [
            f"None of {count_of(report.lines, 'line')} could be read as an event: "
            "nothing was written."
        ]
        return "\n".join([*parts, "", *report.sentences()])
    several, rewarded = (
        report.decisions > report.read,
        f"{report.rewarded:,} with a reward",
    )
    read = (
        f"{report.read:,} of {count_of(report.lines, 'line')} are "
        f"events{'' if several else f', {rewarded}'}"
    )
    others = "the others are told below"
    if report.read == report.lines:
        others = "all lines were read"
    first = [f"{read}; {others}."]
    if several:
        each = "an event of several slots is one for each"
        first.append(f"They are {report.decisions:,} decisions, {rewarded}: {each}.")
    if report.known:
        first.append(
            f"{report.known:,} of {count_of(report.read, 'event')} were in the store "
            "before."
        )
    if report.unlearnt:
        first.append(
            f"{count_of(report.unlearnt, 'reward', 'was were')} refused by the policy: "
            "it has not learnt them."
        )
    if (scale.low, scale.high) != (0, 1):
        first.append(
            f"Rewards from {scale.low:g} to {scale.high:g} are kept as 0 to 1."
        )
    said = report.sentences()
    what = "log" if asked.to.lower().endswith(_PARQUET) else "store"
    return "\n".join(
        [
            *first,
            *(["", *said] if said else []),
            "",
            f"{what}: {public_address(asked.to)}",
        ]
    )
