"""Drawing: which arm a uniform number picks, and what the decision then carries."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oddsmith as od
from oddsmith.core.draw import pick


@given(
    st.lists(st.floats(0, 1), min_size=1, max_size=6).filter(lambda p: sum(p) > 1e-3),
    st.floats(0, 1, exclude_max=True),
)
def test_pick_is_the_inverse_of_the_cumulative_odds(
    any_kernels: str, weights: list[float], uniform: float
) -> None:
    odds = np.array(weights) / sum(weights)
    arm = pick(odds, uniform)
    cumulative = np.cumsum(odds)
    assert odds[arm] > 0
    assert uniform * cumulative[-1] <= cumulative[arm]
    assert arm == 0 or uniform * cumulative[-1] >= cumulative[arm - 1]
    assert pick(odds[None], np.array([uniform]))[0] == arm


@pytest.mark.parametrize("uniform", [0.0, np.nextafter(1.0, 0.0)])
def test_an_arm_without_odds_is_never_picked(any_kernels: str, uniform: float) -> None:
    odds = np.array([0.0, 0.1, 0.2, 0.7 + 1e-16, 0.0])
    assert odds[pick(odds, uniform)] > 0
    assert odds[pick(odds[None], np.array([uniform]))[0]] > 0


def test_a_uniform_of_exactly_1_means_the_last_arm_with_odds(any_kernels: str) -> None:
    """Below 1 the product with the total never rounds up to it: half a unit in the last
    place is always missing."""
    rng = np.random.default_rng(0)
    for _ in range(200):
        odds = np.concatenate([[0.0], rng.dirichlet(np.ones(4)), [0.0]]) * (
            1 + 1e-15 * rng.random()
        )
        total = float(np.cumsum(odds)[-1])
        assert float(np.nextafter(1.0, 0.0)) * total < total
        assert pick(odds, 1.0) == 4
        assert pick(odds[None], np.array([1.0]))[0] == 4


def test_a_batch_is_drawn_row_by_row_with_all_it_carries() -> None:
    """Odds, bonus and weights that are the same for all rows are spread; the advice is
    the drawn column of each row."""
    rng = np.random.default_rng(3)
    # two experts on four arms, for three rows, experts first below
    advice = rng.random((2, 3, 4))
    advice = np.moveaxis(advice, 0, 1)
    odds = od.Odds(rng.dirichlet(np.ones(4), 3), advice, rng.random(2), -rng.random(2))
    uniforms, eligible = rng.random(3), np.array([True, True, True, True])
    together = od.draw(odds, ["x", "y", "z"], uniforms, eligible=eligible, step=7)
    assert together.propensity.tolist() == [
        odds.propensities[i, together.arm[i]] for i in range(3)
    ]
    for i, row in enumerate(together.rows()):
        alone = od.draw(
            od.Odds(odds.propensities[i], advice[i], odds.bonus, odds.log_weights),
            "xyz"[i],
            float(uniforms[i]),
            eligible=eligible,
            step=7,
        )
        assert row == alone
        assert alone.advice is not None
        assert alone.advice.tolist() == advice[i][:, alone.arm].tolist()
        assert not np.shares_memory(alone.advice, advice)
    shared = od.draw(
        od.Odds(np.array([[0.2, 0.8]] * 2), np.array([[0.1, 0.3]])),
        None,
        np.array([0.1, 0.9]),
    )
    assert shared.advice is not None
    assert shared.advice.tolist() == [[0.1], [0.3]]
    assert (shared.step, shared.eligible, shared.bonus, shared.log_weights) == (
        None,
        None,
        None,
        None,
    )
    assert [row.context for row in shared.rows()] == [None, None]
    masks = np.array(
        [
            [True, False, True, True],
            [True, True, False, True],
            [True, True, True, False],
        ]
    )
    masked: Any = od.draw(odds, "xyz", uniforms, eligible=masks)
    assert masked.eligible.tolist() == masks.tolist()


def test_float32_advice_is_kept_as_float64() -> None:
    advice = np.array([[0.1, 0.7]], dtype=np.float32)
    for odds, uniform in (
        (np.array([0.5, 0.5]), 0.9),
        (np.array([[0.5, 0.5]]), np.array([0.9])),
    ):
        kept = od.draw(od.Odds(odds, advice), None, uniform).advice  # type: ignore[arg-type]
        assert kept is not None
        assert kept.dtype == np.float64
        assert kept.ravel().tolist() == [float(np.float32(0.7))]


def test_odds_need_not_sum_to_1_and_batches_may_have_two_axes(any_kernels: str) -> None:
    """The first arm whose cumulative odds exceed uniform · total."""
    odds = np.array(
        [[[2.0, 0.0, 6.0], [1.0, 1.0, 2.0]], [[0.5, 0.5, 1.0], [3.0, 0.0, 0.0]]]
    )
    uniforms = np.array([[0.25, 0.3], [0.1, 0.999]])
    assert pick(odds, uniforms).tolist() == [[2, 1], [0, 0]]
    for place in np.ndindex(2, 2):
        assert pick(odds[place], float(uniforms[place])) == pick(odds, uniforms)[place]
    assert pick(odds[0], 0.6).tolist() == [2, 2]
    for uniform in (np.float64(0.1), np.array(0.1)):
        found = pick(odds[0, 1], uniform)
        assert (type(found), found) == (int, 0)


class Listening(od.Policy):
    """A policy that says what it was asked."""

    def init(self, shape: tuple[int, ...] = ()) -> Any:
        return "fresh"

    def odds(
        self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
    ) -> od.Odds:
        self.asked = (state, context, eligible.tolist(), step)
        return od.Odds(
            np.array([0.25, 0.75]),
            np.array([[0.1, 0.2]]),
            np.array([0.3]),
            np.array([0.0]),
        )

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        return state


def test_deciding_is_asking_for_odds_and_drawing() -> None:
    policy, eligible = Listening(), np.array([True, True])
    decision = od.decide(policy, "state", "context", 0.5, eligible=eligible, step=3)
    assert policy.asked == ("state", "context", [True, True], 3)
    assert decision == od.Decision(
        3,
        "context",
        eligible,
        1,
        np.array([0.25, 0.75]),
        np.array([0.2]),
        np.array([0.3]),
        np.array([0.0]),
    )
