"""Contexts that are gone, and no snapshot that has learnt them: the service goes on,
and counts what it lost."""

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from oddsmith.server.audit import verify
from oddsmith.server.experiment.follower import Follower
from oddsmith.server.fold.fold import refold
from oddsmith.server.store import Reward, SQLiteReader
from server.http.test_offers import news
from server.served import Hands, here, place, wait

LEARNERS = 'policy.kind = "auto"\npolicy.size = "small"\n'


def learnt(served: Any, n: int) -> None:
    for i in range(n):
        served.decide(f"o{i}")
        served.reward(f"o{i}", i % 2)
        served.state()


def is_ready(served: Any) -> bool:
    return bool(served.ask("GET", "/readyz").status_code == 200)


@pytest.mark.usefixtures("any_arms")
@pytest.mark.parametrize("whole", [False, True])
def test_a_damaged_snapshot_whose_contexts_are_erased_is_no_outage(
    tmp_path: Path, whole: bool
) -> None:
    file = place(tmp_path, top="", experts=LEARNERS, service="snapshot_every = 10\n")
    hands = Hands()
    with here(file, clock=hands.clock()) as served:
        learnt(served, 33)
        served.portal.call(served.experiment().follower.save)
        served.experiment().store.erase(1e11)
    with closing(sqlite3.connect(tmp_path / "news.sqlite")) as store, store:
        if not whole:
            newest = "(select max(position) from snapshots)"
            store.execute(
                "update snapshots set content = zeroblob(100) where position = "
                f"{newest}"
            )
    with here(file, clock=hands.clock()) as served:
        wait(lambda: is_ready(served))
        lost = served.experiment().follower.refused
        assert (lost == 0) == whole
        served.decide("next")
        served.reward("next", 1)
        assert served.state().learnt == 34  # the weights have learnt all of them
    with SQLiteReader(tmp_path / "news.sqlite") as reader:
        assert (
            next(
                level for level in verify(reader).levels if level.name == "odds"
            ).misses
            == []
        )


@pytest.mark.parametrize("context", [None, {"hour": 9}], ids=repr)
def test_what_was_known_of_arms_is_erased_with_or_without_a_context(
    tmp_path: Path, context: Any
) -> None:
    asked = {"context": context, "arms": {"a": {"age": 1.0}, "b": {"age": 2.0}}}
    with here(news(tmp_path), clock=Hands().clock()) as served:
        for id in ("known", "open"):
            served.post("decide", asked | {"id": id})
        served.reward("known", 1)
        served.state()
        served.portal.call(served.experiment().follower.save)
        assert served.experiment().store.erase(1e11) == 2
        assert (
            "that of 'open' is erased" in served.reward("open", 1, status=422)["error"]
        )
        assert (is_ready(served), served.experiment().follower.refused) == (True, 0)


@pytest.mark.usefixtures("any_arms")
@pytest.mark.parametrize("broken", [False, True])
def test_a_reward_that_came_with_the_erasing_is_counted_and_learning_goes_on(
    tmp_path: Path, monkeypatch: Any, broken: bool
) -> None:
    """It was checked before its context was erased, and written after."""
    if broken:
        monkeypatch.setattr("oddsmith.server.experiment.follower.recover", refold)
    file = place(tmp_path, top="", experts=LEARNERS)
    hands = Hands()
    with here(file, clock=hands.clock()) as served:
        learnt(served, 5)
        served.decide("open")
        experiment = served.experiment()
        served.portal.call(experiment.follower.save)
        experiment.store.erase(1e11)
        experiment.store.append([Reward("open", 1.0, 1e9)]).result()
        follower: Follower = experiment.follower
        follower._wake.set() if broken else served.state()
        if broken:
            wait(lambda: "was erased" in follower.trouble)
            return
        assert (follower.trouble, follower.refused) == ("", 1)
        assert is_ready(served)
    with here(file, clock=hands.clock()) as served:
        assert is_ready(served)
