"""Feature maps of learners: numbers as they are, products of pairs, random Fourier features, several side by side."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np
import numpy.typing as npt

from oddsmith.arrays import Array, Ints, number, whole
from oddsmith.errors import InvalidInput

__all__ = ["FeatureMap", "Fourier", "Joined", "Plain", "Products"]


class FeatureMap(Protocol):
    """Features (…, size) of numbers (…, d) whose squares sum to about 1; no state of its own.

    The bank sees to that sum: it standardises by running moments and divides by the root of how many
    columns vary. So one bandwidth fits whatever d and scale, and the features' squares sum to about 1 too.
    """

    @property
    def name(self) -> str:
        """A word for the expert that uses it, and what is unusual about its settings."""
        ...

    def size(self, dim: int) -> int:
        """How many features d numbers become."""
        ...

    def __call__(self, z: Array) -> Array:
        """The features."""
        ...


@dataclass(frozen=True)
class Plain:
    """The numbers themselves; more than `most` of them are folded into `most` places with random signs.

    >>> Plain()(np.array([0.6, 0.8]))
    array([0.6, 0.8])
    >>> Plain(most=2)(np.array([0.6, 0.8, 0.0, 0.1])).shape
    (2,)
    """

    most: int = 1024

    name = "linear"

    def __post_init__(self) -> None:
        whole("most", self.most)

    def size(self, dim: int) -> int:
        return min(dim, self.most)

    def __call__(self, z: Array) -> Array:
        if z.shape[-1] <= self.most:
            return z
        place, sign = _places(z.shape[-1], self.most)
        folded: Array = np.zeros((*z.shape[:-1], self.most))
        np.add.at(np.moveaxis(folded, -1, 0), place, np.moveaxis(z * sign, -1, 0))
        return folded


@dataclass(frozen=True)
class Products:
    """z_i z_j for pairs i ≤ j: all of them, or `most` drawn at random.

    >>> Products()(np.array([0.6, 0.8]))
    array([0.36, 0.48, 0.64])
    """

    most: int = 256

    name = "pairs"

    def __post_init__(self) -> None:
        whole("most", self.most)

    def size(self, dim: int) -> int:
        return min(dim * (dim + 1) // 2, self.most)

    def __call__(self, z: Array) -> Array:
        rows, columns = _pairs(z.shape[-1], self.most)
        return z[..., rows] * z[..., columns]


@dataclass(frozen=True)
class Fourier:
    """cos(W z) and sin(W z) over √(n/2): ridge regression on them is kernel regression with a Gaussian kernel.

    The n/2 directions are orthogonal as far as they can be (Yu et al. 2016), each as long as a normal vector of
    standard deviation `scale`: inner products tend to exp(-scale² |z - z'|²/2). The draws belong to `seed` and to d.

    >>> Fourier(4)(np.zeros(3))
    array([0.70710678, 0.70710678, 0.        , 0.        ])
    """

    n: int = 128
    scale: float = 1.25
    seed: int = 0

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int) or self.n < 2 or self.n % 2:
            raise InvalidInput(f"n must be an even number of at least 2; got {self.n!r}")
        number("scale", self.scale, low=0, high=np.inf, open_low=True)

    @property
    def name(self) -> str:
        return "curves" if self.scale == Fourier.scale else f"curves of scale {self.scale:g}"

    def size(self, dim: int) -> int:
        return self.n

    def __call__(self, z: Array) -> Array:
        angles = z @ _directions(z.shape[-1], self.n, self.scale, self.seed)
        waves = np.empty((*angles.shape[:-1], self.n))
        np.cos(angles, out=waves[..., : self.n // 2])
        np.sin(angles, out=waves[..., self.n // 2 :])
        waves *= np.sqrt(2 / self.n)
        return waves


@dataclass(frozen=True)
class Joined:
    """Several maps side by side: a sum of their kernels.

    >>> Joined((Plain(), Products()))(np.array([0.6, 0.8]))
    array([0.6 , 0.8 , 0.36, 0.48, 0.64])
    """

    maps: tuple[FeatureMap, ...]

    def __post_init__(self) -> None:
        if not self.maps:
            raise InvalidInput("maps must not be empty; got none")

    @property
    def name(self) -> str:
        return " + ".join(m.name for m in self.maps)

    def size(self, dim: int) -> int:
        return sum(m.size(dim) for m in self.maps)

    def __call__(self, z: Array) -> Array:
        return np.concatenate([m(z) for m in self.maps], axis=-1)


@lru_cache(maxsize=64)
def _places(dim: int, most: int) -> tuple[Ints, Array]:
    """For each of `dim` numbers a place among `most`, and a sign, both at random."""
    rng = np.random.default_rng([dim, most])
    return np.asarray(rng.integers(0, most, dim)), rng.choice([-1.0, 1.0], dim)


@lru_cache(maxsize=64)
def _pairs(dim: int, most: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The pairs i ≤ j: all of them, or `most` at random."""
    rows, columns = np.triu_indices(dim)
    if len(rows) <= most:
        return rows, columns
    chosen = np.sort(np.random.default_rng([dim, most]).choice(len(rows), most, replace=False))
    return rows[chosen], columns[chosen]


@lru_cache(maxsize=64)
def _directions(dim: int, n: int, scale: float, seed: int) -> Array:
    """n/2 directions (dim, n/2), orthogonal in blocks of dim, as long as normal vectors of sd `scale` are."""
    rng, blocks = np.random.default_rng([seed, dim, n]), list[Array]()
    for start in range(0, n // 2, dim):
        width = min(dim, n // 2 - start)
        directions, _ = np.linalg.qr(rng.standard_normal((dim, width)))
        blocks.append(directions * np.sqrt(rng.chisquare(dim, width)))
    return scale * np.concatenate(blocks, axis=1)
