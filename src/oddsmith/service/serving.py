"""Serving: the application on a socket until a signal stops it."""

import signal
import socket
from collections.abc import Sequence
from types import FrameType

import uvicorn

from oddsmith.service.app import make_app
from oddsmith.service.keys import KeyRing
from oddsmith.service.opening import Opened
from oddsmith.service.wire import server_config

__all__ = ["serve"]


def serve(opened: Sequence[Opened], keys: KeyRing | None, door: socket.socket) -> None:
    """Serve these experiments until SIGINT or SIGTERM; requests under way are answered, snapshots kept."""
    config = server_config(make_app(opened, keys=keys), host="", port=0)
    config.timeout_graceful_shutdown = 10
    _Server(config).run(sockets=[door])


class _Server(uvicorn.Server):
    """Ends in order at a signal, and returns to its caller; uvicorn's own sends itself the signal once more."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True
