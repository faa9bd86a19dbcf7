"""States that move, while others look: snapshots, the end of the service, and learning that breaks half way."""

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from service.served import Here, here, place, wait
from storage.samples import bits

COUNTER = """
import threading
import numpy as np
import oddsmith as od

class Counter(od.Experts):
    names, moves = ("one", "two"), True
    go, broken_at = threading.Event(), 1e9

    def init(self, shape=()):
        return np.zeros(shape + (1,))

    def predict(self, state, context):
        return np.array([[0.2, 0.5, 0.3 + float(state[0]) / 1000], [0.6, 0.5, 0.4]])

    def update(self, state, decision, reward):
        if state[0] >= Counter.broken_at:
            raise ZeroDivisionError("it cannot count any further")
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
    policy: Any = served.experiment().opened.policy
    bank = type(policy.experts.experts)
    bank.broken_at = 1e9
    bank.go.set()
    return bank


def many(served: Here, name: str, n: int = 30) -> None:
    """So many rewards at once that they are learnt in a thread."""
    served.post("decide/batch", {"decisions": [{"id": f"{name}{i}", "context": [0.0, 1.0]} for i in range(n)]})
    served.post("reward/batch", {"rewards": [{"id": f"{name}{i}", "reward": 1} for i in range(n)]})


def test_a_snapshot_asked_for_while_it_learns_is_of_one_position(tmp_path: Path) -> None:
    file = counting(tmp_path)
    with here(file) as served:
        bank, learner = counter(served), served.experiment().learner
        many(served, "a")
        served.state()
        bank.go.clear()
        many(served, "b")
        wait(lambda: learner.now.state.experts[0] == 31)
        saving = served.portal.start_task_soon(learner.save)  # as before contexts are erased
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


def test_ending_while_it_learns_keeps_no_half_learnt_state(tmp_path: Path) -> None:
    file = counting(tmp_path)
    with here(file) as served:
        bank, learner = counter(served), served.experiment().learner
        many(served, "a")
        served.state()
        bank.go.clear()
        many(served, "b")
        wait(lambda: learner.now.state.experts[0] == 31)
        threading.Timer(0.3, bank.go.set).start()
    with here(file) as again:
        counter(again)
        assert again.state().experts[0] == 60
        assert bits(again.state()) == bits(again.defined())


def test_a_state_that_broke_half_way_is_neither_used_nor_kept(tmp_path: Path) -> None:
    file = counting(tmp_path)
    with here(file) as served:
        bank, learner = counter(served), served.experiment().learner
        many(served, "a")
        served.state()
        position = learner.now.position
        bank.broken_at = 35
        many(served, "b")
        wait(lambda: served.ask("GET", "/readyz").status_code == 503)
        served.portal.call(learner.save)  # as before contexts are erased
        for _ in range(20):
            found = served.decide()
            assert found["seen"] == position
            record = served.get(f"/v1/decisions/{found['id']}?explain=true")
            (said,) = [row["predicted"] for row in record["experts"] if row["expert"] == "one"]
            assert said == pytest.approx({"sports": 0.2, "politics": 0.5, "tech": 0.33}[found["arm"]], abs=1e-12)
        bank.broken_at = 1e9
        assert bits(served.state()) == bits(served.defined())
    with here(file) as again:
        counter(again)
        assert again.state().experts[0] == 60
