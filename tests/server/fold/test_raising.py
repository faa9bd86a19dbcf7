"""Experts that raise while they learn, half way through writing their state: refused,
and the same bits everywhere."""

from copy import deepcopy
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.audit.walk import Ahead, StateCursor
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.fold import FoldState, advance, restore, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.fold.steps import due_after
from oddsmith.server.store import Correction, DecisionMade, DefaultReward, Event, Reward
from server.fold.memory import Memory
from server.store.samples import bits


class Raising(od.Experts):
    """Two experts that sum rewards; they write half of their state, then raise for
    rewards from `least` to `most`."""

    names, learns = ("one", "two"), True

    def __init__(self, least: float, most: float, error: type[Exception]) -> None:
        self.least, self.most, self.error = least, most, error

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return np.zeros((*shape, 2))

    def predict(self, state: Any, context: Any) -> Any:
        return np.array([[0.2, 0.5], [0.6, 0.5 + 0.4 * np.tanh(state[1] / 10)]])

    def update(self, state: Any, decision: Any, reward: Any) -> Any:
        state[0] += reward
        if self.least <= reward <= self.most:
            raise self.error("half way")
        state[1] += reward
        return state

    def fingerprint(self) -> str:
        return "raising"


ERRORS = (ZeroDivisionError, od.InvalidInput, KeyError, AttributeError)


def gts(
    least: float = 0.5, most: float = 0.8, error: type[Exception] = ZeroDivisionError
) -> Any:
    return od.GeneralizedThompsonSampling(
        Raising(least, most, error), gamma=0.1, share=0.05
    )


def log(policy: Any, n: int = 60) -> list[Event]:
    """Rewards in time, defaults, late rewards and a correction."""
    rng = np.random.default_rng(3)
    events: list[Event] = []
    for i in range(n):
        decision = od.decide(
            policy, policy.init(), None, float(rng.random()), step=i + 1
        )
        events += [
            DecisionMade(f"d{i}", decision, 0, 0.0),
            DefaultReward(f"d{i}", 0.6 if i % 7 == 0 else 0.0, 0.0),
        ]
        if i % 3:
            events.append(
                Reward(
                    f"d{max(i - i % 5, 0)}" if i % 5 == 4 else f"d{i}",
                    float(rng.random()),
                    0.0,
                )
            )
    seen: set[tuple[str, str]] = set()
    kept = []
    for event in events:
        name = (type(event).__name__, getattr(event, "id", ""))
        if name not in seen:
            seen.add(name)
            kept.append(event)
    return [*kept, Correction("d7", 0.9, 0.0, "k")]


def definition(policy: Any, store: Any, until: int) -> tuple[Any, list[int]]:
    """The fold with a copy before each step: what raises has not happened, but for the
    weights."""
    state, refused, plain = policy.init(), [], judge(policy)
    for item in due_after(store, 0, until).items:
        if not isinstance(item, Count):
            continue
        decision, before = store.decisions([item.made])[0], deepcopy(state)
        try:
            state = step(policy, state, decision, item)
        except Exception:
            refused.append(item.position)
            state = step(plain, before._replace(experts=()), decision, item)._replace(
                experts=before.experts
            )
    return state, refused


def step(policy: Any, state: Any, decision: Any, item: Count) -> Any:
    if item.before is None:
        return policy.update(state, decision, item.value)
    return policy.revise(state, decision, item.before, item.value)


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("least", "most"), [(0.5, 0.8), (0.0, 1.0), (2.0, 3.0)])
def test_the_same_bits_from_anywhere_to_anywhere(
    least: float, most: float, error: type[Exception]
) -> None:
    policy = gts(least, most, error)
    store: Any = Memory(step=1)
    store.append(*log(policy))
    head = store.head()
    wanted = {
        until: definition(policy, store, until) for until in range(1, head + 1, 6)
    } | {head: definition(policy, store, head)}
    assert bool(wanted[head][1]) == (least < 1)
    live = FoldState(policy.init(), 0, policy)
    for until, (state, refused) in wanted.items():
        whole = restore(store, policy, until=until)
        assert (bits(whole.state), list(whole.refused)) == (bits(state), refused)
        live = advance(store, policy, live, until=until)
        assert bits(live.state) == bits(state)
    for until in list(wanted)[3::8]:
        save_snapshot(store, restore(store, policy, until=until), 0.0)
    for until, (state, _) in wanted.items():
        assert bits(restore(store, policy, until=until).state) == bits(state)


def test_a_walk_over_all_states_agrees() -> None:
    policy = gts()
    store: Any = Memory(step=1)
    store.append(*log(policy))
    cursor = StateCursor(
        Ahead(store, store.head()), FoldState(policy.init(), 0, policy), None
    )
    for until in range(1, store.head() + 1, 4):
        folded, why, _ = cursor.at(until)
        assert folded is not None, why
        assert bits(folded.state) == bits(definition(policy, store, until)[0])


def test_without_copies_a_state_would_be_left_half_written(monkeypatch: Any) -> None:
    """The same test finds it."""
    monkeypatch.setattr("oddsmith.server.fold.fold.deepcopy", lambda state: state)
    with pytest.raises(AssertionError):
        test_the_same_bits_from_anywhere_to_anywhere(0.5, 0.8, ZeroDivisionError)


def test_weights_that_refuse_a_reward_cost_no_second_fold(monkeypatch: Any) -> None:
    """They come before the experts, so that nothing can be half written."""
    policy = gts(2.0, 3.0)
    store: Any = Memory(step=1)
    store.append(*log(policy, 5))
    made = store.events[0][1]
    broken = DecisionMade("x", made.decision._replace(advice=np.zeros(3)), 0, 0.0)
    store.append(broken, Reward("x", 1.0, 0.0))
    folded = restore(store, policy)
    assert (folded.refused, folded.careful) == ((store.head(),), False)


def test_memory_that_runs_out_is_no_refusal() -> None:
    """It says nothing about the reward: learning stops, and goes on when there is
    room."""
    policy = gts(error=MemoryError)
    store: Any = Memory(step=1)
    store.append(*log(policy))
    with pytest.raises(MemoryError):
        restore(store, policy)
