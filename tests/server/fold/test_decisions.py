"""Pages of decisions, in every database, against the list of what was written."""

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.fold import decisions as listing
from oddsmith.server.fold.decisions import ListEntry, Page, PageQuery, page_of
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    Reward,
    Store,
)
from server.store.samples import append, made, policy

Open = Callable[..., Store]
STORES = ["sqlite", "resting", "postgres"]


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest) -> Any:
    with request.getfixturevalue(request.param)(policy(), "first", "arrives") as found:
        yield found


def events(count: int, rng: np.random.Generator) -> list[list[Event]]:
    """What happens to so many decisions, each in its order."""
    stories: list[list[Event]] = []
    for number in range(count):
        id, deferred = f"d{number}", bool(rng.random() < 0.3)
        story: list[Event] = [made(id, deferred=deferred, time=float(number))]
        story += [Activation(id, 1e6)] * (deferred and bool(rng.random() < 0.5))
        story += [DefaultReward(id, 0.25, 1e6)] * bool(rng.random() < 0.3)
        story += [Reward(id, 0.5, 1e6)] * bool(rng.random() < 0.4)
        if (
            len(story) > 1
            and not isinstance(story[-1], Activation)
            and rng.random() < 0.5
        ):
            story.append(Correction(id, 0.75, 1e6, f"fix-{number}"))
        stories.append(story)
    return stories


def expected(story: list[Event]) -> tuple[float | None, bool]:
    """The reward of a decision, and whether it was activated, from what happened to
    it."""
    values = {
        type(event): event.value
        for event in story
        if isinstance(event, Correction | Reward | DefaultReward)
    }
    value = next(
        (
            values[kind]
            for kind in (Correction, Reward, DefaultReward)
            if kind in values
        ),
        None,
    )
    return value, any(isinstance(event, Activation) for event in story)


def told(one: ListEntry) -> tuple[str, int, str, float, float | None, bool]:
    value = None if isnan(one.account.value) else one.account.value
    return (
        one.line.id,
        one.line.position,
        str(one.line.arm),
        one.draw.propensity,
        value,
        one.account.shown,
    )


def pages(store: Store, **wanted: Any) -> list[Page]:
    """All pages, each from where the last one ended."""
    found = [page_of(store, store.head(), PageQuery(**wanted))]
    while found[-1].before is not None:
        found.append(
            page_of(store, store.head(), PageQuery(before=found[-1].before, **wanted))
        )
    return found


def test_pages_are_what_was_written_the_newest_first(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_CHUNK", 30)
    rng = np.random.default_rng(7)
    stories = events(90, rng)
    waiting, places = [list(story) for story in stories], dict[str, int]()
    while waiting:  # some of each, in any order
        story = waiting[rng.integers(len(waiting))]
        event = story.pop(0)
        (position,) = append(store, event)
        if isinstance(event, DecisionMade):
            places[event.id] = position
        waiting = [one for one in waiting if one]
    rows = []
    for first, *more in stories:
        assert isinstance(first, DecisionMade)
        value, shown = expected(more)
        drawn = str(first.decision.arm), float(first.decision.propensity)
        rows.append((first.id, places[first.id], *drawn, value, shown))
    rows.sort(key=lambda row: -row[1])
    arm = max({row[2] for row in rows}, key=[row[2] for row in rows].count)
    for limit in (1, 7, 89, 90, 200):
        found = pages(store, limit=limit)
        assert [told(one) for page in found for one in page.decisions] == rows
        assert [len(page.decisions) for page in found[:-1]] == [limit] * (
            len(found) - 1
        )
        assert sum(page.searched for page in found) == 90
        assert found[-1].decisions
        for rewarded in (True, False):
            chosen = [row for row in rows if (row[4] is not None) == rewarded]
            by_reward = pages(store, limit=limit, rewarded=rewarded)
            assert [told(one) for page in by_reward for one in page.decisions] == chosen
            both = pages(store, limit=limit, rewarded=rewarded, arm=arm)
            assert [told(one) for page in both for one in page.decisions] == [
                row for row in chosen if row[2] == arm
            ]


def test_a_search_ends_after_its_stretch_and_goes_on_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_SEARCHED", 10)
    monkeypatch.setattr(listing, "_CHUNK", 4)
    append(store, *(made(f"d{number}") for number in range(35)), Reward("d3", 1.0, 0.0))
    found = pages(store, rewarded=True)
    assert [page.searched for page in found] == [10, 10, 10, 5]
    assert [[one.line.id for one in page.decisions] for page in found] == [
        [],
        [],
        [],
        ["d3"],
    ]


def test_many_events_that_are_no_decisions_are_passed_in_stretches(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_LINES", 20)
    append(
        store, made("old"), *(Reward(f"r{number}", 1.0, 0.0) for number in range(50))
    )
    found = pages(store, limit=1)
    assert len(found) == 3
    assert [one.line.id for page in found for one in page.decisions] == ["old"]


def test_an_empty_log_has_an_empty_page(store: Store) -> None:
    assert page_of(store, store.head(), PageQuery()) == Page([], None, 0)


def test_new_decisions_between_two_pages_neither_repeat_nor_hide_one(
    store: Store,
) -> None:
    append(store, *(made(f"d{number}") for number in range(20)))
    seen, before = list[str](), None
    for turn in range(5):
        page = page_of(store, store.head(), PageQuery(before=before, limit=4))
        seen, before = seen + [one.line.id for one in page.decisions], page.before
        append(store, made(f"new{turn}"))
    assert seen == [f"d{number}" for number in reversed(range(20))]


def test_a_page_is_as_of_its_position(store: Store) -> None:
    first, second, third = append(store, made("d1"), made("d2"), Reward("d1", 1.0, 0.0))
    (one, other) = page_of(store, third, PageQuery()).decisions
    assert (one.line.id, other.account.value) == ("d2", 1.0)
    (one, other) = page_of(store, second, PageQuery()).decisions
    assert isnan(other.account.value)
    assert [one.line.id for one in page_of(store, first, PageQuery()).decisions] == [
        "d1"
    ]


def test_units_and_shadows_are_told(store: Store) -> None:
    plain = made("d1")
    shadow = DecisionMade(
        "d2", plain.decision, 0, 0.0, shadow=True, unit="müller", turn=1
    )
    number = od.Decision(np.int64(7), None, None, 1, np.array([0.1, 0.9]))
    append(store, plain, shadow, DecisionMade("d3", number, 0, 0.0))
    third, second, first = page_of(store, store.head(), PageQuery()).decisions
    assert (first.draw.unit, first.draw.shadow) == (None, False)
    assert (second.draw.unit, second.draw.shadow) == ("müller", True)
    assert (third.line.arm, third.draw.propensity) == ("1", 0.9)
