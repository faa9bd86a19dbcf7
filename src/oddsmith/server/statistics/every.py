"""Sums: all statistics that are computed together with the state."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from oddsmith import __version__
from oddsmith.contexts.metrics import REWARD
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import Decision, State
from oddsmith.core.policy import Policy
from oddsmith.server.fold.accounts import Count, Exposure
from oddsmith.server.fold.amounts import Amount
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.fold.protocol import Step
from oddsmith.server.statistics.arms import ArmCounts, NamedArms
from oddsmith.server.statistics.checks import Checks
from oddsmith.server.statistics.differences import Differences
from oddsmith.server.statistics.guards import Guards
from oddsmith.server.statistics.history import History, Mark
from oddsmith.server.statistics.series import ArmDraw, Series
from oddsmith.server.statistics.values import Values
from oddsmith.server.store.changes import arms_of
from oddsmith.server.store.protocol import Draw, Line

__all__ = ["FORM", "Sums"]

_log = logging.getLogger(__name__)

FORM = (
    "series, values with weights, checks; shares of experts; choices; differences 2; "
    "guards"
)
"""Version of the format of sums in snapshots. Sums in another format are computed again
from the log."""


@dataclass(slots=True)
class Sums:
    """Statistics of the log up to a position. They are the same in a running service,
    on replicas, and after restarts and corrections.

    `scale` converts rewards to the caller's units. If `shadow` is true, an incumbent
    has decided. Copies share their parts until one of them changes.

    An error in statistics never stops the service from learning. If a part raises an
    error, it is emptied and stays empty, and `failures` contains the reason by the name
    of the part. Another version of oddsmith computes the part again.
    """

    scale: RewardScale = field(default_factory=lambda: RewardScale(0.0, 1.0))
    named: NamedArms = field(default_factory=lambda: NamedArms(None))
    arms: ArmCounts = field(default_factory=ArmCounts)
    series: Series = field(default_factory=Series)
    history: History = field(default_factory=History)
    values: Values = field(default_factory=Values)
    checks: Checks = field(default_factory=Checks)
    differences: Differences = field(default_factory=Differences)
    guards: Guards = field(default_factory=Guards)
    shadow: bool = False
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def trouble(self) -> str:
        """Describe the parts that failed; empty if all are computed."""
        if not self.failures:
            return ""
        parts = "; ".join(f"{part}, {why}" for part, why in self.failures.items())
        return f"statistics are not computed: {parts}"

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Sums":
        """Return empty statistics for a store with these facts."""
        low, high = about.get("reward", [0.0, 1.0])
        arms = about.get("arms")
        if arms is not None:
            arms = tuple(arms)
        scale = RewardScale(low, high)
        differences = Differences.of(about.get("metrics", {}), scale)
        guards = Guards.of(about.get("metrics", {}))
        return cls(scale, NamedArms(arms), differences=differences, guards=guards)

    def is_of(self, about: Mapping[str, Any]) -> bool:
        """Return whether the metrics of these statistics are the metrics that are
        declared now."""
        declared = Sums.of(about).differences.metrics
        return self.differences.metrics == declared

    def copy(self) -> "Sums":
        """Return a copy that can be changed without changing this one."""
        parts = {part: getattr(self, part).copy() for part in _PARTS}
        return replace(self, **parts, failures=dict(self.failures))

    def take(self, step: Step) -> None:
        """Add the next step of the log."""
        item = step.item
        if isinstance(item, Count):
            self._count(item, step.drawn)
        elif isinstance(item, Exposure):
            self._show(item, step.drawn)
        elif isinstance(item, Amount):
            add = self.differences.count_amount
            if step.drawn is not None and not step.drawn.is_paused:
                arms = self.named.arms
                self._fold("differences", item.position, add, item, step.drawn, arms)
                guard = self.guards.count
                self._fold(
                    "guards",
                    item.position,
                    guard,
                    item.metric,
                    step.drawn,
                    item.value,
                    item.before,
                )
        elif item.kind == "decision":
            at = item.position
            self._fold("arms", at, self.arms.draw, at, str(item.arm))
            if not item.deferred:
                self._show(Exposure(at, at, item.time), step.drawn)
        else:
            self._mark(item)

    def note_update(
        self, count: Count, decision: Decision, policy: Policy, state: State
    ) -> None:
        """Add the weights of the experts after a reward, and the experts' predictions
        for it."""
        inner = gts_inside(policy)
        if inner is None:
            return
        at = count.position

        def weights() -> Mapping[str, float]:
            return policy.named_posterior(state, None)

        names = inner.experts.names
        add = self.checks.calibration.count
        self._fold("history", at, self.history.count, at, count.time, weights)
        self._fold("checks", at, add, count, decision, names, inner.loss)

    def _show(self, shown: Exposure, drawn: Draw | None) -> None:
        if drawn is None:
            return
        self.shadow = self.shadow or drawn.shadow
        draw = ArmDraw(shown.made, drawn.arm, drawn.odds_drawn)
        odds = self._odds(drawn)
        at = shown.position
        named = self.named
        self._fold("series", at, self.series.show, shown.time, draw, odds, named, at)
        self._fold("checks", at, self.checks.show, shown.time, drawn.arm, odds, named)
        self._fold("named", at, named.draw, drawn.arm, at)

    def _count(self, count: Count, drawn: Draw | None) -> None:
        if drawn is None:
            return
        at = count.position
        odds = self._odds(drawn)
        draw = ArmDraw(count.made, drawn.arm, drawn.odds_drawn)
        # inlined, because `RewardScale.value` checks its argument, which is too slow
        # here
        low = self.scale.low
        width = self.scale.high - low
        reward = low + width * count.value
        before = count.before
        if before is not None:
            before = low + width * before
        defaults = count.is_default - count.was_default
        add = self.series.count
        self._fold("arms", at, self.arms.count, count, drawn.arm)
        self._fold("series", at, add, count.decided, draw, reward, before, defaults)
        if drawn.is_paused:
            return
        self._fold("values", at, self.values.count, count, drawn, odds, self.named)
        self._fold("checks", at, self.checks.count, count, drawn)
        compare = self.differences.count
        self._fold("differences", at, compare, count, drawn, self.named.arms)
        if REWARD in self.guards.metrics:
            guard = self.guards.count
            self._fold("guards", at, guard, REWARD, drawn, reward, before)

    def _fold(
        self, part: str, position: int, fold: Callable[..., None], *step: object
    ) -> None:
        """Add a step to a part by calling `fold`, unless the part has failed."""
        if part in self.failures:
            return
        try:
            fold(*step)
        except MemoryError:
            raise
        except Exception as error:
            self._stop(part, f"{_reason(error)} at position {position}")

    def _stop(self, part: str, why: str) -> None:
        """Record that a part has failed, and empty it."""
        _log.error("statistics %s are not computed: %s", part, why)
        self.failures[part] = why
        empty = Sums(self.scale, NamedArms(self.named.arms))
        setattr(self, part, getattr(empty, part))

    def _odds(self, drawn: Draw) -> dict[str, float]:
        """Return the propensities by arm, without arms that were added later."""
        values = drawn.odds.tolist()
        names = drawn.names or self.named.arms or map(str, range(len(values)))
        return dict(zip(names, values, strict=False))

    def _mark(self, line: Line) -> None:
        kind = str(line.kind)
        name = line.id
        arms = arms_of(line)
        if arms is not None:
            known = self.named.arms or ()
            kind = "arms added"
            name = ", ".join(arm for arm in arms if arm not in known)
            self.named.become(arms)
        if line.kind == "action":
            kind, name = _action_of(line)
        mark = Mark(line.position, line.time, kind, name, line.value)
        self._fold("history", line.position, self.history.mark, mark)

    def to_json(self) -> dict[str, Any]:
        """Return the parts that have not failed, as a snapshot contains them."""
        now = self.copy()
        parts: dict[str, Any] = {}
        for part in _PARTS:
            try:
                parts[part] = getattr(now, part).to_json()
            except MemoryError:
                raise
            except Exception as error:
                now._stop(part, f"{_reason(error)} in a snapshot")
        for part in now.failures:
            parts.pop(part, None)
        parts["form"] = FORM
        parts["scale"] = [self.scale.low, self.scale.high]
        parts["shadow"] = self.shadow
        if now.failures:
            parts["failures"] = now.failures
            parts["version"] = __version__
        return parts

    @classmethod
    def from_json(cls, given: Mapping[str, Any] | None) -> "Sums | None":
        """Return the sums that `to_json` wrote.

        Return None if there are none, if they have another format, or if a part failed
        in another version.
        """
        if given is None or given.get("form") != FORM:
            return None
        failures = dict(given.get("failures", {}))
        if failures and given["version"] != __version__:
            return None
        try:
            low, high = given["scale"]
            sums = cls(RewardScale(low, high), failures=failures)
            for part, kind in _PARTS.items():
                if part not in failures:
                    setattr(sums, part, kind.from_json(given[part]))
        except MemoryError:
            raise
        except Exception as error:
            _log.error("statistics are computed from the log again: %s", _reason(error))
            return None
        sums.shadow = given["shadow"]
        return sums


_PARTS: dict[str, Any] = {
    "named": NamedArms,
    "arms": ArmCounts,
    "series": Series,
    "history": History,
    "values": Values,
    "checks": Checks,
    "differences": Differences,
    "guards": Guards,
}


def _action_of(line: Line) -> tuple[str, str]:
    """Return the name of an action, and its arm; empty for other actions."""
    fields: dict[str, Any] = json.loads(line.body or "")
    return fields["action"], fields["value"].get("arm", "")


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error!s:.80}"
