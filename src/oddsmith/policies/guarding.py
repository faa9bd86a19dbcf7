"""guarded: a policy whose experts may fail without failing a decision."""

from collections.abc import Sequence
from dataclasses import is_dataclass, replace
from typing import Any, TypeVar

from oddsmith.decision import Policy
from oddsmith.experts.guarded import Guarded
from oddsmith.losses import domain, square_loss

__all__ = ["guarded"]

_Any = TypeVar("_Any", bound=Policy)


def guarded(policy: _Any, timeout_ms: float | None = None, *, arms: Sequence[str] | None = None) -> _Any:
    """`policy` with its experts in `Guarded`, if it has experts that are not yet; states and fingerprint are the same.

    Predictions must be what the policy's loss can score (`losses.domain`).

    >>> from oddsmith.experts.functions import FunctionExperts
    >>> from oddsmith.policies.gts import GeneralizedThompsonSampling
    >>> policy = guarded(GeneralizedThompsonSampling(FunctionExperts({"broken": lambda x: 1 / 0}, ["a", "b"])))
    >>> policy.odds(policy.init(), None).propensities
    array([0.5, 0.5])
    """
    part: dict[str, Any] = {}
    if hasattr(policy, "policy"):
        part = {"policy": guarded(policy.policy, timeout_ms, arms=arms)}
    elif hasattr(policy, "experts") and not isinstance(policy.experts, Guarded):
        part = {"experts": Guarded(policy.experts, timeout_ms, domain(getattr(policy, "loss", square_loss)), arms)}
    if not part or not is_dataclass(policy):
        return policy
    made: _Any = replace(policy, **part)
    return made
