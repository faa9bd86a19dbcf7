"""Differences between policy and control that are folded, beside the evaluation of the
same rows."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from oddsmith.contexts.metrics import Metric
from oddsmith.evaluation import policy_odds, score_metrics, unit_log
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.amounts import Amount
from oddsmith.server.statistics.differences import POLICY, Comparison, Differences
from oddsmith.server.store.protocol import Draw

ARMS = ("a", "b", "c")
REVENUE = Metric("revenue", cap=50.0, low=-10.0)


def _rows(n: int, seed: int, *, units: bool = False) -> list[tuple[Draw, float, float]]:
    """Draws with a reward and an amount each."""
    rng = np.random.default_rng(seed)
    rows = []
    control = np.array([1.0, 0.0, 0.0])
    for i in range(n):
        policy = rng.dirichlet(np.ones(3))
        odds = 0.8 * policy + 0.2 * control
        draw = Draw("a", 0, odds, control=control, holdout=0.2)
        if units:
            # the share falls from 0.4 to 0.2 halfway, so some units change sides
            unit = i % 37
            share = 0.4 if 2 * i < n else 0.2
            group = "control" if unit % 5 < 5 * share else "policy"
            odds = control if group == "control" else policy
            draw = draw._replace(odds=odds, group=group, unit=f"u{unit}", holdout=share)
        arm = int(rng.choice(3, p=odds))
        draw = draw._replace(arm=ARMS[arm], number=arm)
        reward = float(rng.random() < 0.1 + 0.2 * arm)
        rows.append((draw, reward, max(-10.0, float(rng.normal(20 * reward, 9)))))
    return rows


def _fold(rows: list[tuple[Draw, float, float]], order: Any) -> Differences:
    found = Differences.of({"revenue": REVENUE.to_json()})
    for place in order:
        draw, reward, amount = rows[place]
        found.count(Count(place + 9, place + 1, reward), draw, ARMS)
        step = Amount(place + 9, place + 1, "revenue", amount)
        found.count_amount(step, draw, ARMS)
    return found


def _log(rows: list[tuple[Draw, float, float]]) -> od.Log:
    draws = [draw for draw, _, _ in rows]
    groups: dict[str, Any] = {}
    if draws[0].group is not None:
        groups = {"group": [d.group for d in draws], "unit": [d.unit for d in draws]}
    make: Any = od.Log
    log: od.Log = make(
        arm=[draw.number for draw in draws],
        reward=[reward for _, reward, _ in rows],
        propensities=[draw.odds for draw in draws],
        control=[draw.control for draw in draws],
        holdout=[draw.holdout for draw in draws],
        metric=[[amount] for _, _, amount in rows],
        metrics=["revenue"],
        **groups,
    )
    return log


def _find(found: Differences, metric: str, candidate: str = POLICY) -> Comparison:
    return found.settled_copy().compare(metric, candidate, 0.95)


def _assert_close(live: Comparison, computed: Any) -> None:
    assert live.rows == computed.rows
    for name, close in (("difference", 1e-12), ("lift", 1e-12)):
        mine = getattr(live, name)
        theirs = getattr(computed, name)
        for end in ("value", "low", "high"):
            assert getattr(mine, end) == pytest.approx(getattr(theirs, end), abs=close)


def test_live_differences_are_those_of_the_export() -> None:
    rows = _rows(700, seed=3)
    log = _log(rows)
    live = _fold(rows, range(700))
    targets = {POLICY: policy_odds(log), "b": np.array([0.0, 1.0, 0.0])}
    for metric in (Metric("reward", role="primary", high=1.0), REVENUE):
        for name, target in targets.items():
            (computed,) = score_metrics(
                log, {name: target}, log.control, [metric], overrule=("weight",)
            )
            _assert_close(_find(live, metric.name, name), computed)


def test_live_differences_by_unit_are_those_of_the_export() -> None:
    """A unit belongs to the group of its first decision, also if that is rewarded
    last."""
    rows = _rows(600, seed=4, units=True)
    log = unit_log(_log(rows))
    live = _fold(rows, range(599, -1, -1))
    (computed,) = score_metrics(log, {POLICY: [1.0, 0.0]}, [0.0, 1.0], [REVENUE])
    found = _find(live, "revenue")
    assert found.rows == 37
    _assert_close(found, computed)


@settings(max_examples=30, deadline=None)
@given(st.permutations(range(60)), st.integers(0, 59), st.booleans())
def test_order_corrections_and_snapshots_change_nothing(
    order: list[int], corrected: int, by_unit: bool
) -> None:
    """The same sums to the last bit in any order; a wrong amount that is corrected
    leaves no trace; a snapshot in between neither."""
    rows = _rows(60, seed=5, units=by_unit)
    plain = _fold(rows, range(60))
    draw, reward, amount = rows[corrected]
    wrong = list(rows)
    wrong[corrected] = (draw, 1 - reward, 42.0)
    found = Differences.from_json(_fold(wrong, order).to_json())
    found.count(Count(99, corrected + 1, reward, 1 - reward), draw, ARMS)
    step = Amount(99, corrected + 1, "revenue", amount, 42.0)
    found.count_amount(step, draw, ARMS)
    for metric in ("reward", "revenue"):
        one = _find(plain, metric).difference
        other = _find(found, metric).difference
        assert (one.low, one.high) == (other.low, other.high)


def test_what_does_not_compare_is_left_out() -> None:
    """Without a control, with a share of 1, and with an amount that has no upper end."""
    odds = np.array([0.5, 0.5])
    found = Differences.of({"clicks": Metric("clicks").to_json()})
    found.count(Count(2, 1, 1.0), Draw("a", 0, odds), ARMS)
    everybody = Draw("a", 0, odds, control=odds, holdout=1.0)
    found.count(Count(3, 1, 1.0), everybody, ARMS)
    held = Draw("a", 0, odds, control=odds, holdout=0.1)
    found.count_amount(Amount(4, 1, "clicks", 3.0), held, ARMS)
    assert not found.settled_copy().pairs


def test_an_incumbent_that_acts_is_the_control() -> None:
    """Shadow mode: its odds are those of the draw, and the policy's are kept."""
    from oddsmith.server.store.events import OwnDraw

    rng = np.random.default_rng(6)
    found = Differences()
    for i in range(2_000):
        arm = int(rng.random() < 0.5)
        own = OwnDraw(1, np.array([0.1, 0.9]))
        draw = Draw(str(arm), arm, np.array([0.5, 0.5]), shadow=True, own=own)
        reward = float(rng.random() < 0.1 + 0.4 * arm)
        found.count(Count(i + 9, i + 1, reward), draw, None)
    comparison = _find(found, "reward")
    assert comparison.difference.low > 0
    assert comparison.difference.low < 0.16 < comparison.difference.high
