"""Compiled kernels (numba) for hot loops of decisions and weights; `core.kernels`
decides whether they are used.

Arrays are passed with the arm axis outermost in memory, (…, K, N), so that the inner
loop over experts is contiguous and vectorised. Results are written into arrays of the
caller, because returning an array takes numba 0.4 us. For inputs that a kernel does not
support it returns None, and the numpy function computes the result.
"""

from functools import lru_cache
from typing import TypeVar

import numpy as np
import numpy.typing as npt
from numba import njit

from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.kernels import SQUARE
from oddsmith.core.weights import FAINT, greedy, mix
from oddsmith.experts.kernels.bounds import fill
from oddsmith.experts.kernels.regression import (
    add_products,
    add_row,
    believe_arms,
    believe_rows,
    curves,
    learn_both,
    learn_row,
    standardise,
    subtract_sums,
)
from oddsmith.experts.kernels.vectormath import exp, exp_ratio, log, log1p

__all__ = [
    "add_products",
    "add_row",
    "believe_arms",
    "believe_rows",
    "curves",
    "fill",
    "learn_both",
    "learn_row",
    "logistic",
    "pick",
    "reweigh",
    "reweigh_rows",
    "standardise",
    "subtract_sums",
    "vote",
    "vote_logistic",
]

Scalar = TypeVar("Scalar", bound=np.generic)
# Experts per block, so that their predictions are still in the cache when they vote.
_STRIP = 512


def vote(
    log_weights: Array, predictions: Array, gamma: Real, eligible: Bools | None
) -> tuple[Array, bool] | None:
    """Compiled version of `weights.vote`. Return None if no vote has representable
    weight."""
    n_arms = predictions.shape[-1]
    mask = _mask(n_arms) if eligible is None else eligible
    is_one_row = predictions.ndim == 2 and log_weights.ndim == 1 and mask.ndim == 1
    if not is_one_row or not isinstance(gamma, float):
        return _vote_rows(log_weights, predictions, gamma, mask)
    arms_first = predictions.T
    if not predictions.flags.f_contiguous:
        arms_first = np.ascontiguousarray(arms_first)
    odds = np.empty(n_arms)
    asleep, total = _vote(log_weights, arms_first, gamma, mask, odds)
    if total > FAINT:
        return (odds, asleep)
    return None


def _vote_rows(
    log_weights: Array, predictions: Array, gamma: Real, mask: Bools
) -> tuple[Array, bool]:
    """Compute `vote` for a batch. Rows in which no vote has representable weight are
    left to numpy, so that a row gets the same propensities in a batch as on its own."""
    n_experts, n_arms = predictions.shape[-2:]
    lead = np.broadcast_shapes(
        log_weights.shape[:-1],
        predictions.shape[:-2],
        mask.shape[:-1],
        np.shape(gamma),
    )
    weight_rows = _rows(np.broadcast_to(log_weights, (*lead, n_experts)), 1)
    by_arm = np.swapaxes(predictions, -1, -2)
    arm_rows = _rows(np.broadcast_to(by_arm, (*lead, n_arms, n_experts)), 2)
    gammas = _rows(np.broadcast_to(np.asarray(gamma, np.float64), lead), 0)
    masks = _rows(np.broadcast_to(mask, (*lead, n_arms)), 1)
    odds = np.empty((len(gammas), n_arms))
    totals = np.empty(len(gammas))
    asleep = _vote_all(weight_rows, arm_rows, gammas, masks, odds, totals)
    faint = ~(totals > FAINT)
    if faint.any():
        own_masks = masks[faint]
        ballots = greedy(arm_rows[faint].swapaxes(-1, -2), own_masks)
        odds[faint] = mix(weight_rows[faint], ballots, gammas[faint], own_masks)
    return odds.reshape((*lead, n_arms)), asleep


def vote_logistic(
    log_weights: Array, features: Array, columns: Array, gamma: float
) -> tuple[Array, Array, bool] | None:
    """Do `Experts.advise_and_mix` for logistic experts in one call. Return None if an
    expert makes no prediction.

    `features` (K, d) are multiplied by the experts' columns (d, N); with weights per
    arm, (d,) are multiplied by columns (d, K · N).
    """
    if features.ndim == 1:
        arms_first = (features @ columns).reshape(-1, log_weights.size)
        n_arms = len(arms_first)
        odds = np.empty(n_arms)
        asleep, total = _vote_scores(
            log_weights, gamma, _mask(n_arms), arms_first, odds
        )
    else:
        n_arms = len(features)
        arms_first = np.empty((n_arms, log_weights.size), columns.dtype)
        odds = np.empty(n_arms)
        asleep, total = _vote_logistic(
            log_weights, features, columns, gamma, _mask(n_arms), arms_first, odds
        )
    if asleep or not total > FAINT:
        return None
    return arms_first.T, odds, False


def reweigh(
    log_weights: Array, advice: Array, reward: float, eta: float, loss: int
) -> Array | None:
    """Return ln w - eta · loss(advice, reward), relative to the leader, or None if the
    numpy code must handle the case."""
    heavier = np.empty_like(log_weights)
    top = _reweigh(log_weights, advice, reward, eta, loss, heavier)
    if -np.inf < top < np.inf:
        return heavier
    return None


def reweigh_rows(
    log_weights: Array, advice: Array, rewards: Array, eta: float, loss: int
) -> tuple[Array, Bools]:
    """Do `reweigh` for each row of a batch (…, N), and return for which rows it
    succeeded (…)."""
    heavier = np.empty(log_weights.shape)
    tops = np.empty(rewards.shape)
    rows = _rows(log_weights, 1)
    advice_rows = _rows(advice, 1)
    heavier_rows = _rows(heavier, 1)
    _reweigh_all(
        rows, advice_rows, rewards.ravel(), eta, loss, heavier_rows, tops.ravel()
    )
    return heavier, np.isfinite(tops)


@lru_cache(maxsize=64)
def _mask(n_arms: int) -> Bools:
    """Return a mask of n_arms entries, all True."""
    return np.ones(n_arms, dtype=np.bool_)


def _rows(array: npt.NDArray[Scalar], axes: int) -> npt.NDArray[Scalar]:
    """Flatten the leading axes of the array into one, and make it contiguous."""
    lead = array.ndim - axes
    shape = (-1, *array.shape[lead:])
    return np.ascontiguousarray(array).reshape(shape)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _squash(row: Array) -> None:
    """Compute 1 / (1 + exp(-s)) in place on a contiguous row; s is limited to the range
    in which its type can represent the result."""
    bound = 708.0 if row.itemsize == 8 else 87.0
    for i in range(row.size):
        score = row[i]
        above, below = exp_ratio(min(max(-score, -bound), bound))
        y = below / (below + above)  # one division instead of two
        row[i] = y if score == score else score


@njit(cache=True)  # type: ignore[untyped-decorator]
def logistic(scores: Array) -> None:
    """Compute 1 / (1 + exp(-s)) in place on a contiguous array of any shape."""
    _squash(scores.ravel())


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _share(
    weight: float, best: float, predictions: Array, eligible: Bools, votes: Array
) -> None:
    """Split one expert's weight over its tied best arms."""
    ties = 0
    for k in range(votes.size):
        ties += eligible[k] and predictions[k] == best
    for k in range(votes.size):
        if eligible[k] and predictions[k] == best:
            votes[k] += weight / ties


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _tally(
    log_weights: Array,
    predictions: Array,
    eligible: Bools,
    votes: Array,
    start: int,
    stop: int,
) -> bool:
    """Add the weights of experts start … stop to the arms they vote for. Return whether
    an expert lacks a prediction.

        votes_k += w_i ballot_i(k),   w_i = exp(log_weights_i)
    """
    size = stop - start
    best = np.full(size, -np.inf)
    second = np.full(size, -np.inf)
    known = np.zeros(size)  # NaN marks an expert without prediction
    arm = np.zeros(size, np.int64)
    weight = np.empty(size)
    # Use slices: loops over plain indices vectorise, loops over start + i do not.
    strip = log_weights[start:stop]
    for i in range(size):
        weight[i] = exp(strip[i])
    for k in range(votes.size):
        if eligible[k]:
            row = predictions[k, start:stop]
            for i in range(size):
                new = row[i]
                old = best[i]
                # Comparisons with NaN are false, so NaN is never best or second.
                lower = old if new > old else new
                known[i] += new
                second[i] = lower if lower > second[i] else second[i]
                arm[i] = k if new > old else arm[i]
                best[i] = new if new > old else old
    asleep = False
    for i in range(size):
        asleep |= known[i] != known[i]
        if best[i] > second[i]:
            votes[arm[i]] += weight[i]
        else:
            _share(weight[i], best[i], predictions[:, start + i], eligible, votes)
    return asleep


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _mix(gamma: float, eligible: Bools, odds: Array) -> float:
    """Turn votes into propensities in place; return the total of the votes.

    odds_k = (1 - γ) votes_k / Σ votes + γ eligible_k / Σ eligible
    """
    total = 0.0
    n_eligible = 0
    for k in range(odds.size):
        total += odds[k]
        n_eligible += eligible[k]
    for k in range(odds.size):
        voted = (1.0 - gamma) * (odds[k] / total)
        odds[k] = voted + gamma * (eligible[k] / n_eligible)
    return total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _vote(
    log_weights: Array, predictions: Array, gamma: float, eligible: Bools, odds: Array
) -> tuple[bool, float]:
    odds[:] = 0.0
    asleep = False
    for start in range(0, log_weights.size, _STRIP):
        stop = min(start + _STRIP, log_weights.size)
        asleep |= _tally(log_weights, predictions, eligible, odds, start, stop)
    return asleep, _mix(gamma, eligible, odds)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _vote_scores(
    log_weights: Array,
    gamma: float,
    eligible: Bools,
    predictions: Array,
    odds: Array,
) -> tuple[bool, float]:
    """Compute the vote of logistic experts, and turn their scores into predictions in
    place."""
    odds[:] = 0.0
    asleep = False
    for start in range(0, log_weights.size, _STRIP):
        stop = min(start + _STRIP, log_weights.size)
        for k in range(odds.size):
            _squash(predictions[k, start:stop])
        asleep |= _tally(log_weights, predictions, eligible, odds, start, stop)
    return asleep, _mix(gamma, eligible, odds)


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _vote_logistic(
    log_weights: Array,
    features: Array,
    columns: Array,
    gamma: float,
    eligible: Bools,
    predictions: Array,
    odds: Array,
) -> tuple[bool, float]:
    np.dot(features, columns, predictions)
    asleep, total = _vote_scores(log_weights, gamma, eligible, predictions, odds)
    return asleep, total


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _vote_all(
    log_weights: Array,
    predictions: Array,
    gammas: Array,
    eligible: Bools,
    odds: Array,
    totals: Array,
) -> bool:
    asleep = False
    for row in range(log_weights.shape[0]):
        slept, totals[row] = _vote(
            log_weights[row], predictions[row], gammas[row], eligible[row], odds[row]
        )
        asleep |= slept
    return asleep


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def pick(propensities: Array, uniform: float) -> int:
    """Compiled version of `draw.pick` for one row: return the first arm whose
    cumulative propensity exceeds uniform · total."""
    total = 0.0
    for k in range(propensities.size):
        total += propensities[k]
    threshold = uniform * total
    cumulative = 0.0
    last = 0
    for k in range(propensities.size):
        cumulative += propensities[k]
        if cumulative > threshold:
            return k
        last = k if propensities[k] > 0.0 else last
    return last


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _reweigh(
    log_weights: Array,
    advice: Array,
    reward: float,
    eta: float,
    loss: int,
    heavier: Array,
) -> float:
    """Write the new log weights. Return their maximum before the shift, or NaN if any
    loss is NaN or negative.

        heavier_i = ln w_i - η ℓ(advice_i, reward) - max_j (…)
    """
    size = log_weights.size
    if loss == SQUARE:
        for i in range(size):
            difference = advice[i] - reward
            heavier[i] = difference * difference
    elif reward == 1.0:
        for i in range(size):
            heavier[i] = -log(advice[i])
    elif reward == 0.0:
        for i in range(size):
            heavier[i] = -log1p(-advice[i])
    else:
        for i in range(size):
            log_hit = log(advice[i])
            log_miss = log1p(-advice[i])
            heavier[i] = -(reward * log_hit + (1.0 - reward) * log_miss)
    top = -np.inf
    worst = 0.0
    for i in range(size):
        worst = worst if heavier[i] >= 0.0 else np.nan
        heavier[i] = log_weights[i] - eta * heavier[i]
        top = max(top, heavier[i])
    for i in range(size):
        heavier[i] -= top
    return top + worst


@njit(cache=True, error_model="numpy")  # type: ignore[untyped-decorator]
def _reweigh_all(
    log_weights: Array,
    advice: Array,
    rewards: Array,
    eta: float,
    loss: int,
    heavier: Array,
    tops: Array,
) -> None:
    for row in range(log_weights.shape[0]):
        own = log_weights[row]
        new = heavier[row]
        tops[row] = _reweigh(own, advice[row], rewards[row], eta, loss, new)
