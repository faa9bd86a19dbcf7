"""The service's configuration: what is safe to change goes into the log, and stands
over the policy file from there on.

Reward waits, the default reward, the mode and the retention have effects; what belongs
to the store (the aggregation of rewards) or to the policy (its exploration) must be as
it is; all else has none here, is kept, and given back.
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
    """The seconds of a duration in either spelling, to the 100 nanoseconds that both
    can be written with.

    >>> [
    ...     seconds_of("x", text)
    ...     for text in ("00:10:00", "1.06:00:00", "PT10M", "P1DT6H", "PT0.5S")
    ... ]
    [600.0, 108000.0, 600.0, 108000.0, 0.5]
    """
    match = (_SPAN.fullmatch(text) or _ISO.fullmatch(text)) if len(text) <= 40 else None
    if match is None:
        raise InvalidInput(
            f"{name} must be a duration such as PT10M or 00:10:00; got {text!r:.60}"
        )
    sign, *parts = match.groups()
    total = round(
        sum(
            float(part) * unit
            for part, unit in zip(parts, _UNITS, strict=True)
            if part is not None
        ),
        7,
    )
    return -total if sign else total


def time_span(seconds: float) -> str:
    """A duration as [days.]hours:minutes:seconds.

    >>> time_span(600.0), time_span(108_000.5)
    ('00:10:00', '1.06:00:00.5000000')
    """
    days, hours, minutes, rest = _parts(seconds)
    fraction = f"{rest % 1:.7f}"[1:] if rest % 1 else ""
    return (
        f"{f'{days}.' if days else ''}{hours:02d}:{minutes:02d}:{int(rest):02d}"
        f"{fraction}"
    )


def iso(seconds: float) -> str:
    """A duration as ISO 8601 has it.

    >>> iso(600.0), iso(108_000.0), iso(0.5), iso(1e-7)
    ('PT10M', 'P1DT6H', 'PT0.5S', 'PT0.0000001S')
    """
    days, hours, minutes, rest = _parts(seconds)
    written = f"{rest:.7f}".rstrip("0").removesuffix(".")
    texts = ((hours, f"{hours}H"), (minutes, f"{minutes}M"), (rest, f"{written}S"))
    clock = "".join(text for number, text in texts if number)
    return (
        f"P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}"
        if days or clock
        else "PT0S"
    )


def _parts(seconds: float) -> tuple[int, int, int, float]:
    """Days, hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds, 7), 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest


_FOR_EVER = 36_500 * 86_400.0  # seconds: a wait that never ends
_DAY = 86_400.0
_EXPORT = 300.0
_OPTIMIZATION = 28 * _DAY
_FIRST = ("logMirrorEnabled", "logMirrorSasUri")  # what v1.0 has beside what is needed
_OURS = (
    "rewardWaitTime",
    "defaultReward",
    "rewardAggregation",
    "explorationPercentage",
    "logRetentionDays",
)
_APART = (*_OURS, "lastConfigurationEditDate")  # what is not kept as it was said
_DURATIONS = ("rewardWaitTime", "modelExportFrequency", "autoOptimizationFrequency")


async def configuration(experiment: Experiment, visit: Visit) -> dict[str, Any]:
    """The configuration as it is."""
    return _spelt(_told(experiment), visit.parameters["version"])


async def configure(experiment: Experiment, visit: Visit) -> dict[str, Any]:
    """The configuration as it is from now on; a change is an event in the log, which
    other replicas follow."""
    # one after the other, each on what the last one left
    async with experiment.changing:
        await experiment.take_settings()
        before = _told(experiment)
        after = before | _asked(visit.message)
        _check(experiment, before, after)
        changed = [name for name in after if after[name] != before.get(name)]
        if changed:
            key = request_id(visit) or uuid4().hex
            event = ConfigurationChange(
                SETTINGS, _value(after), experiment.clock(), key, visit.sender
            )
            await experiment.append(event)
            await experiment.take_settings()
    return _spelt(_told(experiment), visit.parameters["version"])


def _told(experiment: Experiment) -> dict[str, Any]:
    """All fields, durations in seconds."""
    settings, line = experiment.settings, experiment.change
    default, said = (
        round(experiment.scale.value(settings.default), 12),
        dict[str, Any](),
    )
    if line is not None:
        default, said = setting_of(line)["default_reward"], setting_of(line)["said"]
        said["lastConfigurationEditDate"] = (
            datetime.fromtimestamp(line.time, UTC).isoformat().replace("+00:00", "Z")
        )
    days = settings.erase_after_days
    told: dict[str, Any] = {
        "rewardWaitTime": _FOR_EVER if settings.window is None else settings.window,
        "defaultReward": default,
        "rewardAggregation": "sum" if settings.rule == "sum" else "earliest",
        "explorationPercentage": _exploration(experiment),
        "modelExportFrequency": _EXPORT,
        "logRetentionDays": -1
        if days is None
        else int(days)
        if days == int(days)
        else days,
        "logMirrorEnabled": False,
        "logMirrorSasUri": "",
        "learningMode": "Apprentice" if settings.shadow else "Online",
        "isAutoOptimizationEnabled": False,
        "autoOptimizationFrequency": _OPTIMIZATION,
        "isInferenceExplainabilityEnabled": False,
    }
    return told | said


def _exploration(experiment: Experiment) -> float:
    """The share of draws that are uniform; 0 for policies that explore otherwise."""
    inner = gts_inside(experiment.follower.now.policy)
    return (
        0.0
        if inner is None
        else round(float(inner.gamma_at(max(experiment.steps, 1))), 6)
    )


def _asked(message: ServiceConfiguration) -> dict[str, Any]:
    """The fields that were sent, durations in seconds; what is left out stays as it
    is."""
    asked: dict[str, Any] = {
        field.encode_name: value
        for field in msgspec.structs.fields(message)
        if (value := getattr(message, field.name)) is not None
    }
    for name in _DURATIONS:
        if name in asked:
            asked[name] = seconds_of(name, asked[name])
    if "logMirrorSasUri" in asked:
        # what follows is a secret
        asked["logMirrorSasUri"] = asked["logMirrorSasUri"].partition("?")[0]
    return asked


def _check(
    experiment: Experiment, before: dict[str, Any], after: dict[str, Any]
) -> None:
    """Refuses what is out of range, or must not change, or not together."""
    days, wait, default = (
        after["logRetentionDays"],
        after["rewardWaitTime"],
        after["defaultReward"],
    )
    for name in ("rewardAggregation", "explorationPercentage"):
        whose = (
            "the store's"
            if name == "rewardAggregation"
            else "the policy's: change it in a new policy file"
        )
        if after[name] != before[name]:
            raise InvalidInput(
                f"{name} must stay {before[name]!r}, for it is {whose}; got "
                f"{after[name]!r:.60}"
            )
    for name in _DURATIONS:
        if not 0 < after[name] <= _FOR_EVER:
            raise InvalidInput(
                f"{name} must be more than 0 and at most {iso(_FOR_EVER)}; got "
                f"{after[name]:g} s"
            )
    low, high = experiment.scale.low, experiment.scale.high
    if not low <= default <= high:
        raise InvalidInput(
            f"defaultReward must be in [{low:g}, {high:g}], the scale of rewards; got "
            f"{default:g}"
        )
    if not (
        days == -1
        or days >= wait / _DAY + 1
        or (days, wait) == (before["logRetentionDays"], before["rewardWaitTime"])
    ):
        raise InvalidInput(
            "logRetentionDays must be -1, or at least a day more than rewardWaitTime, "
            f"{wait / _DAY + 1:g}; got {days}"
        )
    rewards = ("rewardWaitTime", "defaultReward")
    if after["learningMode"] != before["learningMode"] and any(
        after[name] != before[name] for name in rewards
    ):
        raise DoorRefusal(
            400,
            "InvalidLearningModeServiceConfiguration",
            "learningMode must not change together with rewardWaitTime or "
            "defaultReward: change one, then the other",
        )


def _value(after: dict[str, Any]) -> Any:
    """What the log keeps: settings by our own names, and what was said beside them."""
    wait, days = after["rewardWaitTime"], after["logRetentionDays"]
    return {
        "window_s": None if wait == _FOR_EVER else wait,
        "default_reward": after["defaultReward"],
        "shadow": after["learningMode"] != "Online",
        "erase_after_days": None if days == -1 else days,
        "said": {name: value for name, value in after.items() if name not in _APART},
    }


def _spelt(told: dict[str, Any], version: str) -> dict[str, Any]:
    """The configuration as a version has it."""
    first = version == "v1.0"
    spell = time_span if first else iso
    needed = [
        field.encode_name
        for field in msgspec.structs.fields(ServiceConfiguration)
        if field.required
    ]
    return {
        name: spell(value) if name in _DURATIONS else value
        for name, value in told.items()
        if not first or name in needed or name in _FIRST
    }
