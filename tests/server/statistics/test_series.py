"""Sums by time against plain sums over the log, from anywhere to anywhere; weights on
the way against a fold."""

from collections import defaultdict
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oddsmith.server.fold.fold import FoldState, roster_change, save_snapshot, settle
from oddsmith.server.fold.judge import judge
from oddsmith.server.fold.protocol import Step
from oddsmith.server.fold.steps import due_after, with_decisions
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.arms import NamedArms
from oddsmith.server.statistics.history import History, Mark
from oddsmith.server.statistics.series import (
    RANGES,
    ArmDraw,
    ArmRow,
    Bucket,
    Range,
    Series,
)
from oddsmith.server.store import Correction, ExpertChange
from oddsmith.server.store.events import ARMS, ConfigurationChange
from oddsmith.server.store.protocol import Late, Store
from server.fold.memory import Memory
from server.statistics import sum_logs
from server.statistics.sum_logs import Counted, counted, log
from server.statistics.with_sums import advance, restore, sums_of
from server.store.samples import append, policy
from server.store.test_contract import Open, opened

__all__ = ["opened"]

JUDGE: Any = judge(policy())
LOW, HIGH = -1.0, 4.0
SIZES: dict[Range, tuple[float, int]] = {
    "hour": (10.0, 360),
    "day": (300.0, 288),
    "week": (3600.0, 168),
}


def stored(late: Late = "arrives", *, arms: bool = True) -> Any:
    store: Any = Memory(step=1, late=late)
    store.about = {"arms": list(sum_logs.ARMS) if arms else None, "reward": [LOW, HIGH]}
    return store


def by_hand(
    rows: list[Counted], what: Range
) -> tuple[float, dict[int, dict[str, Any]]]:
    """The width of a bucket, and sums by bucket: in all and by arm, of the buckets that
    are kept."""
    times = [one.made.time for one in rows]
    width, most = SIZES.get(what, (10.0, 200))
    while (
        what == "all" and floor(max(times) / width) - floor(min(times) / width) >= 200
    ):
        width *= 2
    found: dict[int, dict[str, Any]] = defaultdict(
        lambda: defaultdict(lambda: np.zeros(6))
    )
    for one in rows:
        bucket, decision = found[floor(one.made.time / width)], one.made.decision
        for arm, odds in zip(
            decision.arms or sum_logs.ARMS, decision.propensities, strict=True
        ):
            bucket[arm] += [0, odds, 0, 0, 0, 0]
        bucket[decision.arm][0] += 1
        bucket["all of them"] += [1, 0, 0, 0, 0, 0]
        if one.value is not None:
            r = LOW + (HIGH - LOW) * one.value
            bucket[decision.arm] += [
                0,
                0,
                1,
                r,
                r / decision.propensity,
                (r / decision.propensity) ** 2,
            ]
            bucket["all of them"] += [0, 1, one.is_default, r, 0, 0]
    newest = floor(max(times) / width)
    return width, {
        index: dict(bucket) for index, bucket in found.items() if index > newest - most
    }


def counts_of(bucket: Bucket) -> list[float]:
    return [bucket.shown, bucket.counted, bucket.defaults, bucket.total]


def check(sums: Sums | None, rows: list[Counted]) -> None:
    assert sums is not None
    for what in RANGES:
        width, wanted = by_hand(rows, what)
        got_width, got = sums.series.buckets(what, sums.named)
        assert (got_width, set(got)) == (width, set(wanted))
        for index, bucket in got.items():
            known = wanted[index]
            assert counts_of(bucket) == pytest.approx(
                known.pop("all of them")[:4].tolist(), abs=1e-9
            )
            for arm, row in bucket.arms.items():
                if sums.named.are_fixed:
                    assert row.sums() == pytest.approx(
                        known.pop(arm, np.zeros(6)).tolist(), rel=1e-9, abs=1e-9
                    )
            every = [
                *bucket.arms.values(),
                *([] if bucket.others is None else [bucket.others]),
            ]
            rest = sum(known.values(), np.zeros(6))
            if not sums.named.are_fixed:
                sums_of_arms = np.sum([row.sums() for row in every], axis=0)
                assert sums_of_arms.tolist() == pytest.approx(
                    rest.tolist(), rel=1e-9, abs=1e-9
                )
                assert len(bucket.arms) <= 20
                assert all(
                    row.rewarded <= row.drawn and row.odds >= 0
                    for row in bucket.arms.values()
                )
            else:
                assert not rest.any()


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
@pytest.mark.parametrize("offers", [0, 60])
def test_sums_by_time_are_those_of_the_log_from_anywhere_to_anywhere(
    late: Late, offers: int
) -> None:
    store = stored(late, arms=not offers)
    store.append(*log(260, step_s=3000.0 if offers else 400.0, offers=offers))
    live = FoldState(JUDGE.init(), 0, JUDGE, sums=Sums.of(store.about))
    seen = {}
    for until in range(5, store.head() + 1, 83):
        live = advance(store, JUDGE, live, until=until)
        rows = counted(store.events, until)
        if rows:
            check(sums_of(live), rows)
        seen[until] = sums_of(live)
    for place in list(seen)[1::3]:
        save_snapshot(store, restore(store, JUDGE, until=place), 0.0)
    for until, sums in seen.items():
        assert restore(store, JUDGE, until=until).sums == sums  # to the last bit


def test_a_reward_that_stands_in_its_own_bucket_would_be_found(
    monkeypatch: Any,
) -> None:
    """The same test finds it."""
    count = Series.count
    monkeypatch.setattr(
        Series, "count", lambda self, time, *rest: count(self, time + 300.0, *rest)
    )
    with pytest.raises(AssertionError):
        test_sums_by_time_are_those_of_the_log_from_anywhere_to_anywhere("arrives", 0)


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 9_000_000), st.integers(0, 3)), min_size=1, max_size=60
    ),
    st.integers(0, 60),
)
def test_any_times_in_any_order_are_summed(
    draws: list[tuple[int, int]], cut: int
) -> None:
    """Clocks jump; whatever is still kept is right, and a snapshot changes nothing."""
    named, series = NamedArms(sum_logs.ARMS), Series()
    odds = dict.fromkeys(sum_logs.ARMS, 0.25)
    for position, (time, arm) in enumerate(draws):
        if position == cut:
            series = Series.from_json(series.copy().to_json())
        series.show(
            time / 10,
            ArmDraw(position, sum_logs.ARMS[arm], 0.25),
            odds,
            named,
            position,
        )
    newest = max(time // 100 for time, _ in draws)
    for what in RANGES:
        width, buckets = series.buckets(what, named)
        assert all(
            sum(row.odds for row in one.arms.values()) == pytest.approx(one.shown)
            for one in buckets.values()
        )
        if what == "all":
            assert sum(one.shown for one in buckets.values()) == len(draws)
            assert len(buckets) <= 200
        else:
            assert width == SIZES[what][0]
            assert min(buckets) > newest * 10 // width - SIZES[what][1]
            assert sum(one.shown for one in buckets.values()) <= len(draws)
    if len(draws) == len(series.hour.buckets):
        assert series.all.buckets == {}


def test_in_both_stores_they_are_the_same(opened: Open) -> None:
    store: Store = opened()
    append(store, *log(80))
    memory: Any = Memory(step=1)
    memory.append(*log(80))
    folded = restore(store, policy())
    assert plain(sums_of(folded)) == plain(sums_of(restore(memory, policy())))
    save_snapshot(store, folded, 0.0)
    assert restore(opened(), policy()).sums == folded.sums


def plain(sums: Sums | None) -> Any:
    """The sums by time without positions."""
    assert sums is not None
    buckets = sums.series.buckets("all", sums.named)[1]
    rows = [
        (index, counts_of(one), one.arms | {"": one.others or ArmRow()})
        for index, one in buckets.items()
    ]
    return [
        (index, counts, {arm: row.sums() for arm, row in arms.items()})
        for index, counts, arms in rows
    ]


def test_arms_that_are_drawn_most_are_named_and_their_draws_lie_on_their_odds() -> None:
    """1,500 draws over 40 arms, of which half change meanwhile: named ones are drawn as
    often as their odds say.

    The sum of drawn - odds over n draws has a standard error of at most sqrt(n)/2: 5 of
    them for 20 arms fail less than once in 100,000 runs.
    """
    rng, named, series = np.random.default_rng(3), NamedArms(None), Series()
    for position in range(1, 1501):
        first = 0 if position < 700 else 20
        names = [f"arm {first + i}" for i in range(40)]
        odds = rng.dirichlet(np.linspace(3, 0.1, 40))
        index = int(rng.choice(40, p=odds))
        draw = ArmDraw(position, names[index], float(odds[index]))
        series.show(
            position * 0.1,
            draw,
            dict(zip(names, odds.tolist(), strict=True)),
            named,
            position,
        )
        named.draw(names[index], position)
    assert len({f"arm {20 + i}" for i in range(20)} & set(named.since)) >= 15
    _, buckets = series.buckets("all", named)
    for arm in named.since:
        rows = [one.arms[arm] for one in buckets.values() if arm in one.arms]
        drawn, expected = sum(row.drawn for row in rows), sum(row.odds for row in rows)
        assert drawn > 0
        assert abs(drawn - expected) < 5 * np.sqrt(max(expected, 1.0))


def test_a_copy_is_not_written_into_where_the_other_goes_on() -> None:
    named, series = NamedArms(sum_logs.ARMS), Series()
    odds = dict.fromkeys(sum_logs.ARMS, 0.25)
    copies = []
    for position in range(1, 400):
        copies.append((series.copy(), Series.from_json(series.to_json())))
        draw = ArmDraw(position, "tech", 0.25)
        series.show(position * 97.0, draw, odds, named, position)
        series.count(position * 90.0, draw, 1.0, None, 0)
    assert all(one == then for one, then in copies)
    other, _ = copies[-1]
    before = Series.from_json(series.to_json())
    other.show(1e6, ArmDraw(500, "home", 0.25), odds, named, 500)
    assert series == before


def test_when_buckets_merge_later_rewards_of_an_arm_of_one_half_are_others() -> None:
    named = NamedArms(None, since={"a": 0})
    early, late = Bucket(), Bucket()
    odds = {"a": 0.5, "b": 0.5}
    of_a, of_b = ArmDraw(1, "a", 0.5), ArmDraw(2, "b", 0.5)
    early.show(of_a, odds, named, 1)
    late.show(of_b, odds, NamedArms(None, since={"b": 0}), 2)
    early.add(late, named)
    early.count(of_b, 1.0, None, 0)
    assert early.others == ArmRow(0, 0, 1.0, 1.0, 1.0, 2.0, 4.0)
    assert {arm: row.sums()[:3] for arm, row in early.arms.items()} == {
        "a": (1, 0.5, 0),
        "b": (1, 0.5, 0),
    }


def test_weights_on_the_way_are_those_of_the_fold() -> None:
    store = stored()
    change: Any = roster_change()
    store.append(*list(log(150, seed=2))[:40])
    store.append(ExpertChange("late", "added", 5.0, "k", 0.2))
    store.append(*list(log(150, seed=2))[40:])
    store.append(ExpertChange("a", "retired", 6.0, "k2"))
    whole = restore(store, JUDGE, change=change)
    sums = sums_of(whole)
    history = sums.history
    assert len(history.points) < 200
    for point in [*history.points[:3], *history.points[30::20], history.points[-1]]:
        state = restore_until(store, point.position, change)
        assert point.weights == pytest.approx(state, abs=1e-12)
    assert [
        (mark.kind, mark.name) for mark in history.marks if mark.kind != "correction"
    ] == [
        ("expert added", "late"),
        ("expert retired", "a"),
    ]
    corrected = sum(isinstance(event, Correction) for _, event in store.events)
    assert sum(mark.kind == "correction" for mark in history.marks) == corrected


def restore_until(store: Any, position: int, change: Any) -> dict[str, float]:
    """The weights after the counts up to a position, with the values that they have at
    the end of the log."""
    items = [
        item
        for item in due_after(store, 0, store.head()).items
        if item.position <= position
    ]
    folded = settle(
        FoldState(JUDGE.init(), 0, JUDGE),
        with_decisions(store, items),
        position,
        change,
    )
    return folded.policy.named_posterior(folded.state, None)


def test_points_are_thinned_evenly_and_arms_are_marked() -> None:
    history = History()
    for n in range(1, 1000):
        history.count(n, float(n), lambda: {"a": 1.0})
    assert [point.position for point in history.points] == list(range(8, 1000, 8))
    assert History.from_json(history.to_json()) == history
    store = stored()
    store.append(ConfigurationChange(ARMS, [*sum_logs.ARMS, "new", "newer"], 7.0, "k"))
    sums = Sums.of(store.about)
    for line in store.lines(0, store.head()):
        sums.take(Step(line))
    assert sums.history.marks == [(1, 7.0, "arms added", "new, newer", None)]
    assert sums.named.arms == (*sum_logs.ARMS, "new", "newer")


def test_of_many_experts_and_corrections_the_last_and_heaviest_are_kept() -> None:
    history = History()
    history.count(1, 0.0, lambda: {f"e{i}": i / 4950 for i in range(100)})
    assert list(history.points[0].weights)[:2] == ["e99", "e98"]
    assert len(history.points[0].weights) == 50
    assert history.points[0].others == pytest.approx(sum(range(50)) / 4950)
    assert History.from_json(history.to_json()) == history
    history.mark(Mark(1, 0.0, "expert added", "a"))
    for i in range(150):
        history.mark(Mark(2 + i, 0.0, "correction", f"d{i}"))
    assert len(history.marks) == 101
    assert history.marks[0].kind == "expert added"
    assert history.marks[1].name == "d50"


def test_sums_that_a_snapshot_has_in_another_form_are_folded_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = stored()
    store.append(*log(60))
    wanted = restore(store, JUDGE)
    with monkeypatch.context() as patch:
        patch.setattr("oddsmith.server.statistics.every.FORM", "older")
        save_snapshot(store, restore(store, JUDGE, until=store.head() // 2), 0.0)
    found = restore(store, JUDGE)
    assert (sums_of(found).series, sums_of(found).arms) == (
        sums_of(wanted).series,
        sums_of(wanted).arms,
    )
    assert (
        sums_of(found).history.points
        == sums_of(wanted).history.points[-len(sums_of(found).history.points) :]
    )


def test_what_has_just_come_is_named_soon_and_keeps_its_name() -> None:
    named = NamedArms(None)
    for position in range(1, 1501):
        named.draw(f"arm-{position % 15}", position)
    old = dict(named.since)
    assert len(old) == 15
    for position in range(1501, 2301):
        named.draw("new" if position % 4 else f"arm-{position % 15}", position)
    # the first look at which it had been drawn more than any other
    assert named.since["new"] <= 1700
    assert {arm: named.since[arm] for arm in old} == old
