"""Arms that are added: the same state live, after a restart, from any snapshot and on a
replica, to the last bit."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.fold.fold import (
    advance,
    restore,
    restore_judge,
    roster_change,
    save_snapshot,
)
from oddsmith.server.store import (
    ConfigurationChange,
    Correction,
    DecisionMade,
    PostgresStore,
    Reward,
    SQLiteStore,
    Store,
)
from oddsmith.server.store.changes import arms_at, arms_of, arms_since
from oddsmith.server.store.protocol import Line, line_of
from server.store.postgres_server import Server
from server.store.samples import WithoutSnapshots, append, bits

Open = Callable[[od.Policy], Store]
CHANGE = roster_change()
POLICIES = {
    "learners": od.auto(["a", "b"], size="small", gamma=0.1),
    "counts": od.BetaThompsonSampling(2, gamma=0.05),
}


@pytest.fixture(params=["sqlite", "postgres"])
def opened(request: Any, tmp_path: Path) -> Iterator[Open]:
    about = {"arms": ["a", "b"]}
    with ExitStack() as stack:

        def make(policy: od.Policy) -> Store:
            if request.param == "sqlite":
                return stack.enter_context(
                    SQLiteStore(tmp_path / "events.sqlite", policy, about=about)
                )
            server: Server = request.getfixturevalue("server")
            name = request.getfixturevalue("experiment")
            return stack.enter_context(
                PostgresStore(server.url(), policy, experiment=name, about=about)
            )

        yield make


def widening(n: int) -> ConfigurationChange:
    return ConfigurationChange(
        "arms", ["a", "b", "c", "d"][:n], 1.0, f"after {n - 1} arms"
    )


@pytest.mark.parametrize("kind", POLICIES)
def test_every_fold_is_the_same(opened: Open, kind: str) -> None:
    first = POLICIES[kind]
    store = opened(first)
    rng, live, replica = (
        np.random.default_rng(3),
        restore(store, first),
        restore(store, first),
    )
    for i in range(60):
        x = rng.normal(size=2)
        drawn = od.decide(live.policy, live.state, x, float(rng.random()), step=i + 1)
        made = DecisionMade(f"d{i}", drawn._replace(context=x), live.position, float(i))
        append(
            store,
            made,
            *(
                []
                if i < 2
                else [Reward(f"d{i - 2}", float(rng.random() < 0.5), float(i))]
            ),
        )
        if i in (20, 40):
            append(store, widening(3 if i == 20 else 4))
        live = advance(store, first, live, change=CHANGE)
        if i % 13 == 0:
            save_snapshot(store, live, float(i))
        if i % 7 == 0:
            replica = advance(store, first, replica, change=CHANGE)
    append(store, Correction("d3", 0.25, 61.0, "k"))  # of a decision between two arms
    live = advance(store, first, live, change=CHANGE)
    replica = advance(store, first, replica, change=CHANGE)
    bare: Any = WithoutSnapshots(store)
    wide = first.with_arms(first.init(), ["a", "b", "c", "d"])[0]
    assert od.fingerprint(live.policy) == od.fingerprint(wide)
    assert bits(live.state) == bits(replica.state)
    assert bits(live.state) == bits(restore(store, first, change=CHANGE).state)
    assert bits(live.state) == bits(restore(bare, first, change=CHANGE).state)
    judged = restore_judge(store, first, store.head())
    assert judged is None or bits(judged.state.log_weights) == bits(
        live.state.log_weights
    )
    assert [arms for _, arms in arms_since(store)] == [
        ("a", "b"),
        ("a", "b", "c"),
        ("a", "b", "c", "d"),
    ]
    (_, (third, _), (fourth, _)) = arms_since(store)
    assert [
        len(arms_at(store, p) or ()) for p in (0, third - 1, third, fourth - 1, fourth)
    ] == [2, 2, 3, 3, 4]


def test_arms_are_added_once(opened: Open) -> None:
    store = opened(POLICIES["counts"])
    (one,) = append(store, widening(3))
    assert append(store, widening(3)) == [one]
    other = ConfigurationChange("arms", ["a", "b", "x"], 2.0, "after 2 arms")
    (receipt,) = store.append([other]).result()
    assert isinstance(receipt.refused, od.Conflict)


def test_what_is_no_list_of_arms_adds_none() -> None:
    line = line_of(widening(3), 9)
    assert arms_of(line) == ("a", "b", "c")
    assert arms_of(line_of(Reward("arms", 1.0, 0.0))) is None
    assert arms_of(line._replace(id="window_s")) is None
    for body in ("", "[]", "{}", '{"value": "abc"}', None):
        assert arms_of(line._replace(body=body)) == ()
        for policy in POLICIES.values():
            with pytest.raises(od.InvalidInput, match="arms must be"):
                CHANGE(policy, policy.init(), Line(*line._replace(body=body)))
