"""Judge: the part of a policy that needs no models. It consists of the weights of the
experts, the exploration and the bounds.

A judge computes the propensities of the policy from recorded votes, bit for bit, and
learns the same weights from recorded advice. It can be stored as a few lines of JSON.
"""

from dataclasses import asdict, replace
from typing import Any

from oddsmith.core.errors import InvalidInput
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule
from oddsmith.core.losses import LOSSES
from oddsmith.core.policy import Policy
from oddsmith.experts.answers import RecordedExperts
from oddsmith.policies.bounds import Bounded
from oddsmith.policies.cap_groups import CapGroup
from oddsmith.policies.scale_free import ScaleFreeSampling

__all__ = [
    "gts_inside",
    "judge",
    "judge_from_json",
    "judge_to_json",
]

_PLAIN = ("eta", "optimism", "share", "discount")
_KINDS = {"gts": GeneralizedThompsonSampling, "scale_free": ScaleFreeSampling}


def gts_inside(policy: Policy) -> GeneralizedThompsonSampling | None:
    """Return the policy of weighted votes without its bounds; None for other kinds."""
    inner = policy.policy if isinstance(policy, Bounded) else policy
    if type(inner) in _KINDS.values():
        return inner  # type: ignore[return-value]
    return None


def judge(policy: Policy) -> Policy | None:
    """Return the policy over recorded advice; None if the policy does not weigh votes.

    >>> import numpy as np
    >>> from oddsmith.experts.answers import RecordedAdvice
    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]), gamma=0.1)
    >>> votes = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> judge(gts).odds(gts.init(), RecordedAdvice(votes, votes)).propensities
    array([0.5, 0.5])
    """
    inner = gts_inside(policy)
    if inner is None:
        return None
    experts = RecordedExperts(inner.experts.names, inner.experts.arms)
    plain = replace(inner, experts=experts)
    if isinstance(policy, Bounded):
        return replace(policy, policy=plain)
    return plain


def judge_to_json(policy: Policy) -> dict[str, Any] | None:
    """Return the judge of a policy as JSON.

    None if there is no judge, or if its loss or schedule is the user's own.
    """
    inner = gts_inside(policy)
    if inner is None:
        return None
    losses = [name for name, loss in LOSSES.items() if loss is inner.loss]
    if not losses:
        return None
    gamma: Any = inner.gamma
    if isinstance(gamma, PowerSchedule):
        gamma = [gamma.scale, gamma.power, gamma.cap]
    elif not isinstance(gamma, float):
        return None
    page: dict[str, Any] = {name: getattr(inner, name) for name in _PLAIN}
    page["loss"] = losses[0]
    page["prior"] = inner.prior.tolist()
    page["experts"] = list(inner.experts.names)
    page["gamma"] = gamma
    if type(inner) is not GeneralizedThompsonSampling:
        page["kind"] = "scale_free"
    if not isinstance(policy, Bounded):
        return page
    for name, bounds in (("floors", policy.floors), ("caps", policy.caps)):
        page[name] = bounds if isinstance(bounds, dict) else bounds.tolist()
    if policy.cap_groups:
        groups = [asdict(group) for group in policy.cap_groups]
        page["cap_groups"] = [group | {"arms": list(group["arms"])} for group in groups]
        page["arms"] = None if policy.arms is None else list(policy.arms)
    return page


def judge_from_json(page: dict[str, Any]) -> Policy:
    """Return the judge that `judge_to_json` wrote.

    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]), gamma=0.1)
    >>> judge_to_json(judge_from_json(judge_to_json(gts))) == judge_to_json(gts)
    True
    """
    try:
        settings = {name: page[name] for name in (*_PLAIN, "prior", "gamma")}
        if isinstance(page["gamma"], list):
            scale, power, cap = page["gamma"]
            settings["gamma"] = PowerSchedule(scale, power, cap)
        make = _KINDS[page.get("kind", "gts")]
        experts = RecordedExperts(page["experts"], page.get("arms"))
        inner = make(experts, LOSSES[page["loss"]], **settings)
    except (KeyError, TypeError) as error:
        raise InvalidInput(
            f"a judge must be what `judge_to_json` wrote; got {page!r:.60}, "
            f"{error!r:.60}"
        ) from error
    if "floors" not in page:
        return inner
    groups = [CapGroup(**group) for group in page.get("cap_groups", [])]
    return Bounded(inner, page["floors"], page["caps"], groups)
