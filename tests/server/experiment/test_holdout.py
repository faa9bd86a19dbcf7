"""A holdout in the service: what is drawn, recorded, answered again and verified."""

import json
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.core.arrays import Array
from oddsmith.server.audit import verify
from oddsmith.server.store import open_reader
from server.served import Here, here, place, place_for_anything
from server.store.postgres_server import Server

_TOP = 'policy.share = 0.05\ncontrol = "arm:tech"\n'


def _place(folder: Path, holdout: str, top: str = _TOP) -> Path:
    return place(folder, top=top, experts=f"[holdout]\n{holdout}\n" + _LINES)


_LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'


def _policy_odds(served: Here, context: Any) -> Array:
    now = served.experiment().follower.now
    odds: Array = now.policy.odds(served.state(), context).propensities
    return odds


def test_by_decision_the_odds_are_those_of_both_draws(tmp_path: Path) -> None:
    with here(_place(tmp_path, "share = 0.3")) as served:
        arms = served.experiment().arms
        assert arms is not None
        control = np.array([arm == "tech" for arm in arms])
        for i in range(20):
            context = [0.1 * i, -0.2]
            odds = _policy_odds(served, context)
            answer = served.post("decide", {"id": f"v{i}", "context": context})
            assert (
                list(answer["odds"].values()) == (0.7 * odds + 0.3 * control).tolist()
            )
            again = served.post("decide", {"id": f"v{i}", "context": context})
            assert again["odds"] == answer["odds"]
            served.reward(f"v{i}", float(i % 2))
        (decision,) = served.inner().decisions([1])
        assert decision.control.tolist() == control.tolist()
        assert (decision.holdout, decision.group) == (0.3, None)


def test_by_unit_a_visitor_stays_in_its_group(tmp_path: Path) -> None:
    with here(_place(tmp_path, 'share = 0.4\nby = "unit"')) as served:
        groups: dict[str, set[str]] = {}
        for i in range(60):
            unit = f"visitor-{i % 15}"
            answer = served.decide(f"v{i}", unit=unit)
            (decision,) = served.inner().decisions([answer["position"]])
            groups.setdefault(unit, set()).add(decision.group)
            assert decision.unit == unit
            if decision.group == "control":
                assert (answer["arm"], answer["propensity"]) == ("tech", 1.0)
        assert all(len(group) == 1 for group in groups.values())
        counts = Counter(group for one in groups.values() for group in one)
        assert set(counts) == {"policy", "control"}
        refused = served.post("decide", {"context": [0.1, 0.2]}, 422)
        assert (
            "unit must be given, because the holdout of experiment" in refused["error"]
        )


def test_a_unit_without_a_holdout_by_unit_is_refused(tmp_path: Path) -> None:
    with here(_place(tmp_path, "share = 0.4")) as served:
        body = {"context": [0.1, 0.2], "unit": "visitor"}
        assert "unit must be left out" in served.post("decide", body, 422)["error"]


def test_all_slots_of_a_page_are_in_one_group(tmp_path: Path) -> None:
    path = place_for_anything(tmp_path)
    path.write_text(f'control = "arm:tech"\n{path.read_text()}[holdout]\nshare = 0.5\n')
    with here(path) as served:
        groups = set()
        for i in range(12):
            page = served.post(
                "decide", {"id": f"page-{i}", "context": [0.1 * i, 0.2], "slots": 2}
            )
            positions = [slot["position"] for slot in page["slots"]]
            decisions = served.inner().decisions(positions)
            (group,) = {decision.group for decision in decisions}
            groups.add(group)
            if group == "control":
                assert page["slots"][0]["arm"] == "tech"
        assert groups == {"policy", "control"}


def test_an_aa_test_serves_the_control_to_both_groups(tmp_path: Path) -> None:
    with here(_place(tmp_path, "share = 0.5\naa = true")) as served:
        positions = [served.decide(f"v{i}")["position"] for i in range(20)]
        decisions = served.inner().decisions(positions)
        assert {one.arm for one in decisions} == {"tech"}
        assert {one.group for one in decisions} == {"policy", "control"}


def test_a_holdout_outside_of_the_service_is_reported(tmp_path: Path) -> None:
    top = 'policy.share = 0.05\ncontrol = "incumbent"\n'
    with here(_place(tmp_path, "share = 0.25", top)) as served:
        ours = served.decide("v1")
        theirs = served.decide("v2", incumbent="tech")
        positions = [ours["position"], theirs["position"]]
        first, second = served.inner().decisions(positions)
        assert (first.group, first.holdout) == ("policy", 0.25)
        assert (second.group, second.holdout) == ("control", 0.25)
        assert second.arm == "tech"


def test_replicas_count_days_from_the_first_decision(
    tmp_path: Path, server: Server, experiment: str
) -> None:
    """The second replica makes its first decision a day after the first one's."""
    lines = "[holdout]\nshare = 0.1\nramp = [{until_day = 1.5, share = 0.9}]\n"
    store = f"store = {json.dumps(server.url())}\n"
    path = place(tmp_path, experiment, top=_TOP, service=store, experts=lines + _LINES)
    with here(path) as first, here(path) as second:
        assigners: list[Any] = [
            served.experiment(experiment).assigner for served in (first, second)
        ]
        start = assigners[0].run._clock()
        shares = []
        for days, served, assigner in zip(
            (0, 1, 2), (first, second, second), (*assigners, assigners[1]), strict=True
        ):
            assigner.run._clock = lambda days=days: start + 86_400 * days
            position = served.decide(f"v{days}")["position"]
            (decision,) = served.experiment(experiment).store.decisions([position])
            shares.append(decision.holdout)
        assert shares == [0.9, 0.9, 0.1]


@pytest.mark.parametrize(
    "holdout",
    [
        "share = 0.3",
        'share = 0.3\nby = "unit"',
        "share = 0.5\naa = true",
        "share = 0.2\nend_day = 1e-6",
    ],
)
def test_proofs_follow_the_holdout(tmp_path: Path, holdout: str) -> None:
    path = _place(tmp_path, holdout)
    by_unit = "unit" in holdout
    with here(path) as served:
        for i in range(30):
            more = {"unit": f"u{i % 7}"} if by_unit else {}
            served.decide(f"v{i}", **more)
            served.reward(f"v{i}", float(i % 3 == 0))
        served.state()
    with closing(open_reader(str(tmp_path / "news.sqlite"))) as reading:
        report = verify(reading)
    levels = {level.name: level for level in report.levels}
    assert (levels["odds"].checked, levels["odds"].followed) == (30, 30)
    assert (levels["draw"].checked, levels["draw"].followed) == (30, 30)
