"""Rewards and activations before their decision: kept, and said to be parked, on every
store."""

from collections.abc import Iterator

import pytest

from oddsmith.server.store import Activation, Event, Reward, Store
from server.store.samples import append, made, policy


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    made_here = request.getfixturevalue(request.param)(policy(), "first", "arrives")
    yield made_here
    made_here.close()


def test_what_comes_before_its_decision_is_parked(store: Store) -> None:
    early: list[Event] = [
        Reward("d1", 0.5, 1.0),
        Activation("d1", 1.0),
        made("d1"),
        Activation("d2", 1.0),
    ]
    assert [receipt.parked for receipt in store.append(early).result()] == [
        True,
        True,
        False,
        True,
    ]
    later: list[Event] = [
        Reward("d1", 0.5, 2.0),
        made("d2"),
        Reward("d2", 1.0, 2.0),
        Reward("d2", 0.0, 2.0),
    ]
    assert [receipt.parked for receipt in store.append(later).result()] == [
        False,
        False,
        False,
        False,
    ]


def test_it_stays_parked_until_the_decision_comes(store: Store) -> None:
    reward = Reward("d3", 0.0, 3.0)
    (first,) = store.append([reward]).result()
    (again,) = store.append([reward]).result()
    assert (first.new, first.parked, again.new, again.parked) == (
        True,
        True,
        False,
        True,
    )
    append(store, made("d3"))
    (again,) = store.append([reward]).result()
    assert (again.new, again.parked) == (False, False)
