"""Experiment: a policy with its store, follower and writer while it is served."""

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
from oddsmith.server.experiment.follower import Follower, Now
from oddsmith.server.experiment.guardrails import Guardrails
from oddsmith.server.experiment.operator import Operator
from oddsmith.server.experiment.start import ExperimentSetup
from oddsmith.server.experiment.threads import LongPolls, LongReads
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
# seconds between two checks for settings changed by other replicas
_SETTINGS_EVERY = 1.0
_CLOCK_EVERY = 10.0  # seconds between two reads of the database clock
_THREADS = 8  # maximum number of threads for experts from outside this library
_THREADS_S = 10.0  # idle threads end after this number of seconds
_LAST_ADVICE = 1_000  # decisions
OTHERS = "others"
"""Label of arms that are counted together in metrics."""
EVERYTHING = 2**62  # larger than any position in a log
_log = logging.getLogger(__name__)


class Restoring(StoreFailed):
    """Error: an experiment has no state yet, because its log is still being read."""


class DrawnAdvice(NamedTuple):
    """The predictions of a policy's experts for a drawn arm (N,)."""

    policy: Policy
    advice: Array


class Experiment:
    """One experiment. It must be created in a running event loop; await `begin` before
    its use and `end` afterwards.

    While it is idle, it wakes only to close windows and to erase contexts. `settings`
    come from the policy file, or from the last `change` in the log.
    """

    def __init__(
        self,
        setup: ExperimentSetup,
        clock: Clock,
        long_reads: LongReads | None = None,
        alarms: Alarms | None = None,
        long_polls: LongPolls | None = None,
    ) -> None:
        self.name = setup.file.name
        self.settings = setup.settings
        self.scale = setup.scale
        self.store = setup.store
        self.setup = setup
        self.clock = _clock_of(setup.store, clock)
        self.clock_hold = ClockHold(self.name, setup.store, self.clock)
        self.long_reads = long_reads or LongReads()
        self.long_polls = long_polls or LongPolls()
        self.follower = Follower(setup, self.clock)
        self.writer = Writer(setup.store, self._wake)
        self._threads: ThreadPoolExecutor | None = None
        self._threads_until = 0.0
        self.changing = asyncio.Lock()
        self.uniform = Uniforms(setup.seed)
        self.design = setup.file.design
        self.assigner: Assigner | None = None
        if self.design.control is not None:
            self.assigner = Assigner(self.design, self.uniform, self.clock)
        self.operator = Operator(
            setup, self.follower, self.writer, self.clock, self.assigner
        )
        self.guardrails = Guardrails(
            self.design.metrics, self.follower, self.operator, lambda: self.arms
        )
        # number of decisions of this process by arm, for metrics
        self.decided = Counter(dict.fromkeys(self.arms or (OTHERS,), 0))
        self.warned: set[str] = set()  # experts with a failure that was logged already
        self.last_advice: deque[DrawnAdvice] = deque(maxlen=_LAST_ADVICE)
        self.steps = 0
        # random part of the ids of this process, so that ids from a restart never
        # collide
        self.mark = secrets.token_hex(5)
        self._alarms = alarms or Alarms(clock)
        self._windows: Windows | None = None
        self.change: Line | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._erasing: asyncio.Task[None] | None = None

    @property
    def now(self) -> Now:
        """The state that decisions use, with the bounds and exploration that operators
        have set."""
        if self.operator.changes_policy:
            return self.operator.now
        return self.follower.now

    @property
    def has_units(self) -> bool:
        """Whether the holdout is assigned by unit."""
        return self.assigner is not None and self.assigner.has_units

    @property
    def arms(self) -> Arms | None:
        """The current arms; None if calls pass their arms."""
        return self.follower.now.arms

    def check_restored(self) -> None:
        """Raise `Restoring` while there is no state."""
        if self.follower.now.state is None:
            raise Restoring(
                f"experiment {self.name!r} is not ready: {self.follower.trouble}"
            )

    def advice_of(self, policy: Policy) -> list[Array]:
        """Return recent advice of this policy's experts on drawn arms, from this
        process."""
        return [one.advice for one in self.last_advice if one.policy is policy]

    def names_of(self, decision: Decision) -> Sequence[str]:
        """Return the names of a decision's arms, without arms that were added later."""
        offered: Sequence[str] | None = decision.arms
        if offered:
            return offered
        arms = self.arms or ()
        return arms[: len(decision.propensities)]

    async def begin(self) -> None:
        """Restore the state, then follow the log."""
        await self._read_settings()
        await self.operator.refresh()
        await asyncio.to_thread(self._look_at_clock)
        tally = await asyncio.to_thread(self.store.tally)
        self.steps = tally.get("decision", 0)
        await self.find_start()
        await self.follower.begin()  # decisions are possible from here on
        self._begin(self.follower.run(self.setup.poll))
        self._keep_settings()
        if self.settings.shared:
            self._begin(self._follow_clock())
        if self.settings.shared and self.setup.writes:
            self._begin(self._follow_settings())
        if self.settings.shared:
            self._begin(self.operator.follow())
        if self.setup.writes and self.guardrails.metrics:
            self._begin(self.guardrails.run())

    async def find_start(self) -> None:
        """Count the days of the holdout from the first decision in the log, which
        another replica may have made."""
        if self.assigner is not None and self.assigner.needs_start:
            for first in await asyncio.to_thread(self.store.windows, 0, 1):
                self.assigner.start(first.time)

    async def end(self) -> None:
        """Stop following the log, save a snapshot, and close the store."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        try:
            if not self.follower.trouble:
                await self.follower.save()
        # not fatal: a restart then starts from an older snapshot
        except StoreFailed as error:
            _log.warning(
                "experiment %s could not store a snapshot: %s", self.name, error
            )
        finally:
            if self._threads is not None:  # do not wait for calls that never return
                self._threads.shutdown(wait=False, cancel_futures=True)
            await asyncio.to_thread(self.store.close)

    async def take_settings(self) -> None:
        """Apply the last settings of the log."""
        if await self._read_settings():
            self._keep_settings()

    async def append(self, event: Event) -> Receipt:
        """Write an event, and return its receipt; raise if it is refused."""
        (receipt,) = await self.writer.append([event])
        if receipt.refused is not None:
            raise self.in_units(receipt.refused)
        return receipt

    def in_units(self, refused: OddsmithError) -> OddsmithError:
        """Return the error of a store with rewards in the caller's units."""
        if isinstance(refused, AnotherValue):
            return refused.in_units(self.scale)
        return refused

    async def unlearnable_ids(self, ids: Sequence[str]) -> set[str]:
        """Return the ids of open decisions from which experts can no longer learn,
        because their context was erased."""
        if not self.follower.now.in_place:
            return set()
        return await asyncio.to_thread(self._erased_ids, ids)

    def weights(self) -> dict[str, float]:
        """Return each expert's weight; empty for policies without experts."""
        if self.follower.now.experts is None:
            return {}
        return self.posterior()

    def posterior(self) -> dict[str, Any]:
        """Return the posterior by name, as `Agent.posterior` does; empty if the policy
        has none."""
        now = self.follower.now
        try:
            return now.policy.named_posterior(now.state, now.arms)
        except InvalidInput:  # policies with upper bounds have no posterior
            return {}

    def find(self, id: str) -> tuple[Line, Decision] | None:
        """Return a decision and its line, or None."""
        made = decision_line(self.store.history([id], EVERYTHING))
        if made is None:
            return None
        (decision,) = self.store.decisions([made.position])
        return made, decision

    @property
    def threads(self) -> ThreadPoolExecutor:
        """Threads for experts that are other people's code; none while idle."""
        self._threads_until = self._alarms.now() + _THREADS_S
        if self._threads is None:
            self._threads = ThreadPoolExecutor(
                _THREADS, thread_name_prefix=f"experts of {self.name}"
            )
            self._alarms.set(self._threads_until, self._end_threads)
        return self._threads

    def _end_threads(self) -> None:
        if self._threads is None:
            return
        if self._alarms.now() < self._threads_until:
            self._alarms.set(self._threads_until, self._end_threads)
            return
        self._threads.shutdown(wait=False)
        self._threads = None

    async def _read_settings(self) -> bool:
        """Reload the settings. Return True if they changed."""
        changes = await asyncio.to_thread(self.store.of_setting, SETTINGS)
        if not changes or changes[-1] == self.change:
            return False
        self.change = changes[-1]
        value = setting_of(self.change)
        self.settings = self.setup.settings.with_changes(value, self.scale)
        return True

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.append(task)
        return task

    def _keep_settings(self) -> None:
        """Apply the current settings to the tasks that close windows and erase
        contexts."""
        if not self.setup.writes:
            return
        if self.settings.window is not None:
            self._keep_windows(self.settings.window)
        if self._erasing is not None:
            self._erasing.cancel()
            self._tasks.remove(self._erasing)
            self._erasing = None
        age = self.settings.erase_after_days
        if age is not None:
            if self.settings.shared:  # other replicas may erase contexts at any time
                self.follower.forget(for_good=True)
            self._erasing = self._begin(self._erase(age * _DAY))

    def _keep_windows(self, window: float) -> None:
        """Set the length of reward windows; start to close them if this is the first
        call."""
        if self._windows is not None:
            self._windows.change(window, self.settings.default)
            return
        self._windows = Windows(
            self.store,
            self.writer,
            self.clock,
            window,
            self.settings.default,
            unlearnable_ids=self.unlearnable_ids,
            hold=lambda: self.clock_hold.reason,
        )
        alarms = None if self.settings.shared else self._alarms
        self._begin(self._windows.run(alarms))

    def _look_at_clock(self) -> None:
        if isinstance(self.clock, DatabaseClock):
            self.clock.look()
        if self.setup.writes:
            self.clock_hold.begin(trusts=self.setup.trusts_clock)

    async def _follow_clock(self) -> None:
        """Follow the clock of the database. If it does not answer, continue with the
        steady clock."""
        while isinstance(self.clock, DatabaseClock):
            await asyncio.sleep(_CLOCK_EVERY)
            with suppress(StoreFailed):
                await asyncio.to_thread(self.clock.look)

    async def _follow_settings(self) -> None:
        """Apply the settings that other replicas change."""
        while True:
            await asyncio.sleep(_SETTINGS_EVERY)
            # ignored here, because requests report that the store fails
            with suppress(StoreFailed):
                await self.take_settings()

    def _wake(self) -> None:
        """Tell the follower and the windows that there are new events on disk."""
        self.follower.wake()
        if self._windows is not None:
            self._windows.wake()

    def _erased_ids(self, ids: Sequence[str]) -> set[str]:
        store = self.store
        accounts = {id: Account.of(store) for id in ids}
        for line in store.history(list(accounts), EVERYTHING):
            accounts[line.id].take(line)
        made: dict[str, int] = {}
        for id, account in accounts.items():
            if account.made and not account.settled:
                made[id] = account.made
        decisions = store.decisions(list(made.values()))
        erased: set[str] = set()
        for id, one in zip(made, decisions, strict=True):
            if isinstance(one.context, Erased) or isinstance(one.features, Erased):
                erased.add(id)
        return erased

    async def erase(self, age: float) -> int:
        """Erase contexts that are older than `age` seconds, after the state has learned
        from them. Return their number."""
        self.clock_hold.check()
        if self.follower.now.in_place:
            # learn from the contexts before erasing them: a refold starts after this
            # snapshot
            await self.follower.save()
            if self.follower.trouble or self.follower.torn:
                raise StoreFailed(
                    "contexts cannot be erased, because the state has not learned from "
                    f"them yet; {self.follower.trouble}"
                )
        erased = await asyncio.to_thread(self.store.erase, self.clock() - age)
        self.follower.forget()
        return erased

    async def _erase(self, age: float) -> None:
        """Every hour, erase contexts that are older than `age` seconds."""
        while True:
            try:
                await self.erase(age)
            except StoreFailed as error:  # retried in an hour
                _log.warning(
                    "experiment %s could not erase contexts: %s", self.name, error
                )
            await asyncio.sleep(_ERASE_EVERY)


def _clock_of(store: Store, clock: Clock) -> Clock:
    """Return the clock of the database that replicas share, or of the machine."""
    if isinstance(store, PostgresReader):
        return DatabaseClock(clock, store.clock)
    return clock
