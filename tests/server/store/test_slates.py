"""The slots of a slate are kept together, in every store, whatever comes at once."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

import oddsmith as od
from oddsmith.server.store import (
    Activation,
    DecisionMade,
    Event,
    PostgresStore,
    Reward,
    Store,
)
from oddsmith.server.store.postgres.rows import GROUP, groups_of
from oddsmith.server.store.rows import EventRow, row_of
from oddsmith.server.store.slates import OfSlate, slot_id
from server.store.postgres_server import Server
from server.store.samples import append, made, policy


@pytest.fixture(params=["sqlite", "resting", "postgres"])
def store(request: pytest.FixtureRequest) -> Iterator[Store]:
    one = request.getfixturevalue(request.param)(policy(), "first", "arrives")
    yield one
    one.close()


def page(slate: str, n: int, *, seed: int = 0) -> list[DecisionMade]:
    """The decisions of a slate of so many slots."""
    ids = [slot_id(slate, str(slot)) for slot in range(1, n + 1)]
    return [
        replace(made(id, seed=seed), slate=slate, slot=slot)
        for slot, id in enumerate(ids, 1)
    ]


def news(receipts: Sequence[Any]) -> list[bool]:
    return [receipt.new for receipt in receipts]


def test_a_slate_is_read_in_the_order_of_its_slots(store: Store) -> None:
    append(store, *page("b", 12), made("alone"), *page("a", 2))
    assert [line.id for line in store.of_slate("b")] == [
        slot_id("b", str(slot)) for slot in range(1, 13)
    ]
    assert len(store.of_slate("a")) == 2
    assert store.of_slate("alone") == []
    draws = store.summaries([line.position for line in store.of_slate("a")])
    assert [(draw.slate, draw.slot) for draw in draws] == [("a", 1), ("a", 2)]


def test_a_slate_that_comes_again_with_more_slots_or_fewer_changes_nothing(
    store: Store,
) -> None:
    first = append(store, *page("s", 3))
    for n in (1, 2, 3):
        receipts = store.append(page("s", n, seed=1)).result(60)
        assert [(one.position, one.new, one.refused) for one in receipts] == [
            (p, False, None) for p in first[:n]
        ]
    *known, fourth, fifth = store.append(page("s", 5, seed=1)).result(60)
    assert [one.position for one in known] == first
    for one, slot in ((fourth, 4), (fifth, 5)):
        assert not one.new
        with pytest.raises(
            od.Conflict, match=f"slate 's' was decided before, without a slot {slot}"
        ):
            one.accepted()
    assert [line.position for line in store.of_slate("s")] == first
    assert store.tally() == {"decision": 3}


def test_two_calls_for_one_slate_in_one_group(store: Store) -> None:
    together: list[Event] = [
        *page("s", 2),
        Reward(slot_id("s", "1"), 1.0, 0.0),
        *page("s", 4, seed=1),
        *page("t", 2),
        made("x"),
    ]
    receipts = store.append(together).result(60)
    assert news(receipts) == [
        True,
        True,
        True,
        False,
        False,
        False,
        False,
        True,
        True,
        True,
    ]
    assert len(store.of_slate("s")) == 2
    assert store.tally() == {"decision": 5, "reward": 1}


def test_slots_without_their_first_one_are_kept_by_themselves(store: Store) -> None:
    """As those of a history, of which a part may be unreadable."""
    assert news(store.append(page("s", 3)[1:]).result(60)) == [True, True]
    assert news(store.append(page("s", 3)[1:]).result(60)) == [False, False]


def test_a_slot_whose_id_is_that_of_another_decision_is_not_kept(store: Store) -> None:
    append(store, made(slot_id("s", "2")))
    assert news(store.append(page("s", 3)).result(60)) == [True, False, True]
    assert len(store.of_slate("s")) == 2  # which the service answers with a conflict


def test_replicas_that_decide_one_slate_at_once_keep_one_of_them(
    server: Server, experiment: str
) -> None:
    stores = [
        PostgresStore(server.url(), policy(), experiment=experiment) for _ in range(3)
    ]
    try:
        with ThreadPoolExecutor(6) as pool:
            for turn in range(20):
                asked = [page(f"s{turn}", n, seed=n) for n in (2, 3, 5, 3, 2, 5)]
                futures = [
                    pool.submit(stores[i % 3].append, events)
                    for i, events in enumerate(asked)
                ]
                receipts = [future.result(60).result(60) for future in futures]
                written = [
                    (events, found)
                    for events, found in zip(asked, receipts, strict=True)
                    if any(news(found))
                ]
                assert len(written) == 1
                assert all(news(written[0][1]))
                assert [line.id for line in stores[0].of_slate(f"s{turn}")] == [
                    event.id for event in written[0][0]
                ]
    finally:
        for store in stores:
            store.close()


def test_groups_for_one_statement_do_not_cut_a_slate() -> None:
    sizes = [1] * 700 + [900, 1000, 3, 1000] + [1] * 50 + [1000, 1000]
    rows: list[EventRow] = []
    sample = row_of(made("sample"), "first")
    for number, size in enumerate(sizes):
        for slot in range(1, size + 1):
            if size == 1:
                rows.append(sample)
            else:
                rows.append(sample._replace(slate=f"s{number}", slot=slot))
    groups = list(groups_of(rows))
    assert [row for group in groups for row in group] == rows
    assert all(
        0 < len(group) <= GROUP and group[0].slot in (None, 1) for group in groups
    )
    assert list(groups_of([])) == [[]]


def test_ids_of_slots_are_of_one_form_and_their_own() -> None:
    texts = [
        "a",
        "b",
        "ab",
        "1",
        "11",
        "1:a",
        ":",
        "ev 1/é",
        "x" * 256,
        "x" * 255,
        "🙂",
        "2:ab",
    ]
    ids = [slot_id(slate, name) for slate in texts for name in texts]
    assert len(set(ids)) == len(ids)
    assert all(len(id) == 32 and set(id) <= set("0123456789abcdef") for id in ids)


def test_an_id_is_that_of_a_slate_or_of_a_decision(store: Store) -> None:
    append(store, *page("s", 2), made("d"))
    rows: list[tuple[list[Event], type[Exception], str]] = [
        ([made("s")], od.Conflict, "id 's' is that of a slate"),
        ([*page("d", 2)], od.Conflict, "id 'd' is that of a decision"),
        ([Reward("s", 1.0, 0.0)], OfSlate, "got 's', which is a slate"),
        ([Activation("s", 0.0)], OfSlate, "got 's', which is a slate"),
    ]
    for events, error, sentence in rows:
        # what is beside it is kept
        receipts = store.append([*events, Reward("d", 1.0, 0.0)]).result(60)
        assert [one.position for one in receipts[:-1]] == [0] * len(events)
        with pytest.raises(error, match=sentence):
            receipts[0].accepted()
    assert store.tally() == {"decision": 3, "reward": 1}
