"""Results over HTTP: what they say is what the evaluation of the export says, also after
restarts, corrections and late amounts."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.metrics import Metric
from oddsmith.evaluation import (
    control_target,
    policy_odds,
    score_metrics,
    unit_log,
)
from oddsmith.server.audit import export
from oddsmith.server.store import open_reader
from server.served import Here, here, place

_LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
_METRICS = """
[metrics.revenue]
cap = 50
low = -10
default = 0
[metrics.orders]
high = 3
[metrics.order_value]
ratio = ["revenue", "orders"]
[metrics.seconds]
[metrics.reward]
role = "primary"
matters = 0.02
"""
METRICS = [
    Metric("reward", role="primary", high=1.0),
    Metric("revenue", cap=50.0, low=-10.0, default=0.0),
    Metric("orders", high=3.0),
    Metric("order_value", ratio=("revenue", "orders")),
    Metric("seconds"),
]
UNBOUNDED = {"order_value", "seconds"}


def _file(folder: Path, holdout: str) -> Path:
    top = 'policy.share = 0.05\ncontrol = "arm:tech"\n'
    return place(folder, top=top, experts=f"[holdout]\n{holdout}\n{_METRICS}{_LINES}")


def _live(served: Here, n: int, by_unit: bool) -> None:
    """Decisions, rewards and amounts: early, with the reward, late, corrected, never."""
    for i in range(n):
        more = {"unit": f"u{i % 12}"} if by_unit else {}
        if i % 7 == 1:
            served.post("reward", {"id": f"v{i}", "metrics": {"orders": 2}})
        served.decide(f"v{i}", **more)
        if i % 5:
            served.reward(f"v{i}", float(i % 3 == 0))
        if i % 4 == 0:
            amount = {"revenue": 0.5 * i - 9}
            served.post("reward", {"id": f"v{i}", "metrics": amount})
    served.post(
        "correct", {"id": "v6", "reward": 1, "key": "k", "metrics": {"orders": 1}}
    )
    served.post("correct", {"id": "v8", "metrics": {"revenue": 40}, "key": "k"})


@pytest.mark.parametrize("holdout", ["share = 0.3", 'share = 0.4\nby = "unit"'])
def test_results_are_those_of_the_export(tmp_path: Path, holdout: str) -> None:
    path = _file(tmp_path, holdout)
    by_unit = "unit" in holdout
    with here(path) as served:
        _live(served, 60, by_unit)
        served.state()
        first = served.get("/v1/results")
    with here(path) as served:
        assert served.get("/v1/results") == first
    assert (first["control"], first["by"]) == (
        "arm:tech",
        "unit" if by_unit else "decision",
    )
    log = _exported(tmp_path / "news.sqlite")
    if by_unit:
        log = unit_log(log)
        found = score_metrics(log, {"policy": [1.0, 0.0]}, [0.0, 1.0], METRICS)
    else:
        target = {"policy": policy_odds(log)}
        found = score_metrics(log, target, log.control, METRICS, overrule=("weight",))
    by_name: dict[str, Any] = {one["metric"]: one for one in first["metrics"]}
    assert set(by_name) == {metric.name for metric in METRICS}
    for computed in found:
        live = by_name[computed.metric.name]
        if live["metric"] in UNBOUNDED:
            assert live["refused"]
            continue
        assert live["rows"] == computed.rows
        for end in ("low", "high"):
            assert live["difference"][end] == pytest.approx(
                getattr(computed.difference, end), abs=1e-12
            )
            assert live["lift"][end] == pytest.approx(
                getattr(computed.lift, end), abs=1e-12
            ) or np.isinf(getattr(computed.lift, end))


def test_a_control_that_comes_later(tmp_path: Path, monkeypatch: Any) -> None:
    """Decisions before it, and those of incumbents beside it, compare nothing, live and
    in the export, whose batches have the same columns."""
    monkeypatch.setattr("oddsmith.server.audit.log_export._ROWS", 16)
    path = place(tmp_path, experts=_LINES)
    with here(path) as served:
        for i in range(100, 120):
            served.decide(f"v{i}")
            served.reward(f"v{i}", 1.0)
    path = _file(tmp_path, "share = 0.3")
    with here(path) as served:
        _live(served, 40, by_unit=False)
        served.decide("own", incumbent="sports")
        served.reward("own", 1.0)
        served.state()
        live = served.get("/v1/results")["metrics"]
    log = _exported(tmp_path / "news.sqlite")
    assert len(log) == 61
    target = {"policy": policy_odds(log)}
    control = control_target(log)
    found = score_metrics(log, target, control, METRICS, overrule=("weight",))
    assert found[0].excluded_rows == 21
    for computed, one in zip(found[:3], live[:3], strict=True):
        assert (one["metric"], one["rows"]) == (computed.metric.name, computed.rows)
        assert one["difference"]["low"] == pytest.approx(computed.difference.low)


def _exported(path: Path) -> od.Log:
    reading = open_reader(str(path))
    out = path.with_suffix(".parquet")
    export(reading, out)
    reading.close()
    return od.read_log(out)
