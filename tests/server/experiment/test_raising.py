"""Experts whose `update` raises, half way through writing: the experiment goes on, live
and after a restart."""

from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.audit import verify
from oddsmith.server.fold.fold import restore
from oddsmith.server.store import SQLiteReader
from server.served import Here, here, place
from server.store.samples import WithoutSnapshots, bits

RAISING = """
import numpy as np
import oddsmith as od

class Picky(od.Experts):
    names, learns, takes_offers = ("one", "two"), True, True

    def init(self, shape=()):
        return np.zeros(shape + (2,))

    def predict(self, state, context):
        return np.array([[0.2, 0.5, 0.4], [0.6, 0.5, 0.5 + 0.4 * np.tanh(state[1] / 10)]])

    def update(self, state, decision, reward):
        state[0] += 1
        if reward > {most}:
            raise ZeroDivisionError("half way")
        state[1] += reward
        return state

def bank(arms):
    return Picky()
"""


def picky(folder: Path, most: float, service: str = "") -> Path:
    module = f"picky_{folder.name}"  # a process has one module of each name
    (folder / f"{module}.py").write_text(RAISING.format(most=most))
    return place(
        folder,
        service=service,
        experts=f'[experts.one]\nkind = "python"\nfactory = "{module}:bank"\n',
    )


def lives(served: Here, name: str) -> Any:
    """Rewards one at a time, many at once, and one that is corrected; the state they
    lead to."""
    for i in range(8):
        served.decide(f"{name}{i}")
        served.reward(f"{name}{i}", i / 10)
    served.state()
    many = [f"{name}-many-{i}" for i in range(30)]
    served.post(
        "decide/batch",
        {"decisions": [{"id": id, "context": [0.0, 1.0]} for id in many]},
    )
    served.post(
        "reward/batch",
        {"rewards": [{"id": id, "reward": i % 10 / 10} for i, id in enumerate(many)]},
    )
    served.state()
    served.post("correct", {"id": f"{name}2", "reward": 0.9, "key": "k"})
    return served.state()


@pytest.mark.usefixtures("arms")
@pytest.mark.parametrize(("most", "refused"), [(0.45, 19), (-1.0, 38)])
def test_rewards_that_an_expert_raises_on_are_refused_for_it_alone(
    tmp_path: Path, most: float, refused: int
) -> None:
    file = picky(tmp_path, most, "snapshot_every = 16\n")
    with here(file) as served:
        state = lives(served, "a")
        assert served.get("/readyz")["ok"]
        assert served.get("/v1/posterior")["learnt"] == 38
        # what was written before it raised is taken back
        assert state.experts[0] == 38 - refused
        opened = served.experiment().setup
        replica: Any = WithoutSnapshots(opened.store)
        whole = restore(replica, opened.policy)
        assert (bits(whole.state), len(whole.refused)) == (bits(state), refused)
    with here(file) as again:
        assert bits(again.state()) == bits(state)
        state = bits(lives(again, "b"))
    with here(file) as again:
        assert bits(again.state()) == state
    with SQLiteReader(tmp_path / "news.sqlite") as reading:
        # weights learn from what is recorded, whatever experts do
        assert verify(reading).holds


def test_without_copies_the_state_would_be_half_written(
    tmp_path: Path, monkeypatch: Any
) -> None:
    """The same test finds it."""
    monkeypatch.setattr("oddsmith.server.fold.fold.deepcopy", lambda state: state)
    with pytest.raises(AssertionError):
        test_rewards_that_an_expert_raises_on_are_refused_for_it_alone(
            tmp_path, 0.45, 19
        )
