"""Windowed: Generalized Thompson Sampling over a sliding window of rewards."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, Real, whole
from oddsmith.core.decision import Decision, State
from oddsmith.core.errors import InvalidInput
from oddsmith.core.expert_policy import ExpertState, check_advice
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = ["WindowState", "Windowed"]


class WindowState(NamedTuple):
    """The log factors (…, window, N) of the last rewards as a ring buffer, and the
    state of GTS with their sum."""

    factors: Array
    current: ExpertState

    @property
    def log_weights(self) -> Array:
        """Return the log prior plus the sum of the ring (…, N), relative to the
        leader."""
        return self.current.log_weights

    @property
    def learnt(self) -> int:
        """Return the number of rewards, including those that left the window."""
        return self.current.learnt

    @property
    def experts(self) -> State:
        """Return the experts' own state."""
        return self.current.experts


@dataclass(frozen=True, eq=False)
class Windowed(PolicyWrapper):
    """Base the posterior of `policy` only on the last `window` rewards, in the order in
    which they are learnt (docs/math 5.9).

        w_i = p_i Π_{s = t - window + 1 … t} exp(-η ℓ(f_i(x_s, a_s), r_s))

    `policy` is a GeneralizedThompsonSampling with fixed experts, share = 0 and discount
    = 1. An expert with an infinite loss recovers once that reward has left the window.
    Each update computes the whole sum again, so that rounding errors do not accumulate.
    It copies and adds window · N numbers: with 50 experts this takes 20 µs for a window
    of 100 rewards and 360 µs for 10,000. Propensities take the same time as in GTS.

    >>> from oddsmith.experts.external import GivenExperts
    >>> policy = Windowed(
    ...     GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]), eta=1.0),
    ...     window=1,
    ... )
    >>> decision = Decision(
    ...     None, None, None, 0, np.array([1.0]), advice=np.array([0.2, 0.8])
    ... )
    >>> once = policy.update(policy.init(), decision, 1.0)
    >>> policy.posterior(once), policy.posterior(policy.update(once, decision, 0.0))
    (array([0.2, 0.8]), array([0.8, 0.2]))
    """

    policy: GeneralizedThompsonSampling
    window: int

    def __post_init__(self) -> None:
        whole("window", self.window)
        policy: Any = self.policy
        got = type(policy).__name__
        if isinstance(policy, GeneralizedThompsonSampling):
            got = "" if policy.orderless else policy.order_settings
        if got:
            raise InvalidInput(
                "policy must be a GeneralizedThompsonSampling with fixed experts, "
                "share=0 "
                f"and discount=1; got {got}"
            )
        object.__setattr__(self, "window", int(self.window))

    def inner_state(self, state: WindowState) -> ExpertState:
        return state.current

    def init(self, shape: tuple[int, ...] = ()) -> WindowState:
        """Return the prior and an empty window, with batch axes `shape`."""
        n_experts = len(self.policy.experts.names)
        factors = np.zeros((*shape, self.window, n_experts))
        return WindowState(factors, self.policy.init(shape))

    def with_arms(
        self, state: WindowState, arms: Sequence[str]
    ) -> tuple[Self, WindowState]:
        policy, wider = self.policy.with_arms(state.current, arms)
        state = state._replace(current=wider)
        return replace(self, policy=policy), state

    def update(
        self, state: WindowState, decision: Decision, reward: Real
    ) -> WindowState:
        """Replace the oldest reward of the window by the newest; arrays are copied."""
        newest = self.policy.factors(decision, reward)
        check_advice(newest.shape, state.log_weights)
        factors = state.factors.copy()
        factors[..., state.learnt % self.window, :] = newest
        first = self.policy.init().log_weights
        log_weights = weights.reweigh(first, factors.sum(axis=-2))
        current = ExpertState(log_weights, state.learnt + 1, state.experts)
        return WindowState(factors, current)
