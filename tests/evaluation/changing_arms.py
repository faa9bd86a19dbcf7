"""A small world whose arms change from call to call, and whose values are sums over all
that can happen."""

from itertools import product
from typing import Any

import numpy as np

import oddsmith as od

CONTEXTS = np.array([0.2, 0.5, 0.9])
CONTEXT_ODDS = np.array([0.5, 0.3, 0.2])
PRICES = {"a": 0.1, "b": 0.4, "c": 0.5, "d": 0.7, "e": 0.9}
OFFERS = (
    ("a", "b", "c"),
    ("c", "a"),
    ("e", "d", "c", "b"),
    ("d", "e"),
    ("b", "a", "e"),
    ("c", "d", "a", "e", "b"),
)
OFFER_ODDS = np.array([0.3, 0.1, 0.2, 0.15, 0.1, 0.15])
CASES = [(x, offer) for x, offer in product(range(len(CONTEXTS)), OFFERS)]
CASE_ODDS = np.outer(CONTEXT_ODDS, OFFER_ODDS).ravel()
WIDTH = max(map(len, OFFERS))


def mean_reward(x: int, arm: str) -> float:
    """What an arm earns in a context: its own part, and more where price and context
    agree."""
    return (
        0.1
        + 0.6 * (1 - abs(PRICES[arm] - float(CONTEXTS[x]))) ** 2
        + (0.15 if arm == "c" else 0.0)
    )


def offer_of(x: int, names: tuple[str, ...]) -> od.Offer:
    return od.Offer(
        np.array([CONTEXTS[x]]),
        names,
        {name: np.array([PRICES[name]]) for name in names},
    )


def padded(rows: Any) -> Any:
    return np.array([[*row, *[0.0] * (WIDTH - len(row))] for row in rows])


MEANS = padded([[mean_reward(x, arm) for arm in offer] for x, offer in CASES])
LOGGER = padded(
    [np.exp(-np.arange(len(offer)) * (0.2 + 0.3 * CONTEXTS[x])) for x, offer in CASES]
)
LOGGER /= LOGGER.sum(axis=1, keepdims=True)
BANK = od.LinearExperts(np.array([[1.0, -2.0], [-1.5, 1.0]]))
POLICY = od.GeneralizedThompsonSampling(BANK, od.square_loss, gamma=0.3)


def policy_odds() -> Any:
    """The policy's odds in every case, asked one by one."""
    return padded(
        [
            POLICY.odds(POLICY.init(), offer_of(x, offer)).propensities
            for x, offer in CASES
        ]
    )


def value(odds: Any) -> float:
    """The exact value of odds (cases, K)."""
    return float(CASE_ODDS @ (odds * MEANS).sum(axis=1))


def played(rows: int, seed: int) -> tuple[od.Log, Any]:
    """A log of the world, and the case of each row."""
    rng = np.random.default_rng(seed)
    cases = rng.choice(len(CASES), rows, p=CASE_ODDS)
    arms = (rng.random((rows, 1)) > LOGGER[cases].cumsum(axis=1)[:, :-1]).sum(axis=1)
    rewards = (rng.random(rows) < MEANS[cases, arms]).astype(np.float64)
    offers = [offer_of(*CASES[case]) for case in range(len(CASES))]
    log = od.Log(
        arm=arms,
        reward=rewards,
        propensities=LOGGER[cases],
        context=CONTEXTS[[CASES[case][0] for case in cases]][:, None],
        offered=[offers[case].arms for case in cases],
        features=[offers[case].features for case in cases],
    )
    return log, cases


def fixed_and_offered(
    n: int = 600, arms: int = 5, seed: int = 0
) -> tuple[od.Log, od.Log]:
    """A log over fixed arms, and the same one with every arm offered, in another order
    in every row."""
    rng = np.random.default_rng(seed)
    odds, names = (
        rng.dirichlet(np.full(arms, 3.0), n),
        np.array([f"arm {a}" for a in range(arms)]),
    )
    arm = (rng.random((n, 1)) > odds.cumsum(axis=1)[:, :-1]).sum(axis=1)
    common: Any = {
        "reward": rng.integers(2, size=n),
        "context": rng.normal(size=(n, 2)),
    }
    order = rng.permuted(np.tile(np.arange(arms), (n, 1)), axis=1)
    fixed = od.Log(arm=arm, propensities=odds, arms=names.tolist(), **common)
    place = (order == arm[:, None]).argmax(axis=1)
    shuffled = np.take_along_axis(odds, order, axis=1)
    return fixed, od.Log(
        arm=place, propensities=shuffled, offered=names[order].tolist(), **common
    )
