"""Declarations of metrics: what they accept, and how amounts are scaled."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.metrics import Metric, check_amounts


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"name": "Revenue"}, "named by"),
        ({"role": "main"}, "metrics.revenue.role must be one of"),
        ({"better": "up"}, "metrics.revenue.better must be one of"),
        ({"low": 5.0, "high": 5.0}, "metrics.revenue.high must be above low"),
        ({"cap": -1.0}, "metrics.revenue.cap"),
        ({"high": 10.0, "cap": 11.0}, "at most high, 10"),
        ({"default": -1.0}, "metrics.revenue.default must be in"),
        ({"role": "guardrail"}, "metrics.revenue.limit must be given"),
        ({"limit": 0.1}, 'must be "guardrail"'),
        ({"action": "pause"}, 'must be "guardrail"'),
        ({"role": "primary", "ratio": ("a", "b")}, "for a ratio"),
        ({"matters": 0.0}, "metrics.revenue.matters"),
        ({"role": "guardrail", "limit": 0.1, "action": "stop"}, "pause, pause_arm"),
    ],
)
def test_declarations_that_contradict_themselves_are_refused(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(od.InvalidInput, match=words):
        Metric(**({"name": "revenue"} | settings))


def test_scaled_amounts_are_those_within_the_cap() -> None:
    refund = Metric("refund", low=-20.0, cap=80.0)
    assert refund.scaled(-20.0) == 0.0
    assert refund.scaled(30.0) == 0.5
    assert refund.scaled(1e9) == 1.0
    assert refund.value(0.5) == 30.0


@pytest.mark.parametrize(
    "amount", [np.nan, np.inf, -np.inf, -0.5, 1e101, "3", None, True]
)
def test_amounts_outside_of_the_range_are_refused(amount: object) -> None:
    with pytest.raises(od.InvalidInput, match="cost"):
        check_amounts({"cost": Metric("cost", high=1e100)}, {"cost": amount})


def test_a_metric_without_a_cap_has_no_bound() -> None:
    assert not Metric("revenue").is_bounded
    assert Metric("revenue", cap=250.0).is_bounded
    assert Metric("cost", high=0.2).top == 0.2
