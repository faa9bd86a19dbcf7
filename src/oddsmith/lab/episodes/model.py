"""EpisodicModel: a world with states and steps as two tables, its optimal policy, and
the value of any policy."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np

from oddsmith.core import weights
from oddsmith.core.arrays import Array, finite, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import check_names

__all__ = [
    "EpisodicModel",
    "Plan",
    "Stack",
    "named_models",
    "plan",
    "policy_values",
    "stack_models",
]


class Plan(NamedTuple):
    """The result of backward induction: Q (…, H, S, K), the best return from each step,
    state and action; V (…, H, S); and the policy.

    `policy` (…, H, S, K) is uniform over the actions whose Q is exactly the largest.
    """

    q: Array
    values: Array
    policy: Array


def plan(rewards: Array, transitions: Array) -> Plan:
    """Return the plan for rewards (…, H, S, K) and transitions (…, H, S, K, S), with
    any leading axes.

        Q(H, s, a) = r(H, s, a)
        Q(h, s, a) = r(h, s, a) + Σ_s' P(s' | h, s, a) max_b Q(h+1, s', b)

    >>> plan(np.array([[[0.2, 0.7]]]), np.ones((1, 1, 2, 1))).policy
    array([[[0., 1.]]])
    """
    q = np.array(rewards, dtype=np.float64)
    horizon = q.shape[-3]
    for h in reversed(range(horizon - 1)):
        following = q[..., h + 1, :, :]
        best = following.max(axis=-1)
        step_transitions = transitions[..., h, :, :, :]
        q[..., h, :, :] += _expected(step_transitions, best)
    return Plan(q, q.max(axis=-1), weights.greedy(q))


def policy_values(rewards: Array, transitions: Array, policies: Array) -> Array:
    """Return the expected return (…, S) of policies (…, H, S, K) from each state at the
    first step. Leading axes broadcast.

        V(H, s) = Σ_a π(a | H, s) r(H, s, a)
        V(h, s) = Σ_a π(a | h, s) (r(h, s, a) + Σ_s' P(s' | h, s, a) V(h+1, s'))

    >>> policy_values(
    ...     np.array([[[0.2, 0.7]]]), np.ones((1, 1, 2, 1)), np.array([[[0.5, 0.5]]])
    ... ).round(2)
    array([0.45])
    """
    horizon = rewards.shape[-3]
    last = policies[..., -1, :, :] * rewards[..., -1, :, :]
    value = last.sum(axis=-1)
    for h in reversed(range(horizon - 1)):
        step_transitions = transitions[..., h, :, :, :]
        ahead = _expected(step_transitions, value)
        q = rewards[..., h, :, :] + ahead
        chosen = policies[..., h, :, :] * q
        value = chosen.sum(axis=-1)
    return np.asarray(value)


def _expected(transitions: Array, values: Array) -> Array:
    """Return Σ_s' P(s' | s, a) v(s'), (…, S, K)."""
    columns = values[..., None, :, None]
    return np.asarray(np.matmul(transitions, columns)[..., 0])


@dataclass(frozen=True, eq=False)
class EpisodicModel:
    """Mean rewards r(h, s, a) in [0, 1] (H, S, K) and transition probabilities P(s' |
    h, s, a) (H, S, K, S) for H steps.

    An episode ends after the last step, so transitions of the last step are not used.
    `stationary` creates a model whose tables are the same at every step.

    >>> model = EpisodicModel.stationary([[0.4, 0.1]], [[[1.0], [1.0]]], horizon=3)
    >>> model.horizon, model.plan.values[0].round(1)
    (3, array([1.2]))
    """

    rewards: Any
    transitions: Any

    def __post_init__(self) -> None:
        rewards = finite("rewards", self.rewards)
        transitions = finite("transitions", self.transitions)
        is_mean = (rewards >= 0) & (rewards <= 1)
        if rewards.ndim != 3 or not is_mean.all():
            raise InvalidInput(
                "rewards must be means in [0, 1], (steps, states, actions); got shape "
                f"{rewards.shape}, {rewards.min():g} to {rewards.max():g}"
            )
        n_states = rewards.shape[1]
        shape = (*rewards.shape, n_states)
        if transitions.shape != shape:
            raise InvalidInput(
                f"transitions must be (steps, states, actions, states), {shape} here; "
                f"got {transitions.shape}"
            )
        deviations = np.abs(transitions.sum(axis=-1) - 1)
        has_negative = (transitions < 0).any(axis=-1)
        is_wrong = (deviations > 1e-9) | has_negative
        if is_wrong.any():
            first = np.argwhere(is_wrong)[0]
            h, state, action = first.tolist()
            chances = transitions[h, state, action].tolist()
            raise InvalidInput(
                f"transitions must be probabilities that sum to 1; got {chances} at "
                f"step {h + 1}, state {state}, action {action}"
            )
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "transitions", transitions)

    @classmethod
    def stationary(cls, rewards: Any, transitions: Any, *, horizon: int) -> Self:
        """Return the model with these rewards (S, K) and transitions (S, K, S) at each
        of `horizon` steps."""
        steps = whole("horizon", horizon)
        step_rewards = finite("rewards", rewards, ndim=2)
        step_transitions = finite("transitions", transitions, ndim=3)
        rewards = np.stack([step_rewards] * steps)
        transitions = np.stack([step_transitions] * steps)
        return cls(rewards, transitions)

    @property
    def horizon(self) -> int:
        """Number of steps of an episode, H."""
        return int(self.rewards.shape[0])

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return int(self.rewards.shape[1])

    @property
    def n_actions(self) -> int:
        """Number of actions, K."""
        return int(self.rewards.shape[2])

    @cached_property
    def plan(self) -> Plan:
        """The optimal policy of this model and its values."""
        return plan(self.rewards, self.transitions)

    def values(self, policies: Array) -> Array:
        """Return the expected return (…, S) of policies (…, H, S, K) in this model, by
        initial state."""
        return policy_values(self.rewards, self.transitions, policies)


class Stack(NamedTuple):
    """The tables of N models of one shape: rewards (N, H, S, K) and transitions (N, H,
    S, K, S)."""

    rewards: Array
    transitions: Array


def named_models(models: object) -> dict[str, EpisodicModel]:
    """Return models of one shape by name. Models of a list are numbered."""
    if isinstance(models, Mapping):
        by_name = {str(name): model for name, model in models.items()}
    elif isinstance(models, Sequence) and not isinstance(models, str | bytes):
        by_name = {f"model {i}": model for i, model in enumerate(models)}
    else:
        raise InvalidInput(
            "models must be a list of EpisodicModel, or a dict by name; got "
            f"{type(models).__name__}"
        )
    check_names("names", list(by_name), n=len(by_name))
    first = next(iter(by_name.values()))
    for name, model in by_name.items():
        if not isinstance(model, EpisodicModel):
            raise InvalidInput(
                f"models must be EpisodicModel; got {type(model).__name__} for {name!r}"
            )
    for name, model in by_name.items():
        if model.rewards.shape != first.rewards.shape:
            raise InvalidInput(
                "models must have the same steps, states and actions, "
                f"{first.rewards.shape}; got {model.rewards.shape} of {name!r}"
            )
    return by_name


def stack_models(models: Iterable[EpisodicModel]) -> Stack:
    """Return the tables of all models, stacked along the first axis."""
    models = list(models)
    rewards = np.stack([model.rewards for model in models])
    transitions = np.stack([model.transitions for model in models])
    return Stack(rewards, transitions)
