"""The messages of the routes about counts, positions and health."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from oddsmith.server.messages.calls import Query

__all__ = ["ArmCount", "Health", "Stats", "StatsQuery", "Vitals"]


class StatsQuery(Query):
    """A query for counts: `skip` arms are left out and `limit` are listed, by
    decreasing number of draws."""

    skip: Annotated[int, Meta(ge=0, le=10_000)] = 0
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100


class Vitals(msgspec.Struct):
    """The state of an experiment's store and learner.

    `lag_events` is the number of committed events that the state has not learned yet;
    the oldest of them is `lag_s` seconds old. `unsaved` is the number of rewards
    learned since the newest snapshot, which is `snapshot_age_s` seconds old.
    `oldest_transaction_s` is the age of the oldest transaction of a PostgreSQL server.
    """

    write_trouble: str
    write_failures: int
    last_write_age_s: float | None
    lag_events: int
    lag_s: float
    unsaved: int
    snapshot_age_s: float | None
    oldest_transaction_s: float | None
    warning: str


class ArmCount(msgspec.Struct):
    """The number of decisions that drew an arm, how many of them count, and their mean
    reward in the caller's units."""

    decided: int
    rewarded: int
    mean_reward: float | None


class Stats(msgspec.Struct):
    """Counts and positions, for people and dashboards.

    `arms` are counted from the events up to `position`, the most drawn arms first: the
    same on every replica and after every restart. `n_arms` is their number; `others`
    are arms passed in calls that were drawn too rarely to be counted by name. `epoch`
    names the store. It has this name for the events after position `epoch_after`, which
    is not 0 in a store that was restored from a backup.
    """

    experiment: str
    head: int
    position: int
    events: dict[str, int]
    arms: dict[str, ArmCount]
    n_arms: int
    others: ArmCount
    experts: dict[str, dict[str, Any]]
    refused: int
    snapshot: int | None
    refolds: int
    epoch: str
    epoch_after: int
    vitals: Vitals


class Health(msgspec.Struct, omit_defaults=True):
    """Health of the service: the reason for each experiment that cannot decide, and
    whether the process is stopping.

    `warnings` are about experiments that can decide but learn late.
    """

    ok: bool
    experiments: dict[str, str]
    stopping: bool = False
    warnings: dict[str, str] = msgspec.field(default_factory=dict)
