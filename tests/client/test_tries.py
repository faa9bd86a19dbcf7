"""When a call is tried again, how long it waits and when it gives up, with a clock that
only sleeping moves."""

import json
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pandas as pd
import pytest

import oddsmith as od
from oddsmith.client.answers import refusal
from oddsmith.client.calls import Calls, new_id
from oddsmith.client.tries import AGAIN, Patience, Reply, Request, Steps, Try, persist


class World:
    """A network that gives these replies in turn, each after `takes` seconds, the last
    one for ever."""

    def __init__(
        self, *replies: Reply, takes: float = 0.0, chance: float = 0.5
    ) -> None:
        self.replies, self.takes, self.now, self.chance = replies, takes, 0.0, chance
        self.tries: list[Try] = []

    def patience(self, timeout: float = 5.0, retries: int | None = None) -> Patience:
        return Patience(timeout, retries, lambda: self.now, lambda: self.chance)

    def run(self, steps: Steps[object]) -> object:
        try:
            attempt = next(steps)
            while True:
                self.tries.append(attempt)
                reply = self.replies[min(len(self.tries), len(self.replies)) - 1]
                self.now += attempt.pause + min(self.takes, attempt.timeout)
                attempt = steps.send(reply)
        except StopIteration as end:
            return end.value

    def call(self, timeout: float = 5.0, retries: int | None = None) -> object:
        return self.run(
            persist(
                Request("POST", "/v1/decide", b"{}"),
                lambda answer: answer,
                self.patience(timeout, retries),
            )
        )


GOOD = Reply(200, b'{"position": 3}')
LOST = Reply(0, b"nowhere, ConnectError")


@pytest.mark.parametrize("status", sorted(AGAIN))
def test_what_another_try_may_change_is_tried_again_with_the_same_bytes(
    status: int,
) -> None:
    world = World(Reply(status, b""), Reply(status, b""), GOOD)
    assert world.call() == {"position": 3}
    assert len({attempt.request for attempt in world.tries}) == 1
    assert len(world.tries) == 3


@pytest.mark.parametrize(
    "status", sorted({300, 307, 400, 401, 403, 404, 405, 409, 413, 422, 431, 500, 501})
)
def test_what_stays_refused_is_asked_once(status: int) -> None:
    world = World(Reply(status, b'{"error": "no", "code": "so"}'), GOOD)
    kind = {400: od.InvalidInput, 409: od.Conflict, 422: od.InvalidInput}.get(
        status, od.ServiceError
    )
    with pytest.raises(kind, match=r"^no$"):
        world.call()
    assert len(world.tries) == 1


def test_tries_and_time_are_bounded() -> None:
    for retries in (0, 1, 4, 30, None):
        for takes in (0.0, 0.3, 100.0):
            for timeout in (0.2, 5.0):
                world = World(LOST, takes=takes, chance=0.999)
                with pytest.raises(
                    od.ServiceError, match=r"no answer after \d+ tr(y|ies): nowhere"
                ):
                    world.call(timeout, retries)
                assert len(world.tries) <= (60 if retries is None else retries + 1)
                assert world.now <= timeout
                assert all(attempt.timeout > 0 for attempt in world.tries)


def test_where_nothing_listens_it_is_tried_until_the_timeout() -> None:
    """Connections that are refused at once used up a fixed number of tries within a
    second."""
    world = World(LOST)
    with pytest.raises(od.ServiceError, match="no answer after 17 tries"):
        world.call(timeout=20.0)
    assert 18.0 < world.now <= 20.0
    restart = World(*[LOST] * 7, GOOD)
    assert restart.call(timeout=20.0) == {"position": 3}
    assert restart.now > 3.0
    limited = World(LOST)
    with pytest.raises(od.ServiceError, match="no answer after 5 tries"):
        limited.call(timeout=20.0, retries=4)
    assert limited.now < 2.0


def test_no_answer_in_time_names_the_timeout() -> None:
    slow = World(Reply(0, b"http://127.0.0.1:9, ReadTimeout timed out"), takes=100.0)
    with pytest.raises(
        od.ServiceError,
        match=r"timed out; give a timeout above 3 s: the first try has half of the timeout",
    ):
        slow.call(timeout=3.0)


def test_a_try_that_hangs_leaves_time_for_others_and_the_last_has_all_of_it() -> None:
    world = World(LOST, LOST, GOOD, takes=100.0, chance=0.0)
    assert world.call(timeout=8.0, retries=2) == {"position": 3}
    first, second, last = world.tries
    assert first.timeout == 4.0
    assert second.timeout == pytest.approx((8 - 4 - second.pause) / 2)
    assert last.timeout == pytest.approx(
        8 - 4 - second.pause - second.timeout - last.pause
    )


def test_pauses_double_and_differ_between_clients() -> None:
    low, high = World(LOST, GOOD, chance=0.0), World(LOST, GOOD, chance=0.999)
    low.call()
    high.call()
    assert 0.05 == low.tries[1].pause < high.tries[1].pause < 0.1
    pauses = [
        Patience(60, 9, chance=lambda: 0.0).pause(tries) for tries in range(1, 10)
    ]
    assert pauses == [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0, 1.0]
    assert 0 <= Patience(1, 1).chance() < 1


def test_retry_after_is_waited_for_or_the_call_is_given_up_at_once() -> None:
    world = World(Reply(503, b"", "2"), GOOD)
    world.call()
    assert 2.05 <= world.tries[1].pause < 2.1
    hour = format_datetime(datetime.now(UTC) + timedelta(hours=1), usegmt=True)
    for far in ("3600", hour):
        world = World(Reply(503, b'{"error": "busy", "code": "busy"}', far), GOOD)
        with pytest.raises(od.ServiceError, match="busy"):
            world.call()
        assert world.now == 0


@pytest.mark.parametrize(
    "body", [b"<html>", b"[]", b'{"id": "a"}', b"null", b'{"results": 3}']
)
def test_an_answer_of_something_else_is_said_to_be_so(body: bytes) -> None:
    world = World(Reply(200, body))
    calls = Calls(None, world.patience())
    with pytest.raises(od.ServiceError, match="must come from an oddsmith service"):
        world.run(calls.reward("a", 1))


def test_what_stands_in_between_has_no_sentence() -> None:
    error = refusal(302, b"<html>moved</html>")
    assert isinstance(error, od.ServiceError)
    assert (str(error), error.status, error.code) == (
        "the service answered 302",
        302,
        "",
    )


def test_rows_of_data_frames_are_sent_as_dicts() -> None:
    row = pd.DataFrame({"age": [31], "city": ["Rome"]}).iloc[0]
    request = next(Calls("news", World().patience()).decide(row, id="a")).request
    sent = {"experiment": "news", "id": "a", "context": {"age": 31, "city": "Rome"}}
    assert json.loads(request.body or b"") == sent


def test_waiting_until_it_is_ready() -> None:
    busy = Reply(503, b'{"ok": false}')
    world = World(busy, LOST, busy, Reply(200, b'{"ok": true}'))
    assert world.run(Calls(None, world.patience()).ready(wait=1.0)) is True
    world = World(busy)
    assert world.run(Calls(None, world.patience()).ready(wait=1.0)) is False
    assert 0.9 <= world.now <= 1.0


def test_ids_are_new_and_sorted_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert [id[:11] for id in ids] == sorted(id[:11] for id in ids)


def test_a_call_with_a_fallback_gives_up_soon_where_nothing_listens() -> None:
    """Five tries at most and about a second, however long the call may take; a number
    that is given stays."""
    for retries, most in ((None, 5), (0, 1), (9, 10)):
        world = World(LOST)
        calls = Calls(None, world.patience(timeout=60.0, retries=retries))
        shown: Any = world.run(calls.decide({}, fallback="a"))
        assert shown.fallback
        assert len(world.tries) == most
        assert retries == 9 or world.now < 2
    world = World(LOST)
    with pytest.raises(od.ServiceError):
        world.run(Calls(None, world.patience(timeout=20.0)).decide({}))
    assert len(world.tries) > 10
