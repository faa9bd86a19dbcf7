"""EpisodicPolicy: what policies for episodes share, and the members of an episode given
what it has seen."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints
from oddsmith.core.contexts import as_array, short_repr
from oddsmith.core.decision import Context, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.policy import Policy

__all__ = ["Behaviour", "EpisodicPolicy", "Members", "at"]


class Members(NamedTuple):
    """The members that may be playing this episode: N policies and one that draws
    actions uniformly, and its steps.

    `log_weights` (…, N) are those of the policies, times the probability of the actions
    so far under each; `uniform` (…) is the share of the uniform member given the same
    actions. `step` counts the steps that are done.
    """

    log_weights: Array
    uniform: Array
    step: int

    def odds(self, q: Array, eligible: Bools | None = None) -> Array:
        """The odds (…, K) of the next action: policies vote for their best Q (…, N, K),
        the uniform member for all."""
        # a float is what compiled twins take
        alike = self.step == 0 or self.uniform.ndim == 0
        uniform = float(self.uniform.flat[0]) if alike else self.uniform
        return weights.vote(self.log_weights, q, uniform, eligible)[0]

    def after(self, q: Array, action: Ints, eligible: Bools | None = None) -> "Members":
        """The members after one more step, in which this action (…) was drawn.

        Bayes' rule: a policy's weight is multiplied by its probability of the action,
        and γ_h, the share of the uniform member, becomes γ_h / K over (1 - γ_h) Σ_i v_i
        Pr_i(a) + γ_h / K, where v are the policies' weights, normalised.

        >>> even = Members(np.zeros(2), np.array(0.2), 0)
        >>> even.after(np.array([[0.9, 0.1], [0.3, 0.4]]), np.array(0)).uniform
        array(0.2)
        """
        ballots = weights.greedy(q, eligible)
        drawn = np.take_along_axis(ballots, action[..., None, None], axis=-1)[..., 0]
        with np.errstate(divide="ignore"):
            heavier = self.log_weights + np.log(drawn)
        top = heavier.max(axis=-1, keepdims=True)
        heavier = heavier - np.where(np.isfinite(top), top, 0.0)
        mine = (weights.awake_weights(self.log_weights, ballots) * drawn).sum(axis=-1)
        blind = self.uniform / (
            q.shape[-1] if eligible is None else eligible.sum(axis=-1)
        )
        total = (1 - self.uniform) * mine + blind
        # no member would have done it: only a uniform one is left
        share = np.where(total > 0, blind / np.where(total > 0, total, 1.0), 1.0)
        return Members(heavier, np.asarray(share), self.step + 1)


class Behaviour(NamedTuple):
    """What is played from here on, an episode long: policies (…, M, H, S, K), drawn
    with probability `mass` (…, M)."""

    mass: Array
    policies: Array


class EpisodicPolicy(Policy):
    """A policy whose contexts are states 0 … S-1, met one after the other, H steps an
    episode; name it as base.

    `update` comes after every step and before the next `odds`: the odds of a step are
    given the episode so far. After the last step the next episode begins; `end` ends
    one that is shorter. All rows of a batch are at the same step.
    """

    horizon: int
    n_states: int
    n_actions: int

    def end(self, state: State, context: Context = None) -> State:
        """The state after an episode that ended early, in the state `context` (None: it
        is not known, or no state)."""
        self._lacks("end", "its episodes all have the same length")

    def behaviour(self, state: State) -> Behaviour:
        """The policies of the episode that begins in this state, for exact regret."""
        self._lacks("behaviour", "its odds are all there is")

    def states(self, context: Context, shape: tuple[int, ...]) -> Ints:
        """The context as states, checked: with batch axes `shape`, or any where that is
        ()."""
        index = as_array(context)
        wrong = (
            index.dtype.kind not in "iu"
            or index.size == 0
            or index.min() < 0
            or index.max() >= self.n_states
        )
        if wrong or (shape and index.ndim and index.shape != shape):
            batch = f", of shape {shape}" if shape else ""
            raise InvalidInput(
                f"context must be a state 0 … {self.n_states - 1}{batch}; got "
                f"{short_repr(context)}"
            )
        return np.broadcast_to(index, shape or index.shape).astype(np.int64)


def at(table: Array, step: int, states: Ints) -> Any:
    """table[…, step, s, …] (…, N, K) of a table (…, N, H, S, K) with the batch axes of
    `states`, or without."""
    rows = table[..., step, :, :]
    if rows.ndim == 3:
        return np.moveaxis(rows[:, states, :], 0, -2)
    index = np.broadcast_to(
        states[..., None, None, None], (*rows.shape[:-2], 1, rows.shape[-1])
    )
    return np.take_along_axis(rows, index, axis=-2)[..., 0, :]
