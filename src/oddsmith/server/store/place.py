"""Open a store by its place, to read it or to write to it."""

from contextlib import closing

from oddsmith.core.errors import InvalidInput
from oddsmith.server.store.postgres.reader import PostgresReader
from oddsmith.server.store.postgres.store import PostgresStore
from oddsmith.server.store.protocol import Store
from oddsmith.server.store.reader import StoreReader
from oddsmith.server.store.sqlite.reader import SQLiteReader
from oddsmith.server.store.sqlite.store import SQLiteStore

__all__ = ["is_address", "open_reader", "open_writer"]


def open_reader(place: str, experiment: str | None = None) -> StoreReader:
    """Open the store at a place: the path of a file, or the address of a database
    (postgresql://…).

    `experiment` selects one store of a database; a file must contain it.
    """
    if is_address(place):
        if experiment is None:
            raise InvalidInput(
                "experiment must be given for a store in a database; got none"
            )
        return PostgresReader(place, experiment=experiment)
    reader = SQLiteReader(place)
    name = reader.about.get("experiment")
    if experiment is not None and experiment != name:
        reader.close()
        raise InvalidInput(
            f"{place} must be the store of experiment {experiment!r}; it belongs to "
            f"{name!r}"
        )
    return reader


def open_writer(place: str, experiment: str | None = None) -> Store:
    """Open an existing store to write events that do not depend on the policy."""
    with closing(open_reader(place, experiment)) as reader:
        meta = reader.meta
        name = str(reader.about.get("experiment"))
    if is_address(place):
        return PostgresStore(place, meta, experiment=experiment or name)
    return SQLiteStore(place, meta)


def is_address(place: str) -> bool:
    """Whether a place is a database, and not a file.

    >>> is_address("postgresql://localhost/news"), is_address("news.sqlite")
    (True, False)
    """
    scheme, mark, _ = str(place).partition("://")
    # show only the scheme, because the rest may contain a password
    if mark and scheme not in ("postgresql", "postgres"):
        raise InvalidInput(
            "place must be a file, or postgresql://…; got an address that starts with "
            f"{scheme}://"
        )
    return bool(mark)
