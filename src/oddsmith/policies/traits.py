"""Traits of policies that an agent asks for, whatever wraps them: whether they explore, and read contexts."""

from typing import Any

import numpy as np

from oddsmith.policies.counts import OverArms

__all__ = ["explores", "inside", "reads_contexts"]


def inside(policy: Any) -> Any:
    """The policy inside bounds and windows."""
    while hasattr(policy, "policy"):
        policy = policy.policy
    return policy


def reads_contexts(policy: Any) -> bool:
    """Whether odds may depend on the context; policies that count rewards give a whole batch the same ones.

    >>> from oddsmith.policies.ucb1 import UCB1
    >>> reads_contexts(UCB1(2))
    False
    """
    return not isinstance(inside(policy), OverArms)


def explores(policy: Any) -> bool:
    """Whether every arm has odds, as far as a policy's gamma and floors tell.

    >>> from oddsmith.policies.ucb1 import UCB1
    >>> explores(UCB1(2))
    False
    """
    floors, inner = getattr(policy, "floors", None), getattr(policy, "policy", None)
    if inner is not None:
        return (floors is not None and bool(np.min(floors) > 0)) or explores(inner)
    positive = getattr(policy, "positive_odds", None)
    if positive is not None:
        return bool(positive)
    gamma = getattr(policy, "gamma", None)
    return not (gamma == 0.0 or getattr(gamma, "scale", None) == 0.0 or getattr(gamma, "cap", None) == 0.0)
