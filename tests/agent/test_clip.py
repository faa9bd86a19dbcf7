"""Rates below 1 %, and what is said where predictions are at an end of the clip."""

from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core.explanation import Explanation

ARMS = ("a", "b")


class Says:
    """A model that predicts the same numbers in every context."""

    def __init__(self, *means: float) -> None:
        self._means = means

    def predict(self, rows: Any) -> Any:
        return np.tile(self._means, (len(rows), 1))


def notes(agent: od.Agent, context: Any) -> list[str]:
    parts = agent.explain(context)
    assert isinstance(parts, Explanation)
    words = " ".join(str(parts).split())  # the notes are wrapped
    assert all(note in words for note in parts.notes)
    return list(parts.notes)


def gts(models: dict[str, Any], **more: Any) -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(
        od.ModelExperts(models, ARMS, **more), gamma=0.1
    )


def test_rates_below_one_percent_tell_experts_apart() -> None:
    """After 20,000 rewards; ln(0.99 / 0.01) is more than 4 standard errors below the
    mean of the log ratio, 33."""
    rng = np.random.default_rng(1)
    truth = np.array([0.003, 0.009])
    policy = gts({"right": Says(0.003, 0.009), "wrong": Says(0.009, 0.003)})
    state = policy.init()
    drawn = rng.integers(2, size=20_000)
    rewards = (rng.random(20_000) < truth[drawn]).astype(float)
    advice = policy.bank.predict((), np.zeros(1))[:, drawn].T
    odds = np.full((20_000, 2), 0.5)
    decisions = od.Decision(
        np.arange(1, 20_001), np.zeros((20_000, 1)), None, drawn, odds, advice
    )
    state = od.fold(policy, state, decisions, rewards)
    assert policy.posterior(state)[0] > 0.99


def test_one_wrong_certainty_costs_the_logarithm_of_the_bound() -> None:
    """An expert that says 0, and is wrong once, has a hundredth of the weight (eta 1/2)
    of one that says 1/2; it returns with ln(5,000) / ln 2, so 13, rewards."""
    policy = gts({"sure": Says(0.0, 0.0), "even": Says(0.5, 0.5)})
    agent = od.Agent(policy, seed=1)
    weights = []
    for reward in [1.0] + 13 * [0.0]:
        agent.learn(agent.decide(0.0), reward)
        weights.append(agent.posterior()["sure"] / agent.posterior()["even"])
    assert np.isclose(weights[0], np.sqrt(2e-4))
    assert weights[-2] < 1 < weights[-1]


def test_explanations_name_clipped_experts() -> None:
    models = {"fine": Says(0.2, 0.3), "sure": Says(0.0, 0.4), "beyond": Says(1.2, 7.0)}
    clipped = notes(od.Agent(gts(models), seed=1), 0.0)
    assert [note.partition(":")[0] for note in clipped] == [
        "2 of 2 predictions of 'beyond' are at an end of its clip [0.0001, 0.9999]",
        "1 of 2 predictions of 'sure' is at an end of its clip [0.0001, 0.9999]",
    ]
    bank = od.stack(
        od.GivenExperts(["bare"]),
        od.Guarded(od.experts.Clipped(od.GivenExperts(["low"]), 0.2, 0.7)),
    )
    policy = od.GeneralizedThompsonSampling(bank, gamma=0.1)
    (note,) = notes(od.Agent(policy, seed=1, arms=ARMS), np.array([[0.0001, 0.6]]))
    assert note.startswith("1 of 2 predictions of 'low' is at an end of its clip [0.2")
