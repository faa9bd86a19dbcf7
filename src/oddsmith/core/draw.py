"""Drawing an arm: uniform numbers from a seed and the decision id, and `draw`, the only
function that picks an arm."""

from bisect import bisect_left, bisect_right
from hashlib import blake2b
from itertools import accumulate
from typing import Any

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Ints, Real
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.errors import InvalidInput

__all__ = ["Uniforms", "draw", "pick"]


class Uniforms:
    """Uniform numbers in [0, 1) by a keyed hash of (seed, decision id), so that each
    draw can be reproduced.

    >>> Uniforms(7)(1) == Uniforms(7)(1) != Uniforms(8)(1)
    True
    """

    def __init__(self, seed: int) -> None:
        key = str(seed).encode()
        is_whole = isinstance(seed, int | np.integer) and not isinstance(seed, bool)
        if not is_whole or len(key) > 64:
            raise InvalidInput(
                f"seed must be an integer of at most 64 digits; got {seed!r}"
            )
        self._keyed = blake2b(digest_size=8, key=key).copy

    def __call__(self, decision_id: int | str) -> float:
        """Return 53 random bits as a number in [0, 1)."""
        if isinstance(decision_id, str):
            message = decision_id.encode()
        else:
            message = b"%d" % decision_id
        keyed = self._keyed()
        keyed.update(message)
        bits = int.from_bytes(keyed.digest(), "little") >> 11
        return bits * 2.0**-53


def pick(propensities: Array, uniform: Real) -> Any:
    """Return the arm (…) that a uniform number in [0, 1) draws: the first whose
    cumulative propensity exceeds uniform · total.

    An arm with propensity 0 is never picked.

    >>> pick(np.array([0.2, 0.0, 0.8]), 0.2)
    2
    """
    if propensities.ndim == 1 and isinstance(uniform, float):
        compiled = kernels.compiled()
        if compiled is not None:
            return compiled.pick(propensities, uniform)
        sums = list(accumulate(propensities.tolist()))
        total = sums[-1]
        drawn = bisect_right(sums, uniform * total)
        # If uniform · total rounds up to total, draw the last arm.
        last = bisect_left(sums, total)
        return min(drawn, last)
    cumulative = np.add.accumulate(propensities, axis=-1)
    total = cumulative[..., -1:]
    beyond = cumulative > np.asarray(uniform)[..., None] * total
    # A uniform number of exactly 1 draws the last arm with positive propensity.
    beyond |= cumulative == total
    arms = beyond.argmax(axis=-1)
    if arms.ndim == 0:
        return int(arms)
    return arms


def draw(
    odds: Odds,
    context: Context,
    uniform: Real,
    *,
    eligible: Bools | None = None,
    step: Step = None,
) -> Decision:
    """Return the decision that `uniform` draws from `odds`. No other function picks an
    arm."""
    arm = pick(odds.propensities, uniform)
    if not isinstance(arm, int):
        return _batch_decision(odds, context, arm, eligible, step)
    advice = odds.advice
    if advice is not None:
        # Copy the column: a view would keep the array of all arms in memory.
        advice = advice[:, arm].astype(np.float64)
    return Decision(
        step,
        context,
        eligible,
        arm,
        odds.propensities,
        advice,
        odds.bonus,
        odds.log_weights,
    )


def _batch_decision(
    odds: Odds, context: Context, arm: Ints, eligible: Bools | None, step: Step
) -> Decision:
    """Return the decision for the drawn arms (…) of a batch, with batch axes in all
    fields."""
    shape = arm.shape
    eligible = _with_axes(eligible, shape)
    step = None if step is None else np.broadcast_to(step, shape)
    propensities = _with_axes(odds.propensities, shape)
    advice = _drawn_column(odds.advice, arm)
    bonus = _with_axes(odds.bonus, shape)
    log_weights = _with_axes(odds.log_weights, shape)
    return Decision(
        step, context, eligible, arm, propensities, advice, bonus, log_weights
    )


def _drawn_column(advice: Array | None, arm: Ints) -> Array | None:
    """Return advice[…, :, arm[…]] with shape (…, N)."""
    if advice is None:
        return None
    n_experts, n_arms = advice.shape[-2:]
    advice = np.broadcast_to(advice, (*arm.shape, n_experts, n_arms))
    column = np.take_along_axis(advice, arm[..., None, None], axis=-1)
    return column[..., 0].astype(np.float64)


def _with_axes(value: Any, shape: tuple[int, ...]) -> Any:
    """Broadcast an array (…, n) to the batch axes `shape`."""
    if value is None:
        return None
    return np.broadcast_to(value, (*shape, value.shape[-1]))
