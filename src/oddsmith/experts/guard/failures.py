"""Failures of experts: the reason of a failed call, and counts per expert."""

import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from oddsmith.core.errors import InvalidInput

__all__ = ["CallFailure", "Record"]


class CallFailure(NamedTuple):
    """Kind and reason of a failed call, in one line. `refusal` means that the expert
    rejected the context."""

    kind: str
    reason: str
    refusal: InvalidInput | None = None


class Record:
    """Counts of each expert's failures by kind, and the last reason; thread-safe.

    >>> record = Record()
    >>> record.add(["net"], CallFailure("late", "was not done after 50 ms"))
    >>> Record.failures([record]), Record.reasons([record])
    ({'net': {'late': 1}}, {'net': 'was not done after 50 ms'})
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.is_warned = False
        self._counts: dict[str, Counter[str]] = {}
        self._last: dict[str, tuple[float, str]] = {}

    def add(self, names: Iterable[str], failure: CallFailure) -> None:
        """Count one failure for each of these experts."""
        now = time.monotonic()
        with self._lock:
            for name in names:
                self._counts.setdefault(name, Counter())[failure.kind] += 1
                self._last[name] = (now, failure.reason)

    @staticmethod
    def failures(records: "Iterable[Record]") -> dict[str, dict[str, int]]:
        """Return the sum of the counts of several records."""
        total: dict[str, Counter[str]] = {}
        for record in records:
            with record._lock:
                for name, counts in record._counts.items():
                    total.setdefault(name, Counter()).update(counts)
        return {name: dict(counts) for name, counts in total.items()}

    @staticmethod
    def reasons(records: "Iterable[Record]") -> dict[str, str]:
        """Return the last reason for each expert in any of the records."""
        last: dict[str, tuple[float, str]] = {}
        for record in records:
            with record._lock:
                for name, entry in record._last.items():
                    last[name] = max(entry, last.get(name, entry))
        return {name: reason for name, (_, reason) in last.items()}
