"""The memory of arms by name is bounded, the same after a fold, a save and a load, and
holds no text."""

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.decision import Decision
from oddsmith.core.policy import fold
from oddsmith.experts.learners.name_table import slots_of


def policy(most_arms: int) -> od.GeneralizedThompsonSampling:
    bank = od.experts.SharedExperts((od.experts.PooledRidge(),), most_arms=most_arms)
    return od.GeneralizedThompsonSampling(bank, od.square_loss, eta=2.0, gamma=0.02)


def stream(names: int, seed: int = 0) -> list[tuple[Decision, float]]:
    """Decisions about articles that come one after the other, and at times about one of
    the last hundred again."""
    rng = np.random.default_rng(seed)
    events, odds = [], np.array([0.5, 0.5])
    for step in range(names):
        again = max(0, step - int(rng.integers(0, 100))) if rng.random() < 0.3 else step
        arms = (f"article-{again}", f"other-{step}")
        row = {arms[0]: rng.random(2)}
        decision = Decision(
            step + 1,
            rng.random(2),
            None,
            0,
            odds,
            np.array([0.5]),
            arms=arms,
            features=row,
        )
        events.append((decision, float(rng.integers(0, 2))))
    return events


def leaves(state: Any) -> list[np.ndarray]:
    return (
        [leaf for part in state for leaf in leaves(part)]
        if isinstance(state, tuple)
        else [np.asarray(state)]
    )


def through(names: int, most_arms: int, folder: Path) -> None:
    made, events = policy(most_arms), stream(names)
    state, sizes, last_learnt = made.init(), [], {}
    for number, (decision, reward) in enumerate(events, start=1):
        state = made.update(state, decision, reward)
        last_learnt[decision.arms[0]] = number
        if number % (names // 10) == 0:
            sizes.append(sum(leaf.nbytes for leaf in leaves(state.experts)))
    full = len(sizes) * (2 * most_arms) // names + 1
    assert len(set(sizes[full:])) == 1  # flat once the bound is reached
    remembered = sorted(last_learnt, key=lambda name: -last_learnt[name])
    places = slots_of(state.experts.table, remembered)
    assert (places[:most_arms] >= 0).all()
    assert (places[most_arms:] < 0).all()  # those not learnt from for longest
    again = fold(
        policy(most_arms),
        made.init(),
        [one for one, _ in events],
        [reward for _, reward in events],
    )
    agent = od.Agent(made, seed=1, state=state)
    agent.save(folder / "agent.npz")
    loaded = od.Agent.load(folder / "agent.npz", policy(most_arms))
    for one, other, third in zip(
        leaves(state), leaves(again), leaves(loaded.state), strict=True
    ):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(one, third)


def test_names_pass_through_a_bound(tmp_path: Path) -> None:
    through(3_000, 200, tmp_path)


@pytest.mark.soak
def test_100000_names_pass_through_a_bound_of_10000(tmp_path: Path) -> None:
    through(100_000, 10_000, tmp_path)


def test_no_name_is_readable_in_a_saved_agent(tmp_path: Path) -> None:
    agent = od.Agent(od.auto(), seed=3)
    for _ in range(30):
        agent.learn(
            agent.decide(
                {"visitor": "Ada Lovelace"},
                arms={"secret-article": {"topic": "private-topic"}},
            ),
            1,
        )
    agent.save(tmp_path / "agent.npz")
    with zipfile.ZipFile(io.BytesIO((tmp_path / "agent.npz").read_bytes())) as file:
        content = b"".join(file.read(name) for name in file.namelist())
    for word in (b"secret-article", b"private-topic", b"Ada Lovelace"):
        assert word not in content
    assert b"oddsmith" in content  # teeth: the description is there, and readable


def test_states_of_learners_are_not_merged() -> None:
    made = policy(10)
    with pytest.raises(od.errors.OrderMatters, match="fixed experts"):
        made.merge(made.init(), made.init())
