"""Idle experiments cost nothing: nothing of them wakes until a window closes or
somebody calls."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.experiment import experiment
from oddsmith.server.experiment.clock import Alarms
from oddsmith.server.experiment.follower import Follower
from oddsmith.server.experiment.windows import Windows
from oddsmith.server.store.sqlite.open_stores import OpenStores
from oddsmith.server.store.sqlite.reader import SQLiteReader
from oddsmith.server.store.sqlite.rest import RestingStore
from server.served import Hands, Here, here, place, place_for_anything, wait
from server.store.samples import bits
from server.store.test_rest import held

MANY = 8


def service_of(number: int) -> str:
    """Every third experiment has windows, which the clock of a test closes, and every
    fourth erases."""
    return "window_s = 0.5\n" * (number % 3 == 0) + "erase_after_days = 1\n" * (
        number % 4 == 0
    )


@contextmanager
def many(folder: Path, hands: Hands) -> Iterator[Here]:
    files = [
        place(folder, f"e{number}", service=service_of(number))
        for number in range(MANY)
    ]
    with here(*files, clock=hands.clock()) as served:
        for number in range(0, MANY, 2):
            served.decide(f"d{number}", experiment=f"e{number}")
        yield served


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What is read of stores, from now on."""
    seen, read = list[str](), SQLiteReader._fetch

    def noted(self: SQLiteReader, query: str, *values: object, **more: Any) -> Any:
        seen.append(f"{self.path.name}: {query}")
        return read(self, query, *values, **more)

    monkeypatch.setattr(SQLiteReader, "_fetch", noted)
    return seen


def settle(served: Here) -> None:
    """Until all that was written has been looked at."""
    for name, one in served.service.experiments.items():
        head = one.store.head()
        wait(
            lambda name=name, head=head: (
                served.experiment(name).follower.now.position == head
            )
        )
    # windows look once more, a tenth of a second after something was written
    time.sleep(0.3)


def reads_while_idle(folder: Path, reads: list[str]) -> list[str]:
    with many(folder, Hands()) as served:
        settle(served)
        reads.clear()
        time.sleep(0.5)
        return list(reads)


def test_nothing_is_read_while_nothing_happens(
    tmp_path: Path, reads: list[str]
) -> None:
    assert reads_while_idle(tmp_path, reads) == []


def test_a_follower_that_polls_is_found(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Follower.run
    monkeypatch.setattr(Follower, "run", lambda self, _: run(self, 0.25))
    assert reads_while_idle(tmp_path, reads)


def test_windows_that_look_all_the_time_are_found(
    tmp_path: Path, reads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Windows.run
    monkeypatch.setattr(Windows, "run", lambda self, _: run(self, None))
    assert reads_while_idle(tmp_path, reads)


def check_rest(
    folder: Path,
    count: int,
    monkeypatch: pytest.MonkeyPatch,
    reads: list[str],
    seconds: float = 30.0,
) -> None:
    """Many experiments give back what they hold; all that they promise holds all the
    same."""
    monkeypatch.setattr(experiment, "_ERASE_EVERY", 1.0)
    hands, stores = Hands(), OpenStores(most=8, idle_s=0.2)
    names = [f"e{number}" for number in range(count)]
    files = [
        place(folder, name, service=service_of(number))
        for number, name in enumerate(names)
    ]
    with here(*files, clock=hands.clock(), stores=stores) as served:
        for name in names:
            served.decide("first", experiment=name)
        wait(lambda: stores.count == 0, seconds)
        reads.clear()
        assert served.get("/readyz")["ok"]
        assert (reads, held(folder), writers(names)) == ([], [], [])
        for name in names:
            served.decide("second", experiment=name)
            assert served.get(f"/v1/decisions/first?experiment={name}")["arm"]
        assert stores.count <= 8
        hands.pass_by(2 * 24 * 3600)
        for number, name in enumerate(names):
            wait(
                lambda name=name, number=number: is_done(
                    folder / f"{name}.sqlite", number
                ),
                seconds,
            )
        wait(lambda: stores.count == 0, seconds)


def writers(names: list[str]) -> list[str]:
    """The threads that write these experiments' stores."""
    threads = {f"writer of {name}.sqlite" for name in names}
    return [thread.name for thread in threading.enumerate() if thread.name in threads]


def is_done(path: Path, number: int) -> bool:
    """Whether windows are closed and contexts erased, where they should be."""
    with closing(sqlite3.connect(path)) as file:
        (defaults,) = file.execute(
            "select count(*) from events where kind = 'default'"
        ).fetchone()
        (contexts,) = file.execute("select count(*) from contexts").fetchone()
    return bool(defaults == 2 * (number % 3 == 0) and contexts == 2 * (number % 4 != 0))


def test_sixty_experiments_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, reads: list[str]
) -> None:
    check_rest(tmp_path, 60, monkeypatch, reads)


def never(_: RestingStore) -> bool:
    return False


def always(_: RestingStore, before: float) -> int:
    return 0


@pytest.mark.parametrize(("name", "broken"), [("rest", never), ("erase", always)])
def test_stores_that_never_rest_or_never_erase_are_found(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reads: list[str],
    name: str,
    broken: Any,
) -> None:
    monkeypatch.setattr(RestingStore, name, broken)
    with pytest.raises(AssertionError):
        check_rest(tmp_path, 5, monkeypatch, reads, seconds=1.0)


def test_threads_of_experts_end_and_start_again(tmp_path: Path) -> None:
    def threads() -> int:
        return sum(
            thread.name.startswith("experts of news")
            for thread in threading.enumerate()
        )

    hands, before = Hands(), threads()
    with here(place_for_anything(tmp_path), clock=hands.clock()) as served:
        for turn in range(2):
            served.decide(f"a{turn}")
            assert threads() > before
            hands.pass_by(6)
            served.decide(f"b{turn}")
            hands.pass_by(6)
            # it has looked, and waits on
            wait(lambda: served.experiment()._alarms._alarms[0][0] > hands.wall)
            assert threads() > before
            hands.pass_by(6)
            wait(lambda: threads() == before)


def test_windows_close_after_any_idleness(tmp_path: Path) -> None:
    hands = Hands()
    with many(tmp_path, hands) as served:
        settle(served)
        hands.pass_by(1)
        for name in ("e0", "e6"):
            wait(
                lambda name=name: (
                    served.get(f"/v1/stats?experiment={name}")["events"].get("default")
                    == 1
                )
            )
        served.decide("late", experiment="e3")  # had none before
        settle(served)
        hands.pass_by(1)
        wait(
            lambda: served.get("/v1/stats?experiment=e3")["events"].get("default") == 1
        )


def test_open_windows_behind_a_thousand_closed_ones_close(tmp_path: Path) -> None:
    hands = Hands()
    file = place(tmp_path, service="window_s = 0.5\n")
    with here(file, clock=hands.clock()) as served:
        ids = [f"d{number}" for number in range(1000)]
        served.post(
            "reward/batch", {"rewards": [{"id": id, "reward": 1} for id in ids]}
        )
        served.post(
            "decide/batch",
            {"decisions": [{"id": id, "context": [0.1, 0.2]} for id in ids]},
        )
        served.decide("open")
        settle(served)
        hands.pass_by(1)
        wait(lambda: served.get("/v1/stats")["events"].get("default") == 1)


def test_an_early_reward_counts_although_only_a_decision_follows(
    tmp_path: Path,
) -> None:
    with here(place(tmp_path)) as served:
        served.reward("early", 1.0)
        served.state()
        served.decide("early")
        wait(lambda: served.get("/v1/posterior")["learnt"] == 1)
        assert bits(served.state()) == bits(served.defined())


def test_alarms_ring_in_order_and_when_the_clock_says_so() -> None:
    async def ring() -> list[str]:
        hands, rung = Hands(), list[str]()
        alarms = Alarms(hands.clock())
        alarms.set(hands.wall + 5000, lambda: rung.append("last"))
        alarms.set(hands.wall + 1000, lambda: rung.append("b"))
        alarms.set(hands.wall + 500, lambda: rung.append("a"))
        await asyncio.sleep(0.01)
        assert rung == []
        hands.pass_by(1000)
        while len(rung) < 2:
            await asyncio.sleep(0.01)
        alarms.set(hands.wall, lambda: rung.append("at once"))
        while len(rung) < 3:
            await asyncio.sleep(0.01)
        return rung

    assert asyncio.run(asyncio.wait_for(ring(), 30)) == ["a", "b", "at once"]
