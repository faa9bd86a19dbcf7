"""EpisodeAgent: a policy for episodes, together with its state."""

from os import PathLike
from pathlib import Path
from typing import Any

from oddsmith.core.arrays import Array
from oddsmith.core.checks import check_odds, check_state
from oddsmith.core.decision import Decision, Odds, State, check_rewards
from oddsmith.core.draw import Uniforms, draw
from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.files import disk
from oddsmith.files import state as saving
from oddsmith.lab.episodes.log import EpisodeLog, EpisodeStep
from oddsmith.lab.episodes.policy import EpisodicPolicy

__all__ = ["EpisodeAgent"]


class EpisodeAgent:
    """An agent that plays one episode after the other: begin an episode, then decide
    and observe at each step until its end.

    `seed` and the number of the decision determine every draw. The weights do not
    change during an episode. Finished episodes are kept in memory for `log`.

    >>> import numpy as np
    >>> from oddsmith.lab.episodes import EpisodicModel, GeneralizedPosteriorSampling
    >>> moves = np.ones((1, 2, 1))
    >>> models = [
    ...     EpisodicModel.stationary([[0.2, 0.8]], moves, horizon=2),
    ...     EpisodicModel.stationary([[0.6, 0.4]], moves, horizon=2),
    ... ]
    >>> agent = EpisodeAgent(GeneralizedPosteriorSampling(models, gamma=0.1), seed=7)
    >>> agent.begin()
    1
    >>> for reward in (1, 0):
    ...     decision = agent.decide(0)
    ...     agent.observe(reward)
    >>> agent.log().rewards
    array([[1., 0.]])
    """

    def __init__(self, policy: EpisodicPolicy, seed: int | None = None) -> None:
        if not isinstance(policy, EpisodicPolicy):
            raise InvalidInput(
                "policy must be a policy for episodes (use EpisodicPolicy as base "
                f"class); got {type(policy)!r}"
            )
        if seed is None:
            raise InvalidInput(
                "seed must be given, because every draw follows from it: choose any "
                "whole number, as in seed=7"
            )
        self.policy = policy
        self.seed = int(seed)
        self._uniforms = Uniforms(seed)
        self._state: State = policy.init()
        self._steps = 0
        self._episodes = 0
        self._open: list[EpisodeStep] | None = None
        self._waiting: Decision | None = None
        self._ended: list[list[EpisodeStep]] = []

    @property
    def state(self) -> State:
        """The current state. Observations replace it and never change it in place."""
        return self._state

    def begin(self) -> int:
        """Begin an episode and return its number, counted from 1. The previous episode
        must have ended."""
        if self._open is not None:
            raise InvalidInput(
                f"episode {self._episodes} must end before the next begins: it has "
                f"{len(self._open)} of {self.policy.horizon} steps; end() ends it here"
            )
        self._open = []
        self._episodes += 1
        return self._episodes

    def odds(self, state: int) -> Array:
        """Return the propensity of each action in this state, given the episode so
        far."""
        odds = self.policy.odds(self._state, state)
        return check_odds(self.policy, odds).propensities

    def decide(self, state: int) -> Decision:
        """Return the decision for the next step in this state. Its reward must be
        observed before the next decision."""
        if self._open is None:
            raise InvalidInput("an episode must begin before a decision; call begin()")
        if self._waiting is not None:
            raise InvalidInput(
                "the reward of the last decision must be observed before the next one; "
                "call observe()"
            )
        step = self._steps + 1
        odds: Odds = self.policy.odds(self._state, state, step=step)
        check_odds(self.policy, odds, step=step)
        decision = draw(odds, state, self._uniforms(step), step=step)
        self._steps = step
        self._waiting = decision
        return decision

    def observe(self, reward: object) -> None:
        """Observe the reward of the last decision. The last step of an episode ends it
        and updates the weights."""
        if self._waiting is None or self._open is None:
            raise InvalidInput("a decision must come before its reward; call decide()")
        decision = self._waiting
        number = float(check_rewards(decision, reward))
        state = self.policy.update(self._state, decision, number)
        self._state = check_state(self.policy, state)
        self._waiting = None
        self._open.append(EpisodeStep(decision, number))
        if len(self._open) == self.policy.horizon:
            self._close()

    def end(self, state: int | None = None) -> None:
        """End the episode early, in `state` if it is a state of the models. The last
        step ends an episode without this call."""
        if self._waiting is not None:
            raise InvalidInput(
                "the reward of the last decision must be observed before the end; call "
                "observe()"
            )
        if self._open is None:
            return
        self._state = self.policy.end(self._state, state)
        self._close()

    def _close(self) -> None:
        if self._open:
            self._ended.append(self._open)
        self._open = None

    def posterior(self) -> dict[str, float]:
        """Return the weight of each model by name."""
        return self.policy.named_posterior(self._state, None)

    def log(self) -> EpisodeLog:
        """Return the episodes that have ended since this agent was created or loaded,
        as a table."""
        return EpisodeLog.of(self._ended, horizon=self.policy.horizon)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the state to a file, between episodes. After `load` the agent continues
        with the same draws."""
        if self._open is not None:
            raise InvalidInput(
                f"an agent must be saved between episodes; episode {self._episodes} "
                "has not ended"
            )
        meta: Any = {
            "kind": "episodes",
            "seed": self.seed,
            "steps": self._steps,
            "episodes": self._episodes,
        }
        content = saving.pack(self.policy, self._state, meta)
        disk.write(Path(path), content)

    @classmethod
    def load(cls, path: str | PathLike[str], policy: EpisodicPolicy) -> "EpisodeAgent":
        """Return the agent that `save` wrote. A different policy is an error."""
        state, meta = saving.read_state(Path(path), policy)
        if meta.get("kind") != "episodes":
            raise BadFile(
                f"{path} must be a file that EpisodeAgent.save wrote; it contains an "
                "agent of another kind"
            )
        agent = cls(policy, seed=meta["seed"])
        agent._state = state
        agent._steps = meta["steps"]
        agent._episodes = meta["episodes"]
        return agent
