"""EpisodeLog: a table of episodes, with the odds that every action was drawn with."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Bools, finite
from oddsmith.core.decision import LEAST_PROPENSITY, Decision
from oddsmith.core.errors import InvalidInput

__all__ = ["EpisodeLog", "EpisodeStep"]


class EpisodeStep(NamedTuple):
    """One step of an episode: its decision and its reward."""

    decision: Decision
    reward: float


@dataclass(frozen=True, eq=False)
class EpisodeLog:
    """States, actions and rewards (E, H) of E episodes, and the odds (E, H, K) that
    actions were drawn with.

    An episode that ended early has action -1 and reward 0 from its end on.

    >>> log = EpisodeLog([[0, 1]], [[1, 0]], [[0, 1]], [[[0.5, 0.5], [0.9, 0.1]]])
    >>> len(log), log.horizon
    (1, 2)
    """

    states: Any
    actions: Any
    rewards: Any
    propensities: Any

    def __post_init__(self) -> None:
        states, actions = (
            _wholes(name, getattr(self, name)) for name in ("states", "actions")
        )
        rewards, odds = (
            finite("rewards", self.rewards, ndim=2),
            finite("propensities", self.propensities, ndim=3),
        )
        if not states.shape == actions.shape == rewards.shape == odds.shape[:2]:
            shapes = [part.shape for part in (states, actions, rewards, odds)]
            raise InvalidInput(
                "states, actions, rewards and odds must be of the same episodes and "
                f"steps; got {shapes}"
            )
        if not ((rewards >= 0) & (rewards <= 1)).all():
            raise InvalidInput(
                f"rewards must be in [0, 1]; got {rewards.min():g} to {rewards.max():g}"
            )
        if actions.min() < -1 or actions.max() >= odds.shape[2]:
            raise InvalidInput(
                f"actions must be 0 … {odds.shape[2] - 1}, or -1 after the end; got "
                f"{actions.max()}"
            )
        played = actions >= 0
        if (played[:, 1:] & ~played[:, :-1]).any() or (rewards[~played] != 0).any():
            raise InvalidInput(
                "an episode must not go on after its end: action -1 and reward 0 from "
                "there on"
            )
        for name, part in (
            ("states", states),
            ("actions", actions),
            ("rewards", rewards),
            ("propensities", odds),
        ):
            object.__setattr__(self, name, part)
        drawn = self.drawn[played]
        is_odds = (drawn >= LEAST_PROPENSITY) & (drawn <= 1 + 1e-9)
        if not is_odds.all() or (odds < 0).any():
            raise InvalidInput(
                f"odds of drawn actions must be in [{LEAST_PROPENSITY:g}, 1]; got "
                f"{drawn.min():g} to {drawn.max():g}"
            )
        sums = odds.sum(axis=-1)[played]
        if not (np.abs(sums - 1) <= 1e-6).all():
            raise InvalidInput(
                "odds must sum to 1 at every step; got "
                f"{sums[np.abs(sums - 1).argmax()]:g}"
            )

    @classmethod
    def of(
        cls, episodes: Iterable[Sequence[EpisodeStep]], *, horizon: int
    ) -> "EpisodeLog":
        """The table of episodes that an agent played, each a list of steps, of at most
        `horizon` of them."""
        rows = [list(steps) for steps in episodes]
        if not rows or not all(0 < len(steps) <= horizon for steps in rows):
            raise InvalidInput(
                f"episodes must be lists of 1 to {horizon} steps; got "
                f"{[len(s) for s in rows][:8]}"
            )
        shape, n_actions = (len(rows), horizon), len(rows[0][0].decision.propensities)
        states, actions, rewards = (
            np.zeros(shape, dtype=np.int64),
            np.full(shape, -1),
            np.zeros(shape),
        )
        odds = np.full((*shape, n_actions), 1 / n_actions)
        for e, steps in enumerate(rows):
            for h, (decision, reward) in enumerate(steps):
                states[e, h], actions[e, h], rewards[e, h] = (
                    decision.context,
                    decision.number,
                    reward,
                )
                odds[e, h] = decision.propensities
        return cls(states, actions, rewards, odds)

    def __len__(self) -> int:
        return len(self.states)

    @property
    def horizon(self) -> int:
        """H, the most steps of an episode."""
        return int(self.states.shape[1])

    @property
    def played(self) -> Bools:
        """Which steps (E, H) were before the end of their episode."""
        return np.asarray(self.actions >= 0)

    @property
    def drawn(self) -> Array:
        """The odds (E, H) of the actions drawn; 1 after the end."""
        odds = np.take_along_axis(
            self.propensities, np.maximum(self.actions, 0)[..., None], axis=-1
        )[..., 0]
        return np.where(self.played, odds, 1.0)


def _wholes(name: str, value: object) -> Any:
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InvalidInput(
            f"{name} must be whole numbers, one row an episode, all of one length; "
            f"{error}"
        ) from error
    if array.dtype.kind not in "iu" or array.ndim != 2 or not array.size:
        raise InvalidInput(
            f"{name} must be whole numbers (episodes, steps); got {array.dtype} "
            f"{array.shape}"
        )
    return array.astype(np.int64)
