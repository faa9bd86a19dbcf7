"""Projection of propensities to floors and caps, exact up to rounding."""

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.errors import Infeasible

__all__ = [
    "FEASIBLE",
    "ROUNDING",
    "check_feasible",
    "project",
    "project_groups",
    "sums",
]

_FEW = 64  # up to this many arms, Python floats are faster than arrays
FEASIBLE = 1e-12  # tolerance for the sum of bounds and the sum of propensities
ROUNDING = 1e-14  # a smaller distance to a bound, or to 1, counts as 0


def project(
    propensities: Array, floors: Array, caps: Array, eligible: Bools | None = None
) -> Array:
    """Return the distribution within the bounds closest to `propensities` (…, K):
    clip(λ p, floor, cap) with sum 1.

    This form minimises both KL(q, p) and KL(p, q). Propensities of 0 are treated as
    equal and infinitely small: these arms get more than their floor only if every other
    arm is at its cap. An ineligible arm gets 0, and a single eligible arm gets 1 even
    if its cap is smaller. Arms are fixed at a bound one after the other, and the others
    share the rest in proportion (Bitran and Hax 1981). So λ, which may exceed the range
    of floats, is never computed, and the result is exact to rounding.

    >>> project(
    ...     np.array([0.7, 0.3, 0.0]),
    ...     np.array([0.0, 0.0, 0.1]),
    ...     np.array([0.5, 1.0, 1.0]),
    ... )
    array([0.5, 0.4, 0.1])
    """
    mask = np.True_ if eligible is None else eligible
    shape = np.broadcast_shapes(propensities.shape, np.shape(mask))
    if len(shape) == 1 and shape[0] <= _FEW:
        return _project_row(propensities, floors, caps, eligible)
    open_to = np.broadcast_to(mask, shape)
    alone = np.add.reduce(open_to, axis=-1, keepdims=True) == 1
    low = np.where(open_to, floors, 0.0)
    high = np.where(alone, 1.0, caps)
    high = np.where(open_to, high, 0.0)
    check_feasible(low, high, open_to)
    zero = propensities == 0
    ample = sums(np.where(zero, low, high)) >= 1
    base = np.where(ample, propensities, zero)
    low = np.where(ample | zero, low, high)
    return _shared(base, low, high)


def _shared(base: Array, low: Array, high: Array) -> Array:
    """Return clip(λ base, low, high) with sum 1 (…, K). Arms without base stay at
    `low`."""
    free = base > 0
    odds = low
    while True:
        shares = np.where(free, base, 0.0)
        total = sums(shares)
        shares = shares / np.where(total > 0, total, 1.0)
        rest = 1 - sums(np.where(free, 0.0, odds))
        odds = np.where(free, rest * shares, odds)
        below = odds < low
        above = odds > high
        beyond = below | above
        if not beyond.any():
            return odds
        # Fix the arms on the side with the larger deficit at their bounds. The other
        # arms then change to balance the sum, which can only move the fixed arms
        # further beyond their bounds.
        missing = np.clip(odds, low, high) - odds
        lack = sums(np.where(beyond, missing, 0.0))
        below = below & (lack >= 0)
        above = above & (lack <= 0)
        odds = np.where(above, high, odds)
        odds = np.where(below, low, odds)
        free = free & ~(below | above)


def sums(values: Array) -> Array:
    """Return the sum over arms (…, 1), added from first to last as in a plain loop, so
    that a row has the same result in a batch as on its own."""
    running: Array = np.add.accumulate(values, axis=-1)
    return running[..., -1:]


def _project_row(
    propensities: Array, floors: Array, caps: Array, eligible: Bools | None
) -> Array:
    """Do the same as `project` for one row (K,) in plain floats, equal to the last
    bit."""
    base: list[float] = propensities.tolist()
    n = len(base)
    arms = range(n)
    low = floors.tolist() if floors.ndim else [floors.item()] * n
    high = caps.tolist() if caps.ndim else [caps.item()] * n
    n_open = n if eligible is None else int(np.count_nonzero(eligible))
    if n_open == 1:
        high = [1.0] * n
    if eligible is not None:
        for arm in np.flatnonzero(~eligible).tolist():
            low[arm] = high[arm] = 0.0
    least = most = reach = 0.0
    for arm in arms:
        least = least + low[arm]
        most = most + high[arm]
        reach += low[arm] if base[arm] == 0 else high[arm]
    if least > 1 + FEASIBLE or most < 1 - FEASIBLE:
        raise _infeasible(least, most, n_open)
    if reach < 1:
        low = [low[arm] if base[arm] == 0 else high[arm] for arm in arms]
        base = [float(share == 0) for share in base]
    return np.array(_shared_row(base, low, high))


def _shared_row(base: list[float], low: list[float], high: list[float]) -> list[float]:
    """Do the same as `_shared` for one row."""
    odds = list(low)
    free = [arm for arm, share in enumerate(base) if share > 0]
    while free:
        total = fixed = lack = 0.0
        for arm in free:
            total += base[arm]
            odds[arm] = 0.0
        for share in odds:
            fixed += share
        below = []
        above = []
        for arm in free:
            share = odds[arm] = (1 - fixed) * (base[arm] / total)
            if share < low[arm]:
                below.append(arm)
                lack += low[arm] - share
            elif share > high[arm]:
                above.append(arm)
                lack += high[arm] - share
        if not (below or above):
            break
        at_bound = []
        if lack >= 0:
            at_bound += below
        if lack <= 0:
            at_bound += above
        for arm in at_bound:
            odds[arm] = min(max(odds[arm], low[arm]), high[arm])
        free = [arm for arm in free if arm not in at_bound]
    return odds


def check_feasible(low: Array, high: Array, open_to: Bools) -> None:
    """Raise if no distribution satisfies the floors and caps (…, K)."""
    least = sums(low)[..., 0]
    most = sums(high)[..., 0]
    infeasible = (least > 1 + FEASIBLE) | (most < 1 - FEASIBLE)
    if infeasible.any():
        first = tuple(np.argwhere(infeasible)[0])
        n_arms = int(np.count_nonzero(open_to[first]))
        raise _infeasible(float(least[first]), float(most[first]), n_arms)


def _infeasible(least: float, most: float, n_arms: int) -> Infeasible:
    if least > 1:
        way = "lower the floors"
    else:
        way = f"raise the caps to {1 / n_arms:.3g} or more, or offer more arms"
    return Infeasible(
        f"floors must sum to at most 1 and caps to at least 1 over the eligible arms; "
        f"got {least:.6g} and {most:.6g} over {n_arms}: {way}"
    )


def project_groups(
    propensities: Array, floors: Array, caps: Array, members: Bools, at_most: Array
) -> Array:
    """Project one row (K,) to feasible bounds with caps on groups of arms.

    `members` (G, K) marks the arms of groups that are nested or disjoint, and `at_most`
    (G,) contains their caps. A group whose share exceeds its cap gets exactly its cap,
    because reducing other groups can only increase its share. Its arms are projected
    separately and the others share the rest, until no group has too much. Inner groups
    come first; an outer group that is still too large projects them again.

    >>> members = np.array([[True, True, False]])
    >>> odds = np.array([0.6, 0.3, 0.1])
    >>> project_groups(odds, np.zeros(3), np.ones(3), members, np.array([0.3]))
    array([0.2, 0.1, 0.7])
    """
    return _project_share(1.0, propensities, floors, caps, members, at_most)


def _project_share(
    total: float,
    base: Array,
    low: Array,
    high: Array,
    members: Bools,
    at_most: Array,
) -> Array:
    """Return the closest values within the bounds whose sum is `total`."""
    smallest_first = np.argsort(np.count_nonzero(members, axis=-1), kind="stable")
    odds = np.zeros(len(base))
    free = np.ones(len(base), dtype=np.bool_)
    capped = np.zeros(len(members), dtype=np.bool_)
    while True:
        rest = total - float(odds[~free].sum())
        odds[free] = _share(rest, base[free], low[free], high[free])
        for group in smallest_first.tolist():
            mine = members[group]
            excess = float(odds[mine].sum()) - at_most[group]
            if excess <= FEASIBLE or capped[group]:
                continue
            capped[group] = True
            inner = ~(members & ~mine).any(axis=-1)
            inner[group] = False
            odds[mine] = _project_share(
                at_most[group],
                base[mine],
                low[mine],
                high[mine],
                members[inner][:, mine],
                at_most[inner],
            )
            free &= ~mine
            break
        else:
            return odds


def _share(total: float, base: Array, low: Array, high: Array) -> Array:
    """Return values between the bounds whose sum is `total`, as close to `base` as
    possible."""
    if not base.size:
        return base
    if total <= low.sum():
        return low
    shares = base.tolist()
    least = (low / total).tolist()
    most = (high / total).tolist()
    top = list[float]()
    for share, low_, high_ in zip(shares, least, most, strict=True):
        top.append(low_ if share == 0 else high_)
    if sum(top) < 1:
        least = top
        shares = [float(share == 0) for share in shares]
    return np.array(_shared_row(shares, least, most)) * total
