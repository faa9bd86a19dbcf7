"""Digests in states are keyed by the store's secret, the same on replicas, after
restarts and in proofs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.columns import (
    Columns,
    empty_columns,
    learn_columns,
    read_context,
)
from oddsmith.experts.learners.name_table import NameTable
from oddsmith.files.state import leaves_of
from oddsmith.server.audit.proof import verify
from oddsmith.server.audit.walk import start_of
from oddsmith.server.fold.fold import restore, roster_change, save_snapshot, with_salt
from oddsmith.server.store import DecisionMade, ExpertChange, Reward, SQLiteStore
from server.store.samples import append

ARMS = {"news-17": {"topic": "tech", "age": 2}, "news-18": {"topic": "art", "age": 3}}


class Words(od.Experts):
    """One expert, by name, that says how much of a context it has learnt before."""

    learns = takes_offers = True

    def __init__(self, name: str) -> None:
        self._names = (name,)

    @property
    def names(self) -> tuple[str, ...]:
        return self._names

    def init(self, shape: tuple[int, ...] = ()) -> Columns:
        return empty_columns()

    def predict(self, state: Columns, context: Any) -> Any:
        known = np.nansum(np.sign(read_context(state, context.context)))
        return np.full((1, len(context.arms)), 0.5 + 0.1 * np.tanh(known))

    def update(self, state: Columns, decision: od.Decision, reward: Any) -> Columns:
        return learn_columns(state, decision.context)


def policy() -> Any:
    return od.GeneralizedThompsonSampling(
        od.stack(od.experts.SharedExperts(), Words("words")), gamma=0.2
    )


def live(store: SQLiteStore, made: Any, n: int, *, first: int = 0) -> None:
    """Decisions and their rewards, as they would be served."""
    for i in range(first, first + n):
        folded = restore(store, made, change=roster_change({"late": Words("late")}))
        agent = od.Agent(folded.policy, seed=i, state=folded.state)
        decision = agent.decide({"city": f"c{i % 3}", "hour": i % 5}, arms=ARMS)
        append(
            store,
            DecisionMade(f"d{i}", decision, folded.position, float(i)),
            Reward(f"d{i}", float(i % 2), float(i)),
        )


def digests(tree: Any) -> list[Any]:
    """All parts of a state that hold digests."""
    if isinstance(tree, Columns | NameTable):
        return [tree]
    return (
        [found for part in tree for found in digests(part)]
        if isinstance(tree, tuple)
        else []
    )


def check_same(one: Any, two: Any) -> None:
    for (name, mine), (_, other) in zip(leaves_of(one), leaves_of(two), strict=True):
        np.testing.assert_array_equal(mine, other, err_msg=name)


def test_every_fold_of_a_store_has_its_secret(tmp_path: Path) -> None:
    made, change = policy(), roster_change({"late": Words("late")})
    with SQLiteStore(tmp_path / "s", made, about={"seed": 3}) as store:
        live(store, made, 8)
        early = restore(store, made, change=change)
        append(store, ExpertChange("late", "added", 9.0, "k", 0.2))
        live(store, made, 8, first=8)
        whole = restore(store, made, change=change)
        parts = digests(whole.state)
        # names of arms, and the columns of both readers of words
        assert len(parts) >= 3
        for part in parts:
            assert part.salt.tobytes() == store.secret
        assert all(len(part.digests) for part in parts)
        save_snapshot(store, early, 0.0)
        check_same(restore(store, made, change=change).state, whole.state)
        levels = {
            level.name: level
            for level in verify(
                store, policy=made, bench={"late": Words("late")}
            ).levels
        }
        for level in (levels["odds"], levels["experts"]):
            assert (level.checked, level.followed, level.misses) == (16, 16, [])
        check_same(start_of(store, made).state, with_salt(made.init(), store.secret))
    with SQLiteStore(tmp_path / "s", policy(), about={"seed": 3}) as again:
        check_same(restore(again, policy(), change=change).state, whole.state)


def test_two_stores_share_no_digest_and_say_the_same(tmp_path: Path) -> None:
    said, found = [], []
    for name in ("one", "two"):
        with SQLiteStore(tmp_path / name, policy(), about={"seed": 3}) as store:
            live(store, policy(), 12)
            state = restore(store, policy()).state
            found.append(
                {digest for part in digests(state) for digest in part.digests.tolist()}
            )
            said.append(
                policy().odds(state, od.make_offer({"city": "c1"}, ARMS)).propensities
            )
    assert len(found[0]) == len(found[1]) > 5
    assert not found[0] & found[1]
    np.testing.assert_array_equal(said[0], said[1])


def test_what_has_learnt_before_keeps_its_digests() -> None:
    agent = od.Agent(policy(), seed=1)
    agent.learn(agent.decide({"city": "Rome"}, arms=["a", "b"]), 1)
    again = with_salt(agent.state, b"0123456789abcdef")
    for old, new in zip(digests(agent.state), digests(again), strict=True):
        assert new.salt.any() == (not len(old.digests))
    assert with_salt(again, b"fedcba9876543210") is again
    with pytest.raises(AttributeError):
        _ = with_salt(3, bytes(16)).salt
