"""From a policy file to an experiment that can be served: the policy under guard, its
store, its seed, its bench."""

import logging
import secrets
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from oddsmith.agent.call import check_takes_offers
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core import kernels
from oddsmith.core.errors import BadFile, InvalidInput, NotPortable, OddsmithError
from oddsmith.core.experts import Experts
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.experts.guard.policy import guarded
from oddsmith.files.fingerprint import fingerprint
from oddsmith.files.policy import PolicyFile, read_policy
from oddsmith.files.state import check_units, read_state
from oddsmith.server.experiment.arms import add_arms, check_arms, refusal
from oddsmith.server.experiment.settings import Settings, read_settings
from oddsmith.server.fold.fold import (
    Change,
    FoldState,
    roster_change,
    save_snapshot,
    start_before,
)
from oddsmith.server.fold.judge import judge_to_json
from oddsmith.server.statistics import Sums
from oddsmith.server.store.changes import kernels_of
from oddsmith.server.store.events import KERNELS, METRICS, ConfigurationChange
from oddsmith.server.store.meta import AnotherPolicy
from oddsmith.server.store.protocol import Store
from oddsmith.server.store.sqlite.open_stores import OpenStores
from oddsmith.server.store.sqlite.rest import RestingStore
from oddsmith.server.store.sqlite.store import SQLiteStore

__all__ = ["ExperimentSetup", "open_experiments"]

_log = logging.getLogger(__name__)

_AT_ONCE = 8  # stores that are opened at a time
_PATIENCE = 60_000.0  # milliseconds for experts that are asked about a history


@dataclass(eq=False)
class ExperimentSetup:
    """What an experiment is served from. `bench` are experts that may join, by name.

    `file` is read with the arms that the log was begun with; `arms` are those it has
    now, None where calls bring them.
    """

    file: PolicyFile
    arms: Arms | None
    settings: Settings
    policy: Policy
    store: Store
    seed: int
    bench: dict[str, Experts]
    trusts_clock: bool = False
    """Whether the operator vouches for the clock."""
    _stamp: int = field(init=False, default=0)
    writes: ClassVar[bool] = True
    """Whether it is served: else it is looked at, and nothing is written."""

    @property
    def poll(self) -> float | None:
        """Seconds between two looks for events of others; None where there are no
        others."""
        return 0.05 if self.settings.shared else None

    @property
    def scale(self) -> RewardScale:
        """From the user's units of reward to [0, 1]."""
        return self.file.reward_scale

    @property
    def change(self) -> Change:
        """What experts that come or go, and arms that are added, make of policy and
        state."""
        return roster_change(self.bench)

    def start_before(self, latest: int) -> FoldState:
        """The newest state at or before a position that the store has."""
        return start_before(
            self.store, self.policy, latest, self.change, statistics=Sums
        )

    def load_expert(self, name: str) -> None:
        """Load an expert that another replica added; the policy file is read once for
        each change of it."""
        if name in self.bench:
            return
        stamp = self.file.path.stat().st_mtime_ns
        if stamp != self._stamp:
            self._stamp = stamp
            self.reread()

    def reread(self) -> None:
        """Load experts that were put on the bench since; the policy itself must be as
        it was."""
        file = read_policy(self.file.path, arms=self.file.arms)
        if fingerprint(file.policy) != fingerprint(self.file.policy):
            raise BadFile(
                f"{file.path} must describe the policy that is being served, and the "
                "bench; it has changed"
            )
        self.bench |= {
            name: bank for name, bank in file.bench.items() if name not in self.bench
        }


def open_experiments(
    paths: Sequence[Path | str],
    *,
    stores: OpenStores | None = None,
    history: bool = False,
) -> list[ExperimentSetup]:
    """All experiments of these policy files, with names and files of their own; if one
    cannot be opened, none is.

    `stores` says how many of their files are open at a time, and for how long. A
    `history` of an incumbent's decisions is to go in: no request waits for experts, and
    a new store says that it may have such decisions.
    """
    files = [read_policy(path) for path in paths]
    settings = [read_settings(file) for file in files]
    if history:
        settings = [replace(one, shadow=True, timeout_ms=_PATIENCE) for one in settings]
    _check_apart("names", [file.name for file in files])
    _check_apart("stores", [one.store for one in settings if not one.shared])
    # numba takes seconds to import: not within the timeout of the first decision
    kernels.compiled()
    places = OpenStores() if stores is None else stores
    with ThreadPoolExecutor(_AT_ONCE) as pool:  # which waits for disks
        futures = [
            pool.submit(_opened, *each, places)
            for each in zip(files, settings, strict=True)
        ]
        ended, left = wait(futures, return_when=FIRST_EXCEPTION)
        pool.shutdown(cancel_futures=bool(left))
    if failed := [
        future
        for future in futures
        if future.cancelled() or future.exception() is not None
    ]:
        for future in futures:
            if future not in failed:
                future.result().store.close()
        raise next(
            error for future in ended if (error := future.exception()) is not None
        )
    return [future.result() for future in futures]


def _opened(
    file: PolicyFile, settings: Settings, stores: OpenStores
) -> ExperimentSetup:
    """The experiment of a file; of one that has gained arms, by the policy that its log
    was begun with."""
    arms = file.arms
    try:
        return _opened_as(file, arms, settings, stores)
    except AnotherPolicy as error:
        began: Any = error.about.get("arms")
        check_arms(file.path, began, arms)
        if arms is None or len(began) == len(arms):
            raise
    try:
        first = read_policy(file.path, arms=began)
    except OddsmithError as error:
        raise refusal(file.path, arms[len(began) :], error) from error
    return _opened_as(first, arms, settings, stores)


def _opened_as(
    file: PolicyFile, served: Arms | None, settings: Settings, stores: OpenStores
) -> ExperimentSetup:
    """The experiment of a file as its log was begun, which goes on with the arms that
    are served now."""
    arms = file.arms
    if arms is None:
        check_takes_offers(file.policy)
    policy = guarded(file.policy, settings.timeout_ms, arms=arms)
    try:
        fingerprint(policy)
    except NotPortable as error:
        raise NotPortable(f"{file.path}: {error}") from error
    seed = secrets.randbits(62) if file.seed is None else file.seed
    about: dict[str, object] = {
        "experiment": file.name,
        "seed": seed,
        "arms": None if arms is None else list(arms),
        "judge": judge_to_json(policy),
        "reward": [file.reward_scale.low, file.reward_scale.high],
        "window_s": settings.window,
        "default_reward": settings.default if settings.window is not None else None,
        "kernels": kernels.name(),
        "shadow": settings.shadow,
        "metrics": _metric_facts(file),
        "reward_weights": dict(file.design.reward_weights),
    }
    store = _open_store(settings, policy, about, stores)
    try:
        _check_about(store, about, file)
        _note_kernels(store)
        _note_metrics(store, _metric_facts(file))
        if settings.start is not None and not store.snapshots():
            _start(store, settings.start, file, policy)
        opened = ExperimentSetup(
            file,
            served,
            settings,
            policy,
            store,
            int(store.about.get("seed", seed)),
            dict(file.bench),
        )
        if served is not None:
            add_arms(store, file.path, served, policy, opened.change)
    except BaseException:
        store.close()
        raise
    return opened


def _check_apart(what: str, given: list[str]) -> None:
    twice = [one for one in given if given.count(one) > 1]
    if twice:
        raise InvalidInput(
            f"experiments must have {what} of their own; got {twice[0]!r} twice"
        )


def _open_store(
    settings: Settings, policy: Policy, about: dict[str, object], stores: OpenStores
) -> Store:
    rules: Any = {"rule": settings.rule, "late": settings.late}
    if settings.shared:
        from oddsmith.server.store.postgres.store import PostgresStore

        return PostgresStore(
            settings.store,
            policy,
            experiment=str(about["experiment"]),
            about=about,
            **rules,
        )
    make = partial(SQLiteStore, settings.store, policy, about=about, **rules)
    return RestingStore(settings.store, make, stores)


def _check_about(store: Store, about: dict[str, object], file: PolicyFile) -> None:
    """Refuses a seed, arms or units other than those the log was begun with."""
    # and the policy does not tell them apart
    if store.about.get("arms", about["arms"]) != about["arms"]:
        raise AnotherPolicy(
            f"{file.path}: arms must be those of the log, {store.about['arms']!r:.80}",
            store.about,
        )
    for what in ("seed", "reward", "reward_weights"):
        began = store.about.get(what, about[what])
        if began != about[what] and not (what == "seed" and file.seed is None):
            raise BadFile(
                f"{file.path}: {what} must be as the log was begun with, "
                f"{began!r:.80}; got {about[what]!r:.80}. Undo the change, or begin a "
                "new log: another store in [service]."
            )


def _note_kernels(store: Store) -> None:
    """Write a change of the kernels into the log.

    Compiled kernels round other last bits than numpy's, and a state is the same to the
    last bit wherever it is folded: from this event on, it is the fold of the whole log
    with these kernels.
    """
    before = kernels_of(store)
    now = kernels.name()
    if before in (None, now):
        return
    event = ConfigurationChange(
        KERNELS, now, time.time(), f"{now} after {store.head()}"
    )
    (receipt,) = store.append([event]).result()
    receipt.accepted()
    experiment = store.about["experiment"]
    _log.warning(
        "experiment %s: kernels were %s and are %s; the state is folded again",
        experiment,
        before,
        now,
    )


def _metric_facts(file: PolicyFile) -> dict[str, dict[str, Any]]:
    """The metrics of a file as JSON."""
    return {name: one.to_json() for name, one in file.design.metrics.items()}


def _note_metrics(store: Store, declared: dict[str, dict[str, Any]]) -> None:
    """Write a change of the declared metrics into the log; statistics are folded
    again."""
    if declared == store.metrics:
        return
    now = time.time()
    event = ConfigurationChange(METRICS, declared, now, f"after {store.head()}")
    (receipt,) = store.append([event]).result()
    receipt.accepted()
    store.metrics = declared


def _start(store: Store, path: Path, file: PolicyFile, policy: Policy) -> None:
    """Keep a fitted state as the snapshot before any event."""
    if store.head():
        raise InvalidInput(
            "service.start must be there from the beginning; the store has "
            f"{sum(store.tally().values()):,} events"
        )
    state, meta = read_state(path, file.policy)
    check_units(meta, file.reward_scale, str(path), str(file.path))
    save_snapshot(store, FoldState(state, 0, policy), 0.0)
