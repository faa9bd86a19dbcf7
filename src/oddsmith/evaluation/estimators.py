"""Estimators: functions from a log, a target's odds and a reward model's predictions to
terms, one per row.

With w = π(a)/p(a) of the drawn arm, q = predictions (T, K) of the mean rewards, q(π) =
Σ_a π(a) q(a):

    ips          w r                            unbiased if the logger can draw
                                                whatever the target draws
    snips        Σ w r / Σ w                    nearly unbiased, does not depend
                                                on the scale of w
    clipped_ips  min(w, M) r                    low
    dm           q(π)                           as good as the model
    dr           q(π) + w (r - q)               unbiased
    switch_dr    q(π) + w 1[w ≤ τ] (r - q)      the model alone where weights are large
    shrunk_dr    q(π) + λw/(w² + λ) (r - q)     optimistic shrinkage

Rows without a reward are left out: whether it is missing must not depend on what it
would have been.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, finite, number
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.rows import Rows, rewarded, rows_at, rows_of
from oddsmith.evaluation.slates import slates_of
from oddsmith.evaluation.terms import Bets, Drawn, Extremes, Terms
from oddsmith.logs.rules import drawn_entries
from oddsmith.logs.table import Log

__all__ = [
    "Shrinkage",
    "chosen",
    "clipped",
    "clipped_ips",
    "dm",
    "dr",
    "ips",
    "logged",
    "optimistic",
    "shrunk_dr",
    "snips",
    "switch_dr",
    "switched",
]

_CANDIDATES = 32


class Shrinkage(NamedTuple):
    """A way to shrink weights: `shrink(setting, w)`, the largest shrunk weight, and
    candidates made from weights."""

    symbol: str
    shrink: Callable[[float, Array], Array]
    reach: Callable[[float], float]
    scale: Callable[[Array], Array]


clipped = Shrinkage("threshold", np.minimum, lambda m: m, lambda w: w)
switched = Shrinkage(
    "tau", lambda tau, w: np.where(w <= tau, w, 0.0), lambda tau: tau, lambda w: w
)
optimistic = Shrinkage(
    "strength",
    lambda s, w: w / (1.0 + w**2 / s) if s > 0 else np.zeros_like(w),
    lambda s: float(np.sqrt(s)) / 2,
    lambda w: w**2,
)


def chosen(shrinkage: Shrinkage, rows: Rows, base: Array, residual: Array) -> float:
    """The setting with the least estimated mean squared error of base + ŵ residual.

        Var(terms) / T + min(B, |mean d| + sd(d)/√T)²,   d = (w - ŵ) residual

    The second part bounds the bias: d is what shrinking takes away, estimated with one
    standard error on top; B is its largest size, the mean of w - ŵ (as |residual| ≤ 1),
    by the logged odds of all arms where they are there. Candidates are 32 quantiles of
    the weights (squared, for optimistic shrinkage) and ∞, which is no shrinkage.
    """
    weights, ratios = rows.weights, rows.ratios
    positive, shares = weights[weights > 0], 1 - np.geomspace(1e-4, 1, _CANDIDATES)
    quantiles = np.unique(np.quantile(positive, shares)) if positive.size else positive
    candidates, errors = np.append(shrinkage.scale(quantiles), np.inf), []
    for setting in candidates:
        shrunk = shrinkage.shrink(setting, weights)
        lost = (weights - shrunk) * residual
        estimated = abs(lost.mean()) + lost.std() / np.sqrt(len(lost))
        bias = min(
            _largest_bias(shrinkage, setting, rows.target, ratios, weights - shrunk),
            float(estimated),
        )
        errors.append((base + shrunk * residual).var() / len(lost) + bias**2)
    return float(candidates[int(np.argmin(errors))])


def _largest_bias(
    shrinkage: Shrinkage,
    setting: float,
    target: Array,
    ratios: Array | None,
    lost: Array,
) -> float:
    """The mean of w - ŵ: over the draws, or exactly where the odds of all arms are
    logged."""
    if ratios is None:
        return float(lost.mean())
    kept = np.divide(
        shrinkage.shrink(setting, ratios),
        ratios,
        out=np.zeros_like(ratios),
        where=ratios > 0,
    )
    return float((target * (1 - kept)).sum(axis=1).mean())


def ips(log: Log, target: object) -> Terms:
    """Inverse propensity scoring, w r; unbiased if p > 0 wherever π > 0 (Horvitz and
    Thompson 1952).

    >>> log = Log(arm=[0, 1], reward=[1, 1], propensities=[[0.5, 0.5], [0.8, 0.2]])
    >>> ips(log, [0.5, 0.5]).values
    array([1. , 2.5])
    """
    rows = rows_of(log, target)
    gain = rows.weights * rows.reward
    return _weighted(
        "ips",
        rows,
        _constant(rows, 0.0),
        bets=Bets(gain, rows.weights - gain, 0.0, 1.0),
    )


def snips(log: Log, target: object) -> Terms:
    """Self-normalised IPS, R = Σ w r / Σ w; terms R + w (r - R) / mean(w), whose mean
    is R.

    Their spread is the delta method's (Swaminathan and Joachims 2015). Biased by
    O(1/T), within [0, 1], and shifted by as much as all rewards are.
    """
    rows = rows_of(log, target)
    mean = rows.weights.mean()
    if mean == 0:
        raise InvalidInput(
            "snips needs a row whose arm the target would draw; got none: all weights "
            "are 0"
        )
    value = float(rows.weights @ rows.reward / rows.weights.sum())
    return _weighted(
        "snips",
        rows,
        _constant(rows, value),
        partial(np.multiply, 1 / mean),
        ratio=True,
    )


def clipped_ips(log: Log, target: object, threshold: float | None = None) -> Terms:
    """min(w, M) r with the threshold M given, or chosen by the least estimated mean
    squared error (`tuning`).

    Its mean is at most the value, and at most E[(w - M)+] below it (Ionides 2008;
    Bottou et al. 2013).
    """
    rows = rows_of(log, target)
    return _shrunk("clipped_ips", rows, _constant(rows, 0.0), clipped, threshold)


def dm(
    log: Log, target: object, predictions: object, *, beforehand: bool = False
) -> Terms:
    """The direct method, q(π) = Σ_a π(a) q(a): needs no propensities, and inherits
    every error of the model."""
    rows = rows_of(log, target)
    values = _model(rows, predictions).base
    about: Any = {
        "modelled": True,
        "beforehand": beforehand,
        "unbiased": False,
        "reach": 0.0,
    }
    return Terms("dm", values, rows.missing, slates=rows.slates, **about)


def dr(
    log: Log, target: object, predictions: object, *, beforehand: bool = False
) -> Terms:
    """Doubly robust, q(π) + w (r - q(a)): unbiased, with the variance of what the model
    leaves (Dudík et al. 2011).

    Applies when each row's predictions do not depend on its own reward: `cross_fit`
    sees to it. Bernstein and anytime intervals need more: `beforehand` says that a
    model of earlier rows made them, before these rows.
    """
    rows = rows_of(log, target)
    return _weighted(
        "dr", rows, _model(rows, predictions), modelled=True, beforehand=beforehand
    )


def switch_dr(
    log: Log,
    target: object,
    predictions: object,
    tau: float | None = None,
    *,
    beforehand: bool = False,
) -> Terms:
    """q(π) + w 1[w ≤ τ] (r - q(a)): the model alone where w exceeds τ, given or chosen
    (Wang et al. 2017)."""
    rows = rows_of(log, target)
    about: Any = {"modelled": True, "beforehand": beforehand}
    return _shrunk("switch_dr", rows, _model(rows, predictions), switched, tau, **about)


def shrunk_dr(
    log: Log,
    target: object,
    predictions: object,
    strength: float | None = None,
    *,
    beforehand: bool = False,
) -> Terms:
    """q(π) + λw/(w² + λ) (r - q(a)), optimistic shrinkage with λ = strength, given or
    chosen (Su et al. 2020).

    λ = ∞ is dr, λ = 0 is dm.
    """
    rows = rows_of(log, target)
    about: Any = {"modelled": True, "beforehand": beforehand}
    return _shrunk(
        "shrunk_dr", rows, _model(rows, predictions), optimistic, strength, **about
    )


def logged(log: Log) -> Terms:
    """The rewards as they are: the value of the logger itself, to compare targets with;
    needs no propensities."""
    known = rewarded(log)
    rewards = known.reward
    bets = Bets(rewards, 1.0 - rewards, 0.0, 1.0)
    own = Drawn(None, np.ones(len(rewards)), rewards)
    about: Any = {"bets": bets, "reach": 1.0, "drawn": own, "slates": slates_of(known)}
    return Terms("logged", rewards, np.zeros(len(rewards)), **about)


class _Model(NamedTuple):
    """What a term is made of beside its weight: a base (T,), predictions q (T, K), and
    r - q of the drawn arms (T,)."""

    base: Array
    predictions: Array
    residual: Array


def _constant(rows: Rows, value: float) -> _Model:
    """The same prediction for all arms of all rows."""
    table = np.broadcast_to(value, rows.target.shape)
    return _Model(table[:, 0], table, rows.reward - value)


def _model(rows: Rows, predictions: object) -> _Model:
    """A reward model, checked; its base is q(π)."""
    table = finite("predictions", predictions, ndim=2)
    expected = (len(rows.known), rows.target.shape[1])
    if table.shape != expected:
        raise InvalidInput(
            f"predictions must be mean rewards of all arms, shape {expected}; got "
            f"{table.shape}"
        )
    if table.min() < 0 or table.max() > 1:
        raise InvalidInput(
            f"predictions must be in [0, 1] like rewards; got {table.min():g} to "
            f"{table.max():g}"
        )
    table = rows_at(table, rows.known)
    return _Model(
        (rows.target * table).sum(axis=1),
        table,
        rows.reward - drawn_entries(table, rows.arm),
    )


def _shrunk(
    name: str,
    rows: Rows,
    model: _Model,
    shrinkage: Shrinkage,
    setting: float | None,
    **about: Any,
) -> Terms:
    """Terms with shrunk weights, by a setting that is given, or chosen and then with
    the unshrunk terms beside it."""
    if setting is None:
        best = chosen(shrinkage, rows, model.base, model.residual)
        more: Any = {
            "tuned": True,
            "reach": np.inf,
            "whole": _weighted(name, rows, model, **about),
        }
    else:
        best = (
            setting
            if setting == np.inf
            else number(shrinkage.symbol, setting, low=0, high=np.inf)
        )
        more = {"reach": shrinkage.reach(setting)}
    shrink = partial(shrinkage.shrink, best)
    return _weighted(
        name,
        rows,
        model,
        shrink,
        setting=best,
        unbiased=setting == np.inf,
        **more,
        **about,
    )


def _weighted(
    name: str,
    rows: Rows,
    model: _Model,
    shrink: Callable[[Array], Array] = np.positive,
    **more: Any,
) -> Terms:
    """Terms base + ŵ (r - q), with what the log says about the target; `more` are
    fields of `Terms`."""
    values, alone = model.base + shrink(rows.weights) * model.residual, None
    if rows.propensities is None and more.get("unbiased", True):
        alone = Drawn(rows.drawable, rows.weights, rows.reward)
    support: Any = {
        "expected_squares": rows.expected_squares,
        "heaviest": rows.heaviest,
        "ceiling": rows.ceiling,
        "rounding": rows.rounding,
        "least": rows.least,
    }
    support["slates"] = rows.slates
    extremes = partial(_extremes, rows, model, shrink)
    return Terms(
        name,
        values,
        rows.missing,
        rows.weights,
        drawn=alone,
        extremes=extremes,
        **support,
        **more,
    )


def _extremes(rows: Rows, model: _Model, shrink: Callable[[Array], Array]) -> Extremes:
    """base + ŵ (r - q) for rewards 1 and 0: of all arms where their odds are logged,
    else of the drawn ones."""
    if rows.ratios is None or rows.propensities is None:
        base, q, odds = (
            model.base,
            drawn_entries(model.predictions, rows.arm),
            np.ones(len(rows.arm)),
        )
        shrunk = shrink(rows.weights)
    else:
        base, q, odds = model.base[:, None], model.predictions, rows.propensities
        shrunk = shrink(rows.ratios)
    return Extremes(base + shrunk * (1.0 - q), base - shrunk * q, odds)
