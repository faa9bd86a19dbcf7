"""A backup under load, the service killed, the backup restored, and clients that send
all their calls again.

Nothing is doubled, what is there is answered as before, the state is the fold of what
is there, and what was lost is named: by the clients, from positions and `new`, and by
doctor, of decisions that a reward came for.
"""

import os
import signal
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from oddsmith.server.audit.chart import chart_of
from oddsmith.server.audit.doctor import doctor
from oddsmith.server.store import SQLiteReader, open_reader
from oddsmith.server.store.backup import Contents, back_up, restore_backup
from server.model import posterior_of
from server.offering import Client, Kind
from server.served import EXPERTS, Elsewhere, here, place, process, rows, wait
from server.store.samples import stored

TOP = 'policy.loss = "log"\npolicy.eta = 0.5\npolicy.share = 0.05\n'
Ask: TypeAlias = Callable[..., httpx.Response]
Breaking: TypeAlias = Callable[[sqlite3.Connection], object]
KINDS = {"decide": "decision", "reward": "reward"}


@dataclass
class Call:
    """What a client sent, and what it was answered; None where the service was gone."""

    path: str
    body: dict[str, Any]
    answer: Any = None

    @property
    def event(self) -> tuple[str, str]:
        return KINDS[self.path], self.body["id"]


@dataclass
class Clients:
    """Four clients that decide and reward, with ids of their own, until the service is
    gone."""

    served: Elsewhere
    calls: list[Call] = field(default_factory=list)
    answered: int = 0

    def start(self) -> None:
        self._threads = [
            threading.Thread(target=self._work, args=(i,), daemon=True)
            for i in range(4)
        ]
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()

    def _work(self, number: int) -> None:
        with Client(
            base_url=f"http://127.0.0.1:{self.served.port}", timeout=30
        ) as client:
            for turn in range(10**9):
                id = f"{number}-{turn}"
                calls = [
                    Call("decide", {"id": id, "context": [turn % 7 / 7, number / 8]})
                ]
                calls += (
                    [Call("reward", {"id": id, "reward": turn % 2})] if turn % 5 else []
                )
                for call in calls:
                    self.calls.append(call)
                    try:
                        call.answer = asked(client.request, call)
                    except httpx.TransportError:
                        return
                    self.answered += 1


def asked(ask: Ask, call: Call) -> Any:
    answer = ask("POST", f"/v1/{call.path}", json=call.body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def lived(path: Path, answers: int) -> tuple[list[Call], Contents]:
    """The calls of clients until the service was killed, and what the backup holds that
    was taken half way."""
    with process(path) as served:
        clients = Clients(served)
        clients.start()
        wait(lambda: clients.answered >= answers)
        held = back_up(
            str(path.with_suffix(".sqlite")), path.with_name("backup.sqlite")
        )
        wait(lambda: clients.answered >= 2 * answers)
        os.kill(served.pid, signal.SIGKILL)
        clients.join()
    return clients.calls, held


def lost_decisions(store: Path) -> set[str]:
    """The decisions that doctor finds missing."""
    with closing(open_reader(str(store))) as reader:
        found = set(chart_of(reader, str(store), 0.0).lost)
    (said,) = [one.what for one in doctor([str(store)]) if one.check == "restored"]
    assert (f"{len(found)} decisions are missing" in said) == bool(found)
    return found


def repeated(
    ask: Ask, calls: Sequence[Call], answers: dict[tuple[str, str], Any]
) -> set[tuple[str, str]]:
    """Send calls again; what was new. What was there is answered as it was the last
    time."""
    new = set()
    for call in calls:
        again = asked(ask, call)
        if again["new"]:
            new.add(call.event)
        elif answers[call.event] is not None:
            told = (
                ("position", "arm", "odds") if call.path == "decide" else ("position",)
            )
            first = [answers[call.event][what] for what in told]
            assert [again[what] for what in told] == first, (
                "answered otherwise than before"
            )
        answers[call.event] = again
    return new


def check_state(store: Path, posterior: dict[str, float]) -> None:
    """Each event once, and the state that these define."""
    kept = [(kind, id) for _, kind, id, _, _ in rows(store)]
    assert len(set(kept)) == len(kept)
    with SQLiteReader(store) as reader:
        events = [event for _, event in stored(reader)]  # type: ignore[arg-type]
    wanted = posterior_of(list(EXPERTS), [0.25] * 4, 0.05, events)
    assert posterior == pytest.approx(wanted, abs=1e-9)


@dataclass
class Backed:
    """A service that was killed: its folder, with a backup, its clients' calls, and
    which of them the backup lacks."""

    path: Path
    calls: list[Call]
    held: Contents
    lost: set[tuple[str, str]]

    @property
    def store(self) -> Path:
        return self.path.with_suffix(".sqlite")

    def restored(self, breaking: Breaking | None = None) -> Contents:
        """Restore the backup in place of the store; `breaking` is done to what was
        restored."""
        for left in self.path.parent.glob("news.sqlite*"):
            left.unlink()
        done = restore_backup(self.path.with_name("backup.sqlite"), str(self.store))
        if breaking is not None:
            with closing(sqlite3.connect(self.store)) as connection, connection:
                breaking(connection)
        return done.contents


def backed_up(folder: Path, answers: int) -> Backed:
    path = place(folder, top=TOP, service="snapshot_every = 50\n")
    calls, held = lived(path, answers)
    lost = {
        call.event
        for call in calls
        if call.answer is None or call.answer["position"] > held.head
    }
    assert 0 < len(lost) < len(calls)
    return Backed(path, calls, held, lost)


def check_repeats(backed: Backed, restored: Contents, ask: Ask) -> int:
    """Repeat all calls, rewards before decisions, and everything again; how many lost
    decisions doctor named."""
    calls, store = backed.calls, backed.store
    stats = ask("GET", "/v1/stats").json()
    assert (stats["epoch"], stats["epoch_after"]) == (restored.epoch, backed.held.head)
    rewards = [call for call in calls if call.path == "reward"]
    answers = {call.event: call.answer for call in calls}
    new = repeated(ask, rewards, answers)
    named = {id for kind, id in backed.lost if kind == "decision"} & {
        call.body["id"] for call in rewards
    }
    assert lost_decisions(store) == named
    new |= repeated(ask, [call for call in calls if call.path == "decide"], answers)
    assert new == backed.lost, "what is new is not what was lost"
    assert lost_decisions(store) == set()
    head = ask("GET", "/v1/stats").json()["head"]
    assert repeated(ask, calls, answers) == set()
    wait(lambda: ask("GET", "/v1/posterior").json()["position"] >= head)
    check_state(store, ask("GET", "/v1/posterior").json()["posterior"])
    assert {(kind, id) for _, kind, id, _, _ in rows(store)} == {
        call.event for call in calls
    }
    return len(named)


@pytest.fixture(scope="module")
def backed_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Kind], Backed]:
    return cache(lambda kind: backed_up(tmp_path_factory.mktemp(kind), 120))


@pytest.fixture
def backed(any_arms: Kind, backed_of: Callable[[Kind], Backed]) -> Backed:
    return backed_of(any_arms)


def test_a_restore_with_clients_that_repeat_their_calls(backed: Backed) -> None:
    restored = backed.restored()
    with process(backed.path) as served:
        assert (
            0
            < check_repeats(backed, restored, served.client.request)
            < len(backed.lost)
            < len(backed.calls)
        )


@pytest.mark.soak
@pytest.mark.usefixtures("any_arms")
def test_ten_restores_with_clients_that_repeat_their_calls(tmp_path: Path) -> None:
    calls = lost = named = 0
    for turn in range(10):
        (tmp_path / str(turn)).mkdir()
        backed = backed_up(tmp_path / str(turn), 1000)
        restored = backed.restored()
        with process(backed.path) as served:
            named += check_repeats(backed, restored, served.client.request)
        calls, lost = calls + len(backed.calls), lost + len(backed.lost)
    print(
        f"10 restores: {calls:,} calls, {lost:,} lost, {named:,} of them decisions "
        "that doctor named, none doubled"
    )


def renumber(connection: sqlite3.Connection) -> None:
    """As a restore would that counts anew, from 2."""
    connection.execute("delete from snapshots")
    for table in ("contexts", "events"):
        connection.execute(f"update {table} set position = -position - 1")
        connection.execute(f"update {table} set position = -position")


def forget_ids(connection: sqlite3.Connection) -> None:
    """As a restore would without the index that makes repeats harmless."""
    connection.execute("drop index once")


WRONG = [
    (renumber, "answered otherwise than before"),
    (forget_ids, "what is new is not what was lost"),
]


@pytest.mark.parametrize(("breaking", "why"), WRONG)
def test_the_check_has_teeth(backed: Backed, breaking: Breaking, why: str) -> None:
    restored = backed.restored(breaking)
    with here(backed.path) as served, pytest.raises(AssertionError, match=why):
        check_repeats(backed, restored, served.ask)
