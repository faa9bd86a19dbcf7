"""Changes of a policy's experts: add, retire and reactivate.

The list of experts only grows: a new expert comes last, and a retired one stays with
weight zero. So the experts of an earlier decision are the first of the current ones, in
the same order, and the new policy does not depend on the state.
"""

from typing import TypeAlias

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.experts import Experts
from oddsmith.core.names import hint
from oddsmith.core.policy import ExpertShare, Policy
from oddsmith.experts.roster import bank_with_expert, bank_with_sleeper
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = [
    "active_experts",
    "add_expert",
    "changes_experts",
    "check_addition",
    "check_retirement",
    "pad_to_roster",
    "retire_expert",
]

Changed: TypeAlias = tuple[Policy, State]


def add_expert(
    policy: Policy, state: State, name: str, share: float, bank: Experts | None = None
) -> Changed:
    """Add a new or a retired expert with a share of the weight and the prior; return
    policy and state.

    `bank` contains only this expert; it is None for a policy over recorded advice. The
    others keep their proportions. An expert that is present and has not retired is not
    changed, even if it has no weight left.
    """
    experts = _bank(policy)
    names = list(experts.names)
    if name not in names:
        wider, own = bank_with_expert(experts, state.experts, name, bank)
        change = ExpertShare(wider, own, len(names), share)
        return policy.with_expert_share(state, change)
    if name in active_experts(policy):
        return policy, state
    awake = bank_with_sleeper(experts, name, sleeps=False)
    change = ExpertShare(awake, state.experts, names.index(name), share)
    return policy.with_expert_share(state, change)


def retire_expert(policy: Policy, state: State, name: str) -> Changed:
    """Set an expert's weight and prior to zero and distribute both over the others.
    Return policy and state.

    Nothing changes if the expert is unknown, or if all other experts have prior 0. If
    no other expert has weight left, the others restart from the prior.
    """
    experts = _bank(policy)
    names = list(experts.names)
    if name not in names or not set(active_experts(policy)) - {name}:
        return policy, state
    asleep = bank_with_sleeper(experts, name, sleeps=True)
    change = ExpertShare(asleep, state.experts, names.index(name), 0.0)
    return policy.with_expert_share(state, change)


def active_experts(policy: Policy) -> list[str]:
    """Return the experts that have not retired, including those without weight.

    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> from oddsmith.experts.external import GivenExperts
    >>> gts = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]))
    >>> active_experts(retire_expert(gts, gts.init(), "cold")[0])
    ['warm']
    """
    names = [] if policy.bank is None else list(policy.bank.names)
    prior = _prior(policy)
    if prior is None:
        return names
    return [name for name, share in zip(names, prior, strict=True) if share > 0]


def check_addition(policy: Policy, name: str) -> None:
    """Raise if the expert to add is already active."""
    _bank(policy)
    if name in active_experts(policy):
        raise InvalidInput(
            f"expert must not be active yet; got {name!r:.60}, which is active: "
            "choose another name, or retire it first"
        )


def check_retirement(policy: Policy, name: str) -> None:
    """Raise if the expert to retire is not active, or is the last one."""
    _bank(policy)
    active = active_experts(policy)
    if name not in active:
        raise InvalidInput(
            f"expert must be one of {active[:8]}; got {name!r:.60}{hint(name, active)}"
        )
    if len(active) == 1:
        raise InvalidInput(f"expert must not be the last one; got {name!r:.60}")


def pad_to_roster(policy: Policy, state: State, decision: Decision) -> Decision:
    """Return the decision for the current experts; those that were added later made no
    prediction."""
    if policy.bank is None or decision.advice is None:
        return decision
    n_before = policy.adviser_count(decision)
    n_now = len(policy.bank.names)
    if n_before >= n_now:
        return decision
    places = np.arange(n_now)
    places[n_before:] = -1
    return policy.with_advisers(state, decision, places)


def changes_experts(policy: Policy) -> bool:
    """Return whether experts of a policy can be added and retired."""
    while isinstance(policy, PolicyWrapper):
        own = type(policy).with_expert_share is not PolicyWrapper.with_expert_share
        if own:
            return True
        if type(policy).inner_state is not PolicyWrapper.inner_state:
            return False
        policy = policy.policy
    return type(policy).with_expert_share is not Policy.with_expert_share


def _bank(policy: Policy) -> Experts:
    if policy.bank is None or not changes_experts(policy):
        raise InvalidInput(
            "policy must support adding and retiring experts (auto with models, GTS, "
            "RateMixture, Hedged, EXP4, EXP4P, also in Bounded); got "
            f"{type(policy).__name__}"
        )
    return policy.bank


def _prior(policy: Policy) -> Array | None:
    """Return the prior of the experts; None if the policy has none."""
    while isinstance(policy, PolicyWrapper):
        policy = policy.policy
    prior: Array | None = getattr(policy, "prior", None)
    return prior
