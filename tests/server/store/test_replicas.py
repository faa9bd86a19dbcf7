"""Two replicas, eight writers, one killed and started again: each state is the full
replay; by sequence it is not."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from oddsmith.server.store import PostgresStore, Reward
from oddsmith.server.store.postgres.rows import write
from oddsmith.server.store.rows import row_of
from server.store.postgres_server import Server
from server.store.replica import KINDS, digest
from server.store.samples import made, policy, reference, stored

SCRIPT = Path(__file__).with_name("replica.py")


class Replica:
    """A process that is told and asked line by line."""

    def __init__(self, url: str, experiment: str, variant: str) -> None:
        command = [sys.executable, str(SCRIPT), url, experiment, variant]
        self._child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._guard = threading.Timer(300, self._child.kill)
        self._guard.start()
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._child.stdout is not None
        return self._child.stdout.readline().strip()

    def ask(self, order: str) -> str:
        assert self._child.stdin is not None
        self._child.stdin.write(order + "\n")
        self._child.stdin.flush()
        return self._answer()

    def end(self, *, kill: bool = False) -> None:
        if kill:
            os.kill(self._child.pid, signal.SIGKILL)
        self._child.communicate(timeout=60)
        self._guard.cancel()
        assert self._child.returncode == (-signal.SIGKILL if kill else 0)


@contextmanager
def stalled(url: str, experiment: str, name: str) -> Iterator[None]:
    """A ninth writer, whose transaction is written at once and committed late."""
    rows = [row_of(event, "first") for event in (made(name), Reward(name, 1.0, 0.0))]
    with PostgresStore(url, policy(), experiment=experiment) as store:
        run, connection = store._link.run, store._connection
        assert connection is not None
        run(connection.execute("begin"))
        run(write(connection, store._number, rows))
        yield
        run(connection.execute("commit"))


def go_on(replica: Replica) -> None:
    """Until a replica has read on: past what is stalled, if it is one that does so; the
    window never is."""
    start = replica.ask("look")
    for _ in range(200):
        if replica.ask("look") != start:
            return
        time.sleep(0.01)


def played(
    url: str, experiment: str, variant: str, *, kills: int, seconds: float
) -> tuple[list[Any], list[Any]]:
    """What two replicas say in the end (position, rewards learnt, state), and what a
    full replay of the log says."""
    judge = policy()
    replicas = [Replica(url, experiment, variant) for _ in range(2)]
    for i in range(kills):
        with stalled(url, experiment, f"stalled-{i}"):
            time.sleep(seconds / 2)
            go_on(replicas[1])
        replicas.pop(0).end(kill=True)
        replicas.append(Replica(url, experiment, variant))
        time.sleep(seconds / 2)
    for replica in replicas:
        assert replica.ask("stop") == "stopped"
    told = [json.loads(replica.ask("tell")) for replica in replicas]
    for replica in replicas:
        replica.end()
    with KINDS[variant](url, judge, experiment=experiment) as store:
        events = stored(store)
        state = reference(judge, events)
        return told, [events[-1][0], state.learnt, digest(state)]


def by_sequence(server: Server, database: str) -> str:
    """A database whose events have a sequence number as well."""
    server.sql(f"create database {database}")
    PostgresStore(server.url(database), policy(), experiment="none").close()
    add = (
        "alter table oddsmith.events add column seq bigint generated always as "
        "identity (cache 1)"
    )
    server.sql(
        add, "create index on oddsmith.events (experiment, seq)", database=database
    )
    return server.url(database)


def test_every_replica_is_the_full_replay(server: Server, experiment: str) -> None:
    told, replayed = played(server.url(), experiment, "window", kills=1, seconds=0.8)
    assert told == [replayed, replayed]
    assert replayed[1] > 100


def test_following_a_sequence_misses_events(server: Server, experiment: str) -> None:
    """The check has teeth."""
    told, replayed = played(
        by_sequence(server, "sequences"), experiment, "sequence", kills=1, seconds=0.8
    )
    assert told != [replayed, replayed]
    assert min(learnt for _, learnt, _ in told) < replayed[1]
