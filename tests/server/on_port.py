"""A service with Personalizer's door on a real port of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx

from oddsmith.server.compat.personalizer.entrance import Personalizer
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.keys import KeyRing
from oddsmith.server.http.wire import server_config
from server.live import serving
from server.served import wait

__all__ = ["Port", "on_a_port"]


class Port(NamedTuple):
    """A service of this process on a port, and a client of its own API."""

    port: int
    client: httpx.Client


@contextmanager
def on_a_port(path: Path, keys: Path | None = None) -> Iterator[Port]:
    """A service with Personalizer's door, once it is ready."""
    ring = None if keys is None else KeyRing(keys)
    app = make_app(open_experiments([path]), keys=ring, doors=[Personalizer()])
    with (
        serving(server_config(app, host="127.0.0.1", port=0)) as port,
        httpx.Client(base_url=f"http://127.0.0.1:{port}") as own,
    ):
        wait(lambda: own.get("/readyz").status_code == 200)
        yield Port(port, own)
