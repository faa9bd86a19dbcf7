"""Voting rules, each by hand."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.experts.ballots import Optimistic, best_of, inverse_gap, rest_on_best

MEAN = np.array([[0.5, 0.4, 0.1]])
SD = np.array([[0.0, 0.2, 0.1]])
LAST_TWO = np.array([False, True, True])


def test_optimistic_takes_the_largest_upper_end() -> None:
    """0.5, 0.4 + 0.2 s and 0.1 + 0.1 s."""
    assert Optimistic(0.4)(MEAN, SD).tolist() == [[1.0, 0.0, 0.0]]
    assert Optimistic(0.6)(MEAN, SD).tolist() == [[0.0, 1.0, 0.0]]
    assert Optimistic(0.4)(MEAN, SD, LAST_TWO).tolist() == [[0.0, 1.0, 0.0]]
    assert Optimistic(0.0)(MEAN * 0, SD).tolist() == [[1 / 3] * 3]


def test_the_inverse_gap() -> None:
    """1 / (3 + 10 gap), 1 / (2 + 10 gap) where two are eligible."""

    def odds(mean: Any, eligible: Any = None) -> Any:
        return inverse_gap(mean, 10.0, eligible)

    second = 1 / (3 + 10 * 0.1)
    third = 1 / (3 + 10 * 0.4)
    np.testing.assert_allclose(
        odds(MEAN), [[1 - second - third, second, third]], rtol=1e-13
    )
    other = 1 / (2 + 10 * 0.3)
    np.testing.assert_allclose(
        odds(MEAN, LAST_TWO), [[0.0, 1 - other, other]], rtol=1e-13
    )
    # ties within 1e-12 share the rest
    tied = np.array([[0.5, 0.5 - 1e-13, 0.1]])
    rest = (1 - 1 / (3 + 10 * 0.4)) / 2
    np.testing.assert_allclose(odds(tied), [[rest, rest, 1 - 2 * rest]], rtol=1e-13)


def test_ties_are_relative_to_large_means_only() -> None:
    """Within 1e-12 of means up to 1, of 1e-12 of the mean beyond."""
    for scale, gap, tie in (
        (1e-3, 0.9e-12, True),
        (1e-3, 1.1e-12, False),
        (-1e6, 0.9e-6, True),
        (1e6, 1.1e-6, False),
    ):
        best, top, n_arms = best_of(np.array([scale - gap, scale, scale - 9.0]), None)
        assert best.tolist() == [tie, True, False]
        assert top.tolist() == [scale]
        assert n_arms == 3
    best, top, n_arms = best_of(np.tile(MEAN, (2, 1)), np.array([[True] * 3, LAST_TWO]))
    assert best.tolist() == [[True, False, False], [False, True, False]]
    assert top.tolist() == [[0.5], [0.4]]
    assert n_arms.tolist() == [[3], [2]]


def test_the_rest_is_shared_by_the_best() -> None:
    odds = np.array([[0.9, 0.2, 0.3], [0.1, 0.9, 0.9]])
    best = np.array([[True, False, False], [False, True, True]])
    shared = [[0.5, 0.2, 0.3], [0.1, 0.45, 0.45]]
    np.testing.assert_allclose(rest_on_best(odds, best, None), shared, rtol=1e-13)
    mask = np.array([[True, True, False], [False, True, True]])
    eligible = [[0.8, 0.2, 0.0], [0.0, 0.5, 0.5]]
    np.testing.assert_allclose(rest_on_best(odds, best, mask), eligible, rtol=1e-13)


def test_settings_are_numbers_from_0_on() -> None:
    for value in (-1e-9, np.inf, np.nan):
        with pytest.raises(od.InvalidInput, match=r"^scale must be"):
            Optimistic(value)
    Optimistic(0.0)
    Optimistic(1e9)
