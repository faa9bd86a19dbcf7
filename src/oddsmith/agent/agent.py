"""Agent: a policy with its state, for people who want an object."""

import threading
import warnings
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from oddsmith.agent.advisers import as_known, signed_names
from oddsmith.agent.call import Call, call_of, calls_of, check_record
from oddsmith.agent.roster_changes import policy_after
from oddsmith.agent.slate import filled, slate_of, slots_of
from oddsmith.core.arrays import Ints, number
from oddsmith.core.checks import check_odds, check_state
from oddsmith.core.decision import Context, Decision, Odds, State, Step, check_rewards
from oddsmith.core.draw import Uniforms, draw
from oddsmith.core.errors import InvalidInput, NoExploration, NoVersion
from oddsmith.core.explanation import ArmExplanation, Explanation
from oddsmith.core.names import Arms, arm_names
from oddsmith.core.policy import Policy, check_policy, fold
from oddsmith.core.prediction_clip import clip_counts
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.roster import bank_of_one
from oddsmith.files import disk
from oddsmith.files import state as saving
from oddsmith.files.fingerprint import fingerprint
from oddsmith.policies.roster import (
    active_experts,
    add_expert,
    check_addition,
    check_retirement,
    retire_expert,
)

__all__ = ["Agent"]


class Agent:
    """Decides, learns, saves. Safe from several threads: readers take the current
    state, learners are serialised.

    `seed` makes every draw re-derivable from the decision's step. `arms` names the arms
    (the experts' names for them if None; numbers if they have none, or those that come
    with the call). `state` is one to go on from. `start` is a state, too, or where it
    comes from: a `Log` that the policy learns first, what `fit_log` returned, or the
    path of an `.npz` that `oddsmith fit` or `save` wrote. A policy that learns
    `in_place` is read under the lock, any other without.

    >>> import oddsmith as od
    >>> experts = od.TableExperts(
    ...     np.array([[[0.2, 0.8], [0.6, 0.4]]]), names=("optimist", "sceptic")
    ... )
    >>> agent = Agent(
    ...     od.GeneralizedThompsonSampling(experts, gamma=0.1),
    ...     seed=7,
    ...     arms=["buy", "wait"],
    ... )
    >>> decision = agent.decide(0)
    >>> decision
    Decision(arm='wait', propensity=0.5, step=1)
    >>> agent.learn(decision, reward=1)
    >>> {name: round(weight, 3) for name, weight in agent.posterior().items()}
    {'optimist': 0.586, 'sceptic': 0.414}
    """

    def __init__(
        self,
        policy: Policy,
        seed: int | None = None,
        arms: object = None,
        *,
        state: State = None,
        start: object = None,
    ) -> None:
        check_policy(policy)
        if start is not None:
            if state is not None:
                raise InvalidInput("start takes the place of state: give one of them")
            state = _start_state(policy, start)
        if seed is None:
            raise InvalidInput(
                "seed must be given: choose any whole number, seed=7 say, and write it "
                "down; every draw follows from it"
            )
        self._uniforms = Uniforms(seed)
        self.policy, self.seed = policy, int(seed)
        names = policy.arms if arms is None else arms
        self.arms = None if names is None else Arms(names)
        if (
            policy.arms is not None
            and self.arms is not None
            and len(policy.arms) != len(self.arms)
        ):
            raise InvalidInput(
                f"arms must name the experts' {len(policy.arms)} arms; got "
                f"{len(self.arms)} names"
            )
        self._state: State = _checked_state(policy, state)
        self._experts = signed_names(policy.bank)
        # the experts that joined, with their shares, or retired (0)
        self._changes: list[list[Any]] = []
        self._steps = 0
        self._numbering, self._learning = threading.Lock(), threading.Lock()
        self._reading: AbstractContextManager[Any] = nullcontext()
        if policy.in_place:
            self._reading = self._learning
        if not policy.explores:
            message = (
                "some odds may be 0, and this agent's log will then not support "
                "off-policy evaluation"
            )
            then = (
                "give it a gamma above 0 where it has one, or Bounded(policy, "
                "floors=0.01)"
            )
            warnings.warn(
                f"{type(policy).__name__} does not explore: {message}; {then}",
                NoExploration,
                stacklevel=2,
            )

    def __repr__(self) -> str:
        return (
            f"Agent({type(self.policy).__name__}, seed={self.seed}, arms={self.arms}, "
            f"{self._steps} decisions)"
        )

    @property
    def state(self) -> State:
        """The current state; replaced, not changed, by learning (unless the policy
        learns in place)."""
        return self._state

    @property
    def steps(self) -> int:
        """The number of the last decision."""
        return self._steps

    def decide(
        self, context: Context, *, arms: object = None, eligible: object = None
    ) -> Decision:
        """One decision, with its exact propensity; keep it, and give it back to `learn`
        with the reward.

        `arms` come with the call where the policy was made without: a dict of name to
        features, a list of names, or a data frame with a row for each. Where it was
        made with arms, those named are the eligible ones.
        """
        # the arms, the policy and its state belong together: another thread may add
        # arms
        with self._reading:
            now = self._current()
            call = call_of(now.policy, now.arms, context, arms, eligible)
            step = self._take(1)
            try:
                return self._one(now, call, context, step)
            except BaseException:
                self._give_back(step, 1)
                raise

    def decide_slate(
        self,
        context: Context,
        *,
        arms: object = None,
        slots: object = 3,
        eligible: object = None,
    ) -> list[Decision]:
        """A decision for each slot of a page: the first from all arms, each next one
        from those that are left.

        `slots` is how many there are, or a list of `Slot`. The context is joined by
        "slot", the slot's number from 1 on (a row of numbers has it behind), and its
        features. Odds are exact given the slots before, whose arms are not in
        `eligible`; each decision is learnt like any other.
        """
        places = slots_of(slots)
        with self._reading:
            now = self._current()
            calls = slate_of(
                call_of(now.policy, now.arms, context, arms, eligible),
                context,
                places,
            )
            first = self._take(len(calls))
            try:
                return filled(
                    calls,
                    lambda call, place: self._one(
                        now, call, call.context, first + place
                    ),
                )
            except BaseException:
                self._give_back(first, len(calls))
                raise

    def decide_batch(
        self, contexts: Context, *, arms: object = None, eligible: object = None
    ) -> Decision:
        """Decisions for all rows of an array, list or data frame, as one decision with
        a leading axis.

        Each row gets the step, the uniform number and, from the same state, the odds
        that `decide` would give it. `arms` are one offer for all rows, or a list with
        one for each.
        """
        with self._reading:
            now = self._current()
            calls = calls_of(now.policy, now.arms, contexts, arms, eligible)
            n = sum(len(places) for places, _ in calls)
            first = self._take(n)
            try:
                drawn = [
                    (places, self._drawn(now, call, first + places))
                    for places, call in calls
                ]
            except BaseException:
                self._give_back(first, n)
                raise
        if len(drawn) == 1:
            return drawn[0][1]
        by_place = {
            place: row
            for places, some in drawn
            for place, row in zip(places, some.rows(), strict=True)
        }
        return Decision.stack(by_place[place] for place in range(n))

    def learn(self, decision: Decision | list[Decision], reward: object) -> None:
        """Learn from one reward in [0, 1], or from a batch or list of decisions and
        their rewards in order.

        Now or later, in any order and from any thread; if anything is wrong with it,
        nothing is learnt. What is learnt twice counts twice. An expert that did not
        advise a decision, or did in another version, is asleep in it.
        """
        with self._learning:
            given = decision
            if isinstance(given, list):
                given = Decision.stack([self._as_known(one) for one in given])
            known = self._as_known(given)
            self._check_arms(known)
            rewards = check_rewards(known, reward)
            by_number = known.by_number()
            if isinstance(rewards, float):
                state = self.policy.update(self._state, by_number, rewards)
                self._state = check_state(self.policy, state)
            else:
                # a later row may be refused
                state = deepcopy(self._state) if self.policy.in_place else self._state
                self._state = fold(self.policy, state, by_number, rewards)

    def best(
        self, context: Context, *, arms: object = None, eligible: object = None
    ) -> Any:
        """The arm with the largest odds, without exploration (the first of them, if
        several)."""
        with self._reading:
            now = self._current()
            call = call_of(now.policy, now.arms, context, arms, eligible)
            odds = self._odds(now, call, max(self._steps, 1))
        arm = odds.propensities.argmax(axis=-1)
        if call.names is None:
            return arm if arm.ndim else int(arm)
        names = np.array(arm_names(odds.propensities.shape[-1], call.names))
        return names[arm] if arm.ndim else str(names[arm])

    def posterior(self) -> dict[str, Any]:
        """The probability that each expert is the one to follow, by name.

        Of policies that count: that each arm is the best. Of linear ones, where that
        needs a context (see `explain`): mean and standard deviation of each column's
        weight, by arm, or for "all arms" where these share a belief.
        """
        with self._reading:
            now = self._current()
            return now.policy.named_posterior(now.state, now.arms)

    def explain(
        self, context: Context, *, arms: object = None, eligible: object = None
    ) -> Explanation | ArmExplanation:
        """Why the odds are what they are in this context; print it for a table.

        Over experts: who votes for what, with which weight, and the part of gamma.
        Else: what is believed of each arm. Whether experts choose as well as they
        predict is told of `Hedged`; of GTS a service tells it.
        """
        with self._reading:
            now = self._current()
            call = call_of(now.policy, now.arms, context, arms, eligible)
            parts = now.policy.explain(
                now.state, call.question, eligible=call.mask, step=max(self._steps, 1)
            )
            if isinstance(parts, Explanation) and now.policy.bank is not None:
                own = getattr(now.state, "experts", ())
                clipped = clip_counts(now.policy.bank, own, parts.predictions)
                parts = parts._replace(notes=(*parts.notes, *map(str, clipped)))
        return (
            parts
            if call.names is None
            else parts._replace(arms=tuple(arm_names(len(parts.arms), call.names)))
        )

    def add_arms(self, arms: object) -> None:
        """Further arms, of which nothing is known; what was learnt stays, and earlier
        decisions can still be learnt.

        For policies that were made with arms and can widen, such as `auto(arms)`. Where
        arms come with the call there is nothing to add.
        """
        if self.arms is None:
            raise InvalidInput(
                "add_arms is for policies that were made with arms: give new ones with "
                "the call, arms=…"
            )
        added = Arms(arms)
        with self._learning, self._numbering:
            names = Arms([*self.arms, *added])
            self.policy, self._state = self.policy.with_arms(self._state, names)
            self.arms = names

    def add_expert(
        self, name: str, expert: object = None, *, share: float | None = None
    ) -> None:
        """An expert joins with a `share` of the weight, that of one among equals unless
        given; the others keep their proportions.

        `expert` is a model (asked like the models that are there), a function of the
        context, or a bank of one expert with this name; one that retired comes back by
        its name alone. Earlier decisions can still be learnt: it is asleep in them. For
        `auto` with models, GTS, RateMixture, Hedged, EXP4 and EXP4P.
        """
        with self._learning:
            check_addition(self.policy, name)
            bank = self.policy.bank
            n_active = len(active_experts(self.policy))
            part = 1 / (n_active + 1) if share is None else share
            number("share", part, low=0, high=1, open_low=True, open_high=True)
            joins = None
            if bank is not None and name not in bank.names:
                joins = bank_of_one(bank, name, expert)
            self._become(*add_expert(self.policy, self._state, name, part, joins))
            self._changes.append([name, part])

    def retire_expert(self, name: str) -> None:
        """An expert retires: its weight is 0, and the others share it in proportion.

        It is no longer asked if the experts are `Guarded`; it can come back.
        """
        with self._learning:
            check_retirement(self.policy, name)
            self._become(*retire_expert(self.policy, self._state, name))
            self._changes.append([name, 0.0])

    def save(self, path: str | Path) -> None:
        """Write state, seed, step and the policy's fingerprint to one `.npz`, all of it
        or nothing."""
        if self.policy.unversioned:
            message = (
                "models have no version: a load will accept any models of these names "
                "(see ModelExperts)"
            )
            warnings.warn(message, NoVersion, stacklevel=2)
        with self._learning, self._numbering:
            meta = {
                "seed": self.seed,
                "steps": self._steps,
                "arms": None if self.arms is None else list(self.arms),
                "expert_changes": self._changes,
            }
            content = saving.pack(self.policy, self._state, meta)
        disk.write(Path(path), content)

    @classmethod
    def load(
        cls,
        path: str | Path,
        policy: Policy,
        *,
        experts: Mapping[str, object] | None = None,
    ) -> "Agent":
        """The agent that `save` wrote; `policy` must be the one it was made with, or
        had at last.

        `experts` are those that joined since it was made, by name.
        """
        meta = saving.read_meta(Path(path))
        changes = meta.get("expert_changes", [])
        if changes and fingerprint(policy) != meta["fingerprint"]:
            policy = policy_after(policy, changes, experts or {})
        state, _ = saving.read(Path(path), policy)
        with warnings.catch_warnings():
            # the warning came when the agent was made
            warnings.simplefilter("ignore", NoExploration)
            agent = cls(policy, meta["seed"], meta["arms"])
        agent._state = state
        agent._steps = meta["steps"]
        agent._changes = changes
        return agent

    def _current(self) -> "_Current":
        """The policy, its state and its arms, which belong together."""
        with self._numbering:
            return _Current(self.policy, self._state, self.arms, self._experts)

    def _become(self, policy: Policy, state: State) -> None:
        """Go on with another roster; the caller holds `_learning`."""
        with self._numbering:
            self.policy = policy
            self._state = state
            self._experts = signed_names(policy.bank)
            if policy.in_place:
                self._reading = self._learning

    def _as_known(self, decision: Decision) -> Decision:
        return as_known(decision, self._experts, self.policy, self._state)

    def _take(self, n: int) -> int:
        """The first of the next n steps."""
        with self._numbering:
            self._steps += n
            return self._steps - n + 1

    def _give_back(self, first: int, n: int) -> None:
        """Make the steps of a refused call the next ones again, unless another thread
        took later ones meanwhile."""
        with self._numbering:
            if self._steps == first + n - 1:
                self._steps = first - 1

    def _check_arms(self, decision: Decision) -> None:
        """Refuses a decision whose arm has another name, or none, among this agent's
        arms, or those it began with."""
        if decision.arms is not None:
            check_record(decision)
        if self.arms is None:
            return
        names = self.arms[: decision.propensities.shape[-1]]
        index = np.asarray(decision.index)
        if (
            decision.index is None
            or np.any(index >= len(names))
            or np.any(np.array(names)[index] != decision.arm)
        ):
            raise InvalidInput(
                f"decision must be about the arms {list(names)[:8]}; got arm "
                f"{decision.arm!r:.60}"
            )

    def _odds(self, now: "_Current", call: Call, step: Step) -> Odds:
        """The policy's odds for a call, checked."""
        odds = now.policy.odds(now.state, call.question, eligible=call.mask, step=step)
        return check_odds(now.policy, odds, eligible=call.mask, step=step)

    def _one(
        self, now: "_Current", call: Call, context: Context, step: int
    ) -> Decision:
        """The decision of a call for one context."""
        odds = self._odds(now, call, step)
        shape = odds.propensities.shape
        if len(shape) != 1:
            raise InvalidInput(
                "context must be one context (decide_batch takes many); got odds of "
                f"shape {shape}"
            )
        uniform = self._uniforms(step)
        decision = draw(odds, context, uniform, eligible=call.mask, step=step)
        return call.named(decision, now.experts)

    def _drawn(self, now: "_Current", call: Call, steps: Ints) -> Decision:
        """The decisions of a call for many rows."""
        n = len(steps)
        odds = self._odds(now, call, steps)
        alike = odds.propensities.ndim == 1 and (
            not now.policy.reads_context or _all_failed(now.policy, odds)
        )
        if odds.propensities.shape[:-1] != (n,) and not alike:
            shape = odds.propensities.shape
            raise InvalidInput(
                f"contexts must give one row of odds for each of {n}; got odds of "
                f"shape {shape}"
            )
        uniforms = np.array([self._uniforms(step) for step in steps.tolist()])
        return call.named(
            draw(odds, call.context, uniforms, eligible=call.mask, step=steps),
            now.experts,
        )


class _Current(NamedTuple):
    """What a decision is made with."""

    policy: Policy
    state: State
    arms: Arms | None
    experts: tuple[str, ...] | None


class _Source(Protocol):
    """Where a state comes from: a log, or what was fitted to one."""

    def state_of(self, policy: Policy) -> State:
        """The state of the policy after it."""
        ...


def _start_state(policy: Policy, start: Any) -> State:
    """The state that `start` is, or that it leads to."""
    if isinstance(start, str | Path):
        if Path(start).suffix != ".npz":
            raise InvalidInput(
                "start must be the path of an .npz that `oddsmith fit` or Agent.save "
                f"wrote; got {str(start)!r:.60}: a log is start=od.read_log(path)"
            )
        state, _ = saving.read(Path(start), policy)
        return state
    if hasattr(start, "state_of"):
        source: _Source = start
        return source.state_of(policy)
    return start


def _checked_state(policy: Policy, state: State) -> State:
    """A state of this policy: the one given, or that before any reward."""
    first = policy.init()
    if state is None:
        return first
    if type(state) is not type(first):
        raise InvalidInput(
            f"state must be one of {type(policy).__name__}, {type(first).__name__}; "
            f"got {type(state).__name__}"
        )
    return state


def _all_failed(policy: Policy, odds: Odds) -> bool:
    """Whether the odds are those of guarded experts that all failed, whatever the
    batch."""
    is_guarded = isinstance(policy.bank, Guarded)
    return is_guarded and odds.advice is not None and bool(np.isnan(odds.advice).all())
