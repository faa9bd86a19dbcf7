"""TabularPosteriorSampling: beliefs about every reward and move of a tabular world,
played by M draws of them."""

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number, whole
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.expert_policy import check_eligible
from oddsmith.core.explanation import Explanation
from oddsmith.core.names import numbered_arms
from oddsmith.lab.episodes.model import plan
from oddsmith.lab.episodes.policy import Behaviour, EpisodicPolicy, Members, at

__all__ = ["CountState", "TabularPosteriorSampling"]


class CountState(NamedTuple):
    """Counts of moves (…, S, K, S), sums of rewards and of 1 - rewards (…, S, K), and
    the draws of this episode.

    `q` (…, M, H, S, K) are the plans of the models drawn; `place` and `action` (…) the
    last state and action.
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


@dataclass(frozen=True, eq=False)
class TabularPosteriorSampling(EpisodicPolicy):
    """Posterior sampling (PSRL) in a world whose rewards and moves are the same at
    every step, over M draws.

        P(· | s, a) ~ Dirichlet(α + η n(s, a, ·))
        r(s, a) ~ Beta(wins + η Σ r, losses + η Σ (1 - r))

    At the beginning of an episode M models are drawn by `seed` and the number of the
    episode, and planned; each is as likely. **The odds are exact for these draws**: an
    action is recorded with its true propensity, and over seeds the actions have the law
    of posterior sampling; as odds of the posterior itself they are off by about 1/√M.
    `eta` = 1 is Bayes' rule. `gamma` is the mass that draws all actions of an episode
    uniformly.

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
        """The prior, with the draws of the first episode."""
        cells = (*shape, self.n_states, self.n_actions)
        return self._begin(
            (np.zeros((*cells, self.n_states)), np.zeros(cells), np.zeros(cells)), 0, 0
        )

    def _begin(
        self, counts: tuple[Array, Array, Array], learnt: int, episodes: int
    ) -> CountState:
        """The state at the beginning of an episode, with its draws."""
        shape = counts[1].shape[:-2]
        members = Members(np.zeros((*shape, self.draws)), np.full(shape, self.gamma), 0)
        nowhere = np.zeros(shape, dtype=np.int64)
        return CountState(
            *counts,
            learnt,
            self._drawn(counts, episodes),
            members,
            nowhere,
            nowhere,
            episodes,
        )

    def _drawn(self, counts: tuple[Array, Array, Array], episodes: int) -> Array:
        """The plans (…, M, H, S, K) of M models from the posterior, which follow from
        the seed and the counts."""
        rng = np.random.default_rng([self.seed, episodes])
        # the draws are an axis of their own before the states
        axis = counts[1].ndim - 2
        moves, wins, losses = (
            np.repeat(np.expand_dims(c, axis), self.draws, axis=axis) for c in counts
        )
        return plan(*self._models(rng, moves, wins, losses)).q

    def _models(
        self, rng: np.random.Generator, moves: Array, wins: Array, losses: Array
    ) -> tuple[Array, Array]:
        """Rewards (…, H, S, K) and transitions (…, H, S, K, S) drawn for each of the
        leading axes of the counts."""
        rewards = rng.beta(self.wins + self.eta * wins, self.losses + self.eta * losses)
        parts = rng.standard_gamma(self.alpha + self.eta * moves)
        total = parts.sum(axis=-1, keepdims=True)
        transitions = np.where(
            total > 0, parts / np.where(total > 0, total, 1.0), 1 / self.n_states
        )
        cells, lead = (self.n_states, self.n_actions), rewards.shape[:-2]
        return (
            np.broadcast_to(rewards[..., None, :, :], (*lead, self.horizon, *cells)),
            np.broadcast_to(
                transitions[..., None, :, :, :],
                (*lead, self.horizon, *cells, self.n_states),
            ),
        )

    def odds(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Propensities given the episode so far, exact for the draws."""
        check_eligible(eligible)
        place = self.states(context, state.place.shape)
        return Odds(
            state.members.odds(at(state.q, state.members.step, place), eligible)
        )

    def update(self, state: CountState, decision: Decision, reward: Real) -> CountState:
        """The state after one step; new models are drawn after the last of an
        episode."""
        members, shape = state.members, state.place.shape
        place = self.states(decision.context, shape)
        action = np.broadcast_to(
            np.asarray(decision.number, dtype=np.int64), shape
        ).copy()
        moves = self._moved(state, place) if members.step else state.moves
        wins, losses = state.wins.copy(), state.losses.copy()
        cell = (*np.indices(shape), place, action)
        wins[cell] += reward
        losses[cell] += 1 - np.asarray(reward)
        if members.step + 1 == self.horizon:
            return self._begin(
                (moves, wins, losses), state.learnt + 1, state.episodes + 1
            )
        members = members.after(
            at(state.q, members.step, place), action, decision.eligible
        )
        counts = state._replace(
            moves=moves, wins=wins, losses=losses, learnt=state.learnt + 1
        )
        return counts._replace(members=members, place=place, action=action)

    def end(self, state: CountState, context: Context = None) -> CountState:
        """The state after an episode that ended before its last step; it ended in
        `context`, if that is a state."""
        if not state.members.step:
            return state
        moves = (
            state.moves
            if context is None
            else self._moved(state, self.states(context, state.place.shape))
        )
        return self._begin(
            (moves, state.wins, state.losses), state.learnt, state.episodes + 1
        )

    def _moved(self, state: CountState, place: Ints) -> Array:
        """The counts with the move from the last state to `place`."""
        moves = state.moves.copy()
        moves[(*np.indices(place.shape), state.place, state.action, place)] += 1
        return moves

    def behaviour(self, state: CountState) -> Behaviour:
        """The plans of the draws, and the uniform policy, with their probabilities."""
        share = state.members.uniform[..., None]
        mass = np.concatenate(
            [(1 - share) * weights.posterior(state.members.log_weights), share], axis=-1
        )
        even = np.full_like(state.q[..., :1, :, :, :], 1 / self.n_actions)
        return Behaviour(mass, np.concatenate([weights.greedy(state.q), even], axis=-4))

    def explain(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """The plans of the M draws, those that would have done what was done, and the
        odds, exact for the draws."""
        odds, members = self.odds(state, context, eligible=eligible), state.members
        q = at(state.q, members.step, self.states(context, state.place.shape))
        ballots = weights.greedy(q, eligible)
        mask = np.ones(self.n_actions, dtype=np.bool_) if eligible is None else eligible
        uniform = members.uniform[..., None] * mask / mask.sum(axis=-1, keepdims=True)
        names = tuple(f"draw {i + 1} of {self.draws}" for i in range(self.draws))
        even, voting = (
            np.full(self.draws, 1 / self.draws),
            weights.awake_weights(members.log_weights, ballots),
        )
        arms = numbered_arms(self.n_actions)
        return Explanation(
            names, arms, even, voting, q, ballots, uniform, odds.propensities
        )
