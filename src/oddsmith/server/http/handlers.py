"""What each route does, from a checked message to an answer."""

import asyncio
import logging
from contextlib import suppress
from functools import partial

import msgspec

from oddsmith.core.errors import Conflict, InvalidInput, StoreFailed
from oddsmith.core.names import hint
from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import Experiment
from oddsmith.server.fold.judge import active, gts_inside
from oddsmith.server.http.access import STRANGER
from oddsmith.server.http.keys import Key
from oddsmith.server.http.records import record_of
from oddsmith.server.http.response import JSON, Response
from oddsmith.server.http.service import NotFound, Service
from oddsmith.server.http.slates import activate_slate, missed, with_slots
from oddsmith.server.messages import calls as m
from oddsmith.server.messages import stats as sm
from oddsmith.server.monitor.choice import choices_sentence
from oddsmith.server.monitor.sums import ArmSum
from oddsmith.server.monitor.vitals import lag_warning, vitals_of
from oddsmith.server.store.events import Activation, Correction, ExpertChange, Reward, is_id
from oddsmith.server.store.protocol import Receipt, line_of
from oddsmith.server.store.slates import OfSlate, asked_as_decision

__all__ = [
    "activate",
    "correct",
    "decision",
    "experts",
    "health",
    "metrics",
    "openapi",
    "posterior",
    "ready",
    "reward",
    "reward_batch",
    "stats",
]

_log = logging.getLogger(__name__)
_GLANCE = 0.5  # seconds that a look at counts waits for it
_PATIENCE = 10.0  # seconds that a change of experts waits for the state to know it


async def reward(experiment: Experiment, message: m.RewardGiven, sender: str) -> m.EventAnswer:
    """Keep a reward."""
    event = _reward(experiment, message, sender)
    for refusal in (await missed(experiment, [message])).values():
        raise refusal
    return await _about_decision(experiment, event)


async def reward_batch(experiment: Experiment, message: m.RewardBatch, sender: str) -> m.Results:
    """Keep many rewards; each entry is answered for itself."""
    events: list[Reward | InvalidInput] = []
    lost = await experiment.unlearnable_ids([one.id for one in message.rewards])
    refusals = await missed(experiment, message.rewards)
    for place, one in enumerate(message.rewards):
        try:
            _check_in_reach(one.id, lost)
            event = _reward(experiment, one, sender)
            events.append(refusals.get(place, event))
        except InvalidInput as error:
            events.append(error)
    good = [event for event in events if isinstance(event, Reward)]
    receipts = iter(await experiment.writer.append(good) if good else ())
    return m.Results(
        [
            await _entry(experiment, one, next(receipts)) if isinstance(one, Reward) else m.ErrorAnswer.of(one)
            for one in events
        ]
    )


async def correct(experiment: Experiment, message: m.Correct, sender: str) -> m.EventAnswer:
    """Keep a correction; the state follows once it is folded anew."""
    value = _scaled(experiment, message.reward)
    event = Correction(message.id, value, experiment.clock(), message.key, sender)
    try:
        receipt = await experiment.append(event)
    except Conflict:
        raise
    except InvalidInput as error:  # there is no reward to correct
        raise Conflict(str(error)) from error
    return _kept(message.id, receipt)


async def activate(experiment: Experiment, message: m.Activate, sender: str) -> m.EventAnswer:
    """A deferred decision was shown, or all of a slate."""
    if message.slate is not None and message.id is None:
        return await activate_slate(experiment, message.slate, sender)
    if message.id is None or message.slate is not None:
        raise InvalidInput(f"id or slate must be given; got {'both' if message.id else 'none'}")
    return await _about_decision(experiment, Activation(message.id, experiment.clock(), sender))


async def experts(experiment: Experiment, message: m.RosterChange, sender: str) -> m.EventAnswer:
    """An expert joins or retires: answered once the state knows it."""
    if (message.share is None) == (message.change == "added"):
        got = "none" if message.share is None else f"{message.share:g}"
        raise InvalidInput(f"share must be given for an expert that is added, and only then; got {got}")
    event = ExpertChange(message.expert, message.change, experiment.clock(), message.key, message.share, sender)
    line = line_of(event)
    async with experiment.changing:  # one after the other, each on the state that the last one left
        if not any(earlier[1:4] == line[1:4] for earlier in await asyncio.to_thread(experiment.store.changes)):
            await _known(experiment, await asyncio.to_thread(experiment.store.head))
            await _check_change(experiment, message)
            now = experiment.follower.now
            experiment.opened.change(now.policy, now.state, line)  # what cannot be folded must not get into the log
        receipt = await experiment.append(event)
        await _known(experiment, receipt.position)
    if receipt.new and (message.expert in active(experiment.follower.now.policy)) != (message.change == "added"):
        raise Conflict(f"expert {message.expert!r} was changed by another request meanwhile: this one has no effect")
    if receipt.new:
        share = "" if message.share is None else f" with {message.share:g} of the weight"
        _log.info("experiment %s: expert %s is %s%s", experiment.name, message.expert, message.change, share)
    return _kept(message.expert, receipt)


async def _known(experiment: Experiment, position: int, patience: float = _PATIENCE) -> None:
    """Wait until the state knows all events up to a position."""
    try:
        async with asyncio.timeout(patience):
            await experiment.follower.reached(position)
    except TimeoutError as error:
        trouble = experiment.follower.trouble or "it is busy"
        raise StoreFailed(f"the state does not know position {position} yet: {trouble}") from error


async def decision(experiment: Experiment, query: m.DecisionQuery) -> m.DecisionRecord:
    """The record of one decision."""
    read = partial(record_of, experiment, query.id, query.explain)
    run = experiment.long_reads.run if query.explain else asyncio.to_thread
    record = await run(read) if is_id(query.id) else None  # to SQLite, what follows a NUL is not there
    if record is None:
        if is_id(query.id) and (slots := await asyncio.to_thread(experiment.store.of_slate, query.id)):
            raise asked_as_decision(query.id, [line.id for line in slots])
        raise NotFound(f"there is no decision {query.id!r:.140} in experiment {experiment.name!r}")
    if query.explain:
        async with experiment.follower.learning:
            record.choices_sentence = choices_sentence(experiment)
    return record


async def posterior(experiment: Experiment, _: m.Query) -> m.PosteriorAnswer:
    """How likely each expert is the one to follow, or what is known of arms."""
    async with experiment.follower.learning:  # a state that is written in place is read between two updates
        now, by_name = experiment.follower.now, experiment.posterior()
    retired = [] if gts_inside(now.policy) is None else [name for name in by_name if name not in active(now.policy)]
    return m.PosteriorAnswer(experiment.name, now.position, now.state.learnt, by_name, retired)


async def stats(experiment: Experiment, query: sm.StatsQuery) -> sm.Stats:
    """Counts and positions."""
    store = experiment.store
    events, head, hold_up = await experiment.long_reads.run(lambda: (store.tally(), store.head(), store.hold_up()))
    with suppress(StoreFailed):  # its own decisions are there, unless the state is far behind
        await _known(experiment, head, patience=_GLANCE)
    follower, guard = experiment.follower, experiment.follower.now.experts
    sums = follower.sums
    by_arm = dict.fromkeys(experiment.arms or (), ArmSum()) | sums.arms.by_name
    ranked = sorted(by_arm, key=lambda arm: -by_arm[arm].decided)  # of equals those first drawn
    arms = {arm: _arm_count(experiment, by_arm[arm]) for arm in ranked[query.skip : query.skip + query.limit]}
    failures = guard.failures() if isinstance(guard, Guarded) else {}
    reasons = {name: why[:200] for name, why in guard.reasons().items()} if isinstance(guard, Guarded) else {}
    judged: dict[str, dict[str, object]] = {
        name: {"weight": weight, "failures": failures.get(name, {}), "reason": reasons.get(name)}
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


async def metrics(service: Service, _: Key) -> Response:
    """Metrics of all experiments."""
    await service.hold_ups.look()
    parts = []
    for part in service.metrics.parts():
        parts.append(part)
        await asyncio.sleep(0)  # there may be 2,000 experiments: others have their turn between two metrics
    return Response(200, b"".join(parts), [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")])


async def health(_: Service, __: Key) -> sm.Health:
    """The process lives, or there would be no answer."""
    return sm.Health(True, {})


async def ready(service: Service, key: Key) -> sm.Health | Response:
    """Whether every experiment can decide; why not, and which, for a key that may read it."""
    # anybody may ask, as often as they like; who has a key is told what is so now
    troubles = await service.seldom(_troubles) if key is STRANGER else await _troubles(service)
    told = {name: trouble for name, trouble in troubles.items() if key.may("read", name)}
    warnings = {} if key is STRANGER else await _warnings(service, key)
    answer = sm.Health(not troubles and not service.draining, told, service.draining, warnings)
    return answer if answer.ok else Response(503, msgspec.json.encode(answer), JSON)


async def openapi(service: Service, _: Key) -> Response:
    """The OpenAPI document."""
    return Response(200, service.document, JSON)


async def _troubles(service: Service) -> dict[str, str]:
    """What keeps experiments from deciding, by name."""
    sentences = {name: await _trouble(experiment) for name, experiment in service.experiments.items()}
    return {name: trouble for name, trouble in sentences.items() if trouble}


async def _warnings(service: Service, key: Key) -> dict[str, str]:
    """What does not keep experiments from deciding, and should not last, by name."""
    await service.hold_ups.look()
    readable = {name: one for name, one in service.experiments.items() if key.may("read", name)}
    sentences = {name: lag_warning(one, service.hold_ups.of(one)) for name, one in readable.items()}
    return {name: warning for name, warning in sentences.items() if warning}


async def _trouble(experiment: Experiment) -> str:
    """What keeps an experiment from deciding; empty if nothing does."""
    if experiment.follower.trouble:
        return experiment.follower.trouble
    try:
        read = asyncio.to_thread(lambda: (experiment.store.head(), experiment.store.write_trouble))
        _, trouble = await asyncio.wait_for(read, 2.0)
    except (StoreFailed, TimeoutError) as error:
        return f"its store does not answer: {error}"
    return trouble and f"its store cannot be written: {trouble}"


def _reward(experiment: Experiment, message: m.RewardEntry, sender: str) -> Reward:
    if message.key and experiment.settings.rule != "sum":
        raise InvalidInput("key must be left out where the first reward counts (reward_rule = 'sum' adds parts up)")
    return Reward(message.id, _scaled(experiment, message.reward), experiment.clock(), message.key, sender)


def _scaled(experiment: Experiment, reward: float) -> float:
    low, high = experiment.scale.low, experiment.scale.high
    if not low <= reward <= high:
        raise InvalidInput(f"reward must be in [{low:.12g}, {high:.12g}]; got {reward:.12g}")
    return experiment.scale.reward(reward)


def _check_in_reach(id: str, lost: set[str]) -> None:
    """What cannot be folded must not get into the log."""
    if id in lost:
        raise InvalidInput(f"id must be of a decision whose context experts can learn from; that of {id!r} is erased")


async def _about_decision(experiment: Experiment, event: Reward | Activation) -> m.EventAnswer:
    """Keep what is about a decision, which may come later; a slate is none."""
    _check_in_reach(event.id, await experiment.unlearnable_ids([event.id]))
    try:
        return _kept(event.id, await experiment.append(event))
    except OfSlate as error:
        raise await with_slots(experiment, error, event.id) from error


async def _entry(experiment: Experiment, event: Reward, receipt: Receipt) -> m.EventAnswer | m.ErrorAnswer:
    if isinstance(receipt.refused, OfSlate):
        return m.ErrorAnswer.of(await with_slots(experiment, receipt.refused, event.id))
    if receipt.refused is not None:
        return m.ErrorAnswer.of(experiment.in_units(receipt.refused))
    return _kept(event.id, receipt)


def _kept(id: str, receipt: Receipt) -> m.EventAnswer:
    return m.EventAnswer(id, receipt.position, receipt.new, receipt.parked)


async def _check_change(experiment: Experiment, message: m.RosterChange) -> None:
    """Refuses what would have no effect: adding an expert twice, retiring one that is not there, or the last one."""
    weights, there = experiment.weights(), active(experiment.follower.now.policy)
    if message.change == "retired":
        if message.expert not in weights:
            meant = hint(message.expert, weights)
            raise InvalidInput(f"expert must be one of {list(weights)[:8]}; got {message.expert!r:.60}{meant}")
        if message.expert not in there:
            raise Conflict(f"expert must be there to be retired; got {message.expert!r}, which is not")
        if len(there) == 1:
            raise Conflict(f"expert must not be the last one; got {message.expert!r}")
        return
    if message.expert in there:
        raise Conflict(f"expert must not be there yet, or retire first; got {message.expert!r}, which is there")
    if message.expert not in weights:
        await asyncio.to_thread(experiment.opened.reread)
        if message.expert not in experiment.opened.bench:
            bench = ", ".join(experiment.opened.bench) or "which is empty"
            meant = hint(message.expert, experiment.opened.bench)
            raise InvalidInput(f"expert must be on the policy file's bench, {bench}; got {message.expert!r:.60}{meant}")
