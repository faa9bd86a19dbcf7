"""Routes for the status of the service: experiments, counts, changes, metrics and
health."""

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
from oddsmith.server.http.routes.experts import wait_for_state
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

_GLANCE = 0.5  # seconds that /v1/stats waits for the follower to catch up
_REASON = 200  # maximum length of a failure's reason
_PROMETHEUS = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]


async def experiments(service: Service, key: Key) -> lm.Experiments:
    """Return the experiments that a key may read."""
    facts: list[lm.ExperimentFacts] = []
    for name, one in service.experiments.items():
        if key.may("read", name):
            facts.append(_facts(one))
    has_keys = service.ring is not None
    is_served = all(one.setup.writes for one in service.experiments.values())
    return lm.Experiments(facts, __version__, has_keys, is_served)


def _facts(experiment: Experiment) -> lm.ExperimentFacts:
    settings = experiment.settings
    scale = experiment.scale
    follower = experiment.follower
    policy = follower.now.policy
    arms = None if experiment.arms is None else list(experiment.arms)
    experts = [] if policy.bank is None else active_experts(policy)
    default = None if settings.window is None else scale.value(settings.default)
    reward_range = lm.RewardRange(scale.low, scale.high)
    return lm.ExperimentFacts(
        experiment.name,
        arms,
        experts,
        settings.shadow,
        settings.sticky,
        settings.window,
        default,
        reward_range,
        ready=follower.now.state is not None and not follower.trouble,
        trouble=follower.trouble,
        fingerprint=experiment.store.fingerprint,
        policy=experiment.setup.file.kind,
        show_contexts=settings.show_contexts,
    )


async def stats(experiment: Experiment, query: sm.StatsQuery) -> sm.Stats:
    """Return the counts of an experiment, and the positions of its log and state."""
    store = experiment.store
    events, head, hold_up = await experiment.long_reads.run(
        lambda: (store.tally(), store.head(), store.hold_up())
    )
    # wait briefly, so that callers find their own decisions in the counts unless the
    # state is far behind
    with suppress(StoreFailed, Busy):
        await wait_for_state(experiment, head, patience=_GLANCE)
    follower = experiment.follower
    sums = follower.sums
    by_arm = dict.fromkeys(experiment.arms or (), ArmSum()) | sums.arms.by_name
    # sorted() is stable: arms with equal counts stay in the order of their first draws
    ranking = sorted(by_arm, key=lambda arm: -by_arm[arm].decided)
    page = ranking[query.skip : query.skip + query.limit]
    epoch, epoch_after = store.epochs[-1]
    return sm.Stats(
        experiment.name,
        head,
        follower.now.position,
        events={str(kind): count for kind, count in events.items()},
        arms={arm: _arm_count(experiment, by_arm[arm]) for arm in page},
        n_arms=len(by_arm),
        others=_arm_count(experiment, sums.arms.others),
        experts=_expert_stats(experiment),
        refused=follower.refused,
        snapshot=follower.snapshot,
        refolds=follower.refolds,
        epoch=epoch,
        epoch_after=epoch_after,
        vitals=vitals_of(experiment, hold_up),
    )


def _expert_stats(experiment: Experiment) -> dict[str, dict[str, object]]:
    """For each expert, return its weight, the number of failures, and the reason of the
    last failure."""
    guard = experiment.follower.now.experts
    failures: dict[str, dict[str, int]] = {}
    reasons: dict[str, str] = {}
    if isinstance(guard, Guarded):
        failures = guard.failures()
        for name, reason in guard.reasons().items():
            reasons[name] = reason[:_REASON]
    experts: dict[str, dict[str, object]] = {}
    for name, weight in experiment.weights().items():
        experts[name] = {
            "weight": weight,
            "failures": failures.get(name, {}),
            "reason": reasons.get(name),
        }
    return experts


def _arm_count(experiment: Experiment, one: ArmSum) -> sm.ArmCount:
    mean = None
    if one.rewarded:
        mean = experiment.scale.value(one.total / one.rewarded)
    return sm.ArmCount(one.decided, one.rewarded, mean)


async def changes(experiment: Experiment, query: lm.ChangesQuery) -> lm.Changes:
    """Wait until the state is beyond the position `after`, then return the positions of
    log and state.

    The database is read only once, at the end.
    """
    follower = experiment.follower
    if follower.now.position <= query.after and query.wait:
        beyond = partial(follower.wait_beyond, query.after)
        await experiment.long_polls.wait(beyond, query.wait)
    head = await asyncio.to_thread(experiment.store.head)
    position = follower.now.position
    return lm.Changes(experiment.name, max(head, position), position)


async def metrics(service: Service, _: Key) -> Response:
    """Return the metrics of all experiments."""
    await service.hold_ups.look()
    parts: list[bytes] = []
    for part in service.metrics.parts():
        parts.append(part)
        # with 2,000 experiments this takes long: let other requests run between two
        # metrics
        await asyncio.sleep(0)
    return Response(200, b"".join(parts), _PROMETHEUS)


async def health(_: Service, __: Key) -> sm.Health:
    """Report that the process is alive."""
    return sm.Health(True, {})


async def ready(service: Service, key: Key) -> sm.Health | Response:
    """Return whether every experiment can decide. For experiments that the key may
    read, give the reason if not.

    Unauthenticated callers get a cached result; callers with a key get a fresh check.
    """
    warnings: dict[str, str] = {}
    if key is STRANGER:
        troubles = await service.seldom(_troubles)
    else:
        troubles = await _troubles(service)
        warnings = await _warnings(service, key)
    readable = {
        name: trouble for name, trouble in troubles.items() if key.may("read", name)
    }
    is_ready = not troubles and not service.draining
    answer = sm.Health(is_ready, readable, service.draining, warnings)
    if is_ready:
        return answer
    return Response(503, msgspec.json.encode(answer), JSON)


async def openapi(service: Service, _: Key) -> Response:
    """Return the OpenAPI document."""
    return Response(200, service.document, JSON)


async def _troubles(service: Service) -> dict[str, str]:
    """Return the reasons why experiments cannot make decisions, by experiment."""
    return await service.store_looks.troubles(service.experiments.values())


async def _warnings(service: Service, key: Key) -> dict[str, str]:
    """Return faults that do not prevent decisions but need attention, by experiment."""
    await service.hold_ups.look()
    warnings: dict[str, str] = {}
    for name, experiment in service.experiments.items():
        if key.may("read", name):
            warning = warning_of(experiment, service.hold_ups.of(experiment))
            if warning:
                warnings[name] = warning
    return warnings


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
