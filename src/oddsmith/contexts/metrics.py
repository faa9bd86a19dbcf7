"""Metrics: named amounts of a decision in addition to its reward."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import inf, isfinite
from typing import Any, Literal, TypeAlias

from oddsmith.core.arrays import number
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint

__all__ = ["METRIC_NAME", "Metric", "MetricRole", "REWARD", "check_amounts"]

MetricRole: TypeAlias = Literal["primary", "secondary", "guardrail"]
METRIC_NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
"""Allowed names of metrics."""
REWARD = "reward"
"""The reward as a metric. It always exists, and is primary unless another metric is."""
_ROLES: tuple[MetricRole, ...] = ("primary", "secondary", "guardrail")
_LARGEST = 1e100


@dataclass(frozen=True)
class Metric:
    """A metric of an experiment, in its own unit.

    Amounts must be in [low, high] and at most 1e100; all other amounts raise an error.
    With `cap` C, evaluation uses min(y, C) in place of y, because the mean of amounts
    without an upper end has no confidence interval. `default` is the amount of a
    decision that has none when its reward is settled.

    `better` is the direction of improvement. A guardrail has a `limit`, the largest
    accepted harm: relative to the control's value (0.1 is 10 %), or absolute if
    `is_absolute` is true. If `is_of_mean` is true, it is a limit on the metric's mean
    itself, without a control. `action` is the response to a breach. `matters` is the
    smallest lift of practical importance. A `ratio` metric is the sum of one metric
    over that of another.

    >>> revenue = Metric("revenue", role="primary", display_unit="EUR", cap=250.0)
    >>> revenue.scaled(375.0), revenue.scaled(50.0)
    (1.0, 0.2)
    """

    name: str
    role: MetricRole = "secondary"
    better: Literal["higher", "lower"] = "higher"
    display_unit: str = ""
    low: float = 0.0
    high: float = inf
    cap: float | None = None
    default: float | None = None
    limit: float | None = None
    is_absolute: bool = False
    is_of_mean: bool = False
    action: Literal["pause", "pause_arm"] | None = None
    matters: float | None = None
    ratio: tuple[str, str] | None = None

    def __post_init__(self) -> None:
        if not METRIC_NAME.fullmatch(self.name):
            raise InvalidInput(
                "metric must be named by 1 to 64 of a-z, 0-9 and _, a letter first; "
                f"got {self.name!r:.60}"
            )
        self._check_choice("role", self.role, _ROLES)
        self._check_choice("better", self.better, ("higher", "lower"))
        self._check_choice("action", self.action, (None, "pause", "pause_arm"))
        self._check_range()
        if self.matters is not None:
            number(self._of("matters"), self.matters, low=0, high=1e6, open_low=True)
        self._check_guardrail()

    def to_json(self) -> dict[str, Any]:
        """Return the declaration as JSON."""
        settings: dict[str, Any] = asdict(self)
        if self.high == inf:
            settings["high"] = None
        if self.ratio is not None:
            settings["ratio"] = list(self.ratio)
        return settings

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Metric":
        """Read the metric that `to_json` wrote.

        >>> cost = Metric("cost", better="lower", cap=0.2)
        >>> Metric.from_json(cost.to_json()) == cost
        True
        """
        settings = dict(given)
        if settings["high"] is None:
            settings["high"] = inf
        if settings["ratio"] is not None:
            settings["ratio"] = tuple(settings["ratio"])
        return cls(**settings)

    def _check_range(self) -> None:
        low = number(self._of("low"), self.low, low=-_LARGEST, high=_LARGEST)
        if not (self.high == inf or isfinite(self.high)) or self.high <= low:
            raise InvalidInput(
                f"{self._of('high')} must be above low, {low:g}; got {self.high!r}"
            )
        if self.cap is not None:
            cap = number(self._of("cap"), self.cap, low=low, high=_LARGEST)
            if not low < cap <= self.high:
                raise InvalidInput(
                    f"{self._of('cap')} must be above low, {low:g}, and at most high, "
                    f"{self.high:g}; got {cap:g}"
                )
        if self.default is not None and not low <= self.default <= self.high:
            raise InvalidInput(
                f"{self._of('default')} must be in [{low:g}, {self.high:g}]; got "
                f"{self.default!r}"
            )

    def _check_guardrail(self) -> None:
        is_guardrail = self.role == "guardrail"
        if is_guardrail and self.limit is None:
            raise InvalidInput(
                f"{self._of('limit')} must be given for a guardrail, such as 0.1; got "
                "none"
            )
        if self.limit is not None:
            number(self._of("limit"), self.limit, low=-_LARGEST, high=_LARGEST)
        if not is_guardrail and (self.limit is not None or self.action is not None):
            raise InvalidInput(
                f'{self._of("role")} must be "guardrail" where limit or action are '
                f"given; got {self.role!r}"
            )
        if self.is_of_mean and not (self.is_bounded and self.ratio is None):
            raise InvalidInput(
                f"{self._of('cap')} must be given with a limit on the mean, and no "
                "ratio"
            )
        if self.ratio is not None and self.role == "primary":
            raise InvalidInput(
                f"{self._of('role')} must be secondary or guardrail for a ratio; got "
                "primary"
            )

    def _check_choice(
        self, what: str, given: object, allowed: tuple[object, ...]
    ) -> None:
        if given not in allowed:
            words = [str(one) for one in allowed if one is not None]
            near = hint(given, words) if isinstance(given, str) else ""
            raise InvalidInput(
                f"{self._of(what)} must be one of {', '.join(words)}; got "
                f"{given!r:.60}{near}"
            )

    def _of(self, key: str) -> str:
        return f"metrics.{self.name}.{key}"

    @property
    def has_amounts(self) -> bool:
        """Return whether decisions have amounts of this metric. They have none of a
        ratio, nor of the reward, which is recorded separately."""
        return self.ratio is None and self.name != REWARD

    @property
    def top(self) -> float:
        """Return the largest value that evaluations use: the cap, or `high` without a
        cap."""
        return self.high if self.cap is None else self.cap

    @property
    def is_bounded(self) -> bool:
        """Return whether values have an upper end, which intervals need."""
        return isfinite(self.top)

    def check(self, amount: object) -> float:
        """Return an amount as a float; raise unless it is a number in [low, high]."""
        high = min(self.high, _LARGEST)
        return number(f"metric {self.name}", amount, low=self.low, high=high)

    def scaled(self, amount: float) -> float:
        """Return the amount y as (min(y, C) - low) / (C - low), in [0, 1], for the
        betting intervals. A unit's total below `low` counts as `low`."""
        top = self.top
        return (min(max(amount, self.low), top) - self.low) / (top - self.low)

    def value(self, scaled: float) -> float:
        """Convert a scaled value back to the metric's unit."""
        return self.low + scaled * (self.top - self.low)


def check_amounts(
    metrics: Mapping[str, Metric], given: Mapping[str, object]
) -> dict[str, float]:
    """Return amounts by the names of declared metrics.

    >>> check_amounts({"cost": Metric("cost")}, {"cots": 1})
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: 'cots' is not a metric; did you mean cost?
    Declared metrics: cost
    """
    amounts = {}
    for name, amount in given.items():
        metric = metrics.get(name)
        if metric is None or not metric.has_amounts:
            declared = [known for known in metrics if metrics[known].has_amounts]
            listed = ", ".join(declared) or "none; declare it as [metrics.NAME]"
            near = hint(str(name), declared) or "."
            if name == REWARD:
                near = ": give it as the reward of the decision."
            raise InvalidInput(
                f"{name!r:.60} is not a metric{near} Declared metrics: {listed}"
            )
        amounts[name] = metric.check(amount)
    return amounts
