"""Open the experiment that a policy file describes: its policy, store, seed, and the
experts that can join."""

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
from oddsmith.server.operations.design import design_facts, design_of
from oddsmith.server.statistics import Sums
from oddsmith.server.store.changes import kernels_of
from oddsmith.server.store.events import DESIGN, KERNELS, METRICS, ConfigurationChange
from oddsmith.server.store.meta import AnotherPolicy
from oddsmith.server.store.protocol import Store
from oddsmith.server.store.sqlite.open_stores import OpenStores
from oddsmith.server.store.sqlite.rest import RestingStore
from oddsmith.server.store.sqlite.store import SQLiteStore

__all__ = ["ExperimentSetup", "open_experiments"]

_log = logging.getLogger(__name__)

_AT_ONCE = 8  # maximum number of stores that are opened at the same time
_PATIENCE = 60_000.0  # timeout of experts in milliseconds during an import


@dataclass(eq=False)
class ExperimentSetup:
    """The parts of an experiment that was opened. `bench` contains experts that can
    join, by name.

    `file` is read with the first arms of the log; `arms` are the current arms, None if
    calls pass their arms.
    """

    file: PolicyFile
    arms: Arms | None
    settings: Settings
    policy: Policy
    store: Store
    seed: int
    bench: dict[str, Experts]
    trusts_clock: bool = False
    """Whether the operator confirms that the clock is right."""
    _stamp: int = field(init=False, default=0)
    writes: ClassVar[bool] = True
    """Whether the experiment is served; otherwise it is only read."""

    @property
    def poll(self) -> float | None:
        """Seconds between two checks for events of other replicas; None without
        replicas."""
        return 0.05 if self.settings.shared else None

    @property
    def scale(self) -> RewardScale:
        """The scale from the user's units to [0, 1]."""
        return self.file.reward_scale

    @property
    def change(self) -> Change:
        """Function that applies changes of experts and arms to policy and state."""
        return roster_change(self.bench)

    def start_before(self, latest: int) -> FoldState:
        """Return the newest state of the store at or before a position."""
        return start_before(
            self.store, self.policy, latest, self.change, statistics=Sums
        )

    def load_expert(self, name: str) -> None:
        """Load an expert that another replica added.

        The policy file is read again only if it has changed.
        """
        if name in self.bench:
            return
        stamp = self.file.path.stat().st_mtime_ns
        if stamp != self._stamp:
            self._stamp = stamp
            self.reread()

    def reread(self) -> None:
        """Load experts that were added to the bench; the policy must not have
        changed."""
        file = read_policy(self.file.path, arms=self.file.arms)
        if fingerprint(file.policy) != fingerprint(self.file.policy):
            raise BadFile(
                f"{file.path} must still describe the policy that is being served, "
                "and its bench of experts; it has changed"
            )
        # update in place, because `change` holds a reference to this dict
        for name, bank in file.bench.items():
            self.bench.setdefault(name, bank)


def open_experiments(
    paths: Sequence[Path | str],
    *,
    stores: OpenStores | None = None,
    history: bool = False,
) -> list[ExperimentSetup]:
    """Open the experiments of these policy files; if one fails, none is opened.

    Their names and stores must differ. `stores` limits how many files are open, and for
    how long. With `history`, the decisions of an incumbent are imported: no request
    waits for the experts, and a new store permits such decisions.
    """
    files = [read_policy(path) for path in paths]
    settings = [read_settings(file) for file in files]
    if history:
        settings = [replace(one, shadow=True, timeout_ms=_PATIENCE) for one in settings]
    _check_apart("names", [file.name for file in files])
    _check_apart("stores", [one.store for one in settings if not one.shared])
    # numba takes seconds to import, longer than the timeout of the first decision
    kernels.compiled()
    places = OpenStores() if stores is None else stores
    # threads, because opening waits for disks
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        futures = [
            pool.submit(_open, file, one, places)
            for file, one in zip(files, settings, strict=True)
        ]
        _, unfinished = wait(futures, return_when=FIRST_EXCEPTION)
        pool.shutdown(cancel_futures=bool(unfinished))
    done = [future for future in futures if not future.cancelled()]
    errors = [future.exception() for future in done]
    first = next((error for error in errors if error is not None), None)
    if first is None:
        return [future.result() for future in futures]
    for future, error in zip(done, errors, strict=True):
        if error is None:
            future.result().store.close()
    raise first


def _open(file: PolicyFile, settings: Settings, stores: OpenStores) -> ExperimentSetup:
    """Open the experiment of a file.

    If arms were added to the file, the log still contains the policy with its first
    arms.
    """
    arms = file.arms
    try:
        return _open_as(file, arms, settings, stores)
    except AnotherPolicy as error:
        began: Any = error.about.get("arms")
        check_arms(file.path, began, arms)
        if arms is None or len(began) == len(arms):
            raise
    try:
        first = read_policy(file.path, arms=began)
    except OddsmithError as error:
        raise refusal(file.path, arms[len(began) :], error) from error
    return _open_as(first, arms, settings, stores)


def _open_as(
    file: PolicyFile, served: Arms | None, settings: Settings, stores: OpenStores
) -> ExperimentSetup:
    """Open an experiment with the first policy of its log and the current arms."""
    arms = file.arms
    if arms is None:
        check_takes_offers(file.policy)
    policy = guarded(file.policy, settings.timeout_ms, arms=arms)
    try:
        fingerprint(policy)
    except NotPortable as error:
        raise NotPortable(f"{file.path}: {error}") from error
    about = _facts(file, settings, policy)
    store = _open_store(settings, policy, about, stores)
    try:
        _check_about(store, about, file)
        _note_kernels(store)
        _note_metrics(store, _metric_facts(file))
        _note_design(store, design_facts(file))
        if settings.start is not None and not store.snapshots():
            _start(store, settings.start, file, policy)
        seed = int(store.about.get("seed", about["seed"]))
        setup = ExperimentSetup(
            file, served, settings, policy, store, seed, dict(file.bench)
        )
        if served is not None:
            add_arms(store, file.path, served, policy, setup.change)
    except BaseException:
        store.close()
        raise
    return setup


def _facts(file: PolicyFile, settings: Settings, policy: Policy) -> dict[str, Any]:
    """Return the facts that a new store records about its experiment."""
    seed = file.seed
    if seed is None:
        seed = secrets.randbits(62)
    return {
        "experiment": file.name,
        "seed": seed,
        "arms": None if file.arms is None else list(file.arms),
        "judge": judge_to_json(policy),
        "reward": [file.reward_scale.low, file.reward_scale.high],
        "window_s": settings.window,
        "default_reward": None if settings.window is None else settings.default,
        "kernels": kernels.name(),
        "shadow": settings.shadow,
        "metrics": _metric_facts(file),
        "reward_weights": dict(file.design.reward_weights),
        "design": design_facts(file),
    }


def _check_apart(what: str, given: list[str]) -> None:
    for one in given:
        if given.count(one) > 1:
            raise InvalidInput(
                f"experiments must have {what} of their own; got {one!r} twice"
            )


def _open_store(
    settings: Settings, policy: Policy, about: dict[str, Any], stores: OpenStores
) -> Store:
    rules: Any = {"rule": settings.rule, "late": settings.late}
    if settings.shared:
        from oddsmith.server.store.postgres.store import PostgresStore

        return PostgresStore(
            settings.store,
            policy,
            experiment=about["experiment"],
            about=about,
            **rules,
        )
    make = partial(SQLiteStore, settings.store, policy, about=about, **rules)
    return RestingStore(settings.store, make, stores)


def _check_about(store: Store, about: dict[str, Any], file: PolicyFile) -> None:
    """Raise if seed, arms or units differ from the values that the log was created
    with."""
    # compare the arms here, because the policy's fingerprint does not include their
    # names
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

    Compiled kernels and numpy round differently, but a state must be the same to the
    last bit wherever it is folded. From this event on, the state is computed from the
    whole log with these kernels.
    """
    before = kernels_of(store)
    now = kernels.name()
    if before in (None, now):
        return
    key = f"{now} after {store.head()}"
    event = ConfigurationChange(KERNELS, now, time.time(), key)
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
    """Write a change of the declared metrics into the log. Statistics are then computed
    again."""
    if declared == store.metrics:
        return
    now = time.time()
    event = ConfigurationChange(METRICS, declared, now, f"after {store.head()}")
    (receipt,) = store.append([event]).result()
    receipt.accepted()
    store.metrics = declared


def _note_design(store: Store, facts: dict[str, Any]) -> None:
    """Write a change of control, holdout or rules into the log, for operators without
    the policy file and for people who ask why an arm was not eligible."""
    if facts == design_of(store):
        return
    event = ConfigurationChange(DESIGN, facts, time.time(), f"after {store.head()}")
    (receipt,) = store.append([event]).result()
    receipt.accepted()


def _start(store: Store, path: Path, file: PolicyFile, policy: Policy) -> None:
    """Save the state `start` of the policy file as the snapshot before any event."""
    if store.head():
        raise InvalidInput(
            "service.start must be set before the first event; the store has "
            f"{sum(store.tally().values()):,} events"
        )
    state, meta = read_state(path, file.policy)
    check_units(meta, file.reward_scale, str(path), str(file.path))
    save_snapshot(store, FoldState(state, 0, policy), 0.0)
