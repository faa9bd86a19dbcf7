"""Served as logged, at the promised power and error rate; and the planner against
simulated widths."""

from itertools import product
from math import factorial
from typing import Any

import numpy as np
import pytest
from benchmarks.served import HONEST, LOGGERS, VIEWS, WRONG, alarms, power
from scipy.optimize import linprog

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.evaluation.draws import check
from oddsmith.evaluation.draws import history_bets as learned_bets
from oddsmith.evaluation.draws.draws import Draws
from oddsmith.evaluation.draws.fixed_bets import (
    bets_on_all_odds,
    bets_on_drawn_odds,
    steps,
)

Log: Any = od.Log  # which takes lists, too
Plan: Any = ev.ExplorationPlan
STEPS = 2000
# need more rows
FAINT = (
    "likeliest arm forced in 10 %",
    "one arm forced in 5 %",
    "exploration logged, not played",
)


def played(
    seed: int, arms: int, replaced: float, *, start: int = 0, full: bool = True
) -> od.Log:
    """Arm 0 has odds 0.3 in every row; from `start` on, a share of draws is replaced by
    it."""
    rng = np.random.default_rng([seed, arms])
    odds = np.column_stack(
        [np.full(STEPS, 0.3), 0.7 * rng.dirichlet(np.ones(arms - 1), STEPS)]
    )
    odds = 0.98 * odds + 0.02 * np.array([0.3] + [0.7 / (arms - 1)] * (arms - 1))
    drawn = (rng.random((STEPS, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    forced = (rng.random(STEPS) < replaced) & (np.arange(STEPS) >= start)
    arm = np.where(forced, 0, drawn)
    columns: Any = (
        {"propensities": odds} if full else {"propensity": odds[np.arange(STEPS), arm]}
    )
    return od.Log(arm=arm, reward=np.zeros(STEPS), **columns)


@pytest.mark.parametrize("arms", [4, 20])
def test_replaced_draws_are_caught_and_honest_logs_are_not(arms: int) -> None:
    """30 logs each. Honest: at most alpha, 0.05; 6 or more of 30 would have probability
    0.003 at exactly that."""
    caught = sum(
        ev.served_as_logged(played(seed, arms, 0.1, full=False)).caught
        for seed in range(30)
    )
    false = sum(
        ev.served_as_logged(played(seed, arms, 0.0, full=False)).caught
        for seed in range(30)
    )
    assert caught == 30
    assert false <= 5


def test_the_report_says_what_it_looks_like() -> None:
    found = ev.served_as_logged(played(0, 4, 0.1))
    assert isinstance(found, ev.ServedReport)
    assert found.caught
    assert found.suspect == "arm 0 were forced"
    assert found.row is not None
    assert "Arms do not follow the logged odds" in found.sentence
    honest = ev.served_as_logged(played(0, 4, 0.0))
    assert not honest.caught
    assert "No evidence in 2,000 rows" in honest.sentence


def test_overrides_that_start_late_are_caught() -> None:
    assert all(
        ev.served_as_logged(played(seed, 4, 0.5, start=1500)).caught
        for seed in range(20)
    )


def test_a_cache_and_a_cut_exploration_are_caught_and_named() -> None:
    rng = np.random.default_rng(3)
    odds = rng.dirichlet(np.full(5, 2.0), STEPS)
    drawn = (rng.random((STEPS, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    cached = drawn.copy()
    for t in range(1, STEPS):
        if rng.random() < 0.15:
            cached[t] = cached[t - 1]
    greedy = np.where(rng.random(STEPS) < 0.15, odds.argmax(axis=1), drawn)
    for arm, suspect in (
        (cached, "the previous row's arm were repeated"),
        (greedy, "the likeliest arm were forced"),
    ):
        found = ev.served_as_logged(
            Log(arm=arm, reward=np.zeros(STEPS), propensities=odds)
        )
        assert found.caught
        assert found.suspect == suspect


@pytest.mark.parametrize("way", [way for way in WRONG if way not in FAINT])
@pytest.mark.parametrize("logger", LOGGERS)
def test_ways_to_be_wrong_are_caught_where_all_odds_are_logged(
    way: str, logger: str
) -> None:
    """4 of 4 logs of 2,000 rows. Measured power (benchmarks/RESULTS.md): 100 % but for
    those left out."""
    assert power((way, logger, "all odds", STEPS), 4) == 4


@pytest.mark.parametrize(
    "way",
    [
        "exploration cut off: odds below 0.1 not served",
        "served sharper than logged (p²)",
    ],
)
@pytest.mark.parametrize(
    ("logger", "view"), [("steps", "drawn odds"), ("spread", "drawn odds, floor")]
)
def test_exploration_that_is_not_served_is_caught_by_drawn_odds(
    way: str, logger: str, view: str
) -> None:
    """Where drawn odds can tell: likely arms are above 1/2, or the floor is known. 10
    of 10; measured power 100 %."""
    assert power((way, logger, view, STEPS), 10) == 10


@pytest.mark.parametrize("kind", HONEST)
def test_honest_logs_are_not_caught(kind: str) -> None:
    """24 logs, three views each: 6 or more of 24 would have probability 0.001 at
    exactly 0.05."""
    assert max(alarms(kind, 24, 500)) <= 5


def mean_gains(table: Any, view: str, **columns: Any) -> Any:
    """The mean gains (rows, B), each row's arm drawn from its odds, of the bets that do
    not look at earlier arms."""
    total: Any = 0.0
    floor = float(table.min()) if view.endswith("floor") else 0.0
    for arm in range(table.shape[1]):
        own = table[:, arm]
        drawn = np.where(own > 0, arm, table.argmax(axis=1))  # counts with odds 0
        p = table[np.arange(len(table)), drawn]
        given = {"propensities": table} if view == "all odds" else {"propensity": p}
        draws = Draws(
            Log(arm=drawn, reward=np.zeros(len(table)), **given, **columns), p, floor
        )
        families = (
            bets_on_drawn_odds(draws)
            if draws.odds is None
            else bets_on_all_odds(draws, draws.odds)
        )
        within = [
            f
            for f in families
            if "previous row" not in f.names[0] and "random number" not in f.names[0]
        ]
        total = total + own[:, None] * np.hstack(
            [family.gains(slice(0, len(table))) for family in within]
        )
    return total


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("arms", [2, 3, 6])
def test_no_bet_wins_on_average_whatever_the_odds(view: str, arms: int) -> None:
    """Every bet within a row, on odds at random, on fractions (where steps jump) and on
    odds with zeros."""
    rng = np.random.default_rng(5)
    whole = (
        rng.integers(0, 7, (300, arms))
        + np.eye(arms, dtype=int)[rng.integers(arms, size=300)]
    )
    tenths = rng.multinomial(10, np.full(arms, 1 / arms), 200) / 10
    odds = np.vstack(
        [
            whole / whole.sum(axis=1, keepdims=True),
            tenths,
            rng.dirichlet(np.full(arms, 0.3), 300),
        ]
    )
    names = [f"a{i}" for i in range(arms)]
    assert mean_gains(odds, view, arms=names).max() <= 1e-9
    assert mean_gains(0.9 * odds + 0.1 / arms, view, arms=names).max() <= 1e-9
    if view == "drawn odds":
        assert mean_gains(odds, view, eligible=odds > 0).max() <= 1e-9


def parts(n: int, most: int, k: int) -> Any:
    """All falling lists of k whole numbers from 0 to `most` with sum n."""
    if k == 0:
        yield from [()] * (n == 0)
        return
    for first in range(min(n, most), -1, -1):
        yield from ((first, *rest) for rest in parts(n - first, first, k - 1))


# odds served instead of p, sorted from the likeliest; blind: drawn odds cannot tell
FAULTS: dict[str, tuple[Any, bool]] = {
    "cut off": (lambda p: np.where(p >= 0.1, p, 0.0), True),
    "sharper": (np.square, True),
    "likeliest": (lambda p: 0.9 * p + 0.1 * np.eye(5)[0], True),
    "second": (lambda p: 0.8 * p + 0.2 * np.eye(5)[1], True),
    "exploration not played": (lambda p: p - 0.05, True),
    "flatter": (np.sqrt, False),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_drawn_odds_cannot_tell(fault: str) -> None:
    """Linear programming: is there an honest logger of five arms whose drawn odds, in
    twentieths, have the same law?"""
    served, blind = FAULTS[fault]
    table = np.array(list(parts(20, 20, 5)))
    orders = [
        120 / np.prod([factorial(row.count(n)) for n in set(row)])
        for row in table.tolist()
    ]
    # all odds of at least 0.05 equally likely, in any order
    weight = np.array(orders) * (table.min(axis=1) >= 1)
    law, laws = np.zeros(21), np.zeros((21, len(table)))
    q = np.maximum(served(table / 20), 0.0)
    for j in range(5):
        np.add.at(law, table[:, j], weight / weight.sum() * q[:, j] / q.sum(axis=1))
        np.add.at(laws, (table[:, j], np.arange(len(table))), table[:, j] / 20)
    found = linprog(np.zeros(len(table)), A_eq=laws[1:], b_eq=law[1:])
    assert found.success == blind


def test_steps_are_dual_feasible() -> None:
    """Σ v ≤ 1 implies Σ h(v) ≤ 1, for all ways to share 24 among eight, and
    h(1) = 1."""

    all_parts = [list(part) for part in parts(24, 24, 8)]
    for c in (1.5, 1.99, 2.5, 2.99, 7.99):
        h = steps(np.arange(25) / 24 * (1 - 1e-9), c)
        assert max(h[part].sum() for part in all_parts) <= 1 + 1e-9
        assert h[24] == pytest.approx(1, abs=1e-6)


@pytest.mark.parametrize("view", VIEWS)
def test_the_whole_test_is_fair_by_enumeration(
    view: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All 3^5 sequences, of odds that depend on the arms before, with bets that learn
    and start after every row."""
    monkeypatch.setattr(check, "_LOOK", 1)
    monkeypatch.setattr(check, "_BLOCK", 1)
    monkeypatch.setattr(learned_bets, "_BLOCK", 1)
    monkeypatch.setattr(learned_bets, "_FIRST", 1.0)
    total = 0.0
    for arm in product(range(3), repeat=5):
        seen = np.cumsum([[0.3, 0.6, 1.5], *np.eye(3)[list(arm[:-1])]], axis=0)
        odds = 0.7 * seen / seen.sum(axis=1, keepdims=True) + 0.1
        own = odds[np.arange(5), list(arm)]
        columns = (
            {"propensities": odds}
            if view == "all odds"
            else {"propensity": own, "arms": ["a", "b", "c"]}
        )
        found = ev.served_as_logged(
            Log(arm=arm, reward=np.zeros(5), **columns),
            floor=0.1 if view.endswith("floor") else 0.0,
        )
        total += float(own.prod()) * found.e_value
    assert total <= 1 + 1e-9
    assert total == pytest.approx(1, abs=1e-9 if view == "all odds" else 0.2)


def test_two_arms_leave_no_choice() -> None:
    """With two named arms, the drawn arm's odds say all: the same money as with all
    odds."""
    rng = np.random.default_rng(8)
    likely = rng.uniform(0.1, 0.9, 300)
    odds = np.column_stack([likely, 1 - likely])
    arm = rng.integers(2, size=300)
    shared = {"arm": arm, "reward": np.zeros(300), "arms": ["a", "b"]}
    all_of_them = ev.served_as_logged(Log(propensities=odds, **shared))
    drawn = ev.served_as_logged(Log(propensity=odds[np.arange(300), arm], **shared))
    assert drawn.e_value == pytest.approx(all_of_them.e_value, rel=1e-9)


def test_how_many_arms_there_are_is_not_taken_from_later_rows() -> None:
    """Money on arms that no row has shown yet may be left out, but it is never spread
    over the others."""
    rng = np.random.default_rng(4)
    arm = np.append(rng.integers(3, size=208), 9)
    log = Log(arm=arm, reward=np.zeros(209), propensity=np.full(209, 0.2))
    short, _ = check._wealth(Draws(log[:208], log.propensity[:208], 0.0))
    long, _ = check._wealth(Draws(log, log.propensity, 0.0))
    assert (short <= long[:-1] + 1e-12).all()


def test_tiny_odds_neither_overflow_nor_hide() -> None:
    odds = np.tile([1 - 1e-12, 1e-12], (40, 1))
    assert (
        ev.served_as_logged(
            Log(arm=[0] * 40, reward=[0] * 40, propensities=odds)
        ).p_value
        > 0.5
    )
    found = ev.served_as_logged(Log(arm=[1] * 40, reward=[0] * 40, propensities=odds))
    assert found.caught
    assert np.isfinite(found.e_value)


@pytest.mark.parametrize(
    ("rows", "evidence", "claim"),
    [
        (3, "some", "Some evidence that arms do not"),
        (4, "strong", "Strong evidence that"),
        (16, "decisive", "Arms do not follow"),
    ],
)
def test_claims_are_as_strong_as_the_evidence(
    rows: int, evidence: str, claim: str
) -> None:
    """The same arm with odds of 0.1 again and again; an honest log does so with
    probability 10^-rows."""
    found = ev.served_as_logged(
        Log(arm=[0] * rows, reward=[0] * rows, propensities=[[0.1, 0.9]] * rows)
    )
    assert found.evidence == evidence
    assert found.sentence.startswith(claim)
    assert found.caution.startswith("Caution") == (evidence != "some")


def test_the_test_needs_propensities() -> None:
    with pytest.raises(od.InvalidInput, match="needs a log with the logged odds"):
        ev.served_as_logged(Log(arm=[0], reward=[1]))


def test_the_planner_predicts_widths() -> None:
    """Widths of simulated IPS intervals over 40 logs are within 3 % of the plan's, and
    gamma and n invert it."""
    greedy, target, value, gamma, n = (
        np.array([1.0, 0, 0]),
        np.array([0.0, 0.5, 0.5]),
        0.4,
        0.3,
        2000,
    )
    plan = Plan(greedy, target, second_moment=value, offset=-(value**2))
    odds, rng, widths = (1 - gamma) * greedy + gamma / 3, np.random.default_rng(4), []
    for _ in range(40):
        arm = rng.choice(3, size=n, p=odds)
        log = Log(
            arm=arm,
            reward=(rng.random(n) < value).astype(float),
            propensities=np.tile(odds, (n, 1)),
        )
        found = ev.estimate(ev.ips(log, target), overrule=ev.RULES)
        widths.append(found.high - found.low)
    width = plan.width(gamma, n)
    assert np.mean(widths) == pytest.approx(width, rel=0.03)
    assert plan.gamma(width, n) == pytest.approx(gamma, abs=1e-6)
    assert plan.decisions(gamma, width) == n
    assert plan.width(0.0, n) == np.inf


def test_plans_that_cannot_be_met_say_what_can() -> None:
    plan = Plan([1.0, 0.0], [0.5, 0.5])
    with pytest.raises(
        od.errors.Infeasible,
        match=r"no gamma gives a width of 0.01 after 100 decisions; the smallest width is",
    ):
        plan.gamma(0.01, 100)
    with pytest.raises(od.errors.Infeasible, match="no number of decisions is enough"):
        plan.decisions(0.0, 0.1)
    with pytest.raises(od.InvalidInput, match="the same number of arms; got 2 and 3"):
        Plan([1.0, 0.0], [0.5, 0.5, 0.0])
    agreeing = Plan([1.0, 0.0], [1.0, 0.0], second_moment=0.2, offset=-0.04)
    assert agreeing.gamma(0.1, 1000) == 0.0
    assert agreeing.width(0.5, 1000) > agreeing.width(0.0, 1000)
