"""doctor: what is wrong with stores, in plain words, and what to do about it."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from oddsmith.audit.ailments import AILMENTS, Severity
from oddsmith.audit.charts import chart_of
from oddsmith.errors import OddsmithError
from oddsmith.storage.opening import open_reader

__all__ = ["Finding", "doctor"]


class Finding(NamedTuple):
    """What one check found in the store at a place: a sentence, and unless all is well one of advice."""

    place: str
    check: str
    level: Severity
    what: str
    advice: str

    def __str__(self) -> str:
        return f"{self.level:8}{self.check:12}{self.what}.{' ' + self.advice if self.advice else ''}"


def doctor(places: Sequence[str], *, now: float | None = None) -> list[Finding]:
    """The findings of all checks in each store; `now` is the time to compare with (the clock's)."""
    moment = time.time() if now is None else now
    return [finding for place in places for finding in _examined(place, moment)]


def _examined(place: str, now: float) -> list[Finding]:
    try:
        reading = open_reader(place)
        try:
            chart = chart_of(reading, place, now)
            return [Finding(place, name, *check(chart)) for name, check in AILMENTS.items()]
        finally:
            reading.close()
    except OddsmithError as error:
        advice = "Give the path of a store; of a damaged one, go back to the last good copy."
        return [Finding(place, "file", "problem", f"it cannot be read: {error}", advice)]
