"""Experiment: a policy, its store, the follower and the writer, from the start of a
service to its end."""

import asyncio
import logging
import secrets
from collections import Counter, deque
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple

from oddsmith.core.arrays import Array
from oddsmith.core.decision import Decision
from oddsmith.core.draw import Uniforms
from oddsmith.core.errors import InvalidInput, OddsmithError, StoreFailed
from oddsmith.core.names import Arms
from oddsmith.core.policy import Policy
from oddsmith.server.experiment.assignment import Assigner
from oddsmith.server.experiment.clock import Alarms, Clock, DatabaseClock
from oddsmith.server.experiment.clock_hold import ClockHold
from oddsmith.server.experiment.follower import Follower
from oddsmith.server.experiment.news import LongPolls
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.experiment.threads import LongReads
from oddsmith.server.experiment.windows import Windows
from oddsmith.server.experiment.writer import Writer
from oddsmith.server.fold.accounts import Account
from oddsmith.server.store.changes import setting_of
from oddsmith.server.store.events import SETTINGS, Event
from oddsmith.server.store.postgres.reader import PostgresReader
from oddsmith.server.store.protocol import Erased, Line, Receipt, Store, decision_line
from oddsmith.server.store.rows import AnotherValue

__all__ = ["DrawnAdvice", "EVERYTHING", "Experiment", "OTHERS"]

_DAY = 86_400.0
_ERASE_EVERY = 3600.0  # seconds
_SETTINGS_EVERY = 1.0  # seconds between two looks at what other replicas have changed
_CLOCK_EVERY = 10.0  # seconds between two looks at the clock of a database
_THREADS = 8  # for experts that are other people's code
_THREADS_S = 10.0  # seconds that they are kept after the last decision
_LAST_ADVICE = 1_000  # decisions
OTHERS = "others"
"""What arms that are counted together are called."""
EVERYTHING = 2**62  # beyond any position
_log = logging.getLogger(__name__)


class Restoring(StoreFailed):
    """An experiment has no state yet: it is being read from the log."""


class DrawnAdvice(NamedTuple):
    """What the experts of a policy predicted of a drawn arm (N,)."""

    policy: Policy
    advice: Array


class Experiment:
    """One experiment, made inside a running event loop; `begin` before and `end` after
    use.

    While it is idle nothing of it wakes, but for windows that close and contexts that
    are to be erased. `settings` are those of the policy file, or of the last `change`
    of them in the log.
    """

    def __init__(
        self,
        opened: ExperimentSetup,
        clock: Clock,
        long_reads: LongReads | None = None,
        alarms: Alarms | None = None,
        long_polls: LongPolls | None = None,
    ) -> None:
        self.name = opened.file.name
        self.settings, self.scale = opened.settings, opened.scale
        self.store = opened.store
        self.setup = opened
        self.clock = _clock_of(opened.store, clock)
        self.clock_hold = ClockHold(self.name, opened.store, self.clock)
        self.long_reads, self.long_polls = (
            long_reads or LongReads(),
            long_polls or LongPolls(),
        )
        self.follower = Follower(opened, self.clock)
        self.writer = Writer(opened.store, self._written)
        self._threads: ThreadPoolExecutor | None = None
        self._threads_until = 0.0
        self.changing = asyncio.Lock()
        self.uniform = Uniforms(opened.seed)
        self.design = opened.file.design
        self.assigner: Assigner | None = None
        if self.design.control is not None:
            self.assigner = Assigner(self.design, self.uniform, self.clock)
        # here, for metrics
        self.decided = Counter(dict.fromkeys(self.arms or (OTHERS,), 0))
        self.warned: set[str] = set()  # experts whose failing is in the log
        self.last_advice: deque[DrawnAdvice] = deque(maxlen=_LAST_ADVICE)
        self.steps = 0
        # of this process: ids are new, and sorted by time
        self.mark = secrets.token_hex(5)
        self._alarms = alarms or Alarms(clock)
        self._windows: Windows | None = None
        self.change: Line | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._erasing: asyncio.Task[None] | None = None

    @property
    def has_units(self) -> bool:
        """Whether the holdout is by unit."""
        return self.assigner is not None and self.assigner.has_units

    @property
    def arms(self) -> Arms | None:
        """The arms that there are now; None where they come with calls."""
        return self.follower.now.arms

    def check_restored(self) -> None:
        """Refuse calls while there is no state to answer them by."""
        if self.follower.now.state is None:
            raise Restoring(
                f"experiment {self.name!r} is not ready: {self.follower.trouble}"
            )

    def advice_of(self, policy: Policy) -> list[Array]:
        """The last advice of this policy's experts on drawn arms, in this process."""
        return [one.advice for one in self.last_advice if one.policy is policy]

    def names_of(self, decision: Decision) -> Sequence[str]:
        """The arms that a decision was between: new ones stand behind those that there
        were."""
        return decision.arms or (self.arms or ())[: len(decision.propensities)]

    async def begin(self) -> None:
        """Restore the state, then follow the log."""
        await self._read_settings()
        await asyncio.to_thread(self._look_at_clock)
        self.steps = await asyncio.to_thread(
            lambda: self.store.tally().get("decision", 0)
        )
        if self.assigner is not None:
            first = await asyncio.to_thread(self.store.windows, 0, 1)
            self.assigner.started = first[0].time if first else None
        await self.follower.begin()  # from here on decisions are made
        self._begin(self.follower.run(self.setup.poll))
        self._keep_settings()
        if self.settings.shared:
            self._begin(self._follow_clock())
        if self.settings.shared and self.setup.writes:
            self._begin(self._follow_settings())

    async def end(self) -> None:
        """Stop following, keep a snapshot, let go of the store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if not self.follower.trouble:
                await self.follower.save()
        except StoreFailed as error:  # a restart then folds from an older one
            _log.warning("experiment %s keeps no snapshot: %s", self.name, error)
        finally:
            if self._threads is not None:  # a call that never returns is left behind
                self._threads.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(self.store.close)

    async def take_settings(self) -> None:
        """Take the settings that the log has last in place of those that there are."""
        if await self._read_settings():
            self._keep_settings()

    async def append(self, event: Event) -> Receipt:
        """The receipt of an event that is on disk; one that is refused raises."""
        (receipt,) = await self.writer.append([event])
        if receipt.refused is not None:
            raise self.in_units(receipt.refused)
        return receipt

    def in_units(self, refused: OddsmithError) -> OddsmithError:
        """What a store refuses, in the units that rewards are sent in."""
        return (
            refused.in_units(self.scale)
            if isinstance(refused, AnotherValue)
            else refused
        )

    async def unlearnable_ids(self, ids: Sequence[str]) -> set[str]:
        """Open decisions among these whose context was erased, where experts learn from
        contexts."""
        return (
            await asyncio.to_thread(self._erased_ids, ids)
            if self.follower.now.in_place
            else set()
        )

    def weights(self) -> dict[str, float]:
        """Each expert's weight; empty for policies without experts."""
        return {} if self.follower.now.experts is None else self.posterior()

    def posterior(self) -> dict[str, Any]:
        """What the policy knows, by name, as of `Agent.posterior`; empty for a policy
        that has no posterior."""
        now = self.follower.now
        try:
            return now.policy.named_posterior(now.state, self.arms)
        except InvalidInput:  # upper bounds are no posterior
            return {}

    def find(self, id: str) -> tuple[Line, Decision] | None:
        """The line of a decision and the decision, or None."""
        lines = self.store.history([id], EVERYTHING)
        made = decision_line(lines)
        return (
            None if made is None else (made, self.store.decisions([made.position])[0])
        )

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads for experts that are other people's code; an idle experiment has
        none."""
        self._threads_until = self._alarms.now() + _THREADS_S
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                _THREADS, thread_name_prefix=f"experts of {self.name}"
            )
            self._alarms.set(self._threads_until, self._end_threads)
        return self._threads

    def _end_threads(self) -> None:
        if self._threads is not None and self._alarms.now() < self._threads_until:
            self._alarms.set(self._threads_until, self._end_threads)
        elif self._threads is not None:
            self._threads.shutdown(wait=False)
            self._threads = None

    async def _read_settings(self) -> bool:
        """Whether the log has other settings than those that there are, which are then
        replaced."""
        changes = await asyncio.to_thread(self.store.of_setting, SETTINGS)
        if not changes or changes[-1] == self.change:
            return False
        self.change = changes[-1]
        self.settings = self.setup.settings.changed(setting_of(self.change), self.scale)
        return True

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        self._tasks.append(asyncio.create_task(work))
        return self._tasks[-1]

    def _keep_settings(self) -> None:
        """Close windows and erase contexts as the settings say from now on; what is
        only looked at is left alone."""
        if not self.setup.writes:
            return
        window, age = self.settings.window, self.settings.erase_after_days
        if window is not None and self._windows is not None:
            self._windows.change(window, self.settings.default)
        elif window is not None:
            close = window, self.settings.default
            self._windows = Windows(
                self.store,
                self.writer,
                self.clock,
                *close,
                unlearnable_ids=self.unlearnable_ids,
                hold=lambda: self.clock_hold.reason,
            )
            self._begin(
                self._windows.run(None if self.settings.shared else self._alarms)
            )
        if self._erasing is not None:
            self._erasing.cancel()
            self._tasks.remove(self._erasing)
            self._erasing = None
        if age is not None:
            if self.settings.shared:  # others may erase at any time
                self.follower.forget(for_good=True)
            self._erasing = self._begin(self._erase(age * _DAY))

    def _look_at_clock(self) -> None:
        if isinstance(self.clock, DatabaseClock):
            self.clock.look()
        if self.setup.writes:
            self.clock_hold.begin(trusts=self.setup.trusts_clock)

    async def _follow_clock(self) -> None:
        """Follow the clock of the database; while it does not answer, count on."""
        while isinstance(self.clock, DatabaseClock):
            await asyncio.sleep(_CLOCK_EVERY)
            with suppress(StoreFailed):
                await asyncio.to_thread(self.clock.look)

    async def _follow_settings(self) -> None:
        """Take the settings that other replicas change."""
        while True:
            await asyncio.sleep(_SETTINGS_EVERY)
            # requests that need an answer tell the store's trouble
            with suppress(StoreFailed):
                await self.take_settings()

    def _written(self) -> None:
        """There are new events on disk."""
        self.follower.wake()
        if self._windows is not None:
            self._windows.wake()

    def _erased_ids(self, ids: Sequence[str]) -> set[str]:
        accounts = {id: Account.of(self.store) for id in ids}
        for line in self.store.history(list(accounts), EVERYTHING):
            accounts[line.id].take(line)
        open_accounts = {
            id: account.made
            for id, account in accounts.items()
            if account.made and not account.settled
        }
        pairs = zip(
            open_accounts,
            self.store.decisions(list(open_accounts.values())),
            strict=True,
        )
        return {
            id
            for id, one in pairs
            if isinstance(one.context, Erased) or isinstance(one.features, Erased)
        }

    async def erase(self, age: float) -> int:
        """Erase contexts that are older, once they are learnt from; returns how
        many."""
        self.clock_hold.check()
        if self.follower.now.in_place:
            # what learns from contexts must not need them again
            await self.follower.save()
            if self.follower.trouble or self.follower.torn:
                raise StoreFailed(
                    f"they are still to be learnt from; {self.follower.trouble}"
                )
        erased = await asyncio.to_thread(self.store.erase, self.clock() - age)
        self.follower.forget()
        return erased

    async def _erase(self, age: float) -> None:
        """Every hour, erase contexts that are older."""
        while True:
            try:
                await self.erase(age)
            except StoreFailed as error:  # again in an hour
                _log.warning(
                    "experiment %s could not erase contexts: %s", self.name, error
                )
            await asyncio.sleep(_ERASE_EVERY)


def _clock_of(store: Store, clock: Clock) -> Clock:
    """The clock of the database that replicas share, else that of the machine."""
    if isinstance(store, PostgresReader):
        return DatabaseClock(clock, store.clock)
    return clock
