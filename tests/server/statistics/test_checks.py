"""Bets against logged odds and against experts, kept in the fold, against the log by
hand; and their error rates."""

from math import log, log1p
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.evaluation.calibration import STAKES
from oddsmith.evaluation.draws import ALARM, StandingBets, standing_bets
from oddsmith.server.fold.fold import FoldState, roster_change, save_snapshot
from oddsmith.server.fold.judge import judge
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.checks import Calibration
from oddsmith.server.store import DecisionMade, ExpertChange, Reward
from oddsmith.server.store.protocol import Late
from server.fold.memory import Memory
from server.statistics import sum_logs
from server.statistics.sum_logs import Counted, counted
from server.statistics.sum_logs import log as events_of
from server.statistics.with_sums import advance, restore, sums_of
from server.store.samples import EXPERTS, policy

JUDGE: Any = judge(policy())
Log: Any = od.Log


def served_log(rows: list[Counted]) -> Any:
    """The decisions that were shown, as exports have them."""
    decisions = [one.made.decision for one in rows]
    odds = np.array([one.propensities for one in decisions])
    arm = [one.number for one in decisions]
    return Log(
        arm=arm,
        reward=np.full(len(rows), np.nan),
        propensities=odds,
        arms=sum_logs.ARMS,
    )


def calibrated(rows: list[Counted]) -> dict[str, tuple[float, int, float]]:
    """Mean loss, number of rewards and e-value of each expert, straight from the
    definition."""
    found = {}
    for place, name in enumerate(EXPERTS):
        advice: Any = [one.made.decision.advice for one in rows]
        pairs = [
            (float(row[place]), one.value or 0.0)
            for row, one in zip(advice, rows, strict=True)
        ]
        losses = [-r * log(f) - (1 - r) * log(1 - f) for f, r in pairs]
        money = [
            sum(log1p(stake * d(f) * (r - f)) for f, r in pairs)
            for d in (lambda f: 1.0, lambda f: 2 * f - 1)
            for stake in STAKES
        ]
        found[name] = float(np.mean(losses)), len(losses), float(np.mean(np.exp(money)))
    return found


@pytest.mark.parametrize("late", ["arrives", "rewrites"])
def test_checks_are_those_of_the_log_from_anywhere_to_anywhere(late: Late) -> None:
    store: Any = Memory(step=1, late=late)
    store.about = {"arms": list(sum_logs.ARMS)}
    store.append(*events_of(120, seed=3))
    live, seen = FoldState(JUDGE.init(), 0, JUDGE, sums=Sums.of(store.about)), {}
    for until in range(9, store.head() + 1, 37):
        live = advance(store, JUDGE, live, until=until)
        sums: Any = live.sums
        rows, checks = counted(store.events, until), sums.checks
        known = [one for one in rows if one.value is not None]
        assert (checks.shown, checks.counted) == (len(rows), len(known))
        assert checks.defaults == sum(one.is_default for one in known)
        assert checks.last_decision == max(
            (one.made.time for one in rows), default=None
        )
        told, wanted = checks.bets.summary(), standing_bets(served_log(rows))
        assert told.e_value == pytest.approx(wanted.e_value, rel=1e-9)
        assert (told.n, told.suspect, told.strength) == (
            wanted.n,
            wanted.suspect,
            wanted.strength,
        )
        if known:
            right = calibrated(known)
            assert {one.expert for one in checks.calibration.results()} == set(right)
            for one in checks.calibration.results():
                assert one[1:] == pytest.approx(right[one.expert], rel=1e-9)
        seen[until] = sums_of(live)
    save_snapshot(store, restore(store, JUDGE, until=list(seen)[2]), 0.0)
    for until, found in seen.items():
        assert restore(store, JUDGE, until=until).sums == found  # to the last bit


def test_an_expert_that_joins_is_scored_from_then_on_and_sleepers_are_not() -> None:
    store: Any = Memory(step=1)
    change: Any = roster_change()
    advice = [[0.5, np.nan, 0.2, 0.9], [0.5, 0.5, 0.5, np.nan]]
    for i, row in enumerate(advice):
        decision = od.Decision(
            i + 1,
            None,
            None,
            "a",
            np.array([0.5, 0.5]),
            np.array(row),
            None,
            np.zeros(4),
            index=0,
        )
        store.append(
            DecisionMade(f"d{i}", decision, 0, 0.0), Reward(f"d{i}", 1.0, float(i))
        )
    store.append(ExpertChange("late", "added", 5.0, "k", 0.2))
    decision = od.Decision(
        3, None, None, "a", np.array([0.5, 0.5]), np.full(5, 0.8), index=0
    )
    store.append(DecisionMade("d2", decision, 0, 0.0), Reward("d2", 1.0, 9.0))
    sums: Any = restore(store, JUDGE, change=change).sums
    kept = Calibration.from_json(sums.checks.calibration.to_json())
    scored = dict(zip(kept.names, kept.scored.tolist(), strict=True))
    assert scored == {"a": 3, "b": 2, "c": 3, "d": 2, "late": 1}
    losses = {one.expert: one.loss for one in sums.checks.calibration.results()}
    assert losses["late"] == pytest.approx(-log(0.8))
    assert losses["d"] == pytest.approx(-(log(0.9) + log(0.8)) / 2)
    assert (sums.checks.last_reward, sums.checks.last_learnt) == (9.0, 9.0)


def by_hand(odds: Any, arm: list[int]) -> float:
    """The money of all bets after all rows, bet by bet."""
    total, k = 0.0, odds.shape[1]
    for strength, part in zip(
        (0.03, 0.1, 0.3, 0.9), (0.15, 0.35, 0.2, 0.3), strict=True
    ):
        for cause in range(6):
            money = 1.0
            for p, a in zip(odds, arm, strict=True):
                q = [
                    p == p.max(),
                    p > 0,
                    p**2,
                    p - p.min(),
                    p * (p >= 0.03),
                    p * (p >= 0.1),
                ][cause] * 1.0
                money *= 1 + strength * (q[a] / q.sum() / p[a] - 1)
            total += part / 18 * money
        for arm_of_bet in range(k):
            forced = left = 1.0
            for p, a in zip(odds, arm, strict=True):
                forced *= 1 + strength * ((a == arm_of_bet) / p[arm_of_bet] - 1)
                left *= 1 + strength * ((a != arm_of_bet) / (1 - p[arm_of_bet]) - 1)
            total += part / 3 / 64 * (forced + left)
    return float(total + 2 / 3 * (1 - k / 64))


def test_standing_bets_by_hand() -> None:
    rng = np.random.default_rng(1)
    odds = rng.dirichlet(np.ones(3), 40)
    arm = [int(rng.choice(3, p=p)) for p in odds]
    found = standing_bets(Log(arm=arm, reward=np.zeros(40), propensities=odds))
    assert found.e_value == pytest.approx(by_hand(odds, arm), rel=1e-9)
    order = rng.permutation(40)
    again = standing_bets(
        Log(arm=np.array(arm)[order], reward=np.zeros(40), propensities=odds[order])
    )
    assert again.e_value == pytest.approx(found.e_value, rel=1e-9)


def test_no_row_is_a_gain_on_average_and_money_stays_when_arms_change() -> None:
    """The mean of the money after one more row, over the arms that may be drawn, is
    what it was; named or not."""
    rng, bets = np.random.default_rng(2), StandingBets()
    for step in range(60):
        if step % 10 == 0:
            before = bets.log_money()
            bets.name([f"arm {i}" for i in rng.choice(8, 4, replace=False)], few=False)
            assert bets.log_money() == pytest.approx(before, abs=1e-9)
        odds = dict(
            zip(
                [f"arm {i}" for i in range(8)],
                rng.dirichlet(np.full(8, 0.4)).tolist(),
                strict=True,
            )
        )
        now, later = np.exp(bets.log_money()), 0.0
        for arm, p in odds.items():
            after = bets.copy()
            after.take(odds, arm)
            later += p * np.exp(after.log_money())
        assert later <= now * (1 + 1e-9)
        bets.take(
            odds,
            str(
                rng.choice(
                    list(odds), p=np.array(list(odds.values())) / sum(odds.values())
                )
            ),
        )


def test_honest_logs_are_rarely_caught_and_forced_arms_are_named() -> None:
    """60 honest logs: by Ville at most 0.05 are caught; more than 9 have a probability
    below 0.001."""
    caught = 0
    for seed in range(60):
        rng = np.random.default_rng([9, seed])
        odds = 0.9 * rng.dirichlet(np.ones(4), 150) + 0.025
        arm = (odds.cumsum(axis=1) > rng.random((150, 1))).argmax(axis=1)
        caught += (
            standing_bets(Log(arm=arm, reward=np.zeros(150), propensities=odds)).p_value
            <= 0.05
        )
    assert caught <= 9
    rng = np.random.default_rng(0)
    odds = 0.9 * rng.dirichlet(np.ones(4), 600) + 0.025
    arm = (odds.cumsum(axis=1) > rng.random((600, 1))).argmax(axis=1)
    arm[rng.random(600) < 0.3] = 1
    found = standing_bets(Log(arm=arm, reward=np.zeros(600), propensities=odds))
    assert found.p_value < 1e-6
    assert found.suspect == "arm 1 were forced"
    with pytest.raises(od.InvalidInput, match="need a log with the odds of all arms"):
        standing_bets(Log(arm=[0], reward=[1], propensity=[0.5]))


def take(bets: StandingBets, rows: int, seed: int, forced: float = 0.0) -> None:
    """So many decisions over four arms, of which a share is served arm a."""
    rng = np.random.default_rng(seed)
    odds = 0.9 * rng.dirichlet(np.ones(4), rows) + 0.025
    arm = (odds.cumsum(axis=1) > rng.random((rows, 1))).argmax(axis=1)
    arm[rng.random(rows) < forced] = 0
    for p, a in zip(odds.tolist(), arm.tolist(), strict=True):
        bets.take(dict(zip("abcd", p, strict=True)), "abcd"[a])


def named() -> StandingBets:
    bets = StandingBets()
    bets.name("abcd", few=True)
    return bets


def test_an_alarm_clears_once_the_fault_is_mended_and_stays_while_it_is_not() -> None:
    bets = named()
    take(bets, 600, 0, forced=0.3)
    found = bets.summary()
    assert found.p_value < 1e-6
    assert (found.suspect, found.clears_in) == ("arm a were forced", 424 + 2048)
    ill = bets.copy()
    take(bets, 424, 1)
    assert (bets.window, bets.rows, bets.length) == (2, 0, 2048)
    # of the new window, whose money is 1 again
    assert bets.summary().e_value == pytest.approx(1.0)
    assert bets.summary().suspect == "arm a were forced"
    take(bets, 2047, 2)
    assert bets.summary().p_value < 1e-6
    assert bets.summary().clears_in == 1
    take(bets, 1, 3)
    assert bets.summary().p_value > ALARM
    assert (bets.summary().clears_in, bets.window, bets.length) == (0, 3, 4096)
    take(ill, 424 + 2048, 4, forced=0.3)
    assert ill.summary().p_value < 1e-6
    # an alarm in a long window ends it soon
    assert ill.length <= 16_384


def test_windows_share_the_chance_of_an_alarm() -> None:
    """A p-value of window k is k (k + 1) over its money."""
    bets = named()
    take(bets, 1024, 5)
    take(bets, 320, 6, forced=0.2)
    money = np.exp(max(bets.peak, bets.log_money()))
    assert bets.window == 2
    assert bets.summary().p_value == pytest.approx(min(1.0, 6 / money))


@pytest.mark.soak
def test_healthy_experiments_raise_no_alarm() -> None:
    """200 experiments of 8,000 decisions, looked at after each window: each has an
    alarm with probability 0.001 at most, so that more than 2 have one with probability
    0.001."""
    alarms = 0
    for seed in range(200):
        bets = named()
        take(bets, 8000, 100 + seed)
        alarms += bets.alarm > 0 or bets.summary().p_value <= ALARM
    assert alarms <= 2
