"""A service for tests: `here` runs it in this process, `process` as `oddsmith serve` in
another.

Both serve policy files; `place` writes one: three arms, four linear experts, and a
posterior that order defines.
"""

import os
import re
import sqlite3
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from anyio.from_thread import BlockingPortal, start_blocking_portal

import oddsmith
from oddsmith.server.compat.ofrep import Ofrep
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.http.app import make_app
from oddsmith.server.http.door import Door
from oddsmith.server.http.keys import KeyRing
from oddsmith.server.http.limits import Limits
from oddsmith.server.http.rates import Rate
from oddsmith.server.http.service import Service
from oddsmith.server.store.sqlite.open_stores import OpenStores
from server.offering import AsyncClient, Client, arms_line, weights
from server.store.samples import reference, stored

EXPERTS = ("a", "b", "c", "d")
CONTEXT = [0.3, -0.7]

BENCH = """
[experts.lines]
kind = "linear"
file = "lines.npz"
[experts.late]
kind = "linear"
file = "late.npz"
joins = true
"""

_modules = count()
_PATIENT = "timeout_ms = 60000\n"  # a busy machine puts no expert to sleep
_LINEAR = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'


def place(
    folder: Path,
    name: str = "news",
    *,
    top: str = "policy.share = 0.05\n",
    service: str = "",
    experts: str = _LINEAR,
) -> Path:
    """The policy file of an experiment; `top` are further settings, `service` the lines
    of [service]."""
    np.savez(folder / "lines.npz", weights=weights(), names=EXPERTS)
    np.savez(folder / "late.npz", weights=weights()[::-1][:1], names=["late"])
    path = folder / f"{name}.toml"
    text = (
        f'name = "{name}"\n{arms_line(experts)}policy.gamma = 0.1\nseed = 5\n'
        f"{top}{experts}"
    )
    text += f"[service]\n{service}{_PATIENT}"
    path.write_text(text)
    return path


def place_for_anything(folder: Path) -> Path:
    """The policy file of an experiment whose experts can read any context, and any
    arms."""
    code = (
        "import oddsmith as od\n\n\ndef says(context, arm):\n"
        "    return len(arm) % 9 / 9\n\n\n"
    )
    # a process loads a module once, from the first folder
    module = f"any_context_{next(_modules)}"
    (folder / f"{module}.py").write_text(
        code + "def bank(arms):\n    return od.FunctionExperts({'one': says}, arms)\n"
    )
    return place(
        folder, experts=f'[experts.any]\nkind = "python"\nfactory = "{module}:bank"\n'
    )


class Hands:
    """A clock in the test's hands: `wall` may be set to anything, `steady` only goes
    on."""

    def __init__(self, wall: float = 1e9, steady: float = 50.0) -> None:
        self.wall, self.steady = wall, steady

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.steady)

    def pass_by(self, seconds: float) -> None:
        self.wall, self.steady = self.wall + seconds, self.steady + seconds


@dataclass
class Here:
    """A service in this process, on a loop in a thread of its own: `ask` it, or look
    inside with `state`."""

    app: Any
    service: Service
    portal: BlockingPortal
    client: httpx.AsyncClient

    def ask(self, method: str, path: str, **more: Any) -> httpx.Response:
        """The answer, whatever it is."""
        answer: httpx.Response = self.portal.call(
            partial(self.client.request, method, path, **more)
        )
        return answer

    def post(self, path: str, body: Mapping[str, Any], status: int = 200) -> Any:
        """What POST /v1/`path` answers; it must have this status."""
        answer = self.ask("POST", f"/v1/{path}", json=body)
        assert answer.status_code == status, answer.text
        return answer.json()

    def get(self, path: str, status: int = 200) -> Any:
        """What GET `path` answers; it must have this status."""
        answer = self.ask("GET", path)
        assert answer.status_code == status, answer.text
        return answer.json()

    def decide(self, id: str | None = None, **more: Any) -> Any:
        """A decision in a context that depends on its id."""
        context = (
            np.random.default_rng(list((id or "").encode()))
            .normal(size=2)
            .round(3)
            .tolist()
        )
        return self.post(
            "decide", {"context": context} | ({} if id is None else {"id": id}) | more
        )

    def reward(self, id: str, reward: float, status: int = 200, **more: Any) -> Any:
        return self.post("reward", {"id": id, "reward": reward} | more, status)

    def experiment(self, name: str = "news") -> Experiment:
        return self.service.experiments[name]

    def inner(self, name: str = "news") -> Any:
        """The store with its files open, which stay open from now on."""
        store: Any = self.experiment(name).store
        return store._open()

    def state(self, name: str = "news") -> Any:
        """The state once it knows all that is in the log."""
        learner = self.experiment(name).follower
        self.portal.call(learner.wait_for, self.experiment(name).store.head())
        return learner.now.state

    def defined(self, name: str = "news") -> Any:
        """The state that the log defines, computed apart from the service and from the
        library's own fold."""
        experiment = self.experiment(name)
        store: Any = experiment.store
        return reference(
            experiment.setup.policy,
            stored(store),
            store.rule,
            store.late,
            store.secret,
        )


@contextmanager
def asked(app: Any, seconds: float = 30.0) -> Iterator[Here]:
    """An application in this process, once it is ready."""
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    with (
        start_blocking_portal() as portal,
        portal.wrap_async_context_manager(life(app)),
        portal.wrap_async_context_manager(
            AsyncClient(transport=transport, base_url="http://localhost")
        ) as client,
    ):
        served = Here(app, app.app.service, portal, client)
        wait(lambda: served.ask("GET", "/readyz").status_code == 200, seconds)
        yield served


@contextmanager
def here(
    *files: Path,
    keys: Path | None = None,
    clock: Clock | None = None,
    seconds: float = 30.0,
    rate: Rate | None = None,
    stores: OpenStores | None = None,
    doors: Sequence[Door] = (),
    trusts_clock: bool = False,
) -> Iterator[Here]:
    """A service of these policy files, once it is ready."""
    ring = None if keys is None else KeyRing(keys)
    opened = open_experiments(files, stores=stores)
    for one in opened:
        one.trusts_clock = trusts_clock
    app: Any = make_app(
        opened,
        keys=ring,
        clock=clock,
        rate=rate,
        doors=(*doors, Ofrep()),
    )
    with asked(app, seconds) as served:
        yield served


@asynccontextmanager
async def life(app: Limits) -> AsyncIterator[None]:
    """An application between its beginning and its end, as a server has it."""
    await app.begin()
    try:
        yield
    finally:
        await app.end()


@dataclass
class Elsewhere:
    """A service in another process; `log` is the file of what it says."""

    client: httpx.Client
    port: int
    pid: int
    log: Path

    def memory(self) -> int:
        """Bytes that the process holds in memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def process(
    *files: Path,
    keys: Path | None = None,
    before: str = "",
    environment: Mapping[str, str] | None = None,
    more: Sequence[str] = (),
) -> Iterator[Elsewhere]:
    """`oddsmith serve` on a port of its own, once it is ready; `before` is Python that
    it runs first."""
    code = (
        f"import sys\n{before}\nfrom oddsmith.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    command = [
        sys.executable,
        "-c",
        code,
        "serve",
        *map(str, files),
        "--port",
        "0",
        *more,
    ]
    command += [] if keys is None else ["--keys", str(keys)]
    path = os.pathsep.join(
        [str(Path(oddsmith.__file__).parents[1]), str(Path(__file__).parents[1])]
    )
    log = files[0].with_suffix(".log")
    with open(log, "w") as said:
        server = subprocess.Popen(
            command,
            stdout=said,
            stderr=said,
            env=os.environ | {"PYTHONPATH": path} | dict(environment or {}),
        )
    try:
        wait(lambda: "listening on" in log.read_text() or server.poll() is not None)
        found = re.search(r"listening on http://\S+:(\d+)", log.read_text())
        assert found, log.read_text()
        port = int(found[1])
        with Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as client:
            wait(lambda: client.get("/readyz").status_code == 200)
            yield Elsewhere(client, port, server.pid, log)
    finally:
        server.terminate()
        server.wait(30)


def wait(done: Any, seconds: float = 30.0) -> None:
    """Until `done()` is true; failing is better than waiting for ever."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.005)


def rows(path: Path) -> list[tuple[Any, ...]]:
    """What a store's file holds of events, read by SQLite alone."""
    with closing(sqlite3.connect(path)) as file:
        return file.execute(
            "select position, kind, id, key, value from events order by position"
        ).fetchall()
