"""Checks of policies and worlds in a simulation: some steps at once, because a check
of each step would take a noticeable part of it."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from oddsmith.core.arrays import Array, Ints, whole
from oddsmith.core.checks import odds_fault, policy_name, range_fault
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import Offer
from oddsmith.lab.worlds.world import World

__all__ = [
    "StepChecks",
    "check_rewards_in_range",
    "check_shape",
    "check_states",
    "check_step",
    "check_world",
    "odds_check",
    "offered_means",
    "step_check",
]

_STEPS = 256  # that are checked at once, at most
_SUM = 1e-9  # a sum of odds that is closer to 1 needs no closer look
_NUMBERS = 2**16  # that are kept for a check, at most (but one step)

_PARAMETERS = {
    "context": ("step", "runs", "rng", "history=None"),
    "means": ("step", "context"),
}

Check = Callable[[Array, int], None]
"""Refuses values (steps, …) of consecutive steps, of which the first has this
number."""


class StepChecks:
    """Copies the values of consecutive steps, and checks them together.

    >>> def check(values, first):
    ...     print(values.tolist(), first)
    >>> checks = StepChecks((2, 1), check)
    >>> checks.add(np.array([[0.5]]), np.array([[0.2]]))
    >>> checks.flush()
    [[[0.5], [0.2]]] 1
    """

    def __init__(self, shape: tuple[int, ...], check: Check) -> None:
        size = max(1, min(_STEPS, _NUMBERS // max(int(np.prod(shape)), 1)))
        self._values = np.empty((size, *shape))
        self._rows = list(self._values)
        self._check = check
        self._first = 1
        self._waiting = 0

    def add(self, *arrays: Array) -> None:
        """Take the arrays of the next step, one below the other; check if there are
        enough."""
        np.concatenate(arrays, out=self._rows[self._waiting])
        self._waiting += 1
        if self._waiting == len(self._rows):
            self.flush()

    def flush(self) -> None:
        """Check what was not checked yet."""
        first = self._first
        values = self._values[: self._waiting]
        self._first += self._waiting
        self._waiting = 0
        if len(values):
            self._check(values, first)


def step_check(policy: object, world: object) -> Check:
    """The check of a policy's odds and, below them, a world's means (steps, 2 · runs,
    K)."""
    refuse_odds = odds_check(policy)

    def check(values: Array, first: int) -> None:
        parts = values.reshape(len(values), 2, -1, values.shape[-1])
        # odds and means are in [0, 1]: if all is well, one pass over both is enough
        in_range = values.min() >= 0 and values.max() <= 1
        totals = values @ np.ones(values.shape[-1])
        off = np.abs(totals[:, : parts.shape[2]] - 1)
        if in_range and off.max() <= _SUM:
            return
        refuse_odds(parts[:, 0], first)
        fault = range_fault(parts[:, 1])
        if fault is not None:
            (step, run, arm), text = fault
            raise InvalidInput(
                f"means of {type(world).__name__} must be in [0, 1]; got {text} at "
                f"step {first + step}, run {run}, arm {arm}"
            )

    return check


def odds_check(policy: object) -> Check:
    """The check of a policy's odds (steps, runs, K)."""

    def check(values: Array, first: int) -> None:
        fault = odds_fault(values)
        if fault is not None:
            (step, run), text = fault
            raise InvalidInput(
                f"odds of {policy_name(policy)} must be at least 0 and sum to 1; got "
                f"{text} at step {first + step}, run {run}"
            )

    return check


def check_rewards_in_range(source: object, rewards: Array) -> None:
    """Refuse rewards (steps, runs) of a noise or world that are outside [0, 1]."""
    fault = range_fault(rewards) if rewards.size else None
    if fault is not None:
        (step, run), text = fault
        raise InvalidInput(
            f"rewards of {type(source).__name__} must be in [0, 1]; got {text} at step "
            f"{step + 1}, run {run}"
        )


def check_states(world: object, states: Ints, n_states: int) -> None:
    """Refuse states (steps + 1, runs) of an episode that are not from 0 to S - 1; the
    first row is where it begins."""
    if states.min() >= 0 and states.max() < n_states:
        return
    step, run = (int(i) for i in np.argwhere((states < 0) | (states >= n_states))[0])
    raise InvalidInput(
        f"states of {type(world).__name__} must be whole numbers from 0 to "
        f"{n_states - 1}; got {states[step, run]} after step {step}, run {run}"
    )


def check_shape(what: str, values: Any, shape: tuple[int, ...], step: int) -> None:
    """Refuse values of one step that are no array of numbers of this shape."""
    is_array = isinstance(values, np.ndarray)
    if is_array and values.dtype.kind not in "fiub":
        raise InvalidInput(
            f"{what} must be numbers; got dtype {values.dtype} at step {step}"
        )
    if is_array and values.shape == shape:
        return
    got = getattr(values, "shape", type(values).__name__)
    raise InvalidInput(
        f"{what} must be an array of shape {shape}; got {got} at step {step}"
    )


def check_world(world: object) -> None:
    """Refuse what is no world, and a world that lacks something."""
    kind = type(world)
    if not isinstance(world, World):
        raise InvalidInput(
            "world must have n_arms, context and means (name World as base); got "
            f"{kind.__name__}"
        )
    if not hasattr(world, "n_arms"):
        raise InvalidInput(
            f"world must have n_arms, the number of its arms; {kind.__name__} has none"
        )
    whole(f"n_arms of {kind.__name__}", world.n_arms)
    for verb in ("context", "means"):
        if getattr(kind, verb) is getattr(World, verb):
            raise InvalidInput(
                f"world must have {verb}; {kind.__name__} has none: write it"
            )
        _check_parameters(world, verb)


def _check_parameters(world: World, verb: str) -> None:
    """Refuse a verb that cannot be called as the simulation calls it."""
    arguments = {"context": (1, 1, None, None), "means": (1, None)}[verb]
    signature = inspect.signature(getattr(world, verb))
    try:
        signature.bind(*arguments)
    except TypeError as error:
        wanted = ", ".join(_PARAMETERS[verb])
        raise InvalidInput(
            f"{verb} of {type(world).__name__} must take ({wanted}); got {signature}"
        ) from error


def check_step(policy: object, world: World, step: int, found: dict[str, Any]) -> None:
    """Refuse what is wrong with the parts of a step that failed, in the order in which
    they were made: context, odds, means and rewards."""
    runs = found["runs"]
    each = (runs, world.n_arms)
    if "context" in found:
        _check_context(world, found["context"], step, runs)
    if "odds" in found:
        odds = getattr(found["odds"], "propensities", found["odds"])
        shape = getattr(odds, "shape", None)
        if shape and shape[-1] != world.n_arms:
            raise InvalidInput(
                f"policy must have the world's {world.n_arms} arms; "
                f"{policy_name(policy)} has {shape[-1]}"
            )
        if shape != each[1:]:  # one row for all runs
            check_shape(f"odds of {policy_name(policy)}", odds, each, step)
    if "means" in found:
        check_shape(f"means of {type(world).__name__}", found["means"], each, step)
    if "rewards" in found:
        name = type(found["noise"]).__name__
        check_shape(f"rewards of {name}", found["rewards"], (runs,), step)


def _check_context(world: World, context: Any, step: int, runs: int) -> None:
    """Refuse contexts of one step that are not one for each run."""
    rows = context if isinstance(context, np.ndarray | list) else None
    is_single = isinstance(rows, np.ndarray) and rows.ndim == 0
    if rows is not None and (is_single or len(rows) != runs):
        got = "one" if is_single else len(rows)
        raise InvalidInput(
            f"context of {type(world).__name__} must have a row for each of {runs} "
            f"runs; got {got} at step {step}"
        )
    if not world.makes_offers:
        return
    for offer in rows if isinstance(rows, list) else [rows]:
        if not isinstance(offer, Offer) or len(offer.arms) > world.n_arms:
            raise InvalidInput(
                f"context of {type(world).__name__} must be a list of offers of at "
                f"most {world.n_arms} arms; got {offer!r:.60} at step {step}"
            )


def offered_means(world: World, context: Any, means: Any) -> Any:
    """The means (runs, K) of arms in offers, with 0 behind the last arm of each: no arm
    has odds there."""
    if not isinstance(means, np.ndarray) or means.shape != (len(context), world.n_arms):
        return means
    sizes = np.array([len(offer.arms) for offer in context])
    behind = np.arange(world.n_arms) >= sizes[:, None]
    return np.where(behind, 0.0, means)
