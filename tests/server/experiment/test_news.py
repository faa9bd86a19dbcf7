"""Calls that wait for news: they end when there is some, at their time, with their
caller, and with the service."""

import asyncio
import os
import signal
import socket
import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.experiment.follower import PositionWaiters
from oddsmith.server.experiment.start import open_experiments
from oddsmith.server.experiment.threads import Busy, LongPolls
from oddsmith.server.http.app import make_app
from oddsmith.server.http.keys import create
from oddsmith.server.http.rates import Rate
from oddsmith.server.http.wire import server_config
from server.http.test_drain import ended
from server.live import listen, serving
from server.served import Here, here, place, process, wait

LONG = 25


def waiting(served: Here) -> int:
    return len(served.experiment().long_polls._limits)


def poll(
    served: Here, pool: ThreadPoolExecutor, after: int, wait_s: float = LONG
) -> "Future[Any]":
    """A call under way, which is waiting when this returns."""
    before = waiting(served)
    answer = pool.submit(served.get, f"/v1/changes?after={after}&wait={wait_s}")
    wait(lambda: waiting(served) == before + 1)
    return answer


def test_what_is_there_is_answered_at_once(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        assert served.get("/v1/changes?wait=0") == {
            "experiment": "news",
            "head": 0,
            "position": 0,
        }
        served.decide("d1")
        served.state()
        assert served.get("/v1/changes?after=0") == {
            "experiment": "news",
            "head": 1,
            "position": 1,
        }
        assert served.get("/v1/changes?after=1&wait=0.01") == {
            "experiment": "news",
            "head": 1,
            "position": 1,
        }
        for wrong in ("wait=26", "wait=-1", "wait=nan", "after=-1", "after=x"):
            assert served.ask("GET", f"/v1/changes?{wrong}").status_code == 422


def test_a_decision_wakes_all_that_wait(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served, ThreadPoolExecutor(5) as pool:
        calls = [poll(served, pool, 0) for _ in range(4)]
        later = poll(served, pool, 1)
        served.decide("d1")
        assert [call.result(20)["position"] for call in calls] == [1] * 4
        assert not later.done()
        served.reward("d1", 1)
        assert later.result(20)["position"] == 2
        wait(lambda: waiting(served) == 0)


def test_waiting_reads_nothing_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store is asked for its head once, when the call ends."""
    with here(place(tmp_path)) as served, ThreadPoolExecutor(1) as pool:
        served.decide("d1")
        served.state()
        served.get("/v1/stats")
        time.sleep(0.3)  # what was written is looked at once more
        reads: list[int] = []

        def noted(*_: object, **__: object) -> list[tuple[int]]:
            reads.append(1)
            return [(1,)]

        monkeypatch.setattr(type(served.experiment().store), "_fetch", noted)
        call = poll(served, pool, 1, 0.5)
        time.sleep(0.3)
        assert reads == []
        assert call.result(20)["head"] == 1
        assert len(reads) == 1
        assert not served.experiment().follower._waiters._waiting


def test_those_beyond_the_limit_are_refused(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served, ThreadPoolExecutor(2) as pool:
        served.experiment().long_polls._most = 2
        calls = [poll(served, pool, 0) for _ in range(2)]
        answer = served.ask("GET", "/v1/changes")
        assert (answer.status_code, answer.json()["code"]) == (503, "busy")
        assert answer.headers["retry-after"] == "1"
        # long reads have their own room
        assert served.get("/v1/stats")["position"] == 0
        served.decide("d1")
        assert [call.result(20)["position"] for call in calls] == [1, 1]
        assert served.get("/v1/changes?after=1&wait=0.01")["position"] == 1


def test_a_call_that_waits_is_one_call(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    header = {"Authorization": f"Bearer {create(keys, 'page', ['read'])}"}
    with (
        here(place(tmp_path), keys=keys, rate=Rate(0.01, 3)) as served,
        ThreadPoolExecutor(1) as pool,
    ):
        call = pool.submit(
            served.ask, "GET", f"/v1/changes?wait={LONG}", headers=header
        )
        wait(lambda: waiting(served) == 1)
        assert [
            served.ask("GET", "/v1/posterior", headers=header).status_code
            for _ in range(3)
        ] == [200, 200, 429]
        served.portal.call(served.app.drain)
        assert call.result(20).status_code == 200


def test_draining_ends_them_and_takes_no_more(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served, ThreadPoolExecutor(1) as pool:
        call = poll(served, pool, 0)
        served.app.drain()  # as from a signal, outside of the loop
        assert call.result(20) == {"experiment": "news", "head": 0, "position": 0}
        assert served.ask("GET", "/v1/changes").status_code == 503


def test_a_caller_who_goes_is_forgotten(tmp_path: Path) -> None:
    app = make_app(open_experiments([place(tmp_path)]))
    with serving(server_config(app, host="127.0.0.1", port=0)) as port:
        service: Any = app.app.service  # type: ignore[attr-defined]
        wait(lambda: not service.experiments["news"].follower.trouble)
        polls = service.experiments["news"].long_polls
        lines = [socket.create_connection(("127.0.0.1", port)) for _ in range(3)]
        for line in lines:
            line.sendall(b"GET /v1/changes?wait=25 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        wait(lambda: len(polls._limits) == 3)
        lines[0].close()
        wait(lambda: len(polls._limits) == 2)
        lines[1].close()
        wait(lambda: len(polls._limits) == 1)
        app.drain()
        assert listen(lines[2]).status == 200
        lines[2].close()


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_service_that_stops_does_not_wait_for_them(
    tmp_path: Path, sent: signal.Signals
) -> None:
    """Ten seconds are what others have that are under way."""
    with process(place(tmp_path)) as served:
        with socket.create_connection(("127.0.0.1", served.port), timeout=30) as line:
            line.sendall(b"GET /v1/changes?wait=25 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            time.sleep(0.5)
            os.kill(served.pid, sent)
            # 503 where a busy machine took so long to begin waiting
            assert listen(line).status in (200, 503)
        wait(lambda: ended(served), 9)


def test_positions_with_gaps_are_reached() -> None:
    async def run() -> list[str]:
        reached, said = PositionWaiters(), list[str]()

        async def wait_for(position: int) -> None:
            await reached.wait(position)
            said.append(str(position))

        tasks = [asyncio.create_task(wait_for(position)) for position in (5, 900, 7)]
        await asyncio.sleep(0)
        reached.reach(64)
        await asyncio.sleep(0.01)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert not reached._waiting
        return said

    assert asyncio.run(run()) == ["5", "7"]


def test_an_end_beside_an_ending_call_harms_nothing() -> None:
    async def run() -> None:
        polls = LongPolls()

        async def never() -> None:
            await asyncio.Event().wait()

        calls = [
            asyncio.create_task(polls.wait(never, seconds))
            for seconds in (0.0, 0.001, 60.0)
        ]
        await asyncio.sleep(0.001)
        polls.end()
        polls.end()
        await asyncio.wait_for(asyncio.gather(*calls), 20)
        with pytest.raises(Busy, match="stops"):
            await polls.wait(never, 1.0)

    asyncio.run(run())
