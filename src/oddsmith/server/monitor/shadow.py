"""Shadow mode: check whether it is safe to switch from the incumbent to the policy."""

import numpy as np

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.errors import OddsmithError
from oddsmith.evaluation.planner import ExplorationPlan
from oddsmith.server.messages.figures import SwitchCheck
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.values import Target, Value

__all__ = ["switch_of"]

_LEVEL = 0.95
# width of an anytime-valid interval divided by the width of the normal interval that
# the planner uses
_WIDER = 1.8


def switch_of(sums: Sums, scale: RewardScale) -> SwitchCheck:
    """Compare the policy with the incumbent.

    It is safe to switch if the policy's interval is above the incumbent's.
    """
    target = sums.values.policy()
    theirs, ours, *_ = sums.values.estimates(sums.named, _LEVEL, shadow=True)
    if ours.value is None or theirs.value is None:
        why = ours.refused or theirs.refused
        if target.missing > 0:
            why = (
                f"{why}. Let the incumbent draw every arm now and then, and send its "
                "propensities (`incumbent_odds`)"
            )
        return SwitchCheck(f"Not yet: {why}.", False)
    compared = (
        f"the policy would have earned {_interval(ours, scale)} per decision, the "
        f"incumbent {_interval(theirs, scale)}"
    )
    over = f"{compared}, over {ours.n:,} decisions."
    if (ours.low or 0.0) > (theirs.high or 0.0):
        return SwitchCheck(f"It is safe to switch: {over}", True)
    if (ours.high or 0.0) < (theirs.low or 0.0):
        return SwitchCheck(f"Do not switch: {over}", False)
    forecast = _forecast(target, ours, ours.value - theirs.value)
    return SwitchCheck(f"Not yet: {compared}. {forecast}", False)


def _forecast(target: Target, ours: Value, gap: float) -> str:
    """Return a sentence that forecasts how many similar decisions are needed to
    distinguish the policy from the incumbent."""
    if gap <= 0:
        return "So far it would have been no better."
    second = max(target.squares / target.n, 1.0)
    value = min(max(ours.value or 0.0, 1e-6), 1.0)
    logger = np.array([1 / second, 1 - 1 / second])
    policy = np.array([1.0, 0.0])
    plan = ExplorationPlan(logger, policy, second_moment=value, offset=-(value**2))
    try:
        needed = plan.decisions(0.0, gap / _WIDER)
    except OddsmithError:
        return (
            "Decisions like these will never show a difference, however many there are."
        )
    if needed <= ours.n:
        return "A few more decisions like these should show the difference."
    return (
        f"If that is so, about {needed:,} decisions like these will show the "
        f"difference; there are {ours.n:,}."
    )


def _interval(one: Value, scale: RewardScale) -> str:
    value = scale.value(one.value or 0.0)
    low = scale.value(one.low or 0.0)
    high = scale.value(one.high or 0.0)
    return f"{value:.4g} ({low:.4g} to {high:.4g})"
