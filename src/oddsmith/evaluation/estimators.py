"""Estimators: functions of a log, a target's propensities and a reward model's
predictions that return one term per row.

With w = π(a)/p(a) of the drawn arm, q = predictions (T, K) of the mean rewards, and
q(π) = Σ_a π(a) q(a):

    ips          w r                            unbiased if the logging policy can
                                                draw all arms of the target
    snips        Σ w r / Σ w                    nearly unbiased, does not depend
                                                on the scale of w
    clipped_ips  min(w, M) r                    biased downwards
    dm           q(π)                           as good as the model
    dr           q(π) + w (r - q)               unbiased
    switch_dr    q(π) + w 1[w ≤ τ] (r - q)      only the model if the weight is large
    shrunk_dr    q(π) + λw/(w² + λ) (r - q)     optimistic shrinkage

Rows without a reward are left out. Whether a reward is missing must not depend on its
value.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, finite, number
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.rows import Rows, all_odds, rewarded_rows, rows_of
from oddsmith.evaluation.slates import slates_of
from oddsmith.evaluation.terms import Bets, DrawnOdds, Extremes, PolicyRows, Terms
from oddsmith.logs.rules import drawn_entries
from oddsmith.logs.table import Log

__all__ = [
    "CLIPPING",
    "OPTIMISTIC",
    "SWITCHING",
    "Shrinkage",
    "best_setting",
    "clipped_ips",
    "dm",
    "dr",
    "ips",
    "logged",
    "shrunk_dr",
    "snips",
    "switch_dr",
]

_CANDIDATES = 32


class Shrinkage(NamedTuple):
    """A way to shrink weights: the function `shrink(setting, w)`, the largest shrunk
    weight, and candidate settings."""

    symbol: str
    shrink: Callable[[float, Array], Array]
    reach: Callable[[float], float]
    scale: Callable[[Array], Array]


CLIPPING = Shrinkage(
    symbol="threshold",
    shrink=np.minimum,
    reach=lambda threshold: threshold,
    scale=lambda w: w,
)
SWITCHING = Shrinkage(
    symbol="tau",
    shrink=lambda tau, w: np.where(w <= tau, w, 0.0),
    reach=lambda tau: tau,
    scale=lambda w: w,
)
OPTIMISTIC = Shrinkage(
    symbol="strength",
    shrink=lambda s, w: w / (1.0 + w**2 / s) if s > 0 else np.zeros_like(w),
    reach=lambda s: float(np.sqrt(s)) / 2,
    scale=lambda w: w**2,
)


def best_setting(
    shrinkage: Shrinkage, rows: Rows, base: Array, residual: Array
) -> float:
    """Return the setting for which the estimate, the mean of base + ŵ residual, has the
    smallest estimated mean squared error.

        Var(terms) / T + min(B, |mean d| + sd(d)/√T)²,   d = (w - ŵ) residual

    The second part bounds the bias by the mean of d, which is what shrinking removes,
    plus one standard error. B is the largest possible bias, the mean of w - ŵ, because
    |residual| ≤ 1; it is computed from the propensities of all arms if they are logged.
    Candidates are 32 quantiles of the weights (squared, for optimistic shrinkage) and
    ∞, which means no shrinkage.
    """
    weights = rows.weights
    n = len(weights)
    quantiles = weights[weights > 0]
    if quantiles.size:
        shares = 1 - np.geomspace(1e-4, 1, _CANDIDATES)
        quantiles = np.unique(np.quantile(quantiles, shares))
    candidates = np.append(shrinkage.scale(quantiles), np.inf)
    errors = []
    for setting in candidates:
        shrunk = shrinkage.shrink(setting, weights)
        difference = weights - shrunk
        lost = difference * residual
        noise = lost.std() / np.sqrt(n)
        likely_bias = float(abs(lost.mean()) + noise)
        bias = min(_largest_bias(shrinkage, setting, rows, difference), likely_bias)
        variance = (base + shrunk * residual).var() / n
        errors.append(variance + bias**2)
    return float(candidates[int(np.argmin(errors))])


def _largest_bias(
    shrinkage: Shrinkage, setting: float, rows: Rows, difference: Array
) -> float:
    """Return the mean of w - ŵ. It is exact if the propensities of all arms are logged,
    otherwise it is estimated from the drawn arms."""
    ratios = rows.ratios
    if ratios is None:
        return float(difference.mean())
    shrunk = shrinkage.shrink(setting, ratios)
    zeros = np.zeros_like(ratios)
    factors = np.divide(shrunk, ratios, out=zeros, where=ratios > 0)
    lost_mass = (rows.target * (1 - factors)).sum(axis=1)
    return float(lost_mass.mean())


def ips(log: Log, target: object) -> Terms:
    """Inverse propensity scoring, w r. It is unbiased if p > 0 wherever π > 0 (Horvitz
    and Thompson 1952).

    >>> log = Log(arm=[0, 1], reward=[1, 1], propensities=[[0.5, 0.5], [0.8, 0.2]])
    >>> ips(log, [0.5, 0.5]).values
    array([1. , 2.5])
    """
    rows = rows_of(log, target)
    gain = rows.weights * rows.reward
    bets = Bets(gain, rows.weights - gain, 0.0, 1.0)
    policy_rows = PolicyRows(
        arm=rows.arm,
        reward=rows.reward,
        propensity=rows.propensity,
        odds=rows.propensities,
        target=rows.target,
        barred=None if rows.propensities is not None else rows.barred,
    )
    model = _constant(rows, 0.0)
    return _weighted("ips", rows, model, bets=bets, policy_rows=policy_rows)


def snips(log: Log, target: object) -> Terms:
    """Self-normalised IPS, R = Σ w r / Σ w. The terms are R + w (r - R) / mean(w), and
    their mean is R.

    The standard deviation of the terms is that of the delta method (Swaminathan and
    Joachims 2015). The estimate has a bias of O(1/T) and lies within [0, 1]. If a
    constant is added to all rewards, it changes by the same constant.
    """
    rows = rows_of(log, target)
    weights = rows.weights
    mean = weights.mean()
    if mean == 0:
        raise InvalidInput(
            "snips needs a row whose arm the target would draw; got none: all weights "
            "are 0"
        )
    gain = weights @ rows.reward
    value = float(gain / weights.sum())
    shrink = partial(np.multiply, 1 / mean)
    return _weighted("snips", rows, _constant(rows, value), shrink, ratio=True)


def clipped_ips(log: Log, target: object, threshold: float | None = None) -> Terms:
    """Clipped IPS, min(w, M) r. The threshold M is given, or chosen by the smallest
    estimated mean squared error (`best_setting`).

    The estimate is on average at most the value, and at most E[(w - M)+] below it
    (Ionides 2008; Bottou et al. 2013).
    """
    rows = rows_of(log, target)
    return _shrunk("clipped_ips", rows, _constant(rows, 0.0), CLIPPING, threshold)


def dm(
    log: Log, target: object, predictions: object, *, beforehand: bool = False
) -> Terms:
    """Direct method, q(π) = Σ_a π(a) q(a). It needs no propensities, but any bias of
    the reward model is a bias of the estimate."""
    rows = rows_of(log, target)
    return Terms(
        "dm",
        _model(rows, predictions).base,
        rows.missing,
        reach=0.0,
        modelled=True,
        beforehand=beforehand,
        unbiased=False,
        slates=rows.slates,
    )


def dr(
    log: Log, target: object, predictions: object, *, beforehand: bool = False
) -> Terms:
    """Doubly robust estimator, q(π) + w (r - q(a)): unbiased, with the variance of the
    model's residuals (Dudík et al. 2011).

    The predictions for a row must not depend on its own reward; those of `cross_fit` do
    not. Bernstein and anytime intervals need predictions that were made before the
    rows, by a model fitted to earlier rows (`beforehand=True`).
    """
    rows = rows_of(log, target)
    model = _model(rows, predictions)
    return _weighted("dr", rows, model, modelled=True, beforehand=beforehand)


def switch_dr(
    log: Log,
    target: object,
    predictions: object,
    tau: float | None = None,
    *,
    beforehand: bool = False,
) -> Terms:
    """Switch-DR, q(π) + w 1[w ≤ τ] (r - q(a)): only the model if w exceeds τ, which is
    given or chosen (Wang et al. 2017)."""
    rows = rows_of(log, target)
    model = _model(rows, predictions)
    about: Any = {"modelled": True, "beforehand": beforehand}
    return _shrunk("switch_dr", rows, model, SWITCHING, tau, **about)


def shrunk_dr(
    log: Log,
    target: object,
    predictions: object,
    strength: float | None = None,
    *,
    beforehand: bool = False,
) -> Terms:
    """Doubly robust with optimistic shrinkage, q(π) + λw/(w² + λ) (r - q(a)), where λ =
    strength is given or chosen (Su et al. 2020).

    λ = ∞ is dr, λ = 0 is dm.
    """
    rows = rows_of(log, target)
    model = _model(rows, predictions)
    about: Any = {"modelled": True, "beforehand": beforehand}
    return _shrunk("shrunk_dr", rows, model, OPTIMISTIC, strength, **about)


def logged(log: Log) -> Terms:
    """Return the rewards as terms, whose mean is the value of the logging policy. No
    propensities are needed."""
    known = rewarded_rows(log)
    rewards = known.reward
    n = len(rewards)
    drawn = DrawnOdds(None, np.ones(n), rewards)
    bets = Bets(rewards, 1.0 - rewards, 0.0, 1.0)
    policy_rows = PolicyRows(
        arm=known.arm,
        reward=rewards,
        propensity=known.propensity,
        odds=all_odds(known),
        target=None,
        barred=None,
    )
    return Terms(
        "logged",
        rewards,
        np.zeros(n),
        bets=bets,
        reach=1.0,
        drawn=drawn,
        slates=slates_of(known),
        policy_rows=policy_rows,
    )


class _Model(NamedTuple):
    """The parts of a term besides its weight: a base (T,), predictions q (T, K), and r
    - q of the drawn arms (T,)."""

    base: Array
    predictions: Array
    residual: Array


def _constant(rows: Rows, value: float) -> _Model:
    """Return a model that predicts the same value for all arms of all rows."""
    table = np.broadcast_to(value, rows.target.shape)
    return _Model(table[:, 0], table, rows.reward - value)


def _model(rows: Rows, predictions: object) -> _Model:
    """Check the predictions, and return them as a reward model whose base is q(π)."""
    table = finite("predictions", predictions, ndim=2)
    n = len(rows.known)
    arms = rows.target.shape[1]
    expected = (n, arms)
    if table.shape != expected:
        raise InvalidInput(
            f"predictions must be mean rewards of all arms, shape {expected}; got "
            f"{table.shape}"
        )
    if table.min() < 0 or table.max() > 1:
        least = table.min()
        most = table.max()
        raise InvalidInput(
            f"predictions must be in [0, 1] like rewards; got {least:g} to {most:g}"
        )
    if not rows.known.all():
        table = table[rows.known]
    residual = rows.reward - drawn_entries(table, rows.arm)
    base = (rows.target * table).sum(axis=1)
    return _Model(base, table, residual)


def _shrunk(
    name: str,
    rows: Rows,
    model: _Model,
    shrinkage: Shrinkage,
    setting: float | None,
    **about: Any,
) -> Terms:
    """Return terms with shrunk weights. If the setting is not given, choose it, and add
    the terms without shrinkage."""
    if setting is None:
        best = best_setting(shrinkage, rows, model.base, model.residual)
        unshrunk = _weighted(name, rows, model, **about)
        about |= {"tuned": True, "reach": np.inf, "whole": unshrunk}
    else:
        best = setting
        if setting != np.inf:
            best = number(shrinkage.symbol, setting, low=0, high=np.inf)
        about["reach"] = shrinkage.reach(setting)
    shrink = partial(shrinkage.shrink, best)
    return _weighted(
        name,
        rows,
        model,
        shrink,
        setting=best,
        unbiased=setting == np.inf,
        **about,
    )


def _weighted(
    name: str,
    rows: Rows,
    model: _Model,
    shrink: Callable[[Array], Array] = np.positive,
    **more: Any,
) -> Terms:
    """Return terms base + ŵ (r - q), with the fields of `Terms` that the log
    determines. `more` are further fields."""
    drawn = None
    if rows.propensities is None and more.get("unbiased", True):
        drawn = DrawnOdds(rows.drawable, rows.weights, rows.reward)
    extremes = partial(_extremes, rows, model, shrink)
    values = model.base + shrink(rows.weights) * model.residual
    return Terms(
        name,
        values,
        rows.missing,
        weights=rows.weights,
        expected_squares=rows.expected_squares,
        heaviest=rows.heaviest,
        ceiling=rows.ceiling,
        rounding=rows.rounding,
        least=rows.least,
        extremes=extremes,
        drawn=drawn,
        slates=rows.slates,
        **more,
    )


def _extremes(rows: Rows, model: _Model, shrink: Callable[[Array], Array]) -> Extremes:
    """Return base + ŵ (r - q) for rewards 1 and 0: for all arms if their propensities
    are logged, otherwise for the drawn arms."""
    if rows.ratios is None or rows.propensities is None:
        base = model.base
        q = drawn_entries(model.predictions, rows.arm)
        shrunk = shrink(rows.weights)
        odds = np.ones(len(rows.arm))
    else:
        base = model.base[:, None]
        q = model.predictions
        shrunk = shrink(rows.ratios)
        odds = rows.propensities
    rewarded = base + shrunk * (1.0 - q)
    return Extremes(rewarded, base - shrunk * q, odds)
