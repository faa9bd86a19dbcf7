"""auto on every family of problems: odds that are drawn from, logs that value other
policies, saves, folds, dirt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.stats import norm

import oddsmith as od
from oddsmith.files.state import leaves_of

ARMS = ("a", "b", "c")
TOPICS = ("news", "sport", "tech")


class Round(NamedTuple):
    """A context, the arms that come with it (None: they are fixed), and the mean reward
    of each arm in its order."""

    context: Any
    arms: Any
    means: Any


class Lived(NamedTuple):
    """An agent, and the rounds, decisions and rewards it has lived through."""

    agent: od.Agent
    rounds: list[Round]
    decisions: list[od.Decision]
    rewards: list[float]


def numbers(rng: np.random.Generator) -> Round:
    x = rng.normal(size=3)
    return Round(x, None, 0.2 + 0.6 * (x > 0))


def dicts(rng: np.random.Generator) -> Round:
    """Categories, a number that is often missing, and a key that is often not there."""
    city, age = rng.integers(3), rng.choice([20.5, 40.5])
    context = {
        "city": ["Rome", "Oslo", "Lima"][city],
        "age": None if rng.random() < 0.3 else age,
    }
    more = {"member": bool(rng.integers(2))} if rng.random() < 0.5 else {}
    return Round(context | more, None, np.where(np.arange(3) == city, 0.8, 0.3))


def rows(rng: np.random.Generator) -> Round:
    """Arms that are never seen again, each a row of numbers."""
    features = rng.normal(size=(rng.integers(2, 6), 4))
    names = [f"item {number}" for number in rng.integers(10**9, size=len(features))]
    return Round(
        None, dict(zip(names, features, strict=True)), 0.2 + 0.6 * (features[:, 0] > 0)
    )


def groups(rng: np.random.Generator) -> Round:
    """Some of a few arms that come again, with a category and a price that may be
    missing."""
    some = rng.permutation(9)[: rng.integers(2, 6)]
    arms = {
        f"card {i}": {"topic": TOPICS[i % 3]} | ({"price": i / 2} if i % 2 else {})
        for i in some
    }
    return Round({"hour": int(rng.integers(24))}, arms, 0.1 + 0.08 * some)


def routing(rng: np.random.Generator) -> Round:
    """Which model answers: a text and its length, models with sizes and costs, one of
    which may be away."""
    is_hard, some = bool(rng.integers(2)), rng.permutation(4)[: rng.integers(3, 5)]
    text = (
        "please prove that this theorem holds"
        if is_hard
        else "what time is it over there"
    )
    arms = {
        f"model {i}": {"size": float(2**i), "cost": 0.01 * 3**i, "maker": "ab"[i % 2]}
        for i in some
    }
    return Round(
        {"text": text, "length": float(rng.normal(50, 9))},
        arms,
        0.3 + 0.15 * (some if is_hard else 3 - some),
    )


FAMILIES: dict[str, Callable[[np.random.Generator], Round]] = {
    "numbers": numbers,
    "dicts": dicts,
    "rows": rows,
    "groups": groups,
    "routing": routing,
}


def policy_of(family: str) -> Any:
    return od.auto(ARMS if family in ("numbers", "dicts") else None, gamma=0.3)


def lived(family: str, seed: int, steps: int = 60) -> Lived:
    rng, life = (
        np.random.default_rng(seed),
        Lived(od.Agent(policy_of(family), seed=seed), [], [], []),
    )
    for _ in range(steps):
        now = FAMILIES[family](rng)
        given = {} if now.arms is None else {"arms": now.arms}
        decision = life.agent.decide(now.context, **given)
        reward = float(rng.random() < now.means[decision.number])
        life.agent.learn(decision, reward)
        life.rounds.append(now)
        life.decisions.append(decision)
        life.rewards.append(reward)
    return life


@pytest.mark.parametrize("family", FAMILIES)
def test_draws_have_their_odds_and_the_log_values_other_policies(family: str) -> None:
    """Sums of differences from what was stated, which are martingales: 12 runs of 60
    decisions, learning all along.

    Drawn or not less the odds of it, of the first and of the likeliest arm; and the
    value of always taking these, by inverse propensities, less their means. Each over
    its root sum of squares is normal: false alarm 1e-4 for all 20 of them together.
    Were three tenths of the stated odds uniform, the draws of each family would show it
    999 in 1,000.
    """
    missed: dict[str, list[float]] = {
        "first": [],
        "likeliest": [],
        "value of the first": [],
        "value of the likeliest": [],
    }
    for seed in range(12):
        life = lived(family, seed)
        for now, decision, reward in zip(
            life.rounds, life.decisions, life.rewards, strict=True
        ):
            odds, drawn = decision.propensities, decision.number
            assert odds.sum() == pytest.approx(1, abs=1e-12)
            assert odds.min() >= 0.3 / len(odds) - 1e-12
            assert decision.propensity == odds[drawn]
            best = int(odds.argmax())
            missed["first"].append((drawn == 0) - odds[0])
            missed["likeliest"].append((drawn == best) - odds[best])
            missed["value of the first"].append(
                (drawn == 0) / odds[0] * reward - now.means[0]
            )
            missed["value of the likeliest"].append(
                (drawn == best) / odds[best] * reward - now.means[best]
            )
    for what, differences in missed.items():
        z = np.sum(differences) / np.sqrt(np.sum(np.square(differences)))
        assert abs(z) < norm.isf(1e-4 / 2 / 20), what


def check_same(one: Any, other: Any) -> None:
    for (name, mine), (_, theirs) in zip(leaves_of(one), leaves_of(other), strict=True):
        np.testing.assert_array_equal(mine, theirs, err_msg=name)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_agent_goes_on_as_it_would_have(family: str, tmp_path: Path) -> None:
    life, rng = lived(family, seed=3), np.random.default_rng(99)
    life.agent.save(tmp_path / "agent.npz")
    again = od.Agent.load(tmp_path / "agent.npz", policy_of(family))
    check_same(again.state, life.agent.state)
    for _ in range(30):  # trees are grown in between
        now = FAMILIES[family](rng)
        given = {} if now.arms is None else {"arms": now.arms}
        one, other = (
            agent.decide(now.context, **given) for agent in (life.agent, again)
        )
        assert one.to_json() == other.to_json()
        for agent in (life.agent, again):
            agent.learn(one, float(now.means[one.number] > 0.5))
    check_same(again.state, life.agent.state)


@pytest.mark.parametrize("family", FAMILIES)
def test_its_log_folds_to_its_state(family: str) -> None:
    """Decisions read back from JSON, to the bit; a log as arrays, and one that holds
    neither advice nor weights."""
    life, policy = lived(family, seed=4), policy_of(family)
    state = policy.init()
    for decision, reward in zip(life.decisions, life.rewards, strict=True):
        state = policy.update(state, od.Decision.from_json(decision.to_json()), reward)
    check_same(state, life.agent.state)
    log = od.Log.of(life.decisions, life.rewards)
    for given in (log, log.without("advice", "log_weights")):
        learnt = od.fit_log(policy, given).state
        np.testing.assert_allclose(
            policy.posterior(learnt), policy.posterior(state), atol=1e-9
        )


DIRT: tuple[Any, ...] = (
    0.0,
    -3.5,
    1e101,
    -1e308,
    float("nan"),
    float("inf"),
    2**70,
    10**400,
    True,
    None,
    "",
    "x" * 5000,
    "\ud800",
    "\x00",
    [],
    {},
    b"bytes",
    object,
    np.int8(-1),
    3j,
)


def test_dirty_contexts_features_and_names() -> None:
    """Either odds that are numbers, or one clear sentence and a state that has not
    changed."""
    rng, policy = np.random.default_rng(5), od.auto(size="small")
    agent, answered, sentences = od.Agent(policy, seed=1), 0, list[str]()

    def value() -> Any:
        return (
            DIRT[rng.integers(len(DIRT))] if rng.random() < 0.4 else float(rng.normal())
        )

    def thing() -> Any:
        forms = (
            {str(rng.integers(6)): value() for _ in range(rng.integers(4))},
            [value() for _ in range(rng.integers(1, 4))],
            rng.normal(size=2),
            value(),
        )
        return forms[rng.integers(4)]

    for t in range(1500):
        names = [
            value() if rng.random() < 0.05 else f"arm {rng.integers(20)}"
            for _ in range(rng.integers(1, 5))
        ]
        names = [name for name in names if not isinstance(name, list | dict)]
        before = agent.state
        kept = before.log_weights.copy(), before.experts.table.last.copy()
        try:
            decision = agent.decide(
                thing(), arms={name: thing() for name in names} if t % 3 else names
            )
            agent.learn(decision, float(t % 2))
        except od.OddsmithError as error:
            sentences.append(str(error))
            np.testing.assert_array_equal(agent.state.log_weights, kept[0])
            np.testing.assert_array_equal(agent.state.experts.table.last, kept[1])
            continue
        answered += 1
        assert np.isfinite(decision.propensities).all()
        assert decision.propensities.sum() == pytest.approx(1)
    assert 150 < answered < 1350
    assert all("\n" not in said and len(said) < 400 for said in sentences)
    assert all(
        np.isfinite(part).all()
        for own in agent.state.experts.learners
        for part in own.models
    )
