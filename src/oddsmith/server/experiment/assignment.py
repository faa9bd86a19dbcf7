"""Assignment of decisions to the policy and to the control of an experiment."""

from collections.abc import Callable

from oddsmith.agent.call import Call
from oddsmith.core.decision import Decision, Odds, Step
from oddsmith.core.draw import Uniforms
from oddsmith.core.policy import Policy
from oddsmith.files.experiment import ExperimentDesign
from oddsmith.policies.control import Control
from oddsmith.policies.holdout import Assignment, Group

__all__ = ["Assigner"]

_DAY_S = 86_400.0


class Assigner:
    """Assigns decisions according to the design of an experiment.

    `uniforms` are the experiment's random numbers: units keep their groups on every
    replica and after restarts. `clock` is used for shares that depend on the day since
    `started`, the time of the first decision.
    """

    def __init__(
        self,
        design: ExperimentDesign,
        uniforms: Uniforms,
        clock: Callable[[], float],
    ) -> None:
        self.design = design
        self.started: float | None = None
        self._uniforms = uniforms
        self._clock = clock

    @property
    def control(self) -> Control | None:
        """The control that the policy is compared with; None if the design has none."""
        return self.design.control

    @property
    def has_units(self) -> bool:
        """Whether units are assigned instead of decisions."""
        holdout = self.design.holdout
        return holdout is not None and holdout.by == "unit"

    @property
    def reports_control(self) -> bool:
        """Whether the caller makes the control's decisions and reports them."""
        return self.control is not None and self.control.kind == "incumbent"

    def share(self) -> float:
        """Current share of the control."""
        holdout = self.design.holdout
        if holdout is None:
            return 0.0
        now = self._clock()
        if self.started is None:
            self.started = now
        return holdout.share_on((now - self.started) / _DAY_S)

    def assign(
        self,
        policy: Policy,
        odds: Odds,
        call: Call,
        step: Step,
        *,
        id: str,
        unit: str | None,
        slate: str | None = None,
    ) -> Assignment | None:
        """Return the propensities of a decision's draw, with the control, share and
        group to record.

        None if only the policy decides, or if the caller draws the control. All slots
        of a slate belong to one group.
        """
        control = self.control
        if control is None or self.reports_control:
            return None
        n_arms = len(odds.propensities)
        control_odds = control.odds(
            call.question, call.names, call.mask, n_arms, step=step
        )
        holdout = self.design.holdout
        if holdout is None:
            return Assignment(odds, control_odds, 0.0)
        share = self.share()
        group: Group | None = None
        if holdout.by == "unit":
            group = holdout.group_of(self._uniforms, unit or id, share)
        elif slate is not None or holdout.is_aa:
            group = holdout.group_of(self._uniforms, slate or id, share)
        return holdout.assign(policy, odds, control_odds, share, group)

    def record_report(
        self, decision: Decision, unit: str | None, *, is_incumbent: bool
    ) -> Decision:
        """Return a decision with its group (the incumbent's or the policy's) and the
        share of the holdout, for experiments in which the caller draws the control."""
        if not self.reports_control or self.design.holdout is None:
            return decision
        group: Group = "control" if is_incumbent else "policy"
        return decision._replace(holdout=self.share(), group=group, unit=unit)
