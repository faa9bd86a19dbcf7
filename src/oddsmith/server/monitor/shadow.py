"""Shadow mode: whether the policy may act in the incumbent's place, and how many more
decisions would tell."""

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import OddsmithError
from oddsmith.evaluation.planner import ExplorationPlan
from oddsmith.server.messages.figures import SwitchCheck
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.values import Target, Value

__all__ = ["switch_of"]

_LEVEL = 0.95
_WIDER = 1.8  # an interval for all times than the normal one, which is planned with


def switch_of(sums: Sums, scale: RewardScale) -> SwitchCheck:
    """A sentence on when it is safe to switch; ready once the policy's interval is
    above the incumbent's."""
    target = sums.values.policy()
    theirs, ours, *_ = sums.values.estimates(sums.named, _LEVEL, shadow=True)
    if (
        ours.value is None
        or theirs.value is None
        or None in (ours.low, ours.high, theirs.low, theirs.high)
    ):
        why = ours.refused or theirs.refused
        if target.missing > 0:
            why = (
                f"{why}. Let the incumbent draw every arm now and then, and send its "
                "odds (`incumbent_odds`)"
            )
        return SwitchCheck(f"Not yet: {why}.", False)
    compared = (
        f"the policy would have earned {_shown(ours, scale)} a decision, the incumbent "
        f"{_shown(theirs, scale)}"
    )
    if (ours.low or 0.0) > (theirs.high or 0.0):
        return SwitchCheck(
            f"It is safe to switch: {compared}, over {ours.n:,} decisions.", True
        )
    if (ours.high or 0.0) < (theirs.low or 0.0):
        return SwitchCheck(
            f"Do not switch: {compared}, over {ours.n:,} decisions.", False
        )
    return SwitchCheck(f"Not yet: {compared}. {_needed(target, ours, theirs)}", False)


def _needed(target: Target, ours: Value, theirs: Value) -> str:
    """How many decisions like those so far would tell the two apart, by the planner."""
    gap = (ours.value or 0.0) - (theirs.value or 0.0)
    if gap <= 0:
        return "So far it would have been no better."
    second, value = (
        max(target.squares / target.n, 1.0),
        min(max(ours.value or 0.0, 1e-6), 1.0),
    )
    logger, ours_alone = np.array([1 / second, 1 - 1 / second]), np.array([1.0, 0.0])
    plan = ExplorationPlan(logger, ours_alone, second_moment=value, offset=-(value**2))
    try:
        needed = plan.decisions(0.0, gap / _WIDER)
    except OddsmithError:
        return "No number of decisions like these will tell."
    if needed <= ours.n:
        return "A few more decisions like these should tell."
    return (
        f"If that is so, about {needed:,} decisions like these will tell; there are "
        f"{ours.n:,}."
    )


def _shown(one: Value, scale: RewardScale) -> str:
    value, low, high = (
        scale.value(number or 0.0) for number in (one.value, one.low, one.high)
    )
    return f"{value:.4g} ({low:.4g} to {high:.4g})"
