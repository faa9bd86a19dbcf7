"""Rows of features that are erased while decisions are read, and offered again while
they are erased."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import asyncpg

import oddsmith as od
from oddsmith.server.store import PostgresStore
from oddsmith.server.store.protocol import Erased
from oddsmith.server.store.reader import StoreReader
from server.store.postgres_server import Server
from server.store.samples import append, policy
from server.store.test_bodies import ROWS, offered
from server.store.test_contract import Open, opened

__all__ = ["opened"]


def test_erasing_between_two_statements_of_a_reader_is_no_failure(
    opened: Open, monkeypatch: Any
) -> None:
    store = opened()
    p = append(
        store, *(offered(f"d{i}", time=float(i), context={"hour": i}) for i in range(4))
    )
    read, seen = StoreReader._texts, list[int]()

    def erase_first(self: StoreReader, query: str, digests: set[str]) -> dict[str, str]:
        if not seen:
            seen.append(store.erase(before=2.0))
        return read(self, query, digests)

    monkeypatch.setattr(StoreReader, "_texts", erase_first)
    assert [decision.features for decision in store.decisions(p[2:])] == [ROWS, ROWS]
    seen.clear()
    append(
        store,
        offered(
            "old",
            time=0.0,
            features={name: {"x": 1} for name in ROWS},
            context={"hour": 9},
        ),
    )
    (old,) = store.decisions([store.head()])
    assert seen == [1]
    assert isinstance(old.features, Erased)
    assert isinstance(old.context, Erased)


def test_rows_that_another_replica_offers_while_they_are_erased_stay(
    server: Server, postgres: Callable[[od.Policy, Any, Any], PostgresStore]
) -> None:
    with postgres(policy(), "first", "arrives") as store:
        append(store, offered("d1", time=1.0))
        asyncio.run(erase_while_offered(store, server))
        rows = server.sql(
            f"select time from oddsmith.features where experiment = {store._number}"
        )
    assert [time for (time,) in rows] == [1000.0] * len(ROWS)


async def erase_while_offered(store: PostgresStore, server: Server) -> None:
    """Another replica has given the rows a later time, and commits it once the one that
    erases waits for it."""
    other = await asyncpg.connect(server.url())
    async with other.transaction():
        await other.execute(
            "update oddsmith.features set time = 1000 where experiment = $1",
            store._number,
        )
        eraser = threading.Thread(target=store.erase, args=(500.0,))
        eraser.start()
        async with asyncio.timeout(30):
            while not await other.fetchval(
                "select count(*) from pg_locks where not granted"
            ):
                await asyncio.sleep(0.01)
    await asyncio.to_thread(eraser.join)
    await other.close()
