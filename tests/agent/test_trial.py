"""Agents with a holdout and metrics: propensities, groups, outcomes and their log."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import chisquare

import oddsmith as od
from oddsmith.contexts.metrics import Metric
from oddsmith.core.arrays import Array
from oddsmith.evaluation import policy_odds, score_metrics, unit_log
from oddsmith.evaluation.scorecard import metric_amounts
from oddsmith.policies.holdout import Holdout, RampStep

ARMS = ["old", "new", "other"]
TABLE = od.TableExperts(np.array([[[0.2, 0.6, 0.3]]]))
REVENUE = Metric("revenue", cap=50.0)


def _policy(gamma: float = 0.1) -> od.Policy:
    return od.GeneralizedThompsonSampling(TABLE, gamma=gamma)


def _counts(decisions: list[od.Decision]) -> Array:
    counts: Array = np.zeros(3)
    for one in decisions:
        counts[one.index] += 1
    return counts


def test_frequencies_of_the_mixture_are_its_propensities() -> None:
    """Chi-square at 1e-4, of a fixed seed."""
    agent = od.Agent(_policy(), 7, ARMS, holdout=Holdout(0.3, "uniform"))
    decisions = [agent.decide(0) for _ in range(6_000)]
    odds = decisions[0].propensities
    assert odds == pytest.approx(0.7 * np.array([1, 28, 1]) / 30 + 0.1, abs=1e-12)
    assert chisquare(_counts(decisions), 6_000 * odds).pvalue > 1e-4


def test_a_batch_has_the_odds_of_its_rows() -> None:
    holdout = Holdout(0.3, "arm:old")
    batch = od.Agent(_policy(), 7, ARMS, holdout=holdout).decide_batch([0, 0, 0])
    single = od.Agent(_policy(), 7, ARMS, holdout=holdout)
    for row in batch.rows():
        assert row == single.decide(0)
    assert batch.control is not None
    assert batch.control.tolist() == [[1.0, 0.0, 0.0]] * 3


def test_by_unit_both_groups_are_compared_by_their_totals() -> None:
    """The true difference of totals is covered by an interval of 95 %, of a fixed
    seed."""
    holdout = Holdout(0.4, "arm:old", by="unit")
    agent = od.Agent(_policy(), 7, ARMS, holdout=holdout, metrics=[REVENUE])
    rng = np.random.default_rng(1)
    means = {"old": 2.0, "new": 8.0, "other": 3.0}
    visits = 2
    for unit in range(1_500):
        for _ in range(visits):
            decision = agent.decide(0, unit=f"u{unit}")
            amount = min(25.0, float(rng.exponential(means[decision.arm])))
            agent.record(decision, metrics={"revenue": amount})
    log = od.Log.of(*agent.outcomes())
    assert len(log) == 3_000
    by_unit = unit_log(log)
    assert len(by_unit) == 1_500
    (found,) = score_metrics(
        by_unit, {"policy": [1.0, 0.0]}, [0.0, 1.0], [REVENUE], control_name="old"
    )
    odds = agent.policy.odds(agent.state, 0).propensities
    capped = np.array([m * (1 - np.exp(-25 / m)) for m in means.values()])
    truth = visits * float(odds @ capped - capped[0])
    assert found.outcome == "better"
    assert found.difference.low < truth < found.difference.high


def test_ramps_and_ends_follow_the_clock() -> None:
    now = [1e9]
    holdout = Holdout(0.1, "arm:old", ramp=[RampStep(2, 0.9)], end_day=10)
    agent = od.Agent(_policy(), 7, ARMS, holdout=holdout, clock=lambda: now[0])
    shares = []
    for day in (0, 1.9, 2, 9.9, 10):
        now[0] = 1e9 + day * 86_400
        shares.append(agent.decide(0).holdout)
    assert shares == [0.9, 0.9, 0.1, 0.1, 1.0]


@pytest.mark.parametrize("by", ["decision", "unit"])
def test_all_slots_of_a_slate_are_in_one_group(by: Any) -> None:
    """A slate is one unit of the comparison, and a visitor all of its slates."""
    holdout = Holdout(0.5, "arm:old", by=by)
    policy = od.Bounded(od.BetaThompsonSampling(3), floors=0.1)
    agent = od.Agent(policy, 7, ARMS, holdout=holdout)
    slates = []
    for visit in range(60):
        unit = {"unit": f"u{visit % 20}"} if by == "unit" else {}
        slate = agent.decide_slate({}, slots=2, **unit)
        (group,) = {one.group for one in slate}
        if group == "control":
            assert [one.arm for one in slate] == ["old", "new"]
            assert [one.propensity for one in slate] == [1.0, 1.0]
        slates.append(slate)
    decisions = [one for slate in slates for one in slate]
    groups = {(one.unit, one.group) for one in decisions}
    assert len(groups) == (20 if by == "unit" else 60)
    assert {group for _, group in groups} == {"policy", "control"}
    if by == "unit":
        with pytest.raises(od.InvalidInput, match="unit must be given"):
            agent.decide_slate({}, slots=2)
    totals = unit_log(od.Log.of(decisions, np.ones(len(decisions)))).metric
    assert totals is not None
    assert totals.ravel().tolist() == [120 / len(groups)] * len(groups)


def test_amounts_make_the_reward() -> None:
    weights = {"revenue": 0.01, "refunds": -0.02}
    metrics = [REVENUE, Metric("refunds", better="lower", high=20.0)]
    agent = od.Agent(_policy(), 7, ARMS, metrics=metrics, reward_weights=weights)
    plain = od.Agent(_policy(), 7, ARMS)
    decision = agent.decide(0)
    same = plain.decide(0)
    agent.record(decision, metrics={"refunds": 5})
    agent.learn(decision, metrics={"revenue": 40})
    plain.learn(same, 0.01 * 40 - 0.02 * 5)
    np.testing.assert_array_equal(agent.state.log_weights, plain.state.log_weights)
    decisions, rewards, columns = agent.outcomes()
    assert decisions == [decision]
    assert rewards == [pytest.approx(0.3)]
    assert {name: column.tolist() for name, column in columns.items()} == {
        "revenue": [40.0],
        "refunds": [5.0],
    }


def test_a_declared_reward_is_the_reward() -> None:
    """It has no amounts of its own: neither in records nor in logs."""
    reward = Metric("reward", role="primary", cap=2.0)
    agent = od.Agent(_policy(), 7, ARMS, metrics=[reward, REVENUE])
    for value in (1.0, 0.0):
        agent.learn(agent.decide(0), value, metrics={"revenue": 3})
    with pytest.raises(od.InvalidInput, match="give it as the reward"):
        agent.record(agent.decide(0), metrics={"reward": 1})
    log = od.Log.of(*agent.outcomes())
    assert log.metrics == ("revenue",)
    assert metric_amounts(log, reward)[:2].tolist() == [1.0, 0.0]


@pytest.mark.parametrize("amount", [1e101, np.nan, np.inf, -0.1, "3", True, None])
def test_amounts_are_finite_numbers_in_their_range(amount: Any) -> None:
    agent = od.Agent(_policy(), 7, ARMS, metrics=[REVENUE])
    decision = agent.decide(0)
    with pytest.raises(od.InvalidInput, match="metric revenue must be"):
        agent.record(decision, metrics={"revenue": amount})
    agent.record(decision, metrics={"revenue": -0.0})


def test_ips_of_both_sides_from_an_agents_log_is_unbiased() -> None:
    """Four standard errors of 4,000 decisions, of a fixed seed."""
    means = np.array([0.2, 0.6, 0.3])
    frozen = _policy(gamma=0.3)
    agent = od.Agent(frozen, 3, ARMS, holdout=Holdout(0.2, "arm:old"))
    rng = np.random.default_rng(2)
    decisions = [agent.decide(0) for _ in range(4_000)]
    rewards = [float(rng.random() < means[one.index]) for one in decisions]
    log = od.Log.of(decisions, rewards)
    target = policy_odds(log)
    truth = frozen.odds(frozen.init(), 0).propensities
    np.testing.assert_allclose(target, np.tile(truth, (4_000, 1)), atol=1e-12)
    assert log.control is not None
    for odds in (target, log.control):
        assert log.propensity is not None
        weights = odds[np.arange(4_000), log.arm] / log.propensity
        gains = weights * log.reward
        error = gains.std() / np.sqrt(4_000)
        assert abs(gains.mean() - odds[0] @ means) < 4 * error


@pytest.mark.parametrize(
    ("settings", "call", "words"),
    [
        ({"holdout": Holdout(0.1, by="unit")}, {}, "unit must be given"),
        ({"holdout": Holdout(0.1)}, {"unit": "a"}, "unit must be left out"),
        ({}, {"unit": "a"}, "unit must be left out"),
    ],
)
def test_units_are_asked_for_where_they_decide(
    settings: dict[str, Any], call: dict[str, Any], words: str
) -> None:
    agent = od.Agent(_policy(), 7, ARMS, **settings)
    with pytest.raises(od.InvalidInput, match=words):
        agent.decide(0, **call)


def test_what_an_agent_cannot_know_is_refused() -> None:
    with pytest.raises(od.InvalidInput, match="one of the arms"):
        od.Agent(_policy(), 7, ARMS, holdout=Holdout(0.1, "arm:bleu"))
    with pytest.raises(od.InvalidInput, match="incumbent"):
        od.Agent(_policy(), 7, ARMS, holdout=Holdout(0.1, "incumbent"))
    with pytest.raises(od.InvalidInput, match="did you mean revenue"):
        od.Agent(_policy(), 7, ARMS, metrics=[REVENUE], reward_weights={"revenu": 1})
    agent = od.Agent(_policy(), 7, ARMS, metrics=[REVENUE])
    decision = agent.decide(0)
    with pytest.raises(od.InvalidInput, match="reward must be given"):
        agent.learn(decision, metrics={"revenue": 1})
    with pytest.raises(od.InvalidInput, match="did you mean revenue"):
        agent.record(decision, metrics={"revenu": 1})
    with pytest.raises(od.InvalidInput, match="one of this agent's"):
        agent.record(decision._replace(step=99), metrics={"revenue": 1})
    with pytest.raises(od.InvalidInput, match="keeps none"):
        od.Agent(_policy(), 7, ARMS).outcomes()


def test_a_loaded_agent_goes_on_with_its_holdout(tmp_path: Path) -> None:
    holdout = Holdout(0.5, "arm:old", by="unit")
    agent = od.Agent(_policy(), 7, ARMS, holdout=holdout)
    units = [f"u{i}" for i in range(20)]
    groups = [agent.decide(0, unit=unit).group for unit in units]
    assert set(groups) == {"policy", "control"}
    agent.save(tmp_path / "agent.npz")
    again = od.Agent.load(tmp_path / "agent.npz", _policy(), holdout=holdout)
    assert [again.decide(0, unit=unit).group for unit in units] == groups
