"""Import the history of another service into a store. Its decisions are recorded as an
incumbent's decisions, with the incumbent's propensities, and our policy learns from
them.

Events are written in groups. For each event the policy draws an arm with its current
state, as in shadow mode. Then the group is written with its rewards in one commit, and
the policy learns from it. So the log can be verified, the state can be computed from
it, and a service can continue from the store. An import can be resumed: events that are
in the store are skipped, and groups consist of new events. So an interrupted run and
its continuation write the same log as a single run.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import TypeAlias

import numpy as np

from oddsmith.agent.call import Call, call_of
from oddsmith.contexts.values import check_json
from oddsmith.core.arrays import Array
from oddsmith.core.checks import check_odds
from oddsmith.core.decision import Odds
from oddsmith.core.draw import Uniforms, draw
from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import Arms, OfferedArms
from oddsmith.core.offer import Offer
from oddsmith.server.compat.personalizer.log import PersonalizerEvent, Unread
from oddsmith.server.compat.personalizer.log_import import ImportReport, by_line
from oddsmith.server.experiment.arms import served_arms
from oddsmith.server.experiment.experiment import EVERYTHING
from oddsmith.server.experiment.follower import Now, now_of
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.fold.fold import FoldState, advance, restore, save_snapshot
from oddsmith.server.http.routes.incumbents import by_incumbent
from oddsmith.server.statistics import Sums
from oddsmith.server.store.events import DecisionMade, Event, OwnDraw, Reward
from oddsmith.server.store.protocol import Line, decision_line

__all__ = ["GROUP", "SENDER", "to_store"]

GROUP = 50
"""Number of events in a group. A group is decided with the same state and written with
one commit."""
SENDER = "import"
"""The name that imported events have as sender."""


def to_store(
    found: Iterable[PersonalizerEvent | Unread],
    setup: ExperimentSetup,
    report: ImportReport,
) -> None:
    """Write events into the store of an experiment, and save a snapshot of the state
    that has learned them."""
    if setup.settings.rule != "first":
        raise InvalidInput(
            'service.reward_rule must be "first" for an import, because its rewards '
            "are final"
        )
    importer = _Importer(setup, report)
    new_events = importer.new_events(by_line(report.events(found)))
    while True:
        group = list(islice(new_events, GROUP))
        if not group:
            break
        importer.write(group)
    importer.save()


_Slots: TypeAlias = Sequence[PersonalizerEvent]
"""The decisions of one event: one, or one for each of its slots."""


class _Importer:
    """An import in progress: the store, the state after the store's events, and the
    report."""

    def __init__(self, setup: ExperimentSetup, report: ImportReport) -> None:
        self._setup = setup
        self._store = setup.store
        self._report = report
        self._folded: FoldState = restore(
            self._store, setup.policy, change=setup.change, statistics=Sums
        )
        self._arms = served_arms(self._store, self._folded.position)
        self._steps = self._store.tally().get("decision", 0)
        self._uniform = Uniforms(setup.seed)
        self._unsaved = 0

    def new_events(self, events: Iterator[_Slots]) -> Iterator[_Slots]:
        """Yield the events that are not in the store. Events that differ from those in
        the store are reported."""
        while True:
            group = list(islice(events, GROUP))
            if not group:
                return
            ids = [one.id for slots in group for one in slots]
            history: dict[str, list[Line]] = {id: [] for id in ids}
            for line in self._store.history(ids, EVERYTHING):
                history[line.id].append(line)
            for slots in group:
                is_known = any(decision_line(history[one.id]) for one in slots)
                if is_known:
                    self._pass_over(slots, history)
                else:
                    yield slots

    def _pass_over(self, slots: _Slots, history: Mapping[str, Sequence[Line]]) -> None:
        """Count an event that is in the store, or report it if it differs; write
        rewards that are missing in the store."""
        for one in slots:
            difference = _difference(one, history[one.id])
            if difference:
                self._report.refuse(slots, difference, "repeat")
                return
        self._report.known += 1
        rewards: list[Event] = []
        for one in slots:
            is_rewarded = any(line.kind == "reward" for line in history[one.id])
            if one.reward is not None and not is_rewarded:
                rewards.append(_reward(one))
        if rewards:
            self._append(rewards)

    def write(self, group: Sequence[_Slots]) -> None:
        """Make our policy's draws for some events, write the events to the store, and
        learn from them. Each event is written with all its slots or not at all."""
        now = now_of(self._folded, self._arms)
        decisions: list[Event] = []
        rewards: list[Event] = []
        for slots in group:
            steps = self._steps
            try:
                decisions += [self._decide(now, one) for one in slots]
            except InvalidInput as error:
                self._steps = steps
                why = f"{self._setup.file.path} cannot be used for it: {error}"
                self._report.refuse(slots, why)
                continue
            rewards += [_reward(one) for one in slots if one.reward is not None]
        if decisions:
            self._append([*decisions, *rewards])
            self._learn()

    def _append(self, events: Sequence[Event]) -> None:
        for receipt in self._store.append(events).result():
            receipt.accepted()
        self._unsaved += sum(isinstance(event, Reward) for event in events)

    def _learn(self) -> None:
        """Advance the state to the end of the log."""
        setup = self._setup
        folded = advance(
            self._store,
            setup.policy,
            self._folded,
            change=setup.change,
            statistics=Sums,
        )
        self._report.unlearnt += len(folded.refused)
        self._folded = folded._replace(refused=())
        if self._unsaved >= setup.settings.snapshot_every:
            self.save()

    def save(self) -> None:
        """Save a snapshot, if there are new rewards."""
        if self._unsaved:
            self._unsaved = 0
            self._learn()
            save_snapshot(self._store, self._folded, time.time())

    def _decide(self, now: Now, one: PersonalizerEvent) -> DecisionMade:
        """Return the event of a decision, with the incumbent's arm and propensities and
        the policy's own draw."""
        check_json(one.context)
        check_json(one.features, "arms")
        eligible = None
        if not one.eligible.all():
            eligible = [one.arms[place] for place in np.flatnonzero(one.eligible)]
        arms = one.features or list(one.arms)
        call = call_of(now.policy, now.arms, one.context, arms, eligible)
        names = call.names
        if not isinstance(names, Arms):
            names = OfferedArms(names)
            call = replace(call, names=names)
        ours, votes = _policy_odds(now, call, self._steps + 1)
        self._steps += 1
        step = self._steps
        check_odds(now.policy, ours, eligible=call.mask, step=step)
        odds = np.zeros(len(names))
        places = [names.number(name, "action") for name in one.arms]
        odds[places] = one.odds
        uniform = self._uniform(one.id)
        drawn = draw(ours, one.context, uniform, eligible=call.mask, step=step)
        decision = by_incumbent(
            now.policy, drawn, ours=ours, arm=places[one.arm], odds=odds
        )
        return DecisionMade(
            one.id,
            call.name_arm(decision),
            seen=now.position,
            time=one.time.timestamp(),
            votes=votes,
            shadow=True,
            sender=SENDER,
            slate=one.slate,
            slot=one.slot,
            own=OwnDraw(drawn.arm, ours.propensities),
        )


def _policy_odds(now: Now, call: Call, step: int) -> tuple[Odds, Array | None]:
    """Return the policy's propensities, and the votes behind them."""
    question = call.question
    eligible = call.mask
    if now.advise is None or now.weigh is None:
        odds = now.policy.odds(now.state, question, eligible=eligible, step=step)
        return odds, None
    advice = now.advise(now.state.experts, question, eligible)
    offer = question if isinstance(question, Offer) else None
    if now.cast is not None:
        advice = now.cast(advice, eligible=eligible, offer=offer)
    _, votes = advice
    odds = now.weigh(now.state, advice, eligible=eligible, step=step, offer=offer)
    return odds, votes


def _reward(one: PersonalizerEvent) -> Reward:
    """Return the event of a decision's reward, which must be known."""
    return Reward(one.id, one.reward or 0.0, one.time.timestamp(), sender=SENDER)


def _difference(one: PersonalizerEvent, lines: Sequence[Line]) -> str:
    """Describe the difference between an event and the decision with its id in the
    store; empty if there is none."""
    made = decision_line(lines)
    if made is None:
        return f"EventId {one.slate!r:.60} is in the store with other slots"
    what = f"EventId {one.id!r:.60}"
    if one.slate is not None:
        what = f"EventId {one.slate!r:.60}, slot {one.slot},"
    arm = one.arms[one.arm]
    if made.arm != arm:
        return f"{what} is in the store with the arm {made.arm!r:.60}; got {arm!r:.60}"
    rewards = [line.value for line in lines if line.kind == "reward"]
    if rewards and rewards[0] != one.reward:
        return (
            f"{what} is in the store with the reward {rewards[0]!r} in [0, 1]; got "
            f"{one.reward!r}"
        )
    return ""
