"""Fallback: the arm that the caller shows where the service does not answer."""

import secrets
from collections.abc import Collection, Mapping
from math import isclose
from typing import NamedTuple

from oddsmith.arrays import number
from oddsmith.errors import InvalidInput

__all__ = ["DOWN", "Fallback", "read_fallback"]

DOWN = frozenset({0, 502, 503, 504, 507})
"""Statuses of a service that does not answer; 0 is no answer at all."""


class Fallback(NamedTuple):
    """An arm that was drawn from these odds."""

    arm: str
    odds: dict[str, float]


def read_fallback(fallback: str | Mapping[str, float], allowed: Collection[str] | None) -> Fallback:
    """The arm named, with odds 1; or one drawn from odds, which are kept. Other arms than those allowed are refused.

    >>> read_fallback("sports", ["sports", "tech"])
    Fallback(arm='sports', odds={'sports': 1.0})
    """
    given = {fallback: 1.0} if isinstance(fallback, str) else fallback
    if not isinstance(given, Mapping) or not given or not all(isinstance(arm, str) and arm for arm in given):
        raise InvalidInput(f"fallback must be an arm, or a dict of arms to their odds; got {fallback!r:.60}")
    odds = {arm: number(f"fallback {arm!r:.40}", share, low=0, high=1) for arm, share in given.items()}
    if not isclose(total := sum(odds.values()), 1.0, rel_tol=0, abs_tol=1e-9):
        raise InvalidInput(f"odds of fallback must sum to 1; got {total:.6g}")
    strange = [] if allowed is None else [arm for arm, share in odds.items() if share and arm not in allowed]
    if strange:
        raise InvalidInput(f"fallback must be an arm of this call, eligible in it; got {strange[0]!r:.60}")
    return Fallback(secrets.SystemRandom().choices(list(odds), list(odds.values()))[0], odds)
