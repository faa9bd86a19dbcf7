"""Operator: apply the actions of operators to the decisions of one experiment."""

import asyncio
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress

from oddsmith.agent.call import Call, bar_arms
from oddsmith.contexts.rules import Rule, barred_arms
from oddsmith.core.arrays import Array
from oddsmith.core.decision import Step
from oddsmith.core.errors import StoreFailed
from oddsmith.policies.control import Control
from oddsmith.server.experiment.assignment import Assigner
from oddsmith.server.experiment.clock import Clock
from oddsmith.server.experiment.follower import Follower, Now, now_of
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.experiment.threads import Busy
from oddsmith.server.experiment.writer import Writer
from oddsmith.server.fold.fold import FoldState
from oddsmith.server.operations.checks import Scene, holdout_with
from oddsmith.server.operations.controls import (
    PAUSED_ARM,
    Controls,
    controls_at,
)
from oddsmith.server.operations.requests import Outcome, Request, was_first

__all__ = ["KILL", "Operator"]

KILL = "ODDSMITH_KILL"
"""Environment variable with the names of experiments that only serve the control; a
list with commas, or * for all."""
_EVERY = 0.25  # seconds between two reads of other replicas' actions
_TRIES = 20
_log = logging.getLogger(__name__)


class Operator:
    """The current restrictions on decisions of an experiment, as known to this replica.

    Actions are read from the end of the log, so that they apply even if the state is
    behind. Every action is checked against all earlier actions, and the log accepts
    only one successor of each action.
    """

    def __init__(
        self,
        setup: ExperimentSetup,
        follower: Follower,
        writer: Writer,
        clock: Clock,
        assigner: Assigner | None,
        environment: Mapping[str, str] = os.environ,
    ) -> None:
        name = setup.file.name
        self._name = name
        self._setup = setup
        self._follower = follower
        self._assigner = assigner
        self._store = setup.store
        self._writer = writer
        self._clock = clock
        self._seen: Now | None = None
        self._shown: Now | None = None
        self._rules: Sequence[Rule] = setup.file.rules
        killed = [one.strip() for one in environment.get(KILL, "").split(",")]
        self.is_killed_here = name in killed or "*" in killed
        self._show(Controls())
        if self.is_killed_here:
            _log.warning(
                "experiment %s serves the control, because %s requires it", name, KILL
            )

    @property
    def control(self) -> Control:
        """The control that all callers get while the experiment is paused.

        While it is killed, no expert is called: a control with experts is replaced by
        the first eligible arm.
        """
        control = self._setup.file.design.control
        if control is None or control.kind == "incumbent":
            return Control.of("first")
        is_killed = self.controls.is_killed or self.is_killed_here
        has_experts = control.policy is not None and control.policy.bank is not None
        return Control.of("first") if is_killed and has_experts else control

    @property
    def now(self) -> Now:
        """The state for decisions, with the bounds and the exploration that operators
        have set."""
        now = self._follower.now
        if now is self._seen and self._shown is not None:
            return self._shown
        policy = self.controls.policy(now.policy, now.arms)
        folded = FoldState(now.state, now.position, policy)
        self._shown = now_of(folded, now.arms)
        self._seen = now
        return self._shown

    def bar(self, call: Call) -> tuple[Call, dict[int, str]]:
        """Return a call without the arms that are paused or that a rule excludes, and
        the reasons by arm number."""
        if not self.bars_arms:
            return call, {}
        barred = barred_arms(self._rules, call.context, call.names, call.features)
        for place, arm in enumerate(call.names):
            if arm in self.controls.paused_arms:
                barred[place] = PAUSED_ARM
        return bar_arms(call, barred), barred

    def restrict(self, call: Call) -> Call:
        """Return a call without the arms that are paused or that a rule excludes."""
        restricted, _ = self.bar(call)
        return restricted

    def control_odds(self, call: Call, step: Step) -> Array:
        """Return the propensities (K,) of the control for a call."""
        return self.control.odds(
            call.question, call.names, call.mask, len(call.names), step=step
        )

    async def refresh(self) -> None:
        """Read the actions of the log."""
        lines = await asyncio.to_thread(self._store.actions)
        self._show(controls_at(lines))

    async def follow(self) -> None:
        """Read the actions of other replicas, forever."""
        while True:
            await asyncio.sleep(_EVERY)
            # ignored here, because requests report that the store fails
            with suppress(StoreFailed):
                await self.refresh()

    @property
    def scene(self) -> Scene:
        """Facts about the experiment with which actions are checked."""
        setup = self._setup
        now = self._follower.now
        return Scene(now.policy, now.arms, setup.file.design, setup.settings.shadow)

    async def act(self, request: Request) -> Outcome:
        """Write an action, and apply it here.

        A repeated request has no effect. If another action comes first, this one is
        checked again.
        """
        for _ in range(_TRIES):
            lines = await asyncio.to_thread(self._store.actions)
            # in a thread, because bounds may be compiled at their first use
            event = await asyncio.to_thread(
                request.event_after, lines, self.scene, self._clock()
            )
            if isinstance(event, Outcome):
                self._show(controls_at(lines))
                return event
            (receipt,) = await self._writer.append([event])
            if was_first(receipt):
                await self.refresh()
                _log.warning(
                    "experiment %s: %s %s by %s: %s",
                    self._name,
                    request.action,
                    request.value or "",
                    request.sender or "the service",
                    request.reason,
                )
                return Outcome(receipt.position, True)
        raise Busy("other actions were written first; try again")

    def _show(self, controls: Controls) -> None:
        """Apply these restrictions to decisions from now on."""
        self.controls = controls
        self._seen = None
        self.changes_policy = controls.changes_policy
        self.bars_arms = bool(self._rules or controls.paused_arms)
        self.serves_control = controls.serves_control or self.is_killed_here
        design = self._setup.file.design
        if self._assigner is not None:
            holdout = design.holdout
            if controls.holdout is not None:
                holdout = holdout_with(design, controls.holdout)
            self._assigner.use_holdout(holdout)
