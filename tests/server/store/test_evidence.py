"""What every store must do with votes, reward windows, and what is said about an
experiment."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.fold.fold import restore
from oddsmith.server.store import (
    Activation,
    DefaultReward,
    Evidence,
    ExpertChange,
    Reward,
    Window,
)
from oddsmith.server.store.protocol import Rule
from server.store.samples import append, bits, fixed, made, policy
from server.store.test_contract import Open, opened

__all__ = ["opened"]


VOTES = [
    np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]]),
    np.array([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]),
    np.array([[0.1, 0.2, 0.7], [np.nan, 0.0, 1.0]]),
]


@pytest.mark.parametrize("votes", VOTES, ids=["whole", "shared", "soft"])
def test_votes_come_back_exactly(opened: Open, votes: Any) -> None:
    store = opened()
    event = fixed("d1")
    p = append(store, replace(event, votes=votes), replace(fixed("d2"), shadow=True))
    first, second = store.evidence(p)
    assert first.votes is not None
    np.testing.assert_array_equal(first.votes, votes)
    assert (first.shadow, second) == (False, Evidence(None, True))
    assert store.decisions(p[:1]) == [event.decision]
    with pytest.raises(
        od.InvalidInput, match=r"votes must be ballots over the 3 arms, \(N, 3\)"
    ):
        replace(event, votes=np.ones((2, 2)))


@pytest.mark.parametrize("rule", ["first", "first_at_close", "sum"])
def test_windows_open_with_decisions_or_their_activation(
    opened: Open, rule: Rule
) -> None:
    store = opened(rule=rule)
    opening = (
        fixed("a", time=1.0),
        fixed("b", time=2.0, deferred=True),
        fixed("c", time=3.0),
        Activation("b", 9.0),
    )
    p = append(store, *opening)
    append(store, Reward("a", 1.0, 10.0), DefaultReward("c", 0.0, 11.0))
    windows = [
        Window(p[0], "a", 1.0, rule == "first"),
        Window(p[2], "c", 3.0, True),
        Window(p[3], "b", 9.0, False),
    ]
    assert store.windows(0, 10) == windows
    assert store.windows(p[0], 1) == windows[1:2]


def test_a_first_reward_at_close_counts_when_its_absence_would(opened: Open) -> None:
    """A click and its absence are learnt at the same moment, so that what is learnt is
    never one-sided."""
    judge = policy()
    store = opened(judge, "first_at_close")
    append(store, made("a"), made("b"), Reward("a", 1.0, 0.0))
    assert restore(store, judge).state.learnt == 0
    append(store, DefaultReward("a", 0.0, 1.0), DefaultReward("b", 0.0, 1.0))
    expected = judge.update(
        judge.update(judge.init(), made("a").decision, 1.0), made("b").decision, 0.0
    )
    assert bits(restore(store, judge).state) == bits(expected)
    append(store, Reward("b", 1.0, 2.0))
    assert bits(restore(store, judge).state) == bits(
        judge.revise(expected, made("b").decision, 0.0, 1.0)
    )
    with pytest.raises(
        od.InvalidInput, match="key must be empty where the first reward counts"
    ):
        append(store, Reward("a", 1.0, 0.0, "x"))


def test_anyone_may_read_what_is_said_about_it(opened: Open) -> None:
    assert opened().about == {}


def test_events_are_counted_and_changes_of_experts_found(opened: Open) -> None:
    store = opened()
    assert (store.tally(), store.changes()) == ({}, [])
    append(
        store,
        fixed("a"),
        ExpertChange("e", "added", 1.0, "k", share=0.25),
        Reward("a", 1.0, 0.0),
        fixed("b"),
    )
    append(store, ExpertChange("e", "retired", 2.0, "k"))
    assert store.tally() == {
        "decision": 2,
        "reward": 1,
        "expert added": 1,
        "expert retired": 1,
    }
    assert [(line.kind, line.id, line.value) for line in store.changes()] == [
        ("expert added", "e", 0.25),
        ("expert retired", "e", None),
    ]


def test_what_was_counted_is_not_counted_again(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    store: Any = opened()
    append(store, fixed("a"), fixed("b"), Reward("a", 1.0, 0.0))
    counted, asked, read = store.tally(), list[tuple[object, ...]](), store._fetch
    position = store.head()

    def heard(query: str, *values: object, **more: Any) -> Any:
        asked.append((query, *values))
        return read(query, *values, **more)

    monkeypatch.setattr(store, "_fetch", heard)
    counted["decision"] = 99  # the caller's own
    append(
        store,
        fixed("c"),
        Reward("b", 1.0, 0.0),
        ExpertChange("e", "added", 1.0, "k", share=0.25),
    )
    assert [store.tally() for _ in range(2)] == [
        {"decision": 3, "reward": 2, "expert added": 1}
    ] * 2
    counts = [one for one in asked if "count(*)" in str(one[0])]
    assert counts == [(store.queries.tally_on, position, store.head())]
