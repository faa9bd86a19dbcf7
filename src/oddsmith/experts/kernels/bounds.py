"""Compiled kernel (numba) for ballots within bounds, one ballot at a time; equal to
`policies/parts/feasible.py` to the last bit."""

from math import prod
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from oddsmith.core.arrays import Array, Bools

__all__ = ["fill"]

Scalar = TypeVar("Scalar", bound=np.generic)


def fill(
    ballots: Array,
    values: Array,
    limits: tuple[Array, Array, Bools, Array],
    tolerances: tuple[float, float],
) -> tuple[Array, Array]:
    """Return the ballots (…, N, K) within the bounds, and the probability (…) that the
    bounds do not allow to assign.

    `limits` are the floors and caps of arms (…, K), the members of groups (…, G, K) and
    their caps (…, G). `tolerances` are the largest allowed excess over a bound, and the
    distance to a bound below which an arm counts as full.
    """
    low, high, members, at_most = limits
    lead = ballots.shape[:-2]
    if low.ndim > 1 or at_most.ndim > 1:
        lead = np.broadcast_shapes(lead, low.shape[:-1], at_most.shape[:-1])
    n_experts, n_arms = ballots.shape[-2:]
    filled = np.empty((*lead, n_experts, n_arms))
    rest = np.empty(lead)
    changed = _fill_calls(
        _by_call(ballots, lead, 2),
        _by_call(values, lead, 2),
        _by_call(low, lead, 1),
        _by_call(high, lead, 1),
        _by_call(members, lead, 2),
        _by_call(at_most, lead, 1),
        tolerances,
        filled.reshape(rest.size, n_experts, n_arms),
        rest.reshape(rest.size),
    )
    if changed:
        ballots = filled
    return ballots, rest


def _by_call(
    array: npt.NDArray[Scalar], lead: tuple[int, ...], axes: int
) -> npt.NDArray[Scalar]:
    """Return the array with one leading axis for all calls, contiguous."""
    if not lead:
        return np.ascontiguousarray(array)[None]
    own = array.shape[array.ndim - axes :]
    if array.ndim < axes + len(lead):
        array = np.broadcast_to(array, (*lead, *own))
    return np.ascontiguousarray(array).reshape(prod(lead), *own)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _fill_calls(
    ballots: Array,
    values: Array,
    low: Array,
    high: Array,
    members: Bools,
    at_most: Array,
    tolerances: tuple[float, float],
    filled: Array,
    rest: Array,
) -> bool:
    """Write the ballots within the bounds. Return whether one differs from its
    input."""
    room = np.empty(low.shape[1])
    rates = np.empty(low.shape[1])
    group_room = np.empty(at_most.shape[1])
    group_rates = np.empty(at_most.shape[1])
    changed = False
    for call in range(ballots.shape[0]):
        bounds = (low[call], high[call], members[call], at_most[call])
        rest[call] = 0.0
        for expert in range(ballots.shape[1]):
            ballot = ballots[call, expert]
            odds = filled[call, expert]
            if _stays(ballot, bounds, tolerances[0]):
                odds[:] = ballot
                continue
            changed = True
            left = _raise(
                ballot,
                values[call, expert],
                bounds,
                tolerances,
                (room, rates, group_room, group_rates),
                odds,
            )
            rest[call] = max(rest[call], left)
    return changed


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _stays(
    ballot: Array, bounds: tuple[Array, Array, Bools, Array], feasible: float
) -> bool:
    """Return whether a ballot is empty or within the bounds."""
    low, high, members, at_most = bounds
    empty = True
    within = True
    total = 0.0
    for k in range(ballot.size):
        empty &= ballot[k] == 0.0
        within &= low[k] - feasible <= ballot[k] <= high[k] + feasible
        total += ballot[k]
    if empty or not within or not abs(total - 1.0) <= feasible:
        return empty
    for g in range(at_most.size):
        share = 0.0
        for k in range(ballot.size):
            if members[g, k]:
                share += ballot[k]
        within &= share <= at_most[g] + feasible
    return within


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _raise(
    ballot: Array,
    values: Array,
    bounds: tuple[Array, Array, Bools, Array],
    tolerances: tuple[float, float],
    work: tuple[Array, Array, Array, Array],
    odds: Array,
) -> float:
    """Raise all arms from their floors until the propensities sum to 1. Return the
    probability that the bounds do not allow to assign, or ∞ if the floors are too
    large."""
    feasible, rounding = tolerances
    low, high, members, at_most = bounds
    room, rates, group_room, group_rates = work
    floors = 0.0
    for k in range(odds.size):
        odds[k] = low[k]
        room[k] = high[k] - low[k]
        floors += low[k]
    excessive = False
    for g in range(at_most.size):
        in_group = 0.0
        for k in range(odds.size):
            if members[g, k]:
                in_group += low[k]
        group_room[g] = at_most[g] - in_group
        excessive |= group_room[g] < -feasible
    rest = 1.0 - floors
    excessive |= rest < -feasible
    unfollowed = 1.0
    while rest > rounding:
        _close(room, group_room, members, rounding, rates)
        follows = unfollowed > 0.0 and _follow(ballot, low, rates)
        if not follows:
            _climb(values, rates)
        total = 0.0
        step = unfollowed if follows else np.inf
        for k in range(odds.size):
            total += rates[k]
            if rates[k] > 0.0:
                step = min(step, room[k] / rates[k])
        if total == 0.0:
            break
        step = min(step, rest / total)
        for g in range(at_most.size):
            group_rates[g] = 0.0
            for k in range(odds.size):
                if members[g, k]:
                    group_rates[g] += rates[k]
            if group_rates[g] > 0.0:
                step = min(step, group_room[g] / group_rates[g])
        for k in range(odds.size):
            if rates[k] > 0.0 and room[k] / rates[k] <= step:
                odds[k] = high[k]
                room[k] = 0.0
            else:
                odds[k] = min(odds[k] + step * rates[k], high[k])
                room[k] -= step * rates[k]
        for g in range(at_most.size):
            if group_rates[g] > 0.0 and group_room[g] / group_rates[g] <= step:
                group_room[g] = 0.0
            else:
                group_room[g] -= step * group_rates[g]
        rest = 0.0 if rest / total <= step else rest - step * total
        if follows:
            unfollowed -= step
    if excessive:
        return np.inf
    return rest


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _close(
    room: Array, group_room: Array, members: Bools, rounding: float, rates: Array
) -> None:
    """Set the rates to 1 where an arm and its groups have room, else to 0."""
    for k in range(room.size):
        rates[k] = 1.0 if room[k] > rounding else 0.0
    for g in range(group_room.size):
        if group_room[g] <= rounding:
            for k in range(room.size):
                if members[g, k]:
                    rates[k] = 0.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _follow(ballot: Array, low: Array, rates: Array) -> bool:
    """Set the rate of each open arm to the part of the ballot above its floor, if this
    part is positive for at least one open arm."""
    follows = False
    for k in range(ballot.size):
        follows |= rates[k] > 0.0 and ballot[k] - low[k] > 0.0
    if follows:
        for k in range(ballot.size):
            rates[k] = max(ballot[k] - low[k], 0.0) if rates[k] > 0.0 else 0.0
    return follows


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _climb(values: Array, rates: Array) -> None:
    """Keep only the rates of the open arms with the highest value."""
    top = -np.inf
    for k in range(values.size):
        if rates[k] > 0.0 and values[k] > top:
            top = values[k]
    if top == -np.inf:
        return  # no free arm is left to take the rest
    for k in range(values.size):
        if values[k] != top:
            rates[k] = 0.0
