"""Ballots within floors, caps and caps of groups.

Groups of arms are nested or disjoint. The distributions q with

    floor_a <= q_a <= cap_a,   Σ_{a in g} q_a <= at_most_g,   Σ_a q_a = 1

are then the bases of a polymatroid, moved by the floors: x = q - floor has the laminar
constraints x(g) <= at_most_g - floor(g). On such a set the greedy algorithm is optimal
(Edmonds 1970): raise the arm of the highest value until its cap, or the cap of one of
its groups, stops it, then the next.

Proof sketch. Let p be feasible, q the greedy result, and a the first arm in order of
value where they differ: p_a < q_a, as q_a is the most that the arms before it allow.
Raising p_a breaks at most bounds of groups that contain a. Let g be the smallest of
them that is full in p (all arms, if none is). Since p(g) >= q(g), some arm b in g has
p_b > q_b, and comes after a. Moving a little mass from b to a stays within all bounds,
does not lower the expected value and brings p closer to q. So q is optimal.

The bounds are the same for all experts and the set is convex: a mixture of feasible
ballots is feasible.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from oddsmith.core.arrays import Array, Bools
from oddsmith.core.errors import Infeasible, InvalidInput
from oddsmith.policies.parts.projection import FEASIBLE, check_feasible, sums

__all__ = ["Limits", "feasible_ballots", "limits_of", "refuse_overlaps"]

# what is left of a bound, or of 1, below which it counts as used up
_ROUNDING = 1e-14


@dataclass(frozen=True, eq=False)
class Limits:
    """The bounds of one call over its eligible arms, or of a batch of calls.

    `low` and `high` (…, K) bound the arms, both 0 where an arm is not eligible;
    `at_most` (…, G) bounds the groups whose arms `members` (…, G, K) marks. `labels`
    name the groups.
    """

    low: Array
    high: Array
    members: Bools
    at_most: Array
    eligible: Bools
    labels: Sequence[str] = ()

    @cached_property
    def uniform(self) -> Array:
        """The feasible distribution (…, K) that is closest to uniform in total
        variation; what caps displace is shared equally as far as bounds allow.

        Raises `Infeasible`, naming the bounds, where no distribution is feasible.
        """
        self._check_floors()
        n_arms = np.add.reduce(self.eligible, axis=-1, keepdims=True)
        even = self.eligible / n_arms
        filled, rest = _fill(_of_experts(self), even[..., None, :], np.zeros(1))
        if (rest > FEASIBLE).any():
            self._refuse(1 - rest[..., 0, 0])
        inside = self._inside(even[..., None, :])
        return np.where(inside[..., None], even[..., None, :], filled)[..., 0, :]

    @cached_property
    def capped(self) -> bool:
        """Whether there is a cap on an eligible arm or on a group."""
        below_one = self.eligible & (self.high < 1)
        return bool(self.at_most.shape[-1] or below_one.any())

    def clip(self, propensities: Array) -> Array:
        """The propensities without the rounding that goes beyond an arm's bound."""
        return np.minimum(np.maximum(propensities, self.low), self.high)

    def _inside(self, ballots: Array) -> Bools:
        """Which ballots (…, N, K) are within the bounds (…, N), up to rounding."""
        limits = _of_experts(self)
        beyond = (ballots < limits.low - FEASIBLE) | (ballots > limits.high + FEASIBLE)
        inside = ~beyond.any(axis=-1)
        inside &= np.abs(sums(ballots)[..., 0] - 1) <= FEASIBLE
        if limits.at_most.shape[-1]:
            by_group = _by_group(limits.members, ballots)
            inside &= (by_group <= limits.at_most + FEASIBLE).all(axis=-1)
        return inside

    def _check_floors(self) -> None:
        check_feasible(self.low, self.high, self.eligible)
        floors = _by_group(self.members, self.low)
        above = floors > self.at_most + FEASIBLE
        if above.any():
            first = tuple(np.argwhere(above)[0])
            cap = np.broadcast_to(self.at_most, floors.shape)[first]
            raise Infeasible(
                f"floors in {self.labels[first[-1]]} must sum to at most its cap "
                f"{cap:.6g}; got {floors[first]:.6g} over the eligible arms: lower the "
                "floors or raise at_most"
            )

    def _refuse(self, carried: Array) -> None:
        first = tuple(np.argwhere(carried < 1 - FEASIBLE)[0])
        raise Infeasible(
            "caps must sum to at least 1 over the eligible arms; with "
            f"{', '.join(self.labels)} they carry {carried[first]:.6g}: raise caps or "
            "at_most, or offer arms of other groups"
        )


def limits_of(
    low: Array,
    high: Array,
    members: Bools,
    at_most: Array,
    eligible: Bools,
    labels: Sequence[str] = (),
) -> Limits:
    """The bounds over the eligible arms (…, K).

    A cap binds while another eligible arm can take what it leaves: the only eligible
    arm has no cap, and neither has a group that contains all eligible arms.
    """
    alone = np.add.reduce(eligible, axis=-1, keepdims=True) == 1
    covers = (members | ~eligible[..., None, :]).all(axis=-1)
    return Limits(
        np.where(eligible, low, 0.0),
        np.where(eligible, np.where(alone, 1.0, high), 0.0),
        members & eligible[..., None, :],
        np.where(covers, 1.0, at_most),
        eligible,
        labels,
    )


def refuse_overlaps(members: Bools, labels: Sequence[str]) -> None:
    """Refuse groups (G, K) of which two share an arm and neither contains the other."""
    for one, other in combinations(range(len(members)), 2):
        shared = np.count_nonzero(members[one] & members[other])
        smaller = min(np.count_nonzero(members[i]) for i in (one, other))
        if 0 < shared < smaller:
            raise InvalidInput(
                f"cap_groups must be nested or disjoint; {labels[one]} and "
                f"{labels[other]} share {shared} of their arms"
            )


def feasible_ballots(ballots: Array, values: Array, limits: Limits) -> Array:
    """The ballots (…, N, K) within the bounds, those that are within them as they are.

    Each arm gets its floor. The rest goes where the ballot puts it, as far as the caps
    allow, and what they displace goes to the arms with room that have the highest
    values (…, N, K); ties share, and an arm without a value (NaN) comes last. A ballot
    for the arms of the highest value becomes the feasible distribution with the highest
    expected value. An expert without a vote (a row of 0) has none.

    >>> limits = limits_of(
    ...     np.zeros(3),
    ...     np.array([0.3, 1.0, 1.0]),
    ...     np.zeros((0, 3), dtype=np.bool_),
    ...     np.zeros(0),
    ...     np.ones(3, dtype=np.bool_),
    ... )
    >>> feasible_ballots(np.array([[1.0, 0, 0]]), np.array([[0.9, 0.2, 0.5]]), limits)
    array([[0.3, 0. , 0.7]])
    """
    if not limits.capped:
        above_floors = _above_floors(ballots, limits.low[..., None, :])
        if above_floors is not None:
            return above_floors
    uncast = ~ballots.any(axis=-1)
    fixed = uncast | limits._inside(ballots)
    if fixed.all():
        return ballots
    ranked = np.where(np.isnan(values), -np.inf, values)
    filled, _ = _fill(_of_experts(limits), ballots, ranked)
    return np.where(fixed[..., None], ballots, filled)


def _above_floors(ballots: Array, low: Array) -> Array | None:
    """The only pass of `_fill` where there are floors alone, in a fifth of the time;
    None if a ballot is within the bounds, or is no distribution."""
    lift = np.maximum(ballots - low, 0.0)
    pace = sums(lift)
    rest = 1 - sums(low)
    if not ((pace > rest + FEASIBLE) & (rest > _ROUNDING)).all():
        return None
    return low + rest / pace * lift


def _of_experts(limits: Limits) -> Limits:
    """The limits with an axis for experts before the arms and groups."""
    return Limits(
        limits.low[..., None, :],
        limits.high[..., None, :],
        limits.members[..., None, :, :],
        limits.at_most[..., None, :],
        limits.eligible[..., None, :],
        limits.labels,
    )


def _fill(limits: Limits, ballots: Array, values: Array) -> tuple[Array, Array]:
    """Raise all arms (…, K) from their floors until the odds sum to 1; return them and
    what is left of 1 (…, 1).

    All arms that are raised rise together, until the first arm or group is full: at
    first those that the ballot raises, in proportion, then the best ones with room.
    Each pass closes an arm, a group, the ballot or the row.
    """
    low, high, members = limits.low, limits.high, limits.members
    lift = np.maximum(ballots - low, 0.0)
    shape = np.broadcast_shapes(lift.shape, values.shape, high.shape)
    odds = np.broadcast_to(low, shape)
    room = np.broadcast_to(high - low, shape)
    group_room = limits.at_most - _by_group(members, low)
    rest = np.broadcast_to(1 - sums(low), (*shape[:-1], 1))
    uncast = np.ones_like(rest)  # the part of the ballot that is still to be followed
    while True:
        full = (group_room <= _ROUNDING)[..., None]
        open_to = (room > _ROUNDING) & ~(members & full).any(axis=-2)
        voted = np.where(open_to & (uncast > 0), lift, 0.0)
        follows = voted.any(axis=-1, keepdims=True)
        top = np.where(open_to, values, -np.inf).max(axis=-1, keepdims=True)
        rates = np.where(follows, voted, open_to & (values == top))
        pace = sums(rates)
        going = (rest > _ROUNDING) & (pace > 0)
        if not going.any():
            return odds, rest
        group_pace = _by_group(members, rates)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            until_full = np.where(rates > 0, room / rates, np.inf)
            until_group = np.where(group_pace > 0, group_room / group_pace, np.inf)
            until_done = np.where(going, rest / pace, 0.0)
        step = np.minimum(until_done, until_full.min(axis=-1, keepdims=True))
        step = np.minimum(step, until_group.min(axis=-1, keepdims=True, initial=np.inf))
        step = np.where(follows, np.minimum(step, uncast), step)
        step = np.where(going, step, 0.0)
        reached = going & (until_full <= step)
        rise = step * rates
        odds = np.where(reached, high, np.minimum(odds + rise, high))
        room = np.where(reached, 0.0, room - rise)
        group_room = np.where(
            going & (until_group <= step), 0.0, group_room - step * group_pace
        )
        rest = np.where(until_done <= step, 0.0, rest - step * pace)
        uncast = np.where(follows, uncast - step, uncast)


def _by_group(members: Bools, values: Array) -> Array:
    """The sum of values (…, K) in each group (…, G)."""
    return sums(np.where(members, values[..., None, :], 0.0))[..., 0]
