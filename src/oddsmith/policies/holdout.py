"""Holdout: serve the control to a share of the traffic, so that the policy can be
compared with it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.core.arrays import Array, Bools, number
from oddsmith.core.decision import Context, Decision, Odds, State, Step
from oddsmith.core.draw import Uniforms
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import AnyOffer, OfferBatch
from oddsmith.core.policy import Policy, check_policy
from oddsmith.policies.control import Control
from oddsmith.policies.wrapper import PolicyWrapper

__all__ = [
    "Assignment",
    "Group",
    "Holdout",
    "HoldoutRun",
    "RampStep",
    "WithHoldout",
    "mix_control",
    "odds_of_record",
]

Group: TypeAlias = Literal["policy", "control"]
_DAY_S = 86_400.0


class RampStep(NamedTuple):
    """One step of a ramp: the holdout has this share until this day, counted from the
    start."""

    until_day: float
    share: float


class Assignment(NamedTuple):
    """The propensities of the draw under a holdout, and the values to record with the
    decision.

    `control` (…, K) are the propensities of the control. `group` is the group of the
    unit or, in an A/A test, of the decision. Without groups, one draw serves both
    policy and control.
    """

    odds: Odds
    control: Array
    share: float
    group: Group | None = None

    def record(self, decision: Decision, unit: str | None = None) -> Decision:
        """Return the decision with its control, share, group and unit."""
        return decision._replace(
            control=self.control, holdout=self.share, group=self.group, unit=unit
        )


@dataclass(frozen=True, eq=False)
class Holdout:
    """Serve the `control` to a `share` of the decisions or units.

    By decision, a single draw serves both: its propensities are (1 - share) π + share β
    for the policy π and the control β. They are the logged propensities, and every
    decision counts for both sides. By unit, a hash of the unit determines its group: a
    unit keeps its group, and a larger share only adds units to the control group.

    `ramp` contains the shares of the first days. From `end_day` on, all traffic gets
    the control. In an A/A test (`is_aa`) both groups get the control, so their true
    difference is 0.

    >>> import oddsmith as od
    >>> policy = od.GeneralizedThompsonSampling(
    ...     od.TableExperts(np.array([[[0.2, 0.8]]])), gamma=0.0
    ... )
    >>> held = WithHoldout(policy, Holdout(share=0.1, control="first"))
    >>> held.odds(held.init(), 0).propensities
    array([0.1, 0.9])
    """

    share: float = 0.1
    control: Any = "first"
    by: Literal["decision", "unit"] = "decision"
    ramp: Sequence[RampStep] = ()
    end_day: float | None = None
    is_aa: bool = False

    def __post_init__(self) -> None:
        share = number("share", self.share, low=0, high=1, open_high=True)
        object.__setattr__(self, "share", share)
        object.__setattr__(self, "control", Control.of(self.control))
        if self.by not in ("decision", "unit"):
            raise InvalidInput(f'by must be "decision" or "unit"; got {self.by!r:.60}')
        needs_groups = self.by == "unit" or self.is_aa
        if needs_groups and share == 0:
            raise InvalidInput(
                "share must be above 0 if there are groups (by unit, or an A/A "
                "test); got 0"
            )
        object.__setattr__(self, "ramp", _checked_ramp(self.ramp))
        if self.end_day is not None:
            number("end_day", self.end_day, low=0, high=1e6, open_low=True)

    def share_on(self, day: float) -> float:
        """Return the share on a day since the start.

        >>> slow_start = Holdout(0.1, ramp=[RampStep(7, 0.9)], end_day=60)
        >>> [slow_start.share_on(day) for day in (0, 7, 60)]
        [0.9, 0.1, 1.0]
        """
        if self.end_day is not None and day >= self.end_day:
            return 1.0
        for step in self.ramp:
            if day < step.until_day:
                return step.share
        return self.share

    def group_of(self, uniforms: Uniforms, key: str, share: float) -> Group:
        """Return the group of a unit, or of a decision in an A/A test.

        The hash does not depend on the share: a unit of the control group stays in it
        when the share grows.
        """
        # Decision ids never contain NUL, so the hash of a unit never equals that of a
        # decision.
        return "control" if uniforms(f"group\x00{key}") < share else "policy"

    def assign(
        self,
        policy: Policy,
        odds: Odds,
        control: Array,
        share: float,
        group: Group | None = None,
    ) -> Assignment:
        """Return the propensities of the draw: those of the mixture or, with groups,
        those of the group."""
        if self.is_aa or group == "control":
            drawn = policy.complete(odds._replace(propensities=control))
        elif group == "policy":
            drawn = odds
        else:
            drawn = mix_control(policy, odds, control, share)
        return Assignment(drawn, control, share, group)


class HoldoutRun:
    """A holdout while an experiment runs: assigns decisions to policy and control.

    `uniforms` are the experiment's random numbers: units keep their groups on every
    replica and after restarts. Days are counted by `clock` since `started`, the time
    of the first decision.
    """

    def __init__(
        self, holdout: Holdout, uniforms: Uniforms, clock: Callable[[], float]
    ) -> None:
        self.holdout = holdout
        self.started: float | None = None
        self._uniforms = uniforms
        self._clock = clock

    @property
    def has_units(self) -> bool:
        """Whether groups are assigned to units instead of decisions."""
        return self.holdout.by == "unit"

    @property
    def needs_start(self) -> bool:
        """Whether the share depends on the day, and the start is not known yet."""
        depends_on_day = bool(self.holdout.ramp) or self.holdout.end_day is not None
        return depends_on_day and self.started is None

    def share(self) -> float:
        """Return the current share of the control."""
        if not self.holdout.ramp and self.holdout.end_day is None:
            return self.holdout.share
        now = self._clock()
        if self.started is None:
            self.started = now
        return self.holdout.share_on((now - self.started) / _DAY_S)

    def assign(
        self,
        policy: Policy,
        odds: Odds,
        control: Array,
        *,
        id: str,
        unit: str | None = None,
        slate: str | None = None,
    ) -> Assignment:
        """Return the propensities of a decision's draw, with the control, share and
        group to record.

        A group is assigned to the unit if the holdout is by unit, to the slate if the
        decision is one of its slots, and to the decision `id` in an A/A test.
        """
        holdout = self.holdout
        share = self.share()
        group: Group | None = None
        if self.has_units:
            group = holdout.group_of(self._uniforms, unit or id, share)
        elif slate is not None or holdout.is_aa:
            group = holdout.group_of(self._uniforms, slate or id, share)
        return holdout.assign(policy, odds, control, share, group)


@dataclass(frozen=True, eq=False)
class WithHoldout(PolicyWrapper):
    """A policy with a holdout by decision, whose propensities are those of the mixture,
    for simulations and evaluation.

    The policy learns from all decisions, with the propensities of the mixture.
    """

    policy: Policy
    holdout: Holdout

    def __post_init__(self) -> None:
        check_policy(self.policy)
        if self.holdout.by == "unit" or self.holdout.is_aa:
            raise InvalidInput(
                "holdout must be by decision here; only an Agent and the service "
                "support units"
            )
        self.holdout.control.check_arms(self.policy.arms)

    @property
    def explores(self) -> bool:
        kind = self.holdout.control.kind
        has_uniform_share = kind == "uniform" and self.holdout.share > 0
        return self.policy.explores or has_uniform_share

    @property
    def reads_context(self) -> bool:
        control = self.holdout.control.policy
        return self.policy.reads_context or (
            control is not None and control.reads_context
        )

    def odds(
        self,
        state: State,
        context: Context,
        *,
        eligible: Bools | None = None,
        step: Step = None,
    ) -> Odds:
        """Return the mixture of the policy's and the control's propensities."""
        odds = self.policy.odds(state, context, eligible=eligible, step=step)
        control = self.control_odds(odds, context, eligible, step)
        return mix_control(self.policy, odds, control, self.holdout.share)

    def control_odds(
        self, odds: Odds, context: Context, eligible: Bools | None, step: Step
    ) -> Array:
        """Return the propensities (…, K) of the control in this context, with the axes
        of `odds`."""
        *lead, n_arms = odds.propensities.shape
        names: Any = self.policy.arms
        if isinstance(context, AnyOffer):
            names = context.arms
        if isinstance(context, OfferBatch):
            names = [offer.arms for offer in context.offers]
        rows = lead[0] if len(lead) == 1 else None
        control = self.holdout.control.odds(
            context, names, eligible, n_arms, rows=rows, step=step
        )
        return np.broadcast_to(control, odds.propensities.shape)

    def with_arms(
        self, state: State, arms: Sequence[str]
    ) -> tuple["WithHoldout", State]:
        policy, wider = self.policy.with_arms(state, arms)
        return replace(self, policy=policy), wider


def odds_of_record(decision: Decision, policy_odds: Array) -> Array:
    """Return the propensities from which a recorded decision was drawn, given those of
    the policy, `policy_odds` (K,).

    Only in an A/A test does a decision of the policy group have the control's
    propensities.
    """
    control = decision.control
    if control is None:
        return policy_odds
    if decision.group is not None:
        has_control_odds = np.array_equal(decision.propensities, control)
        is_control = decision.group == "control" or has_control_odds
        return control if is_control else policy_odds
    share = decision.holdout or 0.0
    if share == 0:
        return policy_odds
    mixture: Array = (1 - share) * policy_odds + share * control
    return mixture


def mix_control(policy: Policy, odds: Odds, control: Array, share: float) -> Odds:
    """Return the policy's `odds` with propensities (1 - share) π + share β."""
    if share == 0:
        return odds
    mixture = (1 - share) * odds.propensities + share * control
    return policy.complete(odds._replace(propensities=mixture))


def _checked_ramp(ramp: Sequence[Any]) -> tuple[RampStep, ...]:
    steps = tuple(RampStep(*step) for step in ramp)
    for step in steps:
        number("ramp: until_day", step.until_day, low=0, high=1e6, open_low=True)
        number("ramp: share", step.share, low=0, high=1, open_high=True)
    days = [step.until_day for step in steps]
    if days != sorted(set(days)):
        raise InvalidInput(f"days of ramp must increase; got {days}")
    return steps
