"""A read-only dashboard of stores that needs no running service. It consists of the
files for browsers and all read-only routes."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.decision import Decision
from oddsmith.core.errors import BadFile, InvalidInput
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.experts.guard.policy import guarded
from oddsmith.files.fingerprint import fingerprint
from oddsmith.files.policy import PolicyFile, read_policy
from oddsmith.files.state import unpack_meta
from oddsmith.server.experiment.settings import Settings, read_settings
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.fold.fold import (
    Change,
    FoldState,
    initial_fold,
    roster_change,
    start_before,
)
from oddsmith.server.fold.judge import judge_from_json
from oddsmith.server.fold.steps import sums_at
from oddsmith.server.http.app import App
from oddsmith.server.http.docs_page import docs_page
from oddsmith.server.http.limits import Limits
from oddsmith.server.http.page_files import PageFiles, page_folder
from oddsmith.server.http.routes import ROUTES
from oddsmith.server.http.service import Service
from oddsmith.server.statistics import Sums
from oddsmith.server.store.place import open_reader
from oddsmith.server.store.protocol import Line, Reading

__all__ = ["StoreView", "dashboard_app", "open_views"]

_POLL = 1.0  # seconds between two reads of a log that a service may be writing


class _ReadOnly:
    """A store that refuses writes."""

    write_trouble = ""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)


class _Count(NamedTuple):
    learnt: int


class _Bystander(Policy):
    """Placeholder for a policy that the store does not describe. It counts rewards and
    learns nothing."""

    def init(self, shape: tuple[int, ...] = ()) -> _Count:
        return _Count(0)

    def update(self, state: _Count, decision: Decision, reward: Any) -> _Count:
        return _Count(state.learnt + 1)

    def revise(
        self, state: _Count, decision: Decision, before: float, reward: float
    ) -> _Count:
        return state


def _no_change(policy: Policy, state: Any, _: Line) -> tuple[Policy, Any]:
    return policy, state


@dataclass(eq=False)
class StoreView(ExperimentSetup):
    """A read-only view of an experiment. If it is `by_file`, it has the models of the
    policy file; otherwise it has only the content of the store."""

    by_file: bool = False
    writes: ClassVar[bool] = False

    @property
    def poll(self) -> float:
        """Seconds between two reads of the store, because a service may be writing to
        it."""
        return _POLL

    @property
    def change(self) -> Change:
        """Function that applies changes of experts and arms to policy and state."""
        if isinstance(self.policy, _Bystander):
            return _no_change
        if self.by_file:
            return super().change
        return roster_change()

    def load_expert(self, name: str) -> None:
        """Load the code of an expert that was added, if the view has models."""
        if self.by_file:
            super().load_expert(name)

    def start_before(self, latest: int) -> FoldState:
        """Return the newest state at or before a position, with its statistics.

        Without the policy file, the state of a policy with experts contains only their
        weights, and the state of `_Bystander` only a count.
        """
        if self.by_file:
            return super().start_before(latest)
        first = initial_fold(self.store, self.policy, self.policy.init(), Sums)
        positions = [
            one.position for one in self.store.snapshots() if one.position <= latest
        ]
        if not positions:
            return first
        is_bystander = isinstance(self.policy, _Bystander)
        if is_bystander:
            start = first._replace(position=positions[-1])
        else:
            start = start_before(
                self.store, self.policy, latest, self.change, is_judge=True
            )
        if start.position not in positions:
            return first
        content = self.store.content(start.position)
        meta = unpack_meta(content, f"the snapshot at position {start.position}")
        sums = sums_at(self.store, start.position, meta.get("sums"), Sums)
        if is_bystander and isinstance(sums, Sums):
            rewarded = sum(arm.rewarded for arm in sums.arms.by_name.values())
            count = _Count(rewarded + sums.arms.others.rewarded)
            start = start._replace(state=count)
        return start._replace(sums=sums, secret=self.store.secret)


def open_views(places: Sequence[str], experiment: str | None = None) -> list[StoreView]:
    """Open the experiments of these places: store files, databases or policy files.

    `experiment` selects one experiment of a database.
    """
    views: list[StoreView] = []
    try:
        for place in places:
            if place.endswith(".toml"):
                views.append(_view_by_file(Path(place)))
            else:
                views.append(_view_by_store(place, experiment))
        names = [view.file.name for view in views]
        repeated = [name for name in names if names.count(name) > 1]
        if repeated:
            raise InvalidInput(
                "stores must be of experiments with names of their own; got "
                f"{repeated[0]!r} twice"
            )
    except BaseException:
        for view in views:
            view.store.close()
        raise
    return views


def dashboard_app(views: Sequence[StoreView]) -> Limits:
    """Return the ASGI application that shows these experiments read-only, to this
    machine only."""
    routes = tuple(route for route in ROUTES if route.method == "GET")
    service = Service(views, routes)
    page = PageFiles(page_folder(), docs_page(routes))
    app = App(service, page)
    return Limits(
        app,
        service.begin,
        service.end,
        enter=app.enter,
        drain=service.drain,
        local=True,
    )


def _view_by_store(place: str, experiment: str | None) -> StoreView:
    """Return the view of a store without its policy file.

    If the store describes how the policy weighs its experts, their models are not
    needed.
    """
    reading = open_reader(place, experiment)
    about = reading.about
    policy: Policy = _Bystander()
    kind: dict[str, Any] = {}
    arms: Arms | None = None
    try:
        scale = RewardScale(*about.get("reward", (0.0, 1.0)))
        if about.get("judge") is not None:
            policy = judge_from_json(about["judge"])
            kind = {"policy": {"kind": "gts"}}
        if about.get("arms") is not None:
            arms = Arms(about["arms"])
    except (InvalidInput, TypeError, KeyError) as error:
        reading.close()
        raise BadFile(f"{place} must describe its experiment; {error}") from error
    settings = Settings(
        place,
        reading.rule,
        reading.late,
        window=about.get("window_s"),
        default=about.get("default_reward") or 0.0,
        shadow=bool(about.get("shadow")),
    )
    name = str(about.get("experiment"))
    file = PolicyFile(
        Path(place), name, arms, None, None, policy, scale, None, kind, {}
    )
    seed = int(about.get("seed", 0))
    return StoreView(file, arms, settings, policy, _read_only(reading), seed, {})


def _view_by_file(path: Path) -> StoreView:
    """Return the view of a policy file's store, with the models of the file."""
    file = read_policy(path)
    settings = read_settings(file)
    reading = open_reader(settings.store, file.name)
    try:
        first_arms: list[str] = reading.about.get("arms") or []
        arms = list(file.arms or ())
        if first_arms and arms[: len(first_arms)] == first_arms:
            # The file may contain arms that the store does not have yet.
            file = read_policy(path, arms=first_arms)
        policy = guarded(file.policy, settings.timeout_ms, arms=file.arms)
        if fingerprint(policy) != reading.fingerprint:
            raise BadFile(
                f"{path} must describe the policy that {settings.place} was made with; "
                "it is another one"
            )
    except BaseException:
        reading.close()
        raise
    return StoreView(
        file,
        file.arms,
        replace(settings, erase_after_days=None),
        policy,
        _read_only(reading),
        seed=int(reading.about.get("seed", 0)),
        bench=dict(file.bench),
        by_file=True,
    )


def _read_only(reading: Reading) -> Any:
    return _ReadOnly(reading)
