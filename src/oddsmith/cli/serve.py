"""`oddsmith serve`: run policy files as an HTTP decision service."""

import argparse
import logging
import math
import os
import socket
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from oddsmith.cli.parser import Commands, add_command
from oddsmith.core.errors import InvalidInput, import_extra
from oddsmith.files.template import MADE, start_policy_file

__all__ = ["add_commands", "listen"]

_log = logging.getLogger(__name__)


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    parser = add_command(
        commands,
        "serve",
        "serve decisions and rewards over HTTP, on SQLite or PostgreSQL",
        "oddsmith serve news.toml --keys keys.json",
    )
    parser.add_argument(
        "policies",
        nargs="+",
        type=Path,
        metavar="POLICY",
        help="policy files, one experiment per file",
    )
    parser.add_argument(
        "--host",
        default=os.environ.get("ODDSMITH_HOST", "127.0.0.1"),
        help="address to listen on (default: 127.0.0.1)",
    )
    parser.add_argument(
        "--port",
        default=os.environ.get("ODDSMITH_PORT", "8000"),
        help="port to listen on (default: 8000; 0: any free)",
    )
    limits = parser.add_argument_group("keys and limits")
    limits.add_argument(
        "--keys",
        type=Path,
        default=os.environ.get("ODDSMITH_KEYS"),
        metavar="FILE",
        help="file of keys from `oddsmith keys create` (default: no keys, and only "
        "this machine may call)",
    )
    limits.add_argument(
        "--rate",
        metavar="N/s",
        help="highest rate of calls per key, as in 100/s; without keys, of all "
        "callers together (default: no limit)",
    )
    limits.add_argument(
        "--burst",
        type=int,
        metavar="N",
        help="number of calls allowed at once after a pause (default: the calls of one "
        "second)",
    )
    limits.add_argument(
        "--connections-each",
        default=os.environ.get("ODDSMITH_CONNECTIONS_EACH", "200"),
        metavar="N",
        help="open connections per address, except from this machine (default: 200)",
    )
    logs = parser.add_argument_group("logs")
    logs.add_argument(
        "--log-format",
        choices=("text", "json"),
        default="text",
        help="format of the log on standard error (default: text)",
    )
    logs.add_argument(
        "--access-log",
        metavar="FILE",
        help="append one line of JSON per response to this file; - is standard output "
        "(default: none)",
    )
    operation = parser.add_argument_group("operation")
    operation.add_argument(
        "--drain-s",
        default=os.environ.get("ODDSMITH_DRAIN_S", "0"),
        metavar="S",
        help="seconds from SIGTERM to the end; during them /readyz answers 503 and all "
        "other routes work (default: 0)",
    )
    operation.add_argument(
        "--no-dashboard",
        action="store_true",
        help="do not serve the pages /, /dashboard/ and /docs",
    )
    operation.add_argument(
        "--personalizer",
        action="store_true",
        help="serve the Personalizer-compatible API, too; create policy files that do "
        "not exist",
    )
    operation.add_argument(
        "--trust-clock",
        action="store_true",
        help="trust the clock however far it is from the newest event, and erase "
        "contexts "
        "and close reward windows at once",
    )
    parser.set_defaults(run=_serve)


def _serve(asked: argparse.Namespace) -> str:
    serve = import_extra("oddsmith.server.http.server", "serve needs", "service").serve
    from oddsmith.server.compat.ofrep import Ofrep
    from oddsmith.server.compat.personalizer.entrance import Personalizer
    from oddsmith.server.experiment.start import open_experiments
    from oddsmith.server.http.access import check_bind
    from oddsmith.server.http.app import make_app
    from oddsmith.server.http.connections import (
        Connections,
        room_for_connections,
    )
    from oddsmith.server.http.keys import KeyRing
    from oddsmith.server.http.log_lines import AccessLog, set_up_logging
    from oddsmith.server.http.rates import read_rate

    if not str(asked.port).isdigit() or int(asked.port) > 65535:
        raise InvalidInput(
            f"port must be a number from 0 to 65535; got {asked.port!r:.60}"
        )
    rate = read_rate(asked.rate, asked.burst)
    each = int(_number("connections-each", asked.connections_each, 1, 100_000))
    room = Connections(most=room_for_connections(), each=each)
    drain_s = _number("drain-s", asked.drain_s, 0, 3600)
    ring = None if asked.keys is None else KeyRing(asked.keys)
    check_bind(asked.host, ring)
    set_up_logging(asked.log_format)
    with ExitStack() as stack:
        access_log = None
        if asked.access_log is not None:
            access_log = stack.enter_context(closing(AccessLog(asked.access_log)))
        door = stack.enter_context(closing(listen(asked.host, int(asked.port))))
        opened = open_experiments(_files(asked))
        address = f"http://{asked.host}:{door.getsockname()[1]}"
        for one in opened:
            one.trusts_clock = asked.trust_clock
            _log.info(
                "experiment %s of %s, store %s",
                one.file.name,
                one.file.path,
                one.settings.place,
            )
        _log.info("listening on %s %s keys", address, "with" if ring else "without")
        if not asked.no_dashboard:
            _log.info("dashboard: %s/dashboard/", address)
        if asked.personalizer:
            _log_client_settings(address, [one.file.name for one in opened], asked.keys)
        app = make_app(
            opened,
            keys=ring,
            rate=rate,
            access_log=access_log,
            room=room,
            dashboard=not asked.no_dashboard,
            doors=[Personalizer(), Ofrep()] if asked.personalizer else [Ofrep()],
        )
        serve(app, door, room=room, drain_s=drain_s)
    _log.info("stopped; all answered requests are on disk")
    return ""


def _files(asked: argparse.Namespace) -> list[Path]:
    """Return the policy files. With --personalizer, create missing ones."""
    if asked.personalizer:
        for path in asked.policies:
            if start_policy_file(path):
                _log.info(MADE.format(path))
    return list(asked.policies)


def _log_client_settings(address: str, names: Sequence[str], keys: Path | None) -> None:
    """Log the endpoint and the key for the clients of Personalizer."""
    key = "any text, as there are no keys"
    if keys is not None:
        key = (
            "one that `oddsmith keys create NAME --scope decide reward --keys "
            f"{keys}` prints"
        )
    for name in names:
        endpoint = address if len(names) == 1 else f"{address}/{name}"
        _log.info(
            "settings for the Personalizer clients of %s: endpoint %s, key: %s",
            name,
            endpoint,
            key,
        )


def _number(name: str, text: str, low: int, high: int) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        raise InvalidInput(
            f"{name} must be a number from {low} to {high:,}; got {text!r:.60}"
        )
    return value


def listen(host: str, port: int) -> socket.socket:
    """Return a socket that accepts connections on a host and port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise InvalidInput(
            f"host and port must be free to listen on; got {host}:{port}, {why}"
        ) from error
