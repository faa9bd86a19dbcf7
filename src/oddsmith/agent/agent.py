"""Agent: a policy together with its state."""

import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from oddsmith.agent.advisers import match_advisers, signed_names
from oddsmith.agent.call import (
    Call,
    call_of,
    calls_of,
    check_record,
    rows_without_barred,
    without_barred,
)
from oddsmith.agent.roster_changes import policy_after
from oddsmith.agent.slate import fill_slots, slate_of, slots_of
from oddsmith.agent.trial import Outcomes, Trial
from oddsmith.contexts.metrics import Metric
from oddsmith.contexts.rules import Rule, check_rules
from oddsmith.core.arrays import Ints, number
from oddsmith.core.checks import check_odds, check_state
from oddsmith.core.decision import Context, Decision, Odds, State, Step, check_rewards
from oddsmith.core.draw import Uniforms, draw
from oddsmith.core.errors import InvalidInput, NoExploration, NoVersion
from oddsmith.core.explanation import ArmExplanation, Explanation
from oddsmith.core.names import Arms, arm_names
from oddsmith.core.policy import Policy, check_policy, fold
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.prediction_clip import clip_counts
from oddsmith.experts.roster import bank_of_one
from oddsmith.files import disk
from oddsmith.files import state as saving
from oddsmith.files.fingerprint import fingerprint
from oddsmith.policies.holdout import Holdout
from oddsmith.policies.roster import (
    active_experts,
    add_expert,
    check_addition,
    check_retirement,
    retire_expert,
)

__all__ = ["Agent"]


class Agent:
    """A policy with its state: decide, learn, save. An agent may be used by several
    threads at once.

    `seed` makes every draw reproducible from the step of the decision. `arms` are the
    names of the arms. If None, they are the policy's own names, numbers, or the names
    that are passed in the call. `state` is the state to continue from. `start` is
    another way to give it: a state, a `Log` that the policy learns from first, the
    result of `fit_log`, or the path of an `.npz` file that `oddsmith fit` or `save`
    wrote. If the policy learns `in_place`, decisions wait while it learns.

    `holdout` assigns a share of the decisions, or of the units, to a control. `metrics`
    declares amounts besides the reward (`Metric`, or a dict by name), and
    `reward_weights` computes the reward from them. With any of these, an agent keeps
    its decisions and their outcomes in memory, which `outcomes()` returns. `rules` make
    arms not eligible in some contexts (`read_policy(path).rules`).

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
        holdout: Holdout | None = None,
        metrics: Iterable[Metric] = (),
        reward_weights: Mapping[str, float] | None = None,
        rules: Sequence[Rule] = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        check_policy(policy)
        if start is not None:
            if state is not None:
                raise InvalidInput("state and start must not both be given; got both")
            state = _start_state(policy, start)
        if seed is None:
            raise InvalidInput(
                "seed must be given, because every draw follows from it: choose any "
                "whole number, as in seed=7, and write it down"
            )
        self._uniforms = Uniforms(seed)
        self.policy = policy
        self.seed = int(seed)
        self.arms = _agent_arms(policy, arms)
        self._state: State = _checked_state(policy, state)
        self._trial = Trial(holdout, metrics, reward_weights, self._uniforms, clock)
        self._trial.check_arms(self.arms)
        names = self.arms or policy.arms
        if rules and names is None and not policy.takes_offers:
            raise InvalidInput("arms must have names if the policy has rules; got none")
        check_rules(rules, names)
        self._rules = tuple(rules)
        self._experts = signed_names(policy.bank)
        # Experts that were added since the start, with their shares. A share of 0 marks
        # a retired expert.
        self._changes: list[list[Any]] = []
        self._steps = 0
        self._numbering = threading.Lock()
        self._learning = threading.Lock()
        self._reading: AbstractContextManager[Any] = nullcontext()
        if policy.in_place:
            self._reading = self._learning
        if not policy.explores:
            warnings.warn(
                f"{type(policy).__name__} does not explore: some propensities may be "
                "0, and then this agent's log does not support off-policy "
                "evaluation; give it a gamma above 0 if it has one, or use "
                "Bounded(policy, floors=0.01)",
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
        """Return the current state. Learning replaces it, unless the policy learns in
        place."""
        return self._state

    @property
    def steps(self) -> int:
        """Return the number of the last decision."""
        return self._steps

    def decide(
        self,
        context: Context,
        *,
        arms: object = None,
        eligible: object = None,
        unit: str | None = None,
    ) -> Decision:
        """Choose an arm. Return the decision with its exact propensity. Pass this
        decision to `learn` with the reward.

        If the policy was created without arms, `arms` are the arms of this call: a dict
        of name to features, a list of names, or a data frame with a row per arm.
        Otherwise `arms` are the eligible arms. `unit` is required for a holdout by
        unit: the visitor or customer of this decision.
        """
        # Read arms, policy and state under one lock, because another thread may add
        # arms.
        with self._reading:
            now = self._current()
            call = call_of(now.policy, now.arms, context, arms, eligible)
            call = without_barred(call, self._rules)
            step = self._take(1)
            try:
                return self._decide_one(now, call, context, step, unit)
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
        unit: str | None = None,
    ) -> list[Decision]:
        """Choose an arm for each slot of a page: the first from all arms, each next one
        from the remaining arms.

        `slots` is the number of slots, or a list of `Slot`. The context of a slot
        contains the number of the slot, from 1 on, under the key "slot", and the slot's
        features; a context of numbers is extended by these numbers. Propensities are
        exact given the earlier slots, whose arms are no longer eligible. Each decision
        is learnt like any other. With a holdout, all slots of a slate are in the same
        group. If the holdout is by unit, it is the group of `unit`; otherwise a group
        is drawn for the slate, and the slate's first step is recorded as the unit.
        """
        places = slots_of(slots)
        with self._reading:
            now = self._current()
            page = call_of(now.policy, now.arms, context, arms, eligible)
            calls = slate_of(page, context, places, self._restrict)
            first = self._take(len(calls))
            slate = str(first)

            def decide_slot(call: Call, place: int) -> Decision:
                step = first + place
                return self._decide_one(now, call, call.context, step, unit, slate)

            try:
                return fill_slots(calls, decide_slot)
            except BaseException:
                self._give_back(first, len(calls))
                raise

    def decide_batch(
        self, contexts: Context, *, arms: object = None, eligible: object = None
    ) -> Decision:
        """Choose an arm for each row of an array, list or data frame. Return one
        decision with a leading axis.

        Each row gets the step, uniform number and propensities that a call of `decide`
        would use. All rows use the current state. `arms` are one offer for all rows, or
        a list of one offer per row.
        """
        with self._reading:
            now = self._current()
            calls = calls_of(now.policy, now.arms, contexts, arms, eligible)
            calls = [
                (places, rows_without_barred(call, self._rules))
                for places, call in calls
            ]
            n = sum(len(places) for places, _ in calls)
            first = self._take(n)
            try:
                decisions = [
                    self._decide_rows(now, call, first + places)
                    for places, call in calls
                ]
            except BaseException:
                self._give_back(first, n)
                raise
        if len(decisions) == 1:
            return decisions[0]
        by_place: dict[int, Decision] = {}
        for (places, _), decision in zip(calls, decisions, strict=True):
            by_place.update(zip(places, decision.rows(), strict=True))
        return Decision.stack(by_place[place] for place in range(n))

    def learn(
        self,
        decision: Decision | list[Decision],
        reward: object = None,
        *,
        metrics: Mapping[str, object] | None = None,
    ) -> None:
        """Learn from one reward in [0, 1], or from a batch or list of decisions and
        their rewards in the same order.

        Rewards may come at any time, in any order and from any thread. If a reward or a
        decision is invalid, nothing is learnt. A reward given twice counts twice. An
        expert that joined after a decision, or has changed its version since, counts as
        having made no prediction in it.

        `metrics` are amounts of one decision by name. Without a reward, the reward is
        the sum of the amounts weighted by `reward_weights`.
        """
        if metrics is not None or reward is None:
            reward = self._trial.note_amounts(decision, reward, metrics or {})
        with self._learning:
            if isinstance(decision, list):
                decision = Decision.stack(map(self._match_advisers, decision))
            decision = self._match_advisers(decision)
            self._check_arms(decision)
            rewards = check_rewards(decision, reward)
            by_number = decision.by_number()
            state = self._state
            if isinstance(rewards, float):
                state = self.policy.update(state, by_number, rewards)
                self._state = check_state(self.policy, state)
                if self._trial.is_kept:
                    self._trial.note_reward(decision, rewards)
                return
            if self.policy.in_place:
                # Work on a copy: if a later row is invalid, the caller's state must not
                # have changed.
                state = deepcopy(state)
            self._state = fold(self.policy, state, by_number, rewards)
            if self._trial.is_kept:
                self._trial.note_rewards(decision, rewards)

    def record(self, decision: Decision, *, metrics: Mapping[str, object]) -> None:
        """Record amounts of metrics of one decision, before or after its reward,
        without learning. A later amount of a metric replaces the earlier one."""
        self._trial.record(decision, metrics)

    def outcomes(self) -> Outcomes:
        """Return decisions, rewards (NaN if none has come) and amounts of an agent with
        a holdout or metrics. `Log.of(*agent.outcomes())` is a log for
        `score_metrics`."""
        return self._trial.outcomes()

    def best(
        self, context: Context, *, arms: object = None, eligible: object = None
    ) -> Any:
        """Return the arm with the largest propensity, without exploration. If several
        are tied, return the first."""
        with self._reading:
            now = self._current()
            call = call_of(now.policy, now.arms, context, arms, eligible)
            call = without_barred(call, self._rules)
            odds = self._odds(now, call, max(self._steps, 1))
        arm = odds.propensities.argmax(axis=-1)
        best = arm
        if call.names is not None:
            best = np.array(arm_names(odds.propensities.shape[-1], call.names))[arm]
        return best if arm.ndim else best.item()

    def posterior(self) -> dict[str, Any]:
        """Return the posterior weight of each expert by name.

        For policies that count rewards, return the probability that each arm is the
        best. For linear policies, this probability depends on the context (see
        `explain`), so return the mean and standard deviation of the weight of each
        column, by arm, or under "all arms" if the arms share one posterior.
        """
        with self._reading:
            now = self._current()
            return now.policy.named_posterior(now.state, now.arms)

    def explain(
        self, context: Context, *, arms: object = None, eligible: object = None
    ) -> Explanation | ArmExplanation:
        """Explain the propensities in this context. Printing the result gives a table.

        With experts, the table contains each expert's vote and weight, and the share of
        exploration (gamma). Without experts, it contains the posterior of each arm. For
        `Hedged`, it also reports whether the experts that predict best also choose
        best; for GTS, only the service reports this.
        """
        with self._reading:
            now = self._current()
            call = call_of(now.policy, now.arms, context, arms, eligible)
            call = without_barred(call, self._rules)
            parts = now.policy.explain(
                now.state, call.question, eligible=call.mask, step=max(self._steps, 1)
            )
            if isinstance(parts, Explanation) and now.policy.bank is not None:
                bank_state = getattr(now.state, "experts", ())
                counts = clip_counts(now.policy.bank, bank_state, parts.predictions)
                parts = parts._replace(notes=(*parts.notes, *map(str, counts)))
        if call.names is None:
            return parts
        return parts._replace(arms=tuple(arm_names(len(parts.arms), call.names)))

    def add_arms(self, arms: object) -> None:
        """Add arms without data. The policy keeps its knowledge, and can still learn
        from earlier decisions.

        This is for policies that were created with arms and can be extended, such as
        `auto(arms)`. If arms are passed in each call, no arms need to be added.
        """
        if self.arms is None:
            raise InvalidInput(
                "add_arms is for policies that were created with arms: pass new arms "
                "in the call, arms=…"
            )
        added = Arms(arms)
        with self._learning, self._numbering:
            names = Arms([*self.arms, *added])
            self.policy, self._state = self.policy.with_arms(self._state, names)
            self.arms = names

    def add_expert(
        self, name: str, expert: object = None, *, share: float | None = None
    ) -> None:
        """Add an expert with a `share` of the weight, by default 1 / (number of
        experts); the others keep their proportions.

        `expert` is a model (called like the present models), a function of the context,
        or a bank of one expert with this name. A retired expert returns by its name
        alone. Earlier decisions can still be learnt: the new expert has no prediction
        in them. Supported by `auto` with models, GTS, RateMixture, Hedged, EXP4 and
        EXP4P.
        """
        with self._learning:
            check_addition(self.policy, name)
            bank = self.policy.bank
            if share is None:
                share = 1 / (len(active_experts(self.policy)) + 1)
            number("share", share, low=0, high=1, open_low=True, open_high=True)
            joins = None
            if bank is not None and name not in bank.names:
                joins = bank_of_one(bank, name, expert)
            self._become(*add_expert(self.policy, self._state, name, share, joins))
            self._changes.append([name, share])

    def retire_expert(self, name: str) -> None:
        """Set the weight of an expert to 0 and distribute it over the others in
        proportion.

        After retirement, `Guarded` no longer calls the expert. A retired expert can
        return (`add_expert`).
        """
        with self._learning:
            check_retirement(self.policy, name)
            self._become(*retire_expert(self.policy, self._state, name))
            self._changes.append([name, 0.0])

    def save(self, path: str | Path) -> None:
        """Write state, seed, step and the policy's fingerprint to one `.npz` file in
        one atomic step."""
        if self.policy.unversioned:
            message = (
                "models have no version: `load` will accept any models of these names; "
                "give versions (see ModelExperts)"
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
        holdout: Holdout | None = None,
        metrics: Iterable[Metric] = (),
        reward_weights: Mapping[str, float] | None = None,
        rules: Sequence[Rule] = (),
    ) -> "Agent":
        """Return the agent that `save` wrote. `policy` is the policy with which the
        agent was created, or the agent's policy when it was saved.

        `experts` are the experts that joined after the agent was created, by name. The
        file contains no holdout, metrics and rules: pass them again. Units keep their
        groups; days of a ramp are counted from the first decision after the load.
        """
        meta = saving.read_meta(Path(path))
        changes = meta.get("expert_changes", [])
        if changes and fingerprint(policy) != meta["fingerprint"]:
            policy = policy_after(policy, changes, experts or {})
        state, _ = saving.read_state(Path(path), policy)
        with warnings.catch_warnings():
            # Do not repeat the warning, which was given when the agent was first
            # created.
            warnings.simplefilter("ignore", NoExploration)
            agent = cls(
                policy,
                meta["seed"],
                meta["arms"],
                holdout=holdout,
                metrics=metrics,
                reward_weights=reward_weights,
                rules=rules,
            )
        agent._state = state
        agent._steps = meta["steps"]
        agent._changes = changes
        return agent

    def _restrict(self, call: Call) -> Call:
        return without_barred(call, self._rules)

    def _current(self) -> "_Current":
        """Return a consistent snapshot of policy, state and arms."""
        with self._numbering:
            return _Current(self.policy, self._state, self.arms, self._experts)

    def _become(self, policy: Policy, state: State) -> None:
        """Switch to a changed list of experts. The caller holds `_learning`."""
        with self._numbering:
            self.policy = policy
            self._state = state
            self._experts = signed_names(policy.bank)
            if policy.in_place:
                self._reading = self._learning

    def _match_advisers(self, decision: Decision) -> Decision:
        return match_advisers(decision, self._experts, self.policy, self._state)

    def _take(self, n: int) -> int:
        """Reserve the next n steps, and return the first."""
        with self._numbering:
            self._steps += n
            return self._steps - n + 1

    def _give_back(self, first: int, n: int) -> None:
        """Return the steps of a failed call for reuse, unless another thread has taken
        later ones."""
        with self._numbering:
            if self._steps == first + n - 1:
                self._steps = first - 1

    def _check_arms(self, decision: Decision) -> None:
        """Raise unless the decision's arm has the same number in this agent."""
        if decision.arms is not None:
            check_record(decision)
        if self.arms is None:
            return
        # Use only the arms of the decision, because arms may have been added since.
        names = self.arms[: decision.propensities.shape[-1]]
        if decision.index is not None:
            index = np.asarray(decision.index)
            is_known = bool(np.all(index < len(names)))
            if is_known and np.all(np.array(names)[index] == decision.arm):
                return
        raise InvalidInput(
            f"decision must have arms among {list(names)[:8]}; got arm "
            f"{decision.arm!r:.60}"
        )

    def _odds(self, now: "_Current", call: Call, step: Step) -> Odds:
        """Return the checked propensities of the policy for a call."""
        odds = now.policy.odds(now.state, call.question, eligible=call.mask, step=step)
        return check_odds(now.policy, odds, eligible=call.mask, step=step)

    def _decide_one(
        self,
        now: "_Current",
        call: Call,
        context: Context,
        step: int,
        unit: str | None,
        slate: str | None = None,
    ) -> Decision:
        """Return the decision of a call for one context, or for a slot of a slate."""
        odds = self._odds(now, call, step)
        shape = odds.propensities.shape
        if len(shape) != 1:
            raise InvalidInput(
                "context must be one context (decide_batch takes many); got "
                f"propensities of shape {shape}"
            )
        uniform = self._uniforms(step)
        trial = self._trial
        assigned = None
        if trial.is_kept or unit is not None:
            assigned = trial.assign(now.policy, odds, call, step, unit, slate)
        if assigned is not None:
            odds = assigned.odds
        decision = draw(odds, context, uniform, eligible=call.mask, step=step)
        decision = call.name_arm(decision, now.experts)
        if assigned is not None:
            page = None if assigned.group is None else slate
            decision = assigned.record(decision, unit or page)
        if trial.is_kept:
            trial.note(decision)
        return decision

    def _decide_rows(self, now: "_Current", call: Call, steps: Ints) -> Decision:
        """Return the decisions of a call for many rows."""
        odds = self._odds(now, call, steps)
        shape = odds.propensities.shape
        if shape[:-1] != steps.shape:
            # If the policy reads no context, use one row of propensities for all
            # contexts.
            is_shared = not now.policy.reads_context or _all_failed(now.policy, odds)
            if len(shape) != 1 or not is_shared:
                raise InvalidInput(
                    "contexts must give one row of propensities for each of "
                    f"{len(steps)}; got propensities of shape {shape}"
                )
        uniforms = np.array([self._uniforms(step) for step in steps.tolist()])
        assigned = self._trial.assign_rows(now.policy, odds, call, steps)
        if assigned is not None:
            odds = assigned.odds
        decisions = draw(odds, call.context, uniforms, eligible=call.mask, step=steps)
        decisions = call.name_arm(decisions, now.experts)
        if assigned is not None:
            decisions = assigned.record(decisions)
        if self._trial.is_kept:
            self._trial.note(decisions)
        return decisions


class _Current(NamedTuple):
    """The parts of an agent that one decision depends on."""

    policy: Policy
    state: State
    arms: Arms | None
    experts: tuple[str, ...] | None


class _Source(Protocol):
    """A log, or the result of fitting one."""

    def state_of(self, policy: Policy) -> State:
        """Return the state of the policy after learning the log."""
        ...


def _agent_arms(policy: Policy, arms: Any) -> Arms | None:
    """Return the names of an agent's arms: the given ones, or those of the policy."""
    if arms is None:
        arms = policy.arms
    if arms is None:
        return None
    names = Arms(arms)
    if policy.arms is not None and len(policy.arms) != len(names):
        raise InvalidInput(
            f"arms must name the experts' {len(policy.arms)} arms; got {len(names)} "
            "names"
        )
    return names


def _start_state(policy: Policy, start: Any) -> State:
    """Return the state that `start` contains or results in."""
    if isinstance(start, str | Path):
        if Path(start).suffix != ".npz":
            raise InvalidInput(
                "start must be the path of an .npz file that `oddsmith fit` or "
                f"Agent.save wrote; got {str(start)!r:.60}. To start from a log, pass "
                "start=od.read_log(path)"
            )
        state, _ = saving.read_state(Path(start), policy)
        return state
    if hasattr(start, "state_of"):
        source: _Source = start
        return source.state_of(policy)
    return start


def _checked_state(policy: Policy, state: State) -> State:
    """Return the given state if it belongs to this policy, or the initial state if none
    is given."""
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
    """Return whether all guarded experts failed. Then the policy returns one row of
    propensities for the whole batch."""
    if not isinstance(policy.bank, Guarded) or odds.advice is None:
        return False
    return bool(np.isnan(odds.advice).all())
