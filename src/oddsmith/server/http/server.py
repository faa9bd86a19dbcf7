"""Run the server of the application until a signal ends it."""

import gc
import math
import signal
import socket
import time
from types import FrameType

import uvicorn

from oddsmith.server.http.connections import Connections
from oddsmith.server.http.limits import Limits
from oddsmith.server.http.wire import server_config

__all__ = ["GRACE_S", "serve"]

GRACE_S = 10
"""Seconds that unfinished requests have when the service stops; after that they get
status 503."""


def serve(
    app: Limits,
    door: socket.socket,
    *,
    room: Connections | None = None,
    drain_s: float = 0.0,
) -> None:
    """Serve until SIGINT or SIGTERM; then finish current requests and save snapshots.

    After SIGTERM, `/readyz` answers 503 for `drain_s` seconds so that load balancers
    can react, and all other requests are answered normally. SIGINT, or a second signal,
    ends the server without this delay.
    """
    room = room or Connections()
    config = server_config(app, host="", port=0, room=room)
    config.timeout_graceful_shutdown = GRACE_S
    # objects created so far live as long as the process: exclude them from garbage
    # collection
    gc.freeze()
    # Requests allocate hundreds of objects but no reference cycles, so collect garbage
    # less often.
    gc.set_threshold(10_000, 20, 20)
    _Server(config, app, room, drain_s).run(sockets=[door])


class _Server(uvicorn.Server):
    """A uvicorn server that returns to its caller after a signal. The class in uvicorn
    would raise the signal again."""

    def __init__(
        self, config: uvicorn.Config, app: Limits, room: Connections, drain_s: float
    ) -> None:
        super().__init__(config)
        self._app = app
        self._room = room
        self._drain_s = drain_s
        self._until = math.inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self._app.drain()
        if sig == signal.SIGTERM and self._until == math.inf:
            self._room.closing = True
            self._until = time.monotonic() + self._drain_s
        else:
            self.should_exit = True

    async def on_tick(self, counter: int) -> bool:
        self.should_exit = self.should_exit or time.monotonic() >= self._until
        return await super().on_tick(counter)
