"""Ballots within floors, caps and caps of groups: by linear programming, by the draws,
and in all forms of a call."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.stats import chi2

import oddsmith as od
from oddsmith.core import kernels
from oddsmith.core.arrays import Array
from oddsmith.core.draw import pick
from oddsmith.core.offer import Offer, OfferBatch
from oddsmith.policies.parts.feasible import Limits, feasible_ballots
from oddsmith.policies.parts.projection import project_groups
from policies.laminar import Instance, instances

CapGroup = od.policies.CapGroup
MEANS = np.array([0.6, 0.5, 0.05, 0.05, 0.05])
NAMES = ["sponsored", "news", "sport", "tech", "art"]


def worst(seed: int, n: int) -> tuple[float, float]:
    """The largest excess over a bound, of odds and ballots, and the largest loss of a
    greedy ballot against the best one, in units of the largest prediction."""
    excess = []
    losses = []
    for one in instances(seed, n):
        policy = one.policy()
        advice = (one.predictions, one.ballots)
        _, ballots = policy.cast(advice, eligible=one.eligible)
        cast = ballots[one.ballots.any(axis=-1)]
        excess += [one.excess(odds) for odds in [one.propensities(), *cast]]
        assert not one.propensities()[~one.eligible].any()
        assert policy.cast((one.predictions, ballots), eligible=one.eligible)[1] is (
            ballots
        )
        losses += [_loss(one, ballots)]
    return max(excess), max(losses)


def _loss(one: Instance, ballots: Array) -> float:
    """What the last expert's ballot loses; an arm without a prediction is worth less
    than all others."""
    predictions = one.predictions[-1]
    if not one.ballots[-1].any():
        return 0.0
    values = predictions / (np.nanmax(np.abs(predictions)) or 1.0)
    values = np.where(np.isnan(values), -1.0, values)
    return one.best_value(values) - float(values @ ballots[-1])


def test_ballots_are_feasible_and_the_best() -> None:
    excess, loss = worst(seed=1, n=300)
    assert excess < 1e-12
    assert loss < 1e-7


def test_compiled_ballots_are_those_of_numpy_to_the_last_bit() -> None:
    """One by one, and in batches with masks or bounds of their own."""
    usual = kernels.choice()
    for one in instances(seed=8, n=80):
        policy = one.policy()
        limits = policy._limits(len(one.floors), one.eligible, None)
        masks = np.stack([np.ones_like(one.eligible), one.eligible])
        asked: list[tuple[Array, Any, Limits]] = [
            (one.ballots, one.predictions, limits),
            (one.ballots, one.predictions.astype(np.float32), limits),
            (one.ballots, one.predictions, limits.restrict(masks & one.eligible)),
            (np.stack([one.ballots] * 2), np.stack([one.predictions] * 2), limits),
        ]
        bits = []
        for choice in ("numpy", "numba"):
            kernels.use(choice)
            found = [feasible_ballots(*each) for each in asked]
            found.append(replace(limits).uniform)
            bits.append([(each.shape, each.tobytes()) for each in found])
        kernels.use(usual)
        assert bits[0] == bits[1]


def test_a_call_of_a_batch_that_no_odds_can_meet_is_refused(any_kernels: str) -> None:
    """Also where the other calls take more passes."""
    policy = od.GeneralizedThompsonSampling(od.GivenExperts(["one"]), gamma=0.1)
    groups = [CapGroup(0.3, arms=(0, 1)), CapGroup(0.3, arms=(2, 3))]
    bounded = od.Bounded(policy, cap_groups=groups)
    said = np.array([[[0.9, 0.8, 0.3, 0.2, 0.1]]] * 2)
    eligible = np.ones((2, 5), dtype=np.bool_)
    eligible[0, 4] = False
    with pytest.raises(od.errors.Infeasible, match=r"they sum to 0\.6"):
        bounded.odds(bounded.init(), said, eligible=eligible)


@pytest.mark.soak
def test_ballots_are_feasible_and_the_best_on_10000_instances() -> None:
    excess, loss = worst(seed=2, n=10_000)
    print(f"10,000 instances: excess {excess:.2g}, loss against linprog {loss:.2g}")
    assert excess < 1e-12
    assert loss < 1e-7


def test_arms_are_drawn_as_often_as_their_propensities_say() -> None:
    """Pearson's statistic over 60 instances: fails once in a million runs of other
    seeds."""
    rng = np.random.default_rng(5)
    total = 0.0
    freedom = 0
    for one in instances(seed=3, n=60):
        odds = one.propensities()
        drawn = pick(np.broadcast_to(odds, (4_000, len(odds))), rng.random(4_000))
        counts = np.bincount(drawn, minlength=len(odds))
        often = 4_000 * odds >= 5
        assert not counts[odds == 0].any()
        total += float(
            ((counts - 4_000 * odds)[often] ** 2 / (4_000 * odds[often])).sum()
        )
        freedom += max(int(often.sum()) - 1, 0)
    assert chi2.sf(total, freedom) > 1e-6


def test_batches_and_offers_have_the_odds_of_single_calls() -> None:
    """To the last bit for ballots, to 1e-15 for odds."""
    names = [f"arm {i}" for i in range(8)]
    for one in instances(seed=4, n=60):
        k = len(one.floors)
        policy = one.policy()
        state = one.state(policy)
        advice = (one.predictions, one.ballots)
        single = policy.weigh(state, advice, eligible=one.eligible).propensities
        twice = np.stack([one.predictions] * 2), np.stack([one.ballots] * 2)
        masks = np.stack([one.eligible] * 2)
        batch = policy.weigh(state, twice, eligible=masks).propensities
        np.testing.assert_allclose(batch, [single] * 2, rtol=0, atol=1e-15)
        votes = policy.cast(advice, eligible=one.eligible)[1]
        np.testing.assert_array_equal(policy.cast(twice, eligible=masks)[1][1], votes)
        asked = policy.odds(state, one.predictions, eligible=one.eligible)
        if (one.ballots == od.core.weights.greedy(one.predictions, one.eligible)).all():
            np.testing.assert_array_equal(asked.propensities, single)

        floors = dict(zip(names, one.floors.tolist(), strict=False))
        caps = dict(zip(names, one.caps.tolist(), strict=False))
        groups = [CapGroup(most, [names[a] for a in arms]) for most, arms in one.groups]
        named = od.Bounded(policy.policy, floors, caps, groups)
        offer = Offer(None, tuple(names[:k]))
        offered = named.weigh(state, advice, eligible=one.eligible, offer=offer)
        np.testing.assert_array_equal(offered.propensities, single)
        both = OfferBatch((offer, offer))
        offered = named.weigh(state, twice, eligible=masks, offer=both)
        np.testing.assert_array_equal(offered.propensities, batch)


def test_projections_with_groups_cannot_be_improved() -> None:
    """No mass can move between two arms within the bounds and bring the odds closer:
    for bounds like these that is enough."""
    rng = np.random.default_rng(6)
    for one in instances(seed=7, n=300):
        low, high, groups = one.limits()
        k = len(low)
        odds = rng.dirichlet(np.full(k, 0.5)) + 1e-12
        members = np.zeros((len(groups), k), dtype=np.bool_)
        for row, (_, arms) in zip(members, groups, strict=True):
            row[arms] = True
        at_most = np.array([most for most, _ in groups])
        found = project_groups(
            np.where(one.eligible, odds, 0.0), low, high, members, at_most
        )
        assert one.excess(found) < 1e-12
        full = members[(members * found).sum(axis=1) >= at_most - 1e-9]
        strain = np.log(np.maximum(found, 1e-300) / odds)
        for giver in np.flatnonzero(found > low + 1e-9):
            for taker in np.flatnonzero(found < high - 1e-9):
                if full[full[:, taker], giver].all():
                    assert strain[taker] >= strain[giver] - 1e-6


def value_after(policy: od.Policy, seed: int, n: int) -> float:
    """The expected reward of the odds after n rewards."""
    agent = od.Agent(policy, seed=seed, arms=NAMES)
    rewards = np.random.default_rng(seed).random(n)
    for reward in rewards:
        decision = agent.decide({"hour": 9})
        agent.learn(decision, float(reward < MEANS[decision.number]))
    return float(agent.decide({"hour": 9}).propensities @ MEANS)


def mean_value(seeds: int, n: int) -> float:
    values = [
        value_after(od.Bounded(od.auto(NAMES), caps={"sponsored": 0.3}), seed, n)
        for seed in range(seeds)
    ]
    return float(np.mean(values))


def test_a_cap_leaves_the_rest_to_the_next_best_arm() -> None:
    """0.29 if the rest was shared equally; 0.53 is possible."""
    assert mean_value(seeds=3, n=300) > 0.45


@pytest.mark.soak
def test_a_cap_leaves_the_rest_to_the_next_best_arm_in_1000_rewards() -> None:
    mean = mean_value(seeds=16, n=1_000)
    print(f"16 seeds, 1,000 rewards: expected reward {mean:.4f} (possible: 0.5300)")
    assert mean > 0.5


def test_a_known_best_arm_is_filled_first() -> None:
    truth = od.GivenExperts(["truth"])
    policy = od.GeneralizedThompsonSampling(truth, gamma=0.005)
    bounded = od.Bounded(policy, caps=[0.3, 1, 1, 1, 1])
    odds = bounded.odds(bounded.init(), MEANS[None]).propensities
    np.testing.assert_allclose(odds, [0.2995, 0.6975, 0.001, 0.001, 0.001], atol=1e-15)


def test_groups_and_policies_that_weigh_ballots() -> None:
    said = np.array([[0.9, 0.8, 0.3, 0.2], [0.1, 0.8, 0.9, 0.2]])
    experts = od.GivenExperts(["a", "b"])
    group = CapGroup(0.4, arms=(0, 1))
    inner = od.GeneralizedThompsonSampling(experts, gamma=0.1)
    for policy in (
        inner,
        od.Windowed(od.GeneralizedThompsonSampling(experts), window=5),
        od.hedged(experts),
        od.policies.RateMixture(experts),
        od.policies.EXP4(experts, eta=0.1),
        od.policies.EXP4P(experts, steps=100),
        od.policies.EpochGreedy(experts),
        od.policies.SquareCB(experts, sharpness=10.0),
    ):
        bounded = od.Bounded(policy, floors=0.02, caps=0.7, cap_groups=[group])
        odds = bounded.odds(bounded.init(), said, step=2).propensities
        assert odds[:2].sum() <= 0.4 + 1e-12
        assert odds.sum() == pytest.approx(1, abs=1e-12)
        assert (odds >= 0.02).all()
        assert (odds <= 0.7).all()
    bounded = od.Bounded(inner, cap_groups=[group])
    explained: Any = bounded.explain(bounded.init(), said)
    np.testing.assert_allclose(
        explained.ballots, np.array([[0.4, 0, 0.6, 0], [0, 0, 1, 0]])
    )
    np.testing.assert_allclose(explained.uniform, [0.02, 0.02, 0.03, 0.03])
    mixed = 0.9 * explained.weights @ explained.ballots + explained.uniform
    np.testing.assert_allclose(explained.propensities, mixed, atol=1e-15)


def test_a_cap_binds_only_while_others_can_take_the_rest() -> None:
    one = od.thompson_sampling(od.GivenExperts(["a"]))
    said = np.array([[0.9, 0.8, 0.3]])
    bounded = od.Bounded(one, cap_groups=[CapGroup(0.2, arms=(0, 1))])
    for mask, right in (([1, 1, 1], [0.2, 0.0, 0.8]), ([1, 1, 0], [1.0, 0.0, 0.0])):
        eligible = np.array(mask, dtype=np.bool_)
        odds = bounded.odds(bounded.init(), said, eligible=eligible)
        np.testing.assert_allclose(odds.propensities, right)


def test_features_of_an_offer_make_groups() -> None:
    likes = od.FunctionExperts(
        {"likes first": lambda context, arm: 0.9 if arm == "ad-1" else 0.5}
    )
    policy = od.GeneralizedThompsonSampling(likes, gamma=0.0)
    group = CapGroup(0.3, feature="sponsored", value=True)
    bounded = od.Bounded(policy, floors=0.2, cap_groups=[group])
    state = bounded.init()
    ads = {"ad-1": {"sponsored": True}, "ad-2": {"sponsored": True}}
    arms = ads | {"page": {"sponsored": False}, "new": None}
    odds = bounded.odds(state, Offer({}, tuple(arms), arms)).propensities
    # a floor of 0.2 for each ad would be more than their cap: 0.15 is an equal share
    np.testing.assert_allclose(odds, [0.15, 0.15, 0.35, 0.35])
    only_ads = bounded.odds(state, Offer({}, tuple(ads), ads)).propensities
    np.testing.assert_allclose(only_ads, [0.8, 0.2])
    unnamed = Offer([1.0], ("a", "b"), {"a": [1.0], "b": [2.0]})
    with pytest.raises(od.InvalidInput, match="needs features with names; arm 'a' has"):
        bounded.odds(state, unnamed)
    with pytest.raises(od.InvalidInput, match="needs arms that are passed in the call"):
        bounded.weigh(state, (np.ones((1, 2)), np.ones((1, 2)) / 2))
    other = CapGroup(0.5, arms=["ad-1", "new"])
    crossed = od.Bounded(policy, cap_groups=[group, other])
    with pytest.raises(
        od.InvalidInput, match="sponsored = True and the group of 'ad-1"
    ):
        crossed.odds(state, Offer({}, tuple(arms), arms))


def test_a_number_follows_how_many_arms_are_eligible() -> None:
    """1/K counts the eligible arms of an offer; a cap below it is raised to it."""
    one = od.thompson_sampling(od.GivenExperts(["a"]))
    said = np.array([[0.9, 0.8, 0.3, 0.2]])
    offer = Offer(None, ("a", "b", "c", "d"))
    two = np.array([True, True, False, False])
    for bounds, right in (
        ({"floors": 0.4}, [0.6, 0.4, 0, 0]),
        ({"floors": 0.9}, [0.5, 0.5, 0, 0]),
        ({"caps": 0.3}, [0.5, 0.5, 0, 0]),
        ({"caps": 0.7}, [0.7, 0.3, 0, 0]),
    ):
        bounded = od.Bounded(one, **bounds)
        advice = (said, od.core.weights.greedy(said, two))
        odds = bounded.weigh(bounded.init(), advice, eligible=two, offer=offer)
        np.testing.assert_allclose(odds.propensities, right)


@pytest.mark.parametrize(
    ("groups", "bounds", "error"),
    [
        ([(0.5, [0, 1]), (0.5, [1, 2])], {}, "nested or disjoint.* share 1, and"),
        ([(0.5, [0, 9])], {}, "got 9 for 4 arms"),
        ([(0.3, [0, 1]), (0.3, [2, 3])], {}, "group of 2, 3 they sum to 0.6"),
        ([(0.3, [0, 1])], {"floors": 0.2}, "group of 0, 1 must sum to at most .* 0.4"),
        ([(0.3, [0, 1])], {"caps": 0.3}, "they sum to 0.9"),
    ],
)
def test_bounds_that_cannot_be_met_are_named(
    groups: Any, bounds: Any, error: str
) -> None:
    one = od.thompson_sampling(od.GivenExperts(["a"]))
    said = np.array([[0.9, 0.8, 0.3, 0.2]])
    cap_groups = [CapGroup(at_most, arms) for at_most, arms in groups]

    def ask() -> None:
        bounded = od.Bounded(one, cap_groups=cap_groups, **bounds)
        bounded.odds(bounded.init(), said)

    with pytest.raises(od.InvalidInput, match=error):
        ask()


@pytest.mark.parametrize(
    "group",
    [
        {"at_most": 1.2, "arms": ["a"]},
        {"at_most": 0.2},
        {"at_most": 0.2, "arms": "ab"},
        {"at_most": 0.2, "arms": ["a", "a"]},
        {"at_most": 0.2, "arms": ["a"], "feature": "x", "value": 1},
        {"at_most": 0.2, "feature": "x"},
    ],
)
def test_groups_are_checked(group: Any) -> None:
    with pytest.raises(
        od.InvalidInput, match=r"at_most must be|a group must|of a group"
    ):
        CapGroup(**group)
