"""Replay, fit, hindsight, the test of served arms and reports, on logs whose arms came
with the call."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from contexts.offers import ARM_WIDTH, CONTEXT_WIDTH, LINEAR, POLICIES, functions
from evaluation import changing_arms as world
from evaluation.changing_arms import fixed_and_offered
from oddsmith import evaluation as ev
from oddsmith.evaluation.assessment import assess


def test_replay_of_a_log_with_offers_is_that_of_fixed_arms() -> None:
    fixed, offered = fixed_and_offered()
    bank = od.FunctionExperts(
        {
            "first": lambda context, arm: 0.3 + 0.1 * int(arm[-1]),
            "even": lambda context, arm: 0.4,
        }
    )
    policies = [
        od.GeneralizedThompsonSampling(one, od.square_loss, gamma=0.2)
        for one in (bank.__class__(bank.functions, fixed.arms), bank)
    ]
    one, other = (
        od.replay(policy, log, seed=3)
        for policy, log in zip(policies, (fixed, offered), strict=True)
    )
    np.testing.assert_array_equal(one.rows, other.rows)
    assert len(one.rows) > 5
    np.testing.assert_allclose(
        policies[0].posterior(one.state), policies[1].posterior(other.state), atol=1e-12
    )
    again = od.replay(policies[0], offered, seed=3)
    np.testing.assert_array_equal(one.rows, again.rows)
    assert other.log().offered is not None


def test_a_replayed_policy_lives_as_in_the_world() -> None:
    """Arms that differ: the mean reward of a policy that does not learn is its value,
    within 4.5 standard errors."""
    log, _ = world.played(10_000, seed=12)
    lived = od.replay(od.uniform(world.BANK), log, seed=2)
    assert (
        abs(
            lived.value
            - world.value(
                (world.LOGGER > 0) / (world.LOGGER > 0).sum(axis=1, keepdims=True)
            )
        )
        < 4.5 * lived.error
    )
    assert lived.error < 0.03


def test_hindsight_and_fit_are_those_of_fixed_arms() -> None:
    fixed, offered = fixed_and_offered(seed=2)
    functions = {
        "first": lambda context, arm: 0.3 + 0.1 * int(arm[-1]),
        "even": lambda context, arm: 0.4,
    }
    made, called = (
        od.GeneralizedThompsonSampling(
            od.FunctionExperts(functions, arms), od.square_loss
        )
        for arms in (fixed.arms, None)
    )
    expected = od.evaluation.hindsight(made, fixed).posterior
    for policy, log in ((made, offered), (called, offered)):
        np.testing.assert_allclose(
            od.evaluation.hindsight(policy, log).posterior, expected, atol=1e-12
        )
        np.testing.assert_allclose(
            policy.posterior(od.fit_log(policy, log).state), expected, atol=1e-12
        )


def test_fit_from_logs_with_fewer_arms_than_the_policy_has() -> None:
    fixed, offered = fixed_and_offered(seed=2)
    functions = {
        "first": lambda context, arm: 0.9 - 0.1 * (ord(arm[-1]) % 8),
        "even": lambda context, arm: 0.4,
    }
    wider = ["new", *reversed(fixed.arms or ())]
    policy = od.GeneralizedThompsonSampling(
        od.FunctionExperts(functions | {"new": lambda x, a: 0.9 * (a == "new")}, wider),
        od.square_loss,
    )
    masked = od.Log(
        **fixed.columns() | {"eligible": np.ones_like(fixed.propensities, dtype=bool)},
        arms=fixed.arms,
    )
    states = [od.fit_log(policy, log).state for log in (fixed, masked, offered)]
    for state in states[1:]:
        np.testing.assert_allclose(
            policy.posterior(state), policy.posterior(states[0]), atol=1e-12
        )
    learner = od.auto(wider, size="small")
    learnt = [od.fit_log(learner, log[:100]).state for log in (fixed, offered)]
    one, other = (learner.posterior(state) for state in learnt)
    np.testing.assert_allclose(one, other, atol=1e-9)


def test_learners_without_arms_fit_what_they_would_have_learnt() -> None:
    log, _ = world.played(150, seed=13)
    policy = od.auto(size="small")
    agent = od.Agent(policy, seed=5)
    decisions, rewards = [], []
    for row in range(len(log)):
        decisions.append(agent.decide(log.context[row], arms=log.features[row]))
        rewards.append(float(log.reward[row]))
        agent.learn(decisions[-1], rewards[-1])
    own = od.Log.of(decisions, rewards)
    for given in (own, own.without("advice", "log_weights")):
        np.testing.assert_allclose(
            policy.posterior(od.fit_log(policy, given).state),
            policy.posterior(agent.state),
            atol=1e-9,
        )


@pytest.mark.parametrize("name", [*POLICIES, *LINEAR])
def test_every_policy_fits_what_it_has_lived_through(name: str) -> None:
    rng = np.random.default_rng(6)
    policy = LINEAR[name]() if name in LINEAR else POLICIES[name](functions())
    state, decisions, rewards = (
        policy.init(),
        [],
        rng.integers(2, size=20).astype(float),
    )
    for step, reward in enumerate(rewards, 1):
        names = tuple(
            f"arm {a}" for a in rng.choice(9, rng.integers(1, 6), replace=False)
        )
        features = {name: rng.normal(size=ARM_WIDTH) for name in names}
        offer = od.Offer(rng.normal(size=CONTEXT_WIDTH), names, features)
        decision = od.decide(policy, state, offer, float(rng.random()), step=step)
        decisions.append(
            decision._replace(context=offer.context, arms=names, features=features)
        )
        state = policy.update(deepcopy(state), decisions[-1], float(reward))
    own = od.Log.of(decisions, rewards, fingerprint=[od.fingerprint(policy)] * 20)
    for log in (own, own.without("advice", "bonus", "log_weights")):
        if name in ("exp4p", "hedged", "epoch greedy") and log.bonus is None:
            with pytest.raises(
                od.InvalidInput,
                match=r"columns advice and bonus: required for [EH]",
            ):
                od.fit_log(policy, log)
            continue
        offer = od.Offer(
            np.ones(CONTEXT_WIDTH),
            ("x", "y"),
            {"x": np.ones(ARM_WIDTH), "y": np.zeros(ARM_WIDTH)},
        )
        odds = [
            policy.odds(one, offer, step=21).propensities
            for one in (state, od.fit_log(policy, log).state)
        ]
        np.testing.assert_allclose(odds[1], odds[0], rtol=0, atol=1e-9)


def test_served_as_logged_knows_arms_by_name() -> None:
    _, offered = fixed_and_offered(n=1500, seed=1)
    names = np.array(offered.offered)
    assert not ev.served_as_logged(offered).caught
    forced = np.where(
        np.arange(1500) % 5 == 0, (names == "arm 3").argmax(axis=1), offered.arm
    )
    columns = {
        name: value for name, value in offered.columns().items() if name != "propensity"
    }
    caught = ev.served_as_logged(od.Log(**columns | {"arm": forced}))
    assert caught.caught
    assert caught.suspect == "arm arm 3 were forced"


def test_served_as_logged_knows_places_where_names_are_too_many() -> None:
    rng = np.random.default_rng(4)
    offers = [
        tuple(f"{row} {place}" for place in range(3 + row % 2)) for row in range(1000)
    ]
    odds = np.array(
        [[1 / len(names)] * len(names) + [0.0] * (4 - len(names)) for names in offers]
    )
    arm = (rng.random((1000, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    log = od.Log(arm=arm, reward=np.zeros(1000), propensities=odds, offered=offers)
    assert not ev.served_as_logged(log).caught
    first = np.where(rng.random(1000) < 0.3, 0, arm)
    caught = ev.served_as_logged(
        od.Log(arm=first, reward=np.zeros(1000), propensities=odds, offered=offers)
    )
    assert "arm at place 1 of the offer were forced" in caught.sentence


def test_reports_name_the_arms(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    from oddsmith.evaluation.report import summary, write_report

    log, _ = world.played(500, seed=14)
    found = assess(
        log,
        {
            "policy": ev.policy_target(log, world.POLICY),
            "uniform": ev.uniform_target(log),
        },
    )
    assert found.has_answers
    assert "500 rows over 5 arms, at most 5 in a row" in summary(found)[0]
    assert write_report(found, tmp_path / "index.html", "offers").exists()
