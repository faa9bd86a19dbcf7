"""Rows of features are written once in a while: no decision ever lacks them, after
erasing, failures and restarts."""

import random
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.store import DecisionMade, SQLiteStore
from oddsmith.server.store.contents import LEASE, Leases, feature_row
from oddsmith.server.store.protocol import Erased
from server.store.samples import append, policy
from server.store.test_bodies import ROWS, offered
from server.store.test_contract import Open, opened

__all__ = ["opened"]


def times(path: Path) -> list[float]:
    with closing(sqlite3.connect(path)) as file:
        return [
            at
            for (at,) in file.execute(
                "select distinct time from features order by time"
            )
        ]


@pytest.mark.parametrize("apart", [LEASE / 2, LEASE - 1, LEASE, 3 * LEASE])
def test_erasing_between_two_offers_of_the_same_rows_keeps_them(
    opened: Open, apart: float
) -> None:
    store = opened()
    p = append(store, offered("d1", time=100.0))
    p += append(store, offered("d2", time=100.0 + apart), offered("d3", time=90.0))
    assert store.erase(before=100.0 + apart / 2) == 2
    old, young, older = store.decisions(p)
    assert isinstance(old.features, Erased)
    assert isinstance(older.features, Erased)
    assert young.features == ROWS
    p += append(store, offered("d4", time=100.0 + apart + 1))
    assert store.decisions(p[3:])[0].features == ROWS
    assert store.erase(before=1e6) == 2
    append(store, offered("d5", time=101.0))  # a clock that went back
    assert store.decisions([store.head()])[0].features == ROWS


def test_rows_are_written_once_in_a_lease(tmp_path: Path) -> None:
    path = tmp_path / "events.sqlite"
    with SQLiteStore(path, policy()) as store:
        for at in (100.0, 130.0, 159.9, 90.0):
            append(store, offered(f"d{at}", time=at))
        assert times(path) == [100.0]
        append(store, offered("later", time=160.0))
        assert times(path) == [160.0]
    with SQLiteStore(path, policy()) as store:
        append(store, offered("after a restart", time=161.0))
        assert times(path) == [161.0]


def is_whole(store: SQLiteStore) -> bool:
    """Whether the last decision has its features."""
    try:
        return bool(store.decisions([store.head()])[0].features == ROWS)
    except KeyError:
        return False


def after_a_full_disk(store: SQLiteStore) -> None:
    writing = store._writing.connection
    pages = writing.execute("pragma page_count").fetchone()[0]
    writing.execute(f"pragma max_page_count = {pages + 2}")
    with pytest.raises(od.errors.StoreFailed):
        store.append([offered(f"x{i}") for i in range(100)]).result()
    writing.execute("pragma max_page_count = 100000")


def after_a_commit_that_failed(store: SQLiteStore) -> None:
    def refuse(action: int, what: str | None, *_: object) -> int:
        return sqlite3.SQLITE_DENY if what == "COMMIT" else sqlite3.SQLITE_OK

    connection = store._writing.connection
    connection.set_authorizer(refuse)
    with pytest.raises(od.errors.StoreFailed):
        append(store, offered("x"))
    with suppress(sqlite3.ProgrammingError):  # it may have taken another one already
        connection.set_authorizer(None)
    end = time.monotonic() + 30
    while store.write_trouble and time.monotonic() < end:  # it mends itself
        time.sleep(0.01)


def after_erasing(store: SQLiteStore) -> None:
    append(store, offered("x"))
    store.erase(before=1e6)


def without_leases_that_end(monkeypatch: Any) -> None:
    monkeypatch.setattr(Leases, "end", lambda *_: None)


def nothing(_: Any) -> None:
    pass


@pytest.mark.parametrize("broken", [nothing, without_leases_that_end])
@pytest.mark.parametrize(
    "when", [after_a_full_disk, after_a_commit_that_failed, after_erasing]
)
def test_what_was_undone_or_erased_is_written_again(
    tmp_path: Path,
    monkeypatch: Any,
    when: Callable[[SQLiteStore], None],
    broken: Callable[[Any], None],
) -> None:
    broken(monkeypatch)
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        when(store)
        append(store, offered("d"))
        assert is_whole(store) == (broken is nothing)


def test_erasing_that_does_not_look_at_leases_is_seen(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("oddsmith.server.store.sqlite.store.LEASE", 0.0)
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        append(store, offered("d1", time=100.0), offered("d2", time=130.0))
        store.erase(before=110.0)
        assert not is_whole(store)


def test_any_order_of_offers_and_erasing(tmp_path: Path) -> None:
    """150 offers of a few rows at any times, with erasing between: what is not erased
    is whole."""
    rng, kept = random.Random(4), dict[int, tuple[float, Any]]()
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        now = 1000.0
        for turn in range(150):
            now += rng.choice([0.0, 1.0, 20.0, 59.0, 60.0, 61.0, -30.0])
            rows = {
                name: rng.choice(
                    [{"x": 1}, {"x": 1.0}, {"x": True}, {"x": -0.0}, {"x": 0.0}]
                )
                for name in ROWS
            }
            (position,) = append(store, offered(f"d{turn}", time=now, features=rows))
            kept[position] = now, rows
            if rng.random() < 0.1:
                before = now - rng.choice([-10.0, 0.0, 5.0, 30.0, 60.0, 90.0])
                store.erase(before)
                kept = {place: one for place, one in kept.items() if one[0] >= before}
        for decision, (_, rows) in zip(
            store.decisions(list(kept)), kept.values(), strict=True
        ):
            assert repr(decision.features) == repr(rows)
        store.erase(before=now - 30.0)
        young = [rows for at, rows in kept.values() if at >= now - 30.0]
        needed = {feature_row(row).digest for rows in young for row in rows.values()}
        with closing(sqlite3.connect(tmp_path / "events.sqlite")) as file:
            assert {
                digest for (digest,) in file.execute("select digest from features")
            } == needed


def test_digests_tell_all_values_apart() -> None:
    rows: list[Any] = [
        1,
        1.0,
        True,
        None,
        "1",
        0.0,
        -0.0,
        float("nan"),
        float("inf"),
        2**70,
        "é",
        "",
    ]
    rows += [
        [1],
        [1.0],
        (1,),
        {"a": 1},
        {"a": 1.0},
        {"a": True},
        {1: 1},
        {"1": 1},
        {"a": [1]},
        {"a": None},
        {},
    ]
    rows += [{"a": 1, "b": 2}, {"b": 2, "a": 1}, [], ["a"]]
    found = [feature_row(row) for row in rows]
    assert len({row.digest for row in found}) == len(rows)
    assert [feature_row(row).digest for row in rows] == [row.digest for row in found]
    assert len({row.body for row in found}) == len(rows)


def test_a_row_that_is_changed_after_it_was_handed_over_is_kept_as_it_was(
    tmp_path: Path,
) -> None:
    rows: dict[str, Any] = {name: {"topic": "sport"} for name in ROWS}
    event: DecisionMade = offered("d", features=rows)
    with SQLiteStore(tmp_path / "events.sqlite", policy()) as store:
        with store._writing.lock:
            receipt = store.append([event])
            rows["b"]["topic"] = "opera"
        receipt.result()
        assert store.decisions([1])[0].features == {
            name: {"topic": "sport"} for name in ROWS
        }
