"""Served as logged, at the promised power and error rate; and the planner against simulated widths."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev

Log: Any = od.Log  # which takes lists, too
Plan: Any = ev.ExplorationPlan
STEPS = 2000


def played(seed: int, arms: int, replaced: float, *, start: int = 0, full: bool = True) -> od.Log:
    """Arm 0 has odds 0.3 in every row; from `start` on, a share of draws is replaced by it."""
    rng = np.random.default_rng([seed, arms])
    odds = np.column_stack([np.full(STEPS, 0.3), 0.7 * rng.dirichlet(np.ones(arms - 1), STEPS)])
    odds = 0.98 * odds + 0.02 * np.array([0.3] + [0.7 / (arms - 1)] * (arms - 1))
    drawn = (rng.random((STEPS, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    forced = (rng.random(STEPS) < replaced) & (np.arange(STEPS) >= start)
    arm = np.where(forced, 0, drawn)
    columns: Any = {"propensities": odds} if full else {"propensity": odds[np.arange(STEPS), arm]}
    return od.Log(arm=arm, reward=np.zeros(STEPS), **columns)


@pytest.mark.parametrize("arms", [4, 20])
def test_replaced_draws_are_caught_and_honest_logs_are_not(arms: int) -> None:
    """200 seeds each. Honest: at most alpha, 0.05; 19 or more of 200 would have probability 0.005 at exactly that."""
    caught = sum(ev.served_as_logged(played(seed, arms, 0.1, full=False)).caught for seed in range(200))
    false = sum(ev.served_as_logged(played(seed, arms, 0.0, full=False)).caught for seed in range(200))
    assert caught >= 199
    assert false <= 18


def test_the_report_says_what_it_looks_like() -> None:
    found = ev.served_as_logged(played(0, 4, 0.1))
    assert isinstance(found, ev.ServedReport)
    assert found.caught
    assert found.suspect == "arm 0 were forced"
    assert found.row is not None
    assert "Arms do not follow the logged odds" in found.sentence
    honest = ev.served_as_logged(played(0, 4, 0.0))
    assert not honest.caught
    assert "Nothing in 2,000 rows" in honest.sentence


def test_overrides_that_start_late_are_caught() -> None:
    assert all(ev.served_as_logged(played(seed, 4, 0.5, start=1500)).caught for seed in range(20))


def test_a_cache_and_a_cut_exploration_are_caught_and_named() -> None:
    rng = np.random.default_rng(3)
    odds = rng.dirichlet(np.full(5, 2.0), STEPS)
    drawn = (rng.random((STEPS, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    cached = drawn.copy()
    for t in range(1, STEPS):
        if rng.random() < 0.15:
            cached[t] = cached[t - 1]
    greedy = np.where(rng.random(STEPS) < 0.15, odds.argmax(axis=1), drawn)
    for arm, suspect in ((cached, "the previous row's arm were repeated"), (greedy, "the likeliest arm were forced")):
        found = ev.served_as_logged(Log(arm=arm, reward=np.zeros(STEPS), propensities=odds))
        assert found.caught
        assert found.suspect == suspect


def test_the_bets_are_fair_by_enumeration() -> None:
    """Over all 3^4 sequences of arms, the expected wealth after 4 rows is 1 under the logged odds."""
    odds = np.array([[0.2, 0.3, 0.5], [0.6, 0.3, 0.1], [0.1, 0.1, 0.8], [0.3, 0.4, 0.3]])
    total = 0.0
    for code in range(81):
        arm = np.array([code // 3**i % 3 for i in range(4)])
        chance = float(odds[np.arange(4), arm].prod())
        total += chance * ev.served_as_logged(Log(arm=arm, reward=np.zeros(4), propensities=odds)).e_value
    assert total == pytest.approx(1)


def test_the_test_needs_propensities() -> None:
    with pytest.raises(od.InvalidInput, match="needs a log with the logged odds"):
        ev.served_as_logged(Log(arm=[0], reward=[1]))


def test_the_planner_predicts_widths() -> None:
    """Widths of simulated IPS intervals over 40 logs are within 3 % of the plan's, and gamma and n invert it."""
    greedy, target, value, gamma, n = np.array([1.0, 0, 0]), np.array([0.0, 0.5, 0.5]), 0.4, 0.3, 2000
    plan = Plan(greedy, target, second_moment=value, offset=-(value**2))
    odds, rng, widths = (1 - gamma) * greedy + gamma / 3, np.random.default_rng(4), []
    for _ in range(40):
        arm = rng.choice(3, size=n, p=odds)
        log = Log(arm=arm, reward=(rng.random(n) < value).astype(float), propensities=np.tile(odds, (n, 1)))
        found = ev.estimate(ev.ips(log, target), overrule=ev.RULES)
        widths.append(found.high - found.low)
    width = plan.width(gamma, n)
    assert np.mean(widths) == pytest.approx(width, rel=0.03)
    assert plan.gamma(width, n) == pytest.approx(gamma, abs=1e-6)
    assert plan.decisions(gamma, width) == n
    assert plan.width(0.0, n) == np.inf


def test_plans_that_cannot_be_met_say_what_can() -> None:
    plan = Plan([1.0, 0.0], [0.5, 0.5])
    with pytest.raises(od.Infeasible, match=r"no gamma gives a width of 0.01 after 100 decisions; the least is"):
        plan.gamma(0.01, 100)
    with pytest.raises(od.Infeasible, match="no number of decisions is enough"):
        plan.decisions(0.0, 0.1)
    with pytest.raises(od.InvalidInput, match="as many arms; got 2 and 3"):
        Plan([1.0, 0.0], [0.5, 0.5, 0.0])
    agreeing = Plan([1.0, 0.0], [1.0, 0.0], second_moment=0.2, offset=-0.04)
    assert agreeing.gamma(0.1, 1000) == 0.0
    assert agreeing.width(0.5, 1000) > agreeing.width(0.0, 1000)
