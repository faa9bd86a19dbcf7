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
    parts = [_odds(part, policy, current, start * rows) for start, part in enumerate(log.split(rows))]
    return np.concatenate(parts) if parts else np.empty((0, log.n_arms))


def _odds(log: Log, policy: Policy, state: State, first: int) -> Array:
    """The odds of some rows, asked for at once."""
    try:
        odds = policy.odds(state, log.context, eligible=log.eligible)
    except OddsmithError:
        raise
    except Exception as error:  # whatever a user's experts raise becomes one sentence
        raised = f"{type(error).__name__}: {error}"
        raise ExpertFailed(f"the policy must answer the log's contexts from row {first} on; {raised:.160}") from error
    found, expected = odds.propensities, (len(log), log.n_arms)
    if found.shape not in (expected, expected[1:]):
        raise InvalidInput(f"the policy must give odds of the log's contexts, shape {expected}; got {found.shape}")
    return np.array(np.broadcast_to(found, expected))
