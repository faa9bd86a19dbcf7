"""Routes of the service itself: its experiments, counts, news, metrics and health."""

import asyncio
from contextlib import suppress
from functools import partial

import msgspec

from oddsmith import __version__
from oddsmith.core.errors import StoreFailed
from oddsmith.experts.guard.guard import Guarded
from oddsmith.policies.roster import active_experts
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.experiment.threads import Busy
from oddsmith.server.http.access import STRANGER
from oddsmith.server.http.keys import Key
from oddsmith.server.http.response import JSON, Response
from oddsmith.server.http.routes.experts import known
from oddsmith.server.http.routes.route import READ, Route
from oddsmith.server.http.service import Service
from oddsmith.server.messages import lists as lm
from oddsmith.server.messages import stats as sm
from oddsmith.server.monitor.vitals import vitals_of, warning_of
from oddsmith.server.statistics import ArmSum

__all__ = [
    "ROUTES",
    "changes",
    "experiments",
    "health",
    "metrics",
    "openapi",
    "ready",
    "stats",
]

_GLANCE = 0.5  # seconds that a look at counts waits for it


async def experiments(service: Service, key: Key) -> lm.Experiments:
    """The experiments that a key may read."""
    readable = [
        one for name, one in service.experiments.items() if key.may("read", name)
    ]
    served = all(one.setup.writes for one in service.experiments.values())
    return lm.Experiments(
        [_facts(one) for one in readable], __version__, service.ring is not None, served
    )


def _facts(experiment: Experiment) -> lm.ExperimentFacts:
    settings, scale, follower = (
        experiment.settings,
        experiment.scale,
        experiment.follower,
    )
    policy, arms = follower.now.policy, experiment.arms
    names = [] if policy.bank is None else active_experts(policy)
    return lm.ExperimentFacts(
        experiment.name,
        None if arms is None else list(arms),
        names,
        settings.shadow,
        settings.sticky,
        settings.window,
        None if settings.window is None else scale.value(settings.default),
        lm.RewardRange(scale.low, scale.high),
        follower.now.state is not None and not follower.trouble,
        follower.trouble,
        experiment.store.fingerprint,
        experiment.setup.file.kind,
        settings.show_contexts,
    )


async def stats(experiment: Experiment, query: sm.StatsQuery) -> sm.Stats:
    """Counts and positions."""
    store = experiment.store
    events, head, hold_up = await experiment.long_reads.run(
        lambda: (store.tally(), store.head(), store.hold_up())
    )
    # its own decisions are there, unless the state is far behind
    with suppress(StoreFailed, Busy):
        await known(experiment, head, patience=_GLANCE)
    follower, guard = experiment.follower, experiment.follower.now.experts
    sums = follower.sums
    by_arm = dict.fromkeys(experiment.arms or (), ArmSum()) | sums.arms.by_name
    # of equals those first drawn
    ranked = sorted(by_arm, key=lambda arm: -by_arm[arm].decided)
    arms = {
        arm: _arm_count(experiment, by_arm[arm])
        for arm in ranked[query.skip : query.skip + query.limit]
    }
    failures = guard.failures() if isinstance(guard, Guarded) else {}
    reasons = (
        {name: why[:200] for name, why in guard.reasons().items()}
        if isinstance(guard, Guarded)
        else {}
    )
    judged: dict[str, dict[str, object]] = {
        name: {
            "weight": weight,
            "failures": failures.get(name, {}),
            "reason": reasons.get(name),
        }
        for name, weight in experiment.weights().items()
    }
    return sm.Stats(
        experiment.name,
        head,
        follower.now.position,
        {str(kind): times for kind, times in events.items()},
        arms,
        len(by_arm),
        _arm_count(experiment, sums.arms.others),
        judged,
        follower.refused,
        follower.snapshot,
        follower.refolds,
        *experiment.store.epochs[-1],
        vitals_of(experiment, hold_up),
    )


def _arm_count(experiment: Experiment, one: ArmSum) -> sm.ArmCount:
    mean = experiment.scale.value(one.total / one.rewarded) if one.rewarded else None
    return sm.ArmCount(one.decided, one.rewarded, mean)


async def changes(experiment: Experiment, query: lm.ChangesQuery) -> lm.Changes:
    """Where log and state are, once the state has moved on; the database is asked once,
    at the end."""
    if experiment.follower.now.position <= query.after and query.wait:
        await experiment.long_polls.wait(
            partial(experiment.follower.wait_beyond, query.after), query.wait
        )
    head, position = (
        await asyncio.to_thread(experiment.store.head),
        experiment.follower.now.position,
    )
    return lm.Changes(experiment.name, max(head, position), position)


async def metrics(service: Service, _: Key) -> Response:
    """Metrics of all experiments."""
    await service.hold_ups.look()
    parts = []
    for part in service.metrics.parts():
        parts.append(part)
        # there may be 2,000 experiments: others have their turn between two metrics
        await asyncio.sleep(0)
    return Response(
        200,
        b"".join(parts),
        [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")],
    )


async def health(_: Service, __: Key) -> sm.Health:
    """The process lives, or there would be no answer."""
    return sm.Health(True, {})


async def ready(service: Service, key: Key) -> sm.Health | Response:
    """Whether every experiment can decide; why not, and which, for a key that may read
    it."""
    # anybody may ask, as often as they like; who has a key is told what is so now
    troubles = (
        await service.seldom(_troubles) if key is STRANGER else await _troubles(service)
    )
    told = {
        name: trouble for name, trouble in troubles.items() if key.may("read", name)
    }
    warnings = {} if key is STRANGER else await _warnings(service, key)
    answer = sm.Health(
        not troubles and not service.draining, told, service.draining, warnings
    )
    return answer if answer.ok else Response(503, msgspec.json.encode(answer), JSON)


async def openapi(service: Service, _: Key) -> Response:
    """The OpenAPI document."""
    return Response(200, service.document, JSON)


async def _troubles(service: Service) -> dict[str, str]:
    """What keeps experiments from deciding, by name."""
    return await service.store_looks.troubles(service.experiments.values())


async def _warnings(service: Service, key: Key) -> dict[str, str]:
    """What does not keep experiments from deciding, and should not last, by name."""
    await service.hold_ups.look()
    readable = {
        name: one for name, one in service.experiments.items() if key.may("read", name)
    }
    sentences = {
        name: warning_of(one, service.hold_ups.of(one))
        for name, one in readable.items()
    }
    return {name: warning for name, warning in sentences.items() if warning}


ROUTES = (
    Route(
        "GET",
        "/v1/experiments",
        experiments,
        "The experiments.",
        READ,
        answer=lm.Experiments,
        each=True,
    ),
    Route(
        "GET",
        "/v1/stats",
        stats,
        "Counts and positions.",
        READ,
        sm.StatsQuery,
        sm.Stats,
        examples={"limit": 10},
    ),
    Route(
        "GET",
        "/v1/changes",
        changes,
        "Wait for news.",
        READ,
        lm.ChangesQuery,
        lm.Changes,
        waits=True,
        examples={"after": 0, "wait": 5},
    ),
    Route("GET", "/metrics", metrics, "Metrics in the format of Prometheus.", READ),
    Route("GET", "/healthz", health, "Whether the process lives.", answer=sm.Health),
    Route(
        "GET",
        "/readyz",
        ready,
        "Whether every experiment can decide.",
        answer=sm.Health,
    ),
    Route("GET", "/openapi.json", openapi, "All routes, for programs."),
)
