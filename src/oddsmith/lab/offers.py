"""Arms that come with the call, in a simulation: a state for each run, offers side by
side, numbers by name."""

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
    """A policy on a list of offers, one for each run: its state is a tuple of states,
    its odds have `n_arms` columns.

    Behind the last arm of an offer odds are 0 and predictions NaN. Each run is what an
    agent would do in it.
    """

    policy: Policy
    n_arms: int

    def __post_init__(self) -> None:
        check_takes_offers(self.policy)

    def init(self, shape: tuple[int, ...] = ()) -> State:
        return tuple(self.policy.init() for _ in range(prod(shape)))

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        each = [
            self.policy.odds(own, offer, step=step)
            for own, offer in zip(state, context, strict=True)
        ]
        propensities = np.stack(
            [_widened(one.propensities, self.n_arms, 0.0) for one in each]
        )
        advice = [
            None if one.advice is None else _widened(one.advice, self.n_arms, np.nan)
            for one in each
        ]
        return Odds(
            propensities,
            *map(_stacked, (advice, [one.bonus for one in each], _weights(each))),
        )

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        rewards = np.asarray(reward).tolist()
        runs = [decision_of(decision, run).by_number() for run in range(len(rewards))]
        return tuple(
            self.policy.update(own, one, r)
            for own, one, r in zip(state, runs, rewards, strict=True)
        )

    def posterior(self, state: State) -> Array:
        return np.stack([self.policy.posterior(own) for own in state])


@dataclass(frozen=True, eq=False)
class OnNames(PolicyWrapper):
    """A policy that sees numbers of offers by name: the context's where there are
    `columns`, arms' by `arm_columns`."""

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
        offer = Offer(
            self._visitor(context.context), context.arms, self._known(context.features)
        )
        return self.policy.odds(state, offer, eligible=eligible, step=step)

    def update(self, state: State, decision: Decision, reward: Real) -> State:
        seen = decision._replace(
            context=self._visitor(decision.context),
            features=self._known(decision.features),
        )
        return self.policy.update(state, seen, reward)

    def _visitor(self, context: Any) -> Any:
        return (
            dict(zip(self.columns, context, strict=True)) if self.columns else context
        )

    def _known(self, features: Any) -> Any:
        if not self.arm_columns or features is None:
            return features
        return {
            arm: dict(zip(self.arm_columns, row, strict=True))
            for arm, row in features.items()
        }


def decision_of(decision: Decision, run: int) -> Decision:
    """The decision of one run out of those of all, as an agent would have made it."""
    offer, number = decision.context[run], int(decision.arm[run])
    n, name = len(offer.arms), offer.arms[number]
    advice, bonus, log_weights = (
        None if column is None else column[run] for column in decision[5:8]
    )
    return Decision(
        step=int(decision.step[run]),
        context=offer.context,
        eligible=None,
        arm=name,
        propensities=decision.propensities[run, :n],
        advice=advice,
        bonus=bonus,
        log_weights=log_weights,
        index=number,
        arms=offer.arms,
        features=offer.features,
    )


def _widened(values: Array, width: int, filling: float) -> Array:
    """Values (…, K) with more columns."""
    wide = np.full((*values.shape[:-1], width), filling)
    wide[..., : values.shape[-1]] = values
    return wide


def _weights(each: list[Odds]) -> list[Array | None]:
    """Log weights of runs, which are there where an expert slept; NaN for the others,
    if some are."""
    like = next((one.log_weights for one in each if one.log_weights is not None), None)
    if like is None:
        return [None]
    return [
        np.full_like(like, np.nan) if one.log_weights is None else one.log_weights
        for one in each
    ]


def _stacked(columns: list[Any]) -> Any:
    return None if columns[0] is None else np.stack(columns)
