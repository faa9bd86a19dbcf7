"""What experts' policies would earn, kept in the fold, against whole numbers by hand;
in any order, in both stores."""

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from math import ceil, floor, nan
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.policies.parts.choices import LARGEST
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.fold import FoldState, roster_change
from oddsmith.server.fold.fold import save_snapshot as keep
from oddsmith.server.fold.judge import judge
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.checks import ChoiceSums
from oddsmith.server.store import DecisionMade, Event, ExpertChange, Reward
from oddsmith.server.store.protocol import Draw, Late
from server.fold.memory import Memory
from server.statistics import sum_logs
from server.statistics.sum_logs import Counted, counted
from server.statistics.with_sums import advance, restore, sums_of
from server.store.samples import append, policy
from server.store.test_contract import Open, opened

__all__ = ["opened"]

JUDGE: Any = judge(policy())


def ballots(rng: np.random.Generator, n: int, k: int) -> Array:
    """Votes for one arm, shared, of any size, and of some that sleep."""
    kind = rng.integers(3)
    if kind == 0:
        votes = np.eye(k)[rng.integers(k, size=n)]
    elif kind == 1:
        cast = rng.random((n, k)) < 0.5
        votes = cast / np.maximum(cast.sum(axis=1, keepdims=True), 1)
    else:
        votes = rng.dirichlet(np.ones(k), n)
    votes[rng.random(n) < 0.1] = 0.0
    return np.asarray(votes)


def log(n: int, seed: int = 0, **more: Any) -> Iterator[Event]:
    """All that can happen, with votes; some decisions were written without."""
    rng = np.random.default_rng([seed, 1])
    for event in sum_logs.log(n, seed, **more):
        if isinstance(event, DecisionMade) and rng.random() < 0.9:
            event = replace(
                event, votes=ballots(rng, 4, len(event.decision.propensities))
            )
        yield event


def by_hand(rows: list[Counted], n_experts: int) -> tuple[int, list[list[int]]]:
    """The number of rewards, and the four sums of a sleeper and of each expert, in
    whole numbers of units."""
    sums, n = [[0] * (1 + n_experts) for _ in range(4)], 0
    for one in rows:
        votes, arm = one.made.votes, one.made.decision.number
        if votes is None or one.value is None:
            continue
        n += 1
        for place in range(1 + n_experts):
            asked = 0 < place <= len(votes) and votes[place - 1].sum() > 0
            vote = float(votes[place - 1][arm]) if asked else 0.0
            weight = (
                min(vote / float(one.made.decision.propensities[arm]), LARGEST)
                if asked
                else 1.0
            )
            earned, lost = weight * one.value, weight * (1 - one.value)
            for row, x in enumerate((earned, lost)):
                sums[row][place] += floor(Fraction(x) * 2**20)
                sums[row + 2][place] += ceil(Fraction((x - 0.5) ** 2) * 2**10)
    return n, sums


def told(sums: Any) -> tuple[int, list[list[int]]]:
    """The same of what is folded."""
    kept = ChoiceSums.from_json(sums.checks.choices.to_json())
    return kept.n, kept.sums.tolist()


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
@pytest.mark.parametrize(
    "more", [{}, {"offers": 9}, {"shadow": True}], ids=["fixed", "offers", "shadow"]
)
def test_sums_are_those_of_the_log_from_anywhere_to_anywhere(
    late: Late, more: Any
) -> None:
    store: Any = Memory(step=1, late=late)
    store.about = {} if "offers" in more else {"arms": list(sum_logs.ARMS)}
    store.append(*log(150, seed=5, **more))
    live, seen = FoldState(JUDGE.init(), 0, JUDGE, sums=Sums.of(store.about)), {}
    for until in range(9, store.head() + 1, 61):
        live = advance(store, JUDGE, live, until=until)
        n, sums = by_hand(counted(store.events, until), 4)
        assert told(live.sums) == (n, sums if n else [[0]] * 4)
        seen[until] = sums_of(live)
    keep(store, restore(store, JUDGE, until=list(seen)[2]), 0.0)
    for until, found in seen.items():
        assert restore(store, JUDGE, until=until).sums == found


def test_both_stores_fold_the_same(opened: Open) -> None:
    store, memory = opened(JUDGE), Memory(step=1)
    events = list(log(80, seed=8))
    append(store, *events)
    memory.append(*events)
    wanted: Any = by_hand(counted(memory.events, memory.head()), 4)
    assert told(sums_of(restore(store, JUDGE))) == wanted
    keep(store, restore(store, JUDGE), 0.0)
    assert told(restore(opened(JUDGE), JUDGE).sums) == wanted


def drawn(votes: Any, odds: float = 0.25) -> Draw:
    return Draw(
        "a", 0, np.array([odds, 1 - odds]), votes=np.array(votes, dtype=np.float64)
    )


def test_any_order_gives_the_same_bits() -> None:
    rng = np.random.default_rng(0)
    rows = [
        (float(rng.random()), drawn(rng.random(3), float(rng.random())))
        for _ in range(300)
    ]
    first, second = ChoiceSums(), ChoiceSums()
    for i, (reward, one) in enumerate(rows):
        first.count(Count(i, i, reward), one)
    for i in rng.permutation(300).tolist():
        reward, one = rows[i]
        second.count(Count(i, i, 1.0), one)
        second.count(Count(i, i, 0.3, 1.0), one)  # late, and later once more
        second.count(Count(i, i, reward, 0.3), one)
        second = ChoiceSums.from_json(second.to_json()) if i % 50 == 0 else second
    assert first == second
    assert first.n == second.n == 300


def test_an_expert_that_joins_would_have_done_before_as_was_done() -> None:
    store: Any = Memory(step=1)
    decision = od.Decision(
        1, None, None, "a", np.array([0.5, 0.5]), np.full(4, 0.5), index=0
    )
    votes = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.0, 0.0]])
    store.append(
        DecisionMade("d0", decision, 0, 0.0, votes=votes), Reward("d0", 1.0, 0.0)
    )
    store.append(ExpertChange("late", "added", 5.0, "k", 0.2))
    later = decision._replace(advice=np.full(5, 0.5))
    store.append(
        DecisionMade("d1", later, 0, 0.0, votes=np.vstack([votes, [1.0, 0.0]])),
        Reward("d1", 1.0, 9.0),
    )
    sums: Any = restore(store, JUDGE, change=roster_change()).sums
    n, found = told(sums)
    assert n == 2
    assert (np.array(found[0]) / 2**20).tolist() == [2.0, 4.0, 0.0, 2.0, 2.0, 3.0]
    assert (n, found) == by_hand(counted(store.events, store.head()), 5)


def test_the_first_hundred_experts_are_compared() -> None:
    sums = ChoiceSums()
    votes = np.zeros(130)
    votes[[7, 120]] = 1.0
    for i in range(4000):
        sums.count(Count(i, i, 1.0), drawn(votes, 0.5))
        sums.count(Count(i, i, 0.0), drawn(1 - votes, 0.5))
    assert sums.sums.shape == (4, 101)
    names, there = [str(i) for i in range(100)], np.ones(100, dtype=bool)
    found = sums.choices(names, 3, there)
    assert (found.policy, found.predictor, found.hidden) == ("7", "3", ())
    assert found.low > 0.5
    there[7] = False
    assert sums.choices(names, 3, there).policy == "3"
    assert sums.choices(names[:2], 1, there[:2]).policy == "1"


@pytest.mark.parametrize("odds", [0.0, -1.0, nan])
def test_odds_that_cannot_be_are_passed_over(odds: float) -> None:
    sums = ChoiceSums()
    sums.count(Count(1, 1, 1.0), drawn([1.0], odds))
    assert sums == ChoiceSums()


def test_votes_that_cannot_be_are_sleep_and_large_weights_are_cut() -> None:
    sums = ChoiceSums()
    sums.count(Count(1, 1, 1.0), drawn([nan, -0.5, 1.5, np.inf, 1.0, 0.0], 5e-324))
    kept = ChoiceSums.from_json(sums.to_json())
    assert (kept.sums[0] / 2**20).tolist() == [1.0, 1.0, 1.0, 1.0, 1.0, LARGEST, 0.0]
    assert kept.sums[2, 5] == (LARGEST - 0.5) ** 2 * 2**10
    assert kept.choices(list("abcdef"), 0, np.ones(6, dtype=bool)).low <= 0
