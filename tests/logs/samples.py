"""Logs that the tests of readers and writers share."""

from typing import Any

import numpy as np

import oddsmith as od

ARMS = ("sports", "politics", "tech")


def full_log(
    rows: int = 40, *, context: Any = None, seed: int = 0, masked: bool = True
) -> od.Log:
    """A log with every column: names, masks, sleepers, a reward that has not come."""
    rng = np.random.default_rng(seed)
    eligible = (
        rng.random((rows, 3)) < 0.7 if masked else np.ones((rows, 3), dtype=np.bool_)
    )
    eligible[:, 0] |= ~eligible.any(axis=1)
    odds = np.where(eligible, rng.uniform(0.1, 1, (rows, 3)), 0.0)
    odds /= odds.sum(axis=1, keepdims=True)
    arm = np.array([rng.choice(3, p=p) for p in odds])
    advice = rng.uniform(0.1, 0.9, (rows, 2))
    advice[::5, 1] = np.nan
    reward = rng.integers(2, size=rows).astype(float)
    reward[3] = np.nan
    amounts = rng.normal(30, 20, (rows, 2))
    amounts[::7, 1] = np.nan
    return od.Log(
        arm=arm,
        reward=reward,
        propensities=odds,
        eligible=eligible,
        context=rng.normal(size=(rows, 4)) if context is None else context,
        advice=advice,
        bonus=rng.uniform(size=(rows, 2)),
        log_weights=np.where(np.arange(rows)[:, None] % 5 == 0, [0.0, -np.inf], np.nan),
        step=np.arange(1, rows + 1),
        time=np.datetime64("2026-03-01T00:00:00", "us")
        + np.arange(rows) * np.timedelta64(90, "s"),
        decision_id=[f"d{i}" for i in range(rows)],
        fingerprint=["f0"] * rows,
        control=eligible / eligible.sum(axis=1, keepdims=True),
        holdout=np.where(np.arange(rows) % 11 == 4, np.nan, 0.1),
        group=[("policy", "control", None)[i % 3] for i in range(rows)],
        unit=[None if i == 5 else f"visitor {i % 9}" for i in range(rows)],
        metric=amounts,
        metrics=["revenue", "orders"],
        arms=ARMS,
        experts=["16 trees", "a, b"],
    )


def assert_same(found: od.Log, expected: od.Log, *without: str) -> None:
    """Every column to the last bit, and whose advice it is."""
    assert found.experts == (None if found.advice is None else expected.experts)
    assert found.metrics == (None if found.metric is None else expected.metrics)
    assert set(found.columns()) - set(without) == set(expected.columns()) - set(without)
    for name, value in expected.columns().items():
        if name not in without:
            other = getattr(found, name)
            if isinstance(value, np.ndarray) and value.dtype != object:
                assert other.dtype == value.dtype, name
                np.testing.assert_array_equal(other, value, err_msg=name)
            else:
                assert list(other) == list(value), name
