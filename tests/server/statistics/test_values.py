"""Values of targets against what `evaluate` makes of the same rows; from anywhere to
anywhere."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.fold import FoldState, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.arms import NamedArms
from oddsmith.server.statistics.values import Target, Value, Values, _logarithms
from oddsmith.server.store.events import ARMS, ConfigurationChange, DecisionMade
from oddsmith.server.store.protocol import Draw, Late
from server.fold.memory import Memory
from server.statistics import sum_logs
from server.statistics.sum_logs import Counted, counted, log
from server.statistics.with_sums import advance, restore, sums_of
from server.store.samples import policy

JUDGE: Any = judge(policy())
LEVEL = 0.95


def table(rows: list[Counted], names: list[str]) -> tuple[Any, Any]:
    """The rows that count as a log over these arms, as exports have them; and the
    policy's own odds."""
    odds, own, masks = (np.zeros((len(rows), len(names))) for _ in range(3))
    arms, rewards = [], []
    for at, one in enumerate(rows):
        decision = one.made.decision
        places = [
            names.index(arm)
            for arm in decision.arms or names[: len(decision.propensities)]
        ]
        odds[at, places] = decision.propensities
        masks[at, places] = True if decision.eligible is None else decision.eligible
        own[at, places] = (
            decision.propensities if one.made.own is None else one.made.own.odds
        )
        arms.append(places[decision.number])
        rewards.append(one.value)
    Log: Any = od.Log
    return Log(
        arm=arms, reward=rewards, propensities=odds, eligible=masks.astype(bool)
    ), own


def wanted(rows: list[Counted], names: list[str]) -> dict[str, ev.Estimate]:
    found, own = table(rows, names)
    settings: Any = {"level": LEVEL, "interval": "anytime"}
    terms = {"served": ev.logged(found), "policy": ev.ips(found, own)}
    terms["uniform"] = ev.ips(
        found, found.eligible / found.eligible.sum(axis=1, keepdims=True)
    )
    terms |= {
        arm: ev.ips(found, np.eye(len(names))[at]) for at, arm in enumerate(names)
    }
    return {name: ev.estimate(one, **settings) for name, one in terms.items()}


def check(value: Value, found: ev.Estimate) -> None:
    assert value.n == found.diagnostics.n
    nothing = found.diagnostics.ess > 1e100  # no row has any odds of it
    assert value.ess == (
        0.0 if nothing else pytest.approx(found.diagnostics.ess, rel=1e-9)
    )
    if found.refused:
        assert value[4:8] == (None, None, None, found.why)
    else:
        assert value[4:7] == pytest.approx(
            (found.value, found.low, found.high), abs=1e-9
        )
        assert value.refused is None


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
@pytest.mark.parametrize("shadow", [False, True])
def test_values_are_those_of_evaluate_from_anywhere_to_anywhere(
    late: Late, shadow: bool
) -> None:
    store: Any = Memory(step=1, late=late)
    store.about = {"arms": list(sum_logs.ARMS), "reward": [-1.0, 4.0]}
    events = list(log(150, shadow=shadow))
    store.append(*events)
    live = FoldState(JUDGE.init(), 0, JUDGE, sums=Sums.of(store.about))
    seen = {}
    for until in range(20, store.head() + 1, 41):
        live = advance(store, JUDGE, live, until=until)
        sums: Any = live.sums
        rows = [one for one in counted(store.events, until) if one.value is not None]
        told = list(sums.values.estimates(sums.named, LEVEL, shadow=sums.shadow))
        assert [one.name for one in told] == [
            "served",
            *["policy"] * shadow,
            "uniform",
            *sum_logs.ARMS,
        ]
        right = wanted(rows, list(sum_logs.ARMS))
        for value in told:
            check(value, right[value.name])
        seen[until] = sums_of(live)
    assert any(right[arm].refused for arm in sum_logs.ARMS) or not shadow
    save_snapshot(store, restore(store, JUDGE, until=list(seen)[1]), 0.0)
    for until, values in seen.items():
        assert restore(store, JUDGE, until=until).sums == values  # to the last bit


def test_where_all_arms_can_be_drawn_each_has_a_value() -> None:
    """The same with odds above 0: nothing is refused."""
    rng, rows, values, named = (
        np.random.default_rng(5),
        [],
        Values(),
        NamedArms(sum_logs.ARMS),
    )
    for i in range(300):
        odds = 0.9 * rng.dirichlet(np.ones(4)) + 0.025
        index = int(rng.choice(4, p=odds))
        decision = od.Decision(
            i + 1, None, None, sum_logs.ARMS[index], odds, None, index=index
        )
        made: Any = DecisionMade(f"d{i}", decision, 0, 0.0)
        rows.append(Counted(i, made, float(rng.random()), False))
        count = Count(i, i, float(rows[-1].value or 0.0))
        by_name = dict(zip(sum_logs.ARMS, odds.tolist(), strict=True))
        values.count(count, Draw.of(decision), by_name, named)
    right = wanted(rows, list(sum_logs.ARMS))
    for value in values.estimates(named, LEVEL, shadow=True):
        assert value.refused is None
        check(value, right[value.name])


def test_an_arm_that_is_added_later_could_not_be_drawn_before() -> None:
    store: Any = Memory(step=1)
    store.about = {"arms": list(sum_logs.ARMS)}
    store.append(*log(30))
    names = [*sum_logs.ARMS, "new"]
    store.append(ConfigurationChange(ARMS, names, 0.0, "k"))
    store.append(
        *[event for event in log(60) if int(getattr(event, "id", "d0")[1:]) >= 30]
    )
    sums: Any = restore(
        store, JUDGE, change=lambda policy, state, _: (policy, state)
    ).sums
    rows = [one for one in counted(store.events, store.head()) if one.value is not None]
    told = {
        value.name: value
        for value in sums.values.estimates(sums.named, LEVEL, shadow=False)
    }
    for name, found in wanted(rows, names).items():
        if name != "policy":
            check(told[name], found)
    assert "100.00% of the target's mass" in str(told["new"].refused)


def test_arms_of_calls_have_values_where_they_were_offered() -> None:
    store: Any = Memory(step=1)
    store.append(*log(250, offers=8))
    sums: Any = restore(store, JUDGE).sums
    rows = [one for one in counted(store.events, store.head()) if one.value is not None]
    told = {
        value.name: value
        for value in sums.values.estimates(sums.named, LEVEL, shadow=False)
    }
    assert told["always"].n > 50
    for arm, since in sums.named.since.items():
        mine = [one for one in rows if one.position >= since and offered(one, arm)]
        names = sorted({name for one in mine for name in one.made.decision.arms})
        if len(mine) > 1:
            check(told[arm], wanted(mine, names)[arm])
    names = sorted({name for one in rows for name in one.made.decision.arms})
    check(told["uniform"], wanted(rows, names)["uniform"])
    again = Values.from_json(sums.values.to_json())
    assert again == sums.values


def offered(one: Counted, arm: str) -> bool:
    decision = one.made.decision
    if arm not in decision.arms:
        return False
    return decision.eligible is None or bool(
        decision.eligible[decision.arms.index(arm)]
    )


def test_before_two_rewards_there_is_no_interval() -> None:
    target = Target(1, 1.0)
    assert (
        target.value("a", "arm", LEVEL).refused
        == "an interval needs at least 2 rows with rewards; got 1"
    )
    values, named = Values(), NamedArms(("a", "b"))
    for i in range(200):
        drawn = Draw("ab"[i % 2], i % 2, np.array([0.1, 0.1]))
        values.count(Count(i, i, 0.5), drawn, {"a": 0.1, "b": 0.1}, named)
    told = {value.name: value for value in values.estimates(named, LEVEL, shadow=False)}
    assert "the mean weight is above 1" in str(told["a"].refused)


@pytest.mark.parametrize("seed", range(6))
def test_no_value_is_outside_its_interval(seed: int) -> None:
    """Rewards of 1 with odds of 0.02: the mean of weighted rewards is above 1."""
    rng, total = np.random.default_rng(seed), 0.0
    target = Target()
    for _ in range(30):
        weight = float(rng.choice([0.2, 25.0], p=[0.9, 0.1]))
        target.n += 1
        target.rows += 1
        target.weight += weight
        target.squares += 30.0
        target.total += weight
        total += weight
        target.bets = target.bets + _logarithms(
            np.array([[weight]]), np.array([[1.0]])
        ).sum(axis=0)
    found = target.value("uniform", "uniform", LEVEL)
    if found.refused is not None:
        return
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.is_cut is (total / 30 > found.high)


def played(rows: int, seed: int, lost: float) -> dict[str, Value]:
    """Values of a live experiment that loses a share of the rewards of one arm."""
    rng = np.random.default_rng(seed)
    odds = {"a": 0.2, "b": 0.5, "c": 0.3}
    values, named = Values(), NamedArms(tuple(odds))
    for i, arm in enumerate(rng.choice(3, size=rows, p=list(odds.values()))):
        reward = float(rng.random() < 0.4)
        if arm == 2 and rng.random() < lost:
            continue
        drawn = Draw("abc"[arm], int(arm), np.array(list(odds.values())))
        values.count(Count(i, i, reward), drawn, odds, named)
    return {value.name: value for value in values.estimates(named, LEVEL, shadow=False)}


@pytest.mark.parametrize("seed", range(3))
def test_weights_that_are_too_light_have_no_value(seed: int) -> None:
    """Where rewards of one arm are lost more often than those of others."""
    light = played(2_000, seed, lost=0.5)
    assert "the mean weight is below 1 (e-value" in str(light["c"].refused)
    assert light["served"].refused is None
    healthy = played(2_000, seed, lost=0.0)
    assert [value.refused for value in healthy.values()] == [None] * 5


@pytest.mark.parametrize("odds", [0.01, 0.3, 0.9])
@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_evidence_of_light_weights_is_fair(odds: float, missing: float) -> None:
    """Over all that can be drawn, of n rows of weight (1 - missing) / odds or 0."""
    n = 200
    weight = (1 - missing) / odds
    drawn = np.arange(n + 1)
    found = [
        Target(n, n * weight**2 * odds, n * missing, k, 0.0, k * weight)._deflation()
        for k in drawn.tolist()
    ]
    expected = float(binom.pmf(drawn, n, odds) @ found)
    assert 0.2 < expected <= 1
    assert (np.diff(found) <= 0).all()
