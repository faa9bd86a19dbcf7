"""Our policies next to the same algorithms of other libraries, on the same data;
skipped by name where absent."""

import warnings
from typing import Any

import numpy as np
import pytest

import oddsmith as od

ARMS, DIM = 4, 5
RNG = np.random.default_rng(2)
ROWS = [
    (RNG.normal(size=DIM), int(RNG.integers(ARMS)), float(RNG.random() < 0.4))
    for _ in range(120)
]


def learnt(policy: Any) -> Any:
    state = policy.init()
    for context, arm, reward in ROWS:
        decision = od.decide(policy, state, context, 0.5, step=1)._replace(arm=arm)
        state = policy.update(state, decision, reward)
    return state


def peer(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(
            name, reason=f"peer {name} is not installed (make bench installs it)"
        )


@pytest.mark.filterwarnings("ignore")
def test_linucb_is_mabwisers() -> None:
    mab = peer("mabwiser.mab")
    theirs = mab.MAB(
        list(range(ARMS)), mab.LearningPolicy.LinUCB(alpha=0.7, l2_lambda=2.0)
    )
    contexts, arms, rewards = zip(*ROWS, strict=True)
    theirs.fit(list(arms), list(rewards), contexts=np.array(contexts))
    policy = od.LinUCB(DIM, ARMS, alpha=0.7, ridge=2.0)
    state = learnt(policy)
    for _ in range(10):
        context = RNG.normal(size=DIM)
        expected = theirs.predict_expectations([context])
        np.testing.assert_allclose(
            policy.bounds(state, context), [expected[a] for a in range(ARMS)], atol=1e-8
        )


@pytest.mark.filterwarnings("ignore")
def test_linucb_has_rivers_regressions() -> None:
    """river adds a noise variance 1/beta to the bound's width; means are the same, and
    so are the widths without it."""
    bandit = peer("river.bandit")
    theirs = bandit.LinUCBDisjoint(alpha=2.0, beta=1.0, seed=1)
    for context, arm, reward in ROWS:
        theirs.update(arm, {i: float(v) for i, v in enumerate(context)}, reward)
    policy = od.LinUCB(DIM, ARMS, ridge=2.0)
    view = policy.view(learnt(policy), ROWS[0][0], None)
    for arm in range(ARMS):
        found = theirs._bayes_lin_regs[arm].predict_one(
            dict(enumerate(map(float, ROWS[0][0]))), with_dist=True
        )
        assert found.mu == pytest.approx(view.means[arm], abs=1e-8)
        assert found.sigma**2 - 1 == pytest.approx(view.variances[arm], abs=1e-8)


@pytest.mark.filterwarnings("ignore")
def test_beta_thompson_draws_as_mabwiser_does() -> None:
    """20,000 of its draws; 5 standard errors are at most 0.018."""
    mab = peer("mabwiser.mab")
    theirs = mab.MAB(list(range(ARMS)), mab.LearningPolicy.ThompsonSampling(), seed=3)
    _, arms, rewards = zip(*ROWS, strict=True)
    theirs.fit(list(arms), list(rewards))
    drawn = (
        np.bincount([theirs.predict() for _ in range(20_000)], minlength=ARMS) / 20_000
    )
    policy = od.BetaThompsonSampling(ARMS)
    np.testing.assert_allclose(
        policy.odds(learnt(policy), None).propensities, drawn, atol=0.018
    )


@pytest.mark.filterwarnings("ignore")
def test_beta_thompson_draws_as_river_does() -> None:
    bandit, proba = peer("river.bandit"), peer("river.proba")
    theirs = bandit.ThompsonSampling(reward_obj=proba.Beta(), seed=3)
    for _, arm, reward in ROWS:
        theirs.update(arm, bool(reward))
    drawn = (
        np.bincount(
            [theirs.pull(list(range(ARMS))) for _ in range(20_000)], minlength=ARMS
        )
        / 20_000
    )
    policy = od.BetaThompsonSampling(ARMS)
    np.testing.assert_allclose(
        policy.odds(learnt(policy), None).propensities, drawn, atol=0.018
    )


@pytest.mark.filterwarnings("ignore")
def test_probit_is_rivers_ad_predictor() -> None:
    """Binary features and a bias, without its drift: means and variances to 1e-9."""
    models = peer("river.linear_model")
    theirs = models.AdPredictor(beta=0.5, prior_probability=0.5, epsilon=0.0)
    policy = od.policies.ProbitThompsonSampling(DIM + 1, n_arms=1, noise=0.5)
    state = policy.init()
    for _ in range(60):
        active = RNG.random(DIM) < 0.5
        click = bool(RNG.random() < 0.3)
        theirs.learn_one({str(i): 1 for i in np.flatnonzero(active)}, click)
        context = np.append(active.astype(float), 1.0)
        state = policy.update(
            state, od.decide(policy, state, context, 0.5, step=1), float(click)
        )
    bias = next(
        key for key in theirs.means if not (isinstance(key, str) and key.isdigit())
    )
    names: list[Any] = [*map(str, range(DIM)), bias]
    np.testing.assert_allclose(
        state.mean[0], [theirs.means[name] for name in names], atol=1e-9
    )
    np.testing.assert_allclose(
        state.variance[0], [theirs.variances[name] for name in names], atol=1e-9
    )
