"""Metrics in the format of Prometheus; latencies come from a monotonic clock.

What routes answer is counted by prometheus_client as it happens. All else is looked at
in a scrape, which reads no store, and written by `families`, one after the other: there
may be thousands of experiments.
"""

import os
import platform
import threading
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Histogram,
    ProcessCollector,
    generate_latest,
)

import oddsmith
from oddsmith.core import kernels
from oddsmith.server.monitor.families import (
    BY_EXPERIMENT,
    Family,
    Seen,
    decided,
    expert_failures,
    labels,
    sync_seconds,
)
from oddsmith.server.monitor.vitals import vitals_of

__all__ = ["Metrics"]

if TYPE_CHECKING:
    from oddsmith.server.http.service import Service


_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_SOON = 14 * 86_400.0  # seconds before its end in which a key is shown
_PIECE = 50  # experiments that are looked at in one turn
_KEYS = 100  # that have series of their own


class Metrics:
    """Counts of one process; `parts` are what a scrape gets."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        registry = self._registry = CollectorRegistry()
        names = ("route", "status")
        self._answers = Counter(
            "oddsmith_answers", "Answers by route and status.", names, registry=registry
        )
        self._seconds = Histogram(
            "oddsmith_seconds",
            "Time to answer.",
            names[:1],
            buckets=_BUCKETS,
            registry=registry,
        )
        ProcessCollector(registry=registry)
        self.series = cache(self._series)

    def _series(self, route: str, status: int) -> tuple[Counter, Histogram]:
        """The counter of answers and the histogram of seconds of a route and status."""
        return self._answers.labels(route, str(status)), self._seconds.labels(route)

    def text(self) -> bytes:
        """All metrics as of now."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """The metrics one after the other, so that others may have their turn in
        between."""
        yield generate_latest(self._registry)
        for family in self._of_process():
            yield family.text()
        hold_ups, seen = self._service.hold_ups, list[Seen]()
        for one in self._service.experiments.values():
            seen.append(Seen.of(one, vitals_of(one, hold_ups.of(one))))
            if not len(seen) % _PIECE:
                yield b""
        for name, kind, summary, value in BY_EXPERIMENT:
            samples = (
                (one.label, number)
                for one in seen
                if (number := value(one)) is not None
            )
            yield Family(name, kind, summary, samples).text()
        yield decided(seen).text()
        yield expert_failures(seen).text()
        yield sync_seconds(seen).text()

    def _of_process(self) -> Iterator[Family]:
        service, room = self._service, self._service.room
        versions = {
            "version": oddsmith.__version__,
            "python": platform.python_version(),
        }
        build = labels(*versions.items(), ("kernels", kernels.name()))
        yield Family(
            "oddsmith_build_info", "gauge", "What is running: always 1.", [(build, 1)]
        )
        yield Family(
            "oddsmith_stopping",
            "gauge",
            "1 from SIGTERM on.",
            [("", int(service.draining))],
        )
        yield Family(
            "process_threads", "gauge", "Threads of the process.", [("", _threads())]
        )
        yield Family(
            "oddsmith_connections",
            "gauge",
            "Open connections.",
            [("", room.taken)],
        )
        yield Family(
            "oddsmith_connections_limit",
            "gauge",
            "The most there may be.",
            [("", room.most)],
        )
        yield Family(
            "oddsmith_connections_replaced_total",
            "counter",
            "Connections that were closed to make room for new ones.",
            [("", room.replaced)],
        )
        refused = [
            (labels(("status", status)), times)
            for status, times in list(room.refused.items())
        ]
        yield Family(
            "oddsmith_wire_refusals_total",
            "counter",
            "Refused below the application.",
            refused,
        )
        beyond = [
            (labels(("key", key)), times)
            for key, times in list(service.rates.refused.items())
        ]
        yield Family(
            "oddsmith_rate_refusals_total",
            "counter",
            "Calls beyond the rate of a key.",
            beyond,
        )
        left = {} if service.ring is None else service.ring.seconds_left(_SOON)
        ending = [
            (labels(("key", key)), seconds)
            for key, seconds in list(left.items())[:_KEYS]
        ]
        yield Family(
            "oddsmith_key_seconds_left",
            "gauge",
            "Time until a key ends, in its last 14 days.",
            ending,
        )
        ages = [
            (labels(("database", place)), age)
            for place, age in service.hold_ups.ages().items()
        ]
        yield Family(
            "oddsmith_oldest_transaction_seconds",
            "gauge",
            "Age of a server's oldest transaction.",
            ages,
        )


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()  # those that Python knows
