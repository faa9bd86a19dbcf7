"""Whether the best predictor has the best policy, in a sentence: by the state of
Hedged, or by sums beside GTS's."""

import numpy as np

from oddsmith.policies.bounds import Bounded
from oddsmith.policies.hedge import Hedged
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.statistics.choices import MOST

__all__ = ["choices_sentence"]

_WHETHER = "Whether the best predictor has the best policy is not told"


def choices_sentence(experiment: Experiment) -> str:
    """The sentence, in the units of rewards; empty where there are no two experts whose
    votes are weighed.

    A state that is written in place must be held still by the caller.
    """
    now, sums = experiment.follower.now, experiment.follower.sums
    inner = now.policy.policy if isinstance(now.policy, Bounded) else now.policy
    if isinstance(inner, Hedged):
        return str(inner.monitor(now.state).in_units(experiment.scale))
    gts = gts_inside(now.policy)
    if gts is None or np.count_nonzero(gts.prior) < 2:
        return ""
    names, found = list(gts.experts.names), sums.checks.choices
    predictor = int(now.state.log_weights.argmax())
    if predictor >= MOST:
        return (
            f"{_WHETHER}: the first {MOST} experts are compared, and "
            f"{names[predictor]!r} is not one of them."
        )
    if sums.checks.counted and not found.n:
        return (
            f"{_WHETHER}: no votes were recorded with the {sums.checks.counted:,} "
            "rewards."
        )
    told = found.choices(names[:MOST], predictor, gts.prior[:MOST] > 0)
    return str(told.in_units(experiment.scale))
