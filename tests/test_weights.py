"""Algorithm 1's parts against plain loops, and the compiled twins against numpy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith import weights
from oddsmith.arrays import Array, Bools
from oddsmith.errors import AllExpertsRefuted


def slow_ballots(predictions: Array, eligible: Bools) -> Array:
    """One expert and one arm at a time."""
    ballots = np.zeros_like(predictions)
    for i, row in enumerate(predictions):
        known = [a for a in range(len(row)) if eligible[a] and not np.isnan(row[a])]
        if known:
            best = max(row[a] for a in known)
            winners = [a for a in known if row[a] == best]
            ballots[i, winners] = 1 / len(winners)
    return ballots


@given(st.integers(0, 10**6))
def test_vote_against_a_plain_loop(any_kernels: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, k = rng.integers(1, 700), rng.integers(1, 5)
    predictions = rng.integers(0, 4, (n, k)) / 3  # many ties
    predictions = np.where(rng.random((n, k)) < 0.3, np.nan, predictions)
    log_weights = -rng.exponential(3, n)
    log_weights[rng.random(n) < 0.1] = -np.inf
    log_weights -= log_weights.max() if np.isfinite(log_weights.max()) else 0
    log_weights[0] = 0.0
    eligible = rng.random(k) < 0.7
    eligible[rng.integers(k)] = True
    gamma = float(rng.random())
    ballots = slow_ballots(predictions, eligible)
    votes = np.exp(log_weights) @ ballots
    uniform = eligible / eligible.sum()
    expected = (1 - gamma) * (votes / votes.sum() if votes.sum() > 0 else uniform) + gamma * uniform
    odds, asleep = weights.vote(log_weights, predictions, gamma, eligible)
    np.testing.assert_allclose(odds, expected, atol=1e-12)
    assert asleep == bool(np.isnan(predictions[:, eligible]).any())
    np.testing.assert_array_equal(weights.greedy(predictions, eligible), ballots)


def test_vote_over_batches_is_vote_row_by_row(any_kernels: str) -> None:
    rng = np.random.default_rng(2)
    predictions = rng.random((3, 5, 8, 4))
    predictions[0, 1, 2] = np.nan
    log_weights = -rng.random((5, 8))
    eligible = rng.random((3, 5, 4)) < 0.8
    eligible[..., 0] = True
    odds, asleep = weights.vote(log_weights, predictions, 0.1, eligible)
    assert asleep
    for i, j in np.ndindex(3, 5):
        one, _ = weights.vote(log_weights[j], predictions[i, j], 0.1, eligible[i, j])
        np.testing.assert_allclose(odds[i, j], one, atol=1e-14)


def test_float32_predictions_vote_like_float64(any_kernels: str) -> None:
    predictions = np.random.default_rng(0).random((50, 6)).astype(np.float32)
    log_weights = -np.random.default_rng(1).random(50)
    single, _ = weights.vote(log_weights, predictions, 0.1)  # type: ignore[arg-type]
    double, _ = weights.vote(log_weights, predictions.astype(np.float64), 0.1)
    np.testing.assert_allclose(single, double, atol=1e-12)


def test_odds_do_not_depend_on_how_ballots_lie_in_memory() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        log_weights, ballots = rng.normal(size=4), rng.dirichlet(np.ones(3), size=4)
        rows, columns = (weights.mix(log_weights, order(ballots), 0.1) for order in (np.array, np.asfortranarray))
        assert rows.tobytes() == columns.tobytes()


def test_charge_is_the_mix_loss_of_the_awake() -> None:
    factors = np.array([-1.0, np.nan, -2.0, -np.inf])
    charged = weights.charge(factors, np.log([0.25, 0.5, 0.15, 0.1]), np.isnan(factors))
    assert charged[1] == pytest.approx(np.log(0.5 * np.exp(-1) + 0.3 * np.exp(-2)))
    np.testing.assert_array_equal(charged[[0, 2, 3]], factors[[0, 2, 3]])


def test_charge_with_nobody_awake_teaches_nothing() -> None:
    both, first = np.array([True, True]), np.array([True, False])
    np.testing.assert_array_equal(weights.charge(np.array([np.nan, np.nan]), np.zeros(2), both), [0, 0])
    np.testing.assert_array_equal(weights.charge(np.array([np.nan, -5.0]), np.array([0.0, -np.inf]), first), [0, 0])


def test_charge_survives_losses_that_underflow() -> None:
    charged = weights.charge(np.array([-2000.0, np.nan]), np.array([-1e5, 0.0]), np.array([False, True]))
    assert charged[1] == pytest.approx(-2000)


def test_reweigh_refuses_a_reward_nobody_can_explain() -> None:
    with pytest.raises(AllExpertsRefuted):
        weights.reweigh(np.array([0.0, -np.inf]), np.array([-np.inf, 0.0]))


def test_share_against_the_formula() -> None:
    log_weights, prior = np.array([0.0, -3.0, -np.inf]), np.array([0.2, 0.5, 0.3])
    shared = weights.posterior(weights.share(log_weights, np.log(prior), 0.1))
    np.testing.assert_allclose(shared, 0.9 * weights.posterior(log_weights) + 0.1 * prior, atol=1e-15)
