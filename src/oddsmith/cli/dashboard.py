"""`oddsmith dashboard`: a read-only dashboard of stores on this machine."""

import argparse
import logging
from contextlib import closing

from oddsmith.cli.parser import Commands, add_command
from oddsmith.cli.serve import listen
from oddsmith.core.errors import InvalidInput, import_extra

__all__ = ["add_commands"]


def add_commands(commands: Commands) -> None:
    """Add the command to a parser."""
    show = add_command(
        commands,
        "dashboard",
        "open a read-only dashboard of stores, on this machine",
        "oddsmith dashboard news.sqlite",
    )
    show.add_argument(
        "stores",
        nargs="+",
        metavar="STORE",
        help="files of stores or backups, postgresql://…, or policy files, whose "
        "models "
        "are then called",
    )
    show.add_argument(
        "--experiment",
        metavar="NAME",
        help="name of the experiment; a database may have several",
    )
    show.add_argument(
        "--port", type=int, default=0, help="port on 127.0.0.1 (default 0: any free)"
    )
    show.set_defaults(run=_dashboard)


def _dashboard(asked: argparse.Namespace) -> str:
    server = import_extra("oddsmith.server.http.server", "dashboard needs", "service")
    from oddsmith.server.http.dashboard import dashboard_app, open_views
    from oddsmith.server.http.log_lines import set_up_logging

    if not 0 <= asked.port <= 65535:
        raise InvalidInput(f"port must be a number from 0 to 65535; got {asked.port}")
    with closing(listen("127.0.0.1", asked.port)) as listener:
        views = open_views(asked.stores, asked.experiment)
        set_up_logging("text")
        logging.getLogger("oddsmith").setLevel(logging.WARNING)
        names = ", ".join(view.file.name for view in views)
        _, port = listener.getsockname()
        address = f"http://127.0.0.1:{port}/dashboard/"
        print(f"{names}: {address} (Ctrl-C ends it)", flush=True)
        server.serve(dashboard_app(views), listener)
    return ""
