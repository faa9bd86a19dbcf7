"""A transaction that is left open in PostgreSQL stops learning, and is named, with its
age, until it ends."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from oddsmith.core.errors import StoreFailed
from oddsmith.server.monitor.vitals import HoldUps
from oddsmith.server.store import PostgresReader
from oddsmith.server.store.postgres.reader import OldestTransaction
from server.served import Hands, Here, here, place, wait
from server.store.postgres_server import Server


class Session:
    """A connection of another program, with a transaction that is open."""

    def __init__(self, server: Server) -> None:
        self._loop = asyncio.new_event_loop()
        self._connection: Any = self._loop.run_until_complete(
            asyncpg.connect(server.url())
        )

    def run(self, *statements: str) -> None:
        for statement in statements:
            self._loop.run_until_complete(self._connection.execute(statement))

    def close(self) -> None:
        self._loop.run_until_complete(self._connection.close())
        self._loop.close()


@pytest.fixture
def session(server: Server) -> Iterator[Session]:
    with ExitStack() as stack:
        one = Session(server)
        stack.callback(one.close)
        yield one


@contextmanager
def served(
    server: Server, experiment: str, folder: Path
) -> Iterator[tuple[Here, Hands]]:
    """A service on PostgreSQL, whose clock is in the test's hands, and which looks anew
    each time it is asked."""
    hands = Hands()
    file = place(folder, experiment, service=f"store = {json.dumps(server.url())}\n")
    with here(file, clock=hands.clock()) as service:
        service.service.hold_ups.every = 0.0
        yield service, hands


def value(service: Here, name: str) -> float:
    """The only number of a metric."""
    families = text_string_to_metric_families(service.ask("GET", "/metrics").text)
    (sample,) = (
        sample
        for family in families
        for sample in family.samples
        if sample.name == name
    )
    return sample.value


def learns(service: Here, experiment: str, id: str) -> bool:
    """Whether a reward is learnt, after as many looks at the log as there are in a
    while."""
    before = service.get("/v1/posterior")["learnt"]
    service.decide(id)
    service.reward(id, 1)
    try:
        wait(lambda: service.get("/v1/posterior")["learnt"] > before, 0.5)
    except AssertionError:
        return False
    return True


def held_and_told(
    service: Here, hands: Hands, experiment: str, seconds: float = 30.0
) -> str:
    """What readiness says while two events have waited for a minute."""
    assert not learns(service, experiment, "held")
    assert service.get("/readyz") == {"ok": True, "experiments": {}}  # the lag is short
    hands.pass_by(61)
    assert service.decide("meanwhile")["new"]  # decisions go on
    wait(lambda: value(service, "oddsmith_lag_events") == 3, seconds)
    assert value(service, "oddsmith_lag_seconds") >= 61
    vitals = service.get("/v1/stats")["vitals"]
    assert (vitals["lag_events"], vitals["lag_s"] >= 61) == (3, True)
    ready = service.get("/readyz")
    assert ready["ok"]
    assert (
        vitals["warning"].split(":")[0] == ready["warnings"][experiment].split(":")[0]
    )
    return str(ready["warnings"][experiment])


def well_again(service: Here, experiment: str) -> None:
    wait(lambda: service.get("/v1/posterior")["learnt"] == 2)
    wait(lambda: service.get("/readyz") == {"ok": True, "experiments": {}})
    wait(lambda: value(service, "oddsmith_lag_events") == 0)
    assert value(service, "oddsmith_lag_seconds") == 0
    assert service.get("/v1/stats")["vitals"]["warning"] == ""


def test_an_open_transaction_is_named_with_its_age(
    server: Server, experiment: str, tmp_path: Path, session: Session
) -> None:
    with served(server, experiment, tmp_path) as (service, hands):
        assert learns(service, experiment, "before")
        session.run("begin", "select pg_current_xact_id()")
        warning = held_and_told(service, hands, experiment)
        assert warning.startswith(
            "learning is 61 s and 3 events behind: the transaction of user postgres in "
            "database"
        )
        assert warning.endswith("s; end it")
        age = value(service, "oddsmith_oldest_transaction_seconds")
        assert 0.5 <= age <= service.get("/v1/stats")["vitals"]["oldest_transaction_s"]
        session.run("rollback")
        well_again(service, experiment)


def test_a_prepared_transaction_is_named(
    server: Server, experiment: str, tmp_path: Path, session: Session
) -> None:
    with served(server, experiment, tmp_path) as (service, hands):
        assert learns(service, experiment, "before")
        session.run(
            "begin", "select pg_current_xact_id()", "prepare transaction 'left behind'"
        )
        try:
            assert "the prepared transaction of user postgres" in held_and_told(
                service, hands, experiment
            )
        finally:
            session.run("rollback prepared 'left behind'")
        well_again(service, experiment)


def test_a_transaction_that_only_reads_holds_up_nothing(
    server: Server, experiment: str, tmp_path: Path, session: Session
) -> None:
    with served(server, experiment, tmp_path) as (service, hands):
        session.run(
            "begin isolation level repeatable read",
            "select count(*) from oddsmith.events",
        )
        assert learns(service, experiment, "a")
        hands.pass_by(61)
        wait(lambda: value(service, "oddsmith_lag_events") == 0)
        assert service.get("/readyz") == {"ok": True, "experiments": {}}


def test_readiness_by_the_readable_head_alone_says_nothing(
    server: Server, experiment: str, tmp_path: Path, session: Session, monkeypatch: Any
) -> None:
    """The broken variant: as if what readers may see were all there is."""

    async def nothing(_: HoldUps) -> None:
        pass

    with served(server, experiment, tmp_path) as (service, hands):
        monkeypatch.setattr(HoldUps, "look", nothing)
        session.run("begin", "select pg_current_xact_id()")
        with pytest.raises(AssertionError, match="took too long"):
            held_and_told(service, hands, experiment, 0.5)
        assert service.get("/readyz") == {"ok": True, "experiments": {}}
        session.run("rollback")


def test_the_age_is_known_without_the_right_to_see_it(
    server: Server, experiment: str, tmp_path: Path
) -> None:
    """The server tells the start of other users' transactions to some only; then it is
    the time since it was seen."""
    rows = [[("7", "transaction", "process 1", "bob", "shop", None)], []] * 2
    with (
        served(server, experiment, tmp_path),
        PostgresReader(server.url(), experiment=experiment) as reader,
    ):
        oldest: Any = reader._oldest
        first = oldest.look(lambda *_, **__: rows.pop(0))
        assert first == (
            "the transaction of user bob in database shop (process 1)",
            0.0,
            {},
        )
        assert oldest.look(lambda *_, **__: rows.pop(0)).age_s > 0


def test_a_database_that_does_not_answer_leaves_metrics_and_no_age(
    server: Server, experiment: str, tmp_path: Path, monkeypatch: Any
) -> None:
    def gone(_: OldestTransaction, read: Any) -> Any:
        raise StoreFailed("no answer")

    with served(server, experiment, tmp_path) as (service, _):
        assert (
            "oddsmith_oldest_transaction_seconds{"
            in service.ask("GET", "/metrics").text
        )
        monkeypatch.setattr(OldestTransaction, "look", gone)
        assert (
            "oddsmith_oldest_transaction_seconds{"
            not in service.ask("GET", "/metrics").text
        )
