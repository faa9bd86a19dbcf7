"""Decisions that were kept while the bank changed: advice is read by name and version,
and the others sleep."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od

ARMS = ["buy", "wait"]
SAID = {"low": 0.2, "high": 0.7, "mid": 0.5, "new": 0.9}


class Constant:
    """A model that predicts one number for the first arm, and the rest of 1 for the
    second."""

    def __init__(self, mean: float) -> None:
        self.mean = mean

    def predict(self, rows: Any) -> Any:
        return np.array([[self.mean, 1 - self.mean]] * len(rows))


def bank(*names: str, version: str | None = "nov") -> od.ModelExperts:
    return od.ModelExperts(
        {name: Constant(SAID[name]) for name in names}, arms=ARMS, version=version
    )


def agent(experts: od.Experts, **settings: Any) -> od.Agent:
    return od.Agent(
        od.GeneralizedThompsonSampling(experts, gamma=0.1, **settings), seed=7
    )


def kept(decision: od.Decision) -> od.Decision:
    return od.Decision.from_json(decision.to_json())


def mixed(prior: dict[str, float], awake: list[str], drawn: int) -> dict[str, float]:
    """Bayes for reward 1 at eta 1/2: w · sqrt(f); sleepers get the awake experts' mean
    of it, by their weights."""
    factor = {name: (SAID[name], 1 - SAID[name])[drawn] ** 0.5 for name in awake}
    mean = sum(prior[name] * factor[name] for name in awake) / sum(
        prior[name] for name in awake
    )
    posterior = {name: share * factor.get(name, mean) for name, share in prior.items()}
    return {name: share / sum(posterior.values()) for name, share in posterior.items()}


@pytest.mark.parametrize("order", ["behind", "before"])
@pytest.mark.parametrize("form", ["one", "list", "batch"])
def test_a_model_that_came_later_sleeps(
    any_kernels: str, order: str, form: str
) -> None:
    old, new = bank("low", "high", "mid"), bank("new", version="dec")
    prior = {"low": 0.4, "high": 0.3, "mid": 0.1, "new": 0.2}
    later = agent(
        od.stack(old, new) if order == "behind" else od.stack(new, old), prior=prior
    )
    decision = agent(old).decide([0.0])
    assert decision.advisers == (
        "low, version nov",
        "high, version nov",
        "mid, version nov",
    )
    if form == "one":
        later.learn(kept(decision), 1)
    elif form == "list":
        later.learn([kept(decision)], [1])
    else:
        later.learn(kept(od.Decision.stack([decision])), [1])
    expected = mixed(prior, ["low", "high", "mid"], int(decision.index))
    assert later.posterior() == pytest.approx(expected, abs=1e-12)


def test_another_version_is_another_model() -> None:
    decision = kept(
        agent(od.Guarded(od.stack(bank("low"), bank("high")))).decide([0.0])
    )
    replaced = agent(od.stack(bank("low"), bank("high", version="dec")))
    replaced.learn(decision, 1)
    # one awake: the sleeper shares its loss
    assert replaced.posterior() == pytest.approx({"low": 0.5, "high": 0.5})
    # in another order, all of them known
    both = agent(od.stack(bank("high"), bank("low")))
    both.learn(decision, 1)
    assert both.posterior() == pytest.approx(
        mixed({"high": 0.5, "low": 0.5}, ["high", "low"], int(decision.index))
    )


def test_what_nobody_knows_is_refused() -> None:
    decision, later = (
        agent(bank("low", "high")).decide([0.0]),
        agent(bank("low", "high", version="dec")),
    )
    told = (
        r"^decision must have advice from at least one of \['low, version dec', .*\]; got "
        r"advice from \['low, version nov', .*\]"
    )
    with pytest.raises(od.InvalidInput, match=told):
        later.learn(decision, 1)
    assert later.posterior() == {"low": 0.5, "high": 0.5}
    mixture = od.Agent(
        od.policies.RateMixture(od.stack(bank("low"), bank("new"))), seed=1
    )
    mixture.learn(decision, 1)  # a newcomer sleeps in it, and is charged the same
    assert mixture.posterior() == pytest.approx({"low": 0.5, "new": 0.5})
    lonely = od.policies.RegressorElimination(
        od.stack(bank("low"), bank("new")), contexts=[[0.0]]
    )
    refusal = r"^a decision can be learnt only by the policy that made it"
    with (
        pytest.raises(od.InvalidInput, match=refusal),
        pytest.warns(od.errors.NoExploration),
    ):
        od.Agent(lonely, seed=1).learn(decision, 1)
    with pytest.raises(
        od.InvalidInput, match=r"^decision must name its 2 experts; got 1 names"
    ):
        later.learn(decision._replace(advisers=("low, version dec",)), 1)


def test_sleepers_of_old_decisions_keep_the_weights_they_were_drawn_with() -> None:
    old = agent(od.GivenExperts(["a", "b", "c"]), prior=[0.5, 0.2, 0.3])
    decision = kept(old.decide(np.array([[0.4, 0.4], [0.8, 0.8], [np.nan, np.nan]])))
    later = agent(od.GivenExperts(["new", "c", "b", "a"]))
    later.learn(decision, 1)
    # by the weights of the decision, not by the even ones of today
    mean = (0.5 * 0.4**0.5 + 0.2 * 0.8**0.5) / 0.7
    expected = np.array([mean, mean, 0.8**0.5, 0.4**0.5])
    assert list(later.posterior().values()) == pytest.approx(
        list(expected / expected.sum())
    )


def test_logs_take_decisions_of_several_banks() -> None:
    before, after = (
        agent(bank("low", "high")).decide([0.0]),
        agent(bank("low", "high", version="dec")).decide([0.0]),
    )
    assert len(od.Log.of([before, after], [1, 0], arms=ARMS)) == 2
    with pytest.raises(
        od.InvalidInput,
        match=r"^decisions must have the same experts, in the same versions",
    ):
        od.Decision.stack([before, after])
    assert od.Decision.stack([before, before]).rows()[1] == before
