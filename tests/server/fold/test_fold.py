"""Folds over logs in memory: from anywhere to anywhere they are the definition's, bit
for bit."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.files.fingerprint import fingerprint
from oddsmith.files.state import FORMAT, unpack
from oddsmith.policies.roster import add_expert as added
from oddsmith.policies.roster import retire_expert as retired
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.fold import advance, restore, roster_change, save_snapshot
from oddsmith.server.fold.judge import judge as judge_of
from oddsmith.server.fold.steps import Due, due_after
from oddsmith.server.store import (
    Activation,
    Correction,
    DecisionMade,
    DefaultReward,
    Event,
    ExpertChange,
    Reward,
    Snapshot,
)
from oddsmith.server.store.protocol import ContextErased, Late, Rule
from server.fold.memory import Memory
from server.store.samples import bits, made, policy, reference

JUDGE = policy()


def random_log(seed: int, n: int = 14) -> list[Event]:
    """Decisions and all that may happen to them, in any order; each kind once for each
    decision, but corrections."""
    rng = np.random.default_rng(seed)
    events: list[Event] = []
    for id in "abcd":
        events.append(made(id, deferred=bool(rng.random() < 0.4)))
        events += [
            Reward(id, float(rng.integers(5)) / 4, 0.0),
            DefaultReward(id, 0.25, 0.0),
            Activation(id, 0.0),
        ]
        events += [Correction(id, float(rng.integers(5)) / 4, 0.0, key) for key in "xy"]
    order = [events[i] for i in rng.permutation(len(events))]
    heard: set[str] = set()
    log = []
    for event in order:  # a correction needs something to correct
        if isinstance(event, Correction) and event.id not in heard:
            continue
        if isinstance(event, Reward | DefaultReward):
            heard.add(event.id)
        log.append(event)
    return log[:n]


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
@pytest.mark.parametrize(
    ("rule", "step"), [("first", 10), ("first_at_close", 10), ("sum", 10), ("first", 1)]
)
@pytest.mark.parametrize("seed", range(8))
def test_from_anywhere_to_anywhere(
    seed: int, rule: Rule, step: int, late: Late
) -> None:
    store: Any = Memory(rule, step, late)
    store.append(*random_log(seed))
    known = {
        until: restore(store, JUDGE, until=until)
        for until in range(0, store.head() + 1, step)
    }
    for until, folded in known.items():
        wanted = reference(
            JUDGE, [row for row in store.events if row[0] <= until], rule, late
        )
        assert bits(folded.state) == bits(wanted)
        assert (folded.position, folded.policy, folded.refused) == (until, JUDGE, ())
    for start, folded in known.items():
        for until in range(start, store.head() + 1, 3 * step):
            later = advance(store, JUDGE, folded, until=until)
            assert (later.position, bits(later.state)) == (
                until,
                bits(known[until].state),
            )
    for place in list(known)[::4]:
        save_snapshot(store, known[place], 0.0)
    for until, folded in known.items():
        again = restore(store, JUDGE, until=until)
        assert (again.position, bits(again.state)) == (until, bits(folded.state))
    whole = restore(store, JUDGE)
    assert (whole.position, bits(whole.state)) == (
        store.head(),
        bits(known[store.head()].state),
    )


def test_what_is_due_after_a_position() -> None:
    """Decisions made and settled since, in order; and the first settled before whose
    value is another now."""
    store: Any = Memory()
    # settled at 20 and 40
    store.append(
        made("a"), Reward("a", 1.0, 0.0), made("b"), Reward("b", 0.5, 0.0), made("c")
    )
    store.append(
        Correction("b", 0.25, 0.0, "k"),
        DefaultReward("c", 0.0, 0.0),
        Correction("a", 1.0, 0.0, "k"),
    )
    due = due_after(store, 0, 80)
    counts = [
        Count(20, 10, 1.0),
        Count(40, 30, 0.25),
        Count(70, 50, 0.0, is_default=True),
    ]
    assert [item for item in due.items if isinstance(item, Count)] == counts
    assert [item.position for item in due.items] == [10, 20, 30, 40, 50, 60, 70, 80]
    assert due.rewritten == 0
    later = due_after(store, 50, 80)
    assert [item for item in later.items if isinstance(item, Count)] == counts[2:]
    assert later.since is not None
    assert (later.since.position, later.waiting, later.oldest) == (60, 3, 0.0)
    assert later.rewritten == 40  # a's correction to what it was changes nothing
    assert due_after(store, 60, 80).rewritten == 0
    assert due_after(store, 50, 50) == Due([], 0)
    store.append(Correction("a", 0.0, 0.0, "l"))
    assert due_after(store, 50, 90).rewritten == 20


def test_a_snapshot_that_was_thinned_out_meanwhile_is_passed_over() -> None:
    store: Any = Memory()
    store.append(*random_log(3))
    for place in (40, 80, 120):
        save_snapshot(store, restore(store, JUDGE, until=place), 7.0)
    for snapshot in store.snapshots():
        assert snapshot == Snapshot(snapshot.position, fingerprint(JUDGE), FORMAT, 7.0)
        assert (
            unpack(store.content(snapshot.position), JUDGE, "it")[1]["position"]
            == snapshot.position
        )
    snapshot, _ = store.kept[120]
    store.kept[120] = (snapshot, b"")
    lie = restore(store, JUDGE, until=80)._replace(
        state=JUDGE.init()._replace(learnt=70)
    )
    save_snapshot(store, lie, 0.0)
    assert restore(store, JUDGE).state.learnt >= 70  # the newest that is still there
    assert restore(store, JUDGE, until=80).state.learnt == 70
    with pytest.raises(od.BadFile, match=r"^the snapshot at position 80 "):
        restore(store, policy(eta=0.25))
    store.kept[80] = (snapshot, b"")
    store.kept[40] = (snapshot, b"")
    assert bits(restore(store, JUDGE).state) == bits(reference(JUDGE, store.events))


def test_positions_that_are_refused() -> None:
    store: Any = Memory()
    store.append(made("a"), Reward("a", 1.0, 0.0))
    for until in (-1, 21):
        with pytest.raises(
            od.InvalidInput,
            match=rf"^until must be a position of the store, 0 to 20; got {until}$",
        ):
            restore(store, JUDGE, until=until)
    with pytest.raises(
        od.InvalidInput,
        match=r"^until must be at or after the state's position 20; got 10$",
    ):
        advance(store, JUDGE, restore(store, JUDGE), until=10)
    with pytest.raises(
        od.InvalidInput,
        match=r"^policy must have the methods init, odds and update .*; got str$",
    ):
        restore(store, "policy")  # type: ignore[arg-type]


def test_many_decisions_are_read_in_portions() -> None:
    store: Any = Memory()
    one = made("a").decision
    for i in range(1203):
        store.append(
            DecisionMade(f"d{i}", one, 0, 0.0), Reward(f"d{i}", float(i % 2), 0.0)
        )
    folded = restore(store, JUDGE)
    # with the lines of decisions 500 each
    assert store.asked == [250, 250, 250, 250, 203]
    assert folded.state.learnt == 1203
    assert bits(folded.state) == bits(reference(JUDGE, store.events))


# a reward of 1 refutes everybody
SURE = made("sure").decision._replace(advice=np.zeros(4), log_weights=None)


def test_rewards_that_nobody_can_explain_are_passed_over_and_named() -> None:
    store: Any = Memory()
    store.append(
        DecisionMade("s", SURE, 0, 0.0),
        Reward("s", 1.0, 0.0),
        made("a"),
        Reward("a", 1.0, 0.0),
    )
    store.append(DecisionMade("t", SURE, 0, 0.0), Reward("t", 1.0, 0.0))
    live = restore(store, JUDGE, until=40)
    assert live.refused == (20,)
    assert advance(store, JUDGE, live).refused == (20, 60)
    assert bits(restore(store, JUDGE).state) == bits(
        JUDGE.update(JUDGE.init(), made("a").decision, 1.0)
    )


class Touchy(od.GivenExperts):
    """Experts that learn, but not from a reward of 0.5, nor where the context was
    erased."""

    learns = True

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return (np.zeros(1),)

    def predict(self, state: Any, context: Any) -> Any:
        return super().predict((), context)

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        if reward == 0.5:
            raise od.InvalidInput("reward must not be a half; got 0.5")
        state[0][0] += reward + np.asarray(decision.context)[0, 0]
        return state


def touchy() -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(
        Touchy(("a", "b", "c", "d")), gamma=0.1, prior=[0.4, 0.3, 0.2, 0.1]
    )


def plain() -> od.GeneralizedThompsonSampling:
    return policy(share=0.0)


def test_where_only_experts_refuse_the_weights_learn_all_the_same() -> None:
    store: Any = Memory()
    store.append(
        made("a"),
        Reward("a", 1.0, 0.0),
        made("b"),
        Reward("b", 0.5, 0.0),
        made("c"),
        Reward("c", 0.0, 0.0),
    )
    store.append(
        DecisionMade("s", SURE, 0, 0.0),
        Reward("s", 0.5, 0.0),
        DecisionMade("t", SURE, 0, 0.0),
    )
    folded = restore(store, touchy())
    assert folded.refused == (40, 80)
    assert bits(folded.state.log_weights) == bits(
        reference(plain(), store.events[:6]).log_weights
    )
    assert folded.state.learnt == 3
    learnt = 1.0 + made("a").decision.context[0, 0] + made("c").decision.context[0, 0]
    assert folded.state.experts[0][0] == pytest.approx(learnt)
    linear: Any = od.LinUCB(2, 3)  # no weights to fall back on: nothing is learnt
    other: Any = Memory()
    bare = od.Decision(1, np.ones(5), None, 0, np.full(3, 1 / 3))
    other.append(DecisionMade("a", bare, 0, 0.0), Reward("a", 1.0, 0.0))
    assert restore(other, linear).refused == (20,)
    assert bits(restore(other, linear).state) == bits(linear.init())


def test_policies_without_weights_learn_from_decisions_that_carry_advice() -> None:
    store: Any = Memory()
    one = od.Decision(1, None, None, 1, np.full(3, 1 / 3), advice=np.array([0.5]))
    store.append(DecisionMade("a", one, 0, 0.0), Reward("a", 1.0, 0.0))
    counting = od.policies.UCB1(3)
    assert bits(restore(store, counting).state) == bits(
        counting.update(counting.init(), one, 1.0)
    )


def test_a_correction_of_what_was_erased_changes_the_weights_alone() -> None:
    """The experts keep what they learnt; the weights are folded anew, for they need no
    contexts."""
    store: Any = Memory()
    store.append(made("a"), Reward("a", 1.0, 0.0), made("b"), Reward("b", 0.0, 0.0))
    store.append(
        DecisionMade("s", SURE, 0, 0.0),
        Reward("s", 1.0, 0.0),
        ExpertChange("d", "retired", 0.0, "k"),
    )
    change = roster_change({})
    live = restore(store, touchy(), change=change)
    assert live.refused == (60,)
    save_snapshot(store, live, 0.0)
    store.erased = {10, 30}
    store.append(
        made("c"), Reward("c", 1.0, 0.0), ExpertChange("c", "retired", 0.0, "k")
    )
    learnt = restore(store, touchy(), change=change).state.experts[0].copy()
    store.append(Correction("a", 0.25, 0.0, "k"))
    after = restore(store, touchy(), change=change)
    judge: Any = plain()
    state = judge.update(
        judge.update(judge.init(), made("a").decision, 0.25), made("b").decision, 0.0
    )
    judge, state = retired(judge, state, "d")
    judge, state = retired(judge, judge.update(state, made("c").decision, 1.0), "c")
    assert bits(after.state.log_weights) == bits(state.log_weights)
    assert (after.state.learnt, after.position, after.refused) == (3, 110, (60,))
    assert after.state.experts[0].tolist() == learnt.tolist()
    store.kept.clear()
    with pytest.raises(ContextErased, match="was erased"):
        restore(store, touchy(), change=change)


def test_a_log_may_begin_with_a_new_expert() -> None:
    store: Any = Memory(step=1)
    store.append(ExpertChange("e", "added", 0.0, "k", 0.25))
    judge: Any = judge_of(plain())
    folded: Any = restore(store, judge, change=roster_change())
    assert folded.policy.posterior(folded.state) == pytest.approx(
        [0.3, 0.225, 0.15, 0.075, 0.25]
    )


def test_experts_that_come_and_go() -> None:
    """Each change at its place in the order of settling; older decisions are read as if
    the newcomer had slept."""
    store: Any = Memory()
    store.append(
        made("a"),
        made("b"),
        Reward("a", 1.0, 0.0),
        ExpertChange("e", "added", 0.0, "k", 0.25),
    )
    store.append(Reward("b", 0.0, 0.0), ExpertChange("a", "retired", 0.0, "k"))
    judge: Any = judge_of(plain())
    change = roster_change()
    state = judge.update(judge.init(), made("a").decision, 1.0)
    one, state = added(judge, state, "e", 0.25)
    sleeper: Any = made("b").decision
    padded = np.append(sleeper.advice, np.nan)
    drawn = (
        state.log_weights
        if sleeper.log_weights is None
        else np.append(sleeper.log_weights, -np.inf)
    )
    state = one.update(state, sleeper._replace(advice=padded, log_weights=drawn), 0.0)
    two, state = retired(one, state, "a")
    folded = restore(store, judge, change=change)
    assert bits(folded.state) == bits(state)
    assert folded.policy.experts.names == two.experts.names  # type: ignore[attr-defined]
    for until in range(0, 61, 10):
        start = restore(store, judge, until=until, change=change)
        assert bits(advance(store, judge, start, change=change).state) == bits(state)
        save_snapshot(store, start, 0.0)
        assert bits(restore(store, judge, change=change).state) == bits(state)
    newest, _ = store.kept[60]
    # thinned out meanwhile: an older one, of the roster as it was then
    store.kept[60] = (newest, b"")
    assert bits(restore(store, judge, change=change).state) == bits(state)
    live = restore(store, judge, change=change)
    store.append(Correction("a", 1.0, 0.0, "same"), Correction("a", 0.25, 0.0, "other"))
    corrected = advance(store, judge, live, change=change)
    assert (
        bits(corrected.state)
        == bits(restore(store, judge, change=change).state)
        != bits(state)
    )
    store.kept.clear()
    assert bits(corrected.state) == bits(restore(store, judge, change=change).state)
    with pytest.raises(
        od.InvalidInput,
        match=(
            r"^change must be given, because the policy changed at position 40 \(expert "
            r"added 'e'\)$"
        ),
    ):
        restore(store, judge)
