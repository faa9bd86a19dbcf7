"""EpisodicPolicy: the base class of policies for episodes, and the posterior over
members given the actions so far."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real
from oddsmith.core.contexts import as_array, short_repr
from oddsmith.core.decision import Context, Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.explanation import Explanation
from oddsmith.core.names import numbered_arms
from oddsmith.core.policy import Policy

__all__ = ["Behaviour", "EpisodicPolicy", "Members", "at", "explain_members"]


class Members(NamedTuple):
    """Posterior over the members of which one plays this episode: N policies, and one
    member that draws actions uniformly.

    `log_weights` (…, N) are the log weights of the policies plus the log probability of
    the actions so far under each. `uniform` (…) is the posterior probability of the
    uniform member given the same actions. `step` counts the finished steps.
    """

    log_weights: Array
    uniform: Array
    step: int

    def odds(self, q: Array, eligible: Bools | None = None) -> Array:
        """Return the propensities (…, K) of the next action: each policy votes for the
        actions with its largest Q (…, N, K), and the uniform member votes for all
        actions equally."""
        uniform: Real = self.uniform
        # At the first step, the uniform member has the same probability in all rows.
        # The compiled kernels need this probability as a float.
        if self.step == 0 or self.uniform.ndim == 0:
            uniform = float(self.uniform.flat[0])
        propensities, _ = weights.vote(self.log_weights, q, uniform, eligible)
        return propensities

    def after(self, q: Array, action: Ints, eligible: Bools | None = None) -> "Members":
        """Return the members after one more step, in which this action (…) was drawn.

        By Bayes' rule a policy's weight is multiplied by its probability of the action.
        The share γ_h of the uniform member becomes γ_h / K over (1 - γ_h) Σ_i v_i
        Pr_i(a) + γ_h / K, where v are the normalised weights of the policies.

        >>> even = Members(np.zeros(2), np.array(0.2), 0)
        >>> even.after(np.array([[0.9, 0.1], [0.3, 0.4]]), np.array(0)).uniform
        array(0.2)
        """
        ballots = weights.greedy(q, eligible)
        index = action[..., None, None]
        of_actions = np.take_along_axis(ballots, index, axis=-1)
        likelihoods = of_actions[..., 0]
        with np.errstate(divide="ignore"):
            log_weights = self.log_weights + np.log(likelihoods)
        top = log_weights.max(axis=-1, keepdims=True)
        shift = np.where(np.isfinite(top), top, 0.0)
        log_weights = log_weights - shift
        voting = weights.awake_weights(self.log_weights, ballots)
        likelihood = (voting * likelihoods).sum(axis=-1)
        by_policies = (1 - self.uniform) * likelihood
        n_eligible = q.shape[-1]
        if eligible is not None:
            n_eligible = eligible.sum(axis=-1)
        by_uniform = self.uniform / n_eligible
        total = by_policies + by_uniform
        is_possible = total > 0
        # If no member would have drawn the action, it was drawn by exploration.
        safe_total = np.where(is_possible, total, 1.0)
        share = np.where(is_possible, by_uniform / safe_total, 1.0)
        return Members(log_weights, np.asarray(share), self.step + 1)

    def mass(self) -> Array:
        """Return the probability (…, N + 1) of each policy and, last, of the uniform
        member."""
        uniform = self.uniform[..., None]
        policies = (1 - uniform) * weights.posterior(self.log_weights)
        return np.concatenate([policies, uniform], axis=-1)


class Behaviour(NamedTuple):
    """The policies (…, M, H, S, K) of an episode, and the probability `mass` (…, M) of
    drawing each."""

    mass: Array
    policies: Array


class EpisodicPolicy(Policy):
    """Base class of policies whose contexts are states 0 … S-1, visited one after the
    other in episodes of H steps.

    Call `update` after every step and before the next `odds`, because propensities are
    given the episode so far. After the last step, the next episode begins. Call `end`
    if an episode ends earlier. All rows of a batch are at the same step.
    """

    horizon: int
    n_states: int
    n_actions: int

    def end(self, state: State, context: Context = None) -> State:
        """Return the state after an episode that ended early, in the state `context`
        (None if it is unknown or not a state)."""
        self._lacks("end", "its episodes all have the same length")

    def behaviour(self, state: State) -> Behaviour:
        """Return the policies of the episode that begins in this state, for exact
        regret."""
        self._lacks("behaviour", "it provides only propensities")

    def states(self, context: Context, shape: tuple[int, ...]) -> Ints:
        """Return the context as checked states with batch axes `shape`, or with any
        axes if that is ()."""
        states = as_array(context)
        is_whole = states.dtype.kind in "iu" and states.size > 0
        is_state = is_whole and states.min() >= 0
        is_state = is_state and states.max() < self.n_states
        fits = not shape or states.ndim == 0 or states.shape == shape
        if not is_state or not fits:
            batch = ""
            if shape:
                batch = f", of shape {shape}"
            raise InvalidInput(
                f"context must be a state 0 … {self.n_states - 1}{batch}; got "
                f"{short_repr(context)}"
            )
        return np.broadcast_to(states, shape or states.shape).astype(np.int64)

    def action_of(self, decision: Decision, shape: tuple[int, ...]) -> Ints:
        """Return the number of the drawn action, with batch axes `shape`."""
        number = np.asarray(decision.number, dtype=np.int64)
        return np.broadcast_to(number, shape).copy()


def at(table: Array, step: int, states: Ints) -> Any:
    """Return table[…, step, s, …] (…, N, K) of a table (…, N, H, S, K) with or without
    the batch axes of `states`."""
    rows = table[..., step, :, :]
    if rows.ndim == 3:
        return np.moveaxis(rows[:, states, :], 0, -2)
    n_actions = rows.shape[-1]
    shape = (*rows.shape[:-2], 1, n_actions)
    index = np.broadcast_to(states[..., None, None, None], shape)
    return np.take_along_axis(rows, index, axis=-2)[..., 0, :]


def explain_members(
    members: Members,
    q: Array,
    eligible: Bools | None,
    *,
    names: Sequence[str],
    posterior: Array,
    propensities: Array,
) -> Explanation:
    """Explain the propensities by the members' plans and weights. The weight is 0 if a
    member would have acted differently so far."""
    n_actions = q.shape[-1]
    ballots = weights.greedy(q, eligible)
    can_act = eligible
    if can_act is None:
        can_act = np.ones(n_actions, dtype=np.bool_)
    uniform = members.uniform[..., None] * can_act
    uniform = uniform / can_act.sum(axis=-1, keepdims=True)
    return Explanation(
        names,
        numbered_arms(n_actions),
        posterior,
        weights=weights.awake_weights(members.log_weights, ballots),
        predictions=q,
        ballots=ballots,
        uniform=uniform,
        propensities=propensities,
    )
