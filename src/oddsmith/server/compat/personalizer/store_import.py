"""The history of another service in a store: its decisions are an incumbent's, with its
odds, and our policy learns.

Events go in by groups. For each one the policy is asked, by the state of that moment,
what it would have done, as for any incumbent; then the group is written with its
rewards, in one commit, and learnt. So the log can be verified, the state is its fold,
and a service that is started on the store goes on from there. Ids make it resumable:
what a store has is passed over, and groups are made of what it has not, so that a run
that was stopped and its next one leave the same log as one run does.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, TypeAlias

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
from oddsmith.server.store.protocol import Line

__all__ = ["GROUP", "SENDER", "to_store"]

GROUP = 50
"""Events that are decided by one state and written with one commit."""
SENDER = "import"
"""Who sent the events of a history."""


def to_store(
    found: Iterable[PersonalizerEvent | Unread],
    opened: ExperimentSetup,
    report: ImportReport,
) -> None:
    """Write events into the store of an experiment, and keep a snapshot of what was
    learnt from them."""
    if opened.settings.rule != "first":
        raise InvalidInput(
            'service.reward_rule must be "first" for an import: its rewards are '
            "complete already"
        )
    importer = _Importer(opened, report)
    new = importer.new(by_line(report.events(found)))
    while group := list(islice(new, GROUP)):
        importer.write(group)
    importer.save()


_Slots: TypeAlias = Sequence[PersonalizerEvent]
"""The decisions of one event: one, or one for each of its slots."""


class _Importer:
    """A store, the state of what it has, and the report."""

    def __init__(self, opened: ExperimentSetup, report: ImportReport) -> None:
        self._opened, self._store, self._report = opened, opened.store, report
        self._folded: FoldState = restore(
            self._store, opened.policy, change=opened.change, statistics=Sums
        )
        self._arms = served_arms(self._store, self._folded.position)
        self._steps = self._store.tally().get("decision", 0)
        self._uniform = Uniforms(opened.seed)
        self._unsaved = 0

    def new(self, events: Iterator[_Slots]) -> Iterator[_Slots]:
        """The events that the store does not have; those that it has otherwise are
        named."""
        while some := list(islice(events, GROUP)):
            lines: dict[str, list[Line]] = {}
            for line in self._store.history(
                [one.id for slots in some for one in slots], EVERYTHING
            ):
                lines.setdefault(line.id, []).append(line)
            for slots in some:
                if not any(
                    line.kind == "decision"
                    for one in slots
                    for line in lines.get(one.id, ())
                ):
                    yield slots
                elif why := next(
                    (
                        why
                        for one in slots
                        if (why := _differs(one, lines.get(one.id, ())))
                    ),
                    "",
                ):
                    self._report.refuse(slots, why, "repeat")
                else:
                    self._report.known += 1
                    unrewarded = [
                        one
                        for one in slots
                        if not any(line.kind == "reward" for line in lines[one.id])
                    ]
                    if late := [
                        _reward(one) for one in unrewarded if one.reward is not None
                    ]:
                        self._append(late)

    def write(self, group: Sequence[_Slots]) -> None:
        """Decide, write and learn some events, each with all its slots or not at
        all."""
        now = now_of(self._folded, self._arms)
        made: list[Event] = []
        rewards: list[Event] = []
        for slots in group:
            before = self._steps
            try:
                made += [self._made(now, one) for one in slots]
            except InvalidInput as error:
                self._steps = before
                self._report.refuse(
                    slots, f"{self._opened.file.path} cannot take it: {error}"
                )
                continue
            rewards += [_reward(one) for one in slots if one.reward is not None]
        if made:
            self._append([*made, *rewards])
            self._learn()

    def _append(self, events: Sequence[Event]) -> None:
        for receipt in self._store.append(events).result():
            receipt.accepted()
        self._unsaved += sum(isinstance(event, Reward) for event in events)

    def _learn(self) -> None:
        """Bring the state to the end of the log."""
        opened = self._opened
        self._folded = advance(
            self._store,
            opened.policy,
            self._folded,
            change=opened.change,
            statistics=Sums,
        )
        self._report.unlearnt += len(self._folded.refused)
        self._folded = self._folded._replace(refused=())
        if self._unsaved >= self._opened.settings.snapshot_every:
            self.save()

    def save(self) -> None:
        """Keep a snapshot, where there is something new to keep."""
        if self._unsaved:
            self._unsaved = 0
            self._learn()
            save_snapshot(self._store, self._folded, time.time())

    def _made(self, now: Now, one: PersonalizerEvent) -> DecisionMade:
        """The event of a decision: the incumbent's arm and odds, and what the policy
        would have done."""
        check_json(one.context)
        check_json(one.features, "arms")
        eligible = (
            None
            if one.eligible.all()
            else [one.arms[place] for place in np.flatnonzero(one.eligible)]
        )
        call = call_of(
            now.policy, now.arms, one.context, one.features or list(one.arms), eligible
        )
        names = call.names if isinstance(call.names, Arms) else OfferedArms(call.names)
        call = replace(call, names=names)
        ours, votes = _asked(now, call, self._steps + 1)
        self._steps += 1
        check_odds(now.policy, ours, eligible=call.mask, step=self._steps)
        odds = np.zeros(len(names))
        odds[[names.number(name, "action") for name in one.arms]] = one.odds
        arm = names.number(one.arms[one.arm], "action")
        drawn = draw(
            ours,
            one.context,
            self._uniform(one.id),
            eligible=call.mask,
            step=self._steps,
        )
        own = OwnDraw(drawn.arm, ours.propensities)
        decision = call.named(
            by_incumbent(now.policy, drawn, ours=ours, arm=arm, odds=odds)
        )
        facts: Any = {"votes": votes, "shadow": True, "sender": SENDER, "own": own}
        place: Any = {"slate": one.slate, "slot": one.slot}
        return DecisionMade(
            one.id, decision, now.position, one.time.timestamp(), **facts, **place
        )


def _asked(now: Now, call: Call, step: int) -> tuple[Odds, Array | None]:
    """The policy's odds, and the votes they were made from."""
    if now.advise is None or now.weigh is None:
        return now.policy.odds(
            now.state, call.question, eligible=call.mask, step=step
        ), None
    advice = now.advise(now.state.experts, call.question, call.mask)
    offer = call.question if isinstance(call.question, Offer) else None
    if now.cast is not None:
        advice = now.cast(advice, eligible=call.mask, offer=offer)
    return now.weigh(
        now.state, advice, eligible=call.mask, step=step, offer=offer
    ), advice[1]


def _reward(one: PersonalizerEvent) -> Reward:
    """The event of a reward, of which there is one."""
    return Reward(one.id, one.reward or 0.0, one.time.timestamp(), sender=SENDER)


def _differs(one: PersonalizerEvent, lines: Sequence[Line]) -> str:
    """How an event differs from what the store has under its id; empty if it does
    not."""
    made = next((line for line in lines if line.kind == "decision"), None)
    what = (
        f"EventId {one.id!r:.60}"
        if one.slate is None
        else f"EventId {one.slate!r:.60}, slot {one.slot},"
    )
    if made is None:
        return f"EventId {one.slate!r:.60} is in the store with other slots"
    if made.arm != one.arms[one.arm]:
        return (
            f"{what} is in the store with the arm {made.arm!r:.60}; got "
            f"{one.arms[one.arm]!r:.60}"
        )
    kept = next((line.value for line in lines if line.kind == "reward"), one.reward)
    if kept != one.reward:
        return (
            f"{what} is in the store with the reward {kept!r} in [0, 1]; got "
            f"{one.reward!r}"
        )
    return ""
