"""Assignment of decisions to the policy and to the control of an experiment."""

from collections.abc import Callable

from oddsmith.agent.call import Call
from oddsmith.core.decision import Decision, Odds, Step
from oddsmith.core.draw import Uniforms
from oddsmith.core.policy import Policy
from oddsmith.files.experiment import ExperimentDesign
from oddsmith.policies.control import Control
from oddsmith.policies.holdout import Assignment, Group, Holdout, HoldoutRun

__all__ = ["Assigner"]


class Assigner:
    """Assigns decisions according to the design of an experiment.

    Without a holdout the policy decides, and the control's propensities are recorded.
    """

    def __init__(
        self,
        design: ExperimentDesign,
        uniforms: Uniforms,
        clock: Callable[[], float],
    ) -> None:
        self.design = design
        self._uniforms = uniforms
        self._clock = clock
        self.run: HoldoutRun | None = None
        if design.holdout is not None:
            self.run = HoldoutRun(design.holdout, uniforms, clock)

    @property
    def control(self) -> Control | None:
        """The control that the policy is compared with; None if the design has none."""
        return self.design.control

    @property
    def has_units(self) -> bool:
        """Whether units are assigned instead of decisions."""
        return self.run is not None and self.run.has_units

    @property
    def reports_control(self) -> bool:
        """Whether the caller makes the control's decisions and reports them."""
        return self.control is not None and self.control.kind == "incumbent"

    @property
    def needs_start(self) -> bool:
        """Whether the holdout depends on the day, and the start is not known yet."""
        return self.run is not None and self.run.needs_start

    def start(self, time: float) -> None:
        """Count the days of the holdout from this time."""
        if self.run is not None:
            self.run.started = time

    def use_holdout(self, holdout: Holdout | None) -> None:
        """Use this holdout from now on. The start of its days does not change."""
        if holdout is None:
            self.run = None
        elif self.run is None:
            self.run = HoldoutRun(holdout, self._uniforms, self._clock)
        else:
            self.run.holdout = holdout

    def share(self) -> float:
        """Return the current share of the control."""
        return 0.0 if self.run is None else self.run.share()

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

        Return None if there is no control, or if the caller makes the control's draws.
        """
        control = self.control
        if control is None or self.reports_control:
            return None
        n_arms = len(odds.propensities)
        control_odds = control.odds(
            call.question, call.names, call.mask, n_arms, step=step
        )
        if self.run is None:
            return Assignment(odds, control_odds, 0.0)
        return self.run.assign(
            policy, odds, control_odds, id=id, unit=unit, slate=slate
        )

    def record_report(
        self, decision: Decision, unit: str | None, *, is_incumbent: bool
    ) -> Decision:
        """Return a decision with its group (the incumbent's or the policy's) and the
        share of the holdout, for experiments in which the caller draws the control."""
        if not self.reports_control or self.design.holdout is None:
            return decision
        group: Group = "control" if is_incumbent else "policy"
        return decision._replace(holdout=self.share(), group=group, unit=unit)
