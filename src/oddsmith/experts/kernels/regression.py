"""Compiled kernels (numba) of the learners' regressions: features, posteriors of arms
and rows, rank-one updates.

Covariances are packed lower triangles, row by row. The order of sums may differ from
numpy's, so results agree up to rounding.
"""

from math import cos, log, log1p, sin, sqrt

import numpy as np
from numba import njit

from oddsmith.core.arrays import Array, Bools, Ints

__all__ = [
    "add_products",
    "add_row",
    "believe_arms",
    "believe_rows",
    "curves",
    "learn_both",
    "learn_row",
    "standardise",
    "subtract_sums",
]

# Fast-math flags: sums may be reordered for vectorisation, but NaN and infinity remain
# valid.
_SUMS = {"reassoc", "contract", "nsz"}


@njit(cache=True, error_model="numpy", fastmath=_SUMS)  # type: ignore[untyped-decorator]
def curves(z: Array, directions: Array, features: Array) -> None:
    """Fill the features (R, D) of `Curves` for rows (R, d) without the linear part: 1,
    cosines, sines."""
    dim, half = directions.shape
    scale = 1 / sqrt(half)
    angles = np.empty(half)
    for r in range(z.shape[0]):
        angles[:] = 0.0
        for i in range(dim):
            row = directions[i]
            own = z[r, i]
            for k in range(half):
                angles[k] += own * row[k]
        features[r, 0] = 1.0
        for k in range(half):
            features[r, 1 + k] = scale * cos(angles[k])
            features[r, 1 + half + k] = scale * sin(angles[k])


@njit(cache=True, error_model="numpy", fastmath=_SUMS)  # type: ignore[untyped-decorator]
def _dot(first: Array, second: Array) -> float:
    total = 0.0
    for i in range(first.size):
        total += first[i] * second[i]
    return total


@njit(cache=True, error_model="numpy", fastmath=_SUMS)  # type: ignore[untyped-decorator]
def _quadratic(packed: Array, phi: Array) -> float:
    """Return φᵀΣφ, at least 0."""
    total = 0.0
    start = 0
    for i in range(phi.size):
        row = packed[start : start + i]
        inner = 0.0
        for j in range(i):
            inner += row[j] * phi[j]
        total += phi[i] * (2.0 * inner + packed[start + i] * phi[i])
        start += i + 1
    return max(total, 0.0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _shares(evidence: Array, weight: Array) -> None:
    """Compiled version of `evidence.shares`."""
    top = evidence[0, 0]
    for j in range(weight.size):
        top = max(top, evidence[j, 0])
    total = 0.0
    kept = 0.0
    for j in range(weight.size):
        weight[j] = np.exp(evidence[j, 0] - top)
        total += weight[j]
    for j in range(weight.size):
        share = weight[j] / total
        weight[j] = share if share >= 0.01 else 0.0
        kept += weight[j]
    for j in range(weight.size):
        weight[j] /= kept


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _start_of(sums: Array) -> float:
    """Compiled version of `prior.prior_mean`."""
    mean = min((1.0 + sums[0]) / (2.0 + sums[1]), 1.0)
    optimistic = mean + sqrt(mean * (1.0 - mean))
    start: float = max(mean, min(0.5, optimistic))
    return start


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _largest_variance(sums: Array) -> float:
    """Compiled version of the square of `prior.largest_sd`."""
    mean = min((1.0 + sums[0]) / (2.0 + sums[1]), 1.0)
    sd: float = sqrt(mean * (1.0 - mean))
    return sd * sd


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _mix_ridges(
    means: Array, share: Array, evidence: Array, variance: float, largest: float
) -> tuple[float, float]:
    """Return mean and standard deviation over ridges with these means and shares (J).
    Compiled version of `evidence.mix_ridges`."""
    middle = 0.0
    spread = 0.0
    for j in range(share.size):
        if share[j] > 0.0:
            middle += share[j] * means[j]
            noise = largest
            if j > 0:
                noise = evidence[j, 2] / evidence[j, 1]
            spread += share[j] * noise * variance
    for j in range(share.size):
        if share[j] > 0.0:
            spread += share[j] * (means[j] - middle) ** 2
    return middle, sqrt(spread)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def believe_arms(
    weights: Array,
    covariance: Array,
    evidence: Array,
    sums: Array,
    phi: Array,
    mean: Array,
    sd: Array,
) -> None:
    """Fill the posterior mean and sd of each arm (K) from regressions (J, K, 2, D) with
    covariances (J, K, P), mixed over ridges."""
    n_ridges, n_arms = covariance.shape[:2]
    share = np.empty(n_ridges)
    means = np.empty(n_ridges)
    _shares(evidence, share)
    start = _start_of(sums)
    largest = _largest_variance(sums)
    for k in range(n_arms):
        variance = _quadratic(covariance[0, k], phi)
        for j in range(n_ridges):
            if share[j] > 0.0:
                value = _dot(weights[j, k, 0], phi)
                of_one = _dot(weights[j, k, 1], phi)
                means[j] = value + start * (1.0 - of_one)
        mean[k], sd[k] = _mix_ridges(means, share, evidence, variance, largest)


@njit(cache=True, error_model="numpy", fastmath=_SUMS)  # type: ignore[untyped-decorator]
def _four_quadratics(
    packed: Array, first: Array, second: Array, third: Array, fourth: Array, out: Array
) -> None:
    """Fill φᵀΣφ, at least 0, of four rows together, so that the covariance is read only
    once."""
    start = 0
    totals = 0.0, 0.0, 0.0, 0.0
    for i in range(first.size):
        row = packed[start : start + i]
        a = 0.0
        b = 0.0
        c = 0.0
        d = 0.0
        for j in range(i):
            a += row[j] * first[j]
            b += row[j] * second[j]
            c += row[j] * third[j]
            d += row[j] * fourth[j]
        own = packed[start + i]
        totals = (
            totals[0] + first[i] * (2.0 * a + own * first[i]),
            totals[1] + second[i] * (2.0 * b + own * second[i]),
            totals[2] + third[i] * (2.0 * c + own * third[i]),
            totals[3] + fourth[i] * (2.0 * d + own * fourth[i]),
        )
        start += i + 1
    for n in range(4):
        out[n] = max(totals[n], 0.0)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _quadratics(packed: Array, phi: Array) -> Array:
    """Return φᵀΣφ of each row (R). The result of a row does not depend on the other
    rows."""
    n_rows = phi.shape[0]
    found = np.empty(n_rows)
    four = np.empty(4)
    for start in range(0, n_rows, 4):
        last = n_rows - 1
        _four_quadratics(
            packed,
            phi[start],
            phi[min(start + 1, last)],
            phi[min(start + 2, last)],
            phi[min(start + 3, last)],
            four,
        )
        for n in range(min(4, n_rows - start)):
            found[start + n] = four[n]
    return found


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def believe_rows(
    weights: Array,
    covariance: Array,
    evidence: Array,
    sums: Array,
    further: Array,
    crossed: Array,
    phi: Array,
    own: Array,
    total: Array,
    mean: Array,
    sd: Array,
) -> None:
    """Fill the posterior mean and sd of each row (R), from regressions (J, 1, 2, D)
    shared by all arms, with one mean per arm, and from regressions on `crossed`
    features (R, C), whose weights are `further` (H, 1, 2, C)."""
    n_ridges = covariance.shape[0]
    n_all = evidence.shape[0]
    share = np.empty(n_all)
    means = np.empty(n_all)
    _shares(evidence, share)
    start = _start_of(sums)
    largest = _largest_variance(sums)
    variances = _quadratics(covariance[0, 0], phi)
    for r in range(mean.size):
        for j in range(n_all):
            if share[j] > 0.0:
                if j < n_ridges:
                    value = _dot(weights[j, 0, 0], phi[r])
                    of_one = _dot(weights[j, 0, 1], phi[r])
                else:
                    value = _dot(further[j - n_ridges, 0, 0], crossed[r])
                    of_one = _dot(further[j - n_ridges, 0, 1], crossed[r])
                means[j] = own[r, 0] + value + start * (1.0 - own[r, 1] - of_one)
        variance = variances[r] + 1.0 / total[r]
        mean[r], sd[r] = _mix_ridges(means, share, evidence, variance, largest)


@njit(cache=True, error_model="numpy", fastmath=_SUMS)  # type: ignore[untyped-decorator]
def _times(packed: Array, phi: Array, gain: Array) -> None:
    """Fill Σφ."""
    start = 0
    for i in range(phi.size):
        row = packed[start : start + i]
        own = phi[i]
        inner = packed[start + i] * own
        for j in range(i):
            inner += row[j] * phi[j]
            gain[j] += row[j] * own
        gain[i] = inner
        start += i + 1


@njit(cache=True, error_model="numpy", fastmath=_SUMS)  # type: ignore[untyped-decorator]
def _gain(
    packed: Array,
    weights: Array,
    phi: Array,
    column: Array,
    shrink: float,
    errors: Array,
) -> None:
    """Move both regressions (2, D) along the gain `column` by their errors, and shrink
    the covariance along it."""
    for n in range(2):
        own = weights[n]
        step = errors[n] * shrink
        for i in range(phi.size):
            own[i] += step * column[i]
    start = 0
    for i in range(phi.size):
        row = packed[start : start + i + 1]
        by = shrink * column[i]
        for m in range(i + 1):
            row[m] -= by * column[m]
        start += i + 1


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _learn(
    weights: Array,
    covariance: Array,
    evidence: Array,
    start: float,
    arm: int,
    phi: Array,
    reward: float,
    own: Array,
    total: float,
) -> None:
    """Compiled version of `evidence._gain`."""
    heft = 1.0 / (1.0 + 1.0 / total)
    column = np.empty(phi.size)
    errors = np.empty(2)
    for j in range(covariance.shape[0]):
        packed = covariance[j, arm]
        models = weights[j, arm]
        _times(packed, phi, column)
        variance = max(_dot(phi, column), 0.0)
        errors[0] = reward - own[0] - _dot(models[0], phi)
        errors[1] = 1.0 - own[1] - _dot(models[1], phi)
        shrink = heft / (1.0 + heft * variance)
        _gain(packed, models, phi, column, shrink, errors)
        error = errors[0] - start * errors[1]
        wide = 1.0 + variance + 1.0 / total
        scaled = error * error / wide
        freedom = evidence[j, 1]
        squares = evidence[j, 2]
        tail = 0.5 * (freedom + 1.0) * log1p(scaled / squares)
        evidence[j, 0] -= 0.5 * log(squares * wide) + tail
        evidence[j, 1] += 1.0
        evidence[j, 2] += scaled


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _count(evidence: Array, sums: Array, reward: float) -> None:
    """Compiled version of `evidence._count`."""
    top = -np.inf
    for j in range(evidence.shape[0]):
        top = max(top, evidence[j, 0])
    for j in range(evidence.shape[0]):
        evidence[j, 0] -= top
    sums[0] += reward
    sums[1] += 1.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def learn_row(
    weights: Array,
    covariance: Array,
    evidence: Array,
    sums: Array,
    arm: int,
    phi: Array,
    reward: float,
    own: Array,
    total: float,
) -> None:
    """Compiled version of `evidence.learn_row`."""
    start = _start_of(sums)
    _learn(weights, covariance, evidence, start, arm, phi, reward, own, total)
    _count(evidence, sums, reward)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def learn_both(
    weights: Array,
    covariance: Array,
    evidence: Array,
    sums: Array,
    further: Array,
    further_covariance: Array,
    crossed: Array,
    phi: Array,
    reward: float,
    own: Array,
    total: float,
) -> None:
    """Compiled version of `evidence.learn_both`."""
    start = _start_of(sums)
    n_ridges = covariance.shape[0]
    base = evidence[:n_ridges]
    others = evidence[n_ridges:]
    _learn(weights, covariance, base, start, 0, phi, reward, own, total)
    _learn(further, further_covariance, others, start, 0, crossed, reward, own, total)
    _count(evidence, sums, reward)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_products(
    counts: Array,
    squares: Array,
    is_category: Bools,
    is_own: Bools,
    z: Array,
    first: Ints,
    second: Ints,
    places: Ints,
    signs: Array,
    features: Array,
) -> None:
    """Compiled version of the products in `products.crossed`. Adds them to the features
    (R, m) of rows z."""
    of_arm = 0.0
    of_context = 0.0
    for i in range(counts.size):
        variance = squares[i] / max(counts[i], 1.0)
        weight = variance
        if not is_category[i]:
            weight = 1.0 if variance > 0.0 else 0.0
        if is_own[i]:
            of_arm += weight
        else:
            of_context += weight
    total = max(of_arm + of_context, 0.04)
    scale = total / sqrt(max(of_arm, 0.04) * max(of_context, 0.04))
    for r in range(z.shape[0]):
        row = z[r]
        own = features[r]
        for k in range(places.size):
            own[places[k]] += row[first[k]] * row[second[k]] * (scale * signs[k])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def add_row(counts: Array, mean: Array, squares: Array, x: Array) -> None:
    """Compiled version of `moments.with_row`."""
    for i in range(x.size):
        if x[i] == x[i]:
            counts[i] += 1.0
            shift = x[i] - mean[i]
            mean[i] += shift / counts[i]
            squares[i] += shift * (x[i] - mean[i])


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def standardise(
    counts: Array, mean: Array, squares: Array, is_category: Bools, x: Array, z: Array
) -> None:
    """Compiled version of `moments.standardise`. Fills z (R, d) for rows x."""
    dim = mean.size
    total = 0.0
    unit = np.ones(dim)
    for i in range(dim):
        variance = squares[i] / max(counts[i], 1.0)
        if is_category[i]:
            total += variance
        elif variance > 0.0:
            total += 1.0
            unit[i] = sqrt(variance)
    root = 1.0
    if total > 0.0:
        root = max(sqrt(total), 0.2)
    for r in range(x.shape[0]):
        for i in range(dim):
            own = (x[r, i] - mean[i]) / unit[i]
            z[r, i] = min(max(own, -5.0), 5.0) / root if own == own else 0.0


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def subtract_sums(
    features: Array, sums: Array, places: Ints, weight: Array, less: Array
) -> None:
    """Twin of `pool._less_mean`: fills `less` (R, D) with features (R, D) less their
    weight (R) times the sums (C, D) at their places (R)."""
    for r in range(features.shape[0]):
        own = sums[places[r]]
        for i in range(features.shape[1]):
            less[r, i] = features[r, i] - own[i] * weight[r]
