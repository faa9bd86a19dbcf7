"""Floors and caps in exact rationals: an oracle that shares nothing with `project`, and
random instances for it."""

from collections.abc import Iterator
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools

_UNIT = 1 << 1074  # every float in [0, 1] is a whole number of 2^-1074


class Instance(NamedTuple):
    """Odds (K,), floors and caps (numbers or (K,)), and the eligible arms (K,)."""

    odds: Array
    floors: Array
    caps: Array
    eligible: Bools


def exact(instance: Instance) -> list[Fraction]:
    """clip(λ p, floor, cap) with Σ = 1, each arm placed by itself: at its floor if Σ >=
    1 where λ p leaves the floor, at its cap if Σ <= 1 where λ p meets the cap; what is
    left is shared in proportion.
    """
    k = len(instance.odds)
    arms = [a for a in range(k) if instance.eligible[a]]
    low, high = (
        [_whole(np.broadcast_to(bound, k)[a]) for a in arms]
        for bound in (instance.floors, instance.caps)
    )
    high = [_UNIT] if len(arms) == 1 else high
    base = [_whole(instance.odds[a]) for a in arms]
    if sum(h if b else f for b, f, h in zip(base, low, high, strict=True)) < _UNIT:
        low = [h if b else f for b, f, h in zip(base, low, high, strict=True)]
        base = [0 if b else 1 for b in base]
    high = [h if b else f for b, f, h in zip(base, low, high, strict=True)]

    def reaches(bound: int, share: int) -> int:
        """The sign of Σ clip(λ p) - 1 at λ = bound / share."""
        total = sum(
            min(max(bound * b, f * share), h * share) if b else f * share
            for b, f, h in zip(base, low, high, strict=True)
        )
        return (total > _UNIT * share) - (total < _UNIT * share)

    fixed = {i: low[i] for i, b in enumerate(base) if not b or reaches(low[i], b) >= 0}
    fixed |= {
        i: high[i]
        for i, b in enumerate(base)
        if i not in fixed and reaches(high[i], b) <= 0
    }
    rest, total = (
        _UNIT - sum(fixed.values()),
        sum(b for i, b in enumerate(base) if i not in fixed),
    )
    found = [Fraction(0)] * k
    for i, arm in enumerate(arms):
        found[arm] = (
            Fraction(fixed[i] if i in fixed else Fraction(rest * base[i], total))
            / _UNIT
        )
    return found


def instances(seed: int, k: int, n: int) -> Iterator[Instance]:
    """`n` instances with k arms: odds from 1 to 1e-300, zeros, ties; loose, tight and
    equal bounds; eligible sets."""
    rng = np.random.default_rng([seed, k])
    for _ in range(n):
        odds = (
            rng.dirichlet(np.ones(k))
            if rng.random() < 0.2
            else 10 ** -rng.uniform(0, rng.choice([2, 30, 300]), k)
        )
        # ties
        odds = np.where(rng.random(k) < rng.choice([0, 0.3]), rng.choice(odds), odds)
        odds = np.where(rng.random(k) < rng.choice([0, 0.4]), 0.0, odds)
        odds[rng.integers(k)] += not odds.any()
        eligible = rng.random(k) < rng.choice([0.5, 1.0])
        eligible[rng.integers(k)] = True
        # a careless policy may leave mass elsewhere
        odds = np.where(eligible | (rng.random() < 0.1), odds, 0.0)
        odds[eligible.argmax()] += not odds.any()
        yield Instance(odds / odds.sum(), *_bounds(rng, k, eligible), eligible)


def _bounds(rng: np.random.Generator, k: int, eligible: Bools) -> tuple[Array, Array]:
    """Floors and caps that some distribution over the eligible arms meets, to 1e-15."""
    floor_slack, cap_slack = rng.choice([0.0, 1e-17, 1e-9, 0.1, 0.9, 1.0], 2)
    if rng.random() < 0.3:
        even = 1 / eligible.sum()
        return np.asarray(even * (1 - floor_slack)), np.asarray(
            min(1.0, even + cap_slack * rng.random())
        )
    inside = np.where(eligible, rng.dirichlet(np.full(k, rng.choice([0.05, 1.0]))), 0.0)
    inside = inside / inside.sum() if inside.sum() > 0 else eligible / eligible.sum()
    floors = inside * (1 - floor_slack * rng.random(k))
    caps = inside + (1 - inside) * cap_slack * rng.random(k) ** rng.choice([1, 20])
    other = rng.random(2)  # bounds of arms that are not eligible do not count
    return np.where(eligible, floors, other.min()), np.where(
        eligible, np.minimum(caps, 1.0), other.max()
    )


def _whole(value: Any) -> int:
    number = Fraction(float(value)) * _UNIT
    return number.numerator  # the denominator is 1


def worst(found: Array, instance: Instance) -> float:
    """The largest difference to the exact odds; nothing may be NaN, beyond a bound, or
    on an arm not eligible."""
    k = len(found)
    floors, caps = (
        np.broadcast_to(instance.floors, k),
        np.broadcast_to(instance.caps, k),
    )
    caps = np.ones(k) if instance.eligible.sum() == 1 else caps
    kept = (found >= floors) & (found <= caps)
    assert np.where(instance.eligible, kept, found == 0).all(), (instance, found)
    assert abs(found.sum() - 1) <= 1e-12, (instance, found)
    return max(
        abs(float(Fraction(value) - truth))
        for value, truth in zip(found.tolist(), exact(instance), strict=True)
    )
