"""Amounts of metrics over HTTP: with and without a reward, early, repeated, corrected."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from server.served import Hands, Here, here, place, place_for_anything, wait

_LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
_METRICS = """
[metrics.revenue]
cap = 250
low = -100
[metrics.orders]
high = 5
[metrics.order_value]
ratio = ["revenue", "orders"]
"""


def _file(folder: Path) -> Path:
    return place(folder, experts=_METRICS + _LINES)


def test_amounts_come_with_a_reward_or_alone(tmp_path: Path) -> None:
    with here(_file(tmp_path)) as served:
        early = served.post("reward", {"id": "v1", "metrics": {"orders": 1}})
        assert early["parked"]
        served.decide("v1")
        both = {"id": "v1", "reward": 1, "metrics": {"revenue": -34.9}}
        first = served.post("reward", both)
        assert (first["new"], first["parked"]) == (True, False)
        assert not served.post("reward", both)["new"]
        other = both | {"metrics": {"revenue": 35}}
        assert (
            "must be -34.9, as it was first"
            in served.post("reward", other, 409)["error"]
        )
        part = {"id": "v1", "metrics": {"revenue": 5}, "key": "order-2"}
        assert served.post("reward", part)["new"]
        served.post("correct", {"id": "v1", "metrics": {"revenue": 3}, "key": "back"})
        events = served.get("/v1/decisions/v1")["events"]
        amounts = [
            (one["kind"], one["key"], one["value"])
            for one in events
            if "metric" in one["kind"]
        ]
        assert amounts == [
            ("metric", "orders", 1.0),
            ("metric", "revenue", -34.9),
            ("metric", "revenue:order-2", 5.0),
            ("metric_correction", "revenue:back", 3.0),
        ]


def test_entries_of_a_batch_are_answered_by_themselves(tmp_path: Path) -> None:
    with here(_file(tmp_path)) as served:
        served.decide("v1")
        entries = [
            {"id": "v1", "reward": 1, "metrics": {"revenue": 2, "orders": 1}},
            {"id": "v2", "metrics": {"revenues": 2}},
            {"id": "v3", "metrics": {"orders": 2}},
        ]
        results = served.post("reward/batch", {"rewards": entries})["results"]
        assert results[0]["new"]
        assert "did you mean revenue" in results[1]["error"]
        assert results[2]["parked"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"id": "v1"}, "reward or metrics must be given"),
        ({"id": "v1", "metrics": {}}, "reward or metrics must be given"),
        ({"id": "v1", "metrics": {"cots": 1}}, "'cots' is not a metric"),
        ({"id": "v1", "metrics": {"order_value": 1}}, "is not a metric"),
        ({"id": "v1", "metrics": {"orders": 6}}, "must be in [0, 5]"),
        ({"id": "v1", "metrics": {"revenue": -101}}, "in [-100, 1e+100]"),
        ({"id": "v1", "metrics": {"revenue": "3"}}, "metrics"),
        ({"id": "v1", "reward": 1, "key": "a"}, "key must be left out"),
    ],
)
def test_wrong_amounts_are_refused_and_nothing_is_kept(
    tmp_path: Path, body: dict[str, object], words: str
) -> None:
    with here(_file(tmp_path)) as served:
        served.decide("v1")
        head = served.inner().head()
        assert words in served.post("reward", body, 422)["error"]
        assert served.inner().head() == head


def test_a_slot_is_activated_by_its_slate_and_name(tmp_path: Path) -> None:
    with here(place_for_anything(tmp_path)) as served:
        page = {"id": "page", "context": [1], "slots": 2, "deferred": True}
        served.post("decide", page)
        first = served.post("activate", {"slate": "page", "slot": "1"})
        assert (first["new"], first["parked"]) == (True, False)
        assert not served.post("activate", {"slate": "page", "slot": 1})["new"]
        served.post("activate", {"slate": "page"})
        refused = served.post("activate", {"id": "x", "slot": "1"}, 422)
        assert "id or slate must be given" in refused["error"]


def test_a_reward_that_is_made_from_amounts(tmp_path: Path) -> None:
    """0.01 revenue - 0.05 refunds on a scale from -1 to 1, when the window closes; late
    amounts change it."""
    hands = Hands()
    metrics = "[metrics.revenue]\nhigh = 100\n[metrics.refunds]\nhigh = 10\n"
    reward = (
        "[reward]\nlow = -1\nhigh = 1\nmetrics = { revenue = 0.01, refunds = -0.05 }\n"
    )
    path = place(
        tmp_path,
        experts=metrics + reward + _LINES,
        service='reward_rule = "sum"\nwindow_s = 60\n',
    )
    with here(path, clock=hands.clock()) as served:
        for id in ("v1", "v2"):
            served.decide(id)
        served.post("reward", {"id": "v1", "metrics": {"revenue": 40}})
        hands.pass_by(61)
        wait(lambda: served.get("/v1/decisions/v2")["reward"] is not None)
        assert served.get("/v1/decisions/v1")["reward"] == pytest.approx(0.4)
        assert served.get("/v1/decisions/v2")["reward"] == -1
        served.post("reward", {"id": "v1", "metrics": {"refunds": 6}})
        served.state()
        assert served.get("/v1/decisions/v1")["reward"] == pytest.approx(0.1)
        np.testing.assert_allclose(
            served.state().log_weights, _folded(served), atol=1e-12
        )


def _folded(served: Here) -> Any:
    """The weights that the policy itself has after these rewards in [0, 1]."""
    store = served.inner()
    policy = served.experiment().setup.policy
    state = policy.init()
    ids = {"v1": 0.55, "v2": 0.0}
    for line in store.lines(0, store.head()):
        if line.kind == "default":
            made = next(one for one in store.history([line.id], 2**62))
            (decision,) = store.decisions([made.position])
            first = 0.7 if line.id == "v1" else 0.0
            state = policy.update(state, decision.by_number(), first)
    (line,) = [one for one in store.history(["v1"], 2**62) if one.kind == "decision"]
    (decision,) = store.decisions([line.position])
    return policy.revise(state, decision.by_number(), 0.7, ids["v1"]).log_weights
