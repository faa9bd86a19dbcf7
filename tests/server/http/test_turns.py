"""Long requests leave the event loop to others."""

import asyncio
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.errors import InvalidInput
from oddsmith.server.experiment import follower, writer
from oddsmith.server.experiment.writer import Writer
from oddsmith.server.fold.protocol import Step
from oddsmith.server.http.routes.turns import Turns
from oddsmith.server.store.events import DecisionMade, Event, Reward
from oddsmith.server.store.protocol import Draw, Receipt
from server.served import here


@pytest.mark.parametrize(("now", "turns"), [(0.004, 0), (0.005, 1), (9.0, 1)])
def test_a_turn_ends_after_a_time(
    monkeypatch: pytest.MonkeyPatch, now: float, turns: int
) -> None:
    times = iter([0.0, now, now, now])
    monkeypatch.setattr(
        "oddsmith.server.http.routes.turns.time.perf_counter", lambda: next(times)
    )
    others = 0

    async def other() -> None:
        nonlocal others
        others += 1

    async def work() -> None:
        task = asyncio.create_task(other())
        turn = Turns()
        await turn.give()
        assert others == turns
        await turn.give()  # the next turn has begun
        await task

    asyncio.run(work())


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("decide/batch", {"decisions": [{"context": [1.0]}] * 5}),
        ("decide", {"context": [1.0], "slots": 5}),
    ],
)
def test_each_entry_may_end_a_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, body: dict[str, Any]
) -> None:
    given = 0
    give = Turns.give

    async def count(turns: Turns) -> None:
        nonlocal given
        given += 1
        await give(turns)

    monkeypatch.setattr(Turns, "give", count)
    file = tmp_path / "news.toml"
    file.write_text('name = "news"\npolicy.kind = "auto"\n')
    with here(file) as served:
        served.post(path, body | {"arms": ["a", "b", "c", "d", "e"]})
    assert given == 5


class Store:
    """Notes which thread appended how many events."""

    def __init__(self) -> None:
        self.appended: list[tuple[bool, int]] = []
        self.loop_thread = threading.current_thread()

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        is_inline = threading.current_thread() is self.loop_thread
        self.appended.append((is_inline, len(events)))
        if any(getattr(event, "id", "") == "wrong" for event in events):
            raise InvalidInput("id must be another one")
        future: Future[tuple[Receipt, ...]] = Future()
        future.set_result(tuple(Receipt(1, True, None) for _ in events))
        return future


def decision(id: str, features: bool) -> DecisionMade:
    """A decision between ten arms."""
    arms = {f"arm {number}": {"x": number} for number in range(10)}
    made = od.Agent(od.auto(), seed=7).decide(
        [1.0], arms=arms if features else list(arms)
    )
    return DecisionMade(id, made, 0, 0.0)


@pytest.mark.parametrize(
    ("decisions", "features", "is_inline"),
    [(2, False, True), (3, False, False), (1, True, False), (0, False, True)],
)
def test_what_takes_long_to_write_is_handed_over_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, decisions: int, features: bool, is_inline: bool
) -> None:
    monkeypatch.setattr(writer, "_INLINE_ARMS", 20)
    events: list[Event] = [decision(f"d{n}", features) for n in range(decisions)]

    async def write() -> None:
        store: Any = Store()
        appends = Writer(store, lambda: None)
        first = appends.append([*events, Reward("r", 1.0, 0.0)])
        await asyncio.sleep(0)
        second = appends.append([Reward("s", 1.0, 0.0)])  # waits for the first
        assert len(await first) == decisions + 1
        assert len(await second) == 1
        assert store.appended == [(is_inline, decisions + 1), (True, 1)]
        wrong = appends.append([*events, Reward("wrong", 1.0, 0.0)])
        with pytest.raises(InvalidInput, match="another one"):
            await wrong
        assert len(await appends.append([Reward("t", 1.0, 0.0)])) == 1

    asyncio.run(write())


def test_a_fold_is_cut_by_steps_and_arms(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(follower, "_SLICE", 4)
    monkeypatch.setattr(follower, "_SLICE_ARMS", 30)
    sizes = [10, 10, 10, 10, 40, 1, 0, 0, 0, 0, 0]
    item: Any = None
    drawn = [Draw("a", 0, np.ones(size)) if size else None for size in sizes]
    steps = [Step(item, None, one) for one in drawn]
    parts = list(follower._slices(steps))
    assert [len(part) for part in parts] == [3, 1, 1, 4, 2]
    assert [step for part in parts for step in part] == steps
    assert list(follower._slices([])) == []
