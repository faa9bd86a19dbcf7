"""Rewards: conversion from a user's units to [0, 1] and back, and the paper's
randomised rounding."""

from dataclasses import dataclass
from typing import overload

import numpy as np

from oddsmith.core.arrays import Array, Real, finite, number
from oddsmith.core.errors import InvalidInput

__all__ = ["RewardScale", "binarize"]

_LARGEST = 1e100  # limit for values, so that squares and their sums do not overflow


@dataclass(frozen=True)
class RewardScale:
    """The affine map between a user's units [low, high] and rewards in [0, 1].

    >>> money = RewardScale(low=-5.0, high=15.0)
    >>> money.reward(10.0)
    0.75
    >>> money.value(0.75)
    10.0
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        number("low", self.low, low=-_LARGEST, high=_LARGEST)
        number("high", self.high, low=-_LARGEST, high=_LARGEST)
        if not self.low < self.high:
            raise InvalidInput(
                f"low must be below high; got low={self.low!r}, high={self.high!r}"
            )

    @overload
    def reward(self, value: float) -> float: ...
    @overload
    def reward(self, value: Array) -> Array: ...
    def reward(self, value: Real) -> Real:
        """Return (value - low) / (high - low); raise for a value outside [low,
        high]."""
        values = finite("value", value)
        least = float(values.min())
        largest = float(values.max())
        if least < self.low or largest > self.high:
            worst = least if least < self.low else largest
            raise InvalidInput(
                f"value must be in [{self.low:g}, {self.high:g}]; got {worst:g}"
            )
        rewards = (values - self.low) / (self.high - self.low)
        return _like(value, rewards)

    @overload
    def value(self, reward: float) -> float: ...
    @overload
    def value(self, reward: Array) -> Array: ...
    def value(self, reward: Real) -> Real:
        """Return low + reward · (high - low), to report in the user's units."""
        rewards = finite("reward", reward)
        values = self.low + rewards * (self.high - self.low)
        return _like(reward, values)


def binarize(reward: Real, uniform: Real) -> Real:
    """Return 1 if uniform < reward, otherwise 0: the paper's randomised rounding (Li
    2013, Section 2).

    It keeps the mean, and so the regret, but adds noise: oddsmith uses rewards in [0,
    1] without rounding.

    >>> binarize(0.7, 0.65), binarize(0.7, 0.75)
    (1.0, 0.0)
    """
    rewards = _probabilities("reward", reward)
    uniforms = _probabilities("uniform", uniform)
    ones = uniforms < rewards
    return _like(reward, ones.astype(np.float64))


def _like(given: Real, array: Array) -> Real:
    """Return a float if a number was given, else the array."""
    if isinstance(given, np.ndarray) or array.ndim:
        return array
    return float(array)


def _probabilities(what: str, given: Real) -> Array:
    """Return numbers in [0, 1]; raise for others."""
    values = finite(what, given)
    least = float(values.min())
    largest = float(values.max())
    if least < 0 or largest > 1:
        raise InvalidInput(f"{what} must be in [0, 1]; got {least:g} to {largest:g}")
    return values
