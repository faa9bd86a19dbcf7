"""Algorithm 1's parts against plain loops, and the compiled twins against numpy."""

from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.errors import AllExpertsRefuted, OutOfDomain


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
    expected = (1 - gamma) * (
        votes / votes.sum() if votes.sum() > 0 else uniform
    ) + gamma * uniform
    odds, asleep = weights.vote(log_weights, predictions, gamma, eligible)
    np.testing.assert_allclose(odds, expected, atol=1e-12)
    assert asleep == bool(np.isnan(predictions[:, eligible]).any())
    np.testing.assert_array_equal(weights.greedy(predictions, eligible), ballots)


def test_vote_over_batches_is_vote_row_by_row(any_kernels: str) -> None:
    """To the last bit, whatever the other rows are: of two the weights are faint, and
    each may have a gamma of its own."""
    rng = np.random.default_rng(2)
    predictions = rng.random((3, 5, 8, 4))
    predictions[0, 1, 2] = np.nan
    log_weights = -rng.random((5, 8))
    log_weights[3, 1:] -= 900
    predictions[0, 3, 0] = np.nan
    predictions[1, 4] = np.nan
    eligible = rng.random((3, 5, 4)) < 0.8
    eligible[..., 0] = True
    gammas = rng.random(5)
    odds, asleep = weights.vote(log_weights, predictions, 0.1, eligible)
    own, _ = weights.vote(log_weights, predictions, gammas, eligible)
    assert asleep
    for i, j in np.ndindex(3, 5):
        row = (log_weights[j], predictions[i, j])
        one, _ = weights.vote(*row, 0.1, eligible[i, j])
        np.testing.assert_array_equal(odds[i, j], one)
        one, _ = weights.vote(*row, float(gammas[j]), eligible[i, j])
        np.testing.assert_array_equal(own[i, j], one)


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
        rows, columns = (
            weights.mix(log_weights, order(ballots), 0.1)
            for order in (np.array, np.asfortranarray)
        )
        assert rows.tobytes() == columns.tobytes()


def test_charge_is_the_mix_loss_of_the_awake() -> None:
    factors = np.array([-1.0, np.nan, -2.0, -np.inf])
    charged = weights.charge(factors, np.log([0.25, 0.5, 0.15, 0.1]), np.isnan(factors))
    assert charged[1] == pytest.approx(np.log(0.5 * np.exp(-1) + 0.3 * np.exp(-2)))
    np.testing.assert_array_equal(charged[[0, 2, 3]], factors[[0, 2, 3]])


def test_charge_with_nobody_awake_teaches_nothing() -> None:
    both, first = np.array([True, True]), np.array([True, False])
    np.testing.assert_array_equal(
        weights.charge(np.array([np.nan, np.nan]), np.zeros(2), both), [0, 0]
    )
    np.testing.assert_array_equal(
        weights.charge(np.array([np.nan, -5.0]), np.array([0.0, -np.inf]), first),
        [0, 0],
    )


def test_charge_survives_losses_that_underflow() -> None:
    charged = weights.charge(
        np.array([-2000.0, np.nan]), np.array([-1e5, 0.0]), np.array([False, True])
    )
    assert charged[1] == pytest.approx(-2000)


def test_reweigh_refuses_a_reward_nobody_can_explain() -> None:
    with pytest.raises(AllExpertsRefuted):
        weights.reweigh(np.array([0.0, -np.inf]), np.array([-np.inf, 0.0]))


def test_share_against_the_formula() -> None:
    log_weights, prior = np.array([0.0, -3.0, -np.inf]), np.array([0.2, 0.5, 0.3])
    shared = weights.posterior(weights.share(log_weights, np.log(prior), 0.1))
    np.testing.assert_allclose(
        shared, 0.9 * weights.posterior(log_weights) + 0.1 * prior, atol=1e-15
    )


def exact(numbers: Array) -> list[Any]:
    """exp of log weights with 28 digits and any exponent: nothing underflows."""
    return [
        Decimal(0) if number == -np.inf else Decimal(float(number)).exp()
        for number in numbers
    ]


def exact_votes(log_weights: Array, ballots: Array) -> list[Any]:
    """The normalised weights of those who cast a vote, one expert at a time; zeros
    where they have none."""
    cast = [
        w if any(row) else Decimal(0)
        for w, row in zip(exact(log_weights), ballots, strict=True)
    ]
    total = sum(cast)
    return [w / total if total else Decimal(0) for w in cast]


def exact_odds(
    log_weights: Array, ballots: Array, gamma: float, eligible: Bools
) -> Array:
    """Li 2013, Algorithm 1, one arm at a time."""
    voting, n = exact_votes(log_weights, ballots), int(eligible.sum())
    odds = []
    for arm, allowed in enumerate(eligible):
        uniform = Decimal(int(allowed)) / n
        voted = sum(
            w * Decimal(float(row[arm])) for w, row in zip(voting, ballots, strict=True)
        )
        odds.append(
            (1 - Decimal(gamma)) * (voted if any(voting) else uniform)
            + Decimal(gamma) * uniform
        )
    return np.array(odds, dtype=np.float64)


def batch(rng: np.random.Generator) -> tuple[Array, Array]:
    """Log weights (2, 3, 4) and what four experts say of five arms: ties, sleepers, and
    rows where all of them sleep.

    In the last rows only experts far behind the leader are awake: their linear weights
    underflow.
    """
    log_weights = -rng.exponential(3, (2, 3, 4))
    predictions = rng.integers(0, 4, (2, 3, 4, 5)) / 3
    predictions = np.where(rng.random(predictions.shape) < 0.2, np.nan, predictions)
    predictions[:, 1] = np.nan
    predictions[:, 2, 0] = np.nan
    log_weights[:, 2, 1:] -= 5000.0
    log_weights[..., 3] = np.where(
        rng.random((2, 3)) < 0.3, -np.inf, log_weights[..., 3]
    )
    return log_weights - log_weights.max(axis=-1, keepdims=True), predictions


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("choosing", [False, True])
def test_odds_of_any_batch_against_exact_decimals(
    any_kernels: str, seed: int, choosing: bool
) -> None:
    rng = np.random.default_rng(seed)
    log_weights, predictions = batch(rng)
    masks = np.ones((2, 3, 5), dtype=np.bool_)
    if choosing:
        masks = rng.random((2, 3, 5)) < 0.6
        masks[..., seed % 5] = True
    gammas = rng.random((2, 3))
    together, _ = weights.vote(
        log_weights, predictions, gammas, masks if choosing else None
    )
    for i, j in np.ndindex(2, 3):
        eligible = masks[i, j] if choosing else None
        ballots = slow_ballots(predictions[i, j], masks[i, j])
        expected = exact_odds(
            log_weights[i, j], ballots, float(gammas[i, j]), masks[i, j]
        )
        alone, asleep = weights.vote(
            log_weights[i, j], predictions[i, j], float(gammas[i, j]), eligible
        )
        mixed = weights.mix(log_weights[i, j], ballots, float(gammas[i, j]), eligible)
        for odds in (together[i, j], alone, mixed):
            np.testing.assert_allclose(odds, expected, rtol=1e-12, atol=1e-300)
        assert asleep is bool(np.isnan(predictions[i, j][:, masks[i, j]]).any())
        np.testing.assert_array_equal(
            weights.greedy(predictions[i, j], eligible), ballots
        )
        voting = np.array(exact_votes(log_weights[i, j], ballots), dtype=np.float64)
        np.testing.assert_allclose(
            weights.awake_weights(log_weights[i, j], ballots),
            voting,
            rtol=1e-12,
            atol=1e-300,
        )
    ballots = weights.greedy(predictions, masks if choosing else None)
    voting = np.array(
        [exact_votes(log_weights[i], ballots[i]) for i in np.ndindex(2, 3)],
        dtype=np.float64,
    )
    np.testing.assert_allclose(
        weights.awake_weights(log_weights, ballots).reshape(6, 4), voting, atol=1e-14
    )


@pytest.mark.parametrize("behind", [600.0, 700.0, 740.0, 5000.0])
def test_votes_far_behind_a_leader_who_sleeps_keep_their_digits(
    any_kernels: str, behind: float
) -> None:
    """Linear weights below 1e-308 have few digits left, below 1e-323 none: the odds of
    two are still e to 1."""
    log_weights, said = (
        np.array([0.0, -behind, -behind - 1]),
        np.array([[np.nan] * 2, [0.9, 0.1], [0.1, 0.9]]),
    )
    right = np.array([np.e, 1.0]) / (np.e + 1)
    np.testing.assert_allclose(
        weights.vote(log_weights, said, 0.0)[0], right, rtol=1e-12
    )
    np.testing.assert_allclose(
        weights.vote(log_weights[None], said[None], 0.0)[0][0], right, rtol=1e-12
    )


@pytest.mark.parametrize("awake", [True, False])
def test_votes_of_a_batch_without_ties(any_kernels: str, awake: bool) -> None:
    """The common case, over batches: every expert has one best arm. A single sleeper
    must not go unseen."""
    predictions = np.random.default_rng(4).random((3, 6, 4))
    if not awake:
        predictions[2, 5, 1] = np.nan
    odds, asleep = weights.vote(np.zeros((3, 6)), predictions, 0.25)
    assert asleep is not awake
    for i in range(3):
        votes = slow_ballots(predictions[i], np.ones(4, dtype=np.bool_)).sum(axis=0)
        np.testing.assert_allclose(odds[i], 0.75 * votes / 6 + 0.25 / 4, rtol=1e-13)
    assert weights.greedy(predictions).dtype == np.float64


def test_posterior_of_a_batch_against_exact_decimals() -> None:
    log_weights = np.array(
        [[700.0, 699.0, -np.inf], [-2000.0, -2001.0, -2002.0], [0.0, 0.0, 0.0]]
    )
    expected = [
        [w / sum(row) for w in row] for row in (exact(row) for row in log_weights)
    ]
    np.testing.assert_allclose(
        weights.posterior(log_weights), np.array(expected, dtype=np.float64), rtol=1e-14
    )


@pytest.mark.parametrize("seed", range(8))
def test_charges_of_a_batch_against_exact_decimals(seed: int) -> None:
    """ln of the mean factor of the awake, by the weights of the decision; a row with
    nobody awake is all zeros."""
    rng = np.random.default_rng(seed)
    log_weights, factors = -rng.exponential(4, (3, 5)), -rng.exponential(5, (3, 5))
    log_weights[1, :3] -= 3000.0
    asleep = rng.random((3, 5)) < 0.4
    asleep[1] = [False, False, False, True, True]
    asleep[2] = seed % 2 == 0
    charged = weights.charge(np.where(asleep, np.nan, factors), log_weights, asleep)
    for row in range(3):
        awake = [i for i in range(5) if not asleep[row, i]]
        drawn, heard = exact(log_weights[row]), exact(log_weights[row] + factors[row])
        if not awake:
            np.testing.assert_array_equal(charged[row], 0)
            continue
        mean = (sum(heard[i] for i in awake) / sum(drawn[i] for i in awake)).ln()
        np.testing.assert_allclose(charged[row][asleep[row]], float(mean), rtol=1e-11)
        np.testing.assert_array_equal(charged[row, awake], factors[row, awake])


def test_charge_refuses_a_reward_that_no_awake_expert_can_explain() -> None:
    """In one row of a batch, too; a row where nobody awake has weight refuses
    nothing."""
    factors, asleep = (
        np.array([[-1.0, -2.0, np.nan], [-np.inf, -np.inf, np.nan]]),
        np.array([[False, False, True]] * 2),
    )
    with pytest.raises(
        AllExpertsRefuted,
        match=r"probability zero under every expert with weight and a prediction; clip",
    ):
        weights.charge(factors, np.zeros((2, 3)), asleep)
    weightless = np.array([[0.0, 0.0, 0.0], [-np.inf, -np.inf, 0.0]])
    np.testing.assert_array_equal(weights.charge(factors, weightless, asleep)[1], 0)


def test_reweigh_row_by_row() -> None:
    log_weights = np.array([[0.0, -1.0, -np.inf], [-3.0, 0.0, -0.5]])
    factors = np.array([[-4.0, -2.0, 5.0], [0.0, -1.0, -7.0]])
    np.testing.assert_allclose(
        weights.reweigh(log_weights, factors), [[-1.0, 0.0, -np.inf], [-2.0, 0.0, -6.5]]
    )
    for row in range(2):
        alone = weights.reweigh(log_weights[row], factors[row])
        np.testing.assert_array_equal(alone, weights.reweigh(log_weights, factors)[row])
    deeper = weights.reweigh(
        np.stack([log_weights, log_weights]), np.stack([factors, factors])
    )
    np.testing.assert_array_equal(deeper[1], weights.reweigh(log_weights, factors))


@pytest.mark.parametrize("shape", [(2,), (1, 2), (2, 2)])
def test_reweigh_tells_a_hopeless_reward_from_a_loss_without_bound(
    shape: tuple[int, ...],
) -> None:
    """One row that is wrong is enough."""
    hopeless = np.zeros(shape)
    hopeless.reshape(-1, 2)[-1] = -np.inf
    with pytest.raises(
        AllExpertsRefuted,
        match=r"probability zero under every expert with weight and a prediction; clip",
    ):
        weights.reweigh(np.zeros(shape), hopeless)
    with pytest.raises(
        OutOfDomain, match=r"^loss must be above -inf for every prediction; got -inf$"
    ):
        weights.reweigh(np.zeros(shape), -hopeless)


def test_share_and_discount_of_a_batch_against_exact_decimals() -> None:
    log_weights, prior = (
        np.array([[0.0, -3.0, -np.inf], [-800.0, 0.0, -1.0]]),
        [0.2, 0.5, 0.3],
    )
    shared = weights.share(log_weights, np.log(prior), 0.1)
    for row in range(2):
        w = exact(log_weights[row])
        mixed = [
            Decimal("0.9") * v / sum(w) + Decimal("0.1") * Decimal(p)
            for v, p in zip(w, prior, strict=True)
        ]
        expected = [float((one / max(mixed)).ln()) for one in mixed]
        np.testing.assert_allclose(shared[row], expected, atol=1e-13)
    faded = weights.discount(log_weights, np.log(prior), 0.75)
    np.testing.assert_allclose(
        faded[1],
        [-600 + 0.25 * np.log(0.2), 0.25 * np.log(0.5), -0.75 + 0.25 * np.log(0.3)],
    )
    assert faded[0, 2] == -np.inf
