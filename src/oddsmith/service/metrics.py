"""Metrics in the format of Prometheus; latencies come from a monotonic clock."""

from collections.abc import Callable, Iterable
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from oddsmith.experts.guarded import Guarded
from oddsmith.service.experiment import Experiment

__all__ = ["Metrics"]

_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 5.0)


class Metrics:
    """Counts of one process; `text` is what a scrape gets."""

    def __init__(self, experiments: Iterable[Experiment]) -> None:
        registry = self._registry = CollectorRegistry()
        labels = ("route", "status")
        self._answers = Counter("oddsmith_answers", "Answers by route and status.", labels, registry=registry)
        self._seconds = Histogram(
            "oddsmith_seconds", "Time to answer.", labels[:1], buckets=_BUCKETS, registry=registry
        )
        self._registry.register(_State(experiments))
        self.series = cache(self._series)

    def _series(self, route: str, status: int) -> tuple[Counter, Histogram]:
        """The counter of answers and the histogram of seconds of a route and status."""
        return self._answers.labels(route, str(status)), self._seconds.labels(route)

    def text(self) -> bytes:
        """All metrics as of now."""
        return generate_latest(self._registry)


class _State:
    """What experiments know of themselves, read at each scrape."""

    def __init__(self, experiments: Iterable[Experiment]) -> None:
        self._experiments = experiments

    def collect(self) -> Iterable[Metric]:
        by_experiment: dict[str, tuple[str, Callable[[Experiment], float]]] = {
            "position": ("Position that the state is the fold up to.", lambda e: e.follower.now.position),
            "waiting": ("Events not yet handed to the store.", lambda e: e.writer.waiting),
            "refolds": ("Folds from an older snapshot, because history was corrected.", lambda e: e.follower.refolds),
            "refused_rewards": ("Rewards that the policy would not take.", lambda e: e.follower.refused),
        }
        for name, (summary, value) in by_experiment.items():
            gauge = GaugeMetricFamily(f"oddsmith_{name}", summary, labels=["experiment"])
            for experiment in self._experiments:
                gauge.add_metric([experiment.name], value(experiment))
            yield gauge
        decided = CounterMetricFamily("oddsmith_decided", "Decisions made here.", labels=["experiment", "arm"])
        failed = CounterMetricFamily(
            "oddsmith_expert_failures", "Times an expert went to sleep.", labels=["experiment", "expert", "kind"]
        )
        for experiment in self._experiments:
            for arm, times in experiment.decided.items():
                decided.add_metric([experiment.name, arm], times)
            experts = experiment.follower.now.experts
            for expert, kinds in (experts.failures() if isinstance(experts, Guarded) else {}).items():
                for kind, times in kinds.items():
                    failed.add_metric([experiment.name, expert, kind], times)
        yield decided
        yield failed
