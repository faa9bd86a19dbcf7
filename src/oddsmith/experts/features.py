"""Feature maps of learners: numbers as they are, products of pairs, random Fourier features, several side by side."""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
import numpy.typing as npt

from oddsmith.arrays import Array, Ints, number, whole
from oddsmith.errors import InvalidInput

__all__ = ["FeatureMap", "Fourier", "Joined", "Plain", "Products"]


class FeatureMap(Protocol):
    """Features (…, size) of numbers (…, d) whose squares sum to about 1; no state of its own.

    That sum is found from the data: the bank standardises by running moments and divides by the root of how many
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

    def __post_init__(self) -> None:
        whole("most", self.most)

    @property
    def name(self) -> str:
        return "linear"

    def size(self, dim: int) -> int:
        return min(dim, self.most)

    @cached_property
    def _drawn(self) -> dict[int, tuple[Ints, Array]]:
        return {}

    def __call__(self, z: Array) -> Array:
        dim = z.shape[-1]
        if dim <= self.most:
            return z
        if dim not in self._drawn:
            rng = np.random.default_rng([dim, self.most])
            self._drawn[dim] = np.asarray(rng.integers(0, self.most, dim)), rng.choice([-1.0, 1.0], dim)
        place, sign = self._drawn[dim]
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

    def __post_init__(self) -> None:
        whole("most", self.most)

    @property
    def name(self) -> str:
        return "pairs"

    def size(self, dim: int) -> int:
        return min(dim * (dim + 1) // 2, self.most)

    @cached_property
    def _drawn(self) -> dict[int, tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]]:
        return {}

    def __call__(self, z: Array) -> Array:
        dim = z.shape[-1]
        if dim not in self._drawn:
            rows, columns = self._drawn[dim] = np.triu_indices(dim)
            if len(rows) > self.most:
                kept = np.sort(np.random.default_rng([dim, self.most]).choice(len(rows), self.most, replace=False))
                self._drawn[dim] = rows[kept], columns[kept]
        rows, columns = self._drawn[dim]
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

    @cached_property
    def _drawn(self) -> dict[int, Array]:
        return {}

    def __call__(self, z: Array) -> Array:
        dim = z.shape[-1]
        if dim not in self._drawn:
            self._drawn[dim] = self.scale * _orthogonal(
                dim, self.n // 2, np.random.default_rng([self.seed, dim, self.n])
            )
        angles = z @ self._drawn[dim]
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


def _orthogonal(dim: int, n: int, rng: np.random.Generator) -> Array:
    """n directions (dim, n), orthogonal in blocks of dim, as long as normal vectors are."""
    blocks: list[Array] = []
    for start in range(0, n, dim):
        width = min(dim, n - start)
        directions, _ = np.linalg.qr(rng.standard_normal((dim, width)))
        blocks.append(directions * np.sqrt(rng.chisquare(dim, width)))
    return np.concatenate(blocks, axis=1)
