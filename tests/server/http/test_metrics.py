"""Each metric moves when the thing happens that it counts; /v1/stats has the same for
people without Prometheus."""

import asyncio
import logging
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast
from unittest.mock import Mock

import pytest
from prometheus_client.parser import text_string_to_metric_families

import oddsmith as od
from oddsmith.server.http.connections import Connections
from oddsmith.server.http.keys import KeyRing, create, rotate
from oddsmith.server.http.rates import Rate
from oddsmith.server.http.wire import Wire, server_config
from oddsmith.server.monitor.families import ARMS
from oddsmith.server.store.events import Reward
from server.experiment.test_faults import fill_up, make_room
from server.experiment.test_raising import picky
from server.live import Echo, serving, talk
from server.offering import ARMS as NEWS
from server.served import CONTEXT, Hands, Here, here, place, wait


class Scrape:
    """The samples of one scrape, by name and labels."""

    def __init__(self, served: Here, **headers: str) -> None:
        self.text = served.ask("GET", "/metrics", headers=headers).text
        families = list(text_string_to_metric_families(self.text))
        self.names = {family.name for family in families}
        self.samples = {
            (one.name, *sorted(one.labels.items())): one.value
            for f in families
            for one in f.samples
        }

    def __call__(self, name: str, **labels: str) -> float:
        return self.samples["oddsmith_" + name, *sorted(labels.items())]

    def news(self, name: str) -> float:
        return self(name, experiment="news")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Here]:
    with here(place(tmp_path)) as one:
        yield one


def test_writes_are_counted_and_timed(served: Here, monkeypatch: Any) -> None:
    before = Scrape(served)
    assert (before.news("commits_total"), before.news("written_events_total")) == (0, 0)
    assert "oddsmith_last_write_age_seconds{" not in before.text
    assert ("oddsmith_sync_seconds_count", ("store", "sqlite")) not in before.samples
    served.decide("a")
    served.post("decide/batch", {"decisions": [{"context": CONTEXT}] * 9})
    served.decide("a")  # is there already
    after = Scrape(served)
    assert (after.news("commits_total"), after.news("written_events_total")) == (3, 10)
    assert (
        after("sync_seconds_count", store="sqlite")
        == after("sync_seconds_bucket", store="sqlite", le="+Inf")
        == 3
    )
    last = served.experiment().writer.writes.last or 0.0
    monkeypatch.setattr("oddsmith.server.monitor.vitals.monotonic", lambda: last + 77)
    assert Scrape(served).news("last_write_age_seconds") == pytest.approx(77)
    assert served.get("/v1/stats")["vitals"]["last_write_age_s"] == pytest.approx(77)


def test_a_commit_that_takes_long_is_in_a_higher_bucket(
    served: Here, monkeypatch: Any
) -> None:
    store = served.experiment().store
    append = store.append

    def late(events: Any) -> Any:
        """Done 30 ms after it is on disk, at the earliest."""
        done: Future[Any] = Future()
        receipts = append(events).result()
        threading.Timer(0.03, done.set_result, [receipts]).start()
        return done

    monkeypatch.setattr(store, "append", late)
    served.decide("slow")
    scrape = Scrape(served)
    assert scrape("sync_seconds_sum", store="sqlite") >= 0.03
    assert [
        scrape("sync_seconds_bucket", store="sqlite", le=le) for le in ("0.025", "+Inf")
    ] == [0, 1]


def test_a_store_that_cannot_be_written_is_seen(served: Here) -> None:
    served.decide("a")
    scrape = Scrape(served)
    assert (scrape.news("store_ok"), scrape.news("write_failures_total")) == (1, 0)
    store, full = fill_up(served, pages=0), {"decisions": [{"context": CONTEXT}] * 99}
    assert served.ask("POST", "/v1/decide/batch", json=full).status_code == 507
    scrape = Scrape(served)
    assert (scrape.news("store_ok"), scrape.news("write_failures_total")) == (0, 1)
    assert (scrape.news("commits_total"), scrape.news("written_events_total")) == (1, 1)
    vitals = served.get("/v1/stats")["vitals"]
    assert "disk is full" in vitals["write_trouble"]
    assert vitals["write_failures"] == 1
    make_room(store)
    wait(lambda: Scrape(served).news("store_ok") == 1)
    assert served.get("/v1/stats")["vitals"]["write_trouble"] == ""


def test_the_learner_falls_behind_and_comes_back(tmp_path: Path) -> None:
    hands = Hands()
    with here(place(tmp_path), clock=hands.clock()) as served:
        follower = served.experiment().follower
        free, look, untyped = threading.Event(), follower._look, cast(Any, follower)

        def waits(*given: Any) -> Any:
            found = look(*given)
            free.wait(30)
            return found

        served.decide("a")
        wait(lambda: Scrape(served).news("lag_events") == 0)
        position = Scrape(served).news("position")
        untyped._look = waits
        for i in range(5):
            served.decide(f"d{i}")
        assert Scrape(served).news("lag_events") == 5
        assert Scrape(served).news("position") == position == 1
        free.set()
        wait(lambda: Scrape(served).news("lag_events") == 0)
        assert (
            Scrape(served).news("position"),
            Scrape(served).news("lag_seconds"),
        ) == (6, 0)


def test_a_learner_that_is_stuck_is_told_by_seconds(
    tmp_path: Path, monkeypatch: Any
) -> None:
    hands, stuck = Hands(), asyncio.Event()

    async def settled(*_: Any) -> Any:
        await stuck.wait()

    with here(place(tmp_path), clock=hands.clock()) as served:
        monkeypatch.setattr(served.experiment().follower, "_advance", settled)
        served.decide("a")
        served.reward("a", 1)
        wait(lambda: served.experiment().follower.behind > 0)
        hands.pass_by(29)
        assert served.get("/readyz") == {"ok": True, "experiments": {}}
        hands.pass_by(1.5)
        assert served.get("/readyz")["warnings"]["news"].startswith(
            "learning is 30 s and 2 events behind"
        )
        assert Scrape(served).news("lag_seconds") == 30.5
        assert served.get("/v1/stats")["vitals"]["lag_s"] == 30.5
        assert served.decide("b")["new"]


def test_learning_that_fails_is_seen(tmp_path: Path, monkeypatch: Any) -> None:
    with here(place(tmp_path)) as served:
        assert Scrape(served).news("learner_ok") == 1
        broken = od.errors.StoreFailed("broken")

        def raises(*_: Any) -> Any:
            raise broken

        monkeypatch.setattr(served.experiment().follower, "_look", raises)
        served.decide("a")
        served.reward("a", 1)
        wait(lambda: Scrape(served).news("learner_ok") == 0)


def test_snapshots_refolds_and_refused_rewards(tmp_path: Path) -> None:
    hands = Hands()
    with here(
        picky(tmp_path, 0.5, "snapshot_every = 3\n"), clock=hands.clock()
    ) as served:
        assert "oddsmith_snapshot_age_seconds{" not in Scrape(served).text
        for i, reward in enumerate((0.1, 0.2, 0.3, 0.9)):
            served.decide(f"d{i}")
            served.reward(f"d{i}", reward)
            served.state()
        wait(lambda: served.experiment().follower.snapshot is not None)
        hands.pass_by(500)
        scrape = Scrape(served)
        assert (
            scrape.news("snapshot_age_seconds")
            == served.get("/v1/stats")["vitals"]["snapshot_age_s"]
            == 500
        )
        assert (
            scrape.news("snapshot_rewards_behind")
            == served.get("/v1/stats")["vitals"]["unsaved"]
            == 1
        )
        # of the state that it broke
        assert (scrape.news("refused_rewards"), scrape.news("refolds_total")) == (1, 1)
        served.post("correct", {"id": "d0", "reward": 0.4, "key": "k"})
        wait(lambda: Scrape(served).news("refolds_total") == 2)
        assert Scrape(served).news("refold_seconds_total") > scrape.news(
            "refold_seconds_total"
        )
        wait(lambda: Scrape(served).news("snapshot_age_seconds") == 0)


def test_events_that_wait_for_the_store(served: Here) -> None:
    async def two() -> float:
        writer = served.experiment().writer
        writer._busy = True  # as while a batch is written
        decisions = [writer.append([Reward(id, 1.0, time=0.0)]) for id in "ab"]
        text = served.service.metrics.text().decode()
        writer._send()
        await asyncio.gather(*decisions)
        return float(
            text.split('oddsmith_waiting{experiment="news"} ')[1].split("\n")[0]
        )

    assert served.portal.call(two) == 2
    assert Scrape(served).news("waiting") == 0


def test_a_scrape_reads_no_store(served: Here, monkeypatch: Any) -> None:
    """Experiments that are idle stay idle."""

    def reads(*_: Any, **__: Any) -> Any:
        raise AssertionError("the store was read")

    served.decide("a")
    monkeypatch.setattr(served.experiment().store, "_fetch", reads)
    assert Scrape(served).news("written_events_total") == 1


def test_decisions_by_arm_have_few_series(served: Here, tmp_path: Path) -> None:
    for i in range(20):
        served.decide(f"d{i}")
    scrape = Scrape(served)
    assert (
        sum(scrape("decided_total", experiment="news", arm=arm) for arm in NEWS) == 20
    )
    decided = served.experiment().decided
    decided.clear()
    decided.update({f'arm "{i}"\n': i for i in range(ARMS)})
    assert Scrape(served)("decided_total", experiment="news", arm='arm "7"\n') == 7
    decided.update({"others": 5, "more": 6})
    scrape = Scrape(served)
    series = {
        key: value
        for key, value in scrape.samples.items()
        if key[0] == "oddsmith_decided_total"
    }
    assert len(series) == ARMS
    assert scrape("decided_total", experiment="news", arm="others") == 99 + 5 + 6
    assert sum(series.values()) == sum(decided.values())


def test_keys_rates_and_stopping(tmp_path: Path) -> None:
    keys, now = tmp_path / "keys.json", datetime.now(UTC)
    soon = create(keys, "soon", ["read"], expires=now + timedelta(days=13))
    create(keys, "later", ["read"], expires=now + timedelta(days=15))
    slow = create(keys, "slow", ["decide"], rate=Rate(0.001, 1))
    with here(place(tmp_path), keys=keys) as served:
        mine = {"Authorization": f"Bearer {soon}"}
        for status in (200, 429, 429):
            answer = served.ask(
                "POST",
                "/v1/decide",
                json={"context": CONTEXT},
                headers={"Authorization": f"Bearer {slow}"},
            )
            assert answer.status_code == status
        scrape = Scrape(served, **mine)
        assert scrape("rate_refusals_total", key="slow") == 2
        assert 12.9 * 86_400 < scrape("key_seconds_left", key="soon") <= 13 * 86_400
        assert "later" not in scrape.text
        assert scrape("stopping") == 0
        served.service.drain()
        assert Scrape(served, **mine)("stopping") == 1


def test_a_rotated_key_is_not_about_to_end(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    create(path, "shop", ["read"], expires=datetime.now(UTC) + timedelta(days=3))
    ring = KeyRing(path)
    assert list(ring.seconds_left(14 * 86_400)) == ["shop"]
    rotate(path, "shop", expires=datetime.now(UTC) + timedelta(days=90))
    assert ring.seconds_left(14 * 86_400) == {}


def test_the_process_and_what_runs(served: Here, tmp_path: Path) -> None:
    before = Scrape(served)
    kernels = served.experiment().store.about["kernels"]
    assert f'version="{od.__version__}"' in before.text
    assert f'kernels="{kernels}"' in before.text
    with open(tmp_path / "a", "w"), open(tmp_path / "b", "w"):
        end = threading.Event()
        thread = threading.Thread(target=end.wait)
        thread.start()
        sum(i * i for i in range(300_000))
        during = Scrape(served)
        end.set()
        thread.join()
    for name in ("process_open_fds", "process_threads", "process_cpu_seconds_total"):
        assert during.samples[name,] > before.samples[name,], name
    assert during.samples["process_resident_memory_bytes",] > 1e7


def test_connections_and_what_is_refused_below_the_application(
    served: Here, caplog: Any
) -> None:
    room = served.service.room
    assert isinstance(room, Connections)
    caplog.set_level(logging.INFO)
    with serving(server_config(Echo(), host="127.0.0.1", port=0, room=room)) as port:  # type: ignore[arg-type]
        for _ in range(3):
            assert talk(port, b"this is not HTTP\r\n\r\n").status == 400
        assert (
            talk(port, b"GET / HTTP/1.1\r\nx: " + b"y" * Wire.head_bytes).status == 431
        )
        # the server may see later than we that a connection ended
        wait(lambda: room.n_open == 0)
        scrape = Scrape(served)
        assert (
            scrape("wire_refusals_total", status="400"),
            scrape("wire_refusals_total", status="431"),
        ) == (3, 1)
        # strangers do not write to the log
        assert "Invalid HTTP request" not in caplog.text
        room.admit(Mock(), "127.0.0.1")
        assert Scrape(served)("connections") == scrape("connections") + 1
        assert scrape("connections_replaced_total") == room.replaced == 0
        assert scrape("connections_limit") == room.most
