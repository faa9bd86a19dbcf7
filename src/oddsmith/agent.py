"""Agent: a policy with its state, for people who want an object."""

import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith import saving
from oddsmith.arrays import Array, Bools
from oddsmith.decision import Context, Decision, Odds, Policy, State, Uniforms, decide, draw, fold
from oddsmith.errors import InvalidInput, NoEligibleArm, NoExploration
from oddsmith.experts.base import check_names
from oddsmith.policies.explanation import Explanation

__all__ = ["Agent"]


class Agent:
    """Decides, learns, saves. Safe from several threads: readers take the current state, learners are serialised.

    `seed` makes every draw re-derivable from the decision's step. `arms` names the arms (the experts' names for them
    if None; numbers if they have none). A policy whose state `moves` is read under the lock, any other without.

    >>> import oddsmith as od
    >>> experts = od.TableExperts(np.array([[[0.2, 0.8], [0.6, 0.4]]]), names=("optimist", "sceptic"))
    >>> agent = Agent(od.GeneralizedThompsonSampling(experts, gamma=0.1), seed=7, arms=["buy", "wait"])
    >>> decision = agent.decide(0)
    >>> decision
    Decision(arm='wait', propensity=0.5, step=1)
    >>> agent.learn(decision, reward=1)
    >>> {name: round(weight, 3) for name, weight in agent.posterior().items()}
    {'optimist': 0.586, 'sceptic': 0.414}
    """

    def __init__(self, policy: Policy, seed: int, arms: Any = None) -> None:
        for verb in ("init", "odds", "update"):
            if not callable(getattr(policy, verb, None)):
                raise InvalidInput(f"policy must have the verbs init, odds and update; got {type(policy).__name__}")
        self._uniforms = Uniforms(seed)
        known = getattr(policy, "arms", None)
        self.policy, self.seed = policy, int(seed)
        self.arms: tuple[str, ...] | None = known if arms is None else check_names("arms", arms)
        if known is not None and arms is not None and len(known) != len(self.arms or ()):
            raise InvalidInput(f"arms must name the experts' {len(known)} arms; got {len(self.arms or ())} names")
        self._state: State = policy.init()
        self._steps = 0
        self._numbering, self._learning = threading.Lock(), threading.Lock()
        self._moves = policy.moves
        if getattr(policy, "gamma", None) == 0.0:
            message = "gamma is 0, so some odds will be 0 and this agent's log will not support off-policy evaluation"
            warnings.warn(message, NoExploration, stacklevel=2)

    @property
    def state(self) -> State:
        """The current state; replaced, not changed, by learning (unless the policy moves)."""
        return self._state

    @property
    def steps(self) -> int:
        """How many decisions have been made."""
        return self._steps

    def decide(self, context: Context, *, eligible: Any = None) -> Decision:
        """One decision, with its exact propensity; keep it, and give it back to `learn` with the reward."""
        mask = None if eligible is None else self._mask(eligible)
        with self._numbering:
            self._steps = step = self._steps + 1
        uniform = self._uniforms(step)
        if self._moves:
            with self._learning:
                decision = decide(self.policy, self._state, context, uniform, eligible=mask, step=step)
        else:
            decision = decide(self.policy, self._state, context, uniform, eligible=mask, step=step)
        return decision if self.arms is None else self._named(decision)

    def decide_batch(self, contexts: Any, *, eligible: Any = None) -> Decision:
        """Decisions for all rows of an array, list or data frame, as one decision with a leading axis.

        Each row gets the step, the uniform number and, from the same state, the odds that `decide` would give it.
        """
        n = _length(contexts)
        mask = None if eligible is None else self._mask(eligible, rows=n)
        with self._numbering:
            first = self._steps + 1
            self._steps += n
        steps = np.arange(first, first + n)
        uniforms = np.array([self._uniforms(step) for step in range(first, first + n)])
        odds = self._reading(lambda: self.policy.odds(self._state, contexts, eligible=mask, step=steps))
        if odds.propensities.ndim > 1 and odds.propensities.shape[:-1] != (n,):
            raise InvalidInput(f"contexts must give odds of shape ({n}, K); got {odds.propensities.shape}")
        decision = draw(odds, contexts, uniforms, eligible=mask, step=steps)
        return decision if self.arms is None else self._named(decision)

    def learn(self, decision: Decision, reward: Any) -> None:
        """Learn from one reward in [0, 1], or from a batch of decisions and their rewards in order.

        Now or later, in any order and from any thread; if anything is wrong with it, nothing is learnt.
        """
        if not isinstance(decision, Decision):
            raise InvalidInput(f"decision must be what decide gave back; got {type(decision).__name__}")
        rewards = _checked_rewards(decision, reward)
        known = decision if decision.index is None else decision.numbered()
        with self._learning:
            if isinstance(rewards, float):
                self._state = self.policy.update(self._state, known, rewards)
            else:
                self._state = fold(self.policy, self._state, known, rewards)

    def best(self, context: Context, *, eligible: Any = None) -> Any:
        """The arm with the largest odds, without exploration (the first of them, if several)."""
        mask = None if eligible is None else self._mask(eligible)
        odds: Odds = self._reading(
            lambda: self.policy.odds(self._state, context, eligible=mask, step=max(self._steps, 1))
        )
        arm = odds.propensities.argmax(axis=-1)
        if arm.ndim:
            return arm if self.arms is None else np.array(self.arms)[arm]
        return int(arm) if self.arms is None else self.arms[int(arm)]

    def posterior(self) -> dict[str, float]:
        """The probability that each expert is the one to follow, by name."""
        policy: Any = self.policy
        if not hasattr(policy, "posterior"):
            raise InvalidInput(f"policy must have a posterior over experts; {type(policy).__name__} has none")
        inner = getattr(policy, "policy", policy)
        return dict(zip(inner.experts.names, policy.posterior(self._state).tolist(), strict=True))

    def explain(self, context: Context, *, eligible: Any = None) -> Explanation:
        """Who votes for what in this context, with which weight, and the part of gamma."""
        policy: Any = self.policy
        mask = None if eligible is None else self._mask(eligible)
        step = max(self._steps, 1)
        explanation: Explanation = self._reading(lambda: policy.explain(self._state, context, eligible=mask, step=step))
        return explanation if self.arms is None else explanation._replace(arms=self.arms)

    def save(self, path: str | Path) -> None:
        """Write state, seed, step and the policy's fingerprint to one `.npz`, all of it or nothing."""
        with self._learning, self._numbering:
            meta = {"seed": self.seed, "steps": self._steps, "arms": None if self.arms is None else list(self.arms)}
            saving.write(Path(path), self.policy, self._state, meta)

    @classmethod
    def load(cls, path: str | Path, policy: Policy) -> "Agent":
        """The agent that `save` wrote; `policy` must be the one it was saved with."""
        state, meta = saving.read(Path(path), policy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoExploration)  # it was said when the agent was made
            agent = cls(policy, meta["seed"], meta["arms"])
        agent._state, agent._steps = state, meta["steps"]
        return agent

    def _reading(self, read: Callable[[], Any]) -> Any:
        """`read()`, under the lock if the state may be written to meanwhile."""
        if not self._moves:
            return read()
        with self._learning:
            return read()

    def _named(self, decision: Decision) -> Decision:
        """The decision with the arm's name in `arm` and its number in `index`."""
        arms: tuple[str, ...] = self.arms or ()
        n_arms = decision.propensities.shape[-1]
        if len(arms) != n_arms:
            raise InvalidInput(f"arms must name every arm; got {len(arms)} names for {n_arms} arms")
        arm = decision.arm
        name = arms[arm] if isinstance(arm, int) else np.array(arms)[arm]
        step, context, eligible, _, propensities, advice, bonus, weights, _ = decision
        return Decision(step, context, eligible, name, propensities, advice, bonus, weights, arm)

    def _mask(self, eligible: Any, rows: int | None = None) -> Bools:
        """A boolean mask from a mask, or from names or numbers of arms."""
        array = np.asarray(eligible)
        if array.dtype == np.bool_ and array.ndim:
            allowed = (1,) if rows is None else (1, 2)
            if array.ndim not in allowed or (array.ndim == 2 and len(array) != rows):
                raise InvalidInput(f"eligible must be one mask, or one per row; got shape {array.shape}")
            return array
        if self.arms is None:
            raise InvalidInput(f"eligible must be a boolean mask where arms have no names; got {eligible!r}")
        if array.size == 0:
            raise NoEligibleArm("at least one arm must be eligible; got none")
        chosen = [eligible] if isinstance(eligible, str) else list(eligible)
        if unknown := [arm for arm in chosen if arm not in self.arms]:
            raise InvalidInput(f"eligible must name arms of {list(self.arms)}; got {unknown[0]!r}")
        return np.isin(np.array(self.arms), chosen)


def _checked_rewards(decision: Decision, reward: Any) -> float | Array:
    """A float for one decision, an array for a batch of them; all in [0, 1]."""
    if isinstance(reward, float | int) and decision.propensities.ndim == 1 and 0 <= reward <= 1:
        return float(reward)
    try:
        rewards = np.asarray(reward, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"reward must be a number in [0, 1]; got {reward!r:.60}") from error
    shape = decision.propensities.shape[:-1]
    if rewards.shape != shape:
        raise InvalidInput(f"rewards must match the decisions one to one, shape {shape}; got {rewards.shape}")
    if not (outside := ~((rewards >= 0) & (rewards <= 1))).any():
        return rewards if rewards.ndim else float(rewards)
    worst = np.atleast_1d(rewards[outside])[0]
    raise InvalidInput(f"reward must be in [0, 1] (RewardScale maps other units); got {worst}")


def _length(contexts: Any) -> int:
    try:
        n = len(contexts)
    except TypeError as error:
        raise InvalidInput(f"contexts must be rows: an array, a list or a data frame; got {contexts!r:.60}") from error
    if n == 0 or isinstance(contexts, str | dict):
        raise InvalidInput(f"contexts must be at least one row; got {type(contexts).__name__} of length {n}")
    return n
