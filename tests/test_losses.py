"""The contract of every loss, in one list."""

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oddsmith as od

LOSSES: dict[str, Callable[..., np.ndarray]] = {
    "square": od.square_loss,
    "log": od.log_loss,
    "scaled square": od.scaled(od.square_loss, 2.5),
    "scaled log": od.scaled(od.log_loss, 4.0),
}
unit = st.floats(0.001, 0.999)


@pytest.mark.parametrize("name", LOSSES)
class TestContract:
    def test_elementwise_and_broadcasting(self, name: str) -> None:
        loss = LOSSES[name]
        predictions, rewards = np.random.default_rng(0).uniform(0.1, 0.9, (4, 3)), np.array([0.0, 0.4, 1.0])
        together = loss(predictions, rewards)
        for i, j in np.ndindex(4, 3):
            assert loss(predictions[i, j], rewards[j]) == pytest.approx(together[i, j], abs=1e-15)

    @given(unit, unit)
    def test_proper_the_truth_is_the_best_prediction(self, name: str, truth: float, other: float) -> None:
        def expected(g: float) -> float:
            both = LOSSES[name](np.array([g, g]), np.array([1.0, 0.0]))
            return float(truth * both[0] + (1 - truth) * both[1])

        assert expected(truth) <= expected(other) + 1e-12

    @given(unit, st.floats(0, 1))
    def test_affine_in_the_reward_up_to_a_term_of_the_reward_alone(self, name: str, g: float, r: float) -> None:
        def between(reward: float) -> float:
            return float(np.subtract(*LOSSES[name](np.array([g, 0.5]), reward)))

        assert between(r) == pytest.approx((1 - r) * between(0.0) + r * between(1.0), abs=1e-11)


def test_log_loss_at_and_beyond_the_ends() -> None:
    g = np.array([0.0, 1.0, -0.1, 1.1])
    np.testing.assert_array_equal(od.log_loss(g, 1.0), [np.inf, 0, np.nan, np.nan])
    np.testing.assert_array_equal(od.log_loss(g, 0.0), [0, np.inf, np.nan, np.nan])
    np.testing.assert_array_equal(od.log_loss(g, np.array(0.5)), [np.inf, np.inf, np.nan, np.nan])
