"""Follower: the only writer of an experiment's state, by folding the log as it grows."""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from oddsmith.decision import Odds, State
from oddsmith.errors import StoreFailed, place_of
from oddsmith.experts.base import Experts
from oddsmith.experts.guarded import Guarded
from oddsmith.experts.outcomes import Advice
from oddsmith.policies.base import Policy
from oddsmith.policies.bounded import Bounded
from oddsmith.policies.judge import gts_inside
from oddsmith.service.opening import Opened
from oddsmith.storage.accounts import Account
from oddsmith.storage.base import Line
from oddsmith.storage.folding import Folded, Item, due_after, restore, settle, snapshot_of, with_decisions

__all__ = ["Follower", "Now"]

_log = logging.getLogger(__name__)
_SLICE = 200  # steps of a fold between two looks at other work
_BACKOFF = 0.5  # seconds before a store that failed is read again


class Now(NamedTuple):
    """What decisions are made with: a state, the position it is the fold up to, its policy, and facts about that.

    `experts` is None where it has none. `weigh` makes odds of what `advise` of the experts returns; both None where the
    policy weighs no votes. `inline`: no expert needs a thread. `in_place`: learning writes into the state.
    """

    state: State
    position: int
    policy: Policy
    experts: Experts | None = None
    advise: Callable[..., Advice] | None = None
    weigh: Callable[..., Odds] | None = None
    inline: bool = False
    in_place: bool = False


class Follower:
    """Folds new events into the state, one task for one experiment; decisions read `now`.

    A correction is folded anew, from the last snapshot before what it rewrites, beside the old state, which decisions
    go on with until the new one is there. An expert is loaded before it joins.
    `learning` is held while a state is written in place; `torn` says that one was left half written: it is never kept,
    and restored to what it was.
    """

    def __init__(self, opened: Opened, clock: Callable[[], float]) -> None:
        self._store, self._first, self._change, self._clock = opened.store, opened.policy, opened.change, clock
        self._load_expert, self._every = opened.load_expert, opened.settings.snapshot_every
        self._wake = asyncio.Event()
        self._reached: list[tuple[int, asyncio.Future[None]]] = []
        self._since = 0
        self.learning = asyncio.Lock()
        self.arms: dict[int, tuple[int, float]] = {}
        self.refolds = 0
        self.refused = 0  # rewards that the policy would not take, since the start or the last refold
        self.snapshot: int | None = None
        self.trouble = "its state is being restored"
        self.torn = False  # a state is being written in place, or was left half way
        self._folded = Folded(None, 0, opened.policy)
        self.now = Now(None, 0, opened.policy)

    async def begin(self) -> None:
        """Restore the state; progress is shown on a terminal."""
        self._become(await asyncio.to_thread(restore, self._store, self._first, change=self._change))
        kept = await asyncio.to_thread(self._store.snapshots)
        self.snapshot = kept[-1].position if kept else None
        self.trouble = ""

    def wake(self) -> None:
        """There may be something new."""
        self._wake.set()

    async def run(self, poll: float | None) -> None:
        """Follow the log for ever; `poll` is the number of seconds between two looks for events of other replicas."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(poll):  # wait_for may swallow the cancellation that ends this task
                    await self._wake.wait()
            self._wake.clear()
            try:
                if self.torn:
                    async with self.learning:
                        await self._mend()
                await self.catch_up()
                self.trouble = ""
            except Exception as error:  # an expert that learns may raise anything: the log is right, the state is not
                is_ours = isinstance(error, StoreFailed)
                trouble = str(error) if is_ours else f"learning failed: {place_of(error)}"
                if trouble != self.trouble:
                    _log.error("%s", trouble)
                self.trouble = trouble
                if not is_ours:
                    with suppress(Exception):  # from here it is soon restored the next time
                        await self.save()
                await asyncio.sleep(_BACKOFF)
                self._wake.set()

    async def reached(self, position: int) -> None:
        """Wait until the state knows all events up to a position."""
        if self.now.position < position:
            waiting = asyncio.get_running_loop().create_future()
            self._reached.append((position, waiting))
            self._wake.set()
            await waiting

    async def catch_up(self) -> None:
        """Fold what is new."""
        before = self._folded
        head, rewritten, steps = await asyncio.to_thread(self._look, before.position)
        if head == before.position:
            return
        if rewritten:
            self.refolds += 1
            self.refused = 0
            self._become(await asyncio.to_thread(restore, self._store, self._first, until=head, change=self._change))
        else:
            self._become(await self._settled(before, steps, head))
        self._count(steps)
        self._since += len(steps)
        if self._since >= self._every or rewritten:
            await self.save()

    async def save(self) -> None:
        """Keep a snapshot of the state as it is."""
        async with self.learning:  # a state that is written in place is packed between two updates
            folded = self._folded
            if folded.position == self.snapshot or folded.state is None or self.torn:
                return
            snapshot, content = snapshot_of(folded, self._clock())
        await asyncio.to_thread(self._store.keep, snapshot, content)
        self.snapshot, self._since = folded.position, 0

    def _look(self, after: int) -> tuple[int, int, list[Item]]:
        head = self._store.head()
        due = due_after(self._store, after, head)
        for item in due.items:
            if isinstance(item, Line) and item.kind == "expert added":
                self._load_expert(item.id)
        return head, due.rewritten, list(with_decisions(self._store, due.items))

    async def _settled(self, folded: Folded, steps: list[Item], head: int) -> Folded:
        """The state at `head`. States in between are not published: a value may come from a later correction."""
        if folded.policy.in_place:
            async with self.learning:
                self.torn = True  # and stays so where this is cancelled, for its thread goes on
                try:
                    if len(steps) <= _SLICE // 10:
                        settled = settle(folded, steps, head, self._change)
                    else:
                        settled = await asyncio.to_thread(settle, folded, steps, head, self._change)
                except Exception:
                    with suppress(Exception):  # decisions wait for it, and go on with what there is if it fails, too
                        await self._mend()
                    raise
                self.torn = False
                return settled
        for first in range(0, len(steps), _SLICE):
            folded = settle(folded, steps[first : first + _SLICE], head, self._change)
            await asyncio.sleep(0)
        return folded._replace(position=head)

    async def _mend(self) -> None:
        """The state as it was before it was left half way; the caller holds `learning`."""
        until = self._folded.position
        whole = await asyncio.to_thread(restore, self._store, self._first, until=until, change=self._change)
        self.torn = False
        self._become(whole._replace(refused=()))  # which were counted

    def _become(self, folded: Folded) -> None:
        policy, before = folded.policy, self.now
        if policy is before.policy and before.state is not None:
            self.now = before._replace(state=folded.state, position=folded.position)
        elif (inner := gts_inside(policy)) is None:
            self.now = Now(folded.state, folded.position, policy, policy.bank, in_place=policy.in_place)
        else:
            bank = inner.experts
            inline = isinstance(bank, Guarded) and bank.inline
            advise = bank.advise_or_refuse if isinstance(bank, Guarded) else bank.advise
            weigh = policy.weigh if isinstance(policy, Bounded) else inner.weigh
            facts = bank, advise, weigh, inline, policy.in_place
            self.now = Now(folded.state, folded.position, policy, *facts)
        self.refused += len(folded.refused)
        self._folded = folded._replace(refused=())  # counted: there may be no end of them
        waiting, self._reached = self._reached, []
        for position, future in waiting:
            if position > folded.position:
                self._reached.append((position, future))
            elif not future.done():
                future.set_result(None)

    def _count(self, steps: list[Item]) -> None:
        """Rewards by arm, as far as they were learnt since the start."""
        for item, decision in steps:
            if isinstance(item, Account) and decision is not None:
                rewards, total = self.arms.get(decision.number, (0, 0.0))
                self.arms[decision.number] = rewards + 1, total + item.value
