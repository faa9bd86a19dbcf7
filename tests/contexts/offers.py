"""Policies and banks that take offers, and offers for them."""

from collections.abc import Callable
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.experts import Forest
from oddsmith.experts.learners.features import Curves

CONTEXT_WIDTH, ARM_WIDTH = 2, 3
WIDTH = CONTEXT_WIDTH + ARM_WIDTH
WEIGHTS = np.random.default_rng(3).standard_normal((4, WIDTH))


class Mean:
    """A model of rows: a logistic curve of one of their columns."""

    def __init__(self, column: int) -> None:
        self.column = column

    def predict(self, rows: Any) -> Any:
        values = np.nan_to_num(np.asarray(rows, dtype=np.float64))
        return 1 / (1 + np.exp(-values[:, self.column]))


def by_features(context: Any, arm: str, features: Any) -> float:
    return (
        float("nan")
        if features is None
        else float(1 / (1 + np.exp(-float(np.nansum(features)))))
    )


def by_name(context: Any, arm: str) -> float:
    return (sum(map(ord, arm)) % 17) / 17


def functions(arms: Any = None) -> od.Experts:
    return od.FunctionExperts({"features": by_features, "name": by_name}, arms)


def shared() -> od.Experts:
    return od.experts.SharedExperts(
        (od.experts.PooledRidge(Curves(8)), od.experts.PooledForest(Forest(4))),
        blend=True,
    )


BANKS: dict[str, Callable[[], od.Experts]] = {
    "functions": functions,
    "models": lambda: od.ModelExperts({"first": Mean(0), "last": Mean(-1)}),
    "linear": lambda: od.LinearExperts(WEIGHTS),
    "clipped": lambda: od.experts.Clipped(
        od.LinearExperts(WEIGHTS, "identity"), 0.2, 0.8
    ),
    "guarded": lambda: od.Guarded(functions()),
    "stack": lambda: od.stack(functions(), od.LinearExperts(WEIGHTS)),
    "shared learners": shared,
}
LEARNING = {"shared learners"}


def gts(bank: od.Experts) -> od.GeneralizedThompsonSampling:
    return od.GeneralizedThompsonSampling(bank, od.square_loss, eta=1.0, gamma=0.05)


POLICIES: dict[str, Callable[[od.Experts], od.Policy]] = {
    "gts": gts,
    "gts with optimism": lambda bank: od.GeneralizedThompsonSampling(
        bank, od.square_loss, gamma=0.1, optimism=0.3
    ),
    "gts, gamma falling": lambda bank: od.GeneralizedThompsonSampling(
        bank, od.square_loss, gamma=od.policies.PowerSchedule(0.5)
    ),
    "gts that drifts": lambda bank: od.GeneralizedThompsonSampling(
        bank, od.square_loss, share=0.01, discount=0.99
    ),
    "bounded": lambda bank: od.Bounded(gts(bank), floors=0.02, caps=0.9),
    "windowed": lambda bank: od.Windowed(gts(bank), 20),
    "exp4": lambda bank: od.policies.EXP4(bank, eta=0.1),
    "exp4p": lambda bank: od.policies.EXP4P(bank, steps=100),
    "hedged": lambda bank: od.hedged(bank, od.square_loss),
    "mixture of rates": lambda bank: od.policies.RateMixture(bank, od.square_loss),
    "squarecb": lambda bank: od.policies.SquareCB(bank, sharpness=20.0),
    "fastcb": lambda bank: od.policies.FastCB(bank, sharpness=20.0),
    "epsilon greedy": lambda bank: od.epsilon_greedy(bank, od.square_loss),
    "follow the leader": lambda bank: od.policies.follow_the_leader(
        bank, od.square_loss
    ),
    "uniform": od.uniform,
    "epoch greedy": od.policies.EpochGreedy,
    "feel-good": lambda bank: od.policies.feel_good(
        bank, od.square_loss, n_arms=5, steps=100
    ),
    "tuned": lambda bank: od.tuned(bank, od.square_loss, n_arms=5),
}
LINEAR: dict[str, Callable[[], od.Policy]] = {
    "linucb": lambda: od.LinUCB(WIDTH),
    "linear thompson": lambda: od.LinearThompsonSampling(WIDTH, directions=64),
    "optimistic thompson": lambda: od.LinearThompsonSampling(
        WIDTH, directions=64, optimist=True
    ),
    "logistic thompson": lambda: od.policies.LogisticThompsonSampling(
        WIDTH, directions=64
    ),
    "probit thompson": lambda: od.policies.ProbitThompsonSampling(WIDTH, directions=64),
    "glm ucb": lambda: od.policies.GLMUCB(WIDTH),
}


def features(rng: np.random.Generator, n: int) -> dict[str, Any]:
    return {f"arm {i}": rng.standard_normal(ARM_WIDTH) for i in range(n)}


def context(rng: np.random.Generator) -> Any:
    return rng.standard_normal(CONTEXT_WIDTH)


def taught(policy: od.Policy, steps: int = 15, seed: int = 1) -> od.Agent:
    """An agent that has learnt from offers of different sizes."""
    agent, rng = od.Agent(policy, seed=seed), np.random.default_rng(seed)
    for _ in range(steps):
        decision = agent.decide(
            context(rng), arms=features(rng, int(rng.integers(1, 6)))
        )
        agent.learn(decision, float(rng.integers(0, 2)))
    return agent
