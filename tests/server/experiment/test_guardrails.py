"""Guardrails that pause: false alarms, speed, and what they write into the log."""

from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from oddsmith.contexts.metrics import Metric
from oddsmith.core.arrays import Array
from oddsmith.evaluation.exact_sums import of_units
from oddsmith.server.audit import verify
from oddsmith.server.experiment.guardrails import Breach
from oddsmith.server.statistics.guards import Guards, _logarithms
from oddsmith.server.store import open_reader
from oddsmith.server.store.protocol import Draw
from server.served import Here, here, place, wait

LINES = '[experts.lines]\nkind = "linear"\nfile = "lines.npz"\n'
ERRORS = Metric(
    "errors", role="guardrail", better="lower", high=1.0, limit=0.01, is_of_mean=True
)


def e_values(rate: float, draws: int, runs: int, seed: int) -> Array:
    """The evidence (runs, draws) after each draw of an arm that fails at this rate."""
    terms = np.stack([of_units(_logarithms(ERRORS, value)) for value in (0.0, 1.0)])
    fails = np.random.default_rng(seed).random((runs, draws)) < rate
    found = np.empty((runs, draws))
    for run in range(runs):
        found[run] = np.exp(terms[fails[run].astype(int)].cumsum(axis=0)).mean(axis=1)
    return found


def test_false_pauses_are_as_rare_as_promised() -> None:
    """At the limit, five arms, 40,000 draws each: at most 1 % of the arms, plus three
    standard errors (all five together 5 %)."""
    runs = 150
    ever = (e_values(0.01, 40_000, runs, seed=1) >= 5 / 0.05).any(axis=1)
    assert ever.mean() <= 0.01 + 3 * np.sqrt(0.01 * 0.99 / runs)


@pytest.mark.parametrize(("rate", "median"), [(0.02, 1_422), (0.03, 404), (0.05, 108)])
def test_a_breach_is_found_as_fast_as_designed(rate: float, median: int) -> None:
    """The medians of the design, to 20 %."""
    found = e_values(rate, 10 * median, 300, seed=2) >= 5 / 0.05
    assert found.any(axis=1).mean() > 0.97
    assert np.median(found.argmax(axis=1) + 1) == pytest.approx(median, rel=0.2)


@pytest.mark.parametrize("better", ["lower", "higher"])
def test_the_evidence_is_the_mean_product_of_bets(better: Any) -> None:
    """Compared with the formula, in any order, with corrections, and from JSON."""
    metric = Metric(
        "cost",
        role="guardrail",
        better=better,
        low=-2.0,
        cap=6.0,
        limit=1.5,
        is_of_mean=True,
    )
    guards = Guards.of({"cost": metric.to_json()})
    rng = np.random.default_rng(3)
    values = rng.uniform(-2, 9, 40)
    draw = Draw("a", 0, np.array([1.0]))
    for value in rng.permutation(values):
        guards.count("cost", draw, 5.0)
        guards.count("cost", draw, value, 5.0)
    low, top = -2.0, 6.0
    scaled = (np.minimum(values, top) - low) / (top - low)
    limit = (1.5 - low) / (top - low)
    harm = scaled - limit if better == "lower" else limit - scaled
    worst = limit if better == "lower" else 1 - limit
    bets = np.minimum([0.5, 1, 2, 4, 8, 16, 32], 0.9 / worst)
    wanted = np.prod(1 + bets[:, None] * harm, axis=1).mean()
    again = Guards.from_json(guards.to_json())
    for one in (guards, again):
        found = {evidence.arm: evidence for evidence in one.evidence()}
        assert found["a"].e_value == pytest.approx(wanted, rel=1e-9)
        assert found["a"].mean == pytest.approx(np.minimum(values, top).mean())
        assert found["a"].rows == found[""].rows == 40


def actions(served: Here) -> list[Any]:
    listed: list[Any] = served.get("/v1/actions")["actions"]
    return listed


def spend(served: Here, first: int, last: int) -> None:
    """Decisions whose cost is 1 for tech and 0 for the other arms."""
    for i in range(first, last):
        arm = served.decide(f"v{i}")["arm"]
        body = {"id": f"v{i}", "reward": 0.5, "metrics": {"cost": float(arm == "tech")}}
        served.post("reward", body)


def test_an_arm_beyond_its_limit_is_paused_once(tmp_path: Path) -> None:
    guard = (
        '[metrics.cost]\nrole = "guardrail"\nbetter = "lower"\nhigh = 1\nlimit = 0.1\n'
        'limit_is = "mean"\naction = "pause_arm"\n'
    )
    path = place(tmp_path, top="policy.share = 0.05\n", experts=LINES + guard)
    with here(path) as served:
        spend(served, 0, 60)
        wait(lambda: actions(served))
        (found,) = actions(served)
        assert (found["action"], found["value"]) == ("pause_arm", {"arm": "tech"})
        assert found["sender"] == "guardrail"
        assert "cost of tech is 1 in" in found["reason"]
        assert served.decide("later")["odds"]["tech"] == 0
        resume = {"action": "resume_arm", "arm": "tech", "reason": "a test"}
        served.post("actions", resume)
        spend(served, 60, 120)
        served.state()
        served.portal.call(served.experiment().guardrails.look)
        assert [one["action"] for one in actions(served)] == ["resume_arm", "pause_arm"]
    with here(path) as served:  # also after a restart
        served.portal.call(served.experiment().guardrails.look)
        assert len(actions(served)) == 2
    with closing(open_reader(str(path.with_suffix(".sqlite")))) as store:
        assert verify(store).holds


def test_a_policy_worse_than_its_control_is_paused(tmp_path: Path) -> None:
    guard = (
        '[holdout]\nshare = 0.5\n[metrics.cost]\nrole = "guardrail"\nbetter = "lower"\n'
        'high = 1\nlimit = 0.1\nlimit_is = "absolute"\naction = "pause"\n'
    )
    top = 'policy.share = 0.05\ncontrol = "arm:politics"\n'
    path = place(tmp_path, top=top, experts=LINES + guard)
    with here(path) as served:
        follower = served.experiment().follower
        for i in range(400):
            answer = served.decide(f"v{i}")
            cost = float(answer["arm"] != "politics")
            body = {"id": f"v{i}", "reward": 0.5, "metrics": {"cost": cost}}
            served.post("reward", body)
        served.state()
        assert follower.now.position
        wait(lambda: actions(served))
        (found,) = actions(served)
        assert (found["action"], found["sender"]) == ("pause", "guardrail")
        assert served.decide("later")["propensity"] == 1


def test_all_replicas_make_the_same_request() -> None:
    breach = Breach(ERRORS, "a" * 300, "too many")
    assert breach.request.id == breach._replace(reason="many").request.id
    assert len(breach.request.id) <= 256
