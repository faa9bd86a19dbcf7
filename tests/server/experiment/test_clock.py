"""Clocks that are far off erase nothing and close no window, and those of idle stores
do after a day."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.audit import doctor, verify
from oddsmith.server.experiment.clock import DatabaseClock
from oddsmith.server.experiment.clock_hold import HOLD
from oddsmith.server.store import SQLiteReader
from server.served import Hands, Here, here, place
from server.store.postgres_server import Server

HOUR, DAY = 3600.0, 86_400.0
YEAR = 365.25 * DAY
_SERVICE = "window_s = 600\nerase_after_days = 20\n"


@contextmanager
def at(file: Path, hands: Hands, *, trusts: bool = False) -> Iterator[Here]:
    """The service of a file, by this clock."""
    with here(file, clock=hands.clock(), trusts_clock=trusts) as served:
        yield served


def erased(served: Here) -> bool:
    """Whether contexts of more than 20 days may be erased now; it erases them."""
    try:
        served.portal.call(served.experiment().erase, 20 * DAY)
    except od.errors.StoreFailed:
        return False
    return True


def contexts(served: Here) -> int:
    ((count,),) = served.inner()._fetch("select count(*) from contexts")
    return int(count)


def defaults(served: Here) -> int:
    """How many windows are closed, once those that are due are."""
    hold = served.experiment().clock_hold
    windows = served.experiment()._windows
    assert windows is not None
    if not hold.reason:
        served.portal.call(windows.close_due)
    return int(served.experiment().store.tally().get("default", 0))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return place(tmp_path, service=_SERVICE)


@pytest.mark.parametrize("ahead", [2 * DAY, 30 * DAY, 10 * YEAR, -30 * DAY, -1e9])
def test_a_start_with_a_clock_far_off_erases_and_closes_nothing(
    file: Path, ahead: float
) -> None:
    hands = Hands()
    with at(file, hands) as served:
        served.decide("a")
    hands.wall += ahead
    for _ in range(2):  # and a restart
        with at(file, hands) as served:
            assert not erased(served)
            assert contexts(served) >= 1
            assert defaults(served) == 0
            warning = served.get("/readyz")["warnings"]["news"]
            assert "the clock was" in warning
            assert "--trust-clock" in warning
            assert served.get("/v1/checks")["warning"] == warning
            # a new event does not vouch for the clock
            served.decide()
            hands.pass_by(HOUR)
    (finding,) = (
        one
        for one in doctor([str(file.parent / "news.sqlite")], now=hands.wall)
        if one.check == "clock"
    )
    assert finding.level == "problem"
    assert "--trust-clock" in finding.advice


@pytest.mark.parametrize("ahead", [HOUR, 20 * HOUR, -HOUR / 2])
def test_a_short_pause_is_no_doubt(file: Path, ahead: float) -> None:
    hands = Hands()
    with at(file, hands) as served:
        served.decide("a")
    hands.wall += ahead
    with at(file, hands) as served:
        assert erased(served)
        assert defaults(served) == (ahead > 0)


def test_an_idle_store_erases_after_a_day_of_steady_running(file: Path) -> None:
    hands = Hands()
    with at(file, hands) as served:
        served.decide("a")
    hands.pass_by(40 * DAY)
    with at(file, hands) as served:
        hands.pass_by(HOLD / 2)
        assert not erased(served)
    # restarts do not begin the day again
    with at(file, hands) as served:
        hands.pass_by(HOLD / 2 - 60)
        assert not erased(served)
        hands.pass_by(61)
        assert erased(served)
        assert contexts(served) == 0
        assert defaults(served) == 1
        assert "warnings" not in served.get("/readyz")
    with at(file, hands) as served:
        assert erased(served)
    with SQLiteReader(file.parent / "news.sqlite") as reader:
        assert verify(reader).holds


def test_the_operator_vouches_for_a_clock(file: Path) -> None:
    hands = Hands()
    with at(file, hands) as served:
        served.decide("a")
    hands.pass_by(40 * DAY)
    with at(file, hands) as served:
        assert not erased(served)
    with at(file, hands, trusts=True) as served:
        assert erased(served)
        assert contexts(served) == 0
    with at(file, hands) as served:
        assert defaults(served) == 1


@pytest.mark.parametrize("ahead", [30 * DAY, 10 * YEAR, -30 * DAY, -1e9])
@pytest.mark.parametrize("restarts", [False, True])
def test_a_clock_that_is_corrected_goes_on_at_once(
    file: Path, ahead: float, restarts: bool
) -> None:
    hands = Hands()
    with at(file, hands) as served:
        served.decide("a")
    hands.wall += ahead
    with at(file, hands) as served:
        assert not erased(served)
        hands.pass_by(HOUR)
        hands.wall -= ahead
        if not restarts:
            assert erased(served)
            assert served.experiment().clock() == hands.wall
            served.decide("b")
    with at(file, hands) as served:
        assert erased(served)
        assert contexts(served) == 1 + (not restarts)
        assert defaults(served) == 1
    # nor is it doubted later
    hands.pass_by(20 * HOUR)
    with at(file, hands) as served:
        assert erased(served)


@pytest.mark.parametrize("jump", [2 * HOUR, 30 * DAY, -2 * HOUR, -1e9])
def test_a_jump_while_it_runs_is_waited_for(file: Path, jump: float) -> None:
    hands = Hands()
    with at(file, hands) as served:
        served.decide("a")
        before = served.experiment().clock()
        hands.wall += jump
        assert served.experiment().clock() == before
        assert not erased(served)
        assert "what it should show" in served.get("/v1/checks")["warning"]
        hands.pass_by(HOUR)
        assert defaults(served) == 0
        hands.wall -= jump  # it was a mistake
        assert erased(served)
        assert defaults(served) == 1
        hands.wall += jump
        assert not erased(served)
        hands.pass_by(HOLD + 1)
        assert erased(served)
        assert served.experiment().clock() == hands.wall


def test_a_small_step_is_not_followed_and_no_doubt(file: Path) -> None:
    hands = Hands()
    with at(file, hands) as served:
        hands.wall -= HOUR / 2
        assert erased(served)
        assert served.experiment().clock() == hands.wall + HOUR / 2


def test_a_new_store_has_nothing_to_doubt(file: Path) -> None:
    with at(file, Hands(wall=-5e8)) as served:
        assert erased(served)


def test_two_experiments_are_corrected_by_one_clock(tmp_path: Path) -> None:
    hands = Hands()
    files = [place(tmp_path, name, service=_SERVICE) for name in ("one", "two")]
    with here(*files, clock=hands.clock()) as served:
        for name in ("one", "two"):
            served.decide("a", experiment=name)
    hands.wall += 30 * DAY
    for _ in range(2):
        with here(*files, clock=hands.clock()) as served:
            holds = [served.experiment(name).clock_hold for name in ("one", "two")]
            reasons = [bool(hold.reason) for hold in holds]
            hands.wall -= 30 * DAY * reasons[0]
            assert [hold.reason for hold in holds] == ["", ""]
            hands.pass_by(1)
        assert reasons in ([True, True], [False, False])


@pytest.mark.parametrize("ahead", [HOUR, 30 * DAY, -30 * DAY])
def test_the_clock_of_a_database_is_followed_by_all_replicas(ahead: float) -> None:
    database, wrong = Hands(), Hands(wall=1e9 + ahead)
    clock = DatabaseClock(wrong.clock(), lambda: database.wall)
    clock.look()
    assert clock() == database.wall
    for hands in (database, wrong):
        hands.pass_by(100)
    wrong.wall += 1e6  # whatever the machine shows
    assert clock() == database.wall
    database.wall += 30  # drift is followed
    clock.look()
    assert clock() == database.wall
    database.wall += 1e6  # a jump is not
    clock.look()
    assert clock() == database.wall - 1e6
    clock.adopt()
    assert clock() == database.wall


def test_a_replica_with_a_wrong_clock_closes_and_erases_nothing(
    tmp_path: Path, server: Server, experiment: str
) -> None:
    service = f"store = {json.dumps(server.url())}\n{_SERVICE}"
    file = place(tmp_path, experiment, service=service)
    with here(file) as right:
        right.decide("a")
        store: Any = right.experiment(experiment).store
        now = store.clock()
        for ahead in (HOUR, 30 * DAY, -30 * DAY):
            with here(file, clock=Hands(wall=now + ahead).clock()) as wrong:
                one = wrong.experiment(experiment)
                assert one.clock() == pytest.approx(now, abs=300)
                assert not one.clock_hold.reason
                wrong.portal.call(one.erase, 20 * DAY)
                wrong.portal.call(one._windows.close_due)  # type: ignore[union-attr]
                wrong.decide(f"{ahead}")
        query = "select count(*) from contexts where experiment = $1"
        assert store._fetch(query) == [(4,)]
        assert "default" not in store.tally()
        assert store.newest().time == pytest.approx(now, abs=300)
