"""Sums by arm against a count of the log by hand: from anywhere to anywhere, corrected,
late, bounded."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.server.fold.accounts import Account
from oddsmith.server.fold.fold import FoldState, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.statistics import ArmCounts, ArmSum, Sums
from oddsmith.server.store import Correction, DecisionMade, DefaultReward, Event, Reward
from oddsmith.server.store.protocol import Late, Store, line_of
from server.fold.memory import Memory
from server.statistics.with_sums import advance, restore, sums_of
from server.store.samples import append, policy
from server.store.test_contract import Open, opened

__all__ = ["opened"]

JUDGE: Any = judge(policy())


def log(n: int, n_arms: int, seed: int = 0) -> Iterator[Event]:
    """Decisions over many arms, with defaults, late rewards and corrections."""
    rng, rewarded = np.random.default_rng(seed), set()
    for i in range(n):
        names = ("here", f"arm {int(n_arms * rng.random() ** 2)}")
        index = int(rng.random() < 0.8)
        drawn: Any = {"index": index, "arms": names}
        decision = od.Decision(
            i + 1,
            None,
            None,
            names[index],
            np.array([0.5, 0.5]),
            np.full(4, 0.5),
            **drawn,
        )
        yield DecisionMade(f"d{i}", decision, 0, 0.0)
        if rng.random() < 0.6:
            yield DefaultReward(f"d{i}", 0.0, 0.0)
            rewarded.add(f"d{i}")
        if i > 3 and rng.random() < 0.4:
            yield Reward(f"d{i - 3}", float(rng.random()), 0.0)
            rewarded.add(f"d{i - 3}")
        if f"d{i - 9}" in rewarded and rng.random() < 0.2:
            yield Correction(f"d{i - 9}", float(rng.random()), 0.0, f"k{i}")


def by_hand(
    events: list[tuple[int, Event]], until: int, late: Late
) -> dict[str, tuple[int, int, float]]:
    """Decided, rewarded and the rewards in sum by arm."""
    accounts: dict[str, Account] = defaultdict(lambda: Account("first", late))
    arms: dict[str, str] = {}
    for position, event in events:
        if position <= until and hasattr(event, "id"):
            accounts[event.id].take(line_of(event, position))
            if isinstance(event, DecisionMade):
                arms[event.id] = str(event.decision.arm)
    found: dict[str, tuple[int, int, float]] = {}
    for id, arm in arms.items():
        decided, rewarded, total = found.get(arm, (0, 0, 0.0))
        has = bool(accounts[id].settled)
        found[arm] = (
            decided + 1,
            rewarded + has,
            total + (accounts[id].value if has else 0.0),
        )
    return found


def check(sums: Sums | None, wanted: dict[str, tuple[int, int, float]]) -> None:
    counts = arms_of(sums)
    assert {arm: one[1:3] for arm, one in counts.by_name.items()} == {
        arm: one[:2] for arm, one in wanted.items()
    }
    for arm, (_, _, total) in wanted.items():
        assert counts.by_name[arm].total == pytest.approx(total, abs=1e-9)
    assert counts.others == ArmSum()


def arms_of(sums: Sums | None) -> ArmCounts:
    assert sums is not None
    return sums.arms


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
def test_sums_are_what_the_log_says_from_anywhere_to_anywhere(late: Late) -> None:
    store: Any = Memory(step=1, late=late)
    store.append(*log(60, 8))
    live = FoldState(JUDGE.init(), 0, JUDGE, sums=Sums())
    places = range(1, store.head() + 1, 7)
    seen = {}
    for until in places:
        live = advance(store, JUDGE, live, until=until)
        check(sums_of(live), by_hand(store.events, until, late))
        seen[until] = sums_of(live)
    for place in list(places)[2::4]:
        save_snapshot(store, restore(store, JUDGE, until=place), 0.0)
    for until in places:
        assert restore(store, JUDGE, until=until).sums == seen[until]  # to the last bit


def test_without_before_a_late_reward_would_count_twice(monkeypatch: Any) -> None:
    """The same test finds it."""
    take = Sums.take
    monkeypatch.setattr(
        Sums,
        "take",
        lambda self, step: take(
            self,
            step._replace(
                item=step.item._replace(**{"before": None} if step.decision else {})
            ),
        ),
    )
    with pytest.raises(AssertionError):
        test_sums_are_what_the_log_says_from_anywhere_to_anywhere("arrives")


def test_in_both_stores_they_are_the_same(opened: Open) -> None:
    store: Store = opened()
    append(store, *log(40, 5))
    memory: Any = Memory(step=1)
    memory.append(*log(40, 5))
    wanted = by_hand(memory.events, memory.head(), "arrives")
    folded = restore(store, policy())
    check(sums_of(folded), wanted)
    save_snapshot(store, folded, 0.0)
    assert restore(opened(), policy()).sums == folded.sums


def test_rare_arms_are_counted_together_wherever_a_fold_begins(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr("oddsmith.server.statistics.arms._NAMED", 20)
    store: Any = Memory(step=1)
    store.append(*log(400, 100, seed=1))
    wanted = by_hand(store.events, store.head(), "arrives")
    live, seen = FoldState(JUDGE.init(), 0, JUDGE, sums=Sums()), {}
    for until in range(1, store.head() + 1, 13):
        live = advance(store, JUDGE, live, until=until)
        seen[until] = sums_of(live)
        assert len(arms_of(sums_of(live)).by_name) <= 20
    for place in list(seen)[3::9]:
        save_snapshot(store, restore(store, JUDGE, until=place), 0.0)
    for until, sums in seen.items():
        assert restore(store, JUDGE, until=until).sums == sums
    counts = arms_of(sums_of(restore(store, JUDGE)))
    every = [*counts.by_name.values(), counts.others]
    for i in range(3):
        assert sum(one[1 + i] for one in every) == pytest.approx(
            sum(one[i] for one in wanted.values()), abs=1e-9
        )
    assert counts.others.decided > 0
    assert all(0 <= one.total <= one.rewarded <= one.decided for one in every)
    # the most drawn one is never forgotten
    assert counts.by_name["here"][1:3] == wanted["here"][:2]


def test_where_contexts_are_gone_corrections_are_counted_all_the_same() -> None:
    """A policy that weighs no votes cannot learn it again; what was earned is told as
    corrected."""
    ucb = od.LinUCB(1, n_arms=2)
    store: Any = Memory(step=1)
    for i in range(6):
        decision = od.Decision(i + 1, np.ones(1), None, i % 2, np.array([0.5, 0.5]))
        store.append(DecisionMade(f"d{i}", decision, 0, 0.0), Reward(f"d{i}", 1.0, 0.0))
    save_snapshot(store, restore(store, ucb), 0.0)
    store.append(Correction("d0", 0.0, 0.0, "k"))
    store.erased = set(range(1, 12))
    assert arms_of(sums_of(restore(store, ucb))).by_name["0"][1:] == (3, 3, 2.0)
