"""Estimate values of policies from logged episodes, by per-decision importance weights
with intervals over episodes."""

from collections.abc import Iterable
from functools import partial

import numpy as np

from oddsmith.core.arrays import Array, finite
from oddsmith.core.errors import InvalidInput
from oddsmith.evaluation.intervals import Estimate, estimate
from oddsmith.evaluation.terms import Bets, Extremes, Terms
from oddsmith.lab.episodes.log import EpisodeLog, action_odds

__all__ = ["estimate_return", "per_decision", "step_weights"]


def step_weights(log: EpisodeLog, target: object) -> Array:
    """Return cumulative importance weights (E, H): the products ρ_1 … ρ_h, where ρ_h is
    the target's probability of the action divided by the logged propensity.

    The target has probabilities (H, S, K), or (S, K) for all steps. After the end of an
    episode the weight stays constant.

    >>> log = EpisodeLog([[0, 1]], [[1, 0]], [[0, 1]], [[[0.5, 0.5], [0.8, 0.2]]])
    >>> step_weights(log, [[0.25, 0.75], [0.4, 0.6]])
    array([[1.5 , 0.75]])
    """
    odds = action_odds(_target_odds(log, target), log.actions)
    ratios = np.where(log.is_played, odds / log.drawn_odds, 1.0)
    return np.asarray(np.cumprod(ratios, axis=1))


def per_decision(log: EpisodeLog, target: object) -> Terms:
    """Return Σ_h ρ_{1:h} r_h / H of each episode. The mean is an unbiased estimate of
    the target's mean reward per step.

    The weight of a reward includes only the actions up to it (Precup, Sutton and Singh
    2000). The value of an episode is H times the estimate. It is valid for any logging
    policy whose propensities given the episode so far are logged and which could draw
    all actions of the target; otherwise the rule `overlap` refuses. A `floor`, for
    intervals that need one, is the smallest probability that the logging policy can
    give to all actions of an episode together.

    >>> log = EpisodeLog([[0, 1]], [[1, 0]], [[0, 1]], [[[0.5, 0.5], [0.8, 0.2]]])
    >>> per_decision(log, [[0.25, 0.75], [0.4, 0.6]]).values
    array([0.375])
    """
    horizon = log.horizon
    weights = step_weights(log, target)
    gain = (weights * log.rewards).sum(axis=1) / horizon
    loss = (weights * (1 - log.rewards)).sum(axis=1) / horizon
    # Per step, the target's probability of actions that the logging policy could not
    # draw.
    is_impossible = log.propensities <= 0
    missing_odds = (_target_odds(log, target) * is_impossible).sum(axis=-1)
    unsupported = missing_odds * log.is_played
    ones = np.ones((len(log), 1))
    earlier_weights = np.concatenate([ones, weights[:, :-1]], axis=1)
    missing = (earlier_weights * unsupported).sum(axis=1)
    least = log.drawn_odds.prod(axis=1).min()
    bets = Bets(gain, loss, 0.0, 1.0)
    return Terms(
        name="per-decision",
        values=gain,
        missing=np.asarray(missing),
        weights=weights[:, -1],
        least=float(least),
        bets=bets,
        extremes=partial(_extremes, weights),
    )


def estimate_return(
    log: EpisodeLog,
    target: object,
    *,
    level: float = 0.95,
    interval: str = "anytime",
    overrule: Iterable[str] = (),
) -> Estimate:
    """Estimate the target's expected return of an episode, with an interval over
    episodes, or raise a refusal.

    The return is between 0 and H. The default interval bets on episodes, in their
    order: it is valid for any weights, after any number of episodes, and for logging
    policies that learn.

    >>> states = np.zeros((400, 1), dtype=int)
    >>> actions = np.tile([[0], [1]], (200, 1))
    >>> log = EpisodeLog(states, actions, 1.0 - actions, np.full((400, 1, 2), 0.5))
    >>> print(estimate_return(log, [[0.5, 0.5]]))
    per-decision: 0.5 in [0.4046, 0.5954] (0.95 anytime: at every row at once, for ...
    which may drift)
    """
    terms = per_decision(log, target)
    per_step = estimate(terms, level=level, interval=interval, overrule=overrule)
    return per_step._replace(
        value=log.horizon * per_step.value,
        low=log.horizon * per_step.low,
        high=log.horizon * per_step.high,
    )


def _extremes(weights: Array) -> Extremes:
    """Return the terms of the drawn episodes if all rewards were 1, and if all were
    0."""
    rewarded = weights.mean(axis=1)
    return Extremes(rewarded, np.zeros_like(rewarded), np.ones_like(rewarded))


def _target_odds(log: EpisodeLog, target: object) -> Array:
    """Return the target's probabilities (E, H, K) in the states of the log."""
    table = finite("target", target)
    horizon = log.horizon
    n_actions = log.propensities.shape[2]
    if table.ndim == 2:
        table = np.broadcast_to(table, (horizon, *table.shape))
    if table.ndim != 3 or table.shape[0] != horizon or table.shape[2] != n_actions:
        raise InvalidInput(
            "target must be probabilities (steps, states, actions), or (states, "
            f"actions), of {horizon} steps and {n_actions} actions; got shape "
            f"{table.shape}"
        )
    if (table < 0).any() or not (np.abs(table.sum(axis=-1) - 1) <= 1e-9).all():
        raise InvalidInput(
            "target must be probabilities that sum to 1 in every state; in some "
            "states they do not"
        )
    if log.states.min() < 0 or log.states.max() >= table.shape[1]:
        raise InvalidInput(
            f"target must have all states of the log, up to {log.states.max()}; got "
            f"{table.shape[1]}"
        )
    return np.asarray(table[np.arange(horizon), log.states])
