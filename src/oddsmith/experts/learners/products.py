"""Interactions of context and arm features."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Ints, flat_rows
from oddsmith.experts.learners.features import fold_places
from oddsmith.experts.learners.moments import RunningMoments

__all__ = ["Layout", "MOST_PRODUCTS", "crossed", "layout_of", "linear_part"]

MOST_PRODUCTS = 128
"""Number of products with a feature of their own. Each further product is added to the
feature of another one, with a random sign."""
_LEAST = 0.04  # minimum divisor, as a share of the sum of variances


class Layout(NamedTuple):
    """Positions of the linear part and of the products in the feature vector.

    Features are in the order of learning: each column (d) adds its numbers, then its
    products with the earlier columns of the other kind. So further columns only append
    features. `linear` (l) contains the positions of the linear part, `first` and
    `second` (p) the columns of each product, and `places` (p) and `signs` (p) the
    position and sign with which it is added. `numbers` (d) and `apart` (f) are
    positions in the linear part: of the columns, and of the arm's distances from the
    mean over the arms.
    """

    numbers: Ints
    apart: Ints
    linear: Ints
    first: Ints
    second: Ints
    places: Ints
    signs: Array
    size: int


def layout_of(is_own: Bools) -> Layout:
    """Return the layout for d columns; `is_own` (d) marks the columns of the arm.

    >>> layout_of(np.array([False, True, True])).places
    array([3, 6])
    """
    return _layout(is_own.tobytes())


@lru_cache(maxsize=256)
def _layout(is_own_bytes: bytes) -> Layout:
    is_own = np.frombuffer(is_own_bytes, np.bool_)
    own = np.flatnonzero(is_own)
    shared = np.flatnonzero(~is_own)
    grid = np.meshgrid(own, shared, indexing="ij")
    pairs = np.stack(grid, axis=-1).reshape(-1, 2)
    later = pairs.max(axis=-1)
    earlier = pairs.min(axis=-1)
    order = np.lexsort((earlier, later))
    later = later[order]
    earlier = earlier[order]
    kept = min(len(order), MOST_PRODUCTS)
    numbers = 1 + is_own  # number of values per column in the linear part
    before = np.cumsum(numbers) - numbers
    products_before = np.minimum(np.searchsorted(later, np.arange(len(is_own))), kept)
    starts = before + products_before
    own_twice = np.stack([starts, starts + 1], axis=-1)
    always = np.ones(len(is_own), np.bool_)
    wanted = np.stack([always, is_own], axis=-1)
    places = np.arange(kept) + (before + numbers)[later[:kept]]
    signs = np.ones(len(order))
    if len(order) > kept:
        others, other_signs = fold_places(len(order), kept)
        places = np.append(places, places[others])
        signs[kept:] = other_signs
    size = int(numbers.sum()) + kept
    apart = before[is_own] + 1
    return Layout(before, apart, own_twice[wanted], later, earlier, places, signs, size)


def linear_part(is_own: Bools, z: Array, apart: Array) -> Array:
    """Return the linear part (…, l) of standardised numbers (…, d): each number, and
    behind one of the arm its distance `apart` (…, f) from the mean over the arms.

    >>> linear_part(np.array([False, True]), np.array([1.0, 2.0]), np.array([3.0]))
    array([1., 2., 3.])
    """
    layout = layout_of(is_own)
    linear = np.empty((*z.shape[:-1], len(layout.linear)))
    linear[..., layout.numbers] = z
    linear[..., layout.apart] = apart
    return linear


def crossed(
    moments: RunningMoments,
    is_category: Bools,
    is_own: Bools,
    z: Array,
    linear: Array,
) -> Array:
    """Return the linear part (…, l) and the products of standardised numbers (…, d),
    each at its position (…, size)."""
    layout = layout_of(is_own)
    features = np.zeros((*z.shape[:-1], layout.size))
    features[..., layout.linear] = linear
    compiled = kernels.compiled()
    if compiled is not None and z.flags.c_contiguous:
        compiled.add_products(
            moments.counts,
            moments.squares,
            is_category,
            is_own,
            flat_rows(z),
            layout.first,
            layout.second,
            layout.places,
            layout.signs,
            flat_rows(features),
        )
        return features
    products = z[..., layout.first] * z[..., layout.second]
    products *= _scale(moments, is_category, is_own) * layout.signs
    by_feature = np.moveaxis(features, -1, 0)
    np.add.at(by_feature, layout.places, np.moveaxis(products, -1, 0))
    return features


def _scale(moments: RunningMoments, is_category: Bools, is_own: Bools) -> float:
    """Return the factor that makes the squares of all products sum to about 1.

    The squares of standardised numbers sum to 1 over a row: to s over the columns of
    the context, and to 1 - s over those of the arm. The factor is 1/sqrt(s (1 - s)).
    """
    variance = moments.squares / np.maximum(moments.counts, 1.0)
    weight = np.where(is_category, variance, variance > 0)
    own = float(weight[is_own].sum())
    shared = float(weight[~is_own].sum())
    total = max(own + shared, _LEAST)
    product = max(own, _LEAST) * max(shared, _LEAST)
    return total / float(np.sqrt(product))
