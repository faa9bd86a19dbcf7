"""Clips: find experts whose recent predictions were clipped to the smallest or largest
allowed value."""

from collections.abc import Sequence

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import State
from oddsmith.core.policy import Policy
from oddsmith.experts.prediction_clip import ClipCount, clip_counts
from oddsmith.policies.exp4 import OverBallots
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["last_clips"]


def last_clips(rows: Sequence[Array], policy: Policy, state: State) -> list[ClipCount]:
    """Return the experts with clipped predictions, sorted by decreasing number of such
    predictions.

    `rows` (N,) are the predictions of the last decisions for the drawn arms. The list
    is empty for policies that only weigh votes, because they ignore predictions.
    """
    bank = policy.bank
    inner = policy
    while isinstance(inner, PolicyWrapper):
        inner = inner.policy
    if not rows or bank is None or isinstance(inner, OverBallots):
        return []
    # some policies append other values to the predictions
    predictions = np.stack(rows)[:, : len(bank.names), None]
    return clip_counts(bank, getattr(state, "experts", ()), predictions)
