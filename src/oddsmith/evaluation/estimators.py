"""Estimators: functions from a log, a target's odds and a reward model's predictions to terms, one per row.

With w = π(a)/p(a) of the drawn arm, q = predictions (T, K) of the mean rewards, q(π) = Σ_a π(a) q(a):

    ips          w r                            unbiased if the logger can draw whatever the target draws
    snips        Σ w r / Σ w                    nearly unbiased, does not care for the scale of w
    clipped_ips  min(w, M) r                    low
    dm           q(π)                           as good as the model
    dr           q(π) + w (r - q)               unbiased
    switch_dr    q(π) + w 1[w ≤ τ] (r - q)      the model alone where weights are large
    shrunk_dr    q(π) + λw/(w² + λ) (r - q)     optimistic shrinkage

Rows without a reward are left out: whether it is missing must not depend on what it would have been.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from oddsmith.arrays import Array, finite, number
from oddsmith.errors import InvalidInput
from oddsmith.evaluation.rows import Rows, rewarded, rows_of
from oddsmith.evaluation.terms import Bets, Drawn, Extremes, Terms, heaviest
from oddsmith.evaluation.tuning import Shrinkage, chosen, clipped, optimistic, switched
from oddsmith.logs.table import Log

__all__ = ["clipped_ips", "dm", "dr", "ips", "logged", "shrunk_dr", "snips", "switch_dr"]


def ips(log: Log, target: object) -> Terms:
    """Inverse propensity scoring, w r; unbiased if p > 0 wherever π > 0 (Horvitz and Thompson 1952).

    >>> log = Log(arm=[0, 1], reward=[1, 1], propensities=[[0.5, 0.5], [0.8, 0.2]])
    >>> ips(log, [0.5, 0.5]).values
    array([1. , 2.5])
    """
    rows = rows_of(log, target)
    weights = rows.weights()
    values = weights * rows.reward
    bets = Bets(values, weights - values, 0.0, 1.0)
    return _terms("ips", rows, values, weights=weights, bets=bets, extremes=partial(_extremes, rows, _as_it_is))


def snips(log: Log, target: object) -> Terms:
    """Self-normalised IPS, R = Σ w r / Σ w; terms R + w (r - R) / mean(w), whose mean is R.

    Their spread is the delta method's (Swaminathan and Joachims 2015). Biased by O(1/T), within [0, 1], and shifted by
    as much as all rewards are.
    """
    rows = rows_of(log, target)
    weights = rows.weights()
    mean = weights.mean()
    if mean == 0:
        raise InvalidInput("snips needs a row whose arm the target would draw; got none: all weights are 0")
    value = float(weights @ rows.reward / weights.sum())
    values = value + weights * (rows.reward - value) / mean
    constant = np.full(len(weights), value), np.full(rows.target.shape, value)
    extremes = partial(_extremes, rows, lambda w: w / mean, *constant)
    return _terms("snips", rows, values, weights=weights, ratio=True, extremes=extremes)


def clipped_ips(log: Log, target: object, threshold: float | None = None) -> Terms:
    """min(w, M) r with the threshold M given, or chosen by the least estimated mean squared error (`tuning`).

    Its mean is at most the value, and at most E[(w - M)+] below it (Ionides 2008; Bottou et al. 2013).
    """
    return _shrunk("clipped_ips", rows_of(log, target), clipped, threshold)


def dm(log: Log, target: object, predictions: object, *, beforehand: bool = False) -> Terms:
    """The direct method, q(π) = Σ_a π(a) q(a): needs no propensities, and inherits every error of the model."""
    rows = rows_of(log, target)
    predicted = _predictions(rows, predictions)
    values = (rows.target * predicted).sum(axis=1)
    return _terms("dm", rows, values, modelled=True, beforehand=beforehand, unbiased=False, reach=0.0)


def dr(log: Log, target: object, predictions: object, *, beforehand: bool = False) -> Terms:
    """Doubly robust, q(π) + w (r - q(a)): unbiased, with the variance of what the model leaves (Dudík et al. 2011).

    Applies when each row's predictions do not depend on its own reward: `cross_fit` sees to it. Bernstein and anytime
    intervals need more: `beforehand` says that a model of earlier rows made them, before these rows.
    """
    rows = rows_of(log, target)
    weights, predicted = rows.weights(), _predictions(rows, predictions)
    base, residual = _modelled(rows, predicted)
    extremes = partial(_extremes, rows, _as_it_is, base, predicted)
    make = partial(_terms, "dr", rows, base + weights * residual, weights=weights, modelled=True)
    return make(beforehand=beforehand, extremes=extremes)


def switch_dr(
    log: Log, target: object, predictions: object, tau: float | None = None, *, beforehand: bool = False
) -> Terms:
    """q(π) + w 1[w ≤ τ] (r - q(a)): the model alone where w exceeds τ, given or chosen (Wang et al. 2017)."""
    return replace(_shrunk("switch_dr", rows_of(log, target), switched, tau, predictions), beforehand=beforehand)


def shrunk_dr(
    log: Log, target: object, predictions: object, strength: float | None = None, *, beforehand: bool = False
) -> Terms:
    """q(π) + λw/(w² + λ) (r - q(a)), optimistic shrinkage with λ = strength, given or chosen (Su et al. 2020).

    λ = ∞ is dr, λ = 0 is dm.
    """
    return replace(_shrunk("shrunk_dr", rows_of(log, target), optimistic, strength, predictions), beforehand=beforehand)


def logged(log: Log) -> Terms:
    """The rewards as they are: the value of the logger itself, to compare targets with; needs no propensities."""
    rewards = rewarded(log).reward
    bets = Bets(rewards, 1.0 - rewards, 0.0, 1.0)
    drawn = Drawn(None, np.ones(len(rewards)), rewards)
    return Terms("logged", rewards, np.zeros(len(rewards)), bets=bets, reach=1.0, drawn=drawn)


def _shrunk(
    name: str, rows: Rows, shrinkage: Shrinkage, setting: float | None, predictions: object | None = None
) -> Terms:
    """Terms base + shrunk weight × residual; without predictions the base is 0 and the residual is the reward."""
    weights, modelled = rows.weights(), predictions is not None
    base, residual, predicted = np.zeros(len(rows.arm)), rows.reward, None
    if modelled:
        predicted = _predictions(rows, predictions)
        base, residual = _modelled(rows, predicted)
    if setting is not None and setting != np.inf:
        number(shrinkage.symbol, setting, low=0, high=np.inf)
    found = chosen(shrinkage, rows, base, residual) if setting is None else setting
    values = base + shrinkage.shrink(weights, found) * residual
    reach = np.inf if setting is None else shrinkage.reach(setting)
    extremes = partial(_extremes, rows, lambda w: shrinkage.shrink(w, found), base if modelled else None, predicted)
    make = partial(_terms, name, rows, values, weights=weights, modelled=modelled, tuned=setting is None)
    whole = None
    if setting is None:
        unshrunk = partial(_extremes, rows, _as_it_is, base if modelled else None, predicted)
        whole = _terms(name, rows, base + weights * residual, weights=weights, modelled=modelled, extremes=unshrunk)
    return make(setting=found, unbiased=setting == np.inf, reach=reach, extremes=extremes, whole=whole)


def _modelled(rows: Rows, predicted: Array) -> tuple[Array, Array]:
    """q(π) and r - q(a), both (T,)."""
    return (rows.target * predicted).sum(axis=1), rows.reward - rows.drawn(predicted)


def _as_it_is(weights: Array) -> Array:
    return weights


def _extremes(
    rows: Rows, shrink: Callable[[Array], Array], base: Array | None = None, predicted: Array | None = None
) -> Extremes:
    """base + ŵ (r - q) for rewards 1 and 0: of all arms where their odds are logged, else of the drawn ones."""
    ratios, odds = rows.ratios(), rows.propensities
    if ratios is None or odds is None:
        shrunk, odds = shrink(rows.weights()), np.ones(len(rows.arm))
        q = np.zeros(len(rows.arm)) if predicted is None else rows.drawn(predicted)
        start = np.zeros(len(rows.arm)) if base is None else base
    else:
        shrunk, q = shrink(ratios), np.zeros_like(ratios) if predicted is None else predicted
        start = np.zeros((len(rows.arm), 1)) if base is None else base[:, None]
    return Extremes(start + shrunk * (1.0 - q), start - shrunk * q, odds)


def _predictions(rows: Rows, predictions: object) -> Array:
    found = finite("predictions", predictions, ndim=2)
    expected = (len(rows.known), rows.target.shape[1])
    if found.shape != expected:
        raise InvalidInput(f"predictions must be mean rewards of all arms, shape {expected}; got {found.shape}")
    if found.min() < 0 or found.max() > 1:
        raise InvalidInput(f"predictions must be in [0, 1] like rewards; got {found.min():g} to {found.max():g}")
    return found[rows.known]


def _terms(name: str, rows: Rows, values: Array, weights: Array | None = None, **more: Any) -> Terms:
    """The terms with what the log says about the target; `more` are fields of `Terms`."""
    squares, most, drawn = None, None, None
    if weights is not None and rows.propensities is not None and (ratios := rows.ratios()) is not None:
        squares, most = (rows.target * ratios).sum(axis=1), heaviest(ratios, rows.propensities)
    elif weights is not None and more.get("unbiased", True):
        drawn = Drawn(np.where(rows.barred(), 0.0, rows.target), weights, rows.reward)
    least = None if weights is None else rows.least()
    support: Any = {"expected_squares": squares, "heaviest": most, "least": least}
    return Terms(name, values, rows.missing(), weights, drawn=drawn, **support, **more)
