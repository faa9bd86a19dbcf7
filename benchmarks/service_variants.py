"""The service as it is, without a store, and the bare framework: what `service_load`
compares.

python -m benchmarks.service_variants bare|none|sqlite|URL FOLDER
"""

import socket
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.service_load import policy_file
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.server import serve
from oddsmith.server.messages.calls import Decide
from oddsmith.server.store import Event, Receipt


class Forgetful:
    """A store that keeps nothing: answers at once, and reads as empty."""

    def __init__(self, inner: Any) -> None:
        self._inner, self._position = inner, 0

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        done: Future[tuple[Receipt, ...]] = Future()
        receipts = []
        for _ in events:
            self._position += 1
            receipts.append(Receipt(self._position, True))
        done.set_result(tuple(receipts))
        return done

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def bare() -> Any:
    """Starlette, msgspec and nothing else: the same request is parsed, an answer of the
    same size is written."""
    decoder, answer = (
        msgspec.json.Decoder(Decide),
        {"arm": "arm 0", "odds": {f"arm {a}": 0.125 for a in range(8)}},
    )

    async def decide(request: Request) -> Response:
        decoder.decode(await request.body())
        return Response(msgspec.json.encode(answer), media_type="application/json")

    return Starlette(routes=[Route("/v1/decide", decide, methods=["POST"])])


def main() -> None:
    """Serve one variant on a free port, which is printed."""
    variant, folder = sys.argv[1], Path(sys.argv[2])
    door = socket.create_server(("127.0.0.1", 0), backlog=1024)
    if variant == "bare":
        config = uvicorn.Config(
            bare(), loop="uvloop", http="httptools", log_config=None, access_log=False
        )
        print(door.getsockname()[1], flush=True)
        uvicorn.Server(config).run(sockets=[door])
        return
    opened = open_experiments(
        [policy_file(folder, variant if "://" in variant else None)]
    )[0]
    if variant == "none":
        opened = replace(opened, store=Forgetful(opened.store))
    print(door.getsockname()[1], flush=True)
    serve(make_app([opened]), door)


if __name__ == "__main__":
    main()
