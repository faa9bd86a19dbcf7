"""Targets: the odds (T, K) that a policy, as it stands, gives to the arms in each logged context."""

import numpy as np

from oddsmith.arrays import Array
from oddsmith.decision import State
from oddsmith.errors import ExpertFailed, InvalidInput, OddsmithError
from oddsmith.logs.table import Log
from oddsmith.policies.base import Policy, check_policy

__all__ = ["policy_target"]

_NUMBERS = 2**22  # odds and advice held at once, about


def policy_target(log: Log, policy: Policy, state: State | None = None) -> Array:
    """The odds (T, K) of `policy` in `state` (None: before any reward) for each context, among the eligible arms.

    The state does not learn on the way: the target is one fixed policy, which is what the estimators are about. Give
    no state that has learnt from this log's rewards: its value would be too good to be true.

    >>> from oddsmith.experts.tables import TableExperts
    >>> from oddsmith.policies.gts import GeneralizedThompsonSampling
    >>> policy = GeneralizedThompsonSampling(TableExperts(np.array([[[0.2, 0.8]], [[0.6, 0.4]]])), gamma=0.1)
    >>> policy_target(Log(arm=[0, 1, 1], reward=[1, 0, 0], context=np.array([0, 0, 1])), policy)
    array([[0.05, 0.95], [0.05, 0.95], [0.95, 0.05]])
    """
    check_policy(policy)
    current = policy.init() if state is None else state
    if log.context is None and policy.bank is not None:
        raise InvalidInput("column context: must be there to ask a policy's experts; got none")
    n_experts = 0 if policy.bank is None else len(policy.bank.names)
    rows = max(1, _NUMBERS // (log.n_arms * (1 + n_experts)))
    target = np.empty((len(log), log.n_arms))
    for first in range(0, len(log), rows):
        part, own = log[first : first + rows], target[first : first + rows]
        try:
            odds = policy.odds(current, part.context, eligible=part.eligible).propensities
        except OddsmithError:
            raise
        except Exception as error:  # whatever a user's experts raise becomes one sentence
            raised = f"from row {first} on; {type(error).__name__}: {error}"
            raise ExpertFailed(f"the policy must answer the log's contexts {raised:.180}") from error
        if odds.shape not in (own.shape, own.shape[1:]):
            raise InvalidInput(f"the policy must give odds of the log's contexts, shape {own.shape}; got {odds.shape}")
        own[:] = odds
    return target
