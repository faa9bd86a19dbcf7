"""Feature maps of learners: plain numbers, or numbers with random Fourier features."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints, flat_rows, number, row_products, whole
from oddsmith.core.errors import InvalidInput

__all__ = ["Curves", "FeatureMap", "Plain"]


class FeatureMap(Protocol):
    """Maps numbers (…, d), whose squares sum to about 1, to features (…, size) with a
    leading 1. It has no state.

    The bank standardises numbers by running moments and divides them by one root, so
    that squares sum to 1 and one bandwidth fits any d and scale. The features of a row
    depend only on that row. The number of columns may grow: `first` is the initial
    number. If the further numbers are 0, the features are those of the initial numbers,
    followed by zeros.
    """

    @property
    def name(self) -> str:
        """Return text for the expert's name. It contains the settings that are not the
        default."""
        ...

    @property
    def n_waves(self) -> int:
        """Return the number of Fourier features, which follow the 1."""
        ...

    def size(self, n: int) -> int:
        """Return the number of features if the linear part has n numbers."""
        ...

    def __call__(self, z: Array, first: int, linear: Array | None = None) -> Array:
        """Return the features. The linear part consists of `linear` (…, n) if given,
        otherwise of the numbers z."""
        ...


@dataclass(frozen=True)
class Plain:
    """Feature map with a constant 1 and the numbers themselves. Numbers after the first
    `most` are added to earlier ones with random signs.

    >>> Plain()(np.array([0.6, 0.8]), 2)
    array([1. , 0.6, 0.8])
    >>> Plain(most=2)(np.array([0.6, 0.8, 0.0, 0.1]), 4).shape
    (3,)
    """

    most: int = 1024

    name = "linear"
    n_waves = 0

    def __post_init__(self) -> None:
        whole("most", self.most)

    def size(self, n: int) -> int:
        return 1 + min(n, self.most)

    def __call__(self, z: Array, first: int, linear: Array | None = None) -> Array:
        linear = z if linear is None else linear
        features = np.empty((*z.shape[:-1], self.size(linear.shape[-1])))
        features[..., 0] = 1.0
        features[..., 1:] = fold_numbers(linear, self.most)
        return features


@dataclass(frozen=True)
class Curves:
    """Feature map for a Gaussian kernel plus a linear one: a constant 1, cos(W z) and
    sin(W z), each divided by √(n/2), and the numbers themselves.

    The n/2 directions are as orthogonal as possible (Yu et al. 2016), each as long as a
    normal vector of standard deviation `scale`, so that inner products of waves tend to
    exp(-scale² |z - z'|²/2). The draws depend on `seed` and on the initial number of
    columns; each later column adds a normal number to the directions.

    >>> Curves(4)(np.zeros(2), 2)
    array([1.        , 0.70710678, 0.70710678, 0.        , 0.        ,
           0.        , 0.        ])
    """

    n: int = 128
    scale: float = 1.25
    seed: int = 0
    most: int = 1024

    def __post_init__(self) -> None:
        whole("n", self.n, low=2)
        if self.n % 2:
            raise InvalidInput(
                f"n must be an even number of at least 2; got {self.n!r}"
            )
        number("scale", self.scale, low=0, high=np.inf, open_low=True)
        whole("most", self.most)

    @property
    def name(self) -> str:
        if self.scale == Curves.scale:
            return "linear + curves"
        return f"linear + curves of scale {self.scale:g}"

    @property
    def n_waves(self) -> int:
        return self.n

    def size(self, n: int) -> int:
        return 1 + self.n + min(n, self.most)

    def __call__(self, z: Array, first: int, linear: Array | None = None) -> Array:
        if linear is None:
            linear = z
        half = self.n // 2
        directions = _directions(first, z.shape[-1], (self.n, self.scale, self.seed))
        features = np.empty((*z.shape[:-1], self.size(linear.shape[-1])))
        features[..., 1 + self.n :] = fold_numbers(linear, self.most)
        compiled = kernels.compiled()
        if compiled is not None and z.flags.c_contiguous:
            compiled.curves(flat_rows(z), directions, flat_rows(features))
            return features
        angles = row_products(z, directions)
        features[..., 0] = 1.0
        waves = features[..., 1 : 1 + self.n]
        np.cos(angles, out=waves[..., :half])
        np.sin(angles, out=waves[..., half:])
        waves *= np.sqrt(2 / self.n)
        return features


def fold_numbers(z: Array, most: int) -> Array:
    """Return the first `most` numbers (…, d). Further numbers are added to them with
    random signs.

    >>> fold_numbers(np.array([0.6, 0.8]), 2)
    array([0.6, 0.8])
    """
    if z.shape[-1] <= most:
        return z
    place, sign = fold_places(z.shape[-1], most)
    few = z[..., :most].copy()
    later = z[..., most:] * sign
    np.add.at(np.moveaxis(few, -1, 0), place, np.moveaxis(later, -1, 0))
    return few


@lru_cache(maxsize=64)
def fold_places(dim: int, most: int) -> tuple[Ints, Array]:
    """Map each number after the first `most` to a random position among the first
    `most` numbers and to a random sign. A larger `dim` does not change the results for
    earlier numbers."""
    later = dim - most
    places = np.random.default_rng([most, 0]).random(later) * most
    coins = np.random.default_rng([most, 1]).random(later)
    signs = np.where(coins < 0.5, -1.0, 1.0)
    return places.astype(np.int64), signs


@lru_cache(maxsize=64)
def _directions(first: int, dim: int, draws: tuple[int, float, int]) -> Array:
    """Return n/2 directions (dim, n/2). Blocks of `first` directions are orthogonal,
    and their lengths are distributed like those of normal vectors with standard
    deviation `scale`."""
    n, scale, seed = draws
    half = n // 2
    rng = np.random.default_rng([seed, first, n])
    parts = [np.zeros((0, half))]
    if first:
        blocks = list[Array]()
        for start in range(0, half, first):
            width = min(first, half - start)
            directions, _ = np.linalg.qr(rng.standard_normal((first, width)))
            blocks.append(directions * np.sqrt(rng.chisquare(first, width)))
        parts.append(np.concatenate(blocks, axis=1))
    for place in range(first, dim):
        later = np.random.default_rng([seed, n, place])
        parts.append(later.standard_normal((1, half)))
    return scale * np.concatenate(parts)
