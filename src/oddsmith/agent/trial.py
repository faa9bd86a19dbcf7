"""Trial: the experiment around the policy of an agent, and the outcomes it records."""

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from oddsmith.agent.call import Call
from oddsmith.contexts.metrics import Metric, check_amounts
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.decision import Decision, Odds
from oddsmith.core.draw import Uniforms
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
from oddsmith.core.policy import Policy
from oddsmith.policies.holdout import Assignment, Holdout, HoldoutRun

__all__ = ["Outcomes", "Trial"]


class Outcomes(NamedTuple):
    """Decisions, their rewards, and the amounts of each metric, NaN if missing."""

    decisions: list[Decision]
    rewards: list[float]
    metrics: dict[str, Array]


class Trial:
    """The holdout, the metrics and the recorded outcomes of an agent.

    If an agent has neither a holdout nor metrics, nothing is recorded (`is_kept` is
    false). Outcomes are stored by the step of their decision, under a separate lock.
    """

    def __init__(
        self,
        holdout: Holdout | None,
        metrics: Iterable[Metric],
        reward_weights: Mapping[str, float] | None,
        uniforms: Uniforms,
        clock: Callable[[], float],
    ) -> None:
        self.holdout = holdout
        self.metrics = {metric.name: metric for metric in metrics}
        self.reward_weights = dict(reward_weights or {})
        for name in self.reward_weights:
            if name not in self.metrics:
                raise InvalidInput(
                    f"reward_weights must name metrics; got {name!r:.60}"
                    f"{hint(name, self.metrics)}"
                )
        if holdout is not None and holdout.control.kind == "incumbent":
            raise InvalidInput(
                "control must be a policy that the agent can compute; decisions of "
                "an incumbent are reported to a service, or logged by the caller"
            )
        # whether decisions and outcomes are recorded
        self.is_kept = holdout is not None or bool(self.metrics)
        self._run: HoldoutRun | None = None
        if holdout is not None:
            self._run = HoldoutRun(holdout, uniforms, clock)
        self._lock = threading.Lock()
        self._decisions: dict[int, Decision] = {}
        self._rewards: dict[int, float] = {}
        self._amounts: dict[int, dict[str, float]] = {}

    def check_arms(self, arms: Any) -> None:
        """Raise if the control has other arms than the agent."""
        if self.holdout is not None:
            self.holdout.control.check_arms(arms)

    def assign(
        self,
        policy: Policy,
        odds: Odds,
        call: Call,
        step: int,
        unit: str | None,
        slate: str | None = None,
    ) -> Assignment | None:
        """Return the propensities of a draw, and the values recorded with the decision.

        `slate` identifies the slate of which the decision is a slot.
        """
        run = self._run
        has_units = run is not None and run.has_units
        if has_units and unit is None:
            raise InvalidInput(
                "unit must be given, because the holdout is by unit; got none"
            )
        if unit is not None and not has_units:
            raise InvalidInput(
                f"unit must be left out unless the holdout is by unit; got {unit!r:.60}"
            )
        if run is None:
            return None
        n_arms = odds.propensities.shape[-1]
        control = run.holdout.control.odds(
            call.question, call.names, call.mask, n_arms, step=step
        )
        return run.assign(policy, odds, control, id=str(step), unit=unit, slate=slate)

    def assign_rows(
        self, policy: Policy, odds: Odds, call: Call, steps: Ints
    ) -> Assignment | None:
        """Return the propensities of many draws with the same share."""
        run = self._run
        if run is None:
            return None
        if run.has_units or run.holdout.is_aa:
            raise InvalidInput(
                "decide_batch supports only holdouts by decision; for holdouts by "
                "unit and A/A tests, decide one at a time"
            )
        rows = len(steps)
        n_arms = odds.propensities.shape[-1]
        control = run.holdout.control.odds(
            call.question, call.names, call.mask, n_arms, rows=rows
        )
        share = run.share()
        assigned = run.holdout.assign(policy, odds, control, share)
        shares: Any = np.full(rows, share)
        return assigned._replace(share=shares)

    def note(self, decision: Decision) -> None:
        """Record decisions."""
        with self._lock:
            for one in _each(decision):
                self._decisions[one.step] = one

    def note_reward(self, decision: Decision, reward: float) -> None:
        """Record the reward of a decision. Later rewards of the same decision are
        ignored."""
        with self._lock:
            self._rewards.setdefault(decision.step, reward)

    def note_rewards(self, decisions: Decision, rewards: Any) -> None:
        """Record the rewards of many decisions."""
        values = np.ravel(rewards).tolist()
        for decision, reward in zip(_each(decisions), values, strict=True):
            self.note_reward(decision, reward)

    def note_amounts(
        self,
        decision: Decision | list[Decision],
        reward: object,
        metrics: Mapping[str, object],
    ) -> object:
        """Record amounts of one decision. Return the reward to learn from: the given
        one, or the weighted sum of the amounts so far."""
        if not isinstance(decision, Decision) or decision.propensities.ndim > 1:
            raise InvalidInput(
                "metrics must be given for one decision at a time; got many decisions"
            )
        if reward is None and not self.reward_weights:
            raise InvalidInput(
                "reward must be given, or the agent's reward_weights; got neither. "
                "record(decision, metrics=…) records amounts without a reward"
            )
        self.record(decision, metrics)
        if reward is not None:
            return reward
        amounts = self._amounts.get(decision.step, {})
        missing = [name for name in self.reward_weights if name not in amounts]
        if missing:
            raise InvalidInput(
                f"metrics must contain every amount in reward_weights; got none for "
                f"{missing[0]!r}"
            )
        return sum(
            weight * amounts[name] for name, weight in self.reward_weights.items()
        )

    def record(self, decision: Decision, metrics: Mapping[str, object]) -> None:
        """Record amounts of one decision; a later amount replaces an earlier one."""
        amounts = check_amounts(self.metrics, metrics)
        with self._lock:
            if decision.step not in self._decisions:
                raise InvalidInput(
                    f"decision must be one of this agent's; got step {decision.step}"
                )
            self._amounts.setdefault(decision.step, {}).update(amounts)

    def outcomes(self) -> "Outcomes":
        """Return the decisions in the order of their steps, with their outcomes."""
        if not self.is_kept:
            raise InvalidInput(
                "outcomes() is for agents with a holdout or metrics, which keep their "
                "decisions; this agent keeps none"
            )
        with self._lock:
            steps = sorted(self._decisions)
            decisions = [self._decisions[step] for step in steps]
            rewards = [self._rewards.get(step, np.nan) for step in steps]
            columns = {
                name: np.array(
                    [self._amounts.get(step, {}).get(name, np.nan) for step in steps]
                )
                for name, metric in self.metrics.items()
                if metric.has_amounts
            }
        return Outcomes(decisions, rewards, columns)


def _each(decisions: Decision) -> list[Decision]:
    if decisions.propensities.ndim == 1:
        return [decisions]
    return decisions.rows()
