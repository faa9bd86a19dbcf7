"""Checks of what a policy returns: its odds, and its state after learning; and of what
its loss returns.

They run wherever odds enter (an agent, a simulation, an evaluation, a service), because
a policy may be the user's own, or ask the user's experts.
"""

from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import Odds, State, Step
from oddsmith.core.errors import InvalidInput, OutOfDomain

__all__ = [
    "check_losses",
    "check_odds",
    "check_state",
    "odds_fault",
    "policy_name",
    "range_fault",
]

_SUM = 1e-6  # odds may be made in float32
_BELOW = 1e-9  # a difference of two numbers may be negative by rounding
_FEW = 64  # arms for which Python is faster than numpy


def check_odds(
    policy: object, odds: Odds, *, eligible: Bools | None = None, step: Step = None
) -> Odds:
    """The odds, unless they are no distribution over the eligible arms.

    >>> check_odds(None, Odds(np.array([0.5, 0.5])), step=3).propensities
    array([0.5, 0.5])
    """
    given: Any = getattr(odds, "propensities", None)
    if not isinstance(given, np.ndarray) or given.dtype.kind != "f" or not given.size:
        raise InvalidInput(
            f"odds of {policy_name(policy)} must be od.Odds with an array of floats "
            f"(…, K); got {given if isinstance(odds, Odds) else odds!r:.60}"
        )
    if given.ndim == 1 and len(given) <= _FEW and eligible is None:
        numbers = given.tolist()
        if min(numbers) >= 0 and abs(sum(numbers) - 1) <= _SUM:
            return odds
    fault = odds_fault(given, eligible)
    if fault is None:
        return odds
    place, text = fault
    raise InvalidInput(
        f"odds of {policy_name(policy)} must be at least 0 and sum to 1 over the "
        f"eligible arms; got {text}{_where(step, place)}"
    )


def odds_fault(
    odds: Array, eligible: Bools | None = None
) -> tuple[tuple[int, ...], str] | None:
    """The first row of odds (…, K) that is no distribution, and what is wrong with it;
    None where all rows are."""
    totals = odds.reshape(-1, odds.shape[-1]) @ np.ones(odds.shape[-1])
    able = True if eligible is None else eligible
    if (
        (np.abs(totals - 1) <= _SUM).all()
        and odds.min() >= -_BELOW
        and (eligible is None or not np.any(odds * ~eligible))
    ):
        return None
    inside = np.where(able, odds >= -_BELOW, odds == 0)
    totals = np.broadcast_to(totals.reshape(odds.shape[:-1]), inside.shape[:-1])
    wrong = ~(np.abs(totals - 1) <= _SUM) | ~inside.all(axis=-1)
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    odds = np.broadcast_to(odds, inside.shape)
    arms = np.flatnonzero(~inside[place])
    if not arms.size:
        return place, f"a sum of {totals[place]:.6g}"
    arm = int(arms[0])
    value = odds[place][arm]
    reason = ", which is not eligible" if value > 0 else ""
    return place, f"{value:.6g} for arm {arm}{reason}"


def range_fault(values: Array) -> tuple[tuple[int, ...], str] | None:
    """The place of the first number outside [0, 1] (or NaN), and the number; None where
    there is none."""
    if values.min() >= 0 and values.max() <= 1:
        return None
    place = tuple(int(i) for i in np.argwhere(~((values >= 0) & (values <= 1)))[0])
    return place, f"{values[place]:.6g}"


def check_losses(
    policy: Any, losses: object, advice: Array, step: Step = None
) -> Array:
    """The losses (…, N) of advice, NaN for sleepers alone; refused unless they are
    numbers above -inf for all others.

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
    right = losses > -np.inf
    if not np.count_nonzero(asleep) and np.count_nonzero(right) == right.size:
        return losses
    wrong = ~(right | asleep)
    if not wrong.any():
        return np.where(asleep, np.nan, losses)
    *rows, expert = (int(i) for i in np.argwhere(wrong)[0])
    place = (*rows, expert)
    value = "NaN" if np.isnan(losses[place]) else "-inf"
    raise OutOfDomain(
        f"loss of {policy_name(policy)} must be a number above -inf for any "
        f"prediction; got {value} for {advice[place]:g} of expert "
        f"{policy.experts.names[expert]!r}{_where(step, tuple(rows))}"
    )


def check_state(policy: object, state: State, verb: str = "update") -> State:
    """The state after learning, unless there is none, or its weights are no numbers."""
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
            f"{verb} of {policy_name(policy)} must return log weights that are "
            "numbers; got NaN"
        )
    return state


def policy_name(policy: object) -> str:
    """The class of a policy; of wrappers, with the one inside."""
    name = type(policy).__name__
    inner = getattr(policy, "policy", None)
    return name if inner is None else f"{name}({policy_name(inner)})"


def _where(step: Step, place: tuple[int, ...]) -> str:
    """The step and the row of a batch, in words."""
    parts = []
    if step is not None:
        steps = np.asarray(step)
        parts.append(f"step {steps[place] if steps.ndim and place else steps}")
    if place:
        parts.append(f"row {', '.join(map(str, place))}")
    return f" at {', '.join(parts)}" if parts else ""
