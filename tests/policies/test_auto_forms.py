"""Every form of auto: propensities are the frequencies of draws, inverse propensity
scores of its own log are unbiased, and a saved agent goes on to the last bit."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import oddsmith as od

ARMS = ("a", "b")
DEVICES = ("phone", "desktop")
RATES = np.array([[0.7, 0.2], [0.4, 0.6]])  # context by arm
FEATURES = {"a": {"topic": "sport", "price": 1.0}, "b": {"topic": "news", "price": 2.0}}


def right(context: Any) -> Any:
    return RATES[DEVICES.index(context["device"])]


def wrong(context: Any) -> Any:
    return 1 - right(context)


def sleeper(context: Any) -> Any:
    return RATES[0] if context["device"] == "phone" else np.full(2, np.nan)


def models() -> od.Experts:
    """A model that is right, one that is wrong, and one that predicts half the time."""
    known = {"right": right, "wrong": wrong, "sleeper": sleeper}
    return od.FunctionExperts(known, arms=ARMS)


class Form(NamedTuple):
    """A policy, and whether it is fitted from a log before."""

    make: Callable[[], Any]
    warm: bool = False

    @property
    def policy(self) -> Any:
        return self.make()


FORMS = {
    "arms": Form(lambda: od.auto(ARMS)),
    "arms, drift": Form(lambda: od.auto(ARMS, share=0.01, size="small")),
    "models": Form(lambda: od.auto(models=models(), size="small")),
    "arms of the call": Form(lambda: od.auto(size="small")),
    "after a log": Form(lambda: od.auto(ARMS), warm=True),
    "models after a log": Form(lambda: od.auto(models=models()), warm=True),
    "arms of the call after a log": Form(lambda: od.auto(size="small"), warm=True),
}


def question(policy: Any, device: int) -> Any:
    context = {"device": DEVICES[device]}
    if policy.takes_offers:
        return od.Offer(context, ARMS, FEATURES)
    return context


def log_of(policy: Any, rows: int) -> od.Log:
    """The log of a policy that shows the better arm in 80 % of the cases."""
    rng = np.random.default_rng(1)
    device = rng.integers(2, size=rows)
    is_better = np.equal(RATES, RATES.max(axis=1, keepdims=True))
    odds = np.where(is_better, 0.8, 0.2)[device]
    arm = (rng.random(rows) < odds[:, 1]).astype(int)
    reward = (rng.random(rows) < RATES[device, arm]).astype(float)
    columns: dict[str, Any] = {"arms": list(ARMS)}
    if policy.takes_offers:
        columns = {"offered": [ARMS] * rows, "features": [FEATURES] * rows}
    contexts = [{"device": DEVICES[place]} for place in device]
    return od.Log(
        arm=arm, reward=reward, propensities=odds, context=contexts, **columns
    )


def first_state(form: Form, policy: Any) -> Any:
    return od.fit_log(policy, log_of(policy, 80)).state if form.warm else policy.init()


def decide(policy: Any, state: Any, device: int, uniform: float) -> Any:
    asked = question(policy, device)
    decision = od.decide(policy, state, asked, uniform)
    if policy.takes_offers:
        return decision._replace(
            context=asked.context, arms=asked.arms, features=asked.features
        )
    return decision


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_propensities_are_the_frequencies_of_draws(form: Form) -> None:
    """At uniform numbers that are spread evenly, to one draw."""
    policy = form.policy
    state = first_state(form, policy)
    rng = np.random.default_rng(2)
    for _ in range(20):
        device = int(rng.integers(2))
        decision = decide(policy, state, device, float(rng.random()))
        click = float(rng.random() < RATES[device, decision.number])
        state = policy.update(state, decision, click)
    n = 500
    for device in (0, 1):
        odds = policy.odds(state, question(policy, device)).propensities
        assert odds.min() >= 0.005 / 2 - 1e-12
        arms = [
            decide(policy, state, device, (place + 0.5) / n).number
            for place in range(n)
        ]
        share = np.bincount(arms, minlength=2) / n
        np.testing.assert_allclose(share, odds, atol=1 / n)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_inverse_propensity_scores_are_unbiased_by_enumeration(form: Form) -> None:
    """All arms and clicks of three decisions, with their probabilities."""
    policy = form.policy
    devices = (0, 1, 1)
    target = np.array([[0.3, 0.7], [0.9, 0.1]])
    truth = float(np.mean([target[device] @ RATES[device] for device in devices]))

    def expected(state: Any, step: int) -> float:
        """The mean of the scores that are still to come."""
        if step == len(devices):
            return 0.0
        device = devices[step]
        odds = policy.odds(state, question(policy, device)).propensities
        total = 0.0
        for arm, propensity in enumerate(odds.tolist()):
            before = float(odds[:arm].sum())
            decision = decide(policy, state, device, before + propensity / 2)
            assert decision.number == arm
            for click in (0.0, 1.0):
                rate = RATES[device, arm]
                chance = propensity * (rate if click else 1 - rate)
                score = click * target[device, arm] / decision.propensity
                after = policy.update(deepcopy(state), decision, click)
                total += chance * (score + expected(after, step + 1))
        return total

    found = expected(first_state(form, policy), 0) / len(devices)
    assert found == pytest.approx(truth, abs=1e-12)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a_saved_agent_goes_on_to_the_last_bit(form: Form, tmp_path: Path) -> None:
    policy = form.policy
    start = log_of(policy, 80) if form.warm else None
    agent = od.Agent(policy, seed=3, start=start)
    offered = FEATURES if policy.takes_offers else None

    def play(one: od.Agent, n: int) -> list[Any]:
        rng = np.random.default_rng(4)
        decisions = []
        for _ in range(n):
            context = {"device": DEVICES[int(rng.integers(2))]}
            decision = one.decide(context, arms=offered)
            one.learn(decision, float(rng.random() < 0.5))
            decisions.append(decision)
        return decisions

    play(agent, 10)
    agent.save(tmp_path / "a.npz")
    again = od.Agent.load(tmp_path / "a.npz", form.policy)
    assert play(agent, 10) == play(again, 10)
