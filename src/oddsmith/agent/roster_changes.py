"""Apply the changes of an agent's experts that a saved agent lists: names and shares,
in order."""

from collections.abc import Mapping, Sequence
from typing import Any

from oddsmith.core.errors import InvalidInput
from oddsmith.core.policy import Policy
from oddsmith.experts.roster import bank_of_one
from oddsmith.policies.roster import add_expert, retire_expert

__all__ = ["policy_after"]


def policy_after(
    policy: Policy, changes: Sequence[Sequence[Any]], experts: Mapping[str, object]
) -> Policy:
    """Return the policy after changes of its experts. The changes do not depend on its
    state."""
    state = policy.init()
    for name, share in changes:
        bank = policy.bank
        if share == 0:
            policy, state = retire_expert(policy, state, name)
            continue
        joins = None
        if bank is not None and name not in bank.names:
            if name not in experts:
                raise InvalidInput(
                    f"experts must have {name!r}, which was added after the agent was "
                    f"created; got {list(experts)[:8]}: call Agent.load(path, policy, "
                    f"experts={{{name!r}: …}})"
                )
            joins = bank_of_one(bank, name, experts[name])
        policy, state = add_expert(policy, state, name, share, joins)
    return policy
