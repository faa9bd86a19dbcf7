"""Algorithm 1 of Li 2013 as a few functions that work with log weights.

`log_weights` (…, N) are relative to the leading expert: their maximum is 0, and -inf is
a weight of exactly zero. A decision is `greedy` then `mix` (or `vote`, which does
both); a reward is `charge`, `discount`, `reweigh`, `share`. Every function broadcasts
over leading axes. These are the readable versions; `kernels.twins` has the fast ones.
"""

import numpy as np

from oddsmith.core import kernels
from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.errors import AllExpertsRefuted, OutOfDomain

__all__ = [
    "FAINT",
    "asleep",
    "awake_weights",
    "charge",
    "discount",
    "even",
    "greedy",
    "mix",
    "posterior",
    "reweigh",
    "share",
    "vote",
]


def posterior(log_weights: Array) -> Array:
    """Return w_i / Σ_j w_j, the posterior over experts (…, N).

    >>> posterior(np.array([0.0, -np.inf, 0.0]))
    array([0.5, 0. , 0.5])
    """
    weights = np.exp(log_weights - log_weights.max(axis=-1, keepdims=True))
    normalised: Array = weights / weights.sum(axis=-1, keepdims=True)
    return normalised


def greedy(predictions: Array, eligible: Bools | None = None) -> Array:
    """Return ballots (…, N, K): each expert votes for its best eligible arm, and tied
    arms share the vote.

    NaN means no prediction for an arm. An expert without a prediction for any eligible
    arm casts no vote (a row of 0).

    >>> greedy(np.array([[0.2, 0.9, 0.9], [np.nan, 0.1, 0.0]]))
    array([[0. , 0.5, 0.5],
           [0. , 1. , 0. ]])
    """
    if eligible is None:
        arms_first = predictions.swapaxes(-1, -2)
        top = np.maximum.reduce(arms_first, axis=-2, keepdims=True)
        best = arms_first == top
        # Fast path for the common case without ties and NaN.
        if np.count_nonzero(best) == top.size == np.count_nonzero(top == top):
            return np.asarray(best, dtype=np.float64).swapaxes(-1, -2)
    else:
        predictions = np.where(eligible[..., None, :], predictions, np.nan)
    best = predictions == np.fmax.reduce(predictions, axis=-1, keepdims=True)
    ties = np.add.reduce(best, axis=-1, keepdims=True)
    ballots: Array = best / np.maximum(ties, 1)
    return ballots


def asleep(predictions: Array, eligible: Bools | None = None) -> bool:
    """Return whether some expert has no prediction (NaN) for some eligible arm.

    >>> asleep(np.array([[0.2, np.nan]]))
    True
    >>> asleep(np.array([[0.2, np.nan]]), np.array([True, False]))
    False
    """
    if eligible is None and predictions.size:
        # The minimum is NaN if any number is NaN, and takes half the time of isnan.
        lowest = np.minimum.reduce(predictions, axis=None)
        return bool(lowest != lowest)
    missing = np.isnan(predictions)
    if eligible is not None:
        missing = missing & eligible[..., None, :]
    return bool(missing.any())


def mix(
    log_weights: Array,
    ballots: Array,
    gamma: Real,
    eligible: Bools | None = None,
    uniform: Array | None = None,
) -> Array:
    """Return Pr(a) = (1 - γ) Σ_i w_i ballot_i(a) / Σ_i w_i + γ / K over the eligible
    arms (…, K); Li 2013, Alg. 1.

    The sums run over the experts that cast a vote. If none of them has weight, the
    propensities are uniform. `uniform` (…, K) replaces 1 / K if bounds do not allow it.

    >>> mix(np.log([0.75, 0.25]), np.array([[1.0, 0.0], [0.0, 1.0]]), 0.1)
    array([0.725, 0.275])
    """
    # Make the array contiguous: another memory layout changes the order of summation,
    # and thus the last bit.
    ballots = np.ascontiguousarray(ballots)
    is_one_row = log_weights.ndim == 1 and ballots.ndim == 2
    tally = np.dot if is_one_row else np.vecmat
    votes = tally(np.exp(log_weights), ballots)
    total = np.add.reduce(votes, axis=-1, keepdims=votes.ndim > 1)
    n_arms = ballots.shape[-1]
    if eligible is not None:
        n_arms = np.add.reduce(eligible, axis=-1, keepdims=True)
    has_weight = total > FAINT
    all_have_weight = has_weight
    if votes.ndim != 1:
        all_have_weight = has_weight.all()
    if not all_have_weight:
        fallback = uniform
        if fallback is None:
            fallback = 1 / n_arms if eligible is None else eligible / n_arms
        faint_votes, faint_total = _faint_votes(log_weights, ballots, fallback)
        # Replace only rows whose total is too small, so that a batch equals its rows
        # one by one.
        votes = np.where(has_weight, votes, faint_votes)
        total = np.where(has_weight, total, faint_total)
    if not isinstance(gamma, float):
        gamma = np.asarray(gamma)[..., None]
    odds: Array = votes * ((1 - gamma) / total)
    if uniform is not None:
        odds += gamma * uniform
    elif eligible is not None:
        odds += gamma / n_arms * eligible
    else:
        odds += gamma / n_arms
    return odds


def even(n_arms: int, eligible: Bools | None, uniform: Array | None = None) -> Array:
    """Return the distribution of exploration (…, K): `uniform` if given, otherwise 1 /
    K over the eligible arms.

    >>> even(3, np.array([True, False, True]))
    array([0.5, 0. , 0.5])
    """
    if uniform is not None:
        return uniform
    mask = eligible
    if mask is None:
        mask = np.ones(n_arms, dtype=np.bool_)
    shares: Array = mask / mask.sum(axis=-1, keepdims=True)
    return shares


def vote(
    log_weights: Array, predictions: Array, gamma: Real, eligible: Bools | None = None
) -> tuple[Array, bool]:
    """Return the propensities (…, K) of experts that vote greedily, and whether some
    expert has no prediction for some arm.

    >>> vote(np.log([0.75, 0.25]), np.array([[0.9, 0.1], [0.2, 0.7]]), 0.1)
    (array([0.725, 0.275]), False)
    """
    compiled = kernels.compiled()
    if compiled is not None and isinstance(gamma, float | np.ndarray):
        result: tuple[Array, bool] | None = compiled.vote(
            log_weights, predictions, gamma, eligible
        )
        if result is not None:
            return result
    odds = mix(log_weights, greedy(predictions, eligible), gamma, eligible)
    return odds, asleep(predictions, eligible)


def awake_weights(log_weights: Array, ballots: Array) -> Array:
    """Return the weights of the vote (…, N), normalised over the experts that cast one,
    0 for the others.

    All are zero if no expert with a vote has weight.
    """
    heard = np.where(ballots.any(axis=-1), log_weights, -np.inf)
    weights = np.exp(heard - _finite_top(heard))
    total = weights.sum(axis=-1, keepdims=True)
    normalised: Array = weights / np.where(total > 0, total, 1.0)
    return normalised


def charge(factors: Array, log_weights: Array, asleep: Bools) -> Array:
    """Return log factors (…, N) in which experts without a prediction get the mix of
    the others (docs/math 5.12).

        ln Σ_{i awake} w_i exp(factor_i) - ln Σ_{i awake} w_i,
        w = the weights the decision was drawn with

    With the weights at decision time, the result does not depend on the order in which
    rewards arrive. If no expert with a prediction has weight, all factors are zero, and
    the reward does not change the weights.

    >>> charge(np.array([-1.0, 0.0]), np.array([-3.0, 0.0]), np.array([False, True]))
    array([-1., -1.])
    """
    before = np.where(asleep, -np.inf, log_weights)
    after = before + np.where(asleep, 0.0, factors)
    had_weight = before.max(axis=-1) > -np.inf
    lost_all = after.max(axis=-1) == -np.inf
    if (had_weight & lost_all).any():
        raise AllExpertsRefuted(_REFUTED)
    shift = _finite_top(before)
    shift_after = _finite_top(after)
    total = np.exp(before - shift).sum(axis=-1, keepdims=True)
    total_after = np.exp(after - shift_after).sum(axis=-1, keepdims=True)
    is_heard = total > 0
    log_total = np.log(np.where(is_heard, total, 1.0))
    log_total_after = np.log(np.where(is_heard, total_after, 1.0))
    mean = log_total_after - log_total + shift_after - shift
    charged = np.where(asleep, mean, factors)
    return np.where(is_heard, charged, 0.0)


def discount(log_weights: Array, log_prior: Array, rate: float) -> Array:
    """Return d ln w + (1 - d) ln p for a rate d in (0, 1). Every earlier reward counts
    d times as much (docs/math 5.9).

    The result is not relative to the leader; `reweigh` corrects this. A weight of zero
    stays zero.

    >>> np.exp(discount(np.log([1.0, 0.25]), np.log([0.5, 0.5]), 0.5)).round(3)
    array([0.707, 0.354])
    """
    return rate * log_weights + (1 - rate) * log_prior


def reweigh(log_weights: Array, factors: Array) -> Array:
    """Return ln w + factor, relative to the leader. Zero weights stay zero.

    >>> reweigh(np.array([0.0, -1.0]), np.array([-3.0, 0.0]))
    array([-2.,  0.])
    """
    heavier = log_weights + factors
    if heavier.ndim == 1:
        top = heavier[heavier.argmax()]
        is_finite = -np.inf < top < np.inf
    else:
        top = np.maximum.reduce(heavier, axis=-1, keepdims=True)
        is_finite = np.isfinite(top).all()
    if not is_finite:
        if np.any(top == np.inf):
            raise OutOfDomain("loss must be above -inf for every prediction; got -inf")
        raise AllExpertsRefuted(_REFUTED)
    heavier -= top
    return heavier


def share(log_weights: Array, log_prior: Array, alpha: float) -> Array:
    """Return ln((1 - α) wbar + α p), fixed share towards the prior (docs/math 5.9),
    relative to the leader.

    >>> np.exp(share(np.array([0.0, -np.inf]), np.log([0.5, 0.5]), 0.2)).round(3)
    array([1.   , 0.111])
    """
    log_total = np.log(np.exp(log_weights).sum(axis=-1, keepdims=True))
    own = np.log1p(-alpha) + log_weights - log_total
    of_prior = np.log(alpha) + log_prior
    shared = np.logaddexp(own, of_prior)
    relative: Array = shared - shared.max(axis=-1, keepdims=True)
    return relative


FAINT = 1e-290  # a smaller total of weights loses digits, or underflows to 0
_REFUTED = (
    "the reward has probability zero under every expert with weight and a "
    "prediction; clip predictions away from 0 and 1"
)


def _faint_votes(
    log_weights: Array, ballots: Array, uniform: Real
) -> tuple[Array, Array]:
    """Return votes and totals if the weights of the voting experts underflow, or none
    of them has weight."""
    votes = np.vecmat(awake_weights(log_weights, ballots), ballots)
    total = np.add.reduce(votes, axis=-1, keepdims=True)
    votes = np.where(total > 0, votes, uniform)
    return votes, np.where(total > 0, total, 1.0)


def _finite_top(log_weights: Array) -> Array:
    """Return the largest log weight (…, 1), or 0 if all of them are -inf."""
    top = log_weights.max(axis=-1, keepdims=True)
    return np.where(np.isfinite(top), top, 0.0)
