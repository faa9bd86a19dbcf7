"""The link of a store to its PostgreSQL server: a thread with an event loop, the
connections, and checks of the server and of the replicas."""

import asyncio
import re
import threading
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol, TypeVar
from urllib.parse import urlsplit

from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed, import_extra
from oddsmith.server.store.address import public_address
from oddsmith.server.store.meta import (
    FORMAT,
    UNRELEASED,
    check_format,
    check_owner,
    new_meta,
)

__all__ = [
    "Connection",
    "FORMAT_LOCK",
    "KERNEL_LOCKS",
    "Link",
    "PATIENCE",
    "PLACES",
    "SESSION",
    "SHIFT",
    "check_server",
    "connect",
    "create_or_check_owner",
    "database_of",
    "hold_kernels",
    "make_tables",
    "one_line",
    "retryable_errors",
    "server_errors",
]

PATIENCE = 2.0  # seconds to wait for a server that does not answer
# number of low bits of a position that contain the row's number within its transaction
PLACES = 20
# added to transaction numbers in positions; see schema.sql
SHIFT = "(select shift from experiments where number = $1)"
SESSION = {
    "application_name": "oddsmith",
    "default_transaction_isolation": "read committed",
    # Every statement has an index. A plan cached while a table was small would scan it
    # all.
    "enable_seqscan": "off",
    "search_path": "oddsmith",
    "synchronous_commit": "on",  # "off" loses the last commits in a crash
}
_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_READERS = 4
_UNREADABLE = (
    "url must be an address like postgresql://user@host:5432/name; this one cannot be "
    "read"
)
# arbitrary key of an advisory lock; no other program should use it
_SCHEMA_LOCK = 0x6F6464736D697468
FORMAT_LOCK = _SCHEMA_LOCK + 1  # shared by all connections; exclusive during an upgrade

# second keys of advisory locks; the first key is the number of the experiment
KERNEL_LOCKS = {"numpy": 0x6F646401, "numba": 0x6F646402}

T = TypeVar("T")


class Connection(Protocol):
    """The part of an asyncpg connection that is used here."""

    def transaction(self) -> AbstractAsyncContextManager[object]: ...
    def get_server_version(self) -> tuple[Any, ...]: ...
    def is_closed(self) -> bool: ...
    def terminate(self) -> None: ...
    async def execute(self, query: str, *values: object) -> str: ...
    async def executemany(
        self, query: str, rows: Iterable[tuple[object, ...]]
    ) -> None: ...
    async def fetch(self, query: str, *values: object) -> list[tuple[Any, ...]]: ...
    async def fetchval(self, query: str, *values: object) -> Any: ...
    async def copy_records_to_table(
        self,
        table: str,
        *,
        schema_name: str,
        columns: Sequence[str],
        records: Iterable[tuple[object, ...]],
    ) -> str: ...
    async def close(self, *, timeout: float) -> None: ...


class Link:
    """Runs coroutines for other threads and opens connections. `where` is the address
    of the experiment without a password."""

    def __init__(self, url: str, experiment: str) -> None:
        address = database_of(url)
        if not isinstance(experiment, str) or not _NAME.fullmatch(experiment):
            raise InvalidInput(
                f"experiment must match {_NAME.pattern}; got {experiment!r:.80}"
            )
        self._driver = _driver()
        self._url = url
        self.experiment = experiment
        self.where = f"experiment {experiment!r} in {address}"
        # after the first check, every new connection is checked for the same format
        self.format_is_checked = False
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self.loop.run_forever, name=f"link of {experiment}", daemon=True
        )
        self._thread.start()
        self._closed = False
        self._pool = self.run(self._make_pool())

    def run(self, work: Coroutine[object, object, T]) -> T:
        """Return the result of a coroutine. Call this from any thread except the link's
        own."""
        if self._closed:
            work.close()
            raise StoreFailed(f"{self.where} cannot be used: it is closed")
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        except CancelledError as error:
            raise StoreFailed(f"{self.where} cannot be used: it is closed") from error

    async def connect(self) -> Connection:
        """Open a separate connection. While it is open, the tables are not upgraded."""
        connection = await connect(self._url)
        try:
            if not await connection.fetchval(
                "select pg_try_advisory_lock_shared($1)", FORMAT_LOCK
            ):
                raise StoreFailed(
                    f"{self.where} is being upgraded: ask again when that is done"
                )
            if self.format_is_checked:
                check_format(
                    self.where, await connection.fetchval("select value from format")
                )
        except BaseException:
            connection.terminate()
            raise
        return connection

    def fetch(
        self, query: str, *values: object, patience: float = 10.0
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement, which runs on a connection of a small
        pool."""
        return self.run(self._fetch(query, values, patience))

    def close(self) -> None:
        """Close the connections, and end the thread."""
        if self._closed:
            return
        ended = asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        self._closed = True
        ended.result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _fetch(
        self, query: str, values: tuple[object, ...], patience: float
    ) -> list[tuple[Any, ...]]:
        try:
            async with asyncio.timeout(patience):
                connection = await self._pool.acquire(timeout=PATIENCE)
                try:
                    rows: list[tuple[Any, ...]] = await connection.fetch(query, *values)
                    return rows
                # do not wait for a connection in an unknown state
                except BaseException:
                    connection.terminate()
                    raise
                finally:
                    await self._pool.release(connection)
        except server_errors() as error:
            raise StoreFailed(
                f"{self.where} could not be read: {one_line(error)}"
            ) from error

    async def _make_pool(self) -> Any:
        async def _reset(_: Connection) -> None:
            """Do nothing, because no statement here changes its session."""

        async def _connect(*_: object, **__: object) -> Connection:
            return await self.connect()

        return await self._driver.create_pool(
            self._url, min_size=0, max_size=_READERS, reset=_reset, connect=_connect
        )

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._pool.close()
        except server_errors():
            self._pool.terminate()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


def database_of(url: str) -> str:
    """Return the address of a database without a password; raise if it is not an
    address.

    >>> database_of("postgresql://localhost/news")
    'postgresql://localhost/news'
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidInput(_UNREADABLE) from error
    if parts.scheme not in ("postgresql", "postgres"):
        raise InvalidInput(
            f"url must begin with postgresql://; got {parts.scheme!r:.40}"
        )
    return public_address(url)


async def connect(url: str) -> Connection:
    """Open a connection without checking the format of the tables."""
    try:
        connection: Connection = await _driver().connect(
            url, timeout=PATIENCE, server_settings=SESSION
        )
        return connection
    # replace the message, because it may contain part of a password
    except (ValueError, OverflowError) as error:
        raise InvalidInput(_UNREADABLE) from error


async def create_or_check_owner(
    connection: Connection, link: Link, mine: Mapping[str, str]
) -> int:
    """Return the number of the experiment. A new experiment gets the values `mine` in
    its table `meta`; an existing one must have the same owner."""
    async with connection.transaction():
        await make_tables(connection, link.where)
        name = link.experiment
        number: int | None = await connection.fetchval(
            "select number from experiments where name = $1", name
        )
        if number is not None:
            theirs = await connection.fetch(
                "select name, value from meta where experiment = $1", number
            )
            check_owner(link.where, dict(theirs), mine)
            return number
        number = await connection.fetchval(
            "insert into experiments (name) values ($1) returning number", name
        )
        rows = [(number, *pair) for pair in new_meta(mine, gapless=False).items()]
        await connection.executemany("insert into meta values ($1, $2, $3)", rows)
    assert number is not None
    return number


async def make_tables(connection: Connection, where: str) -> None:
    """Create the tables in a transaction if there are none; raise if they have another
    format."""
    # take the lock, so that only one replica creates the tables
    await connection.execute("select pg_advisory_xact_lock($1)", _SCHEMA_LOCK)
    if not await connection.fetchval(
        "select to_regclass('oddsmith.snapshots') is not null"
    ):
        await connection.execute(Path(__file__).with_name("schema.sql").read_text())
        await connection.execute("insert into format values ($1)", FORMAT)
    has_format = await connection.fetchval(
        "select to_regclass('oddsmith.format') is not null"
    )
    format = UNRELEASED
    if has_format:
        format = await connection.fetchval("select value from format")
    check_format(where, format)


async def hold_kernels(
    connection: Connection, where: str, experiment: int, own: str
) -> None:
    """Hold a lock for the kernels of this replica while its connection is open; raise
    if a replica with other kernels is writing.

    Each replica has a shared lock on (experiment, its kernels). If an exclusive lock on
    other kernels cannot be acquired, another replica uses them.
    """
    await connection.execute(
        "select pg_advisory_lock_shared($1, $2)", experiment, KERNEL_LOCKS[own]
    )
    for other, number in KERNEL_LOCKS.items():
        if other == own:
            continue
        if not await connection.fetchval(
            "select pg_try_advisory_lock($1, $2)", experiment, number
        ):
            raise BadFile(
                f"{where} is served by a replica with {other} kernels; this one has "
                f"{own}. Replicas must have the same kernels: set "
                f"ODDSMITH_KERNELS={other}, or stop the others first"
            )
        await connection.execute(
            "select pg_advisory_unlock($1, $2)", experiment, number
        )


async def check_server(
    connection: Connection, where: str, experiment: int, answered: int
) -> None:
    """Raise if the server could lose events, or could use positions again that were
    returned to callers."""
    if connection.get_server_version()[0] < 13:
        raise BadFile(
            f"{where} must be on PostgreSQL 13 or later; got "
            f"{connection.get_server_version()[0]}"
        )
    for name, wanted in (("fsync", "on"), ("server_encoding", "UTF8")):
        setting = await connection.fetchval("select current_setting($1)", name)
        if setting != wanted:
            raise BadFile(
                f"{where} must be on a server with {name} = {wanted}; got {setting}"
            )
    last = await connection.fetchval(
        "select coalesce(max(position), 0) from events where experiment = $1",
        experiment,
    )
    coming = await connection.fetchval(
        "select pg_snapshot_xmax(pg_current_snapshot())::text::bigint"
    )
    coming += await connection.fetchval(f"select coalesce({SHIFT}, 0)", experiment)
    if last >> PLACES >= coming:
        raise BadFile(
            f"{where} contains events of transaction {last >> PLACES}, but this server "
            f"is only at transaction {coming}: the store was copied from another "
            "server, and new events would come before old ones. Move stores with "
            "oddsmith backup and oddsmith restore"
        )
    if last < answered:
        raise BadFile(
            f"{where} has lost events that were confirmed: it ends at position {last}, "
            f"but position {answered} was confirmed"
        )


def server_errors() -> tuple[type[Exception], ...]:
    """Return the types of errors of a server, or of the connection to it."""
    driver = _driver()
    return (
        OSError,
        driver.PostgresError,
        driver.InterfaceError,
        driver.InternalClientError,
    )


def retryable_errors() -> tuple[type[Exception], ...]:
    """Return the types of errors after which a transaction can be retried, because it
    conflicted with another one."""
    return (_driver().DeadlockDetectedError, _driver().SerializationError)


def one_line(error: Exception) -> str:
    """Return the message of an error in one line, also for timeouts, whose message is
    empty."""
    return " ".join(str(error).split()) or f"no answer ({type(error).__name__})"


def _driver() -> ModuleType:
    return import_extra("asyncpg", "PostgresStore needs", "postgres")
