"""`oddsmith dashboard`: the page of a store that need not be served, on this machine,
read-only."""

import argparse
import logging
from contextlib import closing

from oddsmith.cli.parser import Commands
from oddsmith.cli.serve import listen
from oddsmith.core.errors import InvalidInput, import_extra

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    show = commands.add_parser(
        "dashboard",
        help="the page of a store, which need not be served; nothing is written",
    )
    what = (
        "files of stores, backups among them; postgresql://…; or policy files, whose "
        "models are then asked"
    )
    show.add_argument("stores", nargs="+", metavar="STORE", help=what)
    show.add_argument(
        "--experiment",
        metavar="NAME",
        help="the experiment it must be of, or which one of a database",
    )
    show.add_argument("--port", type=int, default=0, help="(default: any free one)")
    show.set_defaults(run=_dashboard)


def _dashboard(asked: argparse.Namespace) -> str:
    serve = import_extra(
        "oddsmith.server.http.server", "dashboard needs", "service"
    ).serve
    from oddsmith.server.http.dashboard import dashboard_app, open_views
    from oddsmith.server.http.log_lines import set_up_logging

    if not 0 <= asked.port <= 65535:
        raise InvalidInput(f"port must be a number from 0 to 65535; got {asked.port}")
    with closing(listen("127.0.0.1", asked.port)) as door:
        shown = open_views(asked.stores, asked.experiment)
        set_up_logging("text")
        logging.getLogger("oddsmith").setLevel(logging.WARNING)
        names = ", ".join(one.file.name for one in shown)
        print(
            f"{names}: http://127.0.0.1:{door.getsockname()[1]}/dashboard/ (Ctrl-C "
            "ends it)",
            flush=True,
        )
        serve(dashboard_app(shown), door)
    return ""
