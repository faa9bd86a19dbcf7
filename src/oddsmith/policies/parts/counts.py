"""Policies without contexts: counts per arm, and explanations."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Self

import numpy as np

from oddsmith.core.arrays import Array, Bools, Real, whole
from oddsmith.core.decision import Context, Decision, Step
from oddsmith.core.errors import InvalidInput
from oddsmith.core.explanation import ArmExplanation
from oddsmith.core.names import check_names, numbered_arms
from oddsmith.core.policy import Policy

__all__ = ["CountState", "OverArms"]


class CountState(NamedTuple):
    """Number of rewards of each arm (…, K), their sum (…, K), and the total number of
    rewards."""

    pulls: Array
    sums: Array
    learnt: int


@dataclass(frozen=True, eq=False)
class OverArms(Policy):
    """Base class of policies that count rewards.

    They do not read the context. Sums do not depend on the order of rewards, up to
    rounding.
    """

    n_arms: int

    orderless = True
    reads_context = False

    def __post_init__(self) -> None:
        whole("n_arms", self.n_arms)

    def init(self, shape: tuple[int, ...] = ()) -> CountState:
        """Return the state before any reward."""
        none = np.zeros((*shape, self.n_arms))
        return CountState(none, none.copy(), 0)

    def with_arms(
        self, state: CountState, arms: Sequence[str]
    ) -> tuple[Self, CountState]:
        """Return this policy and its counts with further arms, which have no rewards
        yet."""
        names = check_names("arms", arms)
        n_more = len(names) - self.n_arms
        if n_more < 0:
            raise InvalidInput(
                f"arms must be the present {self.n_arms} and further ones; got "
                f"{len(names)}"
            )
        none = np.zeros((*state.pulls.shape[:-1], n_more))
        pulls = np.concatenate([state.pulls, none], axis=-1)
        sums = np.concatenate([state.sums, none], axis=-1)
        state = CountState(pulls, sums, state.learnt)
        return replace(self, n_arms=len(names)), state

    def update(self, state: CountState, decision: Decision, reward: Real) -> CountState:
        """Add a reward of the drawn arm."""
        arm = decision.number
        # Fast path for one decision, which needs no mask.
        if isinstance(arm, int) and state.pulls.ndim == 1:
            pulls = state.pulls.copy()
            sums = state.sums.copy()
            pulls[arm] += 1.0
            sums[arm] += reward
            return CountState(pulls, sums, state.learnt + 1)
        drawn = np.arange(self.n_arms) == np.asarray(decision.number)[..., None]
        if drawn.shape != state.pulls.shape:
            raise InvalidInput(
                f"decision must have the state's batch axes {state.pulls.shape[:-1]}; "
                f"got {drawn.shape[:-1]}"
            )
        rewards = np.asarray(reward, dtype=np.float64)[..., None]
        sums = state.sums + np.where(drawn, rewards, 0.0)
        return CountState(state.pulls + drawn, sums, state.learnt + 1)

    def bounds(self, state: CountState) -> Array | None:
        """Return the upper confidence bounds (…, K) of optimistic policies."""
        return None

    def moments(self, state: CountState) -> tuple[Array, Array | None]:
        """Return the mean reward of every arm (…, K), NaN without rewards, and its
        standard deviation if the policy has one."""
        with np.errstate(invalid="ignore"):
            return state.sums / state.pulls, None

    def explain(
        self,
        state: CountState,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> ArmExplanation:
        """Explain the propensities by the posterior of each arm; the context does not
        matter."""
        odds = self.odds(state, context, eligible=eligible, step=step).propensities
        arms = numbered_arms(self.n_arms)
        mean, sd = self.moments(state)
        return ArmExplanation(arms, "reward", mean, sd, self.bounds(state), odds)
