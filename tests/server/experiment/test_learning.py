"""States that move, while others look: snapshots, the end of the service, and learning
that breaks half way."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.audit import verify
from oddsmith.server.experiment.follower import Follower
from oddsmith.server.experiment.windows import Windows
from oddsmith.server.fold.fold import restore
from oddsmith.server.store import SQLiteReader
from oddsmith.server.store.protocol import Erased
from oddsmith.server.store.reader import StoreReader
from server.served import Hands, Here, here, place, wait
from server.store.samples import bits

LEARNERS = 'policy.kind = "auto"\npolicy.size = "small"\n'
COUNTER = """
import threading
import numpy as np
import oddsmith as od

class Counter(od.Experts):
    names, learns, takes_offers = ("one", "two"), True, True
    go, broken_at = threading.Event(), 1e9

    def init(self, shape=()):
        return np.zeros(shape + (1,))

    def predict(self, state, context):
        return np.array([[0.2, 0.5, 0.3 + float(state[0]) / 1000], [0.6, 0.5, 0.4]])

    def update(self, state, decision, reward):
        if reward == 0:
            raise od.errors.ExpertFailed("it learns from success only")
        if state[0] >= Counter.broken_at:
            raise MemoryError("it cannot count any further")
        state += 1
        assert Counter.go.wait(30)
        return state

def bank(arms):
    return Counter()
"""


def counting(folder: Path, service: str = "") -> Path:
    module = f"counting_{folder.name}"  # a process has one module of each name
    (folder / f"{module}.py").write_text(COUNTER)
    experts = f'[experts.one]\nkind = "python"\nfactory = "{module}:bank"\n'
    return place(folder, service=service, experts=experts)


def counter(served: Here) -> Any:
    policy: Any = served.experiment().setup.policy
    bank = type(policy.experts.experts)
    bank.broken_at = 1e9
    bank.go.set()
    return bank


def many(served: Here, name: str, n: int = 30) -> None:
    """So many rewards at once that they are learnt in a thread."""
    served.post(
        "decide/batch",
        {"decisions": [{"id": f"{name}{i}", "context": [0.0, 1.0]} for i in range(n)]},
    )
    served.post(
        "reward/batch",
        {"rewards": [{"id": f"{name}{i}", "reward": 1} for i in range(n)]},
    )


def half_way(served: Here) -> tuple[Any, Follower]:
    """The bank and its learner, in the middle of learning, where it stays until
    `bank.go` is set."""
    bank, learner = counter(served), served.experiment().follower
    many(served, "a")
    served.state()
    bank.go.clear()
    many(served, "b")
    wait(lambda: learner.now.state.experts[0] == 31)
    return bank, learner


@pytest.mark.usefixtures("arms")
def test_a_snapshot_asked_for_while_it_learns_is_of_one_position(
    tmp_path: Path,
) -> None:
    file = counting(tmp_path)
    with here(file) as served:
        bank, learner = half_way(served)
        # as before contexts are erased
        saving = served.portal.start_task_soon(learner.save)
        served.portal.call(asyncio.sleep, 0.05)
        bank.go.set()
        saving.result()
        state = bits(served.state())
        snapshots = served.experiment().store.snapshots()
        learner.snapshot = learner.now.position  # keep no other at the end
    assert snapshots
    with here(file) as again:
        counter(again)
        assert bits(again.state()) == state
        assert bits(again.state()) == bits(again.defined())


@pytest.mark.usefixtures("arms")
def test_ending_while_it_learns_keeps_no_half_learnt_state(tmp_path: Path) -> None:
    file = counting(tmp_path)
    with here(file) as served:
        bank, _ = half_way(served)
        threading.Timer(0.3, bank.go.set).start()
    with here(file) as again:
        counter(again)
        assert again.state().experts[0] == 60
        assert bits(again.state()) == bits(again.defined())


@pytest.mark.usefixtures("arms")
def test_a_state_that_broke_half_way_is_neither_used_nor_kept(tmp_path: Path) -> None:
    file = counting(tmp_path)
    with here(file) as served:
        bank, learner = counter(served), served.experiment().follower
        many(served, "a")
        served.state()
        position = learner.now.position
        bank.broken_at = 35
        many(served, "b")
        wait(lambda: served.ask("GET", "/readyz").status_code == 503)
        served.portal.call(learner.save)  # as before contexts are erased
        for _ in range(20):
            found = served.decide()
            # decisions alone, which teach nothing, may be behind it
            assert found["seen"] in (position, position + 30)
            record = served.get(f"/v1/decisions/{found['id']}?explain=true")
            (said,) = [
                row["predicted"] for row in record["experts"] if row["expert"] == "one"
            ]
            assert said == pytest.approx(
                {"sports": 0.2, "politics": 0.5, "tech": 0.33}[found["arm"]], abs=1e-12
            )
        bank.broken_at = 1e9
        assert bits(served.state()) == bits(served.defined())
    with here(file) as again:
        counter(again)
        assert again.state().experts[0] == 60


@pytest.mark.usefixtures("arms")
def test_rewards_that_are_refused_are_counted_and_not_kept(tmp_path: Path) -> None:
    with here(counting(tmp_path)) as served:
        counter(served)
        for i in range(5):
            served.decide(f"d{i}")
            served.reward(f"d{i}", i % 2)
            served.state()
        assert served.get("/v1/stats")["refused"] == 3
        assert served.experiment().follower._folded.refused == ()
        served.post("correct", {"id": "d0", "reward": 1, "key": "k"})
        served.state()
        assert served.get("/v1/stats")["refused"] == 2
        served.decide("last")
    with SQLiteReader(tmp_path / "news.sqlite") as reading:
        # weights learn from what is recorded, whatever experts do
        assert verify(reading).holds


def erase(served: Here) -> None:
    """As the service does every hour."""
    experiment = served.experiment()
    served.state()
    served.portal.call(experiment.follower.save)
    assert experiment.store.erase(1e11) > 0


@pytest.mark.usefixtures("any_arms")
def test_a_reward_that_nobody_can_learn_from_any_more_is_refused(
    tmp_path: Path,
) -> None:
    """In the log it would stop learning for ever, and the next start."""
    hands = Hands()
    clock = hands.clock()
    file = place(tmp_path, top="", experts=LEARNERS, service="window_s = 3600\n")
    with here(file, clock=clock) as served:
        for id in ("old", "known"):
            served.decide(id)
        served.decide("waits", deferred=True)
        served.reward("known", 1)
        erase(served)
        assert "that of 'old' is erased" in served.reward("old", 1, status=422)["error"]
        assert (
            "that of 'waits' is erased"
            in served.post("activate", {"id": "waits"}, status=422)["error"]
        )
        assert not served.reward("known", 1)["new"]
        served.reward("known", 0, status=409)
        served.decide("young")
        batch = [{"id": id, "reward": 1} for id in ("old", "young", "early")]
        results = served.post("reward/batch", {"rewards": batch})["results"]
        assert [one.get("code", "kept") for one in results] == [
            "invalid",
            "kept",
            "kept",
        ]
        one = served.experiment()
        hands.pass_by(3601)
        served.portal.call(
            Windows(
                one.store,
                one.writer,
                clock,
                3600.0,
                0.0,
                unlearnable_ids=one.unlearnable_ids,
            ).close_due
        )
        state = bits(served.state())
        assert served.get("/readyz")["ok"]
        assert "default" not in served.get("/v1/stats")["events"]
    with here(file) as again:
        assert bits(again.state()) == state


@pytest.mark.usefixtures("any_arms")
def test_a_correction_beyond_what_was_erased_changes_weights_alone(
    tmp_path: Path,
) -> None:
    tables = (
        '[experts.learners]\nkind = "auto"\nsize = "small"\n[experts.lines]\n'
        'kind = "linear"\nfile = "lines.npz"\n'
    )
    file = place(tmp_path, top="", experts=tables)
    with here(file) as served:
        for id in "abcd":
            served.decide(id)
            served.reward(id, 1)
        erase(served)
        before = served.state()
        served.post("correct", {"id": "b", "reward": 0, "key": "k"})
        after = served.state()
        assert served.get("/readyz")["ok"]
        assert bits(after.experts) == bits(before.experts)
        assert bits(after.log_weights) != bits(before.log_weights)
        served.decide("e")
        served.reward("e", 1)
        state = bits(served.state())
    with SQLiteReader(tmp_path / "news.sqlite") as reading:
        assert verify(reading).holds  # weights are those of the corrected log
    with here(file) as again:
        assert bits(again.state()) == state


@pytest.mark.usefixtures("any_arms")
@pytest.mark.parametrize("forgets", [True, False])
def test_a_correction_after_erasing_gives_what_a_restart_would(
    tmp_path: Path, monkeypatch: Any, forgets: bool
) -> None:
    """A state in memory knows contexts that are gone: a fold that began there would
    differ from all replicas."""
    monkeypatch.setattr("oddsmith.server.fold.ladder._STEPS", 1)
    if not forgets:
        monkeypatch.setattr(Follower, "forget", lambda _: None)
    hands = Hands()
    with here(place(tmp_path, top="", experts=LEARNERS), clock=hands.clock()) as served:
        experiment = served.experiment()
        for id in "abcdefgh":
            hands.pass_by(100)
            served.decide(id)
            served.reward(id, 1)
            served.state()
        erasing = served.portal.start_task_soon(experiment._erase, 350.0)
        wait(lambda: isinstance(experiment.store.decisions([7])[0].context, Erased))
        wait(lambda: not forgets or not experiment.follower._ladder._states)
        erasing.cancel()
        monkeypatch.setattr(experiment.follower, "save", nothing)
        served.post("correct", {"id": "h", "reward": 0, "key": "k"})
        live = bits(served.state())
        restored = restore(experiment.store, experiment.setup.policy)
    assert (bits(restored.state) == live) is forgets  # the second is broken


async def nothing() -> None:
    """Keeps no snapshot."""


def test_decisions_are_counted_before_the_first_one_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is counted anew after some were made would give ids twice, within a
    millisecond."""
    order: list[str] = []
    tally, begin = StoreReader.tally, Follower.begin

    def counting(self: StoreReader) -> Any:
        order.append("counted")
        return tally(self)

    async def beginning(self: Follower) -> None:
        await begin(self)
        order.append("ready")

    monkeypatch.setattr(StoreReader, "tally", counting)
    monkeypatch.setattr(Follower, "begin", beginning)
    with here(place(tmp_path)):
        assert order[:2] == ["counted", "ready"]
