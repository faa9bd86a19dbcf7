"""Wrap the experts of a policy so that its decisions do not fail when experts fail."""

from collections.abc import Sequence
from typing import TypeVar

from oddsmith.core.policy import Policy
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.pace import TimeLimit

__all__ = ["guarded"]

_Policy = TypeVar("_Policy", bound=Policy)


def guarded(
    policy: _Policy,
    timeout_ms: TimeLimit = None,
    *,
    arms: Sequence[str] | None = None,
) -> _Policy:
    """Return `policy` with its experts in `Guarded`, unless they are already. States
    and fingerprint do not change.

    Predictions must be in the range that the policy can score (`prediction_range`).

    >>> from oddsmith.experts.functions import FunctionExperts
    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> policy = guarded(
    ...     GeneralizedThompsonSampling(
    ...         FunctionExperts({"broken": lambda x: 1 / 0}, ["a", "b"])
    ...     )
    ... )
    >>> policy.odds(policy.init(), None).propensities
    array([0.5, 0.5])
    """
    bank = policy.bank
    if bank is None or isinstance(bank, Guarded):
        return policy
    guard = Guarded(
        bank,
        timeout_ms,
        policy.prediction_range,
        arms,
        earlier_votes=not policy.importance_weighted,
    )
    return policy.with_bank(guard)
