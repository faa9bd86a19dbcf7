"""Describe in a sentence which experts choose best, from the state of `Hedged` or the
statistics of the log."""

import numpy as np

from oddsmith.policies.bounds import Bounded
from oddsmith.policies.hedge import Hedged
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.statistics.checks import MOST

__all__ = ["choices_sentence"]

_WHETHER = "It is not known whether the best predictor has the best policy"


def choices_sentence(experiment: Experiment) -> str:
    """Return a sentence that compares the choices of the experts, in the units of
    rewards; empty if fewer than two experts are weighed.

    The caller must hold the lock of a state that is updated in place.
    """
    now = experiment.follower.now
    checks = experiment.follower.sums.checks
    inner = now.policy.policy if isinstance(now.policy, Bounded) else now.policy
    if isinstance(inner, Hedged):
        return str(inner.monitor(now.state).in_units(experiment.scale))
    gts = gts_inside(now.policy)
    if gts is None or np.count_nonzero(gts.prior) < 2:
        return ""
    names = list(gts.experts.names)
    predictor = int(now.state.log_weights.argmax())
    if predictor >= MOST:
        return (
            f"{_WHETHER}: the first {MOST} experts are compared, and "
            f"{names[predictor]!r} is not one of them."
        )
    if checks.counted and not checks.choices.n:
        return (
            f"{_WHETHER}: no votes were recorded with the {checks.counted:,} rewards."
        )
    present = gts.prior[:MOST] > 0
    choices = checks.choices.choices(names[:MOST], predictor, present)
    return str(choices.in_units(experiment.scale))
