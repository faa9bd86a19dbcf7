"""Compute the amounts of one decision's metrics from its events, and the positions in
the log where they count."""

from collections.abc import Mapping
from math import fsum
from typing import NamedTuple

from oddsmith.server.store.events import metric_of
from oddsmith.server.store.protocol import Line

__all__ = ["Amount", "AmountAccount", "Totals"]


class Amount(NamedTuple):
    """A step in the computation of statistics: from `position` on, a metric of the
    decision made at `made` has this `value`. It replaces `before`, which is None for
    the first value."""

    position: int
    made: int
    metric: str
    value: float
    before: float | None = None


class Totals:
    """The amounts of a decision by metric. An amount is the last correction if there is
    one, otherwise the sum of its parts."""

    __slots__ = ("_corrections", "_parts")

    def __init__(self) -> None:
        self._parts: dict[str, list[float]] = {}
        self._corrections: dict[str, float] = {}

    def take(self, line: Line) -> None:
        """Add the next line."""
        if not line.of_metric or line.value is None:
            return
        name = metric_of(line.key)
        if line.kind == "metric":
            self._parts.setdefault(name, []).append(line.value)
        else:
            self._corrections[name] = line.value

    def names(self) -> dict[str, None]:
        """Return the metrics that have an amount, in the order of their lines."""
        return dict.fromkeys([*self._parts, *self._corrections])

    def value(self, name: str) -> float | None:
        """Return the amount of a metric; None if there is none."""
        if name in self._corrections:
            return self._corrections[name]
        if name in self._parts:
            return fsum(self._parts[name])
        return None


class AmountAccount:
    """The steps of a decision's metric amounts.

    The amount of a metric is its last correction if there is one, otherwise the sum of
    its parts. It counts where it arrives, but not before the decision was shown. A
    metric with a default has it from the line that settles the reward until the first
    amount.

    >>> account = AmountAccount({"revenue": 0.0})
    >>> account.take(Line(1, "decision", "a", "", None, 0.0, False, 0), settled=0)
    >>> account.take(Line(2, "default", "a", "", 0.0, 60.0, False, None), settled=2)
    >>> account.take(Line(3, "metric", "a", "revenue", 9.5, 70.0, False, None), 2)
    >>> [amount[2:] for amount in account.steps]
    [('revenue', 0.0, None), ('revenue', 9.5, 0.0)]
    """

    __slots__ = (
        "_defaults",
        "_deferred",
        "_is_settled",
        "_made",
        "_shown",
        "_totals",
        "steps",
    )

    def __init__(self, defaults: Mapping[str, float]) -> None:
        self._defaults = defaults
        self._made = 0
        self._deferred = False
        self._shown = False
        self._is_settled = False
        self._totals = Totals()
        self.steps: list[Amount] = []

    def take(self, line: Line, settled: int) -> None:
        """Add the next line. `settled` is the position where the reward was settled, or
        0 if it is not settled yet."""
        if line.kind == "decision":
            self._made = line.position
            self._deferred = bool(line.deferred)
        elif line.kind == "activation":
            self._shown = True
        self._totals.take(line)
        if not self._made or (self._deferred and not self._shown):
            return
        self._is_settled = self._is_settled or settled > 0
        names = self._totals.names()
        if self._is_settled:
            names |= dict.fromkeys(self._defaults)
        for name in names:
            self._note(line.position, name)

    def _note(self, position: int, name: str) -> None:
        """Add a step if the amount has changed."""
        value = self._totals.value(name)
        if value is None:
            value = self._defaults[name]
        before = None
        for step in reversed(self.steps):
            if step.metric == name:
                before = step.value
                break
        if value != before:
            self.steps.append(Amount(position, self._made, name, value, before))
