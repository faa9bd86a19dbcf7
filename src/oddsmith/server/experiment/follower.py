"""Follower: updates an experiment's state when new events are written to the log."""

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
from oddsmith.server.experiment.arms import served_arms
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
from oddsmith.server.store.changes import arms_of
from oddsmith.server.store.protocol import ContextErased, Line

__all__ = ["Follower", "Now", "PositionWaiters", "now_of"]

_log = logging.getLogger(__name__)
# A fold yields to other tasks after this number of steps, or of arms in their
# decisions.
_SLICE = 200
_SLICE_ARMS = 10_000
_PAUSE = 1.0  # after a refold, wait this multiple of its duration before the next one
_NOTHING = Due([], 0)
_GATHER = 0.25  # seconds between two checks while a refold is postponed
_BACKOFF = 0.5  # seconds before retrying a store that failed


class Now(NamedTuple):
    """The state that decisions use, as of a position, with its policy.

    `advise` asks the experts, `cast` applies bounds to their advice, and `weigh`
    computes propensities from it; each is None if the policy has no such step. If
    `inline`, no expert needs a thread. If `in_place`, learning changes the state in
    place. `arms` are the arms of the state; None if calls pass them.
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


class _Look(NamedTuple):
    """The steps to apply next, up to the position `head`. `due` describes these steps,
    and `left` describes the lines that are postponed."""

    head: int
    due: Due
    steps: list[Step]
    left: Due = _NOTHING


class PositionWaiters:
    """Callers that wait for positions; a cancelled caller is removed at once."""

    def __init__(self) -> None:
        self._waiting: dict[asyncio.Future[None], int] = {}

    async def wait(self, position: int) -> None:
        """Wait until `reach` is called with this position, or a later one."""
        future = asyncio.get_running_loop().create_future()
        self._waiting[future] = position
        try:
            await future
        finally:
            self._waiting.pop(future, None)

    def reach(self, position: int) -> None:
        """Wake the callers that wait for this position, or an earlier one."""
        for future, wanted in self._waiting.items():
            if wanted <= position and not future.done():
                future.set_result(None)


class Follower:
    """Updates the state with new events, in one task per experiment. Decisions use the
    state in `now`.

    If a line changes an earlier event, such as a correction, the state is computed
    again (a refold), starting from the last state before that event in memory or in a
    snapshot. Decisions use the old state until the new one is complete. After a refold,
    the next one is delayed for as long as the last one took, so that refolds take at
    most half of the time. All such lines in the meantime are handled by one refold.

    An expert is loaded before it joins. A reward is rejected if an expert raises an
    error while it learns. `learning` is the lock that is held while a state is updated
    in place. If `torn`, the state may be half updated: it is never saved, and will be
    restored.
    """

    def __init__(self, setup: ExperimentSetup, clock: Callable[[], float]) -> None:
        self._setup = setup
        self._store = setup.store
        self._change = setup.change
        self._clock = clock
        self._name = setup.file.name
        self._wake = asyncio.Event()
        self._waiters = PositionWaiters()
        # rewards learned since the newest snapshot, or since the start
        self.unsaved = 0
        self._ladder = Ladder()
        self._oldest = inf
        self._next_refold = 0.0
        # position before the line that requires a refold, which is postponed
        self._gathered_at = -1
        self.learning = asyncio.Lock()
        self.refolds = 0
        self.refold_s = 0.0
        self.behind = 0  # events in the log that the state does not contain yet
        self.refused = 0  # rewards refused since the start or the last refold
        self.snapshot: int | None = None
        self.snapshot_time: float | None = None
        self.trouble = "it is starting, and its state is read from the log"
        self.torn = False  # the state is being updated in place, or only half updated
        self._folded = FoldState(None, 0, setup.policy)
        self._arms = setup.arms
        self.now = Now(None, 0, setup.policy, arms=setup.arms)

    async def begin(self) -> None:
        """Restore the state; progress is shown on a terminal."""
        head = await asyncio.to_thread(self._store.head)
        folded = await self._recover(head)
        self._arms = await asyncio.to_thread(served_arms, self._store, folded.position)
        self._become(folded)
        self._ladder.keep(self._folded, 0)
        kept = await asyncio.to_thread(self._store.snapshots)
        if kept:
            self.snapshot = kept[-1].position
            self.snapshot_time = kept[-1].time
        self.trouble = ""

    @property
    def sums(self) -> Sums:
        """The statistics of the log, as of the state."""
        sums = self._folded.sums
        return sums if isinstance(sums, Sums) else Sums()

    @property
    def lag_s(self) -> float:
        """Age in seconds of the oldest event that the state does not contain."""
        return max(0.0, self._clock() - self._oldest)

    def forget(self, *, for_good: bool = False) -> None:
        """Delete the states in memory, because contexts were erased.

        A refold then starts from the same state as after a restart, and as on every
        replica.
        """
        self._ladder.forget(for_good)

    def wake(self) -> None:
        """Check for new events."""
        self._wake.set()

    async def run(self, poll: float | None) -> None:
        """Follow the log forever.

        `poll` is the number of seconds between two checks for events of other replicas;
        without it, a check runs only after `wake`.
        """
        while True:
            pause = poll
            if pause is None and self._gathered_at >= 0:
                pause = _GATHER
            with suppress(TimeoutError):
                # use timeout(): asyncio.wait_for may swallow the cancellation that ends
                # this task
                async with asyncio.timeout(pause):
                    await self._wake.wait()
            self._wake.clear()
            try:
                if self.torn:
                    async with self.learning:
                        await self._mend()
                await self.catch_up(gathers=True)
                self.trouble = ""
            except Exception as error:  # experts may raise anything while learning
                await self._note_trouble(error)
                await asyncio.sleep(_BACKOFF)
                self._wake.set()

    async def _note_trouble(self, error: Exception) -> None:
        is_ours = isinstance(error, StoreFailed)
        trouble = str(error)
        if not is_ours:
            trouble = f"learning failed: {place_of(error)}"
        if trouble != self.trouble:
            _log.error("experiment %s does not learn: %s", self._name, trouble)
        self.trouble = trouble
        if not is_ours:
            # the next start then continues from this state
            with suppress(Exception):
                await self.save()

    async def wait_for(self, position: int) -> None:
        """Wait until the state contains all events up to a position."""
        if self.now.position < position:
            self._wake.set()
            await self._waiters.wait(position)

    async def wait_beyond(self, after: int) -> None:
        """Wait until the state is beyond a position, without checking for new
        events."""
        if self.now.position <= after:
            await self._waiters.wait(after + 1)

    async def catch_up(self, *, gathers: bool = False) -> None:
        """Fold new events.

        With `gathers`, stop before a line that requires a refold, until it is time for
        the next refold.
        """
        before = self._folded
        is_gathering = gathers and before.position == self._gathered_at
        if is_gathering and time.monotonic() < self._next_refold:
            return
        look = await asyncio.to_thread(self._look, before, gathers)
        due = look.due
        left = look.left
        self.behind = due.waiting + left.waiting
        self._oldest = min(due.oldest, left.oldest)
        self._gathered_at = look.head if left.rewritten else -1
        if look.head == before.position:
            return
        if due.rewritten:
            self.refused = 0
            self._ladder.cut(due.rewritten)
            folded = await self._refold(look.head)
        else:
            folded = await self._advance(before, look.steps, look.head)
        self._arms = _arms_after(look.steps, self._arms, self._name)
        self._become(folded)
        self.behind = left.waiting
        self._oldest = left.oldest
        n_rewards = _count_rewards(look.steps)
        self.unsaved += n_rewards
        self._ladder.keep(self._folded, n_rewards)
        if self.unsaved >= self._setup.settings.snapshot_every or due.rewritten:
            await self.save()

    async def _recover(self, until: int) -> FoldState:
        return await asyncio.to_thread(
            recover, self._store, until, self._start_at, self._change
        )

    async def _refold(self, head: int) -> FoldState:
        """Compute the state at `head` again, without changing the current state, and
        return it."""
        start = time.monotonic()
        folded = await self._recover(head)
        end = time.monotonic()
        self.refolds += 1
        self.refold_s += end - start
        self._next_refold = end + _PAUSE * (end - start)
        return folded

    def _start_at(self, latest: int) -> FoldState:
        """Return the newest state at or before a position, from memory or the store."""
        recent = self._ladder.before(latest)
        if recent is None:
            return self._setup.start_before(latest)
        for snapshot in self._store.snapshots():
            if recent.position < snapshot.position <= latest:
                return self._setup.start_before(latest)
        return recent

    async def save(self) -> None:
        """Save a snapshot of the current state."""
        # The state may be updated in place: hold the lock while it is serialized.
        async with self.learning:
            folded = self._folded
            if self.torn or folded.state is None or not self._setup.writes:
                return
            if folded.position == (self.snapshot or 0):
                return
            # in a thread, because serializing a large state takes long
            snapshot, content = await asyncio.to_thread(
                snapshot_of, folded, self._clock()
            )
        await asyncio.to_thread(self._store.keep, snapshot, content)
        self.snapshot = folded.position
        self.snapshot_time = snapshot.time
        self.unsaved = 0

    def _look(self, folded: FoldState, gathers: bool) -> _Look:
        """Read the next steps, with their decisions."""
        head = self._store.head()
        left = _NOTHING
        after = folded.position
        due = due_after(self._store, after, head, folded.freezes)
        since = due.since
        if since is not None and gathers and time.monotonic() < self._next_refold:
            whole = due
            head = since.position - 1
            due = due_after(self._store, after, head, folded.freezes)
            waiting = whole.waiting - due.waiting
            left = whole._replace(waiting=waiting, oldest=since.time)
        for item in due.items:
            if isinstance(item, Line) and item.kind == "expert added":
                self._setup.load_expert(item.id)
        steps = list(with_decisions(self._store, due.items, folded.sums))
        return _Look(head, due, steps, left)

    async def _advance(
        self, folded: FoldState, steps: list[Step], head: int
    ) -> FoldState:
        """Return the state at `head`.

        States in between are not published, because they may contain values from later
        corrections.
        """
        if folded.policy.in_place:
            async with self.learning:
                return await self._advance_in_place(folded, steps, head)
        try:
            for some in _slices(steps):
                folded = settle(folded, some, head, self._change)
                await asyncio.sleep(0)
        except ContextErased:
            return await self._refold_after(folded.position, head)
        return folded._replace(position=head)

    async def _advance_in_place(
        self, folded: FoldState, steps: list[Step], head: int
    ) -> FoldState:
        """Return the state at `head`; the caller holds `learning`."""
        # The flag stays set if the call is cancelled, because its thread continues to
        # run.
        self.torn = True
        try:
            is_short = len(next(_slices(steps), [])) == len(steps)
            if is_short and _count_rewards(steps) <= _SLICE // 10:
                advanced = settle(folded, steps, head, self._change)
            else:
                advanced = await asyncio.to_thread(
                    settle, folded, steps, head, self._change
                )
        except (HalfWritten, ContextErased):
            advanced = await self._refold_after(folded.position, head)
        except Exception:
            # Decisions are blocked until the state is restored. If restoring fails,
            # they use the half-updated state.
            with suppress(Exception):
                await self._mend()
            raise
        self.torn = False
        return advanced

    async def _refold_after(self, position: int, head: int) -> FoldState:
        """Return the state at `head`, computed again because a step after `position`
        failed."""
        folded = await self._refold(head)
        new = tuple(one for one in folded.refused if one > position)
        return folded._replace(refused=new)

    async def _mend(self) -> None:
        """Restore a state that is half updated; the caller holds `learning`."""
        whole = await self._recover(self._folded.position)
        self.torn = False
        # the refusals of these rewards are counted already
        self._become(whole._replace(refused=()))

    def _become(self, folded: FoldState) -> None:
        """Publish a state to decisions."""
        before = self.now
        arms = self._arms
        if folded.policy is before.policy and before.state is not None:
            self.now = before._replace(
                state=folded.state, position=folded.position, arms=arms
            )
        else:
            self.now = now_of(folded, arms)
        self.refused += len(folded.refused)
        # keep only the count, because the list would grow forever
        self._folded = folded._replace(refused=())
        self._waiters.reach(folded.position)


def now_of(folded: FoldState, arms: Arms | None) -> Now:
    """Return the state in the form that decisions use. `arms` is None if calls pass
    their arms."""
    policy = folded.policy
    now = Now(
        folded.state,
        folded.position,
        policy,
        policy.bank,
        in_place=policy.in_place,
        arms=arms,
    )
    inner = gts_inside(policy)
    if inner is None:
        return now
    bank = inner.experts
    now = now._replace(experts=bank, advise=bank.advise, weigh=policy.weigh)
    if isinstance(bank, Guarded):
        now = now._replace(advise=bank.advise_or_refuse, inline=bank.inline)
    if policy is not inner:
        now = now._replace(cast=policy.cast)
    return now


def _arms_after(
    steps: Sequence[Step], arms: Arms | None, experiment: str
) -> Arms | None:
    """Return the arms after these steps of a fold, and report new ones in the service's
    log."""
    for step in steps:
        names = None
        if isinstance(step.item, Line):
            names = arms_of(step.item)
        if names is not None:
            arms = Arms(names)
            _log.warning(
                "experiment %s has the arms %s from now on: its file must name them",
                experiment,
                list(arms),
            )
    return arms


def _slices(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Split the steps into short lists."""
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


def _count_rewards(steps: list[Step]) -> int:
    return sum(isinstance(step.item, Count) for step in steps)
