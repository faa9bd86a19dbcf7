"""`oddsmith backup | restore | upgrade`: a store as one file, a store from such a file,
and one of an older format."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import as_json
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import count_of

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.server.store.backup import Contents


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    place = "the file of a store, or postgresql://…; it may be in use"
    copy = commands.add_parser("backup", help="a store as one file, while it is in use")
    copy.add_argument("store", metavar="STORE", help=place)
    copy.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="a new file, for its owner only",
    )
    copy.add_argument(
        "--experiment",
        metavar="NAME",
        help="which one of a database, or the one that it must be of",
    )
    copy.add_argument("--json", action="store_true", help="print JSON for programs")
    copy.set_defaults(run=_backup)
    back = commands.add_parser("restore", help="a store from a backup")
    back.add_argument(
        "file",
        type=Path,
        metavar="FILE",
        help="a backup, or the file of a store that is not in use",
    )
    back.add_argument(
        "--to", required=True, metavar="STORE", help="a new file, or postgresql://…"
    )
    back.add_argument(
        "--experiment",
        metavar="NAME",
        help="its name from now on (default: the one it had)",
    )
    back.add_argument("--json", action="store_true", help="print JSON for programs")
    back.set_defaults(run=_restore)
    new = commands.add_parser(
        "upgrade", help="a store of an older format, brought to the current one"
    )
    new.add_argument(
        "store",
        metavar="STORE",
        help="the file of a store, or postgresql://… with all that is there",
    )
    first = new.add_mutually_exclusive_group()
    where = (
        "a new file for the backup that is made first (default: beside the store); of "
        "a database, a folder"
    )
    first.add_argument("--backup", type=Path, metavar="FILE", help=where)
    first.add_argument(
        "--no-backup", action="store_true", help="make none: there is one"
    )
    new.add_argument("--json", action="store_true", help="print JSON for programs")
    new.set_defaults(run=_upgrade)


def _backup(asked: argparse.Namespace) -> str:
    from oddsmith.server.store.backup import back_up

    held = back_up(asked.store, asked.out, experiment=asked.experiment)
    if asked.json:
        return as_json(held._asdict())
    return f"{_told(held)}\n\nbackup: {asked.out}, of epoch {held.epoch}"


def _restore(asked: argparse.Namespace) -> str:
    from oddsmith.server.store.backup import restore_backup

    done = restore_backup(asked.file, asked.to, experiment=asked.experiment)
    held = done.contents
    if asked.json:
        return as_json(held._asdict() | {"made": done.made, "left_out": done.left_out})
    lines = [f"The backup of {_date(done.made)} is a store again. {_told(held)}", ""]
    if done.left_out:
        places = ", ".join(f"{position:,}" for position in done.left_out)
        lines.append(
            "Damaged snapshots were left out (the log is folded in their place): "
            f"{places}."
        )
    lines += [
        (
            f"It is epoch {held.epoch}. What was answered after position {held.head:,} "
            "is not here:"
        ),
        (
            "* Let clients send again what they have sent since then, with the same "
            "ids: what is here is not doubled, and"
        ),
        (
            '  what was lost is answered with "new": true. A decision that was lost is '
            "drawn anew, maybe with another arm."
        ),
        (
            "* Rewards and activations whose decision was lost are parked: oddsmith "
            "doctor lists their ids."
        ),
    ]
    return "\n".join(lines)


def _upgrade(asked: argparse.Namespace) -> str:
    from oddsmith.server.store.place import is_address
    from oddsmith.server.store.upgrade import upgrade

    backup = asked.backup
    if backup is None and not asked.no_backup:
        if is_address(asked.store):
            needed = "--backup FOLDER, for a file of each experiment, or --no-backup"
            raise InvalidInput(
                f"backup must be given for the stores of a database: {needed}"
            )
        backup = Path(f"{asked.store}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.backup")
    done = upgrade(asked.store, backup=backup)
    if asked.json:
        return as_json(
            {
                "was": done.was,
                "now": done.now,
                "backups": [str(one) for one in done.backups],
            }
        )
    if done.was == done.now:
        return f"There is nothing to do: the format is {done.now!r} already."
    return "\n".join(
        [
            f"The format is {done.now!r} now; it was {done.was!r}.",
            "",
            *map("backup: {}".format, done.backups),
        ]
    )


def _told(held: "Contents") -> str:
    """What a manager could read aloud, then the counts."""
    total = count_of(sum(held.events.values()), "event")
    last = "" if held.last is None else f", the last one of {_date(held.last)}"
    rows = [f"{kind:16}{count:>12,}" for kind, count in sorted(held.events.items())]
    return "\n".join(
        [
            (
                f"{held.experiment or 'The store'} has {total} up to position "
                f"{held.head:,}{last}."
            ),
            "",
            *rows,
        ]
    )


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
