"""The judge of a policy: its weights, exploration and bounds without its models, and
its roster as experts come and go.

A judge turns recorded votes into odds, bit for bit as the policy did, and learns the
same weights from recorded advice; it can be written down as a few lines of JSON. The
roster only grows: an expert that joins comes last, one that retires stays with weight
zero. So an older decision's advice is the first part of today's.
"""

from dataclasses import asdict, replace
from typing import Any, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import ExpertState
from oddsmith.core.experts import Experts
from oddsmith.core.gts import GeneralizedThompsonSampling, PowerSchedule
from oddsmith.core.losses import LOSSES
from oddsmith.core.policy import Policy
from oddsmith.experts.answers import Answered
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.stack import stack
from oddsmith.policies.bounds import Bounded
from oddsmith.policies.cap_groups import CapGroup

__all__ = [
    "active",
    "added",
    "gts_inside",
    "judge",
    "judge_from_json",
    "judge_to_json",
    "pad_to_roster",
    "retired",
]

Changed: TypeAlias = tuple[Policy, ExpertState]
_PLAIN = ("eta", "optimism", "share", "discount")


def gts_inside(policy: Policy) -> GeneralizedThompsonSampling | None:
    """The policy of weighted votes, inside its bounds if it has any; None for other
    kinds."""
    inner = policy.policy if isinstance(policy, Bounded) else policy
    return inner if type(inner) is GeneralizedThompsonSampling else None


def judge(policy: Policy) -> Policy | None:
    """The policy over recorded advice; None for policies that do not weigh votes.

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
    return _with_inner(
        policy,
        replace(inner, experts=Answered(inner.experts.names, inner.experts.arms)),
    )


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
        inner = GeneralizedThompsonSampling(
            Answered(page["experts"], page.get("arms")),
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


def added(
    policy: Policy,
    state: ExpertState,
    name: str,
    share: float,
    bank: Experts | None = None,
) -> Changed:
    """Policy and state with an expert that joins, or comes back, with a share of the
    weight and of the prior.

    `bank` holds this one expert; None for a judge. The others keep their proportions.
    An expert that is there and has not retired stays as it is, also with no weight
    left: what becomes of the policy does not depend on the state.
    """
    inner = _required_gts(policy)
    names = list(inner.experts.names)
    if name in names:
        place = names.index(name)
        if inner.prior[place] > 0:
            return policy, state
        prior, log_weights = inner.prior.copy(), state.log_weights.copy()
        experts, own = _with_sleeper(inner.experts, name, False), state.experts
    else:
        place = len(names)
        prior, log_weights = (
            np.append(inner.prior, 0.0),
            np.append(state.log_weights, -np.inf),
        )
        experts, own = _with_expert(inner.experts, state.experts, name, bank)
    log_total = np.log(np.exp(log_weights).sum())  # relative to the leader: at least 0
    log_weights[place] = np.log(share) - np.log1p(-share) + log_total
    prior *= 1 - share
    prior[place] = share
    changed = replace(inner, experts=experts, prior=prior / prior.sum())
    return _with_inner(policy, changed), ExpertState(
        log_weights - log_weights.max(), state.learnt, own
    )


def retired(policy: Policy, state: ExpertState, name: str) -> Changed:
    """Policy and state with an expert's weight and prior zero, its mass shared in
    proportion.

    Nothing changes where the expert is unknown, or no other has a prior. Others that
    have no weight left begin anew.
    """
    inner = _required_gts(policy)
    names = list(inner.experts.names)
    if name not in names:
        return policy, state
    prior, log_weights = inner.prior.copy(), state.log_weights.copy()
    prior[names.index(name)], log_weights[names.index(name)] = 0.0, -np.inf
    if not prior.any():
        return policy, state
    if log_weights.max() == -np.inf:
        log_weights = np.log(prior, out=np.full(len(prior), -np.inf), where=prior > 0)
    changed = replace(
        inner,
        prior=prior / prior.sum(),
        experts=_with_sleeper(inner.experts, name, True),
    )
    return _with_inner(policy, changed), ExpertState(
        log_weights - log_weights.max(), state.learnt, state.experts
    )


def active(policy: Policy) -> list[str]:
    """The experts that have not retired, however little weight they have.

    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]))
    >>> active(retired(gts, gts.init(), "cold")[0])
    ['warm']
    """
    inner = _required_gts(policy)
    return [
        name
        for name, share in zip(inner.experts.names, inner.prior, strict=True)
        if share > 0
    ]


def pad_to_roster(decision: Decision, log_weights: Array) -> Decision:
    """The decision as today's roster reads it: experts that joined after it are asleep
    in it.

    Sleepers are charged under the weights the decision was drawn with, or where it has
    none under today's.

    >>> early = Decision(1, None, None, 0, np.array([1.0]), advice=np.array([0.3]))
    >>> pad_to_roster(early, np.zeros(2)).advice
    array([0.3, nan])
    """
    advice, own = decision.advice, decision.log_weights
    if advice is None or len(advice) >= len(log_weights):
        return decision
    missing = len(log_weights) - len(advice)
    drawn_with = (
        log_weights if own is None else np.append(own, np.full(missing, -np.inf))
    )
    bonus = (
        None
        if decision.bonus is None
        else np.append(decision.bonus, np.full(missing, np.nan))
    )
    padded = np.append(advice, np.full(missing, np.nan))
    return decision._replace(advice=padded, log_weights=drawn_with, bonus=bonus)


def _required_gts(policy: Policy) -> GeneralizedThompsonSampling:
    inner = gts_inside(policy)
    if inner is None:
        raise InvalidInput(
            "experts may come and go in a policy of weighted votes only; got "
            f"{type(policy).__name__}"
        )
    return inner


def _with_inner(policy: Policy, inner: GeneralizedThompsonSampling) -> Policy:
    return replace(policy, policy=inner) if isinstance(policy, Bounded) else inner


def _with_sleeper(experts: Experts, name: str, rests: bool) -> Experts:
    """The bank with an expert that sleeps from now on, or is asked again."""
    if not isinstance(experts, Guarded):
        return experts
    return experts.with_roster(
        experts.experts, experts.retired | {name} if rests else experts.retired - {name}
    )


def _with_expert(
    experts: Experts, state: State, name: str, bank: Experts | None
) -> tuple[Experts, State]:
    """The bank with one more expert at its end, and its state."""
    if isinstance(experts, Guarded):
        inner, own = _with_expert(experts.experts, state, name, bank)
        return experts.with_roster(inner, experts.retired), own
    if isinstance(experts, Answered):
        return replace(experts, names=(*experts.names, name)), state
    if bank is None or tuple(bank.names) != (name,):
        raise InvalidInput(
            f"expert {name!r} must be there to join, alone in its bank; got "
            f"{bank and bank.names!r}"
        )
    arms, own = experts.arms, bank.init()
    # which came after the beginning
    if arms is not None and bank.arms is not None and len(bank.arms) < len(arms):
        bank, own = bank.with_arms(own, arms)
    return stack(experts, bank), (state, own)
