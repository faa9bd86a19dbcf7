"""Simulation with arms that are passed in each call: a state and an offer for each run,
and features by name."""

from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from oddsmith.agent.call import check_takes_offers
from oddsmith.core.arrays import Array, Bools, Real
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.offer import Offer
from oddsmith.core.policy import Policy
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["ByRun", "OnNames", "decision_of"]


@dataclass(frozen=True, eq=False)
class ByRun(PolicyWrapper):
    """A policy for a list of offers, one for each run. Its state is a tuple of states,
    and its propensities have `n_arms` columns.

    After the last arm of an offer, propensities are 0 and predictions NaN. The result
    of each run is the same as that of an agent on its own.
    """

    policy: Policy
    n_arms: int

    def __post_init__(self) -> None:
        check_takes_offers(self.policy)

    def init(self, shape: tuple[int, ...] = ()) -> State:
        states = [self.policy.init() for _ in range(prod(shape))]
        return tuple(states)

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        by_run = []
        for own_state, offer in zip(state, context, strict=True):
            by_run.append(self.policy.odds(own_state, offer, step=step))
        propensities = [_widen(odds.propensities, self.n_arms, 0.0) for odds in by_run]
        advice = self._stack_advice(by_run)
        bonus = _stack([odds.bonus for odds in by_run])
        log_weights = _stack_log_weights(by_run)
        return Odds(np.stack(propensities), advice, bonus, log_weights)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        rewards = np.asarray(reward).tolist()
        states = []
        pairs = zip(state, rewards, strict=True)
        for run, (own_state, own_reward) in enumerate(pairs):
            own_decision = decision_of(decision, run).by_number()
            states.append(self.policy.update(own_state, own_decision, own_reward))
        return tuple(states)

    def posterior(self, state: State) -> Array:
        return np.stack([self.policy.posterior(own_state) for own_state in state])

    def _stack_advice(self, by_run: list[Odds]) -> Array | None:
        """Return the advice of all runs (runs, N, n_arms), with NaN after the last
        arm."""
        if by_run[0].advice is None:
            return None
        advice = []
        for odds in by_run:
            own_advice = np.asarray(odds.advice)
            advice.append(_widen(own_advice, self.n_arms, np.nan))
        return np.stack(advice)


@dataclass(frozen=True, eq=False)
class OnNames(PolicyWrapper):
    """A policy that receives the features of offers by name: `columns` are the names of
    the visitor's features, `arm_columns` those of the arms' features."""

    policy: Policy
    columns: tuple[str, ...]
    arm_columns: tuple[str, ...]

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        visitor = self._name_visitor(context.context)
        features = self._name_features(context.features)
        offer = Offer(visitor, context.arms, features)
        return self.policy.odds(state, offer, eligible=eligible, step=step)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        context = self._name_visitor(decision.context)
        with_names = decision._replace(
            context=context,
            features=self._name_features(decision.features),
        )
        return self.policy.update(state, with_names, reward)

    def _name_visitor(self, numbers: Any) -> Any:
        if not self.columns:
            return numbers
        return dict(zip(self.columns, numbers, strict=True))

    def _name_features(self, features: Any) -> Any:
        if not self.arm_columns or features is None:
            return features
        named = {}
        for arm, row in features.items():
            named[arm] = dict(zip(self.arm_columns, row, strict=True))
        return named


def decision_of(decision: Decision, run: int) -> Decision:
    """Return the decision of one run, as an agent would have made it."""
    offer = decision.context[run]
    number = int(decision.arm[run])
    n_arms = len(offer.arms)
    propensities = decision.propensities[run, :n_arms]
    step = int(decision.step[run])
    advice = row_of(decision.advice, run)
    bonus = row_of(decision.bonus, run)
    log_weights = row_of(decision.log_weights, run)
    return Decision(
        step=step,
        context=offer.context,
        eligible=None,
        arm=offer.arms[number],
        propensities=propensities,
        advice=advice,
        bonus=bonus,
        log_weights=log_weights,
        index=number,
        arms=offer.arms,
        features=offer.features,
    )


def row_of(column: Any, run: int) -> Any:
    """Return the value of one run in a field of a decision, or None if the decision
    lacks it."""
    if column is None:
        return None
    return column[run]


def _widen(values: Array, width: int, filling: float) -> Array:
    """Return values (…, K) extended to `width` columns."""
    shape = (*values.shape[:-1], width)
    wide = np.full(shape, filling)
    wide[..., : values.shape[-1]] = values
    return wide


def _stack_log_weights(by_run: list[Odds]) -> Array | None:
    """Return the log weights that runs recorded, stacked. Only runs in which an expert
    made no prediction record them; other runs have NaN. Return None if no run recorded
    them."""
    columns = [odds.log_weights for odds in by_run]
    like = next((column for column in columns if column is not None), None)
    if like is None:
        return None
    absent = np.full_like(like, np.nan)
    filled = [absent if column is None else column for column in columns]
    return np.stack(filled)


def _stack(columns: list[Any]) -> Any:
    """Return the values of all runs, stacked, or None if the first run lacks them."""
    if columns[0] is None:
        return None
    return np.stack(columns)
