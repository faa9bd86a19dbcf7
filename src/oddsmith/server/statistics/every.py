"""Sums: all that is folded beside the state, each step taken in its turn."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import Decision, State
from oddsmith.core.policy import Policy
from oddsmith.server.fold.accounts import Count, Shown
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.fold.protocol import Step
from oddsmith.server.statistics.arm_names import Named
from oddsmith.server.statistics.arms import ArmCounts
from oddsmith.server.statistics.checks import Checks
from oddsmith.server.statistics.history import History, Mark
from oddsmith.server.statistics.series import Series
from oddsmith.server.statistics.values import Values
from oddsmith.server.store.changes import arms_of
from oddsmith.server.store.protocol import Drawn, Line

__all__ = ["FORM", "Sums"]

FORM = "series, values, checks; shares of experts; choices"
"""What snapshots hold of sums; another form is folded anew."""


@dataclass(slots=True)
class Sums:
    """Functions of the log up to a position: the same live, on replicas, after restarts
    and after corrections.

    `scale` has the caller's units; `shadow` says that an incumbent has acted. Parts are
    shared by copies until they are written into.
    """

    scale: RewardScale = field(default_factory=lambda: RewardScale(0.0, 1.0))
    named: Named = field(default_factory=lambda: Named(None))
    arms: ArmCounts = field(default_factory=ArmCounts)
    series: Series = field(default_factory=Series)
    history: History = field(default_factory=History)
    values: Values = field(default_factory=Values)
    checks: Checks = field(default_factory=Checks)
    shadow: bool = False

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Sums":
        """Nothing yet, of a store with these facts."""
        arms, reward = about.get("arms"), about.get("reward", [0.0, 1.0])
        return cls(RewardScale(*reward), Named(None if arms is None else tuple(arms)))

    def copy(self) -> "Sums":
        """The same sums, to go on from."""
        named, arms, series = self.named.copy(), self.arms.copy(), self.series.copy()
        history, values, checks = (
            self.history.copy(),
            self.values.copy(),
            self.checks.copy(),
        )
        return Sums(
            self.scale, named, arms, series, history, values, checks, self.shadow
        )

    def take(self, step: Step) -> None:
        """Take the next step of a fold."""
        item, _, drawn = step
        if isinstance(item, Count):
            self._count(item, drawn)
        elif isinstance(item, Shown):
            self._show(item, drawn)
        elif item.kind == "decision":
            self.arms.draw(item.position, str(item.arm))
            if not item.deferred:
                self._show(Shown(item.position, item.position, item.time), drawn)
        else:
            self._mark(item)

    def learnt(
        self, count: Count, decision: Decision, policy: Policy, state: State
    ) -> None:
        """A decision has counted: the policy, and the state after it."""
        inner = gts_inside(policy)
        if inner is None:
            return
        self.history.count(
            count.position, count.time, lambda: policy.named_posterior(state, None)
        )
        self.checks.calibration.count(count, decision, inner.experts.names, inner.loss)

    def _show(self, shown: Shown, drawn: Drawn | None) -> None:
        if drawn is None:
            return
        self.shadow = self.shadow or drawn.shadow
        draw = shown.made, drawn.arm, drawn.odds_drawn
        odds = self._odds(drawn)
        self.series.show(shown.time, draw, odds, self.named, shown.position)
        self.checks.show(shown.time, drawn.arm, odds, self.named)
        self.named.draw(drawn.arm, shown.position)

    def _count(self, count: Count, drawn: Drawn | None) -> None:
        if drawn is None:
            return
        self.arms.count(count, drawn.arm)
        reward = self.scale.low + (self.scale.high - self.scale.low) * count.value
        before = (
            None
            if count.before is None
            else self.scale.low + (self.scale.high - self.scale.low) * count.before
        )
        draw = count.made, drawn.arm, drawn.odds_drawn
        self.series.count(
            count.decided, draw, (reward, before), count.is_default - count.was_default
        )
        self.values.count(count, drawn, self._odds(drawn), self.named)
        self.checks.count(count, drawn)

    def _odds(self, drawn: Drawn) -> dict[str, float]:
        """The odds of all arms, by name; an arm that was added later had none."""
        values = drawn.odds.tolist()
        names = drawn.names or self.named.arms or map(str, range(len(values)))
        return dict(zip(names, values, strict=False))

    def _mark(self, line: Line) -> None:
        kind, name, arms = str(line.kind), line.id, arms_of(line)
        if arms is not None:
            kind, name = (
                "arms added",
                ", ".join(arm for arm in arms if arm not in (self.named.arms or ())),
            )
            self.named.become(arms)
        self.history.mark(Mark(line.position, line.time, kind, name, line.value))

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them."""
        return {
            "form": FORM,
            "scale": [self.scale.low, self.scale.high],
            "shadow": self.shadow,
            "named": self.named.to_json(),
            "arms": self.arms.to_json(),
            "series": self.series.to_json(),
            "history": self.history.to_json(),
            "values": self.values.to_json(),
            "checks": self.checks.to_json(),
        }

    @classmethod
    def read(cls, given: Mapping[str, Any] | None) -> "Sums | None":
        """The sums that `to_json` gave; None where there are none, or of another
        form."""
        if given is None or given.get("form") != FORM:
            return None
        named, arms = (
            Named.from_json(given["named"]),
            ArmCounts.from_json(given["arms"]),
        )
        series, history = (
            Series.from_json(given["series"]),
            History.from_json(given["history"]),
        )
        values, checks = (
            Values.from_json(given["values"]),
            Checks.from_json(given["checks"]),
        )
        return cls(
            RewardScale(*given["scale"]),
            named,
            arms,
            series,
            history,
            values,
            checks,
            given["shadow"],
        )
