"""Schedules: numbers that depend on the step, the number of the decision."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from oddsmith.core.arrays import Array, Ints, Real, number

__all__ = ["PowerSchedule", "Schedule"]


class Schedule(Protocol):
    """gamma as a function of the step (1, 2, …), which may be an array (…); values in
    [0, 1]."""

    def __call__(self, step: int | Ints) -> Real: ...


@dataclass(frozen=True)
class PowerSchedule:
    """min(cap, scale · step^-power), the anytime schedule of theory 3.8.

    >>> PowerSchedule(scale=2.0, power=1 / 3)(64)
    0.5
    """

    scale: float
    power: float = 1 / 3
    cap: float = 1.0

    def __post_init__(self) -> None:
        number("scale", self.scale, low=0, high=np.inf)
        number("power", self.power, low=0, high=np.inf)
        number("cap", self.cap, low=0, high=1)

    def __call__(self, step: int | Ints) -> Real:
        values: Array = np.minimum(
            self.cap, self.scale * np.asarray(step, dtype=np.float64) ** -self.power
        )
        return values if values.ndim else float(values)
