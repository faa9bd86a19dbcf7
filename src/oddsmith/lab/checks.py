"""Checks of policies and worlds in a simulation. Each check covers several steps,
because separate checks for every step would be slow."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints, whole
from oddsmith.core.checks import odds_fault, policy_name, range_fault
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import Offer
from oddsmith.lab.worlds.world import Noise, World

__all__ = [
    "ABSENT",
    "StepChecks",
    "StepParts",
    "check_rewards_in_range",
    "check_shape",
    "check_states",
    "check_step",
    "check_world",
    "odds_check",
    "offered_means",
    "step_check",
]

_STEPS = 256  # maximum number of steps per check
_SUM = 1e-9  # skip the slower test if all sums of propensities are this close to 1
# Maximum count of numbers per check. A check covers at least one step, even if that
# step has more.
_NUMBERS = 2**16


class _Call(NamedTuple):
    """The parameters with which the simulation calls a method of a world."""

    parameters: str
    arguments: tuple[int | None, ...]


_CALLS = {
    "context": _Call("step, runs, rng, history=None", (1, 1, None, None)),
    "means": _Call("step, context", (1, None)),
}

Check = Callable[[Array, int], None]
"""A function that raises an error for wrong values (steps, …) of consecutive steps. Its
second argument is the number of the first step."""

ABSENT = object()
"""Marks a part of a step that has not been computed yet. None cannot do so, because a
policy may return it."""


@dataclass
class StepParts:
    """The parts of a step, in the order in which they are computed. If one of them
    fails, the parts after it still have the values of the previous step."""

    runs: int
    noise: Noise | None = None
    context: Any = ABSENT
    odds: Any = ABSENT
    means: Any = ABSENT
    rewards: Any = ABSENT


class StepChecks:
    """Collect arrays of consecutive steps and check them together. Each step adds one
    array of this shape or, with `has_two`, two arrays that are stacked vertically.

    >>> def check(values, first):
    ...     print(values.tolist(), first)
    >>> checks = StepChecks((1, 1), check, has_two=True)
    >>> checks.add(np.array([[0.5]]), np.array([[0.2]]))
    >>> checks.flush()
    [[[0.5], [0.2]]] 1
    """

    def __init__(
        self, shape: tuple[int, ...], check: Check, *, has_two: bool = False
    ) -> None:
        n = shape[0]
        whole = (2 * n, *shape[1:]) if has_two else shape
        numbers = max(int(np.prod(whole)), 1)
        size = max(1, min(_STEPS, _NUMBERS // numbers))
        self._values = np.empty((size, *whole))
        self._upper = list(self._values[:, :n])
        self._lower = list(self._values[:, n:])
        self._shape = shape
        self._check = check
        self._first = 1
        self._waiting = 0

    def add(self, upper: Array, lower: Array | None = None) -> None:
        """Add the arrays of the next step, and check all collected ones if there are
        enough."""
        # Two assignments take half as long as np.concatenate, and this runs in every
        # step.
        step = self._waiting
        if upper.shape != self._shape:
            raise ValueError(f"got shape {upper.shape}")
        self._upper[step][...] = upper
        if lower is not None:
            if lower.shape != self._shape:
                raise ValueError(f"got shape {lower.shape}")
            self._lower[step][...] = lower
        self._waiting = step + 1
        if self._waiting == len(self._upper):
            self.flush()

    def flush(self) -> None:
        """Check the remaining arrays."""
        first = self._first
        values = self._values[: self._waiting]
        self._first += self._waiting
        self._waiting = 0
        if len(values):
            self._check(values, first)


def step_check(policy: object, world: object) -> Check:
    """Return a check of arrays (steps, 2 · runs, K) that contain a policy's
    propensities and, below them, a world's means."""
    check_odds = odds_check(policy)

    def check(values: Array, first: int) -> None:
        n_runs = values.shape[1] // 2
        odds = values[:, :n_runs]
        means = values[:, n_runs:]
        # Propensities and means are both in [0, 1], so one pass over the array checks
        # both in the usual case.
        is_in_range = values.min() >= 0 and values.max() <= 1
        row_sums = values @ np.ones(values.shape[-1])
        deviations = np.abs(row_sums[:, :n_runs] - 1)
        if is_in_range and deviations.max() <= _SUM:
            return
        check_odds(odds, first)
        fault = range_fault(means)
        if fault is not None:
            (step, run, arm), text = fault
            place = f"step {first + step}, run {run}, arm {arm}"
            raise InvalidInput(
                f"means of {type(world).__name__} must be in [0, 1]; got {text} at "
                f"{place}"
            )

    return check


def odds_check(policy: object) -> Check:
    """Return a check of a policy's propensities (steps, runs, K)."""

    def check(values: Array, first: int) -> None:
        fault = odds_fault(values)
        if fault is not None:
            (step, run), text = fault
            raise InvalidInput(
                f"propensities of {policy_name(policy)} must be at least 0 and sum to "
                f"1; got {text} at step {first + step}, run {run}"
            )

    return check


def check_rewards_in_range(source: object, rewards: Array) -> None:
    """Raise an error if rewards (steps, runs) of a noise or world are outside [0,
    1]."""
    if not rewards.size:
        return
    fault = range_fault(rewards)
    if fault is not None:
        (step, run), text = fault
        raise InvalidInput(
            f"rewards of {type(source).__name__} must be in [0, 1]; got {text} at step "
            f"{step + 1}, run {run}"
        )


def check_states(world: object, states: Ints, n_states: int) -> None:
    """Raise an error if states (steps + 1, runs) of an episode are not from 0 to S - 1.
    The first row contains the initial states."""
    is_wrong = (states < 0) | (states >= n_states)
    if not is_wrong.any():
        return
    step, run = np.argwhere(is_wrong)[0].tolist()
    state = states[step, run]
    raise InvalidInput(
        f"states of {type(world).__name__} must be whole numbers from 0 to "
        f"{n_states - 1}; got {state} after step {step}, run {run}"
    )


def check_shape(what: str, values: Any, shape: tuple[int, ...], step: int) -> None:
    """Raise an error if the values of one step are not an array of numbers of this
    shape."""
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
    """Raise an error if an object is not a world or lacks an attribute or method of a
    world."""
    kind = type(world)
    if not isinstance(world, World):
        raise InvalidInput(
            "world must have n_arms, context and means (use World as base class); "
            f"got {kind.__name__}"
        )
    # World only declares the field, so a user's subclass may lack it.
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
    """Raise an error if a method does not accept the arguments that the simulation
    passes."""
    call = _CALLS[verb]
    signature = inspect.signature(getattr(world, verb))
    try:
        signature.bind(*call.arguments)
    except TypeError as error:
        raise InvalidInput(
            f"{verb} of {type(world).__name__} must take ({call.parameters}); got "
            f"{signature}"
        ) from error


def check_step(policy: object, world: World, step: int, parts: StepParts) -> None:
    """Raise an error for the first wrong part of a failed step, in the order of their
    computation: context, propensities, means, rewards."""
    runs = parts.runs
    shape = (runs, world.n_arms)
    if parts.context is not ABSENT:
        _check_context(world, parts.context, step, runs)
    if parts.odds is not ABSENT:
        _check_odds_shape(policy, parts.odds, step, shape)
    if parts.means is not ABSENT:
        what = f"means of {type(world).__name__}"
        check_shape(what, parts.means, shape, step)
    if parts.rewards is not ABSENT:
        name = type(parts.noise).__name__
        check_shape(f"rewards of {name}", parts.rewards, (runs,), step)


def _check_odds_shape(
    policy: object, odds: Any, step: int, shape: tuple[int, int]
) -> None:
    """Raise an error if propensities are neither an array (runs, K) nor one row (K,)
    for all runs."""
    n_arms = shape[1]
    # A user's policy may return any type.
    values = getattr(odds, "propensities", odds)
    values_shape = getattr(values, "shape", None)
    if values_shape and values_shape[-1] != n_arms:
        raise InvalidInput(
            f"policy must have the world's {n_arms} arms; "
            f"{policy_name(policy)} has {values_shape[-1]}"
        )
    if values_shape != (n_arms,):
        check_shape(f"propensities of {policy_name(policy)}", values, shape, step)


def _check_context(world: World, context: Any, step: int, runs: int) -> None:
    """Raise an error if a step does not have one context per run."""
    if isinstance(context, np.ndarray | list):
        is_single = isinstance(context, np.ndarray) and context.ndim == 0
        got = "one" if is_single else len(context)
        if got != runs:
            raise InvalidInput(
                f"context of {type(world).__name__} must have a row for each of {runs} "
                f"runs; got {got} at step {step}"
            )
    if world.makes_offers:
        _check_offers(world, context, step)


def _check_offers(world: World, context: Any, step: int) -> None:
    """Raise an error if a context is not a list of offers, or an offer has too many
    arms."""
    wrong = [context]
    if isinstance(context, list):
        wrong = []
        for offer in context:
            if not isinstance(offer, Offer) or len(offer.arms) > world.n_arms:
                wrong.append(offer)
    if wrong:
        raise InvalidInput(
            f"context of {type(world).__name__} must be a list of offers of at "
            f"most {world.n_arms} arms; got {wrong[0]!r:.60} at step {step}"
        )


def offered_means(world: World, context: Any, means: Any) -> Any:
    """Return the means (runs, K) of the offered arms. Columns after the last arm of an
    offer are 0, because these arms are never drawn."""
    shape = (len(context), world.n_arms)
    if not isinstance(means, np.ndarray) or means.shape != shape:
        return means
    sizes = np.array([len(offer.arms) for offer in context])
    arms = np.arange(world.n_arms)
    is_behind = arms >= sizes[:, None]
    return np.where(is_behind, 0.0, means)
