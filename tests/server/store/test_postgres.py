"""What is special about a server that several processes share: its order, its locks,
and its troubles."""

import re
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.audit import doctor, verify
from oddsmith.server.fold.fold import restore, save_snapshot
from oddsmith.server.store import (
    DecisionMade,
    PostgresReader,
    PostgresStore,
    Reward,
    Snapshot,
)
from oddsmith.server.store.postgres.link import Link
from server.store.postgres_server import Server
from server.store.samples import append, bits, made, policy


@contextmanager
def another(server: Server, database: str = "postgres") -> Iterator[Any]:
    """A function that runs a statement on a connection of another program."""
    link = Link(server.url(database), "another")
    connection = link.run(link.connect())
    yield lambda statement, *values: link.run(connection.fetch(statement, *values))
    link.run(connection.close(timeout=2.0))
    link.close()


@pytest.fixture
def store(server: Server, experiment: str) -> Iterator[PostgresStore]:
    with PostgresStore(server.url(), policy(), experiment=experiment) as opened:
        yield opened


ROW = (
    "pg_current_xact_id()::text::bigint << 20, 'reward', $2::text, '', 1.0, 0.0, "
    "false, null"
)


def test_commands_count_events_and_name_the_replicas(
    server: Server, experiment: str
) -> None:
    """Positions of a database are far apart, and the lock is no file."""
    about: dict[str, Any] = {"experiment": experiment, "kernels": "numpy"}

    def replica() -> PostgresStore:
        return PostgresStore(server.url(), policy(), experiment=experiment, about=about)

    def lock() -> str:
        found = doctor([server.url()], experiment=experiment)
        return next(one.what for one in found if one.check == "lock")

    with replica() as first, replica() as second:
        append(first, made("a"), Reward("a", 1.0, 0.0))
        append(second, made("b"))
        assert first.head() > 3
        verdict = verify(first)
        assert (verdict.events, verdict.decisions) == (3, 2)
        assert re.fullmatch(r"process \d+ and process \d+ write to it", lock())
    assert lock() == "no process writes to it"


def test_readers_wait_for_every_older_transaction(
    server: Server, store: PostgresStore
) -> None:
    """The row of a slow transaction comes after faster ones, and stands before them:
    nobody may have gone past it."""
    with another(server) as run:
        (first,) = append(store, made("first"))
        run("begin")
        run(f"insert into events select $1::integer, {ROW}", store._number, "slow")
        # answered at once
        late, later = append(store, made("late"), Reward("late", 1.0, 0.0))
        assert store.head() == first
        # also for those who ask beyond the head
        assert list(store.lines(first, later)) == []
        assert [line.position for line in store.history(["late"], later)] == [
            late,
            later,
        ]
        run("commit")
    assert store.head() == later
    assert [line.id for line in store.lines(first, later)] == ["slow", "late", "late"]


def test_a_decision_stands_after_the_state_it_was_made_with(
    server: Server, store: PostgresStore
) -> None:
    with another(server) as run:
        run("begin")
        run("select pg_current_xact_id()")
        (old,) = append(store, made("a"))
        seen = store.head()
        (new,) = append(store, made("b", seen=seen))
        run("rollback")
    assert seen < old < new


def test_two_replicas_keep_an_event_once(
    server: Server, store: PostgresStore, experiment: str
) -> None:
    with PostgresStore(server.url(), policy(), experiment=experiment) as other:
        events = [made(f"d{i}") for i in range(200)]
        futures = [s.append([e]) for e in events for s in (store, other)]
        futures += [other.append(events[::-1]), store.append(events)]
        receipts = [
            receipt for future in futures for receipt in future.result(timeout=60)
        ]
        assert sum(receipt.new for receipt in receipts) == 200
        assert len({receipt.accepted() for receipt in receipts}) == 200
        clash = [
            s.append([Reward("d1", v, 0.0)]) for s, v in ((store, 0.0), (other, 1.0))
        ]
        refused = [future.result(timeout=60)[0].refused for future in clash]
        assert [isinstance(one, od.Conflict) for one in refused] in (
            [True, False],
            [False, True],
        )
        assert None in refused


def test_a_group_that_a_deadlock_broke_up_is_written_again(
    server: Server, experiment: str
) -> None:
    server.sql("alter role postgres set deadlock_timeout = '50ms'")
    with (
        PostgresStore(server.url(), policy(), experiment=experiment) as store,
        another(server) as run,
    ):
        run("set deadlock_timeout = '60s'")  # so that it is the store that is broken up
        run("begin")
        run(f"insert into events select $1::integer, {ROW}", store._number, "b")
        future = store.append([Reward("a", 1.0, 0.0), Reward("b", 1.0, 0.0)])
        while not run("select 1 from pg_stat_activity where wait_event_type = 'Lock'"):
            pass  # the store has written a, and waits for b
        # waits for the store: a deadlock
        run(f"insert into events select $1::integer, 1 + {ROW}", store._number, "a")
        run("commit")
        receipts = future.result(timeout=60)
        assert [receipt.new for receipt in receipts] == [False, False]
        assert "deadlock detected" in (server.folder / "log").read_text()
    server.sql("alter role postgres reset deadlock_timeout")


def test_what_queues_while_a_group_is_written_is_the_next_group(
    server: Server, store: PostgresStore
) -> None:
    with another(server) as run:
        run("begin")
        run("lock table events in exclusive mode")
        futures = [store.append([made(f"d{i}")]) for i in range(50)]
        assert not any(future.done() for future in futures)
        run("commit")
        positions = [future.result(timeout=60)[0].accepted() for future in futures]
    assert all(one < other for one, other in pairwise(positions))
    # what the writer had taken when it began to wait, and all the rest
    assert store.commits <= 2


def test_more_than_a_statement_holds(store: PostgresStore) -> None:
    event = made("a")
    positions = append(
        store, *(DecisionMade(f"d{i}", event.decision, 0, 0.0) for i in range(4100))
    )
    assert store.commits == 3
    assert all(one < other for one, other in pairwise(positions))
    assert [line.position for line in store.lines(0, store.head())] == positions
    assert len(store.history([f"d{i}" for i in range(4100)], store.head())) == 4100
    assert store.erase(before=1.0) == 4100
    assert append(store) == []


def test_commits_are_synchronous_whatever_the_server_prefers(
    server: Server, experiment: str
) -> None:
    server.sql(
        "create database hasty", "alter database hasty set synchronous_commit = off"
    )
    with PostgresStore(server.url("hasty"), policy(), experiment=experiment) as store:
        assert store._connection is not None
        assert (
            store._link.run(store._connection.fetchval("show synchronous_commit"))
            == "on"
        )


def test_experiments_share_a_database(
    server: Server, store: PostgresStore, experiment: str
) -> None:
    append(store, made("a", time=1.0), Reward("a", 1.0, 0.0))
    with PostgresStore(
        server.url(), policy(gamma=0.3), experiment=experiment + "-b", rule="sum"
    ) as other:
        append(other, made("a", seed=5, time=1.0), Reward("a", 0.5, 0.0, "part"))
        assert other.rule == "sum"
        assert [line.value for line in other.lines(0, other.head())] == [None, 0.5]
        assert other.erase(before=2.0) == 1
    (kept,) = store.decisions(
        [
            line.position
            for line in store.lines(0, store.head())
            if line.kind == "decision"
        ]
    )
    assert kept == made("a").decision  # still with its context


def test_reading_needs_no_policy(server: Server, experiment: str) -> None:
    with pytest.raises(
        od.InvalidInput,
        match=f"experiment must be one of the database, .*; got '{experiment}'",
    ):
        PostgresReader(server.url(), experiment=experiment)
    with PostgresStore(
        server.url(), policy(), experiment=experiment, rule="sum", about={"seed": 7}
    ) as store:
        positions = append(store, made("a"))
        with PostgresReader(server.url(), experiment=experiment) as reader:
            assert (reader.rule, reader.about) == ("sum", {"seed": 7})
            assert reader.head() == positions[0]
            assert reader.decisions(positions) == [made("a").decision]
    server.sql("create database bare")
    with pytest.raises(od.BadFile, match="must be a store; the database has none"):
        PostgresReader(server.url("bare"), experiment=experiment)


def test_another_replicas_snapshot_is_not_thinned_out(store: PostgresStore) -> None:
    (position,) = append(store, made("a"))
    kept = [Snapshot(position - back, "f", "g", 0.0) for back in (9, 8, 7, 0)]
    for snapshot in kept:
        store.keep(snapshot, b"content")
    store.keep(Snapshot(position, "h", "g", 1.0), b"other")  # the same position again
    assert store.snapshots() == [kept[0], kept[2], Snapshot(position, "h", "g", 1.0)]
    assert store.content(position) == b"other"


def test_a_snapshot_that_another_replica_has_thinned_out(
    server: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = policy()
    for i in range(3):
        append(store, made(f"d{i}"), Reward(f"d{i}", 1.0, 0.0))
        save_snapshot(store, restore(store, judge), 0.0)
    whole, listed = restore(store, judge), store.snapshots()
    server.sql(f"delete from oddsmith.snapshots where position = {listed[-1].position}")
    monkeypatch.setattr(store, "snapshots", lambda: listed)  # what was read just before
    assert bits(restore(store, judge).state) == bits(whole.state)


def test_closing_writes_what_is_queued(server: Server, experiment: str) -> None:
    store = PostgresStore(server.url(), policy(), experiment=experiment)
    futures: list[Future[Any]] = [store.append([made(f"d{i}")]) for i in range(40)]
    store.close()
    store.close()
    assert all(future.done() and future.exception() is None for future in futures)
    with pytest.raises(
        od.errors.StoreFailed, match="accepts no more events: it is closed"
    ):
        store.append([made("late")])
    with pytest.raises(od.errors.StoreFailed, match="cannot be used: it is closed"):
        store.head()


def test_closing_leaves_nobody_waiting(server: Server, experiment: str) -> None:
    store = PostgresStore(server.url(), policy(), experiment=experiment)
    append(store, made("a"))
    with another(server) as run, ThreadPoolExecutor() as threads:
        run("begin")
        run("lock table events in access exclusive mode")
        reading = threads.submit(lambda: list(store.lines(0, 2**62)))
        while not run("select 1 from pg_stat_activity where wait_event_type = 'Lock'"):
            pass
        store.close()
        with pytest.raises(od.errors.StoreFailed):
            reading.result(timeout=60)
        run("rollback")


def test_names_and_addresses(server: Server) -> None:
    judge = policy()
    for name in ("", "Front", "a b", "a;drop", "x" * 65, "a\n"):
        with pytest.raises(od.InvalidInput, match="experiment must match"):
            PostgresStore(server.url(), judge, experiment=name)
    with pytest.raises(
        od.InvalidInput, match="url must begin with postgresql://; got 'mysql'"
    ):
        PostgresStore("mysql://localhost/x", judge, experiment="a")
    for url in (
        "postgresql://me:sec/ret@host/x",
        "postgresql://[::1/x",
        "postgresql://127.0.0.1:99999/x",
    ):
        with pytest.raises(
            od.InvalidInput,
            match=r"url must be an address like .*; this one cannot be read",
        ):
            PostgresStore(url, judge, experiment="a")
        with pytest.raises(
            od.InvalidInput,
            match=r"url must be an address like .*; this one cannot be read",
        ):
            PostgresReader(url, experiment="a")
    with pytest.raises(od.InvalidInput, match="rule must be"):
        PostgresStore(server.url(), judge, experiment="a", rule="last")  # type: ignore[arg-type]
    with pytest.raises(od.errors.StoreFailed, match="cannot be opened") as refused:
        PostgresStore("postgresql://me:secret@127.0.0.1:1/x", judge, experiment="a")
    assert "secret" not in str(refused.value)
    with pytest.raises(
        od.errors.StoreFailed, match='database "nowhere" does not exist'
    ):
        PostgresStore(server.url("nowhere"), judge, experiment="a")


def test_servers_that_would_lose_or_garble_events(server: Server) -> None:
    server.sql("create database latin encoding latin1 locale 'C' template template0")
    with pytest.raises(od.BadFile, match="server_encoding = UTF8; got LATIN1"):
        PostgresStore(server.url("latin"), policy(), experiment="a")
    server.sql("alter system set fsync = off", "select pg_reload_conf()")
    try:
        while server.sql("show fsync")[0][0] == "on":
            pass
        with pytest.raises(od.BadFile, match="fsync = on; got off"):
            PostgresStore(server.url(), policy(), experiment="a")
    finally:
        server.sql("alter system reset fsync", "select pg_reload_conf()")
        while server.sql("show fsync")[0][0] == "off":
            pass


def test_events_from_a_server_that_was_further_on(
    server: Server, experiment: str
) -> None:
    """A dump, restored where fewer transactions have run."""
    with PostgresStore(server.url(), policy(), experiment=experiment) as store:
        append(store, made("a"))
        number = store._number
    server.sql(
        "update oddsmith.events set position = position + (1000000 << 20) where "
        f"experiment = {number}"
    )
    with pytest.raises(od.BadFile, match="the store was copied from another server"):
        PostgresStore(server.url(), policy(), experiment=experiment)
    with PostgresReader(server.url(), experiment=experiment) as reader:
        assert reader.rule == "first"


ENDED = (
    "select pg_terminate_backend(pid, 5000) from pg_stat_activity where "
    "application_name = 'oddsmith'"
)


def test_a_connection_that_was_ended_is_made_again(
    server: Server, store: PostgresStore
) -> None:
    append(store, made("a"))
    server.sql(ENDED)
    failures = [store.append([made(f"b{i}")]).exception(timeout=60) for i in range(3)]
    assert all(
        isinstance(failure, od.errors.StoreFailed | None) for failure in failures
    )
    assert failures[-1] is None  # at most the first one or two were not answered
    assert {line.id for line in store.lines(0, store.head())} >= {"a", "b2"}


def test_a_server_that_forgot_what_was_answered(
    server: Server, store: PostgresStore
) -> None:
    """Another server in its place, restored from an older copy."""
    append(store, made("a"))
    append(store, made("b"))
    server.sql("delete from oddsmith.events where id = 'b'", ENDED)
    failures = [str(store.append([made("c")]).exception(timeout=60)) for _ in range(3)]
    assert "None" not in failures
    assert "has lost events that were confirmed" in "".join(failures)
