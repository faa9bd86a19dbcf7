"""`oddsmith keys create | list | rotate | revoke`: the keys of the service."""

import argparse
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import as_json
from oddsmith.core.errors import InvalidInput, import_extra

__all__ = ["add_commands", "read_span"]

if TYPE_CHECKING:
    from oddsmith.server.http.keys import Key


_SCOPES = ("decide", "reward", "read", "admin")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    keys = commands.add_parser(
        "keys", help="create, list, rotate and revoke the keys of the service"
    )
    actions = keys.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument(
        "name", help="what lists and logs call it: 1 to 64 of a-z, 0-9, - and _"
    )
    create.add_argument(
        "--scope",
        nargs="+",
        required=True,
        choices=_SCOPES,
        help="what it allows; admin: all of it",
    )
    create.add_argument(
        "--experiment",
        nargs="+",
        default=[],
        metavar="NAME",
        help="only for these (default: all)",
    )
    create.add_argument(
        "--rate",
        metavar="N/s",
        help="calls that it may make, as in 100/s (default: that of serve)",
    )
    create.add_argument(
        "--burst",
        type=int,
        metavar="N",
        help="calls at once after a pause (default: one second's)",
    )
    listing = actions.add_parser("list", help="all keys, without what is secret")
    listing.add_argument("--json", action="store_true", help="print JSON for programs")
    rotate = actions.add_parser(
        "rotate", help="make another token for a key; the one before ends soon"
    )
    rotate.add_argument("name", help="the key's name")
    overlap = (
        "how long the one before stays in force (default: 7d; 0s: refuse it at once)"
    )
    rotate.add_argument("--overlap", default="7d", metavar="SPAN", help=overlap)
    revoke = actions.add_parser("revoke", help="refuse a key from the next request on")
    revoke.add_argument("name", help="the key's name")
    for parser in (create, rotate):
        end = parser.add_mutually_exclusive_group()
        end.add_argument(
            "--expires-in",
            metavar="SPAN",
            help="refuse it after this time, as in 90d, 12h, 30m",
        )
        end.add_argument(
            "--expires-on",
            metavar="DATE",
            help="refuse it from this day or time on, in UTC: 2027-01-31",
        )
    for parser, run in (
        (create, _create),
        (listing, _list),
        (rotate, _rotate),
        (revoke, _revoke),
    ):
        default = Path(os.environ.get("ODDSMITH_KEYS") or "keys.json")
        parser.add_argument(
            "--keys",
            type=Path,
            default=default,
            metavar="FILE",
            help="default: %(default)s",
        )
        parser.set_defaults(run=run)


def read_span(text: str, what: str) -> timedelta:
    """The time that a text like 90d stands for.

    >>> read_span("90d", "overlap"), read_span("12h", "overlap")
    (datetime.timedelta(days=90), datetime.timedelta(seconds=43200))
    """
    match = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    seconds = int(match[1]) * _SECONDS[match[2]] if match else None
    if seconds is None or seconds > 36_500 * 86_400:
        allowed = "a whole number with s, m, h, d or w, up to 36500d, as in 90d"
        raise InvalidInput(f"{what} must be {allowed}; got {text!r:.60}")
    return timedelta(seconds=seconds)


def _end(asked: argparse.Namespace) -> datetime | None:
    """When the token is to end, None for never."""
    if asked.expires_in is not None:
        return datetime.now(UTC).replace(microsecond=0) + read_span(
            asked.expires_in, "expires-in"
        )
    if asked.expires_on is None:
        return None
    try:
        day = datetime.fromisoformat(asked.expires_on)
    except ValueError as error:
        raise InvalidInput(
            f"expires-on must be a day like 2027-01-31; got {asked.expires_on!r:.60}"
        ) from error
    return day.replace(tzinfo=UTC) if day.tzinfo is None else day


def _create(asked: argparse.Namespace) -> str:
    rate = import_extra("oddsmith.server.http.rates", "keys need", "service").read_rate(
        asked.rate, asked.burst
    )
    token = _keys().create(
        asked.keys,
        asked.name,
        asked.scope,
        asked.experiment,
        expires=_end(asked),
        rate=rate,
    )
    return (
        f"{token}\nThis is the key {asked.name!r}. It is not shown again: {asked.keys} "
        "holds only its hash."
    )


def _rotate(asked: argparse.Namespace) -> str:
    overlap = read_span(asked.overlap, "overlap")
    token = _keys().rotate(asked.keys, asked.name, overlap=overlap, expires=_end(asked))
    before = (
        f"stays in force for {asked.overlap}"
        if overlap
        else "is refused from the next request on"
    )
    return (
        f"{token}\nThis is the key {asked.name!r} from now on. It is not shown again; "
        f"the one before {before}."
    )


def _list(asked: argparse.Namespace) -> str:
    from oddsmith.files.reports.page import Table

    rows = [_row(key) for key in _keys().read_keys(asked.keys)]
    if asked.json:
        return as_json(rows)
    if not rows:
        return f"{asked.keys} holds no keys."
    blank = {
        "experiments": "all",
        "expires": "never",
        "old_until": "",
        "rate": "",
        "revoked": "no",
    }
    shown = [
        [" ".join(v) if isinstance(v, list) else v or "" for v in row.values()]
        for row in rows
    ]
    cells = tuple(
        tuple(cell or blank[name] for name, cell in zip(rows[0], row, strict=True))
        for row in shown
    )
    return str(Table(tuple(name.replace("_", " ") for name in rows[0]), cells))


def _row(key: "Key") -> dict[str, str | list[str] | None]:
    """What people may see of a key; `old_until` is the end of a token that another has
    replaced."""
    *earlier, last = key.tokens
    old = max((one.expires for one in earlier if one.expires is not None), default=None)
    return {
        "name": key.name,
        "scopes": list(key.scopes),
        "experiments": list(key.experiments),
        "created": last.created.isoformat(),
        "expires": _text(last.expires),
        "old_until": _text(
            old if old is not None and old > datetime.now(UTC) else None
        ),
        "rate": None if key.rate is None else str(key.rate),
        "revoked": _text(key.revoked),
    }


def _text(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _revoke(asked: argparse.Namespace) -> str:
    _keys().revoke(asked.keys, asked.name)
    return f"The key {asked.name!r} is refused from the next request on."


def _keys() -> ModuleType:
    return import_extra("oddsmith.server.http.keys", "keys need", "service")
