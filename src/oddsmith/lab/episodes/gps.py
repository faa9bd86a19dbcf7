"""GeneralizedPosteriorSampling: a posterior over candidate models of an episodic world,
with the exact propensity of each action."""

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Bools, Ints, Real, number
from oddsmith.core.decision import Context, Decision, Odds, Step
from oddsmith.core.errors import AllExpertsRefuted
from oddsmith.core.expert_policy import ExpertState, check_eligible, checked_prior
from oddsmith.core.explanation import Explanation
from oddsmith.core.gts import GeneralizedThompsonSampling, best_prediction
from oddsmith.core.losses import Loss, log_loss
from oddsmith.core.names import check_choice
from oddsmith.experts.external import GivenExperts
from oddsmith.lab.episodes.model import (
    EpisodicModel,
    Plan,
    Stack,
    named_models,
    plan,
    stack_models,
)
from oddsmith.lab.episodes.policy import (
    Behaviour,
    EpisodicPolicy,
    Members,
    at,
    explain_members,
)

__all__ = ["EpisodeState", "GeneralizedPosteriorSampling"]

_EXPLORE = ("uniform", "policies")


class EpisodeState(NamedTuple):
    """Log weights (…, N), which do not change during an episode, and the steps of the
    episode so far.

    `learnt` counts rewards and `episodes` counts finished episodes. `charged` (…, N)
    are the log weights including the losses of this episode. `place` and `action` (…)
    are the last state and the action in it.
    """

    log_weights: Array
    learnt: int
    charged: Array
    members: Members
    place: Ints
    action: Ints
    episodes: int


@dataclass(frozen=True, eq=False)
class GeneralizedPosteriorSampling(EpisodicPolicy):
    """Draw a model by its weight, follow its best policy for an episode, then update
    the weights of all models from the trajectory.

        w_i ← w_i exp(-η Σ_h [ℓ(r_i(h, s_h, a_h), r_h)
                              + ln 1/P_i(s_{h+1} | h, s_h, a_h)] + λ V_i(s_1))

    The propensity of an action is exact given the episode so far: the algorithm never
    draws a model, only actions (docs/math 8.2). `models` is a list of `EpisodicModel`,
    or a dict by name. `gamma` is the probability of exploration: "uniform" draws every
    action uniformly; "policies" follows one of the models' distinct policies, each
    equally likely. A model with tied actions divides its vote equally among them. Among
    eligible actions it takes the best of its plan, which assumes that all actions are
    eligible later. `loss` scores rewards; transitions have log loss. `optimism` is
    Feel-Good's λ (docs/math 8.5). With η = 1 and γ = 0 this is posterior sampling
    (PSRL) over a finite class; with horizon 1 it equals Generalized Thompson Sampling,
    to the last bit.

    >>> moves = np.ones((1, 2, 1))
    >>> good = EpisodicModel.stationary([[0.2, 0.8]], moves, horizon=2)
    >>> bad = EpisodicModel.stationary([[0.6, 0.4]], moves, horizon=2)
    >>> gps = GeneralizedPosteriorSampling({"good": good, "bad": bad}, gamma=0.1)
    >>> gps.odds(gps.init(), 0).propensities
    array([0.5, 0.5])
    """

    models: Any
    loss: Loss = log_loss
    _: KW_ONLY
    eta: float = 0.5
    gamma: float = 0.02
    prior: Any = None
    optimism: float = 0.0
    explore: str = "uniform"

    def __post_init__(self) -> None:
        models = named_models(self.models)
        object.__setattr__(self, "models", models)
        object.__setattr__(self, "prior", checked_prior(self.prior, tuple(models)))
        object.__setattr__(self, "gamma", number("gamma", self.gamma, low=0, high=1))
        check_choice("explore", self.explore, _EXPLORE)
        assert self._charging is not None  # the property checks loss, eta and optimism

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self.models)

    @cached_property
    def horizon(self) -> int:  # type: ignore[override]
        """Number of steps of an episode, H."""
        return self._first.horizon

    @cached_property
    def n_states(self) -> int:  # type: ignore[override]
        """Number of states, S."""
        return self._first.n_states

    @cached_property
    def n_actions(self) -> int:  # type: ignore[override]
        """Number of actions, K."""
        return self._first.n_actions

    @property
    def _first(self) -> EpisodicModel:
        model: EpisodicModel = next(iter(self.models.values()))
        return model

    @cached_property
    def tables(self) -> Stack:
        """Rewards and transitions of all models."""
        return stack_models(self.models.values())

    @cached_property
    def plans(self) -> Plan:
        """Plans of all models: Q (N, H, S, K), V (N, H, S), policies (N, H, S, K)."""
        return plan(self.tables.rewards, self.tables.transitions)

    @cached_property
    def policy_of(self) -> Ints:
        """Number of each model's policy (N,). Models with the same plan have the same
        number."""
        rows = self.plans.policy.reshape(len(self.names), -1)
        _, row_numbers = np.unique(rows, axis=0, return_inverse=True)
        numbers = np.asarray(row_numbers).reshape(-1)
        return numbers.astype(np.int64)

    @property
    def n_policies(self) -> int:
        """Number of distinct policies of the models, G."""
        return int(self.policy_of.max()) + 1

    @property
    def explores(self) -> bool:
        return self.gamma > 0 and self.explore == "uniform"

    @cached_property
    def _charging(self) -> GeneralizedThompsonSampling:
        """Generalized Thompson Sampling (Algorithm 1) over predictions that the
        decision contains. It computes the models' losses for a reward."""
        return GeneralizedThompsonSampling(
            GivenExperts(self.names),
            self.loss,
            prior=self.prior,
            eta=self.eta,
            gamma=0.0,
            optimism=self.optimism,
        )

    @cached_property
    def _policies(self) -> Array:
        """The models' policies, followed by the uniform policy, (N + 1, H, S, K)."""
        policies = self.plans.policy
        shape = (1, *policies.shape[1:])
        uniform = np.full(shape, 1 / self.n_actions)
        return np.concatenate([policies, uniform])

    @cached_property
    def _log_transitions(self) -> Array:
        with np.errstate(divide="ignore"):
            log: Array = np.log(self.tables.transitions)
        return log

    def init(self, shape: tuple[int, ...] = ()) -> EpisodeState:
        """Return the prior at the beginning of an episode, with batch axes `shape`."""
        prior = self._charging.init(shape)
        return self._begin(prior.log_weights, learnt=0, episodes=0)

    def _begin(self, log_weights: Array, learnt: int, episodes: int) -> EpisodeState:
        """Return the state at the beginning of an episode."""
        nowhere = np.zeros(log_weights.shape[:-1], dtype=np.int64)
        members = self._members(log_weights)
        return EpisodeState(
            log_weights,
            learnt,
            charged=log_weights,
            members=members,
            place=nowhere,
            action=nowhere,
            episodes=episodes,
        )

    def _members(self, log_weights: Array) -> Members:
        """Return the members at the first step. With exploration "policies", the
        probability of exploring a policy is added to the weights of the models that
        have this policy."""
        shape = log_weights.shape[:-1]
        if self.explore == "uniform" or self.gamma == 0:
            return Members(log_weights, np.full(shape, self.gamma), 0)
        models_per_policy = np.bincount(self.policy_of)[self.policy_of]
        exploring = self.gamma / (self.n_policies * models_per_policy)
        exploiting = (1 - self.gamma) * weights.posterior(log_weights)
        mass = exploiting + exploring
        with np.errstate(divide="ignore"):
            logs = np.log(mass)
        highest = logs.max(axis=-1, keepdims=True)
        return Members(logs - highest, np.zeros(shape), 0)

    def odds(
        self,
        state: EpisodeState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return exact propensities given the episode so far. The advice is the models'
        predictions of each action's reward."""
        check_eligible(eligible)
        members = state.members
        place = self.states(context, state.place.shape)
        q = at(self.plans.q, members.step, place)
        advice = at(self.tables.rewards, members.step, place)
        bonus = self._bonus(members.step, q, eligible)
        return Odds(members.odds(q, eligible), advice, bonus)

    def _bonus(self, step: int, q: Array, eligible: Bools | None) -> Array | None:
        """Return V_i(s_1) (…, N) at the first step, 0 at all others, or None without
        optimism.

        V_i is the best Q_i (…, N, K) of the eligible actions. The prediction for an
        ineligible action is ignored, because that action cannot be drawn.
        """
        if not self.optimism:
            return None
        best = best_prediction(q, eligible)
        if step == 0:
            return best
        return np.zeros_like(best)

    def update(
        self, state: EpisodeState, decision: Decision, reward: Real
    ) -> EpisodeState:
        """Return the state after one step. After the last step of an episode, the
        weights include all steps of the episode."""
        members = state.members
        shape = state.place.shape
        place = self.states(decision.context, shape)
        charged = state.charged
        if members.step > 0:
            charged = self._charge_move(state, place)
        before = ExpertState(charged, 0, ())
        charged = self._charging.update(before, decision, reward).log_weights
        learnt = state.learnt + 1
        if members.step + 1 == self.horizon:
            return self._begin(charged, learnt, state.episodes + 1)
        action = self.action_of(decision, shape)
        q = at(self.plans.q, members.step, place)
        return state._replace(
            learnt=learnt,
            charged=charged,
            members=members.after(q, action, decision.eligible),
            place=place,
            action=action,
        )

    def end(self, state: EpisodeState, context: Context = None) -> EpisodeState:
        """Return the state after an episode that ended before its last step, in
        `context` if that is a state."""
        if state.members.step == 0:
            return state
        charged = state.charged
        if context is not None:
            following = self.states(context, state.place.shape)
            charged = self._charge_move(state, following)
        return self._begin(charged, state.learnt, state.episodes + 1)

    def _charge_move(self, state: EpisodeState, place: Ints) -> Array:
        """Return the charged log weights after the transition from the last state to
        `place`, which has log loss."""
        table = self._log_transitions[:, state.members.step - 1]
        # Move the models from the first axis to the last.
        chances = table[:, state.place, state.action, place]
        logs = np.moveaxis(chances, 0, -1)
        try:
            return weights.reweigh(state.charged, self.eta * logs)
        except AllExpertsRefuted as error:
            raise AllExpertsRefuted(
                f"a move to state {place.tolist()!r:.40} has probability zero under "
                "every model with weight; give at least one of them a positive "
                "probability for each move that can happen"
            ) from error

    def behaviour(self, state: EpisodeState) -> Behaviour:
        """Return the models' policies and the uniform policy, with the probability of
        each in the episode that begins."""
        return Behaviour(state.members.mass(), self._policies)

    def posterior(self, state: EpisodeState) -> Array:
        """Return the normalised weight (…, N) of each model. It changes only at the end
        of an episode."""
        return weights.posterior(state.log_weights)

    def named_posterior(self, state: EpisodeState, arms: Any) -> dict[str, Any]:
        """Return the weight of each model by name."""
        shares = self.posterior(state).tolist()
        return dict(zip(self.names, shares, strict=True))

    def explain(
        self,
        state: EpisodeState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Explanation:
        """Return the models' plans for this step, the weights of the models consistent
        with the actions so far, and the propensities."""
        odds = self.odds(state, context, eligible=eligible)
        place = self.states(context, state.place.shape)
        members = state.members
        q = at(self.plans.q, members.step, place)
        return explain_members(
            members,
            q,
            eligible,
            names=self.names,
            posterior=self.posterior(state),
            propensities=odds.propensities,
        )
