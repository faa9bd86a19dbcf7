"""What callers and load balancers see of a store that breaks: refusals meanwhile, the
reason, and its end by itself."""

import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.monitor.store_looks import StoreLooks
from server.experiment.test_faults import fill_up, make_room
from server.served import CONTEXT, Here, here, place, process, rows, wait
from server.store.samples import bits
from server.store.test_crashes import shim


@pytest.fixture(scope="module")
def badsync(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shim(tmp_path_factory.mktemp("badsync"), "badsync.c")


@pytest.mark.usefixtures("arms_of_calls")
def test_syncs_that_fail_are_said_and_pass_without_a_restart(
    tmp_path: Path, badsync: Path
) -> None:
    switch, durable = tmp_path / "bad", tmp_path / "durable"
    durable.mkdir()
    environment = {
        "LD_PRELOAD": str(badsync),
        "BADSYNC": str(switch),
        "DURABLE": str(durable),
    }
    answered: set[str] = set()
    with process(place(tmp_path), environment=environment) as served:

        def decide(id: str) -> int:
            status = served.client.post(
                "/v1/decide", json={"id": id, "context": CONTEXT}
            ).status_code
            answered.update({id} if status == 200 else ())
            return status

        assert decide("before") == 200
        switch.touch()
        statuses = [decide(f"meanwhile{i}") for i in range(5)]
        unready = served.client.get("/readyz")
        switch.unlink()
        wait(lambda: served.client.get("/readyz").status_code == 200)
        assert decide("after") == 200
        assert served.client.get("/v1/decisions/before").status_code == 200
    assert statuses == [503] * 5
    assert unready.status_code == 503
    assert (
        unready.json()["experiments"]["news"]
        == "its store cannot be written: disk I/O error"
    )
    log = served.log.read_text()
    assert log.count("news.sqlite cannot be written: disk I/O error") == 1
    assert log.count("news.sqlite can be written again") == 1
    assert (
        {id for _, _, id, _, _ in rows(tmp_path / "news.sqlite")}
        >= answered
        == {"before", "after"}
    )


def full_and_then_not(served: Here) -> list[int]:
    """What readiness says before the disk is full, while it is, and, without further
    calls, after that."""
    said = [served.ask("GET", "/readyz").status_code]
    store = fill_up(served, pages=0)
    batch = served.ask(
        "POST", "/v1/decide/batch", json={"decisions": [{"context": CONTEXT}] * 99}
    )
    assert batch.status_code == 507
    said.append(served.ask("GET", "/readyz").status_code)
    make_room(store)
    wait(lambda: served.ask("GET", "/readyz").status_code == 200)
    said.append(served.ask("GET", "/readyz").status_code)
    return said


@pytest.mark.usefixtures("any_arms")
def test_a_full_disk_is_not_ready_until_there_is_room(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        assert full_and_then_not(served) == [200, 503, 200]
        served.decide("a")
        served.reward("a", 1)
        assert bits(served.state()) == bits(served.defined())


def test_readiness_that_only_reads_would_not_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check has teeth."""

    async def reads(_: StoreLooks, experiment: Any) -> str:
        experiment.store.head()
        # what is restored still is no matter of disks
        return str(experiment.follower.trouble)

    monkeypatch.setattr(StoreLooks, "trouble", reads)
    with here(place(tmp_path)) as served:
        assert full_and_then_not(served) == [200, 200, 200]


@pytest.mark.usefixtures("any_arms")
def test_a_store_that_was_taken_away_answers_no_more(tmp_path: Path) -> None:
    file, away = tmp_path / "news.sqlite", tmp_path / "away"
    with here(place(tmp_path)) as served:
        served.decide("a")
        file.rename(away)
        refused = served.post("decide", {"id": "b", "context": CONTEXT}, status=503)
        assert (
            "must be the file that was opened; it was deleted or moved away"
            in refused["error"]
        )
        assert (
            "must be the file that was opened"
            in served.get("/readyz", status=503)["experiments"]["news"]
        )
        assert served.get("/v1/decisions/a")["id"] == "a"
        away.rename(file)
        assert served.get("/readyz")["ok"]
        served.decide("b")
    assert {id for _, _, id, _, _ in rows(file)} == {"a", "b"}


def test_a_store_that_was_deleted_while_nobody_asked(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        (tmp_path / "news.sqlite").unlink()
        assert (
            "deleted or moved away"
            in served.get("/readyz", status=503)["experiments"]["news"]
        )


@pytest.mark.usefixtures("any_arms")
def test_the_lock_of_another_program_does_not_stop_the_loop(tmp_path: Path) -> None:
    with (
        here(place(tmp_path)) as served,
        closing(sqlite3.connect(tmp_path / "news.sqlite")) as other,
    ):
        other.execute("begin exclusive")
        ask = partial(
            served.client.request,
            "POST",
            "/v1/decide",
            json={"id": "a", "context": CONTEXT},
        )
        decision = served.portal.start_task_soon(ask)
        for _ in range(20):
            assert served.get("/healthz")["ok"]
        # a loop that waits for it answers nothing else before
        assert not decision.done()
        other.execute("rollback")
        assert decision.result(30).status_code == 200
