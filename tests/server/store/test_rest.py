"""Stores that rest: their files are given back, and what they promise holds all the
same."""

import os
import shutil
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.store import Reward, SQLiteStore
from oddsmith.server.store.sqlite.open_stores import OpenStores
from oddsmith.server.store.sqlite.rest import RestingStore
from server.store.samples import append, made, policy


class Steps:
    """A clock in the test's hands."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def opened(
    path: Path,
    stores: OpenStores | None = None,
    kind: type[RestingStore] = RestingStore,
) -> RestingStore:
    return kind(
        path,
        partial(SQLiteStore, path, policy()),
        stores or OpenStores(most=64, clock=Steps()),
    )


def held(folder: Path) -> list[str]:
    """The files in a folder that this process has open."""
    targets = list[str]()
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # closed since
            targets.append(os.readlink(f"/proc/self/fd/{name}"))
    return [target for target in targets if target.startswith(str(folder))]


def writers() -> int:
    return sum(thread.name.startswith("writer of") for thread in threading.enumerate())


def test_files_thread_and_lock_are_given_back_and_taken_again(tmp_path: Path) -> None:
    steps = Steps()
    stores = OpenStores(idle_s=10.0, clock=steps)
    store, before = opened(tmp_path / "events", stores), writers()
    assert append(store, made("a")) == [1]
    assert held(tmp_path)
    assert stores.rest_idle() == 0  # looks at it, as it does once a second
    steps.now = 9.9
    assert stores.rest_idle() == 0
    steps.now = 10.1
    assert (stores.rest_idle(), held(tmp_path), stores.count) == (1, [], 0)
    assert writers() == before - 1
    SQLiteStore(tmp_path / "events", policy()).close()  # nothing holds the lock
    assert append(store, made("b")) == [2]
    assert held(tmp_path)
    store.close()
    assert held(tmp_path) == []
    with pytest.raises(
        od.errors.StoreFailed, match="accepts no more events: it is closed"
    ):
        append(store, made("c"))


def test_by_itself_it_rests_after_a_while(tmp_path: Path) -> None:
    stores = OpenStores(idle_s=0.05)
    store = opened(tmp_path / "events", stores)
    append(store, made("a"))
    threading.Event().wait(0.1)
    for _ in range(200):
        if not held(tmp_path):
            break
        threading.Event().wait(0.05)
    assert held(tmp_path) == []
    store.close()


def test_what_is_queued_is_written_before_it_rests(tmp_path: Path) -> None:
    store = opened(tmp_path / "events")
    futures = [store.append([made(f"d{number}")]) for number in range(100)]
    assert store.rest()
    assert sorted(future.result(30)[0].position for future in futures) == list(
        range(1, 101)
    )
    assert store.head() == 100
    store.close()


def test_appending_to_a_store_at_rest_does_not_wait_for_its_files(
    tmp_path: Path,
) -> None:
    is_free = threading.Event()

    def slow() -> SQLiteStore:
        assert is_free.wait(30)
        return SQLiteStore(tmp_path / "events", policy())

    is_free.set()
    store = RestingStore(tmp_path / "events", slow, OpenStores(most=4))
    assert store.rest()
    is_free.clear()
    futures = [store.append([made(id)]) for id in ("a", "b", "c")]
    with pytest.raises(od.InvalidInput):
        store.append([Reward("a", 7.0, time=0.0)])  # at once, as by an open store
    assert not any(future.done() for future in futures)
    is_free.set()
    assert [future.result(30)[0].position for future in futures] == [1, 2, 3]
    store.close()


class Careless(RestingStore):
    """Takes whatever lies there."""

    def _make_again(self, rested: Any) -> SQLiteStore:
        return self._make()


def delete(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def put_another(path: Path) -> None:
    path.unlink()
    SQLiteStore(path, policy()).close()


def put_an_older_one(path: Path) -> None:
    shutil.copy(path.with_name("older"), path)


def spoil(path: Path) -> None:
    path.write_bytes(b"x" * 5000)


FATES = {
    delete: "there is no such file",
    empty: "must be a store",
    put_another: "another store has taken its place",
    put_an_older_one: "it ends at position 1, and 2 was answered",
    spoil: "must be a store",
}


def fate(folder: Path, what: Any, kind: type[RestingStore]) -> None:
    path, away = folder / "events", folder / "away"
    store = opened(path, kind=kind)
    append(store, made("a"))
    assert store.rest()
    shutil.copy(path, folder / "older")
    append(store, made("b"))
    assert store.rest()
    shutil.copy(path, away)
    what(path)
    left = path.stat().st_size if path.exists() else None
    sentence = (
        f"events must be the store that was opened; .*{FATES[what]}.*: put it back, or "
        "restart"
    )
    for _ in range(2):
        with pytest.raises(od.errors.StoreFailed, match=sentence):
            append(store, made("c"))
        with pytest.raises(od.errors.StoreFailed, match=sentence):
            store.head()
    assert (path.stat().st_size if path.exists() else None) == left
    shutil.copy(away, path)
    assert append(store, made("c")) == [3]
    store.close()


@pytest.mark.parametrize("what", FATES)
def test_a_store_that_became_another_is_refused_until_it_is_back(
    tmp_path: Path, what: Any
) -> None:
    fate(tmp_path, what, RestingStore)


@pytest.mark.parametrize("what", [delete, put_another, put_an_older_one])
def test_a_store_that_does_not_look_is_found(tmp_path: Path, what: Any) -> None:
    with pytest.raises((pytest.fail.Exception, AssertionError)):
        fate(tmp_path, what, Careless)


def test_a_store_that_another_process_has_taken_is_refused_until_it_is_free(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path / "events")
    append(store, made("a"))
    assert store.rest()
    code = (
        "import sys; from oddsmith.server.store.sqlite.file import Lock; from pathlib "
        "import Path\n"
        "lock = Lock(Path(sys.argv[1])); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "events")]
    other = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "held\n"
    with pytest.raises(
        od.errors.StoreFailed,
        match=f"one process at a time; it is in use by process {other.pid}",
    ):
        append(store, made("b"))
    other.communicate("", timeout=30)
    assert append(store, made("b")) == [2]
    store.close()


def test_what_another_process_wrote_meanwhile_is_seen(tmp_path: Path) -> None:
    store = opened(tmp_path / "events")
    append(store, made("a"))
    assert store.rest()
    assert store.head() == 1
    assert held(tmp_path) == []
    with SQLiteStore(tmp_path / "events", policy()) as other:
        append(other, made("b"))
    assert store.head() == 2
    store.close()


def test_only_so_many_are_open_at_a_time_whatever_is_called(tmp_path: Path) -> None:
    stores = OpenStores(most=3)
    all_of_them = [opened(tmp_path / f"events{number}", stores) for number in range(12)]
    most = 0
    with ThreadPoolExecutor(6) as pool:
        calls = [
            pool.submit(append, store, made(f"d{turn}"))
            for turn in range(5)
            for store in all_of_them
        ]
        while not all(call.done() for call in calls):
            most = max(most, len(held(tmp_path)))
    assert 0 < most <= 3 * 7 + 3  # the lock of one that is closing may be there
    assert [sorted(call.result()[0] for call in calls[i::12]) for i in range(12)] == [
        [1, 2, 3, 4, 5]
    ] * 12
    assert stores.count == 3
    for store in all_of_them:
        store.close()
    assert held(tmp_path) == []


def test_the_least_recently_called_rests_first(tmp_path: Path) -> None:
    steps = Steps()
    stores = OpenStores(most=2, clock=steps)
    a, b = opened(tmp_path / "a", stores), opened(tmp_path / "b", stores)
    for steps.now, one in ((1.0, b), (2.0, a)):
        append(one, made("x"))
        assert stores.rest_idle() == 0  # looks at them, as it does once a second
    c = opened(tmp_path / "c", stores)
    names = {Path(file).name[0] for file in held(tmp_path)}
    assert names == {"a", "c"}
    for one in (a, b, c):
        one.close()


def test_erasing_opens_a_store_only_where_there_is_something_to_erase(
    tmp_path: Path,
) -> None:
    store = opened(tmp_path / "events")
    append(store, made("old", time=100.0), made("new", time=200.0))
    assert store.rest()
    assert (store.erase(100.0), held(tmp_path)) == (0, [])
    assert store.erase(100.5) == 1
    append(store, made("later", time=150.0))
    assert store.rest()
    assert (store.erase(150.0), held(tmp_path)) == (0, [])
    assert store.erase(1000.0) == 2
    assert store.rest()
    assert (store.erase(1e9), held(tmp_path)) == (0, [])
    with SQLiteStore(tmp_path / "events", policy()) as other:
        append(other, made("elsewhere", time=300.0))
    assert store.erase(1e9) == 1
    store.close()


def test_who_comes_while_it_is_closed_is_answered(tmp_path: Path) -> None:
    store = opened(tmp_path / "events")
    early = store.append
    assert store.rest()
    # the store was asked before it went to rest
    assert early([made("a")]).result(30)[0].position == 1
    store.close()
    with pytest.raises(od.errors.StoreFailed, match="it is closed"):
        early([made("b")])


def test_a_store_that_cannot_write_stays_open(tmp_path: Path) -> None:
    store = opened(tmp_path / "events")
    append(store, made("a"))
    with store.awake() as inner:
        assert not store.rest()  # it is in use
        fail, inner.append = (  # type: ignore[method-assign]
            inner.append,
            lambda _: (_ for _ in ()).throw(od.errors.StoreFailed("no")),  # type: ignore[assignment]
        )
    assert not store.rest()
    assert held(tmp_path)
    inner.append = fail  # type: ignore[method-assign]
    assert store.rest()
    store.close()
