"""The link of a store to its PostgreSQL server: a thread with an event loop, connections, and checks of both ends."""

import asyncio
import re
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

from oddsmith.errors import BadFile, InvalidInput, MissingExtra, StoreFailed
from oddsmith.storage.meta import check_format, check_owner

__all__ = ["Link", "PATIENCE", "PLACES", "SESSION", "belong", "check_server", "passing", "said", "trouble"]

PATIENCE = 2.0  # seconds that anyone waits for a server that does not answer
PLACES = 20  # bits of a position that are the place in its transaction
SESSION = {
    "application_name": "oddsmith",
    "default_transaction_isolation": "read committed",
    "enable_seqscan": "off",  # each statement has its index; a plan made while a table was small would read all of it
    "search_path": "oddsmith",
    "synchronous_commit": "on",  # off loses the last commits when the server dies
}
_NAME = re.compile(r"[a-z0-9_-]{1,64}")
_READERS = 4
_UNREADABLE = "url must be an address like postgresql://user@host:5432/name; this one cannot be read"
_SCHEMA_LOCK = 0x6F6464736D697468  # any number that nobody else locks

T = TypeVar("T")


class Link:
    """Runs coroutines for other threads; hands out connections; `where` names the experiment without any password."""

    def __init__(self, url: str, experiment: str) -> None:
        try:
            parts = urlsplit(url)
        except ValueError as error:
            raise InvalidInput(_UNREADABLE) from error
        if parts.scheme not in ("postgresql", "postgres"):
            raise InvalidInput(f"url must begin with postgresql://; got {parts.scheme!r:.40}")
        if not isinstance(experiment, str) or not _NAME.fullmatch(experiment):
            raise InvalidInput(f"experiment must match {_NAME.pattern}; got {experiment!r:.80}")
        self._driver, self._url, self.experiment = _driver(), url, experiment
        self.where = f"experiment {experiment!r} in postgresql://{parts.netloc.rpartition('@')[2]}{parts.path}"
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name=f"link of {experiment}", daemon=True)
        self._thread.start()
        self._closed = False
        self._pool: Any = self.run(self._make_pool())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives, for any thread but the link's own."""
        if self._closed:
            work.close()
            raise StoreFailed(f"{self.where} cannot be used: it is closed")
        try:
            return asyncio.run_coroutine_threadsafe(work, self.loop).result()
        except CancelledError as error:
            raise StoreFailed(f"{self.where} cannot be used: it is closed") from error

    async def connect(self) -> Any:
        """A connection of one's own."""
        try:
            return await self._driver.connect(self._url, timeout=PATIENCE, server_settings=SESSION)
        except (ValueError, OverflowError) as error:  # its words may hold part of a password
            raise InvalidInput(_UNREADABLE) from error

    def read(self, query: str, *values: Any, patience: float = 10.0) -> list[Any]:
        """The rows that a statement gives, on one of a few connections."""
        return self.run(self._fetch(query, values, patience))

    def close(self) -> None:
        """Let go of the connections and the thread."""
        if self._closed:
            return
        ended = asyncio.run_coroutine_threadsafe(self._end(), self.loop)
        self._closed = True
        ended.result()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _fetch(self, query: str, values: tuple[Any, ...], patience: float) -> list[Any]:
        try:
            async with asyncio.timeout(patience):
                connection = await self._pool.acquire(timeout=PATIENCE)
                try:
                    found: list[Any] = await connection.fetch(query, *values)
                    return found
                except BaseException:  # whatever state it is in, it is not waited for
                    connection.terminate()
                    raise
                finally:
                    await self._pool.release(connection)
        except trouble() as error:
            raise StoreFailed(f"{self.where} could not be read: {said(error)}") from error

    async def _make_pool(self) -> Any:
        async def _reset(_: Any) -> None:
            """Nothing to undo: no statement here changes its session."""

        async def _connect(*_: Any, **__: Any) -> Any:
            return await self.connect()

        return await self._driver.create_pool(self._url, min_size=0, max_size=_READERS, reset=_reset, connect=_connect)

    async def _end(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._pool.close()
        except trouble():
            self._pool.terminate()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)  # nobody is left waiting


async def belong(connection: Any, link: Link, mine: Mapping[str, str]) -> int:
    """Make a new experiment the store that says `mine` of itself, or check that it is; returns its number."""
    async with connection.transaction():
        await connection.execute("select pg_advisory_xact_lock($1)", _SCHEMA_LOCK)  # one replica makes it
        if not await connection.fetchval("select to_regclass('oddsmith.snapshots') is not null"):
            await connection.execute(Path(__file__).with_name("schema.sql").read_text())
        number: int | None = await connection.fetchval(
            "select number from experiments where name = $1", link.experiment
        )
        if number is not None:
            theirs = await connection.fetch("select name, value from meta where experiment = $1", number)
            check_owner(link.where, check_format(link.where, dict(theirs)), mine)
            return number
        number = await connection.fetchval(
            "insert into experiments (name) values ($1) returning number", link.experiment
        )
        rows = [(number, *pair) for pair in mine.items()]
        await connection.executemany("insert into meta values ($1, $2, $3)", rows)
    assert number is not None
    return number


async def check_server(connection: Any, where: str, experiment: int, answered: int) -> None:
    """Refuse a server that could lose events, or give positions below those that are taken or were answered."""
    if connection.get_server_version().major < 13:
        raise BadFile(f"{where} must be on PostgreSQL 13 or later; got {connection.get_server_version().major}")
    for name, wanted in (("fsync", "on"), ("server_encoding", "UTF8")):
        if (found := await connection.fetchval("select current_setting($1)", name)) != wanted:
            raise BadFile(f"{where} must be on a server with {name} = {wanted}; got {found}")
    last = await connection.fetchval("select coalesce(max(position), 0) from events where experiment = $1", experiment)
    coming = await connection.fetchval("select pg_snapshot_xmax(pg_current_snapshot())::text::bigint")
    if last >> PLACES >= coming:
        raise BadFile(
            f"{where} holds events of transaction {last >> PLACES}, and the server is at {coming}: it was copied here "
            "from a server that was further on, and new events would stand before old ones"
        )
    if last < answered:
        raise BadFile(f"{where} has lost events that were answered: it ends at {last}, and {answered} was answered")


def trouble() -> tuple[type[Exception], ...]:
    """What goes wrong between us and a server."""
    driver = _driver()
    return (OSError, driver.PostgresError, driver.InterfaceError, driver.InternalClientError)


def passing() -> tuple[type[Exception], ...]:
    """Two transactions in each other's way: the one that was broken up may be tried again."""
    return (_driver().DeadlockDetectedError, _driver().SerializationError)


def said(error: Exception) -> str:
    """What an error says, in one line; a time-out says nothing."""
    return " ".join(str(error).split()) or f"no answer ({type(error).__name__})"


def _driver() -> Any:
    try:
        import asyncpg
    except ImportError as error:
        raise MissingExtra(f"PostgresStore needs the extra oddsmith[postgres]; {error}") from error
    return asyncpg
