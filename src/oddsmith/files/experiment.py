"""The keys of a policy file about its experiment: control, holdout, metrics and
segments."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from oddsmith.contexts.metrics import REWARD, Metric
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.core.names import hint
from oddsmith.core.policy import Policy
from oddsmith.files.keys import Keys
from oddsmith.policies.control import Control
from oddsmith.policies.holdout import Holdout, RampStep

__all__ = ["ExperimentDesign", "read_design"]

_MOST_SEGMENTS = 20
_LIMITS = ("relative", "absolute", "mean")
_BY = {"decision": "decision", "unit": "unit"}


@dataclass(frozen=True)
class ExperimentDesign:
    """The experiment around a policy, from its policy file.

    `control` is None if the file names none and has no holdout. `segments` contains the
    declared values of fields of the context, by field. `reward_weights` compute the
    reward from metrics, as the sum of weight times amount.
    """

    control: Control | None = None
    holdout: Holdout | None = None
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    segments: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    min_days: float = 7.0
    max_days: float | None = None
    reward_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def primary(self) -> str:
        """The primary metric: the one that the file declares as primary, otherwise the
        reward."""
        for metric in self.metrics.values():
            if metric.role == "primary":
                return metric.name
        return REWARD


def read_design(
    keys: Keys,
    folder: Path,
    arms: Sequence[str] | None,
    read_control_file: Callable[[Path], Policy],
) -> ExperimentDesign:
    """Read the keys `control`, `holdout`, `metrics`, `segments`, `min_days` and
    `max_days`.

    `read_control_file` reads the policy of a control that is a policy file.
    """
    metrics: dict[str, Metric] = {}
    if keys.has("metrics"):
        metrics = _metrics(keys)
    control = None
    if keys.has("control"):
        control = _control(keys.get("control"), folder, arms, read_control_file)
    holdout = None
    if keys.has("holdout"):
        holdout = _holdout(keys.table("holdout"), control)
        control = holdout.control
        control.check_arms(arms)
    max_days = None
    min_days = keys.number("min_days", 7.0, low=0, high=1e6)
    if keys.has("max_days"):
        max_days = keys.number("max_days", low=min_days, high=1e6)
    weights: dict[str, float] = {}
    # Other keys of the table [reward] are read elsewhere.
    reward = keys.values.get("reward")
    if isinstance(reward, dict) and "metrics" in reward:
        weights = _reward_weights(Keys(reward, "reward").table("metrics"), metrics)
    segments: dict[str, list[Any]] = {}
    if keys.has("segments"):
        segments = _segments(keys.table("segments"))
    return ExperimentDesign(
        control, holdout, metrics, segments, min_days, max_days, weights
    )


def _control(
    given: object,
    folder: Path,
    arms: Sequence[str] | None,
    read_control_file: Callable[[Path], Policy],
) -> Control:
    if isinstance(given, str) and given.endswith(".toml"):
        policy = read_control_file(folder / given)
        control = Control.of(policy, name=given)
    else:
        control = Control.of(given)
    control.check_arms(arms)
    return control


def _holdout(table: Keys, control: Control | None) -> Holdout:
    by = table.text("by", "decision", choices=_BY)
    end_day = None
    if table.get("end_day", None) is not None:
        end_day = table.number("end_day", low=1e-6, high=1e6)
    try:
        share = table.number("share", 0.1, low=0, high=1)
        holdout = Holdout(
            share=share,
            control=Control.of("first") if control is None else control,
            by="unit" if by == "unit" else "decision",
            ramp=_ramp(table),
            end_day=end_day,
            is_aa=table.flag("aa"),
        )
    except OddsmithError as error:
        raise table.blame(error) from error
    table.close()
    return holdout


def _ramp(table: Keys) -> list[RampStep]:
    given = table.get("ramp", [])
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise InvalidInput(
            f"{table.named('ramp')} must be a list such as [{{ until_day = 7, share = "
            f"0.9 }}]; got {given!r:.60}"
        )
    steps = []
    for place, one in enumerate(given, 1):
        row = Keys(one, f"{table.named('ramp')} {place}")
        until_day = row.number("until_day", low=0, high=1e6)
        share = row.number("share", low=0, high=1)
        row.close()
        steps.append(RampStep(until_day, share))
    return steps


def _metrics(keys: Keys) -> dict[str, Metric]:
    metrics = {name: _metric(name, one) for name, one in keys.tables("metrics").items()}
    primaries = [one.name for one in metrics.values() if one.role == "primary"]
    if len(primaries) > 1:
        raise InvalidInput(
            f"metrics must have one primary metric; got {', '.join(primaries)}"
        )
    for metric in metrics.values():
        for part in metric.ratio or ():
            if part != REWARD and part not in metrics:
                raise InvalidInput(
                    f"metrics.{metric.name}.ratio must name metrics; got {part!r:.60}"
                    f"{hint(part, metrics)}"
                )
    return metrics


def _metric(name: str, table: Keys) -> Metric:
    limit_is = table.text("limit_is", "relative", choices=_LIMITS)
    ratio = table.get("ratio", None)
    is_pair = isinstance(ratio, list) and [type(one) for one in ratio] == [str, str]
    if ratio is not None and not is_pair:
        raise InvalidInput(
            f'{table.named("ratio")} must be two metrics, ["revenue", "orders"]; got '
            f"{ratio!r:.60}"
        )
    settings: Any = {
        "role": table.text("role", "secondary"),
        "better": table.text("better", "higher"),
        "display_unit": table.text("display_unit", ""),
        "action": table.get("action", None),
        "is_absolute": limit_is == "absolute",
        "is_of_mean": limit_is == "mean",
        "ratio": None if ratio is None else tuple(ratio),
    }
    for key in ("low", "high", "cap", "default", "limit", "matters"):
        if table.get(key, None) is not None:
            settings[key] = table.number(key, low=-inf, high=inf)
    try:
        metric = Metric(name, **settings)
    except InvalidInput as error:
        raise table.blame(error) from error
    table.close()
    return metric


def _reward_weights(table: Keys, metrics: Mapping[str, Metric]) -> dict[str, float]:
    """Return the weights of metrics in the reward, from the table [reward.metrics]."""
    for name in table.values:
        if name not in metrics:
            raise InvalidInput(
                f"{table.named(name)} must be a declared metric, [metrics.{name}]"
                f"{hint(name, metrics)}"
            )
    return {name: table.number(name, low=-1e100, high=1e100) for name in table.values}


def _segments(table: Keys) -> dict[str, list[Any]]:
    segments: dict[str, list[Any]] = {}
    for name in table.values:
        values = table.get(name)
        if not isinstance(values, list) or not values:
            raise InvalidInput(
                f"{table.named(name)} must be a list of values, such as "
                f'["mobile", "desktop"]; got {values!r:.60}'
            )
        segments[name] = values
    n_segments = sum(len(values) for values in segments.values())
    if n_segments > _MOST_SEGMENTS:
        raise InvalidInput(
            f"segments must be at most {_MOST_SEGMENTS} in all; got {n_segments}"
        )
    return segments
