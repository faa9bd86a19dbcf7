"""Feature maps of learners: standardised numbers as they are, and random Fourier features for curved worlds."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np

from oddsmith.arrays import Array, number
from oddsmith.errors import InvalidInput

__all__ = ["FeatureMap", "Fourier", "Plain"]


class FeatureMap(Protocol):
    """Features (…, size) of standardised numbers (…, d); no state of its own."""

    @property
    def name(self) -> str:
        """A short name for the expert that uses it."""
        ...

    def size(self, dim: int) -> int:
        """How many features d numbers become."""
        ...

    def __call__(self, z: Array) -> Array:
        """The features; their squared norm is about 2, whatever d."""
        ...


@dataclass(frozen=True)
class Plain:
    """z/√d and a constant.

    >>> Plain()(np.array([3.0, 4.0, 0.0, 0.0]))
    array([1.5, 2. , 0. , 0. , 1. ])
    """

    name: str = "linear"

    def size(self, dim: int) -> int:
        return dim + 1

    def __call__(self, z: Array) -> Array:
        return np.concatenate([z / np.sqrt(z.shape[-1]), np.ones((*z.shape[:-1], 1))], axis=-1)


@dataclass(frozen=True)
class Fourier:
    """√(2/n) cos(W z + b) and a constant: ridge regression on them is kernel regression with a Gaussian kernel.

    W is normal with standard deviation `scale`/√d: on standardised numbers, whose distances are about √(2d), that is
    a bandwidth of √d/scale. The draws belong to `seed` and to d.

    >>> Fourier(4)(np.zeros(3)).shape
    (5,)
    """

    n: int = 128
    scale: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 1:
            raise InvalidInput(f"n must be a whole number of at least 1; got {self.n!r}")
        number("scale", self.scale, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return f"fourier {self.scale:g}"

    def size(self, dim: int) -> int:
        return self.n + 1

    @cached_property
    def _drawn(self) -> dict[int, tuple[Array, Array]]:
        return {}

    def __call__(self, z: Array) -> Array:
        dim = z.shape[-1]
        if dim not in self._drawn:
            rng = np.random.default_rng([self.seed, dim, self.n])
            directions = rng.standard_normal((dim, self.n)) * (self.scale / np.sqrt(dim))
            self._drawn[dim] = directions, rng.uniform(0, 2 * np.pi, self.n)
        directions, shift = self._drawn[dim]
        waves = np.cos(z @ directions + shift) * np.sqrt(2 / self.n)
        return np.concatenate([waves, np.ones((*z.shape[:-1], 1))], axis=-1)
