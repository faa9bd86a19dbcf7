"""What the client's tests talk to: `oddsmith serve` in another process, and a proxy
that loses answers."""

import asyncio
import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import oddsmith

ARMS = ("sports", "politics", "tech")
# one try, which a proxy ends at once
HASTY: dict[str, Any] = {"timeout": 30.0, "retries": 0}
# what happens to the tries of a page's decision, and then to those of its activation
FATES: dict[str, list[str]] = {
    "heard": [],
    "unsent": ["before", "before"],
    "lost": ["after", "after"],
    "retried": ["after", "through"],
    "late": ["through", "before", "after"],
}
_EXPERTS = """
[experts.lines]
kind = "linear"
file = "lines.npz"
[experts.late]
kind = "linear"
file = "late.npz"
joins = true
"""


def policy_file(folder: Path, name: str, service: str = "", reward: str = "") -> Path:
    """Three arms, four linear experts, and one called `late` on the bench."""
    weights = np.random.default_rng(8).normal(size=(5, 3, 2))
    np.savez(folder / "lines.npz", weights=weights[:4], names=["a", "b", "c", "d"])
    np.savez(folder / "late.npz", weights=weights[4:], names=["late"])
    path = folder / f"{name}.toml"
    path.write_text(
        f"arms = {list(ARMS)}\nseed = 5\n{_EXPERTS}{reward}[service]\ntimeout_ms = "
        f"60000\n{service}"
    )
    return path


@contextmanager
def service(*files: Path, keys: Path | None = None) -> Iterator[str]:
    """The address of a service of these policy files that is ready; it is stopped at
    the end, its stores closed."""
    command = [
        sys.executable,
        "-m",
        "oddsmith",
        "serve",
        *map(str, files),
        "--port",
        "0",
    ]
    command += [] if keys is None else ["--keys", str(keys)]
    environment = os.environ | {"PYTHONPATH": str(Path(oddsmith.__file__).parents[1])}
    server = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    assert server.stderr is not None
    try:
        lines = iter(server.stderr.readline, "")
        url = next(
            found[1]
            for line in lines
            if (found := re.search(r"listening on (\S+)", line))
        )
        with oddsmith.Client(url) as client:
            assert client.ready(wait=60)
        yield url
    finally:
        server.terminate()
        server.wait(30)
        server.stderr.close()


def events(store: Path, kind: str) -> list[str]:
    """The ids of all events of a kind in a store's file, read by SQLite alone."""
    with closing(sqlite3.connect(store)) as file:
        return [
            id
            for (id,) in file.execute(
                "select id from events where kind = ? order by position", (kind,)
            )
        ]


class FlakyProxy:
    """Stands between client and service, and fails as networks do, in turns drawn from
    a seed.

    `before` the service: hangs up, the request is lost. `after`: the service has
    answered, and nobody hears it. `half`: the connection breaks inside the answer.
    `busy`: says 503 itself. What is left goes `through`.
    """

    KINDS = ("before", "after", "half", "busy", "through")
    ODDS = (0.08, 0.12, 0.08, 0.08, 0.64)

    def __init__(self, url: str, seed: int) -> None:
        host, _, port = url.removeprefix("http://").rpartition(":")
        self._upstream = host, int(port)
        self._turns = np.random.default_rng(seed)
        self.done = dict.fromkeys(self.KINDS, 0)
        self.url = ""

    @contextmanager
    def running(self) -> Iterator["FlakyProxy"]:
        loop, started = asyncio.new_event_loop(), threading.Event()
        stop = asyncio.Event()

        async def run() -> None:
            server = await asyncio.start_server(self._talk, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
            started.set()
            await stop.wait()
            server.close()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

        thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
        thread.start()
        started.wait()
        try:
            yield self
        finally:
            loop.call_soon_threadsafe(stop.set)
            thread.join()
            loop.close()

    async def _talk(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """One connection: requests, each with its fate, until one breaks it."""
        with suppress(
            asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError
        ):
            while True:
                request = await _message(reader)
                fate = self._fate()
                self.done[fate] += 1
                if fate == "before":
                    break
                if fate == "busy":
                    writer.write(
                        b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\n"
                        b"content-length: 0\r\n\r\n"
                    )
                    continue
                answer = await self._ask(request)
                if fate == "after":
                    break
                writer.write(
                    answer if fate == "through" else answer[: len(answer) // 2]
                )
                await writer.drain()
                if fate == "half":
                    break
        writer.transport.abort()

    def _fate(self) -> str:
        return str(self.KINDS[self._turns.choice(len(self.KINDS), p=self.ODDS)])

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(*self._upstream)
        try:
            writer.write(request)
            return await _message(reader)
        finally:
            writer.close()


class SteeredProxy(FlakyProxy):
    """A proxy whose requests have the fate that the test says."""

    def __init__(self, url: str) -> None:
        super().__init__(url, 0)
        self.fate = "through"

    def _fate(self) -> str:
        return self.fate


class FatedProxy(SteeredProxy):
    """A proxy whose next requests have these fates; all others go through."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.fates: list[str] = []

    def _fate(self) -> str:
        return self.fates.pop(0) if self.fates else "through"


async def _message(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    return head + await reader.readexactly(int(length[1]) if length else 0)


class Line(NamedTuple):
    """A client behind a proxy, one that talks to the service itself, and the store of
    the experiment."""

    proxy: SteeredProxy
    client: Any
    near: oddsmith.Client
    store: Path


@contextmanager
def line_to(
    served: tuple[str, Path], name: str, kind: Any = oddsmith.Client
) -> Iterator[Line]:
    """What a test of this experiment needs, at a service with its folder of stores."""
    url, folder = served
    with (
        SteeredProxy(url).running() as proxy,
        kind(proxy.url, experiment=name, **HASTY) as client,
    ):
        assert isinstance(proxy, SteeredProxy)
        with oddsmith.Client(url, experiment=name, timeout=60) as near:
            yield Line(proxy, client, near, folder / f"{name}.sqlite")
