"""Feature maps of learners: numbers as they are, or beside random Fourier features of
them."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Protocol

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Ints, flat_rows, number, row_products, whole
from oddsmith.core.errors import InvalidInput

__all__ = ["Curves", "FeatureMap", "Plain"]


class FeatureMap(Protocol):
    """Features (…, size) of numbers (…, d) whose squares sum to about 1, a 1 in front;
    no state of its own.

    The bank sees to that sum: it standardises by running moments and divides by the
    root of how much varies. So one bandwidth fits whatever d and scale. What a row
    gives is a function of it alone. Numbers may become more: `first` is how many there
    were at first, and where later ones are 0 the features are those of fewer, with
    zeros behind them.
    """

    @property
    def name(self) -> str:
        """A word for the expert that uses it, and what is unusual about its
        settings."""
        ...

    @property
    def n_waves(self) -> int:
        """How many of the features, those behind the 1, are waves."""
        ...

    def size(self, n: int) -> int:
        """How many features there are with n numbers in the linear part."""
        ...

    def __call__(self, z: Array, first: int, linear: Array | None = None) -> Array:
        """The features; the linear part is of `linear` (…, n), or of the numbers
        themselves."""
        ...


@dataclass(frozen=True)
class Plain:
    """1 and the numbers; those beyond `most` are added to places among them with random
    signs.

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
        features[..., 1:] = folded(linear, self.most)
        return features


@dataclass(frozen=True)
class Curves:
    """1, cos(W z) and sin(W z) over √(n/2), and the numbers: a sum of a Gaussian kernel
    and a linear one.

    The n/2 directions are orthogonal as far as they can be (Yu et al. 2016), each as
    long as a normal vector of standard deviation `scale`: inner products of waves tend
    to exp(-scale² |z - z'|²/2). The draws belong to `seed` and to how many numbers
    there were at first; for each later one, directions gain a normal number.

    >>> Curves(4)(np.zeros(2), 2)
    array([1.        , 0.70710678, 0.70710678, 0.        , 0.        ,
           0.        , 0.        ])
    """

    n: int = 128
    scale: float = 1.25
    seed: int = 0
    most: int = 1024

    def __post_init__(self) -> None:
        if (
            isinstance(self.n, bool)
            or not isinstance(self.n, int)
            or self.n < 2
            or self.n % 2
        ):
            raise InvalidInput(
                f"n must be an even number of at least 2; got {self.n!r}"
            )
        number("scale", self.scale, low=0, high=np.inf, open_low=True)
        whole("most", self.most)

    @property
    def name(self) -> str:
        return (
            "linear + curves"
            if self.scale == Curves.scale
            else f"linear + curves of scale {self.scale:g}"
        )

    @property
    def n_waves(self) -> int:
        return self.n

    def size(self, n: int) -> int:
        return 1 + self.n + min(n, self.most)

    def __call__(self, z: Array, first: int, linear: Array | None = None) -> Array:
        linear, half = z if linear is None else linear, self.n // 2
        directions = _directions(first, z.shape[-1], (self.n, self.scale, self.seed))
        features = np.empty((*z.shape[:-1], self.size(linear.shape[-1])))
        features[..., 1 + self.n :] = folded(linear, self.most)
        compiled = kernels.compiled()
        if compiled is not None and z.flags.c_contiguous:
            compiled.curves(flat_rows(z), directions, flat_rows(features))
            return features
        angles = row_products(z, directions)
        features[..., 0] = 1.0
        np.cos(angles, out=features[..., 1 : 1 + half])
        np.sin(angles, out=features[..., 1 + half : 1 + self.n])
        features[..., 1 : 1 + self.n] *= np.sqrt(2 / self.n)
        return features


def folded(z: Array, most: int) -> Array:
    """The numbers (…, d) themselves; those beyond `most` are added to others with
    random signs.

    >>> folded(np.array([0.6, 0.8]), 2)
    array([0.6, 0.8])
    """
    if z.shape[-1] <= most:
        return z
    place, sign = fold_places(z.shape[-1], most)
    few = z[..., :most].copy()
    np.add.at(np.moveaxis(few, -1, 0), place, np.moveaxis(z[..., most:] * sign, -1, 0))
    return few


@lru_cache(maxsize=64)
def fold_places(dim: int, most: int) -> tuple[Ints, Array]:
    """For each number beyond `most` a place among them, and a sign, both at random; the
    same for more numbers."""
    later = dim - most
    places = np.random.default_rng([most, 0]).random(later) * most
    return places.astype(np.int64), np.where(
        np.random.default_rng([most, 1]).random(later) < 0.5, -1.0, 1.0
    )


@lru_cache(maxsize=64)
def _directions(first: int, dim: int, draws: tuple[int, float, int]) -> Array:
    """n/2 directions (dim, n/2), orthogonal in blocks of `first` numbers, as long as
    normal vectors of sd `scale`."""
    n, scale, seed = draws
    rng, blocks = np.random.default_rng([seed, first, n]), list[Array]()
    for start in range(0, n // 2, max(first, 1)):
        width = min(first, n // 2 - start)
        directions, _ = np.linalg.qr(rng.standard_normal((first, width)))
        blocks.append(
            directions * np.sqrt(rng.chisquare(first, width))
            if first
            else np.zeros((0, n // 2))
        )
    later = [
        np.random.default_rng([seed, n, place]).standard_normal(n // 2)
        for place in range(first, dim)
    ]
    return scale * np.concatenate(
        [np.concatenate(blocks, axis=1)[:, : n // 2], *(row[None] for row in later)]
    )
