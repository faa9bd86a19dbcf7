"""Reads that take long keep neither readiness nor deciding waiting, whatever there is
of them."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from oddsmith.server.experiment.threads import LongReads
from oddsmith.server.fold.fold import restore, restore_judge, save_snapshot
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.http.routes import decisions as records
from server.served import Here, here, place, wait

Asked = list["Future[httpx.Response]"]


@contextmanager
def stuck(served: Here, monkeypatch: Any, n: int) -> Iterator[Asked]:
    """n explanations under way, none of which comes to an end inside; two threads for
    all else."""
    released, begun = threading.Event(), threading.Semaphore(0)

    def blocked(*_: Any) -> None:
        begun.release()
        assert released.wait(60)

    monkeypatch.setattr(records, "restore_judge", blocked)
    served.decide("a")
    served.portal.call(
        lambda: asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    )
    ask = partial(served.client.request, "GET", "/v1/decisions/a?explain=true")
    try:
        asked = [served.portal.start_task_soon(ask) for _ in range(n)]
        for _ in range(2):
            assert begun.acquire(timeout=60)
        yield asked
    finally:
        released.set()


@pytest.mark.usefixtures("any_arms")
def test_readiness_and_decisions_do_not_wait(tmp_path: Path, monkeypatch: Any) -> None:
    with here(place(tmp_path)) as served:
        with stuck(served, monkeypatch, 8) as asked:
            served.get("/readyz", status=200)
            assert served.decide("b")["new"]
            assert not served.decide("a")["new"]  # which is read from the store
            assert not any(one.done() for one in asked)
        assert [one.result(60).status_code for one in asked] == [200] * 8


@pytest.mark.usefixtures("any_arms")
def test_more_than_wait_are_refused_and_told_to_come_back(
    tmp_path: Path, monkeypatch: Any
) -> None:
    with here(place(tmp_path)) as served:
        with stuck(served, monkeypatch, 13) as asked:
            wait(lambda: sum(one.done() for one in asked) == 3)
            refused = [one.result() for one in asked if one.done()]
            assert {
                (one.status_code, one.headers["retry-after"]) for one in refused
            } == {(503, "1")}
            assert refused[0].json()["code"] == "busy"
            assert (
                "at most 10 long reads may be under way" in refused[0].json()["error"]
            )
        assert (
            sorted(one.result(60).status_code for one in asked)
            == [200] * 10 + [503] * 3
        )
        assert served.ask("GET", "/v1/decisions/a?explain=true").status_code == 200


def test_threads_of_all_would_be_held_up(tmp_path: Path, monkeypatch: Any) -> None:
    """Without threads of their own, a decision that is read from the store waits: what
    the first test would find."""

    async def run(_: LongReads, read: Any) -> Any:
        return await asyncio.to_thread(read)

    monkeypatch.setattr(LongReads, "run", run)
    with here(place(tmp_path)) as served:
        with stuck(served, monkeypatch, 8):
            ask = partial(served.client.request, "GET", "/v1/decisions/a")
            reading = served.portal.start_task_soon(ask)
            for _ in range(20):
                served.get("/healthz", status=200)
            assert not reading.done()
        assert reading.result(60).status_code == 200


@pytest.mark.usefixtures("any_arms")
@pytest.mark.parametrize(
    "top", ["policy.share = 0.05\n", 'policy.kind = "auto"\npolicy.size = "small"\n']
)
def test_an_explanation_folds_the_weights_alone_and_the_same(
    tmp_path: Path, top: str
) -> None:
    """By the judge, from the nearest snapshot: the bits of the whole policy's fold,
    also where contexts are gone."""
    auto = "auto" in top
    with here(place(tmp_path, top=top, **({"experts": ""} if auto else {}))) as served:
        for i in range(40):
            served.decide(f"d{i}")
            served.reward(f"d{i}", float(i % 3 == 0))
        served.state()
        store: Any = served.experiment().store
        opened = served.experiment().setup
        whole = {
            until: restore(store, opened.policy, until=until, change=opened.change)
            for until in (20, 61, 80)
        }
        save_snapshot(store, whole[61], 0.0)
        store.erase(1e12)
        for until, folded in whole.items():
            plain = restore_judge(store, opened.policy, until)
            assert plain is not None
            assert gts_inside(plain.policy) is not None
            assert (
                plain.state.log_weights.tobytes() == folded.state.log_weights.tobytes()
            )
        answer = served.get("/v1/decisions/d39?explain=true")
        assert len(answer["experts"]) == len(gts_inside(opened.policy).experts.names)  # type: ignore[union-attr]
