"""Validation of a policy's propensities, of its state after learning, and of the values
of its loss.

The checks run wherever propensities are used (an agent, a simulation, an evaluation, a
service), because a policy may be the user's own, or call the user's experts.
"""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Odds, State, Step
from oddsmith.core.errors import InvalidInput, OutOfDomain

__all__ = [
    "Fault",
    "check_losses",
    "check_odds",
    "check_state",
    "odds_fault",
    "policy_name",
    "range_fault",
]

_SUM = 1e-6  # tolerance for sums of propensities, which may be float32
_BELOW = 1e-9  # a difference may be negative by this much because of rounding
_FEW = 64  # up to this many arms, Python is faster than numpy


def check_odds(
    policy: object, odds: Odds, *, eligible: Bools | None = None, step: Step = None
) -> Odds:
    """Return the odds, or raise if a row is not a distribution over the eligible arms.

    >>> check_odds(None, Odds(np.array([0.5, 0.5])), step=3).propensities
    array([0.5, 0.5])
    """
    given: Any = getattr(odds, "propensities", None)
    if not isinstance(given, np.ndarray) or given.dtype.kind != "f" or not given.size:
        got = odds
        if isinstance(odds, Odds):
            got = given
        raise InvalidInput(
            f"propensities of {policy_name(policy)} must be od.Odds with an array of "
            f"floats (…, K); got {got!r:.60}"
        )
    if given.ndim == 1 and len(given) <= _FEW and eligible is None:
        numbers = given.tolist()
        if min(numbers) >= 0 and abs(sum(numbers) - 1) <= _SUM:
            return odds
    fault = odds_fault(given, eligible)
    if fault is None:
        return odds
    raise InvalidInput(
        f"propensities of {policy_name(policy)} must be at least 0 and sum to 1 over "
        f"the eligible arms; got {fault.text}{_where(step, fault.place)}"
    )


class Fault(NamedTuple):
    """First invalid entry of an array: its index and the reason."""

    place: tuple[int, ...]
    text: str


def odds_fault(odds: Array, eligible: Bools | None = None) -> Fault | None:
    """Return the first row of odds (…, K) that is not a distribution, with the reason;
    None if all rows are."""
    n_arms = odds.shape[-1]
    totals = odds.reshape(-1, n_arms) @ np.ones(n_arms)
    sums_to_1 = np.abs(totals - 1) <= _SUM
    outside = 0.0 if eligible is None else odds * ~eligible
    if sums_to_1.all() and odds.min() >= -_BELOW and not np.any(outside):
        return None
    is_eligible = True if eligible is None else eligible
    is_right = np.where(is_eligible, odds >= -_BELOW, odds == 0)
    lead = is_right.shape[:-1]
    totals = np.broadcast_to(totals.reshape(odds.shape[:-1]), lead)
    sums_to_one = np.abs(totals - 1) <= _SUM
    is_wrong_row = ~sums_to_one | ~is_right.all(axis=-1)
    place = _first_place(is_wrong_row)
    wrong_arms = np.flatnonzero(~is_right[place])
    if not wrong_arms.size:
        return Fault(place, f"a sum of {totals[place]:.6g}")
    arm = int(wrong_arms[0])
    value = np.broadcast_to(odds, is_right.shape)[place][arm]
    reason = ""
    if value > 0:
        reason = ", which is not eligible"
    return Fault(place, f"{value:.6g} for arm {arm}{reason}")


def range_fault(values: Array) -> Fault | None:
    """Return the first number outside [0, 1] (or NaN) with its index; None if there is
    none."""
    if values.min() >= 0 and values.max() <= 1:
        return None
    is_inside = (values >= 0) & (values <= 1)
    place = _first_place(~is_inside)
    return Fault(place, f"{values[place]:.6g}")


def _first_place(is_wrong: Bools) -> tuple[int, ...]:
    """Return the index of the first True."""
    return tuple(np.argwhere(is_wrong)[0].tolist())


def check_losses(
    policy: Any, losses: object, advice: Array, step: Step = None
) -> Array:
    """Return the losses (…, N) of the predictions. Raise unless they are numbers above
    -inf, or NaN for experts without a prediction.

    >>> check_losses(None, np.array([0.25, 0.1]), np.array([0.5, np.nan]))
    array([0.25,  nan])
    """
    if not isinstance(losses, np.ndarray) or losses.shape != advice.shape:
        got = getattr(losses, "shape", type(losses).__name__)
        raise InvalidInput(
            f"loss of {policy_name(policy)} must be elementwise, an array of shape "
            f"{advice.shape}; got {got}{_where(step, ())}"
        )
    asleep = np.isnan(advice)
    is_right = losses > -np.inf
    if not np.count_nonzero(asleep) and np.count_nonzero(is_right) == is_right.size:
        return losses
    is_wrong = ~(is_right | asleep)
    if not is_wrong.any():
        return np.where(asleep, np.nan, losses)
    place = _first_place(is_wrong)
    expert = place[-1]
    value = "-inf"
    if np.isnan(losses[place]):
        value = "NaN"
    raise OutOfDomain(
        f"loss of {policy_name(policy)} must be a number above -inf for any "
        f"prediction; got {value} for {advice[place]:g} of expert "
        f"{policy.experts.names[expert]!r}{_where(step, place[:-1])}"
    )


def check_state(policy: object, state: State, verb: str = "update") -> State:
    """Return the state after learning, or raise if it is None or its weights are not
    numbers."""
    if state is None:
        raise InvalidInput(
            f"{verb} of {policy_name(policy)} must return the state, even if it was "
            "changed in place; got None"
        )
    if type(policy).__module__.startswith("oddsmith."):
        return state
    weights = getattr(state, "log_weights", None)
    if isinstance(weights, np.ndarray) and np.isnan(weights).any():
        raise InvalidInput(
            f"{verb} of {policy_name(policy)} must return log weights without NaN; "
            "got NaN"
        )
    return state


def policy_name(policy: object) -> str:
    """Return the class name of a policy; for a wrapper, also that of the wrapped
    policy."""
    name = type(policy).__name__
    inner = getattr(policy, "policy", None)
    if inner is None:
        return name
    return f"{name}({policy_name(inner)})"


def _where(step: Step, place: tuple[int, ...]) -> str:
    """Describe the step and the row of a batch for an error message."""
    parts = []
    if step is not None:
        steps = np.asarray(step)
        number = steps
        if steps.ndim and place:
            number = steps[place]
        parts.append(f"step {number}")
    if place:
        parts.append(f"row {', '.join(map(str, place))}")
    if parts:
        return f" at {', '.join(parts)}"
    return ""
