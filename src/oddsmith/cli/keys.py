"""`oddsmith keys create | list | rotate | revoke`: the keys of the service."""

import argparse
import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from oddsmith.cli.parser import Commands, add_command, add_json
from oddsmith.cli.words import as_json
from oddsmith.core.errors import InvalidInput, import_extra

__all__ = ["add_commands", "read_span"]

if TYPE_CHECKING:
    from oddsmith.server.http.keys import Key


_SCOPES = ("decide", "reward", "read", "operate", "admin")
_BLANK = {"experiments": "all", "expires": "never", "revoked": "no"}
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    keys = commands.add_parser(
        "keys", help="create, list, rotate and revoke the keys of the service"
    )
    actions = keys.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = add_command(
        actions,
        "create",
        "create a key and print it once",
        "oddsmith keys create shop --scope decide reward --expires-in 90d",
    )
    create.add_argument(
        "name", help="name of the key in lists and logs: 1 to 64 of a-z, 0-9, - and _"
    )
    create.add_argument(
        "--scope",
        nargs="+",
        required=True,
        choices=_SCOPES,
        help="what the key allows; admin allows everything",
    )
    create.add_argument(
        "--experiment",
        nargs="+",
        default=[],
        metavar="NAME",
        help="restrict the key to these experiments (default: all)",
    )
    create.add_argument(
        "--rate",
        metavar="N/s",
        help="highest rate of calls, as in 100/s (default: --rate of serve)",
    )
    create.add_argument(
        "--burst",
        type=int,
        metavar="N",
        help="number of calls allowed at once after a pause (default: the calls of one "
        "second)",
    )
    listing = add_command(
        actions, "list", "list all keys without secrets", "oddsmith keys list"
    )
    add_json(listing)
    rotate = add_command(
        actions,
        "rotate",
        "replace the token of a key; the old one ends soon",
        "oddsmith keys rotate shop --overlap 12h",
    )
    rotate.add_argument("name", help="name of the key")
    rotate.add_argument(
        "--overlap",
        default="7d",
        metavar="SPAN",
        help="time until the old token ends (default: 7d; 0s: at once)",
    )
    revoke = add_command(
        actions,
        "revoke",
        "refuse a key from the next request on",
        "oddsmith keys revoke shop",
    )
    revoke.add_argument("name", help="name of the key")
    for parser in (create, rotate):
        end = parser.add_mutually_exclusive_group()
        end.add_argument(
            "--expires-in",
            metavar="SPAN",
            help="end the token after this time, as in 90d, 12h, 30m (default: never)",
        )
        end.add_argument(
            "--expires-on",
            metavar="DATE",
            help="end the token on this day or time in UTC: 2027-01-31",
        )
    default = Path(os.environ.get("ODDSMITH_KEYS") or "keys.json")
    runs = {create: _create, listing: _list, rotate: _rotate, revoke: _revoke}
    for parser, run in runs.items():
        parser.add_argument(
            "--keys",
            type=Path,
            default=default,
            metavar="FILE",
            help="file of the keys (default: %(default)s)",
        )
        parser.set_defaults(run=run)


def read_span(text: str, what: str) -> timedelta:
    """Return the time span of a text like 90d.

    >>> read_span("90d", "overlap"), read_span("12h", "overlap")
    (datetime.timedelta(days=90), datetime.timedelta(seconds=43200))
    """
    match = re.fullmatch(r"(\d{1,9})([smhdw])", text)
    if match is not None:
        seconds = int(match[1]) * _SECONDS[match[2]]
        if seconds <= 36_500 * 86_400:
            return timedelta(seconds=seconds)
    raise InvalidInput(
        f"{what} must be a whole number with s, m, h, d or w, up to 36500d, as in 90d; "
        f"got {text!r:.60}"
    )


def _end(asked: argparse.Namespace) -> datetime | None:
    """Return when the token ends, or None for never."""
    if asked.expires_in is not None:
        now = datetime.now(UTC).replace(microsecond=0)
        return now + read_span(asked.expires_in, "expires-in")
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
    rates = import_extra("oddsmith.server.http.rates", "keys need", "service")
    token = _keys().create(
        asked.keys,
        asked.name,
        asked.scope,
        asked.experiment,
        expires=_end(asked),
        rate=rates.read_rate(asked.rate, asked.burst),
    )
    return (
        f"{token}\nThis is the key {asked.name!r}. It is not shown again: {asked.keys} "
        "holds only its hash."
    )


def _rotate(asked: argparse.Namespace) -> str:
    overlap = read_span(asked.overlap, "overlap")
    token = _keys().rotate(asked.keys, asked.name, overlap=overlap, expires=_end(asked))
    before = "is refused from the next request on"
    if overlap:
        before = f"stays valid for {asked.overlap}"
    return (
        f"{token}\nThis is the key {asked.name!r} from now on. It is not shown again; "
        f"the previous token {before}."
    )


def _list(asked: argparse.Namespace) -> str:
    from oddsmith.files.reports.page import Table

    keys = _keys().read_keys(asked.keys)
    if asked.json:
        return as_json([_record(key) for key in keys])
    if not keys:
        return f"{asked.keys} holds no keys."
    rows = []
    for key in keys:
        record = _record(key)
        cells = []
        for name, value in record.items():
            text = " ".join(value) if isinstance(value, list) else value
            cells.append(text or _BLANK.get(name, ""))
        rows.append(tuple(cells))
    head = tuple(name.replace("_", " ") for name in record)
    return str(Table(head, tuple(rows)))


def _record(key: "Key") -> dict[str, str | list[str] | None]:
    """Return the public fields of a key. `old_until` is the end of a replaced token."""
    *earlier, last = key.tokens
    now = datetime.now(UTC)
    ends = [token.expires for token in earlier if token.expires is not None]
    old = max([end for end in ends if end > now], default=None)
    return {
        "name": key.name,
        "scopes": list(key.scopes),
        "experiments": list(key.experiments),
        "created": last.created.isoformat(),
        "expires": _text(last.expires),
        "old_until": _text(old),
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
