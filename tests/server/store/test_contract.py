"""What every store must do. A new store is one entry in STORES."""

import threading
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.fold.fold import FoldState, advance, restore, save_snapshot
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    ExpertChange,
    Line,
    MetricAmount,
    MetricCorrection,
    Receipt,
    Reward,
    Snapshot,
    Store,
)
from oddsmith.server.store.protocol import ContextErased, Late, Rule
from server.store.samples import append, bits, made, policy, reference, stored

Open = Callable[..., Store]

STORES = ["sqlite", "resting", "postgres"]  # fixtures of conftest.py


@pytest.fixture(params=STORES)
def opened(request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens the store of this test; a second call closes it and opens it again."""
    current: list[Store] = []
    make = request.getfixturevalue(request.param)

    def again(
        judge: od.Policy | None = None, rule: Rule = "first", late: Late = "arrives"
    ) -> Store:
        while current:
            current.pop().close()
        current.append(make(judge or policy(), rule, late))
        return current[-1]

    yield again
    while current:
        current.pop().close()


def test_what_is_written_comes_back_exactly(opened: Open) -> None:
    store: Store = opened()
    event = made("d1", seed=3, deferred=True, time=12.5, seen=0)
    p = append(
        store,
        event,
        Activation("d1", 13.0),
        Reward("d1", 0.1 + 0.2, 14.0),
        DefaultReward("d1", 0.0, 15.0),
    )
    assert 0 < p[0] < p[1] < p[2] < p[3]
    store = opened()
    assert store.head() == p[3]
    lines = list(store.lines(0, p[3]))
    assert lines[0] == Line(
        p[0], "decision", "d1", "", None, 12.5, True, 0, arm=str(event.decision.arm)
    )
    assert [line.value for line in lines] == [None, None, 0.1 + 0.2, 0.0]
    # equal to the last bit, context included
    assert store.decisions([p[0]]) == [event.decision]
    assert [line.position for line in store.lines(p[0], p[2])] == [p[1], p[2]]
    assert [line.position for line in store.history(["d1", "nobody"], p[1])] == [
        p[0],
        p[1],
    ]


DECISIONS = [
    od.Decision(np.int64(7), None, None, 1, np.array([0.1, 0.9])),
    od.Decision(
        None,
        "page",
        np.array([True, False, True]),
        "tech",
        np.array([0.3, 0.0, 0.7]),
        index=2,
    ),
    od.Decision(
        3,
        {"x": [1, (2.5, np.inf)]},
        None,
        0,
        np.array([1.0]),
        np.array([0.1, np.nan]),
        np.array([-0.0, 5e-324]),
    ),
    od.Decision(
        4,
        np.ones(2, dtype=np.float32),
        None,
        0,
        np.array([1.0]),
        np.array([0.1]),
        None,
        np.array([-np.inf]),
    ),
]
_MASK = np.array([False, True, True])
_OF_TWO = np.array([0.0, 0.9, 0.1])
DECISIONS += [
    od.Decision(5, None, _MASK, 1, _OF_TWO, control=control, holdout=0.1)
    for control in (_MASK / 2, np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.3, 0.7]))
]
DECISIONS.append(
    od.Decision(
        6,
        None,
        None,
        1,
        np.array([0.5, 0.5]),
        control=np.array([0.5, 0.5]),
        holdout=1e-3,
        group="control",
        unit="visitor é",
    )
)


@pytest.mark.parametrize("decision", DECISIONS, ids=range(len(DECISIONS)))
def test_every_shape_of_decision_comes_back_exactly(
    opened: Open, decision: od.Decision
) -> None:
    store = opened()
    (found,) = store.decisions(append(store, DecisionMade("a", decision, 0, 0.0)))
    assert found.to_json() == decision.to_json()
    for name in ("propensities", "advice", "bonus", "log_weights"):
        one, other = getattr(found, name), getattr(decision, name)
        assert (one is None) == (other is None)
        assert one is None or (
            one.tobytes() == other.tobytes() and one.dtype == np.float64
        )


def test_a_draw_has_the_control_of_its_decision(opened: Open) -> None:
    store = opened()
    events = [
        DecisionMade(f"d{place}", decision, 0, 0.0)
        for place, decision in enumerate(DECISIONS[4:])
    ]
    draws = store.draws(append(store, *events))
    for draw, event in zip(draws, events, strict=True):
        assert draw is not None
        assert draw.control is not None
        decision = event.decision
        assert draw.control.tobytes() == np.asarray(decision.control).tobytes()
        assert (draw.holdout, draw.group, draw.unit) == (
            decision.holdout,
            decision.group,
            decision.unit,
        )


def test_amounts_of_metrics_are_kept_once(opened: Open) -> None:
    store = opened()
    amount = MetricAmount("d1", "revenue", -34.9, 1.0)
    early = store.append([amount]).result()[0]
    assert (early.new, early.parked) == (True, True)
    receipts = store.append(
        [
            made("d1"),
            MetricAmount("d1", "revenue", -34.9, 9.0),
            MetricAmount("d1", "revenue", 5e-324, 9.0),
            MetricAmount("d1", "revenue", 1e100, 9.0, part="order-7"),
            MetricCorrection("d1", "revenue", 0.1 + 0.2, 9.0, "return"),
            MetricCorrection("d1", "revenue", 0.1 + 0.2, 9.0, "return"),
        ]
    ).result()
    assert receipts[1] == Receipt(early.position, False)
    with pytest.raises(od.Conflict, match=r"must be -34\.9, as it was first"):
        receipts[2].accepted()
    assert [receipt.new for receipt in receipts[3:]] == [True, True, False]
    store = opened()
    lines = [line for line in store.lines(0, store.head()) if "metric" in line.kind]
    assert [(line.kind, line.key, line.value) for line in lines] == [
        ("metric", "revenue", -34.9),
        ("metric", "revenue:order-7", 1e100),
        ("metric_correction", "revenue:return", 0.1 + 0.2),
    ]


@pytest.mark.parametrize(
    ("name", "value", "part"),
    [
        ("Revenue", 1.0, ""),
        ("a:b", 1.0, ""),
        ("", 1.0, ""),
        ("revenue", float("nan"), ""),
        ("revenue", float("inf"), ""),
        ("revenue", 1e101, ""),
        ("revenue", 1.0, "x" * 161),
        ("revenue", 1.0, "\x00"),
    ],
)
def test_amounts_that_no_store_can_keep_are_refused(
    name: str, value: float, part: str
) -> None:
    with pytest.raises(od.InvalidInput):
        MetricAmount("d1", name, value, 0.0, part)


def test_repeats_have_no_effect_and_other_values_are_refused(opened: Open) -> None:
    store = opened()
    event, reward = made("d1"), Reward("d1", 0.5, 1.0)
    first, second = append(store, event, reward)
    receipts = store.append(
        [
            made("d1", seed=9),
            Reward("d1", 0.5, 99.0),
            Reward("d1", 0.25, 1.0),
            made("d2"),
        ]
    ).result()
    assert receipts[0] == Receipt(first, False)
    assert receipts[1].accepted() == second
    with pytest.raises(
        od.Conflict, match=r"reward of 'd1' must be 0.5, as it was first; got 0.25"
    ):
        receipts[2].accepted()
    assert receipts[3].new  # a refused event does not harm the others
    assert store.head() == receipts[3].position > second
    assert store.decisions([first]) == [event.decision]


def test_corrections_need_a_reward_and_know_their_key(opened: Open) -> None:
    store = opened()
    append(store, made("d1"))
    (early,) = store.append([Correction("d1", 1.0, 1.0, "c1")]).result()
    with pytest.raises(od.InvalidInput, match="must have a reward to correct"):
        early.accepted()
    p = append(
        store,
        Reward("d1", 0.0, 1.0),
        Correction("d1", 1.0, 2.0, "c1"),
        Correction("d1", 0.5, 3.0, "c2"),
    )
    repeat, other = store.append(
        [Correction("d1", 1.0, 9.0, "c1"), Correction("d1", 0.9, 9.0, "c1")]
    ).result()
    assert repeat.accepted() == p[1]
    assert isinstance(other.refused, od.Conflict)


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
@pytest.mark.parametrize("rule", ["first", "first_at_close", "sum"])
def test_the_fold_is_the_definition(opened: Open, rule: Rule, late: Late) -> None:
    """Early, late, repeated, deferred, defaulted, superseded and corrected rewards, in
    one log."""
    judge = policy()
    store = opened(judge, rule, late)
    append(
        store,
        Reward("early", 1.0, 0.0),
        *(made(id) for id in ("a", "b", "early", "c", "never")),
    )
    append(
        store,
        made("hidden", deferred=True),
        Reward("hidden", 1.0, 1.0),
        Reward("b", 0.3, 1.0),
    )
    live = restore(store, judge)
    append(
        store,
        DefaultReward("a", 0.0, 2.0),
        DefaultReward("c", 0.0, 2.0),
        Activation("hidden", 2.0),
    )
    append(
        store,
        DefaultReward("b", 0.0, 2.0),
        DefaultReward("early", 0.0, 2.0),
        DefaultReward("hidden", 0.0, 3.0),
    )
    live = advance(store, judge, live)
    assert bits(live.state) == bits(reference(judge, stored(store), rule, late))
    before = live
    append(
        store,
        Reward("a", 1.0, 3.0),
        Correction("b", 0.8, 3.0, "one"),
        Correction("b", 0.7, 3.0, "two"),
    )
    live = advance(store, judge, live)
    assert (
        bits(live.state)
        == bits(reference(judge, stored(store), rule, late))
        != bits(before.state)
    )
    assert live.state.learnt == 5  # "never" has no reward
    assert bits(restore(store, judge).state) == bits(live.state)
    assert bits(restore(store, judge, until=before.position).state) == bits(
        before.state
    )


def test_parts_of_a_sum_count_when_the_window_closes(opened: Open) -> None:
    judge = policy()
    store = opened(judge, "sum")
    append(
        store,
        made("a"),
        Reward("a", 0.3, 0.0, "x"),
        Reward("a", 0.4, 0.0, "y"),
        Reward("a", 0.3, 0.0, "x"),
    )
    assert restore(store, judge).state.learnt == 0
    append(store, DefaultReward("a", 0.0, 1.0))
    expected = judge.update(judge.init(), made("a").decision, 0.7)
    assert bits(restore(store, judge).state) == bits(expected)
    append(store, Reward("a", 0.9, 0.0, "z"))
    assert bits(restore(store, judge).state) == bits(
        judge.revise(expected, made("a").decision, 0.7, 1.0)
    )
    with pytest.raises(od.BadFile, match="reward rule 'sum'; got 'first'"):
        opened(judge, "first")


def test_where_late_rewards_count_is_chosen_when_a_store_is_made(opened: Open) -> None:
    judge = policy()
    store = opened(judge, "first", "rewrites")
    append(store, made("a"), DefaultReward("a", 0.0, 1.0), Reward("a", 1.0, 2.0))
    assert bits(restore(store, judge).state) == bits(
        judge.update(judge.init(), made("a").decision, 1.0)
    )
    with pytest.raises(
        od.BadFile,
        match=(
            r"was made with late_reward = 'rewrites'.*; got late_reward = 'arrives'"
        ),
    ):
        opened(judge, "first", "arrives")
    assert opened(judge, "first", "rewrites").late == "rewrites"


def test_parts_need_the_rule_sum(opened: Open) -> None:
    with pytest.raises(od.InvalidInput, match="key must be empty"):
        opened().append([Reward("a", 0.3, 0.0, "x")])


def test_snapshots_are_used_while_they_are_true(opened: Open) -> None:
    judge = policy()
    store = opened(judge)
    rows = [(made(f"d{i}"), Reward(f"d{i}", float(i % 2), 0.0)) for i in range(6)]
    p = [position for pair in rows for position in append(store, *pair)]
    live = restore(store, judge)
    early = restore(store, judge, until=p[3])
    save_snapshot(store, early, 1.0)
    # a lie, to see which snapshot is used
    save_snapshot(store, live._replace(state=judge.init()), 2.0)
    assert [kept.position for kept in store.snapshots()] == [p[3], p[11]]
    assert isinstance(store.snapshots()[0], Snapshot)
    assert restore(store, judge).state.learnt == 0  # the lie is believed
    # settled between the two: the later snapshot is no longer true
    append(store, Correction("d3", 0.0, 3.0, "c"))
    corrected = restore(store, judge)
    assert isinstance(corrected, FoldState)
    assert bits(corrected.state) == bits(reference(judge, stored(store)))
    assert bits(advance(store, judge, live).state) == bits(corrected.state)


def test_another_policys_store_and_snapshot_are_refused(opened: Open) -> None:
    store = opened(policy())
    (p,) = append(store, made("a"))
    other = policy(gamma=0.2)
    save_snapshot(store, FoldState(other.init(), p, other), 0.0)
    with pytest.raises(
        od.BadFile,
        match=(
            rf"snapshot at position {p} was saved with another policy: policy.gamma "
            r"was 0.2"
        ),
    ):
        restore(store, policy())
    with pytest.raises(
        od.BadFile, match=r"log of another policy: policy.gamma was 0.1, is 0.2"
    ):
        opened(other)
    assert opened(policy()).head() == p


def test_erased_contexts_do_not_change_the_fold_of_fixed_experts(opened: Open) -> None:
    judge = policy()
    store = opened(judge)
    p = append(store, *(made(f"d{i}", time=float(i)) for i in range(10)))
    append(store, *(Reward(f"d{i}", 1.0, 20.0) for i in range(5)))
    before = restore(store, judge)
    assert store.erase(before=7.0) == 7
    assert store.erase(before=7.0) == 0
    assert bits(restore(store, judge).state) == bits(before.state)
    # a late reward of an erased decision still counts
    append(store, Reward("d6", 1.0, 21.0))
    assert restore(store, judge).state.learnt == 6
    kept = store.decisions([p[8]])[0]
    assert kept == made("d8", time=8.0).decision
    assert repr(store.decisions([p[0]])[0].context) == "Erased()"


@pytest.mark.parametrize(
    "judge", [od.LinUCB(2, 3), od.auto(["x", "y", "z"])], ids=["LinUCB", "auto"]
)
def test_policies_that_learn_from_contexts(opened: Open, judge: od.Policy) -> None:
    """Live, restarted and from a snapshot they are the same; a fold over erased
    contexts is refused."""
    store, rng = opened(judge), np.random.default_rng(5)
    live, p = restore(store, judge), [0]
    for i in range(12):
        decision = od.decide(
            judge, live.state, rng.normal(size=2), float(rng.random()), step=i + 1
        )
        event = DecisionMade(f"d{i}", decision, live.position, float(i))
        p += append(store, event, Reward(f"d{i}", float(i % 2), float(i)))
        live = advance(store, judge, live)
        if i == 7:
            save_snapshot(store, live, 7.0)
    whole = restore(store, judge)
    assert (
        bits(whole.state)
        == bits(live.state)
        == bits(reference(judge, stored(store), secret=store.secret))
    )
    store.erase(before=8.0)
    # the snapshot is later than what was erased
    assert bits(restore(store, judge).state) == bits(live.state)
    with pytest.raises(ContextErased, match="was erased"):
        restore(store, judge, until=p[10])
    # what is erased is not learnt again
    append(store, Correction("d2", 1.0, 20.0, "beyond"))
    after: Any = restore(store, judge).state
    assert bits(getattr(after, "experts", after)) == bits(
        getattr(live.state, "experts", live.state)
    )


def test_a_reward_that_the_policy_will_not_take_is_passed_over(opened: Open) -> None:
    judge = policy()
    store = opened(judge)
    sure = made("sure").decision
    sure = sure._replace(advice=np.zeros(4), log_weights=None)
    p = append(
        store,
        DecisionMade("sure", sure, 0, 0.0),
        Reward("sure", 1.0, 0.0),
        made("a"),
        Reward("a", 1.0, 0.0),
    )
    restored = restore(store, judge)
    assert restored.refused == (p[1],)
    assert bits(restored.state) == bits(
        judge.update(judge.init(), made("a").decision, 1.0)
    )


def test_experts_that_change_need_someone_who_knows_them(opened: Open) -> None:
    judge = policy()
    store = opened(judge)
    p = append(
        store,
        made("a"),
        Reward("a", 1.0, 0.0),
        ExpertChange("e", "added", 1.0, "k", share=0.25),
    )
    p += append(
        store, ExpertChange("a", "retired", 1.0, "k"), made("b"), Reward("b", 1.0, 0.0)
    )
    with pytest.raises(
        od.InvalidInput,
        match=f"change must be given, because the policy changed at position {p[2]}",
    ):
        restore(store, judge)
    seen: list[tuple[int, str, float | None, int]] = []

    def change(
        one: od.Policy, state: od.policies.ExpertState, line: Line
    ) -> tuple[od.Policy, object]:
        seen.append((line.position, line.kind, line.value, state.learnt))
        return one, state

    restored = restore(store, judge, change=change)
    assert seen == [(p[2], "expert added", 0.25, 1), (p[3], "expert retired", None, 1)]
    assert restored.state.learnt == 2
    save_snapshot(store, restored, 0.0)
    assert bits(restore(store, judge, change=change).state) == bits(restored.state)


def test_many_writers_lose_nothing(opened: Open) -> None:
    store = opened()
    writers, each = 16, 20

    def write(name: int) -> None:
        for i in range(each):
            append(store, made(f"{name}-{i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = list(store.lines(0, store.head()))
    assert len(lines) == writers * each == len({line.id for line in lines})
    assert all(one.position < other.position for one, other in pairwise(lines))


def test_positions_outside_the_store(opened: Open) -> None:
    judge = policy()
    store = opened(judge)
    p, head = append(store, made("a"), Reward("a", 1.0, 0.0))
    with pytest.raises(
        od.InvalidInput,
        match=f"until must be a position of the store, 0 to {head}; got {head + 1}",
    ):
        restore(store, judge, until=head + 1)
    with pytest.raises(
        od.InvalidInput,
        match=f"until must be at or after the state's position {head}; got {p}",
    ):
        advance(store, judge, restore(store, judge), until=p)
    with pytest.raises(
        od.InvalidInput, match=f"positions must be those of decisions; got {head}"
    ):
        store.decisions([p, head])
    with pytest.raises(
        od.InvalidInput, match=f"position must be that of a snapshot; got {head}"
    ):
        store.content(head)
    with pytest.raises(
        od.InvalidInput,
        match=f"a snapshot must be of a position up to {head}; got {head + 3}",
    ):
        save_snapshot(store, FoldState(judge.init(), head + 3, judge), 0.0)
