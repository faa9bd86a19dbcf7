"""Reward scales and the paper's coin flip."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import oddsmith as od


@given(st.floats(-1e6, 1e6), st.floats(1e-3, 1e6), st.floats(0, 1))
def test_there_and_back(low: float, width: float, part: float) -> None:
    scale = od.RewardScale(low, low + width)
    value = low + part * (scale.high - low)
    assert float(np.abs(scale.value(scale.reward(value)) - value)) <= 1e-9 * (
        1 + abs(low) + width
    )


def test_arrays_stay_arrays_and_numbers_numbers() -> None:
    scale = od.RewardScale(0, 20)
    assert scale.reward(5) == 0.25
    assert isinstance(scale.reward(5), float)
    np.testing.assert_array_equal(scale.reward(np.array([0.0, 20.0])), [0, 1])


def test_binarize_keeps_the_mean() -> None:
    """50,000 flips at 0.3; the mean is off by more than 5 standard errors once in two
    million runs."""
    flips = np.asarray(
        od.binarize(np.full(50_000, 0.3), np.random.default_rng(0).random(50_000))
    )
    assert set(flips.tolist()) == {0.0, 1.0}
    assert abs(flips.mean() - 0.3) < 5 * np.sqrt(0.21 / 50_000)
