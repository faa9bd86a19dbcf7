"""QLearning: the usual baseline for episodes, with propensities of epsilon-greedy
exploration."""

from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number, whole
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.expert_policy import check_eligible, mix_uniform
from oddsmith.lab.episodes.policy import Behaviour, EpisodicPolicy, at

__all__ = ["QLearning", "QState"]


class QState(NamedTuple):
    """Q (…, 1, H, S, K), the visits of each cell, the number of rewards learnt, and the
    last step, whose target is not known yet."""

    q: Array
    visits: Array
    learnt: int
    step: int
    place: Ints
    action: Ints
    reward: Array


@dataclass(frozen=True, eq=False)
class QLearning(EpisodicPolicy):
    """Q-learning: Q(h, s, a) ← Q + (H + 1)/(H + n) (r + max_b Q(h+1, s', b) - Q) at the
    n-th visit, with ε-greedy actions.

    The propensities are ε uniform, and the best actions share the rest. `initial` is Q
    before any visit: 0, or H for optimistic initial values.

    >>> policy = QLearning(2, 2, horizon=3, epsilon=0.1)
    >>> policy.odds(policy.init(), 0).propensities
    array([0.5, 0.5])
    """

    n_states: int
    n_actions: int
    _: KW_ONLY
    horizon: int
    epsilon: float = 0.1
    initial: float = 0.0

    def __post_init__(self) -> None:
        for name in ("n_states", "n_actions", "horizon"):
            whole(name, getattr(self, name))
        number("epsilon", self.epsilon, low=0, high=1)
        number("initial", self.initial, low=0, high=self.horizon)

    @property
    def explores(self) -> bool:
        return self.epsilon > 0

    def init(self, shape: tuple[int, ...] = ()) -> QState:
        """Return the state without visits, with batch axes `shape`."""
        cells = (*shape, 1, self.horizon, self.n_states, self.n_actions)
        q = np.full(cells, float(self.initial))
        nowhere = np.zeros(shape, dtype=np.int64)
        return QState(
            q=q,
            visits=np.zeros(cells),
            learnt=0,
            step=0,
            place=nowhere,
            action=nowhere,
            reward=np.zeros(shape),
        )

    def odds(
        self,
        state: QState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return propensities in which the best actions share 1 - ε, and all actions
        share ε."""
        check_eligible(eligible)
        place = self.states(context, state.place.shape)
        q = at(state.q, state.step, place)
        best = weights.greedy(q, eligible)[..., 0, :]
        return Odds(mix_uniform(best, self.epsilon, eligible))

    def update(self, state: QState, decision: Decision, reward: Real) -> QState:
        """Return the state after one step. The previous step's target uses this state;
        the target of an episode's last step is its reward."""
        shape = state.place.shape
        place = self.states(decision.context, shape)
        if state.step > 0:
            values_ahead = at(state.q, state.step, place)[..., 0, :]
            best_ahead = values_ahead.max(axis=-1)
            state = self._learn(state, state.reward + best_ahead)
        number = np.asarray(reward, dtype=np.float64)
        action = self.action_of(decision, shape)
        state = state._replace(
            learnt=state.learnt + 1,
            step=state.step + 1,
            place=place,
            action=action,
            reward=np.broadcast_to(number, shape),
        )
        if state.step < self.horizon:
            return state
        return self.end(state)

    def end(self, state: QState, context: Context = None) -> QState:
        """Return the state after an episode that ended early: no reward follows its
        last step."""
        if state.step == 0:
            return state
        return self._learn(state, state.reward)._replace(step=0)

    def _learn(self, state: QState, target: Array) -> QState:
        """Return the state with the last step's Q moved towards its target."""
        q = state.q.copy()
        visits = state.visits.copy()
        shape = state.place.shape
        first_member = np.zeros(shape, dtype=np.int64)
        cell = (
            *np.indices(shape),
            first_member,
            state.step - 1,
            state.place,
            state.action,
        )
        visits[cell] += 1
        visited = self.horizon + visits[cell]
        rate = (self.horizon + 1) / visited
        change = target - q[cell]
        q[cell] += rate * change
        return state._replace(q=q, visits=visits)

    def behaviour(self, state: QState) -> Behaviour:
        """Return the single policy that is followed until the episode ends. This policy
        is known at the beginning, because updates do not change the Q of later
        steps."""
        policy = mix_uniform(weights.greedy(state.q), self.epsilon, None)
        mass = np.ones((*state.place.shape, 1))
        return Behaviour(mass, policy)
