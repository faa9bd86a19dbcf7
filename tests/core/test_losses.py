"""The contract of every loss, in one list."""

from collections.abc import Callable
from math import fsum, log
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oddsmith as od

LOSSES: dict[str, Callable[..., np.ndarray]] = {
    "square": od.square_loss,
    "log": od.log_loss,
    "scaled square": od.losses.scaled(od.square_loss, 2.5),
    "scaled log": od.losses.scaled(od.log_loss, 4.0),
}
unit = st.floats(0.001, 0.999)


@pytest.mark.parametrize("name", LOSSES)
class TestContract:
    def test_elementwise_and_broadcasting(self, name: str) -> None:
        loss = LOSSES[name]
        predictions, rewards = (
            np.random.default_rng(0).uniform(0.1, 0.9, (4, 3)),
            np.array([0.0, 0.4, 1.0]),
        )
        together = loss(predictions, rewards)
        for i, j in np.ndindex(4, 3):
            assert loss(predictions[i, j], rewards[j]) == pytest.approx(
                together[i, j], abs=1e-15
            )

    @given(unit, unit)
    def test_proper_the_truth_is_the_best_prediction(
        self, name: str, truth: float, other: float
    ) -> None:
        def expected(g: float) -> float:
            both = LOSSES[name](np.array([g, g]), np.array([1.0, 0.0]))
            return float(truth * both[0] + (1 - truth) * both[1])

        assert expected(truth) <= expected(other) + 1e-12

    @given(unit, st.floats(0, 1))
    def test_affine_in_the_reward_up_to_a_term_of_the_reward_alone(
        self, name: str, g: float, r: float
    ) -> None:
        def between(reward: float) -> float:
            return float(np.subtract(*LOSSES[name](np.array([g, 0.5]), reward)))

        assert between(r) == pytest.approx(
            (1 - r) * between(0.0) + r * between(1.0), abs=1e-11
        )


def test_log_loss_at_and_beyond_the_ends() -> None:
    g = np.array([0.0, 1.0, -0.1, 1.1])
    np.testing.assert_array_equal(od.log_loss(g, 1.0), [np.inf, 0, np.nan, np.nan])
    np.testing.assert_array_equal(od.log_loss(g, 0.0), [0, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(
        od.log_loss(g, np.array(0.5)), [np.inf, np.inf, np.nan, np.nan]
    )


@pytest.mark.parametrize("steps", [1, 15, 16, 17, 33, 50])
def test_the_total_of_log_losses_is_their_sum(steps: int) -> None:
    rng = np.random.default_rng(steps)
    predictions, rewards = (
        rng.uniform(0.01, 0.99, (steps, 3)),
        rng.integers(0, 2, steps).astype(float),
    )
    found = od.core.losses.total_log_loss(predictions, rewards)
    assert found is not None
    for expert in range(3):
        said = [
            p if won else 1 - p
            for p, won in zip(predictions[:, expert], rewards, strict=True)
        ]
        assert found[expert] == pytest.approx(-fsum(log(p) for p in said), rel=1e-13)


def test_a_total_of_log_losses_at_the_ends() -> None:
    total = od.core.losses.total_log_loss
    sure = total(np.array([[1.0, 0.5], [0.0, 0.5]]), np.array([1.0, 0.0]))
    assert sure is not None
    assert sure.tolist() == pytest.approx([0, 2 * log(2)], abs=1e-15)
    faint = total(np.array([[1e-290]]), np.array([1.0]))
    assert faint is not None
    assert faint[0] == pytest.approx(290 * log(10))


@pytest.mark.parametrize(
    ("predictions", "rewards"),
    [
        ([[0.5], [0.5]], [1.0, 0.5]),  # a reward in between
        (np.zeros((0, 2)), []),  # nothing to add up
        ([[1.2]], [1.0]),  # outside [0, 1], either way
        ([[-0.2]], [1.0]),
        ([[1.2]], [0.0]),
        ([[np.nan]], [1.0]),  # asleep
        ([[0.0]], [1.0]),  # refuted: a loss of infinity
        ([[1e-30]] * 10, [1.0] * 10),  # the product underflows in the rest
        ([[1e-30]] * 16, [1.0] * 16),  # and in a whole group
    ],
)
def test_a_total_of_log_losses_that_might_lose_digits_is_left_to_the_sum(
    predictions: Any, rewards: Any
) -> None:
    assert (
        od.core.losses.total_log_loss(
            np.array(predictions, dtype=float), np.array(rewards, dtype=float)
        )
        is None
    )


@pytest.mark.parametrize(
    "loss",
    [
        lambda g, r: -np.log(g),  # below 0 only
        lambda g, r: -np.log1p(-g),  # above 1 only
        lambda g, r: -np.log(g) if r == 0.0 else g * g,  # and for one reward only
        lambda g, r: -np.log(g) if r == 0.5 else g * g,
        lambda g, r: -np.log(g) if r == 1.0 else g * g,
    ],
)
def test_the_domain_is_the_unit_interval_where_a_loss_is_nan_outside(
    loss: od.core.losses.Loss,
) -> None:
    assert od.core.losses.domain(loss) == (0.0, 1.0)


def test_a_scaled_loss_needs_a_loss_and_a_scale_above_zero() -> None:
    assert od.losses.scaled(od.square_loss, 0.5)(np.array([0.5]), 1.0)[0] == 0.5
    with pytest.raises(od.InvalidInput, match=r"^beta must be .* got 0"):
        od.losses.scaled(od.square_loss, 0.0)
    with pytest.raises(
        od.InvalidInput,
        match=r"^loss must be a function of prediction and reward; got 'log'",
    ):
        od.losses.scaled("log", 1.0)  # type: ignore[arg-type]
