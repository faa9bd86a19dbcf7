"""The judge of a policy: its weights, exploration and bounds without its models.

A judge turns recorded votes into odds, bit for bit as the policy did, and learns the
same weights from recorded advice; it can be written down as a few lines of JSON.
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
    """The policy of weighted votes, inside its bounds if it has any; None for other
    kinds."""
    inner = policy.policy if isinstance(policy, Bounded) else policy
    is_known = type(inner) in _KINDS.values()
    return inner if is_known else None  # type: ignore[return-value]


def judge(policy: Policy) -> Policy | None:
    """The policy over recorded advice; None for policies that do not weigh votes.

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
    return _with_inner(policy, replace(inner, experts=experts))


def judge_to_json(policy: Policy) -> dict[str, Any] | None:
    """The judge as JSON; None where there is none, or its loss or schedule is the
    user's own."""
    inner = gts_inside(policy)
    if inner is None:
        return None
    losses = [name for name, loss in LOSSES.items() if loss is inner.loss]
    gamma = inner.gamma
    if not losses or not isinstance(gamma, float | PowerSchedule):
        return None
    plain = {
        "eta": inner.eta,
        "optimism": inner.optimism,
        "share": inner.share,
        "discount": inner.discount,
    }
    page: dict[str, Any] = plain | {"loss": losses[0], "prior": inner.prior.tolist()}
    page["experts"] = list(inner.experts.names)
    page["gamma"] = (
        gamma if isinstance(gamma, float) else [gamma.scale, gamma.power, gamma.cap]
    )
    if type(inner) is not GeneralizedThompsonSampling:
        page["kind"] = "scale_free"
    if isinstance(policy, Bounded):
        bounds = {"floors": policy.floors, "caps": policy.caps}
        page |= {
            what: one if isinstance(one, dict) else one.tolist()
            for what, one in bounds.items()
        }
        if policy.cap_groups:
            page["cap_groups"] = [
                asdict(group) | {"arms": list(group.arms)}
                for group in policy.cap_groups
            ]
            page["arms"] = None if policy.arms is None else list(policy.arms)
    return page


def judge_from_json(page: dict[str, Any]) -> Policy:
    """The judge that `judge_to_json` wrote.

    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]), gamma=0.1)
    >>> judge_to_json(judge_from_json(judge_to_json(gts))) == judge_to_json(gts)
    True
    """
    try:
        gamma = page["gamma"]
        settings = {name: page[name] for name in _PLAIN}
        settings |= {
            "prior": page["prior"],
            "gamma": PowerSchedule(*gamma) if isinstance(gamma, list) else gamma,
        }
        make = _KINDS[page.get("kind", "gts")]
        inner = make(
            RecordedExperts(page["experts"], page.get("arms")),
            LOSSES[page["loss"]],
            **settings,
        )
    except (KeyError, TypeError) as error:
        raise InvalidInput(
            f"a judge must be what `judge_to_json` wrote; got {page!r:.60}, "
            f"{error!r:.60}"
        ) from error
    if "floors" not in page:
        return inner
    groups = [CapGroup(**group) for group in page.get("cap_groups", [])]
    return Bounded(inner, page["floors"], page["caps"], groups)


def _with_inner(policy: Policy, inner: GeneralizedThompsonSampling) -> Policy:
    return replace(policy, policy=inner) if isinstance(policy, Bounded) else inner
