"""Many kills of servers and replicas: the long versions of test_postgres_crashes.py and
test_replicas.py."""

import signal

import pytest

from oddsmith.server.store import PostgresStore
from oddsmith.server.store.postgres import link
from server.store.postgres_server import Server
from server.store.samples import policy
from server.store.test_postgres_crashes import lost, survived, writers
from server.store.test_replicas import by_sequence, played

pytestmark = pytest.mark.soak


def test_ten_kills_and_ten_immediate_shutdowns(server: Server, experiment: str) -> None:
    ends = [server.kill] * 10 + [lambda: server.stop(signal.SIGQUIT)] * 10
    assert survived(server, experiment, ends, answers=1000) == 0


def test_kills_without_synchronous_commit(
    server: Server, experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server as it comes, which writes by itself every fifth of a second."""
    monkeypatch.setitem(link.SESSION, "synchronous_commit", "off")
    missing = 0
    for i in range(10):
        name = f"{experiment}-{i}"
        with (
            PostgresStore(server.url(), policy(), experiment=name) as store,
            writers(store, name) as writing,
        ):
            writing.wait(1000)
            server.kill()
        server.start()
        missing += lost(server, name, writing.answered)
    assert missing > 0


def test_replicas_killed_ten_times(server: Server, experiment: str) -> None:
    told, replayed = played(server.url(), experiment, "window", kills=10, seconds=2.0)
    assert told == [replayed, replayed]


def test_replicas_by_sequence(server: Server, experiment: str) -> None:
    told, replayed = played(
        by_sequence(server, "soak"), experiment, "sequence", kills=5, seconds=2.0
    )
    assert min(learnt for _, learnt, _ in told) < replayed[1]
