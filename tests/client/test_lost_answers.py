"""A client behind a network that loses requests and answers: every event is in the log
exactly once."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import oddsmith as od
from client.serving import FlakyProxy, events, policy_file, service

CALLS = 36


@pytest.fixture
def flaky(tmp_path: Path) -> Iterator[FlakyProxy]:
    with (
        service(policy_file(tmp_path, "news")) as url,
        FlakyProxy(url, seed=3).running() as proxy,
    ):
        yield proxy


def check_once(store: Path, proxy: FlakyProxy, ids: list[str]) -> None:
    """All decisions and rewards are there, in any order, none twice; and the network
    did fail in every way."""
    assert min(proxy.done.values()) > 0
    assert len(set(ids)) == CALLS
    assert (
        sorted(events(store, "decision"))
        == sorted(events(store, "reward"))
        == sorted(ids)
    )


def patient(url: str) -> od.Client:
    return od.Client(url, timeout=60, retries=40)


def test_threads_share_a_client_and_every_event_is_kept_once(
    flaky: FlakyProxy, tmp_path: Path
) -> None:
    def one(number: int) -> str:
        decided = client.decide([0.1 * number, 1.0])
        kept = client.reward(decided.id, number % 2)
        assert (kept.position or 0) > (decided.position or 0)
        return decided.id

    with patient(flaky.url) as client, ThreadPoolExecutor(10) as threads:
        ids = list(threads.map(one, range(CALLS)))
    check_once(tmp_path / "news.sqlite", flaky, ids)


def test_tasks_share_an_async_client_and_every_event_is_kept_once(
    flaky: FlakyProxy, tmp_path: Path
) -> None:
    async def all_of_them() -> list[str]:
        async with od.AsyncClient(flaky.url, timeout=60, retries=40) as client:

            async def one(number: int) -> str:
                decided = await client.decide([0.1 * number, 1.0])
                await client.reward(decided.id, number % 2)
                return decided.id

            return await asyncio.gather(*map(one, range(CALLS)))

    check_once(tmp_path / "news.sqlite", flaky, asyncio.run(all_of_them()))


def test_batches_corrections_and_changes_of_experts_are_kept_once(
    flaky: FlakyProxy, tmp_path: Path
) -> None:
    with patient(flaky.url) as client:
        ids = []
        for _ in range(6):
            decided = client.decide_batch(
                [{"context": [0.5, 1.0]} for _ in range(CALLS // 6)]
            )
            ids += [
                one.id for one in decided if isinstance(one, od.client.ServedDecision)
            ]
            client.reward_batch([{"id": id, "reward": 1} for id in ids[-CALLS // 6 :]])
        for id in ids[:20]:
            client.correct(id, 0)
        client.add_expert("late", share=0.2)
        client.retire_expert("a")
        assert client.posterior().retired == ["a"]
    check_once(tmp_path / "news.sqlite", flaky, ids)
    assert events(tmp_path / "news.sqlite", "correction") == ids[:20]
    assert events(tmp_path / "news.sqlite", "expert added") == ["late"]


def test_teeth_a_client_that_leaves_ids_to_the_service_decides_twice(
    flaky: FlakyProxy, tmp_path: Path
) -> None:
    heard: list[str] = []
    with httpx.Client(base_url=flaky.url) as naive:
        while len(heard) < CALLS:
            try:
                answer = naive.post("/v1/decide", json={"context": [0.1, 1.0]})
                heard += [answer.json()["id"]] if answer.status_code == 200 else []
            except httpx.RequestError:
                continue
    made = events(tmp_path / "news.sqlite", "decision")
    assert set(heard) < set(made)
    assert len(made) - len(heard) == flaky.done["after"] + flaky.done["half"] > 0
