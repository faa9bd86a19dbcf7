"""`oddsmith backup | restore | upgrade`: copy, restore and convert stores."""

import argparse
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import as_json
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import count_of

__all__ = ["add_commands"]

if TYPE_CHECKING:
    from oddsmith.server.store.backup import Contents


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    copy = add_command(
        commands,
        "backup",
        "copy a store to one file while it is in use",
        "oddsmith backup news.sqlite --out news.backup",
    )
    copy.add_argument(
        "store",
        metavar="STORE",
        help="file of a store, or postgresql://…; it may be in use",
    )
    copy.add_argument(
        "--out",
        type=Path,
        required=True,
        metavar="FILE",
        help="new file for the backup, readable by its owner only",
    )
    copy.add_argument(
        "--experiment",
        metavar="NAME",
        help="name of the experiment; a database may have several",
    )
    add_json(copy)
    copy.set_defaults(run=_backup)
    back = add_command(
        commands,
        "restore",
        "make a store from a backup",
        "oddsmith restore news.backup --to news.sqlite",
    )
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
        help="new name of the experiment (default: its old name)",
    )
    add_json(back)
    back.set_defaults(run=_restore)
    new = add_command(
        commands,
        "upgrade",
        "convert a store of an older format to the current one",
        "oddsmith upgrade news.sqlite",
    )
    new.add_argument(
        "store",
        metavar="STORE",
        help="file of a store, or postgresql://… with all of its experiments",
    )
    first = new.add_mutually_exclusive_group()
    first.add_argument(
        "--backup",
        type=Path,
        metavar="FILE",
        help="new file for the backup that is made first (default: beside the store); "
        "for "
        "a database, a folder",
    )
    first.add_argument("--no-backup", action="store_true", help="make no backup")
    add_json(new)
    new.set_defaults(run=_upgrade)


def _backup(asked: argparse.Namespace) -> str:
    from oddsmith.server.store.backup import back_up

    contents = back_up(asked.store, asked.out, experiment=asked.experiment)
    if asked.json:
        return as_json(contents._asdict())
    text = _format_contents(contents)
    return f"{text}\n\nbackup: {asked.out}, of epoch {contents.epoch}"


def _restore(asked: argparse.Namespace) -> str:
    from oddsmith.server.store.backup import restore_backup

    done = restore_backup(asked.file, asked.to, experiment=asked.experiment)
    contents = done.contents
    if asked.json:
        record = contents._asdict()
        return as_json(record | {"made": done.made, "left_out": done.left_out})
    lines = [
        f"The backup of {_date(done.made)} was restored to a store. "
        f"{_format_contents(contents)}",
        "",
    ]
    if done.left_out:
        places = ", ".join(f"{position:,}" for position in done.left_out)
        lines.append(
            "Damaged snapshots were left out (the state is computed from the events "
            f"instead): {places}."
        )
    lines += [
        f"It is epoch {contents.epoch}. Events after position {contents.head:,} are "
        "lost:",
        "* Let clients repeat all requests that they have sent since then, with the "
        "same ids. Events in the store are not",
        '  doubled. The answer to a lost event has "new": true; a lost decision is '
        "drawn again, maybe with another arm.",
        "* Rewards and activations of lost decisions wait in the store for their "
        "decisions: oddsmith doctor lists their ids.",
    ]
    return "\n".join(lines)


def _upgrade(asked: argparse.Namespace) -> str:
    from oddsmith.server.store.place import is_address
    from oddsmith.server.store.upgrade import upgrade

    backup = asked.backup
    if backup is None and not asked.no_backup:
        if is_address(asked.store):
            raise InvalidInput(
                "backup must be given for the stores of a database: --backup FOLDER "
                "for a file per experiment, or --no-backup"
            )
        backup = Path(f"{asked.store}.{datetime.now(UTC):%Y%m%dT%H%M%SZ}.backup")
    done = upgrade(asked.store, backup=backup)
    backups = [str(path) for path in done.backups]
    if asked.json:
        return as_json({"was": done.was, "now": done.now, "backups": backups})
    if done.was == done.now:
        return f"There is nothing to do: the format is {done.now!r} already."
    lines = [f"The format is {done.now!r} now; it was {done.was!r}.", ""]
    return "\n".join([*lines, *(f"backup: {path}" for path in backups)])


def _format_contents(contents: "Contents") -> str:
    """Return one sentence and the counts of a store's contents."""
    total = count_of(sum(contents.events.values()), "event")
    last = ""
    if contents.last is not None:
        last = f", the last one of {_date(contents.last)}"
    name = contents.experiment or "The store"
    lines = [f"{name} has {total} up to position {contents.head:,}{last}.", ""]
    for kind, count in sorted(contents.events.items()):
        lines.append(f"{kind:16}{count:>12,}")
    return "\n".join(lines)


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M:%S} UTC"
