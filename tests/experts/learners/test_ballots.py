"""Voting rules, each by hand."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import oddsmith as od
from oddsmith.experts.ballots import (
    InverseGap,
    Optimistic,
    PosteriorBest,
    Softened,
    best_of,
    inverse_gap,
    rest_on_best,
)

MEAN = np.array([[0.5, 0.4, 0.1]])
SD = np.array([[0.0, 0.2, 0.1]])
LAST_TWO = np.array([False, True, True])


def test_optimistic_takes_the_largest_upper_end() -> None:
    """0.5, 0.4 + 0.2 s and 0.1 + 0.1 s."""
    assert Optimistic(0.4)(MEAN, SD).tolist() == [[1.0, 0.0, 0.0]]
    assert Optimistic(0.6)(MEAN, SD).tolist() == [[0.0, 1.0, 0.0]]
    assert Optimistic(0.4)(MEAN, SD, LAST_TWO).tolist() == [[0.0, 1.0, 0.0]]
    assert Optimistic(0.0)(MEAN * 0, SD).tolist() == [[1 / 3] * 3]


def test_the_posterior_best_of_two_normals() -> None:
    """Φ of the difference over its standard deviation."""
    first = norm.cdf(0.1 / np.hypot(0.5 * 0.1, 0.5 * 0.2))
    rule = PosteriorBest(0.5)
    mean = np.array([[0.5, 0.4]])
    sd = np.array([[0.1, 0.2]])
    np.testing.assert_allclose(rule(mean, sd), [[first, 1 - first]], atol=1e-6)
    wide_mean = np.insert(mean, 0, 9.0, axis=1)
    wide_sd = np.insert(sd, 0, 1.0, axis=1)
    np.testing.assert_allclose(
        rule(wide_mean, wide_sd, LAST_TWO), [[0.0, first, 1 - first]], atol=1e-6
    )
    each = np.array([[True, True, False], [False, True, True]])
    batch = rule(np.stack([wide_mean] * 2), np.stack([wide_sd] * 2), each)
    np.testing.assert_allclose(
        batch, [[[1.0, 0.0, 0.0]], [[0.0, first, 1 - first]]], atol=1e-6
    )


def test_softened_is_a_softmax_of_upper_ends() -> None:
    rule = Softened(0.5, 0.2)
    odds = np.exp(np.array([0.5, 0.5, 0.15]) / 0.2)
    np.testing.assert_allclose(rule(MEAN, SD), [odds / odds.sum()], rtol=1e-13)
    odds[0] = 0.0
    np.testing.assert_allclose(
        rule(MEAN, SD, LAST_TWO), [odds / odds.sum()], rtol=1e-13
    )
    # a temperature at which exp would overflow
    assert Softened(0.0, 1e-6)(MEAN + 5.0, SD).tolist() == [[1.0, 0.0, 0.0]]
    twins = Softened(0.0, 0.1)(np.array([[[0.5, 0.5]], [[0.9, 0.9]]]), np.zeros(2))
    assert twins.tolist() == [[[0.5, 0.5]], [[0.5, 0.5]]]


@pytest.mark.parametrize("rule", [InverseGap(10.0), None])
def test_the_inverse_gap(rule: Any) -> None:
    """1 / (3 + 10 gap), 1 / (2 + 10 gap) where two are eligible."""

    def odds(mean: Any, eligible: Any = None) -> Any:
        if rule is not None:
            return rule(mean, SD, eligible)
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


@pytest.mark.parametrize(
    ("make", "setting", "least"),
    [
        (Optimistic, "scale", 0.0),
        (PosteriorBest, "scale", 0.0),
        (Softened, "scale", 0.0),
        (lambda value: Softened(0.3, value), "temperature", None),
        (InverseGap, "sharpness", 0.0),
    ],
)
def test_settings_are_numbers_from_0_on(
    make: Any, setting: str, least: float | None
) -> None:
    for value in (-1e-9, np.inf, np.nan):
        with pytest.raises(od.InvalidInput, match=f"^{setting} must be"):
            make(value)
    if least is None:
        with pytest.raises(od.InvalidInput, match=rf"{setting} must be in \(0"):
            make(0.0)
    else:
        make(least)
    make(1e9)
