"""back_up: a store as one file, as of one moment, while a service writes; the file is a store in SQLite itself."""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from oddsmith.disk import new_file
from oddsmith.storage.base import BackupFacts
from oddsmith.storage.meta import backup_row
from oddsmith.storage.opening import open_reader
from oddsmith.storage.reading import StoreReader
from oddsmith.storage.sqlite.copying import changing
from oddsmith.storage.sqlite.reading import SQLiteReader

__all__ = ["Contents", "back_up", "contents_of", "mark_as_backup"]


class Contents(NamedTuple):
    """What a store holds: events by kind up to `head`, the last one at `last` (seconds since 1970), its epoch."""

    experiment: str | None
    head: int
    events: dict[str, int]
    last: float | None
    epoch: str


def back_up(place: str, out: Path, *, experiment: str | None = None) -> Contents:
    """Write the store at a place into a new file, which only its owner may read; what the file holds.

    It appears under its name when all of it is on disk. `verify`, `export`, `history` and `doctor` read it as it is; to
    go on with it, it is restored.
    """
    out = Path(out)
    with closing(open_reader(place, experiment)) as reading, new_file(out) as part:
        began = time.time()
        reading.copy(part)
        mark_as_backup(part, began)
    with closing(SQLiteReader(out)) as copy:
        return contents_of(copy)


def mark_as_backup(part: Path, now: float) -> None:
    """Say in a copy, whatever its format, that it is one."""
    with changing(part) as connection:
        (epochs,) = connection.execute("select value from meta where name = 'epochs'").fetchone()
        (head,) = connection.execute("select coalesce(max(position), 0) from events").fetchone()
        facts = BackupFacts(now, json.loads(epochs)[-1][0], head)
        connection.execute("insert or replace into meta values (?, ?)", backup_row(facts))


def contents_of(reading: StoreReader) -> Contents:
    """What a store holds."""
    head = reading.head()
    last = next((line.time for line in reading.lines(head - 1, head)), None)
    events = {str(kind): count for kind, count in reading.tally().items()}
    return Contents(reading.about.get("experiment"), head, events, last, reading.epochs[-1][0])
