"""`oddsmith keys create | list | revoke`: the keys of the service."""

import argparse
import os
from pathlib import Path
from types import ModuleType

from oddsmith.cli.parser import Commands
from oddsmith.cli.words import as_json
from oddsmith.errors import import_extra

__all__ = ["add_commands"]

_SCOPES = ("decide", "reward", "read", "admin")


def add_commands(commands: Commands) -> None:
    """Add the commands to a parser."""
    keys = commands.add_parser("keys", help="create, list and revoke the keys of the service")
    actions = keys.add_subparsers(title="actions", required=True, metavar="ACTION")
    create = actions.add_parser("create", help="make a key and print it, once")
    create.add_argument("name", help="what lists and logs call it: 1 to 64 of a-z, 0-9, - and _")
    create.add_argument("--scope", nargs="+", required=True, choices=_SCOPES, help="what it allows; admin: all of it")
    create.add_argument("--experiment", nargs="+", default=[], metavar="NAME", help="only for these (default: all)")
    listing = actions.add_parser("list", help="all keys, without what is secret")
    listing.add_argument("--json", action="store_true", help="print JSON for programs")
    revoke = actions.add_parser("revoke", help="refuse a key from the next request on")
    revoke.add_argument("name", help="the key's name")
    for parser, run in ((create, _create), (listing, _list), (revoke, _revoke)):
        default = Path(os.environ.get("ODDSMITH_KEYS") or "keys.json")
        parser.add_argument("--keys", type=Path, default=default, metavar="FILE", help="default: %(default)s")
        parser.set_defaults(run=run)


def _create(asked: argparse.Namespace) -> str:
    token = _keys().create(asked.keys, asked.name, asked.scope, asked.experiment)
    return f"{token}\nThis is the key {asked.name!r}. It is not shown again: {asked.keys} holds only its hash."


def _list(asked: argparse.Namespace) -> str:
    from oddsmith.reports.page import Table

    rows = [
        {
            "name": key.name,
            "scopes": list(key.scopes),
            "experiments": list(key.experiments),
            "created": key.created.isoformat(),
            "revoked": None if key.revoked is None else key.revoked.isoformat(),
        }
        for key in _keys().read_keys(asked.keys)
    ]
    if asked.json:
        return as_json(rows)
    if not rows:
        return f"{asked.keys} holds no keys."
    blank = {"experiments": "all", "revoked": "no"}
    shown = [[" ".join(v) if isinstance(v, list) else v or "" for v in row.values()] for row in rows]
    cells = tuple(tuple(cell or blank[name] for name, cell in zip(rows[0], row, strict=True)) for row in shown)
    return str(Table(tuple(rows[0]), cells))


def _revoke(asked: argparse.Namespace) -> str:
    _keys().revoke(asked.keys, asked.name)
    return f"The key {asked.name!r} is refused from the next request on."


def _keys() -> ModuleType:
    return import_extra("oddsmith.service.keys", "keys need", "service")
