"""Routes of experts: joining and retiring, and the weight of each, now and on the
way."""

import asyncio
import logging
from collections.abc import Mapping

from oddsmith.core.errors import Conflict, InvalidInput, StoreFailed
from oddsmith.core.names import hint
from oddsmith.policies.roster import active_experts
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.threads import Busy
from oddsmith.server.http.routes.rewards import kept
from oddsmith.server.http.routes.route import ADMIN, CHANGES, READ, Route
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import figures as f
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.history import MOST_NAMED, Point, point_of
from oddsmith.server.store.events import ExpertChange
from oddsmith.server.store.protocol import line_of

__all__ = ["ROUTES", "experts", "known", "posterior", "posterior_history"]

_log = logging.getLogger(__name__)
_PATIENCE = 10.0  # seconds that a change of experts waits for the state to know it


async def experts(
    experiment: Experiment, message: m.RosterChange, sender: str
) -> m.EventAnswer:
    """An expert joins or retires: answered once the state knows it."""
    if (message.share is None) == (message.change == "added"):
        got = "none" if message.share is None else f"{message.share:g}"
        raise InvalidInput(
            f"share must be given for an expert that is added, and only then; got {got}"
        )
    event = ExpertChange(
        message.expert,
        message.change,
        experiment.clock(),
        message.key,
        message.share,
        sender,
    )
    line = line_of(event)
    # one after the other, each on the state that the last one left
    async with experiment.changing:
        if not any(
            earlier[1:4] == line[1:4]
            for earlier in await asyncio.to_thread(experiment.store.changes)
        ):
            await known(experiment, await asyncio.to_thread(experiment.store.head))
            await _check_change(experiment, message)
            now = experiment.follower.now
            # what cannot be folded must not get into the log
            experiment.setup.change(now.policy, now.state, line)
        receipt = await experiment.append(event)
        await known(experiment, receipt.position)
    if receipt.new and (
        message.expert in active_experts(experiment.follower.now.policy)
    ) != (message.change == "added"):
        raise Conflict(
            f"expert {message.expert!r} was changed by another request meanwhile: this "
            "one has no effect"
        )
    if receipt.new:
        share = (
            "" if message.share is None else f" with {message.share:g} of the weight"
        )
        _log.info(
            "experiment %s: expert %s is %s%s",
            experiment.name,
            message.expert,
            message.change,
            share,
        )
    return kept(message.expert, receipt)


async def posterior(experiment: Experiment, _: m.Query) -> m.PosteriorAnswer:
    """How likely each expert is the one to follow, or what is known of arms."""
    # a state that is written in place is read between two updates
    async with experiment.follower.learning:
        now, by_name = experiment.follower.now, experiment.posterior()
    retired = (
        []
        if now.policy.bank is None
        else [name for name in by_name if name not in active_experts(now.policy)]
    )
    return m.PosteriorAnswer(
        experiment.name, now.position, now.state.learnt, by_name, retired
    )


async def known(
    experiment: Experiment, position: int, patience: float = _PATIENCE
) -> None:
    """Wait until the state knows all events up to a position."""
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
    """The weight of each expert on the way."""
    # a state that is written in place is read between two updates
    async with experiment.follower.learning:
        sums, now, weights = (
            experiment.follower.sums,
            experiment.follower.now,
            experiment.weights(),
        )
    points = _points(sums, now.position, weights)
    names = _heaviest(points)
    rest = [_left(point, names) for point in points]
    return f.PosteriorHistory(
        experiment.name,
        now.position,
        [point.position for point in points],
        [point.time for point in points],
        {name: [point.weights.get(name) for point in points] for name in names},
        rest if any(one is not None for one in rest) else None,
        [f.HistoryMark(*mark) for mark in sums.history.marks],
    )


def _points(sums: Sums, position: int, weights: Mapping[str, float]) -> list[Point]:
    """The points on the way, and the state as it is."""
    points = sums.history.points
    if not points or points[-1].position == position:
        return points
    return [*points, point_of(position, sums.history.last, weights)]


def _heaviest(points: list[Point]) -> list[str]:
    """The experts that are, or were, heaviest: by the last weight, then by the
    largest."""
    top: dict[str, tuple[float, float]] = {}
    for point in points:
        for name, weight in point.weights.items():
            top[name] = 0.0, max(weight, top.get(name, (0.0, 0.0))[1])
    for name, weight in (points[-1].weights if points else {}).items():
        top[name] = weight, top[name][1]
    return sorted(top, key=lambda name: (-top[name][0], -top[name][1]))[:MOST_NAMED]


def _left(point: Point, names: list[str]) -> float | None:
    """The weight of all experts but these; None where there are no others."""
    rest = [weight for name, weight in point.weights.items() if name not in names]
    rest += [] if point.others is None else [point.others]
    return sum(rest) if rest else None


async def _check_change(experiment: Experiment, message: m.RosterChange) -> None:
    """Refuses what would have no effect: adding an expert twice, retiring one that is
    not there, or the last one."""
    weights, there = (
        experiment.weights(),
        active_experts(experiment.follower.now.policy),
    )
    if message.change == "retired":
        if message.expert not in weights:
            meant = hint(message.expert, weights)
            raise InvalidInput(
                f"expert must be one of {list(weights)[:8]}; got "
                f"{message.expert!r:.60}{meant}"
            )
        if message.expert not in there:
            raise Conflict(
                f"expert must be there to be retired; got {message.expert!r}, which is "
                "not"
            )
        if len(there) == 1:
            raise Conflict(f"expert must not be the last one; got {message.expert!r}")
        return
    if message.expert in there:
        raise Conflict(
            f"expert must not be there yet, or retire first; got {message.expert!r}, "
            "which is there"
        )
    if message.expert not in weights:
        await asyncio.to_thread(experiment.setup.reread)
        if message.expert not in experiment.setup.bench:
            bench = ", ".join(experiment.setup.bench) or "which is empty"
            meant = hint(message.expert, experiment.setup.bench)
            raise InvalidInput(
                f"expert must be on the policy file's bench, {bench}; got "
                f"{message.expert!r:.60}{meant}"
            )


ROUTES = (
    Route(
        "POST",
        "/v1/experts",
        experts,
        "Change the roster.",
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
        "The weight of each expert on the way.",
        READ,
        m.Query,
        f.PosteriorHistory,
    ),
)
