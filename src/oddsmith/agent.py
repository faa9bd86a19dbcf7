"""Agent: a policy with its state, for people who want an object."""

import threading
import warnings
from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith import disk, saving
from oddsmith.arms import Arms
from oddsmith.arrays import Bools
from oddsmith.contexts import length, single
from oddsmith.decision import Context, Decision, Odds, State, check_rewards, draw
from oddsmith.errors import InvalidInput, NoEligibleArm, NoExploration, NoVersion
from oddsmith.experts.guarded import Guarded
from oddsmith.policies.base import Policy, check_policy, fold
from oddsmith.policies.explanation import ArmExplanation, Explanation
from oddsmith.policies.parts.counts import arm_names
from oddsmith.spelling import did_you_mean
from oddsmith.uniforms import Uniforms

__all__ = ["Agent"]

_VERBS = {  # what other libraries call it
    **dict.fromkeys(("predict", "act", "choose", "select_arm", "recommend", "pull", "select"), "decide or best"),
    **dict.fromkeys(("sample", "draw", "step", "get_action", "predict_one"), "decide"),
    **dict.fromkeys(("fit", "partial_fit", "update", "observe", "reward", "train", "learn_one"), "learn"),
    **dict.fromkeys(("predict_proba", "predict_expectations", "score"), "explain"),
}


class Agent:
    """Decides, learns, saves. Safe from several threads: readers take the current state, learners are serialised.

    `seed` makes every draw re-derivable from the decision's step. `arms` names the arms (the experts' names for them
    if None; numbers if they have none). A policy that learns `in_place` is read under the lock, any other without.

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

    def __init__(self, policy: Policy, seed: int | None = None, arms: object = None) -> None:
        check_policy(policy)
        if seed is None:
            raise InvalidInput(
                "seed must be given: choose any whole number, seed=7 say, and write it down; every draw follows from it"
            )
        self._uniforms = Uniforms(seed)
        self.policy, self.seed = policy, int(seed)
        names = policy.arms if arms is None else arms
        self.arms = None if names is None else Arms(names)
        if policy.arms is not None and self.arms is not None and len(policy.arms) != len(self.arms):
            raise InvalidInput(f"arms must name the experts' {len(policy.arms)} arms; got {len(self.arms)} names")
        self._state: State = policy.init()
        self._steps = 0
        self._numbering, self._learning = threading.Lock(), threading.Lock()
        self._reading = self._learning if policy.in_place else nullcontext()
        if not policy.explores:
            message = "some odds may be 0, and this agent's log will then not support off-policy evaluation"
            then = "give it a gamma above 0 where it has one, or Bounded(policy, floors=0.01)"
            warnings.warn(f"{type(policy).__name__} does not explore: {message}; {then}", NoExploration, stacklevel=2)

    def __repr__(self) -> str:
        return f"Agent({type(self.policy).__name__}, seed={self.seed}, arms={self.arms}, {self._steps} decisions)"

    def __getattr__(self, name: str) -> Any:
        """Reached for what an agent does not have: says what may have been meant."""
        verbs = [verb for verb in vars(Agent) if not verb.startswith("_")]
        meant = f"did you mean {_VERBS[name]}? " if name in _VERBS else did_you_mean(name, verbs)
        raise AttributeError(f"an Agent has no {name!r}; {meant}It has {', '.join(verbs)}", name=name, obj=self)

    @property
    def state(self) -> State:
        """The current state; replaced, not changed, by learning (unless the policy learns in place)."""
        return self._state

    @property
    def steps(self) -> int:
        """The number of the last decision."""
        return self._steps

    def decide(self, context: Context, *, eligible: object = None) -> Decision:
        """One decision, with its exact propensity; keep it, and give it back to `learn` with the reward."""
        mask = None if eligible is None else self._mask(eligible)
        step = self._take(1)
        try:
            with self._reading:
                odds = self.policy.odds(self._state, single(context), eligible=mask, step=step)
            if odds.propensities.ndim != 1:
                shape = odds.propensities.shape
                raise InvalidInput(f"context must be one context (decide_batch takes many); got odds of shape {shape}")
            return self._named(draw(odds, context, self._uniforms(step), eligible=mask, step=step))
        except BaseException:
            self._give_back(step, 1)
            raise

    def decide_batch(self, contexts: Context, *, eligible: object = None) -> Decision:
        """Decisions for all rows of an array, list or data frame, as one decision with a leading axis.

        Each row gets the step, the uniform number and, from the same state, the odds that `decide` would give it.
        """
        n = length(contexts)
        mask = None if eligible is None else self._mask(eligible, rows=n)
        first = self._take(n)
        try:
            steps = np.arange(first, first + n)
            with self._reading:
                odds = self.policy.odds(self._state, contexts, eligible=mask, step=steps)
            alike = odds.propensities.ndim == 1 and (not self.policy.reads_context or _all_failed(self.policy, odds))
            if odds.propensities.shape[:-1] != (n,) and not alike:
                shape = odds.propensities.shape
                raise InvalidInput(f"contexts must give one row of odds for each of {n}; got odds of shape {shape}")
            uniforms = np.array([self._uniforms(step) for step in steps.tolist()])
            return self._named(draw(odds, contexts, uniforms, eligible=mask, step=steps))
        except BaseException:
            self._give_back(first, n)
            raise

    def learn(self, decision: Decision | list[Decision], reward: object) -> None:
        """Learn from one reward in [0, 1], or from a batch or list of decisions and their rewards in order.

        Now or later, in any order and from any thread; if anything is wrong with it, nothing is learnt. What is learnt
        twice counts twice: an agent keeps no list of what it has learnt from.
        """
        if isinstance(decision, list):
            decision = Decision.stacked(decision)
        if not isinstance(decision, Decision):
            raise InvalidInput(f"decision must be what decide gave back; got {type(decision).__name__}")
        if self.arms is not None:
            self._check_arms(decision)
        rewards = check_rewards(decision, reward)
        by_number = decision.numbered()
        with self._learning:
            if isinstance(rewards, float):
                self._state = self.policy.update(self._state, by_number, rewards)
            else:
                state = deepcopy(self._state) if self.policy.in_place else self._state  # a later row may be refused
                self._state = fold(self.policy, state, by_number, rewards)

    def best(self, context: Context, *, eligible: object = None) -> Any:
        """The arm with the largest odds, without exploration (the first of them, if several)."""
        mask = None if eligible is None else self._mask(eligible)
        with self._reading:
            odds: Odds = self.policy.odds(self._state, single(context), eligible=mask, step=max(self._steps, 1))
        arm = odds.propensities.argmax(axis=-1)
        if self.arms is None:
            return arm if arm.ndim else int(arm)
        names = np.array(arm_names(odds.propensities.shape[-1], self.arms))
        return names[arm] if arm.ndim else str(names[arm])

    def posterior(self) -> dict[str, Any]:
        """The probability that each expert is the one to follow, by name.

        Of policies that count: that each arm is the best. Of linear ones, where that needs a context (see `explain`):
        mean and standard deviation of each column's weight, by arm, or for "all arms" where these share a belief.
        """
        with self._reading:
            return self.policy.named_posterior(self._state, self.arms)

    def explain(self, context: Context, *, eligible: object = None) -> Explanation | ArmExplanation:
        """Why the odds are what they are in this context; print it for a table.

        Over experts: who votes for what, with which weight, and the part of gamma. Else: what is believed of each arm.
        """
        mask, known = None if eligible is None else self._mask(eligible), single(context)
        with self._reading:
            parts = self.policy.explain(self._state, known, eligible=mask, step=max(self._steps, 1))
        return parts if self.arms is None else parts._replace(arms=tuple(arm_names(len(parts.arms), self.arms)))

    def save(self, path: str | Path) -> None:
        """Write state, seed, step and the policy's fingerprint to one `.npz`, all of it or nothing."""
        if self.policy.unversioned:
            message = "models have no version: a load will accept any models of these names (see ModelExperts)"
            warnings.warn(message, NoVersion, stacklevel=2)
        with self._learning, self._numbering:
            meta = {"seed": self.seed, "steps": self._steps, "arms": None if self.arms is None else list(self.arms)}
            content = saving.pack(self.policy, self._state, meta)
        disk.write(Path(path), content)

    @classmethod
    def load(cls, path: str | Path, policy: Policy) -> "Agent":
        """The agent that `save` wrote; `policy` must be the one it was saved with."""
        state, meta = saving.read(Path(path), policy)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NoExploration)  # the warning came when the agent was made
            agent = cls(policy, meta["seed"], meta["arms"])
        agent._state, agent._steps = state, meta["steps"]
        return agent

    def _take(self, n: int) -> int:
        """The first of the next n steps."""
        with self._numbering:
            self._steps += n
            return self._steps - n + 1

    def _give_back(self, first: int, n: int) -> None:
        """Make the steps of a refused call the next ones again, unless another thread took later ones meanwhile."""
        with self._numbering:
            if self._steps == first + n - 1:
                self._steps = first - 1

    def _check_arms(self, decision: Decision) -> None:
        """Refuses a decision whose arm has another name, or none, among this agent's arms."""
        names = arm_names(decision.propensities.shape[-1], self.arms)
        if decision.index is None or np.any(np.array(names)[decision.index] != decision.arm):
            raise InvalidInput(f"decision must be about the arms {list(names)[:8]}; got arm {decision.arm!r:.60}")

    def _named(self, decision: Decision) -> Decision:
        """The decision with the arm's name in `arm` and its number in `index`; as it is where arms have no names."""
        if self.arms is None:
            return decision
        step, context, eligible, arm, propensities, advice, bonus, log_weights, _ = decision
        names = arm_names(propensities.shape[-1], self.arms)
        name = names[arm] if isinstance(arm, int) else np.array(names)[arm]
        return Decision(step, context, eligible, name, propensities, advice, bonus, log_weights, arm)

    def _mask(self, eligible: object, rows: int | None = None) -> Bools:
        """A boolean mask (K,), or (rows, K), from masks, or from names or numbers of arms."""
        given = [eligible] if isinstance(eligible, str | int) and not isinstance(eligible, bool) else eligible
        if isinstance(given, np.ndarray) and given.dtype == np.bool_:
            mask = given
        elif not hasattr(given, "__iter__"):
            raise InvalidInput(f"eligible must be a mask, or names or numbers of arms; got {eligible!r}")
        elif all(isinstance(one, bool | np.bool_) for one in given):
            mask = np.array(list(given), dtype=np.bool_)
        elif rows is not None and not any(isinstance(one, str | int | np.integer) for one in given):
            mask = np.stack([self._mask(self.arms if one is None else one) for one in given])
        else:
            mask = self._chosen(list(given))
        if mask.size == 0:
            raise NoEligibleArm("at least one arm must be eligible; got none")
        if mask.ndim != 1 and (rows is None or mask.ndim != 2 or len(mask) != rows):
            raise InvalidInput(f"eligible must be one mask, or one for each row; got shape {mask.shape}")
        return mask

    def _chosen(self, chosen: list[object]) -> Bools:
        """The mask of arms that are named, or numbered."""
        if self.arms is None:
            raise InvalidInput(f"eligible must be a boolean mask where arms have no names; got {chosen!r:.60}")
        if unknown := [arm for arm in chosen if arm not in self.arms.numbers]:
            raise InvalidInput(f"eligible must name arms of {list(self.arms)}; got {unknown[0]!r}")
        return self.arms.mask(chosen)


def _all_failed(policy: Policy, odds: Odds) -> bool:
    """Whether the odds are those of guarded experts that all failed, whatever the batch."""
    is_guarded = isinstance(policy.bank, Guarded)
    return is_guarded and odds.advice is not None and bool(np.isnan(odds.advice).all())
