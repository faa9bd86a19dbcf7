"""open_reader: a store by the place it is at, for whoever only reads."""

from oddsmith.errors import InvalidInput
from oddsmith.storage.base import Reading
from oddsmith.storage.sqlite_reading import SQLiteReader

__all__ = ["open_reader"]


def open_reader(place: str, experiment: str | None = None) -> Reading:
    """The store at a place, the path of a file; `experiment`, where given, is the one it must be of."""
    scheme, mark, _ = str(place).partition("://")
    if mark:  # the rest may hold a password
        raise InvalidInput(f"place must be the file of a store; got an address that starts with {scheme}://")
    reader = SQLiteReader(place)
    known = reader.about.get("experiment")
    if experiment is not None and experiment != known:
        reader.close()
        raise InvalidInput(f"{place} must be the store of experiment {experiment!r}; it is of {known!r}")
    return reader
