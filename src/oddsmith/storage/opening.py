"""open_reader: a store by the place it is at, to read it."""

from oddsmith.errors import InvalidInput
from oddsmith.storage.base import Reading
from oddsmith.storage.postgres.reading import PostgresReader
from oddsmith.storage.sqlite.reading import SQLiteReader

__all__ = ["open_reader"]


def open_reader(place: str, experiment: str | None = None) -> Reading:
    """The store at a place: the path of a file, or the address of a database (postgresql://…), which holds many.

    `experiment` says which one of a database; of a file it is the one it must be of.
    """
    scheme, mark, _ = str(place).partition("://")
    if mark and scheme in ("postgresql", "postgres"):
        if experiment is None:
            raise InvalidInput("experiment must be given for a store in a database; got none")
        return PostgresReader(place, experiment=experiment)
    if mark:  # the rest may hold a password
        raise InvalidInput(f"place must be a file, or postgresql://…; got an address that starts with {scheme}://")
    reader = SQLiteReader(place)
    name = reader.about.get("experiment")
    if experiment is not None and experiment != name:
        reader.close()
        raise InvalidInput(f"{place} must be the store of experiment {experiment!r}; it is of {name!r}")
    return reader
