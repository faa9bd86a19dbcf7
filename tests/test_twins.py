"""The compiled twins' own exp, log and logistic against numpy's."""

import numpy as np
from numba import njit

from oddsmith.kernels import twins, vectormath

exp, log, log1p = vectormath.exp, vectormath.log, vectormath.log1p


@njit
def elementwise(values, which):  # type: ignore[no-untyped-def]
    out = np.empty_like(values)
    for i in range(values.size):
        out[i] = exp(values[i]) if which == 0 else log(values[i]) if which == 1 else log1p(values[i])
    return out


def test_exp_is_good_to_3_ulp() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate(
        [rng.uniform(-707, 0, 50_000), rng.uniform(-1, 0, 50_000), -(10.0 ** rng.uniform(-18, 0, 9_999))]
    )
    assert (np.abs(elementwise(x, 0) - np.exp(x)) / np.spacing(np.exp(x))).max() <= 3
    np.testing.assert_array_equal(elementwise(np.array([0.0, -np.inf, -1e5, np.nan]), 0), [1, 0, 0, np.nan])


def test_log_and_log1p_are_good_to_2_ulp() -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([rng.random(50_000), 10.0 ** rng.uniform(-300, 0, 50_000)])
    assert (np.abs(elementwise(x, 1) - np.log(x)) / np.spacing(np.abs(np.log(x)))).max() <= 2
    assert (np.abs(elementwise(-x, 2) - np.log1p(-x)) / np.spacing(np.abs(np.log1p(-x)))).max() <= 2
    np.testing.assert_array_equal(elementwise(np.array([1.0, 0.0, -1.0, np.nan]), 1), [0, -np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(elementwise(np.array([0.0, -1.0, -1.5]), 2), [0, -np.inf, np.nan])


def test_logistic_is_good_to_4_ulp_and_stays_put_at_the_ends() -> None:
    scores = np.concatenate([np.linspace(-40, 40, 10_001), [-1e4, 1e4, np.nan]])
    expected = 1 / (1 + np.exp(np.minimum(-scores, 708)))
    twins.logistic(scores)
    assert np.nanmax(np.abs(scores - expected) / np.spacing(expected)) <= 4
    assert np.isnan(scores[-1])
