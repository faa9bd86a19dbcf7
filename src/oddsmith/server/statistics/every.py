"""Sums: all that is folded beside the state, each step taken in its turn."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from oddsmith import __version__
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import Decision, State
from oddsmith.core.policy import Policy
from oddsmith.server.fold.accounts import Count, Exposure
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.fold.protocol import Step
from oddsmith.server.statistics.arm_names import NamedArms
from oddsmith.server.statistics.arms import ArmCounts
from oddsmith.server.statistics.checks import Checks
from oddsmith.server.statistics.history import History, Mark
from oddsmith.server.statistics.series import Series
from oddsmith.server.statistics.values import Values
from oddsmith.server.store.changes import arms_of
from oddsmith.server.store.protocol import Draw, Line

__all__ = ["FORM", "Sums"]

_log = logging.getLogger(__name__)

FORM = "series, values with weights, checks; shares of experts; choices"
"""What snapshots hold of sums; another form is folded anew."""


@dataclass(slots=True)
class Sums:
    """Functions of the log up to a position: the same live, on replicas, after restarts
    and after corrections.

    `scale` has the caller's units; `shadow` says that an incumbent has acted. Parts are
    shared by copies until they are written into.

    Nothing here can stop a fold: a part that raises is emptied and stays so, and
    `failures` says by its name where and why. Another version of oddsmith folds it
    again.
    """

    scale: RewardScale = field(default_factory=lambda: RewardScale(0.0, 1.0))
    named: NamedArms = field(default_factory=lambda: NamedArms(None))
    arms: ArmCounts = field(default_factory=ArmCounts)
    series: Series = field(default_factory=Series)
    history: History = field(default_factory=History)
    values: Values = field(default_factory=Values)
    checks: Checks = field(default_factory=Checks)
    shadow: bool = False
    failures: dict[str, str] = field(default_factory=dict)

    @property
    def trouble(self) -> str:
        """A sentence about the parts that are not computed; empty if all are."""
        if not self.failures:
            return ""
        parts = "; ".join(f"{part}, {why}" for part, why in self.failures.items())
        return f"statistics are not computed: {parts}"

    @classmethod
    def of(cls, about: Mapping[str, Any]) -> "Sums":
        """Nothing yet, of a store with these facts."""
        arms, reward = about.get("arms"), about.get("reward", [0.0, 1.0])
        return cls(
            RewardScale(*reward), NamedArms(None if arms is None else tuple(arms))
        )

    def copy(self) -> "Sums":
        """The same sums, to go on from."""
        return Sums(
            self.scale,
            self.named.copy(),
            self.arms.copy(),
            self.series.copy(),
            self.history.copy(),
            self.values.copy(),
            self.checks.copy(),
            self.shadow,
            dict(self.failures),
        )

    def take(self, step: Step) -> None:
        """Take the next step of a fold."""
        item, _, drawn = step
        if isinstance(item, Count):
            self._count(item, drawn)
        elif isinstance(item, Exposure):
            self._show(item, drawn)
        elif item.kind == "decision":
            self._fold(
                "arms", item.position, self.arms.draw, item.position, str(item.arm)
            )
            if not item.deferred:
                self._show(Exposure(item.position, item.position, item.time), drawn)
        else:
            self._mark(item)

    def note_update(
        self, count: Count, decision: Decision, policy: Policy, state: State
    ) -> None:
        """A decision has counted: the policy, and the state after it."""
        inner = gts_inside(policy)
        if inner is None:
            return
        at = count.position

        def weights() -> Mapping[str, float]:
            return policy.named_posterior(state, None)

        self._fold("history", at, self.history.count, at, count.time, weights)
        self._fold(
            "checks",
            at,
            self.checks.calibration.count,
            count,
            decision,
            inner.experts.names,
            inner.loss,
        )

    def _show(self, shown: Exposure, drawn: Draw | None) -> None:
        if drawn is None:
            return
        self.shadow = self.shadow or drawn.shadow
        draw = shown.made, drawn.arm, drawn.odds_drawn
        odds = self._odds(drawn)
        at, named = shown.position, self.named
        self._fold("series", at, self.series.show, shown.time, draw, odds, named, at)
        self._fold("checks", at, self.checks.show, shown.time, drawn.arm, odds, named)
        self._fold("named", at, named.draw, drawn.arm, at)

    def _count(self, count: Count, drawn: Draw | None) -> None:
        if drawn is None:
            return
        at, odds = count.position, self._odds(drawn)
        reward = self.scale.low + (self.scale.high - self.scale.low) * count.value
        before = (
            None
            if count.before is None
            else self.scale.low + (self.scale.high - self.scale.low) * count.before
        )
        draw = count.made, drawn.arm, drawn.odds_drawn
        rewards = reward, before
        defaults = count.is_default - count.was_default
        self._fold("arms", at, self.arms.count, count, drawn.arm)
        self._fold(
            "series", at, self.series.count, count.decided, draw, rewards, defaults
        )
        self._fold("values", at, self.values.count, count, drawn, odds, self.named)
        self._fold("checks", at, self.checks.count, count, drawn)

    def _fold(
        self, part: str, position: int, fold: Callable[..., None], *step: object
    ) -> None:
        """Fold a step into a part, unless it has failed."""
        if part in self.failures:
            return
        try:
            fold(*step)
        except MemoryError:
            raise
        except Exception as error:
            self._stop(part, f"{_reason(error)} at position {position}")

    def _stop(self, part: str, why: str) -> None:
        """Empty a part that has failed."""
        _log.error("statistics %s are not computed: %s", part, why)
        self.failures[part] = why
        empty = Sums(self.scale, NamedArms(self.named.arms))
        setattr(self, part, getattr(empty, part))

    def _odds(self, drawn: Draw) -> dict[str, float]:
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
        mark = Mark(line.position, line.time, kind, name, line.value)
        self._fold("history", line.position, self.history.mark, mark)

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of them: the parts that have not failed."""
        now = self.copy()
        parts: dict[str, Any] = {}
        for part in _PARTS:
            try:
                parts[part] = getattr(now, part).to_json()
            except MemoryError:
                raise
            except Exception as error:
                now._stop(part, f"{_reason(error)} in a snapshot")
        known: dict[str, Any] = {
            "form": FORM,
            "scale": [self.scale.low, self.scale.high],
            "shadow": self.shadow,
        }
        if now.failures:
            known["failures"] = now.failures
            known["version"] = __version__
        kept = {part: parts[part] for part in parts if part not in now.failures}
        return known | kept

    @classmethod
    def from_json(cls, given: Mapping[str, Any] | None) -> "Sums | None":
        """The sums that `to_json` gave; None where there are none, of another form, or
        with parts that failed in another version."""
        if given is None or given.get("form") != FORM:
            return None
        failures = dict(given.get("failures", {}))
        if failures and given["version"] != __version__:
            return None
        try:
            parts = {
                part: kind.from_json(given[part])
                for part, kind in _PARTS.items()
                if part not in failures
            }
            scale = RewardScale(*given["scale"])
        except MemoryError:
            raise
        except Exception as error:
            _log.error("statistics are folded again: %s", _reason(error))
            return None
        return cls(scale, shadow=given["shadow"], failures=failures, **parts)


_PARTS: dict[str, Any] = {
    "named": NamedArms,
    "arms": ArmCounts,
    "series": Series,
    "history": History,
    "values": Values,
    "checks": Checks,
}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error!s:.80}"
