"""The configuration of the service in Personalizer's format. A change is written to the
log, and overrides the policy file from then on.

Reward wait time, default reward, learning mode and log retention have effects. How
rewards are aggregated is part of the store, and exploration is part of the policy, so
these must not change. All other fields are stored and returned without effect.
"""

import re
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import msgspec

from oddsmith.core.errors import InvalidInput
from oddsmith.server.compat.personalizer.messages import (
    ServiceConfiguration,
    request_id,
)
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.http.door import DoorRefusal, Visit
from oddsmith.server.store.changes import setting_of
from oddsmith.server.store.events import SETTINGS, ConfigurationChange

__all__ = ["configuration", "configure", "iso", "seconds_of", "time_span"]

_SPAN = re.compile(r"(-)?(?:(\d+)\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?")
_ISO = re.compile(
    r"(-)?P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?"
)
_UNITS = (86_400.0, 3600.0, 60.0, 1.0)


def seconds_of(name: str, text: str) -> float:
    """Return the seconds of a duration in either format, to 100 nanoseconds, the
    precision of both formats.

    >>> seconds_of("x", "00:10:00"), seconds_of("x", "1.06:00:00")
    (600.0, 108000.0)
    >>> seconds_of("x", "PT10M"), seconds_of("x", "P1DT6H"), seconds_of("x", "PT0.5S")
    (600.0, 108000.0, 0.5)
    """
    match = None
    if len(text) <= 40:
        match = _SPAN.fullmatch(text) or _ISO.fullmatch(text)
    if match is None:
        raise InvalidInput(
            f"{name} must be a duration such as PT10M or 00:10:00; got {text!r:.60}"
        )
    sign, *parts = match.groups()
    total = 0.0
    for part, unit in zip(parts, _UNITS, strict=True):
        if part is not None:
            total += float(part) * unit
    seconds = round(total, 7)
    if sign:
        return -seconds
    return seconds


def time_span(seconds: float) -> str:
    """Format a duration as [days.]hours:minutes:seconds.

    >>> time_span(600.0), time_span(108_000.5)
    ('00:10:00', '1.06:00:00.5000000')
    """
    days, hours, minutes, rest = _parts(seconds)
    text = f"{hours:02d}:{minutes:02d}:{int(rest):02d}"
    if days:
        text = f"{days}.{text}"
    fraction = rest % 1
    if fraction:
        text += f"{fraction:.7f}"[1:]
    return text


def iso(seconds: float) -> str:
    """Format a duration as ISO 8601.

    >>> iso(600.0), iso(108_000.0), iso(0.5), iso(1e-7)
    ('PT10M', 'P1DT6H', 'PT0.5S', 'PT0.0000001S')
    """
    days, hours, minutes, rest = _parts(seconds)
    clock = ""
    if hours:
        clock += f"{hours}H"
    if minutes:
        clock += f"{minutes}M"
    if rest:
        digits = f"{rest:.7f}".rstrip("0").removesuffix(".")
        clock += f"{digits}S"
    text = "P"
    if days:
        text += f"{days}D"
    if clock:
        text += f"T{clock}"
    if days or clock:
        return text
    return "PT0S"


def _parts(seconds: float) -> tuple[int, int, int, float]:
    """Return days, hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds, 7), 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest


_FOR_EVER = 36_500 * 86_400.0  # number of seconds that means an unlimited wait
_DAY = 86_400.0
_EXPORT = 300.0
_OPTIMIZATION = 28 * _DAY
# fields that are optional since version 1.0
_FIRST_OPTIONAL = ("logMirrorEnabled", "logMirrorSasUri")
_OURS = (
    "rewardWaitTime",
    "defaultReward",
    "rewardAggregation",
    "explorationPercentage",
    "logRetentionDays",
)
# fields that are not stored in the form in which they were sent
_APART = (*_OURS, "lastConfigurationEditDate")
_CONSTANT = {
    "rewardAggregation": "the store's",
    "explorationPercentage": "the policy's: change it in a new policy file",
}
"""Fields that must not change, with a description of what defines each of them."""
_DURATIONS = ("rewardWaitTime", "modelExportFrequency", "autoOptimizationFrequency")


async def configuration(experiment: Experiment, visit: Visit) -> dict[str, Any]:
    """Return the current configuration."""
    return _in_version(_fields(experiment), visit.parameters["version"])


async def configure(experiment: Experiment, visit: Visit) -> dict[str, Any]:
    """Change the configuration, and return it. The change is an event in the log, so
    other replicas apply it, too."""
    # changes run one at a time, because each builds on the previous one
    async with experiment.changing:
        await experiment.take_settings()
        before = _fields(experiment)
        after = before | _message_fields(visit.message)
        _check(experiment, before, after)
        is_change = any(after[name] != before.get(name) for name in after)
        if is_change:
            key = request_id(visit) or uuid4().hex
            event = ConfigurationChange(
                SETTINGS, _value(after), experiment.clock(), key, visit.sender
            )
            await experiment.append(event)
            await experiment.take_settings()
    return _in_version(_fields(experiment), visit.parameters["version"])


def _fields(experiment: Experiment) -> dict[str, Any]:
    """Return all fields, with durations in seconds."""
    settings = experiment.settings
    line = experiment.change
    default = round(experiment.scale.value(settings.default), 12)
    caller_fields: dict[str, Any] = {}
    if line is not None:
        change = setting_of(line)
        default = change["default_reward"]
        caller_fields = change["said"]
        edit_time = datetime.fromtimestamp(line.time, UTC).isoformat()
        caller_fields["lastConfigurationEditDate"] = edit_time.replace("+00:00", "Z")
    wait = _FOR_EVER if settings.window is None else settings.window
    aggregation = "sum" if settings.rule == "sum" else "earliest"
    mode = "Apprentice" if settings.shadow else "Online"
    fields: dict[str, Any] = {
        "rewardWaitTime": wait,
        "defaultReward": default,
        "rewardAggregation": aggregation,
        "explorationPercentage": _exploration(experiment),
        "modelExportFrequency": _EXPORT,
        "logRetentionDays": _retention(settings.erase_after_days),
        "logMirrorEnabled": False,
        "logMirrorSasUri": "",
        "learningMode": mode,
        "isAutoOptimizationEnabled": False,
        "autoOptimizationFrequency": _OPTIMIZATION,
        "isInferenceExplainabilityEnabled": False,
    }
    return fields | caller_fields


def _retention(days: float | None) -> float:
    """Return the number of days after which contexts are erased; -1 for never."""
    if days is None:
        return -1
    if days == int(days):
        return int(days)
    return days


def _exploration(experiment: Experiment) -> float:
    """Return the share of draws that are uniform; 0 for policies that explore in
    another way."""
    inner = gts_inside(experiment.follower.now.policy)
    if inner is None:
        return 0.0
    gamma = inner.gamma_at(max(experiment.steps, 1))
    return round(float(gamma), 6)


def _message_fields(message: ServiceConfiguration) -> dict[str, Any]:
    """Return the fields of a message that are set, with durations in seconds."""
    fields: dict[str, Any] = {}
    for field in msgspec.structs.fields(message):
        value = getattr(message, field.name)
        if value is not None:
            fields[field.encode_name] = value
    for name in _DURATIONS:
        if name in fields:
            fields[name] = seconds_of(name, fields[name])
    if "logMirrorSasUri" in fields:
        # the query of the address contains a secret
        address, _, _ = fields["logMirrorSasUri"].partition("?")
        fields["logMirrorSasUri"] = address
    return fields


def _check(
    experiment: Experiment, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Raise if a value is out of range, must not change, or must not change together
    with another one."""
    changes = {name for name in after if after[name] != before.get(name)}
    for name, owner in _CONSTANT.items():
        if name in changes:
            raise InvalidInput(
                f"{name} must stay {before[name]!r}, because it is {owner}; got "
                f"{after[name]!r:.60}"
            )
    for name in _DURATIONS:
        if not 0 < after[name] <= _FOR_EVER:
            raise InvalidInput(
                f"{name} must be more than 0 and at most {iso(_FOR_EVER)}; got "
                f"{after[name]:g} s"
            )
    low = experiment.scale.low
    high = experiment.scale.high
    default = after["defaultReward"]
    if not low <= default <= high:
        raise InvalidInput(
            f"defaultReward must be in [{low:g}, {high:g}], the scale of rewards; got "
            f"{default:g}"
        )
    days = after["logRetentionDays"]
    least_days = after["rewardWaitTime"] / _DAY + 1
    is_other = bool(changes & {"logRetentionDays", "rewardWaitTime"})
    if is_other and days != -1 and days < least_days:
        raise InvalidInput(
            "logRetentionDays must be -1, or at least a day more than rewardWaitTime, "
            f"{least_days:g}; got {days}"
        )
    if "learningMode" in changes and changes & {"rewardWaitTime", "defaultReward"}:
        raise DoorRefusal(
            400,
            "InvalidLearningModeServiceConfiguration",
            "learningMode must not change together with rewardWaitTime or "
            "defaultReward: change one, then the other",
        )


def _value(fields: dict[str, Any]) -> Any:
    """Return the value of the event: settings with our own names, and the remaining
    fields."""
    wait = fields["rewardWaitTime"]
    window = None if wait == _FOR_EVER else wait
    days = fields["logRetentionDays"]
    retention = None if days == -1 else days
    rest = {name: value for name, value in fields.items() if name not in _APART}
    return {
        "window_s": window,
        "default_reward": fields["defaultReward"],
        "shadow": fields["learningMode"] != "Online",
        "erase_after_days": retention,
        "said": rest,
    }


def _in_version(fields: dict[str, Any], version: str) -> dict[str, Any]:
    """Return the configuration in the format of an API version."""
    format_duration = iso
    names = set(fields)
    if version == "v1.0":
        format_duration = time_span
        names = {*_FIRST_OPTIONAL}
        for field in msgspec.structs.fields(ServiceConfiguration):
            if field.required:
                names.add(field.encode_name)
    result: dict[str, Any] = {}
    for name, value in fields.items():
        if name in names:
            result[name] = format_duration(value) if name in _DURATIONS else value
    return result
