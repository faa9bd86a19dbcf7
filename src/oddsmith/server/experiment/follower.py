"""Follower: the only writer of an experiment's state, by folding the log as it
grows."""

import asyncio
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from math import inf
from typing import NamedTuple

from oddsmith.core.decision import Odds, State
from oddsmith.core.errors import StoreFailed, place_of
from oddsmith.core.experts import Experts
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.experts.guard.guard import Guarded
from oddsmith.experts.guard.outcomes import Advice
from oddsmith.server.experiment.arms import arms_after, served_arms
from oddsmith.server.experiment.news import PositionWaiters
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.fold.accounts import Count
from oddsmith.server.fold.fold import (
    FoldState,
    HalfWritten,
    recover,
    settle,
    snapshot_of,
)
from oddsmith.server.fold.judge import gts_inside
from oddsmith.server.fold.ladder import Ladder
from oddsmith.server.fold.protocol import Step
from oddsmith.server.fold.steps import Due, due_after, with_decisions
from oddsmith.server.statistics import Sums
from oddsmith.server.store.protocol import ContextErased, Line

__all__ = ["Follower", "Now", "now_of"]

_log = logging.getLogger(__name__)
# of a fold between two looks at other work
_SLICE = 200  # steps
_SLICE_ARMS = 10_000  # arms of the decisions whose statistics these steps change
_PAUSE = 1.0  # after a refold, as a part of the time it took
_NOTHING = Due([], 0)
_GATHER = 0.25  # seconds from one look to the next while a refold waits
_BACKOFF = 0.5  # seconds before a store that failed is read again


class Now(NamedTuple):
    """What decisions are made with: a state, the position it is the fold up to, its
    policy, and facts about that.

    `experts` is None where it has none. `weigh` makes odds of what `advise` of the
    experts returns; both None where the policy weighs no votes. `cast` puts the advice
    within bounds; None where there are none. `inline`: no expert needs a thread.
    `in_place`: learning writes into the state. `arms` are those of the state; None
    where they come with calls.
    """

    state: State
    position: int
    policy: Policy
    experts: Experts | None = None
    advise: Callable[..., Advice] | None = None
    weigh: Callable[..., Odds] | None = None
    inline: bool = False
    in_place: bool = False
    arms: Arms | None = None
    cast: Callable[..., Advice] | None = None


class Follower:
    """Folds new events into the state, one task for one experiment; decisions read
    `now`.

    A line that rewrites history is folded anew, from the last state before what it
    rewrites, kept in memory or as a snapshot, beside the old state, which decisions go
    on with until the new one is there: the fold up to the line before. Such lines are
    gathered: after a refold the next one waits as long as the last one took, so that
    refolds take half of the time at most. An expert is loaded before it joins; one that
    raises while it learns is refused. `learning` is held while a state is written in
    place; `torn` says that one was left half written: it is never kept, and restored to
    what it was.
    """

    def __init__(self, opened: ExperimentSetup, clock: Callable[[], float]) -> None:
        self._opened, self._store, self._change, self._clock = (
            opened,
            opened.store,
            opened.change,
            clock,
        )
        self._load_expert, self._every = (
            opened.load_expert,
            opened.settings.snapshot_every,
        )
        self._name, self._wake = opened.file.name, asyncio.Event()
        self._reached = PositionWaiters()
        self.unsaved = 0  # rewards learnt since the newest snapshot, or since the start
        self._ladder = Ladder()
        self._oldest = inf
        self._next_refold, self._gathered_at = 0.0, -1
        self.learning = asyncio.Lock()
        self.refolds, self.refold_s = 0, 0.0
        self.behind = 0  # events that were seen in the log and are not in the state
        # rewards that the policy would not take, since the start or the last refold
        self.refused = 0
        self.snapshot: int | None = None
        self.snapshot_time: float | None = None
        self.trouble = "it is starting, and its state is read from the log"
        self.torn = False  # a state is being written in place, or was left half way
        self._folded = FoldState(None, 0, opened.policy)
        self._arms = opened.arms
        self.now = Now(None, 0, opened.policy, arms=opened.arms)

    async def begin(self) -> None:
        """Restore the state; progress is shown on a terminal."""
        folded = await asyncio.to_thread(self._restored)
        self._arms = await asyncio.to_thread(served_arms, self._store, folded.position)
        self._become(folded)
        self._ladder.keep(self._folded, 0)
        kept = await asyncio.to_thread(self._store.snapshots)
        if kept:
            self.snapshot, self.snapshot_time = kept[-1].position, kept[-1].time
        self.trouble = ""

    @property
    def sums(self) -> Sums:
        """What pages show of the log, as of the state."""
        sums = self._folded.sums
        return sums if isinstance(sums, Sums) else Sums()

    @property
    def lag_s(self) -> float:
        """How long the oldest event has waited that was seen in the log and is not in
        the state."""
        return max(0.0, self._clock() - self._oldest)

    def forget(self, *, for_good: bool = False) -> None:
        """Contexts are erased: what is folded again begins where it would after a
        restart, and on every replica."""
        self._ladder.forget(for_good)

    def wake(self) -> None:
        """There may be something new."""
        self._wake.set()

    async def run(self, poll: float | None) -> None:
        """Follow the log for ever; `poll` is the number of seconds between two looks
        for events of other replicas.

        Without it nothing is looked at until there is something new.
        """
        while True:
            pause = _GATHER if poll is None and self._gathered_at >= 0 else poll
            with suppress(TimeoutError):
                # wait_for may swallow the cancellation that ends this task
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            try:
                if self.torn:
                    async with self.learning:
                        await self._mend()
                await self.catch_up(gathers=True)
                self.trouble = ""
            # an expert that learns may raise anything: the log is right, the state is
            # not
            except Exception as error:
                is_ours = isinstance(error, StoreFailed)
                trouble = (
                    str(error) if is_ours else f"learning failed: {place_of(error)}"
                )
                if trouble != self.trouble:
                    _log.error("experiment %s does not learn: %s", self._name, trouble)
                self.trouble = trouble
                if not is_ours:
                    # from here it is soon restored the next time
                    with suppress(Exception):
                        await self.save()
                await asyncio.sleep(_BACKOFF)
                self._wake.set()

    async def wait_for(self, position: int) -> None:
        """Wait until the state knows all events up to a position."""
        if self.now.position < position:
            self._wake.set()
            await self._reached.wait(position)

    async def wait_beyond(self, after: int) -> None:
        """Wait until the state is beyond a position; nothing is looked at for it."""
        if self.now.position <= after:
            await self._reached.wait(after + 1)

    async def catch_up(self, *, gathers: bool = False) -> None:
        """Fold what is new; with `gathers`, only up to what rewrites history, until a
        refold may be taken again."""
        before = self._folded
        if (
            gathers
            and before.position == self._gathered_at
            and time.monotonic() < self._next_refold
        ):
            return
        head, due, steps, left = await asyncio.to_thread(
            self._look, before.position, gathers
        )
        self.behind, self._oldest = (
            due.waiting + left.waiting,
            min(due.oldest, left.oldest),
        )
        self._gathered_at = head if left.rewritten else -1
        if head == before.position:
            return
        if due.rewritten:
            self.refused = 0
            self._ladder.cut(due.rewritten)
            folded = await self._refolded(head)
        else:
            folded = await self._settled(before, steps, head)
        self._arms = arms_after(steps, self._arms, self._name)
        self._become(folded)
        self.behind, self._oldest = left.waiting, left.oldest
        learnt = _learnt(steps)
        self.unsaved += learnt
        self._ladder.keep(self._folded, learnt)
        if self.unsaved >= self._every or due.rewritten:
            await self.save()

    async def _refolded(self, head: int) -> FoldState:
        """The state at `head`, folded anew beside the one that is."""
        begun = time.monotonic()
        folded = await asyncio.to_thread(
            recover, self._store, head, self._start_at, self._change
        )
        ended = time.monotonic()
        self.refolds += 1
        self.refold_s += ended - begun
        self._next_refold = ended + _PAUSE * (ended - begun)
        return folded

    def _restored(self) -> FoldState:
        return recover(self._store, self._store.head(), self._start_at, self._change)

    def _start_at(self, latest: int) -> FoldState:
        """The newest state at or before a position, from memory or from the store."""
        kept = self._ladder.before(latest)
        if kept is not None and not any(
            kept.position < one.position <= latest for one in self._store.snapshots()
        ):
            return kept
        return self._opened.start_before(latest)

    async def save(self) -> None:
        """Keep a snapshot of the state as it is."""
        # a state that is written in place is packed between two updates
        async with self.learning:
            folded = self._folded
            if (
                folded.position == (self.snapshot or 0)
                or folded.state is None
                or self.torn
                or not self._opened.writes
            ):
                return
            # there may be megabytes
            snapshot, content = await asyncio.to_thread(
                snapshot_of, folded, self._clock()
            )
        await asyncio.to_thread(self._store.keep, snapshot, content)
        self.snapshot, self.snapshot_time, self.unsaved = (
            folded.position,
            snapshot.time,
            0,
        )

    def _look(self, after: int, gathers: bool) -> tuple[int, Due, list[Step], Due]:
        """The position to go on to, what is due up to there, with decisions, and what
        is left for later."""
        head, left = self._store.head(), _NOTHING
        due = due_after(self._store, after, head)
        if due.since is not None and gathers and time.monotonic() < self._next_refold:
            whole, head = due, due.since.position - 1
            due = due_after(self._store, after, head)
            left = whole._replace(
                waiting=whole.waiting - due.waiting,
                oldest=whole.since.time if whole.since else inf,
            )
        for item in due.items:
            if isinstance(item, Line) and item.kind == "expert added":
                self._load_expert(item.id)
        return (
            head,
            due,
            list(with_decisions(self._store, due.items, self._folded.sums)),
            left,
        )

    async def _settled(
        self, folded: FoldState, steps: list[Step], head: int
    ) -> FoldState:
        """The state at `head`. States in between are not published: a value may come
        from a later correction."""
        if folded.policy.in_place:
            async with self.learning:
                # and stays so where this is cancelled, for its thread goes on
                self.torn = True
                try:
                    is_short = len(next(_slices(steps), [])) == len(steps)
                    if is_short and _learnt(steps) <= _SLICE // 10:
                        settled = settle(folded, steps, head, self._change)
                    else:
                        settled = await asyncio.to_thread(
                            settle, folded, steps, head, self._change
                        )
                except (HalfWritten, ContextErased):
                    # which decisions wait for
                    settled = await self._settled_anew(folded, head)
                except Exception:
                    # decisions wait for it, and go on with what there is if it fails,
                    # too
                    with suppress(Exception):
                        await self._mend()
                    raise
                self.torn = False
                return settled
        try:
            for some in _slices(steps):
                folded = settle(folded, some, head, self._change)
                await asyncio.sleep(0)
        except ContextErased:
            return await self._settled_anew(folded, head)
        return folded._replace(position=head)

    async def _settled_anew(self, folded: FoldState, head: int) -> FoldState:
        """The state at `head` from a copy, or from a later snapshot: a step could not
        be taken from this one."""
        settled = await self._refolded(head)
        counted = (
            position for position in settled.refused if position > folded.position
        )
        return settled._replace(refused=tuple(counted))

    async def _mend(self) -> None:
        """The state as it was before it was left half way; the caller holds
        `learning`."""
        until = self._folded.position
        whole = await asyncio.to_thread(
            recover, self._store, until, self._start_at, self._change
        )
        self.torn = False
        self._become(whole._replace(refused=()))  # which were counted

    def _become(self, folded: FoldState) -> None:
        before, arms = self.now, self._arms
        if folded.policy is before.policy and before.state is not None:
            self.now = before._replace(
                state=folded.state, position=folded.position, arms=arms
            )
        else:
            self.now = now_of(folded, arms)
        self.refused += len(folded.refused)
        # counted: there may be no end of them
        self._folded = folded._replace(refused=())
        self._reached.reach(folded.position)


def now_of(folded: FoldState, arms: Arms | None) -> Now:
    """What decisions are made with by this state, over arms that there are, or that
    come with calls."""
    policy, inner = folded.policy, gts_inside(folded.policy)
    if inner is None:
        return Now(
            folded.state,
            folded.position,
            policy,
            policy.bank,
            in_place=policy.in_place,
            arms=arms,
        )
    bank = inner.experts
    inline = isinstance(bank, Guarded) and bank.inline
    advise = bank.advise_or_refuse if isinstance(bank, Guarded) else bank.advise
    return Now(
        folded.state,
        folded.position,
        policy,
        bank,
        advise,
        policy.weigh,
        inline,
        policy.in_place,
        arms,
        None if policy is inner else policy.cast,
    )


def _slices(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """The steps in parts that are short work: of few steps, with few arms in all."""
    part: list[Step] = []
    arms = 0
    for step in steps:
        size = 0 if step.drawn is None else len(step.drawn.odds)
        if part and (len(part) >= _SLICE or arms + size > _SLICE_ARMS):
            yield part
            part = []
            arms = 0
        part.append(step)
        arms += size
    if part:
        yield part


def _learnt(steps: list[Step]) -> int:
    """How many of these steps are rewards: decisions that are made are only counted."""
    return sum(isinstance(step.item, Count) for step in steps)
