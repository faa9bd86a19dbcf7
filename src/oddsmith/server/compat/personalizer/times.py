"""Convert times to and from the format of Personalizer's clients: ISO 8601, in UTC."""

from datetime import UTC, datetime

from oddsmith.core.errors import InvalidInput

__all__ = ["seconds_of", "time_text"]

_FIRST = -62_135_596_800.0  # the start of the year 1
_LAST = 253_402_300_799.0  # the end of the year 9999


def time_text(seconds: float) -> str:
    """Format a time in seconds since 1970, clipped to the years 1 to 9999.

    >>> time_text(1.5)
    '1970-01-01T00:00:01.500Z'
    """
    moment = datetime.fromtimestamp(min(max(seconds, _FIRST), _LAST), UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def seconds_of(what: str, text: str) -> float:
    """Return the seconds since 1970 of a time as text; without a time zone it is UTC.

    The extreme times that clients send for "always" are clipped to the years that
    `time_text` can write.

    >>> seconds_of("startTime", "1970-01-01T00:01:00.5000000Z")
    60.5
    >>> seconds_of("startTime", "1970-01-01T01:00:00+01:00")
    0.0
    >>> time_text(seconds_of("endTime", "9999-12-31T23:59:59.9999999Z"))
    '9999-12-31T23:59:59.000Z'
    """
    try:
        time = datetime.fromisoformat(text.strip())
        if time.tzinfo is None:
            time = time.replace(tzinfo=UTC)
        seconds = time.timestamp()
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"{what} must be a time like 2026-11-16T21:00:00Z; got {text!r:.60}"
        ) from error
    return min(max(seconds, _FIRST), _LAST)
