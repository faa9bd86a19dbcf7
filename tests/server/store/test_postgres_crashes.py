"""kill -9 of the whole server under load: what was answered is there, and the store
comes back by itself."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.fold.fold import restore
from oddsmith.server.store import DecisionMade, Event, PostgresStore, Reward
from oddsmith.server.store.postgres import link
from server.store.postgres_server import Server
from server.store.samples import append, bits, made, policy, reference, stored


class Writers:
    """Eight threads that write through one store, note what was answered, and send
    again what was not."""

    def __init__(self, store: PostgresStore, name: str) -> None:
        self.answered: set[str] = set()
        self.wrong: list[BaseException] = []
        self._store, self._done = store, threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=[f"{name}-{i}"]) for i in range(8)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, name: str) -> None:
        decision, i = made(name).decision, 0
        while not self._done.is_set():
            self._send(
                DecisionMade(f"{name}-{i}", decision, 0, 0.0),
                Reward(f"{name}-{i}", i % 2, 0.0),
            )
            i += 1

    def _send(self, *events: Event) -> None:
        for event in events:
            while not self._done.is_set():
                try:
                    append(self._store, event)
                    self.answered.add(
                        f"{type(event).__name__} {getattr(event, 'id', '')}"
                    )
                    break
                except od.errors.StoreFailed:
                    time.sleep(0.01)
                except BaseException as error:
                    self.wrong.append(error)
                    return

    def wait(self, more: int) -> None:
        """Until so many more events were answered."""
        goal, deadline = len(self.answered) + more, time.monotonic() + 60
        while len(self.answered) < goal:
            assert time.monotonic() < deadline, "the store did not come back"
            time.sleep(0.002)

    def stop(self) -> None:
        self._done.set()
        for thread in self._threads:
            thread.join(timeout=60)
        assert not any(thread.is_alive() for thread in self._threads)
        assert not self.wrong


@contextmanager
def writers(store: PostgresStore, name: str) -> Iterator[Writers]:
    started = Writers(store, name)
    try:
        yield started
    finally:
        started.stop()


def lost(server: Server, experiment: str, answered: set[str]) -> int:
    """How many answered events are not there; what is there is there once, and restores
    to the clean fold."""
    judge = policy()
    with PostgresStore(server.url(), judge, experiment=experiment) as store:
        events = stored(store)
        names = [
            f"{type(event).__name__} {getattr(event, 'id', '')}" for _, event in events
        ]
        assert len(set(names)) == len(names)
        assert bits(restore(store, judge).state) == bits(reference(judge, events))
    return len(answered - set(names))


def survived(
    server: Server, experiment: str, ends: list[Callable[[], None]], answers: int
) -> int:
    """Lost answers after the server was ended in these ways under load."""
    with (
        PostgresStore(server.url(), policy(), experiment=experiment) as store,
        writers(store, experiment) as writing,
    ):
        for end in ends:
            writing.wait(answers)
            end()
            assert isinstance(
                store.append([made("nobody")]).exception(timeout=30),
                od.errors.StoreFailed,
            )
            with pytest.raises(od.errors.StoreFailed):
                store.head()
            server.start()
            writing.wait(answers)  # by itself
    return lost(server, experiment, writing.answered)


def test_the_server_dies_and_nothing_that_was_answered_is_lost(
    server: Server, experiment: str
) -> None:
    # the second is an immediate shutdown
    ends = [server.kill, lambda: server.stop(signal.SIGQUIT)]
    assert survived(server, experiment, ends, answers=100) == 0


@pytest.fixture
def hasty(server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stores that do not wait for the disk, on a server that is slow to write by
    itself; it has the tables."""
    PostgresStore(server.url(), policy(), experiment="first").close()
    server.sql("alter system set wal_writer_delay = '10s'", "select pg_reload_conf()")
    monkeypatch.setitem(link.SESSION, "synchronous_commit", "off")
    yield
    server.sql("alter system reset wal_writer_delay", "select pg_reload_conf()")


@pytest.mark.usefixtures("hasty")
def test_without_synchronous_commit_it_is(server: Server, experiment: str) -> None:
    """The check has teeth; and the store notices."""
    with PostgresStore(server.url(), policy(), experiment=experiment) as store:
        with writers(store, experiment) as writing:
            writing.wait(300)
            server.kill()
        server.start()
        failure, end = "", time.monotonic() + 30
        while (
            "has lost events that were confirmed" not in failure
            and time.monotonic() < end
        ):
            # the server may still be starting
            failure = str(store.append([made("next")]).exception(timeout=30))
            time.sleep(0.02)
    assert lost(server, experiment, writing.answered) > 0
    assert "has lost events that were confirmed" in failure


def test_a_server_that_hangs_lets_nobody_wait_for_ever(
    server: Server, experiment: str
) -> None:
    with PostgresStore(server.url(), policy(), experiment=experiment) as store:
        append(store, made("a"))
        server.freeze()
        try:
            futures: list[Future[Any]] = [
                store.append([made(f"b{i}")]) for i in range(3)
            ]
            with pytest.raises(
                od.errors.StoreFailed, match="could not be read: no answer"
            ):
                store.head()
            failures = [future.exception(timeout=30) for future in futures]
        finally:
            server.freeze(thaw=True)
        assert all(isinstance(failure, od.errors.StoreFailed) for failure in failures)
        time.sleep(0.2)
        assert store.append([made("c")]).exception(timeout=30) is None
        assert {line.id for line in store.lines(0, store.head())} >= {"a", "c"}


def test_a_store_that_cannot_be_written_says_so_until_it_can(
    server: Server, experiment: str, caplog: Any
) -> None:
    with PostgresStore(server.url(), policy(), experiment=experiment) as store:
        append(store, made("a"))
        assert store.write_trouble == ""
        server.kill()
        try:
            for _ in range(2):
                with pytest.raises(od.errors.StoreFailed, match="could not be written"):
                    append(store, made("b"))
            assert store.write_trouble
        finally:
            server.start()
        end = time.monotonic() + 30
        while store.write_trouble:  # no write but its own
            assert time.monotonic() < end
            time.sleep(0.01)
        assert len(append(store, made("b"))) == 1
        assert [line.id for line in store.lines(0, store.head())] == ["a", "b"]
    said = [
        record.getMessage()
        for record in caplog.records
        if experiment in record.getMessage()
    ]
    assert [
        ("can be written again" in text, "cannot be written" in text) for text in said
    ] == [
        (False, True),
        (True, False),
    ]
