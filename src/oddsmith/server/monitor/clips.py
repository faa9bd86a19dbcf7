"""Clips: which experts made predictions at an end of their clip, of the last
decisions."""

from collections.abc import Sequence

import numpy as np

from oddsmith.core.arrays import Array
from oddsmith.core.decision import State
from oddsmith.core.policy import Policy
from oddsmith.core.prediction_clip import ClipCount, clip_counts
from oddsmith.policies.exp4 import OverBallots
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["last_clips"]


def last_clips(rows: Sequence[Array], policy: Policy, state: State) -> list[ClipCount]:
    """The experts whose predictions of drawn arms were at an end of their clip, the
    most often first; `rows` (N,) are the predictions of the last decisions.

    None of policies that weigh votes alone: predictions mean nothing to them.
    """
    bank = policy.bank
    inner = policy
    while isinstance(inner, PolicyWrapper):
        inner = inner.policy
    if not rows or bank is None or isinstance(inner, OverBallots):
        return []
    # policies may append values of their own
    predictions = np.stack(rows)[:, : len(bank.names), None]
    return clip_counts(bank, getattr(state, "experts", ()), predictions)
