"""Lines that rewrite history are gathered: the state waits before the first of them,
and comes to the same bits."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.core.decision import State
from oddsmith.server.experiment.windows import Windows
from oddsmith.server.fold.fold import FoldState, restore
from oddsmith.server.fold.ladder import Ladder
from server.served import Hands, here, place, wait
from server.store.samples import bits, policy


@pytest.mark.usefixtures("any_arms")
def test_after_a_refold_the_next_one_waits(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("oddsmith.server.experiment.follower._PAUSE", 1e9)
    with here(place(tmp_path, service='late_reward = "rewrites"\n')) as served:
        follower, store = served.experiment().follower, served.experiment().store
        for id in "abcd":
            served.decide(id)
            served.reward(id, 1)
        served.state()  # else there is nothing to fold again
        served.post("correct", {"id": "a", "reward": 0, "key": "k"})
        served.state()
        assert (follower.refolds, follower.behind, follower.lag_s) == (1, 0, 0.0)
        served.decide("e")
        served.reward("e", 1)
        known = store.head()
        served.post("correct", {"id": "b", "reward": 0, "key": "k"})
        served.post("correct", {"id": "c", "reward": 0, "key": "k"})
        served.decide("f")
        served.reward("f", 1)
        wait(lambda: follower.now.position == known and follower.behind > 0)
        time.sleep(0.3)  # some looks at the log later
        assert (follower.now.position, follower.refolds) == (known, 1)
        assert follower.lag_s > 0
        assert served.decide("g")["seen"] == known
        opened = served.experiment().setup
        # an honest state
        assert bits(follower.now.state) == bits(
            restore(store, opened.policy, until=known).state
        )
        follower._next_refold = 0.0
        state = served.state()
        assert (follower.refolds, follower.behind) == (2, 0)  # one for both corrections
        assert bits(state) == bits(served.defined())


@pytest.mark.usefixtures("any_arms")
def test_late_rewards_that_arrive_rewrite_nothing(tmp_path: Path) -> None:
    """And those that rewrite do: the same rewards, one rule or the other."""
    states: dict[str, State] = {}
    for rule, refolds in (("arrives", 0), ("rewrites", 1)):
        folder = tmp_path / rule
        folder.mkdir()
        service = f'late_reward = "{rule}"\nwindow_s = 0.05\n'
        with here(place(folder, service=service)) as served:
            served.decide("a")
            wait(lambda served=served: "default" in served.get("/v1/stats")["events"])
            served.state()
            served.reward("a", 1)
            states[rule] = served.state()
            assert served.get("/v1/stats")["refolds"] == refolds
            assert bits(states[rule]) == bits(served.defined())
            assert served.get("/v1/decisions/a")["reward"] == 1
    assert bits(states["arrives"]) != bits(states["rewrites"])


def test_a_ladder_keeps_few_states_and_gives_the_newest_that_is_early_enough() -> None:
    ladder, judge = Ladder(), policy()
    assert ladder.before(10**9) is None
    for position in range(0, 100_000, 500):
        ladder.keep(
            FoldState(judge.init()._replace(learnt=position), position, judge), 500
        )
    assert len(ladder._states) < 25
    newest = ladder.before(10**9)
    assert newest is not None
    assert newest.position > 98_000
    for latest in (0, 50_000, 97_000, 99_000):
        found = ladder.before(latest)
        assert found is not None
        assert found.position <= latest
        assert latest - found.position <= max(1000, (100_000 - latest) * 2)
    ladder.cut(60_000)
    cut = ladder.before(10**9)
    assert cut is not None
    assert cut.position < 60_000


def test_a_ladder_of_large_states_keeps_the_newest_ones(monkeypatch: Any) -> None:
    monkeypatch.setattr("oddsmith.server.fold.ladder._BYTES", 3000)
    ladder, judge = Ladder(), policy()
    for position in range(0, 20_000, 1000):
        # 1,000 bytes each
        ladder.keep(FoldState((np.zeros(125), position), position, judge), 1000)
    assert [kept.position for kept in ladder._states][-1] == 19_000
    assert len(ladder._states) <= 3


@pytest.mark.usefixtures("any_arms")
def test_the_window_of_a_decision_that_was_shown_first_opens_with_the_decision(
    tmp_path: Path,
) -> None:
    hands = Hands()
    clock = hands.clock()
    with here(place(tmp_path, service="window_s = 3600\n"), clock=clock) as served:
        one = served.experiment()
        windows = Windows(one.store, one.writer, clock, 3600.0, 0.0)
        served.post("activate", {"id": "early"})
        hands.pass_by(4000)
        assert served.portal.call(windows.close_due) == 0  # there is no decision yet
        served.decide("early", deferred=True)
        hands.pass_by(3000)
        assert served.portal.call(windows.close_due) == 0
        hands.pass_by(601)
        assert served.portal.call(windows.close_due) == 1
        assert [line.kind for line in one.store.history(["early"], 99)] == [
            "activation",
            "decision",
            "default",
        ]
