"""The captured share of `auto` at every scale, on the first decisions."""

import numpy as np
import pytest
from benchmarks.scales import captured, means_of, models_of


def test_rewards_are_between_zero_and_one_and_models_predict_them() -> None:
    x = np.random.default_rng(1).normal(size=(50, 3))
    means = means_of(x)
    assert means.min() >= 0.05
    assert means.max() <= 0.95
    noisy, partial, shifted = np.moveaxis(models_of(means, np.zeros((50, 3))), -2, 0)
    np.testing.assert_array_equal(noisy, means)
    np.testing.assert_array_equal(partial[:, :2], means[:, :2])
    np.testing.assert_array_equal(shifted[:, 1], means[:, 0])


@pytest.mark.parametrize("models", [False, True])
def test_larger_units_earn_what_ones_earn(models: bool) -> None:
    one, million, small = captured((1.0, 1e6, 2.0**-20), 2, 60, models)
    np.testing.assert_allclose(million, one)
    assert np.abs(small - one).max() < 0.1
