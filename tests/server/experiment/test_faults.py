"""F4, F5, F9 and learning that fails: a full disk, a clock that jumps, rewards at the
extremes."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.windows import Windows
from server.served import CONTEXT, Hands, Here, here, place, rows, wait
from server.store.samples import bits

WINDOW = "window_s = 3600\n"
LEARNERS = 'policy.kind = "auto"\npolicy.size = "small"\n'  # their snapshots are large
STUDENT = """
import numpy as np
import oddsmith as od

class Student(od.Experts):
    names, learns, takes_offers, broken = ("student", "other"), True, True, False

    def init(self, shape=()):
        return np.zeros(shape)

    def predict(self, state, context):
        return np.array([[0.2, 0.5, 0.3 + state / 100], [0.6, 0.5, 0.4]])

    def update(self, state, decision, reward):
        if Student.broken:
            raise MemoryError("the student is tired")
        return state + reward

def bank(arms):
    return Student()
"""


def fill_up(served: Here, pages: int = 4) -> Any:
    """From now on the store's file may grow by a few pages only; the connection that
    can say otherwise."""
    store = served.inner()
    with store._writing.lock:
        (size,) = store._writing.connection.execute("pragma page_count").fetchone()
        store._writing.connection.execute(f"pragma max_page_count = {size + pages}")
    return store


def make_room(store: Any) -> None:
    with store._writing.lock:
        store._writing.connection.execute("pragma max_page_count = 1000000")


@pytest.mark.usefixtures("any_arms")
def test_a_full_disk_is_said_and_nothing_answered_is_lost(tmp_path: Path) -> None:
    with here(place(tmp_path)) as served:
        for i in range(5):
            served.decide(f"early{i}")
        store, answered = fill_up(served), [f"early{i}" for i in range(5)]
        full = None
        for i in range(2000):
            answer = served.ask(
                "POST", "/v1/decide", json={"id": f"d{i}", "context": CONTEXT}
            )
            if answer.status_code != 200:
                full = answer
                break
            answered.append(f"d{i}")
        assert full is not None
        assert full.status_code == 507
        assert full.json()["code"] == "disk_full"
        assert "database or disk is full" in full.json()["error"]
        batch = served.ask(
            "POST", "/v1/decide/batch", json={"decisions": [{"context": CONTEXT}] * 99}
        )
        assert batch.status_code == 507
        assert served.get(f"/v1/decisions/{answered[-1]}")["id"] == answered[-1]
        assert served.get("/v1/stats")["events"] == {"decision": len(answered)}
        assert (
            'oddsmith_answers_total{route="/v1/decide",status="507"} 1.0'
            in served.ask("GET", "/metrics").text
        )
        make_room(store)
        lost = served.post("decide", {"id": f"d{i}", "context": CONTEXT})
        assert lost["new"]
        for id in answered:
            served.reward(id, 1)
        state = bits(served.state())
        assert state == bits(served.defined())
    assert {
        id for _, kind, id, _, _ in rows(tmp_path / "news.sqlite") if kind == "decision"
    } == {*answered, lost["id"]}
    with here(place(tmp_path)) as again:
        assert bits(again.state()) == state


@pytest.mark.usefixtures("any_arms")
def test_it_ends_in_order_on_a_full_disk(tmp_path: Path, caplog: Any) -> None:
    file = place(tmp_path, experts=LEARNERS)
    with here(file) as served:
        for i in range(4):
            served.decide(f"d{i}")
            served.reward(f"d{i}", i % 2)
        state = bits(served.state())
        fill_up(served, pages=0)
    assert "experiment news could not store a snapshot" in caplog.text
    with here(file) as again:  # the lock was given back, and the log is enough
        assert bits(again.state()) == state


@pytest.mark.usefixtures("any_arms")
def test_a_snapshot_that_finds_no_room_is_kept_later(tmp_path: Path) -> None:
    with here(
        place(tmp_path, service="snapshot_every = 1\n", experts=LEARNERS)
    ) as served:
        served.decide("a")
        store = fill_up(served, pages=0)
        # a light line: there is room for it, and none for a snapshot
        served.reward("a", 1)
        wait(lambda: served.ask("GET", "/readyz").status_code == 503)
        assert (
            "disk is full" in served.get("/readyz", status=503)["experiments"]["news"]
        )
        make_room(store)
        wait(lambda: served.ask("GET", "/readyz").status_code == 200)
        served.reward("a", 1)
        assert bits(served.state()) == bits(served.defined())
        served.decide("b")
        served.reward("b", 1)
        wait(lambda: served.get("/v1/stats")["snapshot"] is not None)


def learning_breaks(served: Here, student: Any) -> None:
    for i in range(3):
        served.decide(f"d{i}")
        served.reward(f"d{i}", 1)
    served.state()
    student.broken = True
    served.decide("poison")
    served.reward("poison", 1)
    wait(lambda: served.ask("GET", "/readyz").status_code == 503)


@pytest.mark.usefixtures("arms")
def test_learning_that_fails_is_told_and_made_up_for(
    tmp_path: Path, monkeypatch: Any, caplog: Any
) -> None:
    """The log is right whatever an expert's update does: decisions go on, and the state
    comes back to its fold."""
    module = f"tired_{tmp_path.name}"  # a process has one module of each name
    (tmp_path / f"{module}.py").write_text(STUDENT)
    file = place(
        tmp_path, experts=f'[experts.one]\nkind = "python"\nfactory = "{module}:bank"\n'
    )
    with here(file) as served:
        policy: Any = served.experiment().setup.policy
        student = type(policy.experts.experts)
        learning_breaks(served, student)
        trouble = served.get("/readyz", status=503)["experiments"]["news"]
        assert trouble.startswith(f"learning failed: MemoryError at {module}.py:")
        assert f"experiment news does not learn: {trouble}" in caplog.text
        # what it says may hold the context
        assert "the student is tired" not in trouble
        # where the reward is that cannot be learnt
        assert served.decide("meanwhile")["seen"] < 8
        monkeypatch.setattr("oddsmith.server.http.routes.experts._PATIENCE", 0.01)
        stuck = served.post(
            "experts", {"expert": "other", "change": "retired", "key": "k"}, status=503
        )
        assert "the state has not reached position" in stuck["error"]
        student.broken = False
        wait(lambda: served.ask("GET", "/readyz").status_code == 200)
        # it was not written
        assert served.post(
            "experts", {"expert": "other", "change": "retired", "key": "k"}
        )["new"]
        served.state()
        found = served.get("/v1/posterior")
        assert (found["learnt"], found["retired"]) == (4, ["other"])


def test_a_fault_of_ours_is_counted_and_says_nothing_more(
    tmp_path: Path, monkeypatch: Any
) -> None:
    def broken(_: Any) -> Any:
        raise ZeroDivisionError("secret")

    with here(place(tmp_path)) as served:
        monkeypatch.setattr(Experiment, "posterior", broken)
        assert served.get("/v1/posterior", status=500) == {
            "error": "the service has failed; see its log",
            "code": "internal",
        }
        assert (
            'oddsmith_answers_total{route="/v1/posterior",status="500"} 1.0'
            in served.ask("GET", "/metrics").text
        )


def closed_early(tmp_path: Path, clock: Clock, hands: Hands) -> list[int]:
    """How many windows of an hour are closed, after each jump of the wall clock."""
    with here(place(tmp_path, service=WINDOW), clock=clock) as served:
        one = served.experiment()
        windows = Windows(one.store, one.writer, clock, 3600.0, 0.0)
        closed = []
        for i, jump in enumerate((0.0, 3601.0, -7200.0, 1e9, -hands.wall)):
            served.decide(f"d{i}")
            hands.wall += jump
            # as the service does by itself once a second
            served.portal.call(windows.close_due)
            closed.append(
                sum(kind == "default" for _, kind, *_ in rows(tmp_path / "news.sqlite"))
            )
        for i in range(3):
            served.reward(f"d{i}", i / 2)
        assert bits(served.state()) == bits(served.defined())
        return closed


@pytest.mark.usefixtures("any_arms")
def test_a_clock_that_jumps_closes_no_window(tmp_path: Path) -> None:
    hands = Hands()
    assert closed_early(tmp_path, hands.clock(), hands) == [0] * 5


def test_a_clock_that_followed_the_wall_would_close_them(tmp_path: Path) -> None:
    hands = Hands()
    follower = Clock(lambda: hands.wall, lambda: hands.wall)
    assert closed_early(tmp_path, follower, hands)[-1] > 0


@pytest.mark.usefixtures("any_arms")
def test_windows_close_once_their_time_has_passed(tmp_path: Path) -> None:
    hands = Hands()
    clock = hands.clock()
    with here(place(tmp_path, service=WINDOW), clock=clock) as served:
        one = served.experiment()
        windows = Windows(one.store, one.writer, clock, 3600.0, 0.0)
        served.decide("a")
        hands.pass_by(3599)
        assert served.portal.call(windows.close_due) == 0
        served.decide("b")
        hands.wall = 0.0  # 1970
        hands.steady += 1.5
        served.portal.call(windows.close_due)  # the service's own may have come first
        assert [(kind, id) for _, kind, id, _, _ in rows(tmp_path / "news.sqlite")][
            2:
        ] == [("default", "a")]


@pytest.mark.usefixtures("any_arms")
def test_a_clock_that_was_ahead_keeps_no_window_open(tmp_path: Path) -> None:
    """A decision was stamped in the future, the clock was set right, the service
    started anew."""
    file = place(tmp_path, service=WINDOW)
    with here(file, clock=Hands(wall=2e9).clock()) as served:
        served.decide("future")
    hands = Hands(wall=1e9)
    clock = hands.clock()
    with here(file, clock=clock) as served:
        one = served.experiment()
        windows = Windows(one.store, one.writer, clock, 3600.0, 0.0)
        for after, closed in (("now", "now"), (None, "future")):
            if after is not None:
                served.decide(after)
            hands.steady += 3601 if after is not None else 1e9
            served.portal.call(windows.close_due)
            assert [
                id
                for _, kind, id, _, _ in rows(tmp_path / "news.sqlite")
                if kind == "default"
            ][-1:] == [closed]


@pytest.mark.usefixtures("any_arms")
def test_the_posterior_does_not_depend_on_the_clock(tmp_path: Path) -> None:
    states = []
    for name, start, jump in (("a", 0.0, 0.0), ("b", 2e9, -1.9e9), ("c", -5e8, 4e9)):
        folder = tmp_path / name
        folder.mkdir()
        hands = Hands(wall=start)
        with here(
            place(folder, service="window_s = 1e9\n"), clock=hands.clock()
        ) as served:
            for i in range(6):
                served.decide(f"d{i}")
                hands.wall += jump
                served.reward(f"d{i}", i % 3 / 2)
            states.append(bits(served.state()))
    assert states[0] == states[1] == states[2]


def extremes(n: int, loss: Any, eta: float, share: float, seed: int = 0) -> int:
    """Rewards of 0 and 1 for predictions of 0, 1 and in between: how many refuted
    everybody. Weights stay weights."""
    rng = np.random.default_rng(seed)
    policy = od.GeneralizedThompsonSampling(
        od.GivenExperts(list("abcdef")), loss, eta=eta, gamma=0.01, share=share
    )
    state, refuted = policy.init(), 0
    kinds = np.array([0.0, 1.0, 0.01, 0.99, 5e-324, 1 - 2**-53, 0.5, np.nan])
    chosen, rewards = (
        kinds[rng.integers(0, 8, (n, 6))],
        rng.integers(0, 2, n).astype(float).tolist(),
    )
    chosen[rng.random((n, 6)) < 0.5] = 0.5  # so that some survive
    everyone = np.array([1.0])
    for advice, reward in zip(chosen, rewards, strict=True):
        asleep = state.log_weights if np.isnan(advice).any() else None
        decision = od.Decision(
            1, None, None, 0, everyone, advice=advice, log_weights=asleep
        )
        try:
            state = policy.update(state, decision, reward)
        except od.errors.AllExpertsRefuted:
            refuted += 1
            if share == 0:
                state = policy.init()  # go on with everybody
        weights = od.core.weights.posterior(state.log_weights)
        assert not np.isnan(state.log_weights).any()
        assert state.log_weights.max() == 0.0
        assert abs(weights.sum() - 1) <= 1e-12
    return refuted


EXTREMES = [
    (od.log_loss, 0.5, 0.0),
    (od.log_loss, 40.0, 0.02),
    (od.square_loss, 1e6, 0.0),
    (od.square_loss, 2.0, 0.1),
]


@pytest.mark.parametrize(("loss", "eta", "share"), EXTREMES)
def test_rewards_at_the_extremes(
    any_kernels: str, loss: Any, eta: float, share: float
) -> None:
    assert extremes(12_500, loss, eta, share) < 12_500


def test_the_disk_tests_fill_the_real_file(tmp_path: Path) -> None:
    """`max_page_count` makes SQLite say what a full disk makes it say."""
    with here(place(tmp_path)) as served:
        store = fill_up(served, pages=0)
        with (
            store._writing.lock,
            pytest.raises(
                sqlite3.OperationalError, match="database or disk is full"
            ) as error,
        ):
            store._writing.connection.execute(
                "create table big as select zeroblob(1000000)"
            )
        assert error.value.sqlite_errorcode == sqlite3.SQLITE_FULL
