"""Experts that join, retire and come back, under every policy that weighs experts."""

from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.experts.learners import LearningExperts, Ridge
from oddsmith.policies import (
    EXP4,
    EXP4P,
    CalibratedMixture,
    Hedged,
    RateMixture,
    ScaleFreeSampling,
)

ARMS = ("a", "b", "c")
SAID = {"low": (0.2, 0.5, 0.3), "high": (0.7, 0.1, 0.4), "new": (0.3, 0.3, 0.9)}


class Says:
    """A model that predicts the same numbers in every context."""

    def __init__(self, name: str) -> None:
        self.name = name

    def predict(self, rows: Any) -> Any:
        return np.tile(SAID[self.name], (len(rows), 1))


def models(*names: str) -> od.ModelExperts:
    return od.ModelExperts({name: Says(name) for name in names}, ARMS)


Make = Callable[[Any], Any]
POLICIES: dict[str, Make] = {
    "gts": lambda bank: od.GeneralizedThompsonSampling(bank, gamma=0.1),
    "optimism": lambda bank: od.GeneralizedThompsonSampling(
        bank, gamma=0.1, optimism=0.2
    ),
    "bounded": lambda bank: od.Bounded(
        od.GeneralizedThompsonSampling(bank, gamma=0.1), floors=0.05
    ),
    "rates": lambda bank: RateMixture(bank, gamma=0.1),
    "hedged": lambda bank: od.Bounded(
        Hedged(od.GeneralizedThompsonSampling(bank, gamma=0.1)), floors=0.05
    ),
    "exp4": lambda bank: EXP4(bank, eta=0.1, gamma=0.1),
    "exp4p": lambda bank: EXP4P(bank, steps=100),
    "mixture": lambda bank: CalibratedMixture(bank, gamma=0.1),
    "scale-free": lambda bank: ScaleFreeSampling(bank, gamma=0.1),
}


def agent(make: Make, *names: str) -> od.Agent:
    return od.Agent(make(models(*names)), seed=3)


def live(one: od.Agent, n: int) -> list[od.Decision]:
    """Decisions of which every other one is rewarded."""
    decisions = [one.decide([0.0]) for _ in range(n)]
    for t, decision in enumerate(decisions[::2]):
        one.learn(decision, float(t % 3 == 0))
    return decisions[1::2]


@pytest.fixture(params=POLICIES)
def make(request: pytest.FixtureRequest) -> Make:
    return POLICIES[request.param]


def test_a_newcomer_has_its_share_and_others_keep_their_proportions(
    make: Make,
) -> None:
    one = agent(make, "low", "high")
    live(one, 20)
    before = one.posterior()
    one.add_expert("new", Says("new"), share=0.2)
    after = one.posterior()
    assert list(after) == ["low", "high", "new"]
    assert sum(after.values()) == pytest.approx(1, abs=1e-12)
    if make is POLICIES["hedged"]:  # whose rate follows the least prior
        assert 0.1 < after["new"] < 0.3
        return
    assert after["new"] == pytest.approx(0.2, abs=1e-12)
    for name, weight in before.items():
        assert after[name] == pytest.approx(0.8 * weight, abs=1e-12)


def test_decisions_made_before_teach_nothing_about_a_newcomer(make: Make) -> None:
    """Its share of the weight stays: it is charged what the others lost on average, and
    they are compared with each other as without it."""
    one, alone = agent(make, "low", "high"), agent(make, "low", "high")
    early, same = live(one, 12), live(alone, 12)
    one.add_expert("new", Says("new"), share=0.25)
    share = one.posterior()["new"]
    for t, (decision, other) in enumerate(zip(early, same, strict=True)):
        one.learn(od.Decision.from_json(decision.to_json()), float(t % 2))
        alone.learn(other, float(t % 2))
    after = one.posterior()
    if make is POLICIES["hedged"]:
        return  # q and η of the decision: see the test of charges
    if make in (POLICIES["gts"], POLICIES["bounded"], POLICIES["exp4"]):
        wanted = alone.posterior()
        assert after["low"] / after["high"] == pytest.approx(
            wanted["low"] / wanted["high"]
        )
    assert 0.1 < after["new"] < 0.4
    assert share == pytest.approx(0.25, abs=1e-12)


def test_a_newcomer_of_hedged_is_charged_the_mix() -> None:
    """By its definition: in the votes that a decision carries nobody voted for it."""
    one = agent(POLICIES["hedged"], "low", "high")
    live(one, 10)
    decision = one.decide([0.0])
    was: Any = one.policy.policy  # type: ignore[attr-defined]
    charged, gap = was.charges(decision.by_number(), 0.0)
    one.add_expert("new", Says("new"), share=0.3)
    before = one.state
    one.learn(decision, 0.0)
    lost = one.state.lost - before.lost
    assert one.state.price == pytest.approx(before.price + gap)
    np.testing.assert_allclose(lost[[0, 1, 3]], charged, atol=1e-12)
    trust = decision.bonus[2:] / decision.bonus[2:].sum()  # type: ignore[index]
    eta = decision.bonus[2:].sum()  # type: ignore[index]
    mix = -np.log((trust * np.exp(-eta * charged)).sum()) / eta
    assert lost[2] == pytest.approx(mix)


def test_experts_retire_and_come_back(make: Make) -> None:
    one = agent(make, "low", "high", "new")
    kept = live(one, 12)
    one.retire_expert("high")
    assert one.posterior()["high"] == 0
    for decision in kept[:3]:
        one.learn(decision, 1.0)
    assert one.posterior()["high"] == 0
    live(one, 6)
    one.add_expert("high", share=0.4)
    assert 0.1 < one.posterior()["high"] < 0.7
    for decision in kept[3:]:
        one.learn(decision, 1.0)
    live(one, 6)


def test_save_and_load(make: Make, tmp_path: Path) -> None:
    """With the policy that the agent was made with, and the experts that joined; or
    with the policy that it has."""
    one = agent(make, "low", "high")
    live(one, 8)
    one.add_expert("new", Says("new"), share=0.3)
    one.retire_expert("low")
    kept = live(one, 8)
    with pytest.warns(od.errors.NoVersion):
        one.save(tmp_path / "agent.npz")
    first = make(models("low", "high"))
    with pytest.raises(
        od.InvalidInput, match="experts must have 'new', which was added"
    ):
        od.Agent.load(tmp_path / "agent.npz", first)
    loaded = od.Agent.load(tmp_path / "agent.npz", first, experts={"new": Says("new")})
    again = od.Agent.load(tmp_path / "agent.npz", one.policy)
    for other in (loaded, again):
        assert other.posterior() == one.posterior()
        for decision in kept[:2]:
            other.learn(decision, 1.0)
    for decision in kept[:2]:
        one.learn(decision, 1.0)
    decision = one.decide([0.0])
    for other in (loaded, again):
        same = other.decide([0.0])
        assert same.propensities.tolist() == decision.propensities.tolist()
        assert same.arm == decision.arm


def test_functions_banks_and_learners_join(make: Make) -> None:
    one = agent(make, "low", "high")
    one.add_expert("function", lambda context: [0.1, 0.2, 0.3])
    assert one.posterior()["function"] > 0.1  # one among three equals
    one.add_expert(
        "bank", od.FunctionExperts({"bank": lambda x: [0.5, 0.4, 0.3]}, ARMS)
    )
    learner = LearningExperts(ARMS, (Ridge(),))
    one.add_expert(learner.names[0], learner)
    assert one.policy.in_place
    kept = live(one, 10)
    assert one.state.learnt == 5
    one.learn(kept[0], 1.0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one.add_expert("low", Says("low")), "must not be active yet"),
        (lambda one: one.add_expert("x"), "got NoneType"),
        (lambda one: one.add_expert("x", models("new")), "alone in its bank"),
        (lambda one: one.add_expert("x", Says("new"), share=1.0), r"share must be in"),
        (lambda one: one.retire_expert("lwo"), "must be one of"),
    ],
    ids=["there", "nothing", "another name", "all", "unknown"],
)
def test_wrong_changes_change_nothing(
    change: Callable[[od.Agent], None], message: str
) -> None:
    one = agent(POLICIES["gts"], "low", "high")
    before = one.policy
    with pytest.raises(od.InvalidInput, match=message):
        change(one)
    assert one.policy is before
    one.retire_expert("high")
    with pytest.raises(od.InvalidInput, match="must not be the last one"):
        one.retire_expert("low")


def test_policies_that_keep_their_experts_say_so() -> None:
    gts = od.GeneralizedThompsonSampling(models("low", "high"), gamma=0.1)
    for policy in (od.Windowed(gts, window=4), od.LinUCB(dim=1, n_arms=3)):
        with (
            pytest.warns(od.errors.NoExploration)
            if not policy.explores
            else nullcontext()
        ):
            one = od.Agent(policy, seed=1)
        with pytest.raises(
            od.InvalidInput, match="must support adding and retiring experts"
        ):
            one.add_expert("new", Says("new"))


@pytest.mark.parametrize("form", [dict, list])
def test_a_newcomer_may_be_a_model_for_each_arm(form: type) -> None:
    """As the models that are there: a dict by arm, or a list."""

    class Constant:
        def __init__(self, mean: float) -> None:
            self.mean = mean

        def predict(self, rows: Any) -> Any:
            return np.full(len(rows), self.mean)

    arms = ["a", "b"]
    low = {arm: Constant(mean) for arm, mean in zip(arms, (0.1, 0.2), strict=True)}
    high = {arm: Constant(mean) for arm, mean in zip(arms, (0.7, 0.8), strict=True)}
    one = od.Agent(od.auto(arms, models={"low": low}), seed=3)
    one.add_expert("high", high if form is dict else list(high.values()), share=0.5)
    bank = one.policy.bank
    assert bank is not None
    place = list(bank.names).index("high")
    predictions = bank.predict(one.state.experts, [0.0])
    assert predictions[place].tolist() == [0.7, 0.8]
