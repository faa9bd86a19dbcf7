"""Routes for experts: add or retire an expert, and read the posterior and its
history."""

import asyncio
import logging
from collections.abc import Mapping

from oddsmith.core.errors import Conflict, InvalidInput, StoreFailed
from oddsmith.core.names import hint
from oddsmith.policies.roster import active_experts
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.threads import Busy
from oddsmith.server.http.routes.rewards import event_answer
from oddsmith.server.http.routes.route import ADMIN, CHANGES, READ, Route
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.history import MOST_NAMED, Point, point_of
from oddsmith.server.store.events import ExpertChange
from oddsmith.server.store.protocol import Line, line_of

__all__ = ["ROUTES", "experts", "posterior", "posterior_history", "wait_for_state"]

_log = logging.getLogger(__name__)
_PATIENCE = 10.0  # seconds to wait until the state contains a change of experts


async def experts(
    experiment: Experiment, message: m.RosterChange, sender: str
) -> m.EventAnswer:
    """Add or retire an expert; answer when the state contains the change."""
    if (message.share is None) == (message.change == "added"):
        got = "none" if message.share is None else f"{message.share:g}"
        raise InvalidInput(
            f"share must be given for an expert that is added, and only then; got {got}"
        )
    event = ExpertChange(
        message.expert,
        message.change,
        time=experiment.clock(),
        key=message.key,
        share=message.share,
        sender=sender,
    )
    # changes run one at a time, because each builds on the previous state
    async with experiment.changing:
        if not await _is_stored(experiment, line_of(event)):
            head = await asyncio.to_thread(experiment.store.head)
            await wait_for_state(experiment, head)
            await _check_change(experiment, message)
            now = experiment.follower.now
            # test the change first: an event that cannot be applied must not be written
            # to the log
            experiment.setup.change(now.policy, now.state, line_of(event))
        receipt = await experiment.append(event)
        await wait_for_state(experiment, receipt.position)
    if receipt.new:
        is_active = message.expert in active_experts(experiment.follower.now.policy)
        if is_active != (message.change == "added"):
            raise Conflict(
                f"expert {message.expert!r} was changed by another request meanwhile: "
                "this one has no effect"
            )
        share = ""
        if message.share is not None:
            share = f" with {message.share:g} of the weight"
        _log.info(
            "experiment %s: expert %s is %s%s",
            experiment.name,
            message.expert,
            message.change,
            share,
        )
    return event_answer(message.expert, [receipt])


async def _is_stored(experiment: Experiment, line: Line) -> bool:
    """Return whether the log contains this change of an expert."""
    for earlier in await asyncio.to_thread(experiment.store.changes):
        is_same_kind = earlier.kind == line.kind and earlier.id == line.id
        if is_same_kind and earlier.key == line.key:
            return True
    return False


async def posterior(experiment: Experiment, _: m.Query) -> m.PosteriorAnswer:
    """Return the posterior over experts, or the estimates of arms."""
    # The state may be updated in place: hold the lock so that we never read a
    # half-finished update.
    async with experiment.follower.learning:
        now = experiment.follower.now
        by_name = experiment.posterior()
    retired: list[str] = []
    if now.policy.bank is not None:
        active = active_experts(now.policy)
        retired = [name for name in by_name if name not in active]
    return m.PosteriorAnswer(
        experiment.name, now.position, now.state.learnt, by_name, retired
    )


async def wait_for_state(
    experiment: Experiment, position: int, patience: float = _PATIENCE
) -> None:
    """Wait until the state contains all events up to a position."""
    try:
        async with asyncio.timeout(patience):
            await experiment.follower.wait_for(position)
    except TimeoutError as error:
        behind = f"the state has not reached position {position} yet"
        trouble = experiment.follower.trouble
        if trouble:
            raise StoreFailed(f"{behind}: {trouble}") from error
        raise Busy(f"{behind}; try again") from error


async def posterior_history(experiment: Experiment, _: m.Query) -> f.PosteriorHistory:
    """Return the weight of each expert over time."""
    # The state may be updated in place: hold the lock so that we never read a
    # half-finished update.
    async with experiment.follower.learning:
        sums = experiment.follower.sums
        now = experiment.follower.now
        weights = experiment.weights()
    points = _points(sums, now.position, weights)
    names = _heaviest(points)
    rest = [_other_weight(point, names) for point in points]
    has_others = any(weight is not None for weight in rest)
    marks = [
        f.HistoryMark(mark.position, mark.time, mark.kind, mark.name, mark.share)
        for mark in sums.history.marks
    ]
    return f.PosteriorHistory(
        experiment.name,
        now.position,
        positions=[point.position for point in points],
        t=[point.time for point in points],
        experts={name: [point.weights.get(name) for point in points] for name in names},
        others=rest if has_others else None,
        marks=marks,
    )


def _points(sums: Sums, position: int, weights: Mapping[str, float]) -> list[Point]:
    """Return the points of the history, with the current state as the last one."""
    points = sums.history.points
    if not points or points[-1].position == position:
        return points
    return [*points, point_of(position, sums.history.last, weights)]


def _heaviest(points: list[Point]) -> list[str]:
    """Return the heaviest experts, sorted by their last weight, then by their largest
    weight."""
    largest: dict[str, float] = {}
    for point in points:
        for name, weight in point.weights.items():
            largest[name] = max(weight, largest.get(name, 0.0))
    last = points[-1].weights if points else {}

    def rank(name: str) -> tuple[float, float]:
        return -last.get(name, 0.0), -largest[name]

    return sorted(largest, key=rank)[:MOST_NAMED]


def _other_weight(point: Point, names: list[str]) -> float | None:
    """Return the weight of all other experts; None if there are none."""
    rest = [weight for name, weight in point.weights.items() if name not in names]
    if point.others is not None:
        rest.append(point.others)
    if rest:
        return sum(rest)
    return None


async def _check_change(experiment: Experiment, message: m.RosterChange) -> None:
    """Raise an error if a change is impossible or has no effect: the expert was added
    or retired before, is unknown, or is the last one."""
    expert = message.expert
    known_experts = experiment.weights()
    active = active_experts(experiment.follower.now.policy)
    if message.change == "retired":
        if expert not in known_experts:
            meant = hint(expert, known_experts)
            raise InvalidInput(
                f"expert must be one of {list(known_experts)[:8]}; got {expert!r:.60}"
                f"{meant}"
            )
        if expert not in active:
            raise Conflict(
                f"expert must be active to be retired; got {expert!r}, which is not"
            )
        if len(active) == 1:
            raise Conflict(f"expert must not be the last one; got {expert!r}")
        return
    if expert in active:
        raise Conflict(
            f"expert must not be active yet; got {expert!r}, which is active: choose "
            "another name, or retire it first"
        )
    if expert not in known_experts:
        await asyncio.to_thread(experiment.setup.reread)
        bench = experiment.setup.bench
        if expert not in bench:
            names = ", ".join(bench) or "which is empty"
            meant = hint(expert, bench)
            raise InvalidInput(
                f"expert must be on the policy file's bench, {names}; got "
                f"{expert!r:.60}{meant}"
            )


ROUTES = (
    Route(
        "POST",
        "/v1/experts",
        experts,
        "Add or retire an expert.",
        ADMIN,
        m.RosterChange,
        m.EventAnswer,
        CHANGES,
        examples={
            "A new model joins": {
                "expert": "model-b",
                "change": "added",
                "share": 0.1,
                "key": "2026-11-16",
            }
        },
    ),
    Route(
        "GET",
        "/v1/posterior",
        posterior,
        "The weight of each expert.",
        READ,
        m.Query,
        m.PosteriorAnswer,
    ),
    Route(
        "GET",
        "/v1/posterior/history",
        posterior_history,
        "The weight of each expert over time.",
        READ,
        m.Query,
        f.PosteriorHistory,
    ),
)
