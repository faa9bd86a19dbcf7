"""Durations in the two spellings of Personalizer's API: 00:10:00 in v1.0, and PT10M in its previews."""

import re

from oddsmith.errors import InvalidInput

__all__ = ["iso", "seconds_of", "time_span"]

_SPAN = re.compile(r"(-)?(?:(\d+)\.)?(\d{1,2}):(\d{1,2})(?::(\d{1,2}(?:\.\d+)?))?")
_ISO = re.compile(r"(-)?P(?=[\dT])(?:(\d+)D)?(?:T(?=\d)(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?")
_UNITS = (86_400.0, 3600.0, 60.0, 1.0)


def seconds_of(name: str, text: str) -> float:
    """The seconds of a duration in either spelling, to the 100 nanoseconds that both can be written with.

    >>> [seconds_of("x", text) for text in ("00:10:00", "1.06:00:00", "PT10M", "P1DT6H", "PT0.5S")]
    [600.0, 108000.0, 600.0, 108000.0, 0.5]
    """
    match = (_SPAN.fullmatch(text) or _ISO.fullmatch(text)) if len(text) <= 40 else None
    if match is None:
        raise InvalidInput(f"{name} must be a duration such as PT10M or 00:10:00; got {text!r:.60}")
    sign, *parts = match.groups()
    total = round(sum(float(part) * unit for part, unit in zip(parts, _UNITS, strict=True) if part is not None), 7)
    return -total if sign else total


def time_span(seconds: float) -> str:
    """A duration as [days.]hours:minutes:seconds.

    >>> time_span(600.0), time_span(108_000.5)
    ('00:10:00', '1.06:00:00.5000000')
    """
    days, hours, minutes, rest = _parts(seconds)
    fraction = f"{rest % 1:.7f}"[1:] if rest % 1 else ""
    return f"{f'{days}.' if days else ''}{hours:02d}:{minutes:02d}:{int(rest):02d}{fraction}"


def iso(seconds: float) -> str:
    """A duration as ISO 8601 has it.

    >>> iso(600.0), iso(108_000.0), iso(0.5), iso(1e-7)
    ('PT10M', 'P1DT6H', 'PT0.5S', 'PT0.0000001S')
    """
    days, hours, minutes, rest = _parts(seconds)
    written = f"{rest:.7f}".rstrip("0").removesuffix(".")
    texts = ((hours, f"{hours}H"), (minutes, f"{minutes}M"), (rest, f"{written}S"))
    clock = "".join(text for number, text in texts if number)
    return f"P{f'{days}D' if days else ''}{f'T{clock}' if clock else ''}" if days or clock else "PT0S"


def _parts(seconds: float) -> tuple[int, int, int, float]:
    """Days, hours, minutes and seconds."""
    minutes, rest = divmod(round(seconds, 7), 60)
    hours, minutes = divmod(int(minutes), 60)
    days, hours = divmod(hours, 24)
    return days, hours, minutes, rest
