"""EpisodeLog: a table of episodes with the propensities of all actions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, Ints, finite
from oddsmith.core.decision import LEAST_PROPENSITY, Decision
from oddsmith.core.errors import InvalidInput

__all__ = ["EpisodeLog", "EpisodeStep", "action_odds"]


class EpisodeStep(NamedTuple):
    """One step of an episode: its decision and its reward."""

    decision: Decision
    reward: float


@dataclass(frozen=True, eq=False)
class EpisodeLog:
    """States, actions and rewards (E, H) of E episodes, with the propensities (E, H, K)
    from which the actions were drawn.

    Steps after the end of an episode have action -1 and reward 0.

    >>> log = EpisodeLog([[0, 1]], [[1, 0]], [[0, 1]], [[[0.5, 0.5], [0.9, 0.1]]])
    >>> len(log), log.horizon
    (1, 2)
    """

    states: Any
    actions: Any
    rewards: Any
    propensities: Any

    def __post_init__(self) -> None:
        states = _whole_table("states", self.states)
        actions = _whole_table("actions", self.actions)
        rewards = finite("rewards", self.rewards, ndim=2)
        odds = finite("propensities", self.propensities, ndim=3)
        shapes = [states.shape, actions.shape, rewards.shape, odds.shape]
        if any(shape[:2] != states.shape for shape in shapes):
            raise InvalidInput(
                "states, actions, rewards and propensities must have the same "
                f"episodes and steps; got {shapes}"
            )
        if not ((rewards >= 0) & (rewards <= 1)).all():
            low = rewards.min()
            high = rewards.max()
            raise InvalidInput(f"rewards must be in [0, 1]; got {low:g} to {high:g}")
        n_actions = odds.shape[2]
        if actions.min() < -1 or actions.max() >= n_actions:
            raise InvalidInput(
                f"actions must be 0 … {n_actions - 1}, or -1 after the end; got "
                f"{actions.max()}"
            )
        is_played = actions >= 0
        is_unplayed = ~is_played
        goes_on = is_played[:, 1:] & is_unplayed[:, :-1]
        has_more = (rewards[is_unplayed] != 0).any()
        if goes_on.any() or has_more:
            raise InvalidInput(
                "an episode must not continue after its end: later steps must have "
                "action -1 and reward 0"
            )
        object.__setattr__(self, "states", states)
        object.__setattr__(self, "actions", actions)
        object.__setattr__(self, "rewards", rewards)
        object.__setattr__(self, "propensities", odds)
        self._check_odds()

    def _check_odds(self) -> None:
        """Raise an error if the propensities of a step are not a distribution, or are
        too small to divide by."""
        odds = self.propensities
        drawn_odds = self.drawn_odds[self.is_played]
        is_odds = (drawn_odds >= LEAST_PROPENSITY) & (drawn_odds <= 1 + 1e-9)
        if not is_odds.all() or (odds < 0).any():
            low = drawn_odds.min()
            high = drawn_odds.max()
            raise InvalidInput(
                f"propensities of drawn actions must be in [{LEAST_PROPENSITY:g}, 1]; "
                f"got {low:g} to {high:g}"
            )
        sums = odds.sum(axis=-1)[self.is_played]
        deviations = np.abs(sums - 1)
        if not (deviations <= 1e-6).all():
            raise InvalidInput(
                "propensities must sum to 1 at every step; got "
                f"{sums[deviations.argmax()]:g}"
            )

    @classmethod
    def of(
        cls, episodes: Iterable[Sequence[EpisodeStep]], *, horizon: int
    ) -> "EpisodeLog":
        """Return a table of the episodes that an agent played, each a list of at most
        `horizon` steps."""
        rows = [list(steps) for steps in episodes]
        has_length = all(0 < len(steps) <= horizon for steps in rows)
        if not rows or not has_length:
            lengths = [len(steps) for steps in rows]
            raise InvalidInput(
                f"episodes must be lists of 1 to {horizon} steps; got {lengths[:8]}"
            )
        shape = (len(rows), horizon)
        n_actions = len(rows[0][0].decision.propensities)
        states = np.zeros(shape, dtype=np.int64)
        actions = np.full(shape, -1)
        rewards = np.zeros(shape)
        odds = np.full((*shape, n_actions), 1 / n_actions)
        for e, steps in enumerate(rows):
            for h, step in enumerate(steps):
                states[e, h] = step.decision.context
                actions[e, h] = step.decision.number
                rewards[e, h] = step.reward
                odds[e, h] = step.decision.propensities
        return cls(states, actions, rewards, odds)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def horizon(self) -> int:
        """Largest number of steps of an episode, H."""
        return int(self.states.shape[1])

    @property
    def is_played(self) -> Bools:
        """Whether each step (E, H) was before the end of its episode."""
        return np.asarray(self.actions >= 0)

    @property
    def drawn_odds(self) -> Array:
        """Propensities (E, H) of the drawn actions; 1 after the end."""
        odds = action_odds(self.propensities, self.actions)
        return np.where(self.is_played, odds, 1.0)


def action_odds(propensities: Array, actions: Ints) -> Array:
    """Return the propensities (E, H) of actions (E, H) from those of all actions (E, H,
    K). Values for action -1 are arbitrary."""
    index = np.maximum(actions, 0)[..., None]
    return np.take_along_axis(propensities, index, axis=-1)[..., 0]


def _whole_table(name: str, value: object) -> Any:
    """Return `value` as an array of whole numbers (E, H)."""
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInput(
            f"{name} must be whole numbers, one row per episode, all of one length; "
            f"{error}"
        ) from error
    if array.dtype.kind not in "iu" or array.ndim != 2 or not array.size:
        raise InvalidInput(
            f"{name} must be whole numbers (episodes, steps); got {array.dtype} "
            f"{array.shape}"
        )
    return array.astype(np.int64)
