"""Stores that are looked at: the page and all that can be read, of a store that need
not be served, nothing written."""

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

__all__ = ["Shown", "open_shown", "show_app"]

_POLL = 1.0  # seconds between two looks at a log that somebody else may be writing


class _ReadOnly:
    """A store without its writing half."""

    write_trouble = ""

    def __init__(self, reading: Reading) -> None:
        self._reading = reading

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reading, name)


class _Counted(NamedTuple):
    learnt: int


class _Bystander(Policy):
    """In place of a policy that the store does not tell: it counts rewards, and knows
    nothing else."""

    def init(self, shape: tuple[int, ...] = ()) -> _Counted:
        return _Counted(0)

    def update(self, state: _Counted, decision: Decision, reward: Any) -> _Counted:
        return _Counted(state.learnt + 1)

    def revise(
        self, state: _Counted, decision: Decision, before: float, reward: float
    ) -> _Counted:
        return state


def _no_change(policy: Policy, state: Any, _: Line) -> tuple[Policy, Any]:
    return policy, state


@dataclass(eq=False)
class Shown(ExperimentSetup):
    """An experiment that is looked at. `by_file`: with the models of its policy file;
    else by what its store tells."""

    by_file: bool = False
    writes: ClassVar[bool] = False

    @property
    def poll(self) -> float:
        """Seconds between two looks: a service may be writing."""
        return _POLL

    @property
    def change(self) -> Change:
        """What experts that come or go, and arms that are added, make of policy and
        state: a judge needs no models."""
        if isinstance(self.policy, _Bystander):
            return _no_change
        return super().change if self.by_file else roster_change()

    def load_expert(self, name: str) -> None:
        """Load an expert that joins, where models are asked for."""
        if self.by_file:
            super().load_expert(name)

    def start_before(self, latest: int) -> FoldState:
        """The newest state at or before a position, with its sums; of a judge the
        weights, of a bystander the count."""
        if self.by_file:
            return super().start_before(latest)
        first = initial_fold(self.store, self.policy, self.policy.init(), Sums)
        kept = [
            one.position for one in self.store.snapshots() if one.position <= latest
        ]
        if not kept:
            return first
        if isinstance(self.policy, _Bystander):
            start = first._replace(position=kept[-1])
        else:
            start = start_before(
                self.store, self.policy, latest, self.change, is_judge=True
            )
        if start.position not in kept:
            return first
        meta = unpack_meta(
            self.store.content(start.position),
            f"the snapshot at position {start.position}",
        )
        sums = sums_at(self.store, start.position, meta.get("sums"), Sums)
        if isinstance(self.policy, _Bystander) and isinstance(sums, Sums):
            counted = sum(
                one.rewarded for one in (*sums.arms.by_name.values(), sums.arms.others)
            )
            start = start._replace(state=_Counted(counted))
        return start._replace(sums=sums, secret=self.store.secret)


def open_shown(places: Sequence[str], experiment: str | None = None) -> list[Shown]:
    """What these places hold: files of stores, databases (`experiment` says which of
    theirs), or policy files."""
    shown: list[Shown] = []
    try:
        for place in places:
            shown.append(
                _by_file(Path(place))
                if place.endswith(".toml")
                else _by_store(place, experiment)
            )
        names = [one.file.name for one in shown]
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput(
                "stores must be of experiments with names of their own; got "
                f"{twice[0]!r} twice"
            )
    except BaseException:
        for one in shown:
            one.store.close()
        raise
    return shown


def show_app(shown: Sequence[Shown]) -> Limits:
    """The ASGI application that shows these experiments to this machine: what can be
    read, and no more."""
    routes = tuple(route for route in ROUTES if route.method == "GET")
    service = Service(shown, routes)
    app = App(service, PageFiles(page_folder(), docs_page(routes)))
    return Limits(
        app,
        service.begin,
        service.end,
        enter=app.enter,
        drain=service.drain,
        local=True,
    )


def _by_store(place: str, experiment: str | None) -> Shown:
    """A store by itself: its judge, if it tells one, needs no models."""
    reading = open_reader(place, experiment)
    about = reading.about
    try:
        scale = RewardScale(*about.get("reward", (0.0, 1.0)))
        policy = (
            _Bystander()
            if about.get("judge") is None
            else judge_from_json(about["judge"])
        )
        arms = None if about.get("arms") is None else Arms(about["arms"])
    except (InvalidInput, TypeError, KeyError) as error:
        reading.close()
        raise BadFile(f"{place} must say what it is about; {error}") from error
    window, default = about.get("window_s"), about.get("default_reward") or 0.0
    facts: Any = {
        "window": window,
        "default": default,
        "shadow": bool(about.get("shadow")),
    }
    settings = Settings(place, reading.rule, reading.late, **facts)
    kind = {} if isinstance(policy, _Bystander) else {"policy": {"kind": "gts"}}
    file = PolicyFile(
        Path(place),
        str(about.get("experiment")),
        arms,
        None,
        None,
        policy,
        scale,
        None,
        kind,
        {},
    )
    return Shown(
        file, arms, settings, policy, _read_only(reading), int(about.get("seed", 0)), {}
    )


def _by_file(path: Path) -> Shown:
    """The store of a policy file, with its models."""
    file = read_policy(path)
    settings = read_settings(file)
    reading = open_reader(settings.store, file.name)
    try:
        began = reading.about.get("arms")
        if (
            began is not None
            and file.arms is not None
            and list(file.arms)[: len(began)] == began
        ):
            file = read_policy(path, arms=began)  # it may have gained some since
        policy = guarded(file.policy, settings.timeout_ms, arms=file.arms)
        if fingerprint(policy) != reading.fingerprint:
            raise BadFile(
                f"{path} must describe the policy that {settings.place} was made with; "
                "it is another one"
            )
    except BaseException:
        reading.close()
        raise
    seed, bench = int(reading.about.get("seed", 0)), dict(file.bench)
    quiet = replace(settings, erase_after_days=None)
    return Shown(
        file, file.arms, quiet, policy, _read_only(reading), seed, bench, by_file=True
    )


def _read_only(reading: Reading) -> Any:
    return _ReadOnly(reading)
