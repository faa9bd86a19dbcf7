"""kill -9 and simulated power cuts of the whole service under load (F1 and F2 of the
test plan).

Clients decide and reward over HTTP and note what was answered. After each crash the log
must hold all of it, once; the service must come back by itself; and every posterior
that was read while it lived must be the fold up to its position.
"""

import json
import os
import signal
import socket
import sqlite3
import threading
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from oddsmith.cli.main import main
from oddsmith.core.weights import posterior
from oddsmith.server.fold.fold import restore
from oddsmith.server.fold.judge import judge_from_json
from oddsmith.server.store import SQLiteReader
from server.offering import brought
from server.served import Elsewhere, place, process
from server.store.samples import WithoutSnapshots
from server.store.test_crashes import shim

EARLY = """
import asyncio
from oddsmith.server.experiment import writer
from oddsmith.server.store import Receipt
_append = writer.Writer.append
def append(self, events):
    loop = asyncio.get_running_loop()
    loop.call_later(0.1, _append, self, events)
    done = loop.create_future()
    done.set_result(tuple(Receipt(1, True) for _ in events))
    return done
writer.Writer.append = append
"""  # answers a tenth of a second before the commit: broken on purpose
# broken on purpose
NORMAL = (
    "from oddsmith.server.store.sqlite import files\nfiles.SYNCHRONOUS = 'NORMAL'\n"
)


class Clients:
    """Eight clients that decide and reward until the service is gone, and note what was
    answered."""

    def __init__(self, served: Elsewhere, name: str) -> None:
        self.answered: set[tuple[str, str]] = set()
        self.posteriors: list[Any] = []
        self._name, self._port = name, served.port
        work = [
            threading.Thread(target=self._work, args=(number,), daemon=True)
            for number in range(8)
        ]
        self._threads = [*work, threading.Thread(target=self._watch, daemon=True)]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        """Wait until all have noticed."""
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _work(self, number: int) -> None:
        with (
            suppress(OSError, EOFError),
            socket.create_connection(("127.0.0.1", self._port), timeout=20) as line,
        ):
            file = line.makefile("rwb")
            for turn in range(10**9):
                id = f"{self._name}-{number}-{turn}"
                asked = {"id": id, "context": [turn % 7 / 7, number / 8]}
                # sent again, as a client without an answer would
                for _ in range(1 + turn % 2):
                    _ask(file, "POST", "/v1/decide", asked)
                    self.answered.add(("decision", id))
                    _ask(file, "POST", "/v1/reward", {"id": id, "reward": turn % 2})
                    self.answered.add(("reward", id))

    def _watch(self) -> None:
        with (
            suppress(OSError, EOFError),
            socket.create_connection(("127.0.0.1", self._port), timeout=20) as line,
        ):
            file = line.makefile("rwb")
            while True:
                self.posteriors.append(_ask(file, "GET", "/v1/posterior"))
                time.sleep(0.05)


def _ask(file: Any, method: str, path: str, body: Any = None) -> Any:
    """The answer over a connection that may be cut at any moment; it must be a 200."""
    content = b"" if body is None else json.dumps(brought(path, body)).encode()
    file.write(
        (
            f"{method} {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: "
            f"{len(content)}\r\n\r\n"
        ).encode()
        + content
    )
    file.flush()
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        piece = file.readline()
        if not piece:
            raise EOFError
        head += piece
    length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
    answer = file.read(length)
    if len(answer) < length:
        raise EOFError
    assert head.startswith(b"HTTP/1.1 200"), head + answer
    return json.loads(answer)


def crash(path: Path, name: str, answers: int, **more: Any) -> Clients:
    """Serve under load until so many events were answered, then kill -9."""
    with process(path, **more) as served:
        clients = Clients(served, name)
        end = time.monotonic() + 60
        while len(clients.answered) < answers and time.monotonic() < end:
            time.sleep(0.01)
        os.kill(served.pid, signal.SIGKILL)
        clients.join()
    assert len(clients.answered) >= answers
    return clients


def lost(store: Path, answered: set[tuple[str, str]], posteriors: list[Any]) -> int:
    """How many answered events are not there; what is there must be sound, and every
    posterior its fold."""
    with closing(sqlite3.connect(store)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)
        kept = connection.execute("select kind, id from events").fetchall()
    assert len(set(kept)) == len(kept)
    with SQLiteReader(store) as reader:
        judge = judge_from_json(reader.about["judge"])
        bare: Any = WithoutSnapshots(reader)
        for seen in posteriors:
            if seen["position"] <= reader.head():
                folded = restore(bare, judge, until=seen["position"])
                assert posterior(folded.state.log_weights).tolist() == list(
                    seen["posterior"].values()
                )
                assert folded.state.learnt == seen["learnt"]
    return len(answered - set(kept))


def kills(folder: Path, times: int, answers: int) -> tuple[int, int]:
    """Answered and lost events after so many crashes on one store."""
    path = place(folder, service="snapshot_every = 200\n")
    answered: set[tuple[str, str]] = set()
    gone = 0
    for turn in range(times):
        clients = crash(path, f"t{turn}", answers)
        answered |= clients.answered
        gone += lost(folder / "news.sqlite", answered, clients.posteriors[-3:])
    check_proof(folder / "news.sqlite", path)
    return len(answered), gone


def check_proof(store: Path, file: Path) -> None:
    """Every draw, all odds, and what experts said, once more."""
    assert main(["verify", str(store), "--models", str(file), "--strict"]) == 0


@pytest.mark.usefixtures("any_arms")
def test_kill_9_of_the_service_loses_nothing(tmp_path: Path) -> None:
    assert kills(tmp_path, 2, 150)[1] == 0


@pytest.mark.usefixtures("any_arms")
@pytest.mark.soak
def test_kill_9_of_the_service_fifty_times_loses_nothing(tmp_path: Path) -> None:
    answered, gone = kills(tmp_path, 50, 300)
    print(f"50 kills: {answered:,} answered, {gone} lost")
    assert gone == 0


def test_answers_before_the_commit_are_lost(tmp_path: Path) -> None:
    """The check has teeth."""
    clients = crash(place(tmp_path), "early", 400, before=EARLY)
    assert lost(tmp_path / "news.sqlite", clients.answered, []) > 0


@pytest.fixture(scope="module")
def powercut(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.mktemp("powercut"))


def cut(folder: Path, library: Path, answers: int, before: str = "") -> tuple[int, int]:
    """Answered and lost events after a power cut: only what was synced is still
    there."""
    folder.mkdir()
    after = folder / "after"
    after.mkdir()
    environment = {"LD_PRELOAD": str(library), "POWERCUT": str(after)}
    clients = crash(place(folder), "t", answers, before=before, environment=environment)
    for copy in after.iterdir():  # creating and removing files is taken as durable
        if not (folder / copy.name).is_file():
            copy.unlink()
    return len(clients.answered), lost(
        after / "news.sqlite", clients.answered, clients.posteriors[-2:]
    )


@pytest.mark.usefixtures("arms_of_calls")
def test_a_power_cut_of_the_service_loses_nothing(
    tmp_path: Path, powercut: Path
) -> None:
    assert cut(tmp_path / "cut", powercut, 300)[1] == 0


@pytest.mark.usefixtures("any_arms")
@pytest.mark.soak
def test_twenty_power_cuts_lose_nothing(tmp_path: Path, powercut: Path) -> None:
    found = [cut(tmp_path / str(turn), powercut, 500) for turn in range(20)]
    print(
        f"20 cuts: {sum(answered for answered, _ in found):,} answered, "
        f"{sum(gone for _, gone in found)} lost"
    )
    assert sum(gone for _, gone in found) == 0


@pytest.mark.soak
def test_power_cuts_with_synchronous_normal_lose_answers(
    tmp_path: Path, powercut: Path
) -> None:
    """The check has teeth: kill -9 alone could not tell."""
    assert (
        sum(cut(tmp_path / str(turn), powercut, 800, NORMAL)[1] for turn in range(3))
        > 0
    )
