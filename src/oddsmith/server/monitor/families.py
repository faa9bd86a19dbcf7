"""Families: metrics that are read at a scrape, and their lines of text."""

from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias

from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import OTHERS, Experiment
from oddsmith.server.experiment.writer import BUCKETS
from oddsmith.server.messages.stats import Vitals

__all__ = [
    "ARMS",
    "BY_EXPERIMENT",
    "Family",
    "Seen",
    "decided",
    "expert_failures",
    "labels",
    "sync_seconds",
]

ARMS = 100
"""Arms of an experiment that have series of their own; the others are counted
together."""

_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})
_Kind: TypeAlias = Literal["counter", "gauge", "histogram"]


def labels(*pairs: tuple[str, object]) -> str:
    r"""Labels as they stand in a line.

    >>> labels(("arm", 'a "b"'), ("status", 429))
    '{arm="a \\"b\\"",status="429"}'
    """
    return (
        "{"
        + ",".join(
            f'{name}="{str(value).translate(_ESCAPES)}"' for name, value in pairs
        )
        + "}"
    )


class Family(NamedTuple):
    """A metric with its samples: what stands after its name (labels, or nothing), and
    the number."""

    name: str
    kind: _Kind
    summary: str
    samples: Iterable[tuple[str, float]]

    def text(self) -> bytes:
        """Its lines.

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
        head = f"# HELP {self.name} {self.summary}\n# TYPE {self.name} {self.kind}\n"
        return (
            head
            + "".join(
                [
                    f"{self.name}{after} {float(value)}\n"
                    for after, value in self.samples
                ]
            )
        ).encode()


class Seen(NamedTuple):
    """An experiment at a scrape."""

    label: str
    experiment: Experiment
    vitals: Vitals

    @classmethod
    def of(cls, experiment: Experiment, vitals: Vitals) -> "Seen":
        """An experiment and its vitals."""
        return cls(labels(("experiment", experiment.name)), experiment, vitals)


BY_EXPERIMENT: Sequence[tuple[str, _Kind, str, Callable[[Seen], float | None]]] = (
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
        "Since the last good write.",
        lambda s: s.vitals.last_write_age_s,
    ),
    (
        "oddsmith_waiting",
        "gauge",
        "Events not yet handed to the store.",
        lambda s: s.experiment.writer.waiting,
    ),
    (
        "oddsmith_position",
        "gauge",
        "Position that the state is the fold up to.",
        lambda s: s.experiment.follower.now.position,
    ),
    (
        "oddsmith_lag_events",
        "gauge",
        "Events on disk that are not learnt.",
        lambda s: s.vitals.lag_events,
    ),
    (
        "oddsmith_lag_seconds",
        "gauge",
        "How long the oldest of them waits.",
        lambda s: s.vitals.lag_s,
    ),
    (
        "oddsmith_snapshot_age_seconds",
        "gauge",
        "Age of the newest snapshot.",
        lambda s: s.vitals.snapshot_age_s,
    ),
    (
        "oddsmith_snapshot_rewards_behind",
        "gauge",
        "Rewards learnt since then.",
        lambda s: s.vitals.unsaved,
    ),
    (
        "oddsmith_refolds_total",
        "counter",
        "Folds of rewritten history.",
        lambda s: s.experiment.follower.refolds,
    ),
    (
        "oddsmith_refold_seconds_total",
        "counter",
        "Time they took.",
        lambda s: s.experiment.follower.refold_s,
    ),
    (
        "oddsmith_refused_rewards",
        "gauge",
        "Rewards that the policy would not take, since the start or the last refold.",
        lambda s: s.experiment.follower.refused,
    ),
)
"""Metrics with one number for each experiment: name, kind, summary, and the number
(None: there is none yet)."""


def decided(seen: Sequence[Seen]) -> Family:
    """Decisions by arm; of more than `ARMS` arms the last ones are one series, so that
    no count ever goes down.

    Arms that come with calls are one series: there is no end of them.
    """
    samples = []
    for one in seen:
        times = one.experiment.decided
        shown = dict(times)
        if len(shown) > ARMS:
            shown = {arm: times[arm] for arm in list(times)[: ARMS - 1]}
            shown[OTHERS] = (
                shown.get(OTHERS, 0) + sum(times.values()) - sum(shown.values())
            )
        samples += [
            (labels(("experiment", one.experiment.name), ("arm", arm)), count)
            for arm, count in shown.items()
        ]
    return Family("oddsmith_decided_total", "counter", "Decisions made here.", samples)


def expert_failures(seen: Sequence[Seen]) -> Family:
    """Failures by expert and kind."""
    samples = []
    for one in seen:
        experts = one.experiment.follower.now.experts
        for expert, kinds in (
            experts.failures() if isinstance(experts, Guarded) else {}
        ).items():
            for kind, times in kinds.items():
                samples.append(
                    (
                        labels(
                            ("experiment", one.experiment.name),
                            ("expert", expert),
                            ("kind", kind),
                        ),
                        times,
                    )
                )
    return Family(
        "oddsmith_expert_failures_total",
        "counter",
        "Times an expert went to sleep.",
        samples,
    )


def sync_seconds(seen: Sequence[Seen]) -> Family:
    """From hand-over to commit, by kind of store: a histogram for each experiment would
    be too many series."""
    samples: list[tuple[str, float]] = []
    for store, shared in (("sqlite", False), ("postgresql", True)):
        written = [
            one.experiment.writer.writes
            for one in seen
            if one.experiment.settings.shared == shared
        ]
        written = [writes for writes in written if writes.commits]
        if not written:
            continue
        counts = list(
            accumulate(
                map(sum, zip(*(writes.buckets for writes in written), strict=True))
            )
        )
        for bound, count in zip([*BUCKETS, "+Inf"], counts, strict=True):
            samples.append(("_bucket" + labels(("store", store), ("le", bound)), count))
        samples.append(("_count" + labels(("store", store)), counts[-1]))
        samples.append(
            (
                "_sum" + labels(("store", store)),
                sum(writes.seconds for writes in written),
            )
        )
    return Family(
        "oddsmith_sync_seconds", "histogram", "From hand-over to commit.", samples
    )
