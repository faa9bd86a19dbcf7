"""Banks that learnt given rows, and rows as learners see them, by the definition."""

from typing import Any

import numpy as np

import oddsmith as od

ARMS = ("a", "b", "c")


def learnt(bank: Any, x: Any, arms: Any, rewards: Any) -> Any:
    """A policy on the bank, and its state after these rows."""
    policy = od.GeneralizedThompsonSampling(bank, eta=1.0, gamma=0.1)
    state = policy.init()
    for context, arm, reward in zip(x, arms, rewards, strict=True):
        advice: Any = policy.odds(state, context).advice
        decision = od.decide(policy, state, context, 0.5, step=1)
        decision = decision._replace(arm=int(arm), advice=advice[:, int(arm)])
        state = policy.update(state, decision, float(reward))
    return policy, state


def standardised(x: Any, t: int) -> Any:
    """Row t as learners see it: by the moments of the rows up to it, over the root of
    how many columns vary."""
    seen = x[: t + 1]
    sd = seen.std(axis=0)
    z = np.clip((x[t] - seen.mean(axis=0)) / np.where(sd > 0, sd, 1), -5, 5)
    return z / np.sqrt(max((sd > 0).sum(), 1))


def prior_of(rewards: np.ndarray) -> tuple[float, float]:
    """The mean of an arm without rewards, and the largest standard deviation that
    rewards can have, from all rewards and two of 1/2."""
    mean = float(np.mean([*rewards, 0.5, 0.5]))
    sd = float(np.sqrt(mean * (1 - mean)))
    if mean > 0.5:
        return mean, sd
    return min(mean + sd, 0.5), sd
