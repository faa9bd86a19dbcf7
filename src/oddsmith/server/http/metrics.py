"""Metrics in the format of Prometheus; latencies come from a monotonic clock.

prometheus_client counts answers as they are sent. All other metrics are computed during
a scrape, without reading a store, and formatted by the module `families`. They are
yielded one by one, because there may be thousands of experiments.
"""

import os
import platform
import threading
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

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
    Scrape,
    decisions_by_arm,
    expert_failures,
    labels,
    sync_seconds,
)
from oddsmith.server.monitor.vitals import vitals_of

__all__ = ["Metrics"]

if TYPE_CHECKING:
    from oddsmith.server.http.service import Service


_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)
_SOON = 14 * 86_400.0  # report keys that expire within this number of seconds
_PIECE = 50  # number of experiments processed before other requests can run
_KEYS = 100  # maximum number of keys that have their own time series


class Metrics:
    """Metrics of one process. The response to a scrape is the concatenation of
    `parts`."""

    def __init__(self, service: "Service") -> None:
        self._service = service
        registry = CollectorRegistry()
        self._registry = registry
        self._answers = Counter(
            "oddsmith_answers",
            "Answers by route and status.",
            ("route", "status"),
            registry=registry,
        )
        self._seconds = Histogram(
            "oddsmith_seconds",
            "Time to answer.",
            ("route",),
            buckets=_BUCKETS,
            registry=registry,
        )
        ProcessCollector(registry=registry)
        self.series = cache(self._series)

    def _series(self, route: str, status: int) -> tuple[Counter, Histogram]:
        """Return the counter of answers and the histogram of latencies for a route and
        status."""
        return self._answers.labels(route, str(status)), self._seconds.labels(route)

    def text(self) -> bytes:
        """Return all current metrics."""
        return b"".join(self.parts())

    def parts(self) -> Iterator[bytes]:
        """Yield the metrics one by one, so that other requests can run in between."""
        yield generate_latest(self._registry)
        for family in self._of_process():
            yield family.text()
        hold_ups = self._service.hold_ups
        scrapes: list[Scrape] = []
        for one in self._service.experiments.values():
            scrapes.append(Scrape.of(one, vitals_of(one, hold_ups.of(one))))
            if len(scrapes) % _PIECE == 0:
                yield b""
        for name, kind, summary, value in BY_EXPERIMENT:
            samples: list[tuple[str, float]] = []
            for facts in scrapes:
                number = value(facts)
                if number is not None:
                    samples.append((facts.label, number))
            yield Family(name, kind, summary, samples).text()
        yield decisions_by_arm(scrapes).text()
        yield expert_failures(scrapes).text()
        yield sync_seconds(scrapes).text()

    def _of_process(self) -> Iterator[Family]:
        """Yield metrics of the process and its connections."""
        service = self._service
        room = service.room
        build = labels(
            ("version", oddsmith.__version__),
            ("python", platform.python_version()),
            ("kernels", kernels.name()),
        )
        yield Family(
            "oddsmith_build_info", "gauge", "What is running: always 1.", [(build, 1)]
        )
        yield _gauge("oddsmith_stopping", "1 from SIGTERM on.", int(service.draining))
        yield _gauge("process_threads", "Threads of the process.", _threads())
        yield _gauge("oddsmith_connections", "Open connections.", room.n_open)
        yield _gauge("oddsmith_connections_limit", "The most there may be.", room.most)
        yield Family(
            "oddsmith_connections_replaced_total",
            "counter",
            "Connections closed to make room for new ones.",
            [("", room.replaced)],
        )
        yield _by_label(
            "oddsmith_wire_refusals_total",
            "counter",
            "Requests refused before they reached the application.",
            "status",
            room.refused,
        )
        yield _by_label(
            "oddsmith_rate_refusals_total",
            "counter",
            "Calls refused because they exceeded the rate of their key.",
            "key",
            service.rates.refused,
        )
        left = {} if service.ring is None else service.ring.seconds_left(_SOON)
        yield _by_label(
            "oddsmith_key_seconds_left",
            "gauge",
            "Seconds until a key expires, for keys that expire within 14 days.",
            "key",
            dict(list(left.items())[:_KEYS]),
        )
        yield _by_label(
            "oddsmith_oldest_transaction_seconds",
            "gauge",
            "Age of the oldest transaction on a database server.",
            "database",
            service.hold_ups.ages(),
        )


def _gauge(name: str, summary: str, value: float) -> Family:
    """Return a gauge without labels."""
    return Family(name, "gauge", summary, [("", value)])


def _by_label(
    name: str,
    kind: Literal["counter", "gauge"],
    summary: str,
    label: str,
    values: Mapping[Any, float],
) -> Family:
    """Return a metric with one sample per value of a label."""
    samples = [(labels((label, key)), value) for key, value in list(values.items())]
    return Family(name, kind, summary, samples)


def _threads() -> int:
    try:
        return len(os.listdir("/proc/self/task"))
    except OSError:
        return threading.active_count()  # threads of compiled code are not counted
