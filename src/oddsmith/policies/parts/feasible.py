"""Ballots within floors and caps of arms, and caps of groups of arms.

Groups of arms are nested or disjoint. The distributions q with

    floor_a <= q_a <= cap_a,   Σ_{a in g} q_a <= at_most_g,   Σ_a q_a = 1

are then the bases of a polymatroid, shifted by the floors: x = q - floor has the
laminar constraints x(g) <= at_most_g - floor(g). On such a set the greedy algorithm is
optimal (Edmonds 1970): raise the arm with the highest value until its cap or the cap of
one of its groups is reached, then the next arm.

Proof sketch. Let p be feasible, q the greedy result, and a the first arm in order of
value where they differ: p_a < q_a, because q_a is the largest value that the earlier
arms allow. Raising p_a can violate only the bounds of groups that contain a. Let g be
the smallest such group that is full in p, or the group of all arms if none is full.
Since p(g) >= q(g), some arm b in g has p_b > q_b, and b comes after a. Moving a little
mass from b to a stays within all bounds, does not lower the expected value and brings p
closer to q. So q is optimal.

The bounds are the same for all experts and the set is convex, so a mixture of feasible
ballots is feasible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NoReturn

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.errors import Infeasible, InvalidInput
from oddsmith.policies.parts.projection import (
    FEASIBLE,
    ROUNDING,
    check_feasible,
    sums,
)

__all__ = ["Limits", "feasible_ballots", "refuse_overlaps"]


@dataclass(frozen=True, eq=False)
class Limits:
    """The bounds of one call, or of a batch of calls, over its eligible arms.

    `low` and `high` (…, K) bound the arms, both 0 for an ineligible arm. `at_most` (…,
    G) bounds the groups, whose arms are marked in `members` (…, G, K). `labels` name
    the groups.
    """

    low: Array
    high: Array
    members: Bools
    at_most: Array
    eligible: Bools
    labels: Sequence[str] = ()

    @cached_property
    def uniform(self) -> Array:
        """Return the feasible distribution (…, K) closest to uniform in total
        variation. Mass above caps is spread equally as far as the bounds allow.

        Raise `Infeasible`, naming the bounds, if no distribution is feasible.
        """
        n_arms = np.add.reduce(self.eligible, axis=-1, keepdims=True)
        even = (self.eligible / n_arms)[..., None, :]
        filled, rest = _fill(even, np.zeros(even.shape), self)
        if (rest > FEASIBLE).any():
            self._refuse(rest)
        return filled[..., 0, :]

    @cached_property
    def capped(self) -> bool:
        """Return whether an eligible arm or a group has a cap."""
        if self.at_most.shape[-1]:
            return True
        below_one = self.eligible & (self.high < 1)
        return bool(below_one.any())

    @property
    def reach_all(self) -> bool:
        """Whether the floors leave some probability for arms without a floor."""
        in_groups = _by_group(self.members, self.low)
        full = in_groups >= self.at_most
        in_full_group = (self.members & full[..., None]).any(axis=-2)
        has_room = (self.high > 0) & (sums(self.low) < 1)
        reached = (self.low > 0) | (has_room & ~in_full_group)
        return bool((reached | ~self.eligible).all())

    def restrict(self, eligible: Bools) -> "Limits":
        """Return the bounds over these arms (…, K) only.

        A cap applies only while another eligible arm can take the remaining
        probability: a single eligible arm has no cap, and a group that contains all
        eligible arms has no cap.
        """
        alone = np.add.reduce(eligible, axis=-1, keepdims=True) == 1
        high = np.where(alone, 1.0, self.high)
        mask = eligible[..., None, :]
        covers = (self.members | ~mask).all(axis=-1)
        low = np.where(eligible, self.low, 0.0)
        at_most = np.where(covers, 1.0, self.at_most)
        return Limits(
            low=low,
            high=np.where(eligible, high, 0.0),
            members=self.members & mask,
            at_most=at_most,
            eligible=eligible,
            labels=self.labels,
        )

    def clip(self, propensities: Array) -> Array:
        """Clip propensities that exceed an arm's bound by rounding."""
        return np.minimum(np.maximum(propensities, self.low), self.high)

    def _refuse(self, rest: Array) -> NoReturn:
        """Raise an error that names the bounds that prevent a sum of 1. `rest` (…) is
        the probability that the bounds do not allow to assign."""
        check_feasible(self.low, self.high, self.eligible)
        floors = _by_group(self.members, self.low)
        above = floors > self.at_most + FEASIBLE
        if not above.any():
            raise Infeasible(
                "caps must sum to at least 1 over the eligible arms; with "
                f"{', '.join(self.labels)} they sum to {1 - rest.max():.6g}: raise "
                "caps or at_most, or offer arms of other groups"
            )
        first = tuple(np.argwhere(above)[0])
        label = self.labels[first[-1]]
        cap = np.broadcast_to(self.at_most, floors.shape)[first]
        raise Infeasible(
            f"floors in {label} must sum to at most its cap {cap:.6g}; got "
            f"{floors[first]:.6g} over the eligible arms: lower the floors or raise "
            "at_most"
        )


def refuse_overlaps(members: Bools, labels: Sequence[str]) -> None:
    """Raise if two groups (G, K) share an arm, unless one contains the other."""
    sizes = np.count_nonzero(members, axis=-1)
    for one, other in combinations(range(len(members)), 2):
        shared = np.count_nonzero(members[one] & members[other])
        if 0 < shared < min(sizes[one], sizes[other]):
            raise InvalidInput(
                f"cap_groups must be nested or disjoint; {labels[one]} and "
                f"{labels[other]} share {shared} of their arms"
            )


def feasible_ballots(ballots: Array, values: Array, limits: Limits) -> Array:
    """Return the ballots (…, N, K) within the bounds; a feasible ballot is unchanged.

    Each arm gets its floor. The rest goes to the arms of the ballot, as far as the caps
    allow, and the excess goes to the arms below their caps with the highest values (…,
    N, K). Tied arms share it, and an arm without a value (NaN) comes last. A ballot for
    the arms with the highest value becomes the feasible distribution with the highest
    expected value. A row of zeros (an expert without a vote) is unchanged.

    >>> limits = Limits(
    ...     np.zeros(3),
    ...     np.array([0.3, 1.0, 1.0]),
    ...     np.zeros((0, 3), dtype=np.bool_),
    ...     np.zeros(0),
    ...     np.ones(3, dtype=np.bool_),
    ... )
    >>> feasible_ballots(np.array([[1.0, 0, 0]]), np.array([[0.9, 0.2, 0.5]]), limits)
    array([[0.3, 0. , 0.7]])"""
    if kernels.compiled() is None and not limits.capped:
        above_floors = _above_floors(ballots, limits.low[..., None, :])
        if above_floors is not None:
            return above_floors
    filled, _ = _fill(ballots, values, limits)
    return filled


def _above_floors(ballots: Array, low: Array) -> Array | None:
    """Fast path for bounds that are only floors, in a fifth of the time of `_raise`.
    Return None unless every ballot is a distribution and violates a floor."""
    lift = np.maximum(ballots - low, 0.0)
    pace = sums(lift)
    rest = 1 - sums(low)
    lacks_floor = (ballots < low - FEASIBLE).any(axis=-1, keepdims=True)
    applies = lacks_floor & (pace >= rest) & (rest > ROUNDING)
    if not applies.all():
        return None
    return low + rest / pace * lift


def _fill(ballots: Array, values: Array, limits: Limits) -> tuple[Array, Array]:
    """Return the ballots (…, N, K) within the bounds, and the mass (…) that the bounds
    do not allow to assign."""
    compiled = kernels.compiled()
    if compiled is not None:
        bounds = (limits.low, limits.high, limits.members, limits.at_most)
        filled: tuple[Array, Array] = compiled.fill(
            ballots, values, bounds, (FEASIBLE, ROUNDING)
        )
        return filled
    each = _of_experts(limits)
    stays = ~ballots.any(axis=-1) | _within(ballots, each)
    if stays.all():
        return ballots, np.zeros(stays.shape[:-1])
    raised, rest = _raise(ballots, values, each)
    rest = np.where(stays, 0.0, rest)
    return np.where(stays[..., None], ballots, raised), rest.max(axis=-1)


def _of_experts(limits: Limits) -> Limits:
    """Return the limits with an additional axis for experts."""
    low = limits.low[..., None, :]
    high = limits.high[..., None, :]
    members = limits.members[..., None, :, :]
    at_most = limits.at_most[..., None, :]
    eligible = limits.eligible[..., None, :]
    return Limits(
        low,
        high,
        members,
        at_most,
        eligible,
    )


def _within(ballots: Array, limits: Limits) -> Bools:
    """Return which ballots (…, K) satisfy the bounds (…), up to rounding."""
    too_high = (ballots > limits.high + FEASIBLE).any(axis=-1)
    too_low = (ballots < limits.low - FEASIBLE).any(axis=-1)
    total = sums(ballots)[..., 0]
    missing = np.abs(total - 1) > FEASIBLE
    in_groups = _by_group(limits.members, ballots)
    excess = (in_groups > limits.at_most + FEASIBLE).any(axis=-1)
    within: Bools = ~(too_high | too_low | missing | excess)
    return within


def _raise(ballots: Array, values: Array, limits: Limits) -> tuple[Array, Array]:
    """Raise all arms (…, K) from their floors until they sum to 1. Return the result
    and the unassigned mass (…), which is ∞ if the floors exceed 1 or the cap of a
    group.

    First the arms of the ballot rise together, in proportion, then the best arms below
    their caps. Each pass lasts until the first arm or group is full, or the ballot is
    completely assigned. All arms together also form a group, whose cap is 1.
    """
    ranked = np.where(np.isnan(values), -np.inf, values)
    lift = np.maximum(ballots - limits.low, 0.0)
    shape = np.broadcast_shapes(lift.shape, limits.high.shape)
    members, at_most = _with_all_arms(limits)
    odds = np.broadcast_to(limits.low, shape)
    room = np.broadcast_to(limits.high - limits.low, shape)
    group_room = at_most - _by_group(members, limits.low)
    excessive = (group_room < -FEASIBLE).any(axis=-1)
    # Share of the ballot that is not yet assigned.
    unfollowed = np.ones((*shape[:-1], 1))
    while True:
        full = group_room <= ROUNDING
        is_in_full_group = (members & full[..., None]).any(axis=-2)
        open_to = (room > ROUNDING) & ~is_in_full_group
        voted = np.where(open_to & (unfollowed > 0), lift, 0.0)
        follows = voted.any(axis=-1, keepdims=True)
        top = np.where(open_to, ranked, -np.inf).max(axis=-1, keepdims=True)
        rates = np.where(follows, voted, open_to & (ranked == top))
        if not rates.any():
            return odds, np.where(excessive, np.inf, group_room[..., -1])
        group_rates = _by_group(members, rates)
        until_full = _times(room, rates)
        until_group = _times(group_room, group_rates)
        to_full_arm = until_full.min(axis=-1, keepdims=True)
        to_full_group = until_group.min(axis=-1, keepdims=True)
        step = np.minimum(
            to_full_arm,
            to_full_group,
        )
        step = np.where(follows, np.minimum(step, unfollowed), step)
        # An infinite step means that no propensity grows any more.
        step = np.where(step < np.inf, step, 0.0)
        rise = step * rates
        reached = until_full <= step
        raised = np.minimum(odds + rise, limits.high)
        odds = np.where(reached, limits.high, raised)
        room = np.where(reached, 0.0, room - rise)
        group_room = np.where(until_group <= step, 0.0, group_room - step * group_rates)
        unfollowed = np.where(follows, unfollowed - step, unfollowed)


def _with_all_arms(limits: Limits) -> tuple[Bools, Array]:
    """Append a group of all arms with cap 1 to the groups' members and caps."""
    *calls, _, n_arms = limits.members.shape
    all_arms = np.ones((*calls, 1, n_arms), dtype=np.bool_)
    members = np.concatenate([limits.members, all_arms], axis=-2)
    no_limit = np.ones((*calls, 1))
    at_most = np.concatenate([limits.at_most, no_limit], axis=-1)
    return members, at_most


def _times(room: Array, rates: Array) -> Array:
    """Return the time until each distance is used up at its rate, ∞ for a rate of 0."""
    shape = np.broadcast_shapes(room.shape, rates.shape)
    times = np.full(shape, np.inf)
    with np.errstate(over="ignore"):
        np.divide(room, rates, out=times, where=rates > 0)
    return times


def _by_group(members: Bools, values: Array) -> Array:
    """Return the sum of values (…, K) in each group (…, G)."""
    return sums(np.where(members, values[..., None, :], 0.0))[..., 0]
