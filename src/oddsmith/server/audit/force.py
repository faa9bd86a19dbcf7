"""Check decisions against the operators' actions that applied when they were made."""

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from oddsmith.core.arrays import Bools
from oddsmith.core.decision import PAUSED, Decision
from oddsmith.core.policy import Policy
from oddsmith.server.audit.checks import same_odds
from oddsmith.server.audit.verdicts import CheckResult, Differs, Untested
from oddsmith.server.audit.walk import Visit
from oddsmith.server.operations.controls import Controls
from oddsmith.server.store.changes import arms_since
from oddsmith.server.store.protocol import Reading

__all__ = ["InForce", "is_paused"]


def is_paused(visit: Visit) -> bool:
    """Return whether the control decided because the experiment was paused."""
    return visit.decision is not None and visit.decision.group == PAUSED


class InForce:
    """The operators' actions that applied to each decision of a log."""

    def __init__(self, reading: Reading) -> None:
        self._arms = list(arms_since(reading))
        self._controls = {0: Controls()}
        controls = Controls()
        for line in reading.actions():
            controls = controls.after(line)
            self._controls[line.position] = controls
        # cache: the last policy, and the same policy with changed bounds, because many
        # visits have the same policy
        self._policy: Policy | None = None
        self._position = 0
        self._applied: Policy | None = None

    def check(self, visit: Visit) -> CheckResult:
        """Check that a decision obeys the actions that had been read when it was made:
        if the experiment was paused, the control decided, and no paused arm was
        eligible."""
        decision = visit.decision
        if decision is None:
            return None
        position = visit.evidence.action
        controls = self._controls.get(position)
        if controls is None or position >= visit.line.position:
            return Differs(f"the action at position {position}", "an action before it")
        is_held = controls.serves_control or visit.evidence.killed
        if is_held != is_paused(visit):
            who = ("the policy", "the control")
            return Differs(who[is_paused(visit)], who[is_held])
        if is_held:
            return self._check_control(visit, decision)
        arms = decision.arms or self._arms_at(visit.line.seen or 0)
        wrong = _paused_but_eligible(arms, decision, controls)
        if wrong:
            return Differs(f"arm {wrong!r} eligible", "a paused arm")
        return None

    def applied(self, visit: Visit) -> Visit:
        """Return the visit with the bounds and the exploration that applied to its
        policy."""
        folded = visit.folded
        position = visit.evidence.action
        controls = self._controls.get(position)
        if folded is None or controls is None or not controls.changes_policy:
            return visit
        if folded.policy is not self._policy or position != self._position:
            arms = None
            if self._arms:
                arms = self._arms_at(visit.line.seen or 0)
            self._policy = folded.policy
            self._position = position
            self._applied = controls.policy(folded.policy, arms)
        policy = self._applied or folded.policy
        return visit._replace(folded=folded._replace(policy=policy))

    def _check_control(self, visit: Visit, decision: Decision) -> CheckResult:
        evidence = visit.evidence
        if evidence.shadow:
            return Untested("an incumbent acted", excused=True)
        control = decision.control
        if control is None:
            return Differs("no control", "the propensities of the control")
        return same_odds(decision.propensities, control, 0.0)

    def _arms_at(self, position: int) -> Sequence[str]:
        starts = [since for since, _ in self._arms]
        place = bisect_right(starts, position) - 1
        return self._arms[place][1] if place >= 0 else ()


def _paused_but_eligible(
    arms: Sequence[str], decision: Decision, controls: Controls
) -> str:
    """Return the name of a paused arm that was eligible; empty if there is none."""
    if not controls.paused_arms:
        return ""
    mask: Bools = np.ones(len(decision.propensities), dtype=np.bool_)
    if decision.eligible is not None:
        mask = decision.eligible
    for arm, is_eligible in zip(arms, mask.tolist(), strict=False):
        if is_eligible and arm in controls.paused_arms:
            return arm
    return ""
