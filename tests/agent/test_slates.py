"""Slates: slots filled one after the other, with exact odds given those before."""

from collections import Counter
from collections.abc import Callable
from itertools import permutations
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import chisquare

import oddsmith as od

SIX = tuple("abcdef")
RNG = np.random.default_rng(3)
OFFER = {name: RNG.standard_normal(3) for name in SIX}


def functions(arms: Any = None) -> od.Experts:
    def likes(shift: int) -> Callable[..., float]:
        return lambda context, arm: (
            (ord(arm) * 7 + shift + 3 * int(context["slot"])) % 11 / 11
        )

    return od.FunctionExperts({f"expert {i}": likes(3 * i) for i in range(5)}, arms)


def gts(arms: Any = None) -> od.Policy:
    return od.GeneralizedThompsonSampling(functions(arms), od.square_loss, gamma=0.3)


CASES: dict[str, tuple[Callable[[], od.Policy], Any, Any]] = {
    "gts, arms of the call": (gts, {}, list(SIX)),
    "gts, arms at birth": (lambda: gts(SIX), {}, None),
    "bounded, arms of the call": (
        lambda: od.Bounded(gts(), floors=0.04, caps=0.5),
        {"hour": 9},
        dict.fromkeys(SIX),
    ),
    "bounded, arms at birth": (lambda: od.Bounded(gts(SIX), floors=0.05), None, None),
    "groups, arms of the call": (
        lambda: od.Bounded(
            gts(),
            caps=0.6,
            cap_groups=[
                od.policies.CapGroup(0.4, feature="paid", value=True),
                od.policies.CapGroup(0.1, arms=["a"]),
            ],
        ),
        {"hour": 9},
        {name: {"paid": name in "abc"} for name in SIX},
    ),
    "groups, arms at birth": (
        lambda: od.Bounded(
            gts(SIX),
            floors=0.02,
            cap_groups=[
                od.policies.CapGroup(0.7, arms=list("abcd")),
                od.policies.CapGroup(0.5, arms=list("abc")),
                od.policies.CapGroup(0.3, arms=list("ab")),
            ],
        ),
        None,
        None,
    ),
    "linear thompson": (
        lambda: od.LinearThompsonSampling(6, directions=64),
        np.array([0.3, -1.0]),
        OFFER,
    ),
    "auto": (od.auto, {"hour": 9}, {name: {"age": i} for i, name in enumerate(SIX)}),
    "auto, arms at birth": (lambda: od.auto(SIX), {"hour": 9}, None),
}


def taught(policy: od.Policy, context: Any, arms: Any) -> od.Agent:
    """An agent with a state in which odds are unequal."""
    agent, rng = od.Agent(policy, seed=5), np.random.default_rng(1)
    for _ in range(12):
        for decision in agent.decide_slate(context, arms=arms):
            agent.learn(
                decision, float(rng.random() < (0.8 if decision.arm in "ac" else 0.2))
            )
    return agent


def given_the_earlier(
    agent: od.Agent, context: Any, arms: Any, order: tuple[str, ...]
) -> list[float]:
    """The odds of each arm of an order, asked of the policy itself, with the arms
    before it masked."""
    odds = []
    for place, arm in enumerate(order, 1):
        if isinstance(context, np.ndarray):
            joined: Any = np.append(context, place)
        else:
            joined = {**(context or {}), "slot": place}
        question = joined if arms is None else od.make_offer(joined, arms)
        mask = (
            None
            if place == 1
            else np.array([name not in order[: place - 1] for name in SIX])
        )
        # of these policies odds depend on the step only by gamma, which is fixed
        found = agent.policy.odds(
            agent.state, question, eligible=mask, step=1
        ).propensities
        odds.append(float(found[SIX.index(arm)]))
    return odds


@pytest.mark.parametrize("case", CASES)
def test_odds_are_exact_over_all_orders_of_3_of_6_arms(case: str) -> None:
    """By chi-square against products of conditional odds: wrong with probability 1e-4
    in each case, if all is well."""
    make, context, arms = CASES[case]
    agent = taught(make(), context, arms)
    exact = {
        order: float(np.prod(given_the_earlier(agent, context, arms, order)))
        for order in permutations(SIX, 3)
    }
    assert len(exact) == 120
    assert sum(exact.values()) == pytest.approx(1, abs=1e-9)
    firsts = [sum(p for order, p in exact.items() if order[0] == arm) for arm in SIX]
    assert max(firsts) > 1.5 * min(firsts)  # a test on equal odds would see little
    slates = [agent.decide_slate(context, arms=arms) for _ in range(1200)]
    for slate in slates[:20]:
        drawn = tuple(decision.arm for decision in slate)
        asked = given_the_earlier(agent, context, arms, drawn)
        assert [decision.propensity for decision in slate] == pytest.approx(
            asked, abs=1e-12
        )
    counts = Counter(tuple(decision.arm for decision in slate) for slate in slates)
    assert set(counts) <= set(exact)
    p = grouped_chisquare(
        [counts[order] for order in exact], [1200 * odds for odds in exact.values()]
    )
    assert p > 1e-4


def grouped_chisquare(seen: list[int], expected: list[float]) -> float:
    """The p-value of chi-square; orders that are expected less than 5 times are put
    together."""
    rare = [place for place, n in enumerate(expected) if n < 5]
    common = [place for place in range(len(seen)) if place not in rare]
    cells = [(seen[place], expected[place]) for place in common]
    if rare:
        cells.append(
            (sum(seen[place] for place in rare), sum(expected[place] for place in rare))
        )
    return float(chisquare(*zip(*cells, strict=True)).pvalue)


def test_each_slot_is_a_decision_of_its_own() -> None:
    agent, twin = od.Agent(gts(), seed=7), od.Agent(gts(), seed=7)
    slate = agent.decide_slate({"hour": 9}, arms=dict.fromkeys(SIX))
    assert (agent.steps, [decision.step for decision in slate]) == (3, [1, 2, 3])
    assert [decision.context for decision in slate] == [
        {"hour": 9, "slot": place} for place in (1, 2, 3)
    ]
    gone: list[str] = []
    for decision in slate:
        left = [arm for arm in SIX if arm not in gone]
        alone = twin.decide(
            decision.context,
            arms=dict.fromkeys(SIX),
            eligible=None if not gone else left,
        )
        assert decision == alone
        assert decision.arms == SIX
        gone.append(decision.arm)
    assert len(set(gone)) == 3
    agent.learn(slate[2], 1)
    agent.learn([slate[0], slate[1]], [0, 1])
    for place, reward in ((2, 1), (0, 0), (1, 1)):
        twin.learn(slate[place], reward)
    assert agent.posterior() == twin.posterior()


def test_slots_have_features_and_arms_of_their_own() -> None:
    slots = [
        od.Slot("top", {"size": 2}, eligible=["a", "b"]),
        od.Slot("side", eligible=list("bcf")),
        od.Slot("end"),
    ]
    agent = od.Agent(gts(), seed=7)
    for _ in range(50):
        top, side, end = agent.decide_slate(
            {"hour": 9}, arms=list(SIX), slots=slots, eligible=list("abcd")
        )
        assert top.context == {"hour": 9, "slot": 1, "size": 2}
        assert side.context == {"hour": 9, "slot": 2}
        masks: Any = [decision.eligible for decision in (top, side, end)]
        free = [
            [arm for arm, open_to in zip(SIX, mask, strict=True) if open_to]
            for mask in masks
        ]
        assert free[0] == ["a", "b"]
        assert free[1] == [arm for arm in "bc" if arm != top.arm]
        assert free[2] == [arm for arm in "abcd" if arm not in (top.arm, side.arm)]


@pytest.mark.parametrize(
    ("context", "features", "joined"),
    [
        (None, None, {"slot": 1}),
        (None, {"size": 2}, {"slot": 1, "size": 2}),
        ({}, None, {"slot": 1}),
        ([0.5, None], None, [0.5, None, 1.0]),
        ([], [4, 5], [1.0, 4.0, 5.0]),
        (np.array([0.5, 2]), [7], [0.5, 2.0, 1.0, 7.0]),
        (np.array([[0.5], [2]]), 7, [[0.5, 1.0, 7.0], [2.0, 1.0, 7.0]]),
        (
            pd.Series({"hour": 9.0}),
            pd.Series({"size": 2.0}),
            {"hour": 9.0, "slot": 1, "size": 2.0},
        ),
    ],
)
def test_the_number_stands_beside_a_context_of_any_form(
    context: Any, features: Any, joined: Any
) -> None:
    agent = od.Agent(od.BetaThompsonSampling(3, gamma=0.1), seed=7)
    found = agent.decide_slate(context, slots=[od.Slot("top", features)])[0].context
    assert (found.tolist() if isinstance(found, np.ndarray) else found) == joined


def test_arms_without_names() -> None:
    agent = od.Agent(od.BetaThompsonSampling(3, gamma=0.1), seed=7)
    slate = agent.decide_slate(None, slots=3)
    assert sorted(decision.arm for decision in slate) == [0, 1, 2]
    assert slate[2].propensity == 1
    for decision in slate:
        agent.learn(decision, 1)
    few = agent.decide_slate(None, slots=2, eligible=[True, False, True])
    assert sorted(decision.arm for decision in few) == [0, 2]


WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"slots": 0},
        (
            "slots must be a whole number from 1 to 1,000, or a list of at most that many slots; "
            "got 0"
        ),
    ),
    (
        {"slots": []},
        "slots must be a whole number from 1 to 1,000, or a list of at most that many",
    ),
    ({"slots": True}, "slots must be a whole number"),
    ({"slots": 2.0}, "slots must be a whole number"),
    ({"slots": "top"}, "slots must be a whole number"),
    ({"slots": ["top"]}, "slots must be a list of Slot\\(name\\); got 'top' in it"),
    ({"slots": 7}, "slots must not outnumber the arms that may be shown, 6; got 7"),
    ({"slots": 10**30}, "slots must be a whole number from 1 to 1,000"),
    (
        {"slots": 3, "eligible": ["a", "b"]},
        "slots must not outnumber the arms that may be shown, 2; got 3",
    ),
    (
        {"slots": [od.Slot("top"), od.Slot("top")]},
        "names of slots must be distinct; got 'top' twice",
    ),
    (
        {"slots": [od.Slot("")]},
        "names of slots must be text of 1 to 256 characters; got ''",
    ),
    (
        {"slots": [od.Slot("x" * 257)]},
        "names of slots must be text of 1 to 256 characters",
    ),
    (
        {"slots": [od.Slot(3)]},  # type: ignore[arg-type]
        "names of slots must be text of 1 to 256 characters; got 3",
    ),
    (
        {"slots": [od.Slot("top", eligible=["z"])]},
        "slot 'top': eligible must be among the arms",
    ),
    (
        {"slots": [od.Slot("top", eligible=["a"])], "eligible": ["b", "c"]},
        "slot 'top' must have an eligible arm",
    ),
    (
        {"slots": [od.Slot("top", eligible=[])]},
        "slot 'top': at least one arm must be eligible",
    ),
    (
        {"slots": [od.Slot("1"), od.Slot("side", eligible=["a"])]},
        "slot 'side' may be left without an arm.*'a'",
    ),
    (
        {"context": {"slot": 4}},
        "context must not use the name 'slot'",
    ),
    (
        {"context": {"hour": 4}, "slots": [od.Slot("top", {"hour": 9})]},
        "slot 'top': names of features must differ",
    ),
    (
        {"slots": [od.Slot("top", {"slot": 9})]},
        "slot 'top': names of features must differ from those of the context; got 'slot'",
    ),
    (
        {"slots": [od.Slot("top", [1.0])]},
        "slot 'top': features must be a dict, like the context; got \\[1.0\\]",
    ),
    (
        {"context": [1.0], "slots": [od.Slot("top", {"a": 1})]},
        "slot 'top': features must be numbers",
    ),
    (
        {"context": "home page"},
        "context of slots must be a dict, a row of numbers or None.*; got 'home page'",
    ),
    (
        {"context": 3},
        "context of slots must be a dict, a row of numbers or None.*; got 3",
    ),
    ({"context": ["a"]}, "context of slots must be a dict, a row of numbers or None"),
]


@pytest.mark.parametrize("place", range(len(WRONG)))
def test_what_is_wrong_is_refused_in_a_sentence_and_costs_no_step(place: int) -> None:
    given, sentence = WRONG[place]
    agent = od.Agent(gts(), seed=7)
    with pytest.raises(od.InvalidInput, match=sentence):
        agent.decide_slate(**{"context": {}, "arms": list(SIX)} | given)
    assert agent.steps == 0


def test_a_refusal_half_way_gives_all_steps_back() -> None:
    unnamed = od.Agent(od.BetaThompsonSampling(3, gamma=0.1), seed=7)
    with pytest.raises(
        od.errors.NoEligibleArm, match="slots must not outnumber the arms"
    ):
        unnamed.decide_slate(None, slots=4)
    assert unnamed.steps == 0

    def fails(context: Any, arm: str) -> float:
        return 0.5 if context["slot"] < 3 else 1 / 0

    agent = od.Agent(
        od.GeneralizedThompsonSampling(od.FunctionExperts({"one": fails}), gamma=0.1),
        seed=7,
    )
    with pytest.raises(od.errors.ExpertFailed):
        agent.decide_slate({}, arms=list(SIX))
    assert agent.steps == 0
    assert agent.decide_slate({}, arms=list(SIX), slots=2)[0].step == 1


def test_a_slate_is_refused_where_some_draws_leave_a_slot_empty() -> None:
    """All draws of the earlier slots are gone through, one by one."""
    rng, refused = np.random.default_rng(8), 0
    for _ in range(120):
        masks = rng.random((3, 4)) < 0.5
        masks[~masks.any(axis=1), 0] = True
        stuck = any(stuck_after(masks, draws) for draws in np.ndindex(4, 4))
        agent = od.Agent(od.BetaThompsonSampling(4, gamma=0.1), seed=7)
        slots = [od.Slot(str(place), eligible=mask) for place, mask in enumerate(masks)]
        try:
            agent.decide_slate(None, slots=slots)
        except od.InvalidInput:
            refused += 1
            assert stuck, masks
        else:
            assert not stuck, masks
    assert 20 < refused < 100


def stuck_after(masks: Any, draws: tuple[int, ...]) -> bool:
    """Whether these draws, if they can be, leave a slot with nothing."""
    taken: set[int] = set()
    for mask, arm in zip(masks, (*draws, -1), strict=True):
        free = set(np.flatnonzero(mask).tolist()) - taken
        if not free:
            return True
        if arm not in free:
            return False
        taken.add(arm)
    return False
