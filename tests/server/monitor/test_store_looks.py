"""Whether stores answer is known while other reads of them are queued."""

import asyncio
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from oddsmith.core.errors import StoreFailed
from oddsmith.server.monitor import store_looks
from oddsmith.server.monitor.store_looks import StoreLooks


def experiment(
    name: str, head: Callable[[], int] = lambda: 0, write_trouble: str = ""
) -> Any:
    store = SimpleNamespace(head=head, write_trouble=write_trouble)
    return SimpleNamespace(name=name, store=store, follower=SimpleNamespace(trouble=""))


def fails() -> int:
    raise StoreFailed("its disk is gone")


async def troubles(experiments: Sequence[Any], times: int = 1) -> dict[str, str]:
    """What is found the last time."""
    looks = StoreLooks()
    found: dict[str, str] = {}
    try:
        for _ in range(times):
            found = await looks.troubles(experiments)
    finally:
        looks.close()
    return found


def test_a_queue_of_other_reads_is_passed_by() -> None:
    """As bulk flags make one, in the threads of `asyncio.to_thread`."""
    done = threading.Event()

    async def ask() -> None:
        reads = [asyncio.create_task(asyncio.to_thread(done.wait)) for _ in range(99)]
        await asyncio.sleep(0)
        try:
            assert await troubles([experiment(str(n)) for n in range(20)]) == {}
        finally:
            done.set()
            await asyncio.gather(*reads)

    asyncio.run(ask())


def test_a_store_that_hangs_takes_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_looks, "_PATIENCE", 0.2)
    done = threading.Event()
    asked = 0

    def hang() -> int:
        nonlocal asked
        asked += 1
        done.wait()
        return 0

    try:
        found = asyncio.run(
            troubles([experiment("hangs", hang), experiment("answers")], times=12)
        )
    finally:
        done.set()
    assert list(found) == ["hangs"]
    assert found["hangs"].startswith("its store does not answer")
    assert asked == 1


def test_troubles_are_told_apart() -> None:
    starting = experiment("starting")
    starting.follower.trouble = "it is starting"
    full = experiment("full", write_trouble="the disk is full")
    gone = experiment("gone", fails)
    assert asyncio.run(troubles([experiment("fine"), starting, full, gone])) == {
        "starting": "it is starting",
        "full": "its store cannot be written: the disk is full",
        "gone": "its store does not answer: its disk is gone",
    }
