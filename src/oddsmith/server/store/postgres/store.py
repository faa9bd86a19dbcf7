"""PostgresStore: a store in a PostgreSQL database that several replicas can write to.
Each replica writes groups of events over one connection."""

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import islice
from typing import TypeAlias

from oddsmith.core.errors import InvalidInput, StoreFailed
from oddsmith.core.policy import Policy
from oddsmith.server.store.events import Event
from oddsmith.server.store.meta import About, check_rule, meta_of
from oddsmith.server.store.postgres.link import (
    PATIENCE,
    Connection,
    Link,
    check_server,
    create_or_check_owner,
    hold_kernels,
    one_line,
    retryable_errors,
    server_errors,
)
from oddsmith.server.store.postgres.reader import PostgresReader
from oddsmith.server.store.postgres.rows import GROUP, groups_of, write
from oddsmith.server.store.protocol import Late, Receipt, Rule, Snapshot
from oddsmith.server.store.reader import snapshot_digest
from oddsmith.server.store.rows import EventRow, row_of
from oddsmith.server.store.snapshots import retained_positions
from oddsmith.server.store.trouble import WriteTrouble

__all__ = ["PostgresStore"]

_ATTEMPTS = 5  # attempts to write a group after deadlocks with other programs
_FIRST_PAUSE = 0.05  # seconds to wait before reconnecting; doubles with every failure
_LAST_PAUSE = 1.0
_PROBE = "update experiments set name = name where number = $1"

_Entry: TypeAlias = "tuple[list[EventRow], Future[tuple[Receipt, ...]]]"


class PostgresStore(PostgresReader):
    """The store of one experiment, in a database that many experiments, processes and
    machines may share.

    Events that are queued while a group is written form the next group: one statement,
    one transaction, one commit. Receipts come after the commit, with
    `synchronous_commit` on. Positions have gaps: a position is the number of the
    transaction times 2²⁰, plus the number of the row within the transaction. A receipt
    may contain a position shortly before `head` reaches it.

    If the server does not answer, callers get `StoreFailed` within two seconds; the
    next call reconnects. Without calls, the store tries every second until a write
    succeeds.

    >>> from oddsmith.experts.external import GivenExperts
    >>> from oddsmith.core.gts import GeneralizedThompsonSampling
    >>> policy = GeneralizedThompsonSampling(GivenExperts(["cold", "warm"]))
    >>> PostgresStore("postgresql://localhost/news", policy, experiment="Front page")
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: experiment must match [a-z0-9_-]{1,64}; got
    'Front page'
    """

    def __init__(
        self,
        url: str,
        policy: Policy | Mapping[str, str],
        *,
        experiment: str,
        rule: Rule = "first",
        late: Late = "arrives",
        about: About | None = None,
    ) -> None:
        check_rule(rule, late)
        mine = meta_of(policy, rule, late, about or {})
        self._kernels = (about or {}).get("kernels")
        self.commits = 0
        self._entry = threading.Lock()
        self._closed = False
        self._writing = False
        self._waiting: deque[_Entry] = deque()
        self._task: asyncio.Task[None] | None = None
        self._connection: Connection | None = None
        self._answered = 0
        self._pause = 0.0
        self._again = 0.0  # earliest time of the next attempt to connect
        with ExitStack() as undo:
            link = Link(url, experiment)
            undo.callback(link.close)
            undo.callback(lambda: link.loop.call_soon_threadsafe(self._drop))
            self._trouble = WriteTrouble(link.where)
            self._attempt: asyncio.TimerHandle | None = None
            link.run(self._begin(link, mine))
            self._open(link)
            undo.pop_all()

    @property
    def write_trouble(self) -> str:
        """The reason why the last write failed; empty if it succeeded."""
        return self._trouble.text

    def append(self, events: Sequence[Event]) -> "Future[tuple[Receipt, ...]]":
        """Append events; return a future with their receipts, in the same order, after
        the commit."""
        rows = [row_of(event, self.rule) for event in events]
        future: Future[tuple[Receipt, ...]] = Future()
        with self._entry:
            if self._closed:
                raise StoreFailed(
                    f"{self._link.where} accepts no more events: it is closed"
                )
            self._enter((rows, future))
        return future

    def keep(self, snapshot: Snapshot, content: bytes) -> None:
        """Save a snapshot, and delete older ones (`retained_positions`)."""
        head = self.head()
        if not 0 <= snapshot.position <= head:
            raise InvalidInput(
                f"a snapshot must be of a position up to {head}; got "
                f"{snapshot.position}"
            )
        known = {one.position for one in self.snapshots()}
        query = (
            "with gone as (delete from snapshots where experiment = $1 and position = "
            "any($2)) insert into snapshots values ($1, $3, $4, $5, $6, $7, $8) on "
            "conflict (experiment, position) do update set fingerprint = "
            "excluded.fingerprint, format = excluded.format, time = excluded.time, "
            "digest = excluded.digest, content = excluded.content"
        )
        stay = retained_positions([snapshot.position, *known])
        gone = sorted(known - stay - {snapshot.position})
        digest = snapshot_digest(snapshot, content)
        self._fetch(query, gone, *snapshot, digest, content, patience=60)

    def erase(self, before: float) -> int:
        """Erase the contexts of decisions made before that time; return their number.

        The server overwrites the bytes when it reuses the space. Its write-ahead log
        and its backups are not changed.
        """
        erased = self._erase("contexts", "time, position", before)
        # Features go last, so that every remaining context can still be read.
        self._erase("features", "digest", before)
        return erased

    def _erase(self, table: str, key: str, before: float) -> int:
        """Delete old rows in short transactions, because a long one would delay
        readers.

        If another replica gives a row a later time in the meantime, the row is not
        deleted.
        """
        query = (
            f"with gone as (delete from {table} where experiment = $1 and time < $2 "
            f"and ({key}) in (select {key} from {table} where experiment = $1 and time "
            "< $2 limit $3) returning 1) select count(*) from gone"
        )
        erased = 0
        while count := self._fetch(query, before, GROUP, patience=60)[0][0]:
            erased += count
        return erased

    def close(self) -> None:
        """Write the queue, then disconnect from the server."""
        with self._entry:
            is_first = not self._closed
            self._closed = True
        if is_first:
            self._link.run(self._finish())
        super().close()

    async def _begin(self, link: Link, mine: dict[str, str]) -> None:
        """Connect for the first time."""
        try:
            # generous timeout, because another replica may be creating the tables
            async with asyncio.timeout(15 * PATIENCE):
                self._connection = await link.connect()
                number = await create_or_check_owner(self._connection, link, mine)
                await check_server(self._connection, link.where, number, 0)
                await self._hold_kernels(link, number)
        except server_errors() as error:
            self._drop()
            raise StoreFailed(
                f"{link.where} cannot be opened: {one_line(error)}"
            ) from error
        except BaseException:
            self._drop()
            raise

    def _enter(self, entry: _Entry) -> None:
        """Queue an entry; the caller holds `_entry`."""
        self._waiting.append(entry)
        if not self._writing:
            self._writing = True
            self._link.loop.call_soon_threadsafe(self._start)

    def _start(self) -> None:
        self._task = self._link.loop.create_task(self._write_on())

    async def _write_on(self) -> None:
        """Write groups until the queue is empty."""
        while group := self._take_group():
            rows = [row for rows, _ in group for row in rows]
            receipts: list[Receipt] = []
            try:
                for part in groups_of(rows):
                    receipts += await self._write(part)
            # the error also goes to the entries that were queued in the meantime
            except Exception as error:
                self._drop()
                self._fail(group, error)
                continue
            self._trouble.become("")
            answers = iter(receipts)
            for rows, future in group:
                future.set_result(tuple(islice(answers, len(rows))))

    def _take_group(self, limit: int = GROUP) -> list[_Entry]:
        """Remove entries with at most `limit` rows in total from the queue, or one
        larger entry, and return them."""
        group: list[_Entry] = []
        with self._entry:
            size = 0
            while self._waiting:
                rows, future = self._waiting[0]
                if group and size + len(rows) > limit:
                    break
                self._waiting.popleft()
                if future.set_running_or_notify_cancel():
                    group.append((rows, future))
                    size += len(rows)
            self._writing = bool(group)
        return group

    def _fail(self, group: list[_Entry], error: Exception) -> None:
        failure = StoreFailed(
            f"{self._link.where} could not be written: {one_line(error)}"
        )
        failure.__cause__ = error
        self._trouble.become(one_line(error))
        if self._attempt is None:
            self._attempt = self._link.loop.call_later(_LAST_PAUSE, self._try)
        with self._entry:
            group += self._waiting
            self._waiting.clear()
        for _, future in group:
            if future.running() or future.set_running_or_notify_cancel():
                future.set_exception(failure)

    def _try(self) -> None:
        """If the last write failed, queue an empty entry to test whether writing works
        again."""
        self._attempt = None
        with self._entry:
            if self._trouble.text and not self._closed:
                self._enter(([], Future()))

    async def _write(self, rows: Sequence[EventRow]) -> list[Receipt]:
        """Write rows, and return their receipts; without rows, test the server."""
        async with asyncio.timeout(PATIENCE):
            for attempt in range(_ATTEMPTS):
                connection = await self._connected()
                try:
                    if not rows:
                        await connection.execute(_PROBE, self._number)
                        return []
                    receipts = await write(connection, self._number, rows)
                    break
                # Retrying is safe: nothing was committed, and an event is stored only
                # once.
                except retryable_errors():
                    if attempt == _ATTEMPTS - 1:
                        raise
        self.commits += 1
        self._answered = max(
            self._answered, *(receipt.position for receipt in receipts)
        )
        return receipts

    async def _connected(self) -> Connection:
        """Return the writing connection, and reconnect if it was lost. Raise if the
        last attempt to connect failed a moment ago."""
        if self._connection is not None and not self._connection.is_closed():
            return self._connection
        now = self._link.loop.time()
        if now < self._again:
            raise StoreFailed(
                "there is no connection, and the next attempt is in "
                f"{self._again - now:.2f} s"
            )
        try:
            self._connection = await self._link.connect()
            await check_server(
                self._connection, self._link.where, self._number, self._answered
            )
            await self._hold_kernels(self._link, self._number)
        except BaseException:  # includes timeouts
            self._pause = min(max(2 * self._pause, _FIRST_PAUSE), _LAST_PAUSE)
            self._again = self._link.loop.time() + self._pause
            raise
        self._pause = 0.0
        return self._connection

    async def _hold_kernels(self, link: Link, number: int) -> None:
        if self._connection is not None and isinstance(self._kernels, str):
            await hold_kernels(self._connection, link.where, number, self._kernels)

    def _drop(self) -> None:
        """Close the connection, whatever its state."""
        connection = self._connection
        self._connection = None
        if connection is not None:
            connection.terminate()

    async def _finish(self) -> None:
        if self._task is not None:
            await self._task
        connection = self._connection
        self._connection = None
        if connection is not None and not connection.is_closed():
            try:
                await connection.close(timeout=PATIENCE)
            except server_errors():
                connection.terminate()
