"""TabularPosteriorSampling: posteriors of all rewards and transitions of a tabular
world. For each episode, M models are drawn from them."""

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number, whole
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.expert_policy import check_eligible
from oddsmith.core.explanation import Explanation
from oddsmith.lab.episodes.model import Stack, plan
from oddsmith.lab.episodes.policy import (
    Behaviour,
    EpisodicPolicy,
    Members,
    at,
    explain_members,
)

__all__ = ["CountState", "TabularPosteriorSampling"]


class CountState(NamedTuple):
    """Counts of transitions (…, S, K, S), sums of rewards and of 1 - rewards (…, S, K),
    and the models drawn for this episode.

    `q` (…, M, H, S, K) contains the plans of the drawn models; `place` and `action` (…)
    are the last state and action.
    """

    moves: Array
    wins: Array
    losses: Array
    learnt: int
    q: Array
    members: Members
    place: Ints
    action: Ints
    episodes: int


class _Counts(NamedTuple):
    """Counts of transitions (…, S, K, S), sums of rewards and of 1 - rewards (…, S,
    K)."""

    moves: Array
    wins: Array
    losses: Array


@dataclass(frozen=True, eq=False)
class TabularPosteriorSampling(EpisodicPolicy):
    """Posterior sampling (PSRL) with M drawn models, in a world whose rewards and
    transitions are the same at every step.

        P(· | s, a) ~ Dirichlet(α + η n(s, a, ·))
        r(s, a) ~ Beta(wins + η Σ r, losses + η Σ (1 - r))

    At the beginning of an episode M models are drawn, determined by `seed` and the
    number of the episode, and planned; each is equally likely. **The propensities are
    exact for these draws**: each action is recorded with its true propensity, and over
    seeds the actions are distributed as in posterior sampling. They differ from the
    propensities under the posterior itself by about 1/√M. `eta` = 1 is Bayes' rule.
    `gamma` is the probability of drawing all actions of an episode uniformly.

    >>> policy = TabularPosteriorSampling(2, 2, horizon=3, draws=4, gamma=0.0)
    >>> policy.odds(policy.init(), 0).propensities
    array([0.75, 0.25])
    """

    n_states: int
    n_actions: int
    _: KW_ONLY
    horizon: int
    draws: int = 16
    seed: int = 0
    eta: float = 1.0
    gamma: float = 0.02
    alpha: float = 1.0
    wins: float = 1.0
    losses: float = 1.0

    def __post_init__(self) -> None:
        for name in ("n_states", "n_actions", "horizon", "draws"):
            whole(name, getattr(self, name))
        whole("seed", self.seed, low=0, high=2**63 - 1)
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=0, high=1))
        for name in ("eta", "alpha", "wins", "losses"):
            number(name, getattr(self, name), low=0, high=1e12, open_low=True)

    @property
    def explores(self) -> bool:
        return self.gamma > 0

    def init(self, shape: tuple[int, ...] = ()) -> CountState:
        """Return the prior, with the models drawn for the first episode."""
        cells = (*shape, self.n_states, self.n_actions)
        moves = np.zeros((*cells, self.n_states))
        counts = _Counts(moves, wins=np.zeros(cells), losses=np.zeros(cells))
        return self._begin(counts, learnt=0, episodes=0)

    def _begin(self, counts: _Counts, learnt: int, episodes: int) -> CountState:
        """Return the state at the beginning of an episode, with its drawn models."""
        shape = counts.wins.shape[:-2]
        nowhere = np.zeros(shape, dtype=np.int64)
        log_weights = np.zeros((*shape, self.draws))
        members = Members(log_weights, np.full(shape, self.gamma), 0)
        return CountState(
            counts.moves,
            counts.wins,
            counts.losses,
            learnt,
            q=self._draw_plans(counts, episodes),
            members=members,
            place=nowhere,
            action=nowhere,
            episodes=episodes,
        )

    def _draw_plans(self, counts: _Counts, episodes: int) -> Array:
        """Return the plans (…, M, H, S, K) of M models from the posterior. The seed and
        the counts determine them."""
        rng = np.random.default_rng([self.seed, episodes])
        # The axis of draws comes before the axis of states.
        axis = counts.wins.ndim - 2
        copies = []
        for part in counts:
            expanded = np.expand_dims(part, axis)
            copies.append(np.repeat(expanded, self.draws, axis=axis))
        models = self._draw_models(rng, _Counts._make(copies))
        return plan(models.rewards, models.transitions).q

    def _draw_models(self, rng: np.random.Generator, counts: _Counts) -> Stack:
        """Draw rewards (…, H, S, K) and transitions (…, H, S, K, S) for each index of
        the counts' leading axes. They are the same at each of the H steps."""
        a = self.wins + self.eta * counts.wins
        b = self.losses + self.eta * counts.losses
        rewards = rng.beta(a, b)
        transitions = self._draw_transitions(rng, counts.moves)
        episodes = rewards.shape[:-2]
        shape = (*episodes, self.horizon, self.n_states, self.n_actions)
        by_step = transitions[..., None, :, :, :]
        return Stack(
            np.broadcast_to(rewards[..., None, :, :], shape),
            np.broadcast_to(by_step, (*shape, self.n_states)),
        )

    def _draw_transitions(self, rng: np.random.Generator, moves: Array) -> Array:
        """Draw transitions (…, S, K, S) from the Dirichlet posterior of each cell, as
        normalised gamma numbers. They are uniform if all numbers of a cell are 0."""
        counts = self.alpha + self.eta * moves
        parts = rng.standard_gamma(counts)
        total = parts.sum(axis=-1, keepdims=True)
        has_mass = total > 0
        shares = parts / np.where(has_mass, total, 1.0)
        return np.where(has_mass, shares, 1 / self.n_states)

    def odds(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return propensities given the episode so far. They are exact for the drawn
        models."""
        check_eligible(eligible)
        members = state.members
        place = self.states(context, state.place.shape)
        q = at(state.q, members.step, place)
        return Odds(members.odds(q, eligible))

    def update(self, state: CountState, decision: Decision, reward: Real) -> CountState:
        """Return the state after one step. After the last step of an episode, new
        models are drawn."""
        members = state.members
        shape = state.place.shape
        place = self.states(decision.context, shape)
        action = self.action_of(decision, shape)
        moves = state.moves
        if members.step > 0:
            moves = self._count_move(state, place)
        wins = state.wins.copy()
        losses = state.losses.copy()
        cell = (*np.indices(shape), place, action)
        wins[cell] += reward
        losses[cell] += 1 - np.asarray(reward)
        learnt = state.learnt + 1
        if members.step + 1 == self.horizon:
            counts = _Counts(moves, wins, losses)
            return self._begin(counts, learnt, state.episodes + 1)
        q = at(state.q, members.step, place)
        return state._replace(
            moves=moves,
            wins=wins,
            losses=losses,
            learnt=learnt,
            members=members.after(q, action, decision.eligible),
            place=place,
            action=action,
        )

    def end(self, state: CountState, context: Context = None) -> CountState:
        """Return the state after an episode that ended before its last step, in
        `context` if that is a state."""
        if state.members.step == 0:
            return state
        moves = state.moves
        if context is not None:
            place = self.states(context, state.place.shape)
            moves = self._count_move(state, place)
        counts = _Counts(moves, state.wins, state.losses)
        return self._begin(counts, state.learnt, state.episodes + 1)

    def _count_move(self, state: CountState, place: Ints) -> Array:
        """Return the counts after a transition from the last state to `place`."""
        moves = state.moves.copy()
        cell = (*np.indices(place.shape), state.place, state.action, place)
        moves[cell] += 1
        return moves

    def behaviour(self, state: CountState) -> Behaviour:
        """Return the plans of the drawn models and the uniform policy, with their
        probabilities."""
        policies = weights.greedy(state.q)
        first_step = policies[..., :1, :, :, :]
        uniform = np.full_like(first_step, 1 / self.n_actions)
        everyone = np.concatenate([policies, uniform], axis=-4)
        return Behaviour(state.members.mass(), everyone)

    def explain(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """Return the plans of the M drawn models, the weights of the models consistent
        with the actions so far, and the propensities, which are exact for the draws."""
        odds = self.odds(state, context, eligible=eligible)
        place = self.states(context, state.place.shape)
        members = state.members
        q = at(state.q, members.step, place)
        names = [f"draw {i + 1} of {self.draws}" for i in range(self.draws)]
        posterior = np.full(self.draws, 1 / self.draws)
        return explain_members(
            members,
            q,
            eligible,
            names=tuple(names),
            posterior=posterior,
            propensities=odds.propensities,
        )
