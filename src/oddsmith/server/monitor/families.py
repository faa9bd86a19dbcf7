"""Families: format the metrics of experiments in the text format of Prometheus."""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple, TypeAlias

from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import OTHERS, Experiment
from oddsmith.server.experiment.writer import BUCKETS
from oddsmith.server.messages.stats import Vitals

__all__ = [
    "ARMS",
    "BY_EXPERIMENT",
    "Family",
    "Scrape",
    "decisions_by_arm",
    "expert_failures",
    "labels",
    "sync_seconds",
]

ARMS = 100
"""Maximum number of arms with their own series; other arms are counted together."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


def labels(*pairs: tuple[str, object]) -> str:
    r"""Format labels in the text format of Prometheus.

    >>> labels(("arm", 'a "b"'), ("status", 429))
    '{arm="a \\"b\\"",status="429"}'
    """
    texts = [f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in pairs]
    return f"{{{','.join(texts)}}}"


class Family(NamedTuple):
    """A metric with its samples. Each sample consists of the text of its labels and a
    number."""

    name: str
    kind: _Kind
    summary: str
    samples: Iterable[tuple[str, float]]

    def text(self) -> bytes:
        """Format the metric.

        >>> print(
        ...     Family("oddsmith_stopping", "gauge", "1 from SIGTERM on.", [("", 0)])
        ...     .text()
        ...     .decode(),
        ...     end="",
        ... )
        # HELP oddsmith_stopping 1 from SIGTERM on.
        # TYPE oddsmith_stopping gauge
        oddsmith_stopping 0.0
        """
        text = f"# HELP {self.name} {self.summary}\n# TYPE {self.name} {self.kind}\n"
        for after, value in self.samples:
            text += f"{self.name}{after} {float(value)}\n"
        return text.encode()


class Scrape(NamedTuple):
    """The data of one experiment for one scrape."""

    label: str
    experiment: Experiment
    vitals: Vitals

    @classmethod
    def of(cls, experiment: Experiment, vitals: Vitals) -> "Scrape":
        """Return an experiment with its vitals."""
        return cls(labels(("experiment", experiment.name)), experiment, vitals)


BY_EXPERIMENT: Sequence[tuple[str, _Kind, str, Callable[[Scrape], float | None]]] = (
    (
        "oddsmith_store_ok",
        "gauge",
        "1 while its store can be written.",
        lambda s: int(not s.vitals.write_trouble),
    ),
    (
        "oddsmith_learner_ok",
        "gauge",
        "1 while its state is restored and follows the log.",
        lambda s: int(not s.experiment.follower.trouble),
    ),
    (
        "oddsmith_write_failures_total",
        "counter",
        "Writes that failed.",
        lambda s: s.vitals.write_failures,
    ),
    (
        "oddsmith_commits_total",
        "counter",
        "Writes on disk.",
        lambda s: s.experiment.writer.writes.commits,
    ),
    (
        "oddsmith_written_events_total",
        "counter",
        "Events on disk.",
        lambda s: s.experiment.writer.writes.events,
    ),
    (
        "oddsmith_last_write_age_seconds",
        "gauge",
        "Seconds since the last successful write.",
        lambda s: s.vitals.last_write_age_s,
    ),
    (
        "oddsmith_waiting",
        "gauge",
        "Events that were not yet passed to the store.",
        lambda s: s.experiment.writer.waiting,
    ),
    (
        "oddsmith_position",
        "gauge",
        "Position of the last event that the state has learned.",
        lambda s: s.experiment.follower.now.position,
    ),
    (
        "oddsmith_lag_events",
        "gauge",
        "Events on disk that the state has not learned yet.",
        lambda s: s.vitals.lag_events,
    ),
    (
        "oddsmith_lag_seconds",
        "gauge",
        "Seconds that the oldest event has waited to be learned.",
        lambda s: s.vitals.lag_s,
    ),
    (
        "oddsmith_snapshot_age_seconds",
        "gauge",
        "Age of the newest snapshot in seconds.",
        lambda s: s.vitals.snapshot_age_s,
    ),
    (
        "oddsmith_snapshot_rewards_behind",
        "gauge",
        "Rewards learned since the newest snapshot.",
        lambda s: s.vitals.unsaved,
    ),
    (
        "oddsmith_refolds_total",
        "counter",
        "Number of times that the state was computed again after a change of earlier "
        "events.",
        lambda s: s.experiment.follower.refolds,
    ),
    (
        "oddsmith_refold_seconds_total",
        "counter",
        "Time they took.",
        lambda s: s.experiment.follower.refold_s,
    ),
    (
        "oddsmith_paused",
        "gauge",
        "1 while everybody gets the control.",
        lambda s: int(s.experiment.operator.serves_control),
    ),
    (
        "oddsmith_paused_arms",
        "gauge",
        "Arms that are paused.",
        lambda s: len(s.experiment.operator.controls.paused_arms),
    ),
    (
        "oddsmith_learning_frozen",
        "gauge",
        "1 while rewards are not learnt, as an operator asks.",
        lambda s: int(s.experiment.operator.controls.is_frozen),
    ),
    (
        "oddsmith_refused_rewards",
        "gauge",
        "Rewards that the policy rejected, since the start or since the state was "
        "last computed again.",
        lambda s: s.experiment.follower.refused,
    ),
)
"""Metrics with one number per experiment: name, kind, summary, and a function that
returns the number, or None if there is none yet."""


def decisions_by_arm(scrapes: Sequence[Scrape]) -> Family:
    """Return the number of decisions by arm.

    If there are more than `ARMS` arms, the last arms share one series. So no count ever
    decreases. Arms that are passed in calls share one series, because their number is
    unbounded.
    """
    samples: list[tuple[str, float]] = []
    for one in scrapes:
        times = one.experiment.decided
        counts = dict(times)
        if len(counts) > ARMS:
            counts = {arm: times[arm] for arm in list(times)[: ARMS - 1]}
            rest = sum(times.values()) - sum(counts.values())
            counts[OTHERS] = counts.get(OTHERS, 0) + rest
        for arm, count in counts.items():
            after = labels(("experiment", one.experiment.name), ("arm", arm))
            samples.append((after, count))
    return Family("oddsmith_decided_total", "counter", "Decisions made here.", samples)


def expert_failures(scrapes: Sequence[Scrape]) -> Family:
    """Return the number of failures by expert and kind."""
    samples: list[tuple[str, float]] = []
    for one in scrapes:
        name = one.experiment.name
        experts = one.experiment.follower.now.experts
        if not isinstance(experts, Guarded):
            continue
        for expert, kinds in experts.failures().items():
            for kind, times in kinds.items():
                after = labels(("experiment", name), ("expert", expert), ("kind", kind))
                samples.append((after, times))
    return Family(
        "oddsmith_expert_failures_total",
        "counter",
        "Number of times that an expert made no prediction.",
        samples,
    )


def sync_seconds(scrapes: Sequence[Scrape]) -> Family:
    """Return the time from handing events to the store until their commit, by kind of
    store.

    A histogram for each experiment would be too many series.
    """
    samples: list[tuple[str, float]] = []
    experiments = [one.experiment for one in scrapes]
    for store, shared in (("sqlite", False), ("postgresql", True)):
        alike = [one for one in experiments if one.settings.shared == shared]
        writes = [one.writer.writes for one in alike if one.writer.writes.commits]
        if not writes:
            continue
        after = labels(("store", store))
        total = 0
        for place, bound in enumerate([*BUCKETS, "+Inf"]):
            total += sum(one.buckets[place] for one in writes)
            bucket = labels(("store", store), ("le", bound))
            samples.append((f"_bucket{bucket}", total))
        samples.append((f"_count{after}", total))
        samples.append((f"_sum{after}", sum(one.seconds for one in writes)))
    return Family(
        "oddsmith_sync_seconds",
        "histogram",
        "Seconds from passing events to the store until they are committed.",
        samples,
    )
