"""Arms that come with the call: as exact as fixed ones, whatever their number and
order."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

import oddsmith as od
from contexts.offers import (
    BANKS,
    LEARNING,
    LINEAR,
    POLICIES,
    WEIGHTS,
    Mean,
    by_name,
    context,
    features,
    gts,
    taught,
)
from oddsmith.core.decision import Decision
from oddsmith.core.policy import fold

pytestmark = pytest.mark.filterwarnings("ignore::oddsmith.core.errors.NoExploration")
FREE = settings(
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
)


def everybody() -> dict[str, Any]:
    over = {
        f"{p}, {b}": (lambda p=p, b=b: POLICIES[p](BANKS[b]()))
        for p in POLICIES
        for b in ("functions", "linear")
    }
    banks = {f"gts, {b}": (lambda b=b: gts(BANKS[b]())) for b in BANKS}
    return over | banks | LINEAR


ALL = everybody()


@pytest.mark.parametrize("case", ALL)
def test_odds_by_name_do_not_depend_on_the_order_and_are_equal_for_equal_rows(
    case: str,
) -> None:
    agent, rng = taught(ALL[case]()), np.random.default_rng(5)
    for n in (1, 2, 3, 7, 30, 200):
        x, arms = context(rng), features(rng, n)
        # which read names
        if "functions" not in case and case != "gts, guarded" and case != "gts, stack":
            arms["twin one"] = arms["twin two"] = rng.standard_normal(3)
        odds = by_arm(agent, x, arms)
        assert sum(odds.values()) == pytest.approx(1, abs=1e-9)
        if "twin one" in arms:
            assert odds["twin one"] == pytest.approx(odds["twin two"], abs=1e-12)
        names = list(arms)
        rng.shuffle(names)
        again = by_arm(agent, x, {name: arms[name] for name in names})
        assert again == pytest.approx(odds, abs=1e-12)


def by_arm(agent: od.Agent, x: Any, arms: Any) -> dict[str, float]:
    offer = od.make_offer(x, arms)
    odds = agent.policy.odds(agent.state, offer, step=agent.steps + 1).propensities
    return dict(zip(offer.arms, odds.tolist(), strict=True))


@pytest.mark.parametrize("case", [name for name in ALL if name.startswith("gts")])
@FREE
@given(n=st.integers(1, 200), seed=st.integers(0, 2**32 - 1), bare=st.booleans())
def test_no_arm_falls_below_gamma_over_k(
    case: str, n: int, seed: int, bare: bool
) -> None:
    rng = np.random.default_rng(seed)
    policy = ALL[case]()
    reads_rows = any(
        word in case for word in ("linear", "models", "clipped", "stack", "shared")
    )
    arms: Any = list(features(rng, n)) if bare and not reads_rows else features(rng, n)
    agent = AGENTS.setdefault(case, taught(policy))
    step = agent.steps + 1
    odds = policy.odds(
        agent.state, od.make_offer(context(rng), arms), step=step
    ).propensities
    inner: Any = policy.policy if isinstance(policy, od.Windowed) else policy
    assert odds.shape == (n,)
    assert odds.min() >= inner.gamma_at(step) / n - 1e-15
    assert odds.sum() == pytest.approx(1, abs=1e-9)


AGENTS: dict[str, od.Agent] = {}


@pytest.mark.parametrize("bank", sorted(set(BANKS) - {"guarded"}))
@FREE
@given(data=st.data())
def test_a_batch_is_the_single_decisions(bank: str, data: st.DataObject) -> None:
    """Bit for bit for the library's own experts; functions and models of users to their
    own rounding."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    sizes = data.draw(st.lists(st.integers(1, 12), min_size=1, max_size=6))
    contexts, arms = [context(rng) for _ in sizes], [features(rng, n) for n in sizes]
    eligible = None
    if data.draw(st.booleans()):
        eligible = [None if rng.random() < 0.5 else [next(iter(one))] for one in arms]
    single, batch = taught(gts(BANKS[bank]())), taught(gts(BANKS[bank]()))
    many = batch.decide_batch(contexts, arms=arms, eligible=eligible)
    few = eligible or [None] * len(sizes)
    for row, x, one, only in zip(many.rows(), contexts, arms, few, strict=True):
        decision = single.decide(x, arms=one, eligible=only)
        n = len(one)
        assert (row.arm, row.step, row.index, row.arms) == (
            decision.arm,
            decision.step,
            decision.index,
            decision.arms,
        )
        np.testing.assert_allclose(
            row.propensities[:n],
            decision.propensities,
            atol=1e-12 if bank == "models" else 0,
        )
        assert not row.propensities[n:].any()
    rewards = rng.integers(0, 2, len(sizes)).astype(float)
    batch.learn(many, rewards)
    for row, reward in zip(many.rows(), rewards, strict=True):
        single.learn(row, reward)
    if bank in LEARNING:
        assert single.posterior() == batch.posterior()
    else:
        assert single.posterior() == pytest.approx(batch.posterior(), abs=1e-12)


def test_one_offer_for_a_whole_batch_and_frames_of_contexts() -> None:
    agent, rng = taught(gts(BANKS["linear"]())), np.random.default_rng(2)
    arms, contexts = features(rng, 4), np.stack([context(rng) for _ in range(3)])
    many = agent.decide_batch(contexts, arms=arms)
    assert [row.arms for row in many.rows()] == [tuple(arms)] * 3
    assert many.propensities.shape == (3, 4)


# whose odds depend on the step
BY_STEP = ("epoch greedy", "tuned", "gts, gamma falling")


@pytest.mark.parametrize(
    "case",
    [
        name
        for name in ALL
        if ("linear" in name or "thompson" in name) and not name.startswith(BY_STEP)
    ],
)
def test_draws_have_their_odds(case: str) -> None:
    """Chi-square of 4,000 draws from one state whose odds do not depend on the step.

    Some 20 such tests at 1e-5 would fail by chance once in 5,000 runs with other seeds.
    """
    agent, rng = taught(ALL[case]()), np.random.default_rng(11)
    x, arms = context(rng), features(rng, 5)
    odds = by_arm(agent, x, arms)
    drawn = pd.Series(
        [agent.decide(x, arms=arms).arm for _ in range(4000)]
    ).value_counts()
    alive = [name for name, p in odds.items() if p > 0]
    assert set(drawn.index) <= set(alive)
    if len(alive) > 1:
        expected = np.array([odds[name] for name in alive]) * 4000
        assert (
            chisquare(
                [int(drawn.get(name, 0)) for name in alive],
                expected / expected.sum() * 4000,
            ).pvalue
            > 1e-5
        )


NAMES = [f"arm {i}" for i in range(5)]
ROWS = {
    name: np.random.default_rng(7).standard_normal(3) + i
    for i, name in enumerate(NAMES)
}
TABLE = np.stack(list(ROWS.values()))
LINEAR_BANK = od.LinearExperts(WEIGHTS[:, 2:])


def odd(context: float, arm: str) -> float:
    return 0.3 + 0.4 * (int(arm[-1]) % 2) * context


def functions(arms: Any = None) -> od.Experts:
    return od.FunctionExperts({"name": by_name, "odd": odd}, arms)


# a bank made with arms, one made without, what the first is asked in a context, and
# what the second, with which arms
TWINS: dict[str, Any] = {
    "functions": (functions(NAMES), functions(), float, float, NAMES),
    "guarded": (
        od.Guarded(functions(NAMES)),
        od.Guarded(functions()),
        float,
        float,
        NAMES,
    ),
    "stack": (od.stack(functions(NAMES)), od.stack(functions()), float, float, NAMES),
    "linear": (LINEAR_BANK, LINEAR_BANK, lambda u: TABLE, lambda u: None, ROWS),
    "clipped": (
        od.experts.Clipped(LINEAR_BANK),
        od.experts.Clipped(LINEAR_BANK),
        lambda u: TABLE,
        lambda u: None,
        ROWS,
    ),
    "given": (
        *[od.GivenExperts(["a", "b"])] * 2,
        *[lambda u: np.outer([u, 1 - u], np.arange(5) / 5)] * 2,
        NAMES,
    ),
    "models": (
        od.ModelExperts({"first": Mean(0), "last": Mean(-1)}, NAMES, TABLE),
        od.ModelExperts({"first": Mean(0), "last": Mean(-1)}),
        *[lambda u: np.array([u])] * 2,
        ROWS,
    ),
    "encoded": (
        od.experts.Encoded(LINEAR_BANK, od.Schema(numbers=("x", "y", "z"))),
        od.experts.Encoded(LINEAR_BANK, None, od.Schema(numbers=("x", "y", "z"))),
        lambda u: [dict(zip("xyz", row, strict=True)) for row in TABLE],
        lambda u: None,
        {name: dict(zip("xyz", row, strict=True)) for name, row in ROWS.items()},
    ),
}


@pytest.mark.parametrize("bank", TWINS)
@pytest.mark.parametrize("policy", POLICIES)
def test_arms_given_in_every_call_are_the_fixed_ones(policy: str, bank: str) -> None:
    """Odds, draws and posteriors of banks that can be made either way."""
    fixed, open_to, known, brought, arms = TWINS[bank]
    one, other = (
        od.Agent(POLICIES[policy](fixed), seed=4, arms=NAMES),
        od.Agent(POLICIES[policy](open_to), seed=4),
    )
    rng = np.random.default_rng(8)
    for _ in range(30):
        u, eligible = float(rng.random()), NAMES[int(rng.integers(0, 3)) :]
        first = one.decide(known(u), eligible=eligible)
        second = other.decide(brought(u), arms=arms, eligible=eligible)
        assert (first.arm, first.index) == (second.arm, second.index)
        np.testing.assert_allclose(
            first.propensities, second.propensities, atol=1e-12, rtol=0
        )
        reward = float(rng.integers(0, 2))
        one.learn(first, reward)
        other.learn(second, reward)
    if policy != "epoch greedy":  # which has none
        assert one.posterior() == pytest.approx(other.posterior(), abs=1e-12)


@pytest.mark.parametrize("bank", sorted(set(BANKS) - LEARNING))
def test_the_order_of_rewards_means_nothing_to_fixed_experts(bank: str) -> None:
    policy, rng = gts(BANKS[bank]()), np.random.default_rng(8)
    agent = od.Agent(policy, seed=1)
    decisions = [
        agent.decide(context(rng), arms=features(rng, int(rng.integers(1, 6))))
        for _ in range(20)
    ]
    rewards = rng.integers(0, 2, 20).astype(float)
    order = rng.permutation(20)
    there = fold(policy, policy.init(), decisions, rewards)
    back = fold(policy, policy.init(), [decisions[i] for i in order], rewards[order])
    np.testing.assert_allclose(
        policy.posterior(there), policy.posterior(back), atol=1e-12
    )


@pytest.mark.parametrize(
    "arms",
    [
        ["a", 7],
        {"a": {"x": 1.5, "y": None}, "b": {"x": 2.0, "y": "z"}},
        {"a": [1.0, None]},
    ],
)
def test_a_decision_goes_through_json_and_can_be_learnt_then(arms: Any) -> None:
    agent, other = od.Agent(od.auto(), seed=3), od.Agent(od.auto(), seed=3)
    decision = agent.decide({"hour": 9}, arms=arms)
    read = Decision.from_json(decision.to_json())
    assert read == decision
    assert read.question.arms == decision.question.arms
    agent.learn(decision, 1)
    other.learn(read, 1)
    assert other.decide({"hour": 9}, arms=arms).propensities.tolist() == pytest.approx(
        agent.policy.odds(
            agent.state, od.make_offer({"hour": 9}, arms)
        ).propensities.tolist()
    )


def test_batches_of_different_sizes_go_through_json() -> None:
    agent, rng = od.Agent(od.auto(), seed=3), np.random.default_rng(0)
    many = agent.decide_batch(
        [context(rng), context(rng)], arms=[features(rng, 2), features(rng, 3)]
    )
    read = Decision.from_json(many.to_json())
    assert read == many
    agent.learn(read, [0.0, 1.0])


def test_fixed_arms_must_be_both_offered_and_eligible() -> None:
    agent = od.Agent(od.auto(["a", "b", "c"]), seed=1)
    with pytest.raises(
        od.errors.NoEligibleArm, match="none that is also among the arms of the call"
    ):
        agent.decide({}, arms=["a", "b"], eligible=["c"])
    with pytest.raises(
        od.errors.NoEligibleArm, match="none that is also among the arms of the call"
    ):
        agent.decide_batch([{}, {}], arms=[["a", "b"], ["c"]], eligible=["c"])
    assert agent.decide_batch(
        [{}, {}], arms=[["a", "c"], ["c"]], eligible=["c"]
    ).arm.tolist() == ["c", "c"]
