"""Read and write logs in files and tables."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, NamedTuple, TypeAlias

from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import whole
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.names import check_names, hint
from oddsmith.files.disk import replacing
from oddsmith.logs import arrow, csv, dsjson, jsonl, open_bandit, parquet
from oddsmith.logs.by_policy import as_offers
from oddsmith.logs.files import SUFFIXES, files_in, form_of, lines_in, path_of
from oddsmith.logs.offers import BY_ARM
from oddsmith.logs.pieces import (
    Layout,
    Names,
    Piece,
    column_list,
    found_columns,
    log_of,
    names_in,
)
from oddsmith.logs.progress import LINE_EVERY_S, Bar
from oddsmith.logs.table import COLUMNS, MAY_LACK, Log

__all__ = [
    "FORMATS",
    "LogReader",
    "arms_by_column",
    "columns_by_arm",
    "log_batches",
    "read_log",
    "total_rows",
    "write_log",
]


def columns_by_arm(columns: Names, arms: Sequence[str] | None) -> Names:
    """Return the columns in the order of the arms if the columns' names end in the
    names of the arms, otherwise in the given order.

    >>> columns_by_arm({"propensities": ["p_tech", "p_sports"]}, ["sports", "tech"])
    {'propensities': ['p_sports', 'p_tech']}
    """
    ordered = dict(columns)
    if arms is None:
        return ordered
    for name in BY_ARM:
        if name not in columns:
            continue
        theirs = column_list(columns[name])
        column_of = dict(zip(_distinct_parts(theirs), theirs, strict=True))
        if len(theirs) > 1 and column_of.keys() == set(arms):
            ordered[name] = [column_of[arm] for arm in arms]
    return ordered


def arms_by_column(
    columns: Names, drawn: Collection[str], source: str
) -> list[str] | None:
    """Return the arms in the order of the columns, or None if there is no column per
    arm.

    Raise if no column's name contains a drawn arm, because propensities could then be
    assigned to the wrong arms.
    """
    for name in BY_ARM:
        theirs = column_list(columns.get(name, ""))
        if len(theirs) < 2:
            continue
        arms = _distinct_parts(theirs)
        unknown = sorted(set(drawn) - set(arms))
        if unknown:
            raise BadFile(
                f"{source} must have the arms' names in those of its columns for "
                f"{name}, {', '.join(theirs[:8])}; {unknown[0]!r:.60} is in none: "
                "name the arms in the order of the columns with arms=[…] or --arms"
            )
        return arms
    return None


def _distinct_parts(columns: Sequence[str]) -> list[str]:
    """Return the columns' names without the words that all of them begin and end with.

    >>> _distinct_parts(["p_table_now", "p_tablet_now"])
    ['table', 'tablet']
    """
    words = [re.split(r"([\W_]+)", one) for one in columns]
    head = _shared_length(words)
    tail = _shared_length([one[head:][::-1] for one in words])
    return ["".join(one[head : len(one) - tail]) for one in words]


def _shared_length(rows: Sequence[Sequence[str]]) -> int:
    """Return the number of first entries that all rows have in common."""
    length = 0
    for entries in zip(*rows, strict=False):
        if len(set(entries)) > 1:
            break
        length += 1
    return length


FORMATS = ("parquet", "csv", "jsonl", "dsjson", "open_bandit", "arrow")
_TABLE = "__arrow_c_stream__"  # the interface of tables
_Read: TypeAlias = Callable[[Path, Layout], Iterator[Piece]]
_Write: TypeAlias = Callable[[Iterable[Log], IO[bytes]], None]
_READ: dict[str, _Read] = {
    "parquet": parquet.read_pieces,
    "csv": csv.read_pieces,
    "jsonl": jsonl.read_pieces,
    "dsjson": dsjson.read_pieces,
}
_NAMES = {"parquet": parquet.names, "csv": csv.names}
_WRITE: dict[str, _Write] = {
    "parquet": parquet.write,
    "csv": csv.write,
    "jsonl": jsonl.write,
    "dsjson": dsjson.write,
}


class _Place(NamedTuple):
    """Origin of some rows: the number and name of their source, and the number of the
    first row."""

    source: int
    name: str
    first: int


class _Part(NamedTuple):
    """A piece of a source, and the arms that the reader knows for it."""

    place: _Place
    piece: Piece
    arms: Sequence[str] | None


@dataclass(frozen=True)
class LogReader:
    """Reads logs in files and tables.

    - `columns` maps the names of columns of `Log` to those of the file. `arms` are the
      names of the arms.
    - `format` is one of `FORMATS` (None: by suffix and content).
    - `rows` is the number of rows at a time.
    - Columns that are not in `only` are skipped (None: none are).
    - `experts` are the names for the column advice, if the log has none.
    - With `offers`, every row of a log of fixed arms offers all of them.
    - `scale` contains the units of the rewards in files and tables. Rewards are
      converted to [0, 1].

    >>> LogReader(columns={"reward": "click"}, arms=["sports", "tech"]).rows
    65536
    """

    columns: Names = field(default_factory=dict)
    arms: Sequence[str] | None = None
    format: str | None = None
    rows: int = 65_536
    only: Collection[str] | None = None
    experts: Sequence[str] | None = None
    offers: bool = False
    scale: RewardScale | None = None

    def __post_init__(self) -> None:
        if self.format is not None and self.format not in FORMATS:
            raise InvalidInput(
                f"format must be one of {', '.join(FORMATS)}; got {self.format!r}"
                f"{hint(self.format, FORMATS)}"
            )
        whole("rows", self.rows)
        for what in ("arms", "experts"):
            names = getattr(self, what)
            if names is not None:
                object.__setattr__(self, what, check_names(what, names))

    def batches(
        self, source: object, groups: Sequence[int] | None = None
    ) -> Iterator[Log]:
        """Yield checked logs of at most `rows` rows, optionally only from some row
        groups of a Parquet file."""
        if isinstance(source, Log):
            yield from self._select(source).split(self.rows)
            return
        name, pieces, arms = self._pieces(source, groups)
        for piece in pieces:
            log = log_of(piece, arms, self.experts, name, self.scale)
            yield as_offers(log) if self.offers else log

    def sources(self, source: object, what: str = "source") -> list[object]:
        """Return the files, tables and logs of a source. A list stands for its entries,
        and a folder for its log files in the order of their names."""
        is_table = hasattr(source, _TABLE)
        if isinstance(source, str | Path | Log) or is_table:
            entries = [source]
        elif isinstance(source, Iterable):
            entries = list(source)
        else:
            raise InvalidInput(
                f"{what} must be a file, a folder, a table, a Log, or a list of them; "
                f"got {type(source).__name__}"
            )
        found: list[object] = []
        for entry in entries:
            if isinstance(entry, str | Path) and Path(entry).is_dir():
                form = self.format if self.format in _READ else None
                found.extend(files_in(Path(entry), form))
            else:
                found.append(entry)
        return found

    def rows_in(self, source: object) -> int | None:
        """Return the number of rows of a file, a table or a log, or None if unknown.
        For text files it is an estimate from some of the lines."""
        if isinstance(source, Log):
            return len(source)
        if not isinstance(source, str | Path):
            n = getattr(source, "num_rows", None)
            return n if isinstance(n, int) else None
        path = path_of(source)
        form = self.format
        if form not in _READ:
            form = SUFFIXES.get(path.suffix.lower())
        return parquet.rows(path) if form == "parquet" else lines_in(path)

    def read_log(self, source: object) -> Log:
        """Return the whole log from one or several files, one after the other. If names
        of arms are not given, they are in the order of the file's columns per arm, or
        sorted."""
        if isinstance(source, Log):
            return self._select(source)
        sources = self.sources(source)
        parts = self._parts(sources)
        if not parts:
            name = _name(sources[0]) if len(sources) == 1 else "logs"
            raise BadFile(f"{name} must have at least one row; got none")
        arms = self._arms_of(parts)
        logs: list[Log] = []
        places: list[_Place] = []
        parts.reverse()
        while parts:  # pop, so that each piece can be freed once it is a log
            place, piece, names = parts.pop()
            if names is None and piece.arms is None:
                names = arms
            places.append(place)
            logs.append(log_of(piece, names, self.experts, place.name, self.scale))
        log = logs[0]
        if len(logs) > 1:
            _check_same_columns(logs, places)
            _check_ids(logs, places)
            log = Log.concatenated(logs)
        return as_offers(log) if self.offers else log

    def _parts(self, sources: Sequence[object]) -> list[_Part]:
        """Return the pieces of all sources, with a progress bar of their rows."""
        parts: list[_Part] = []
        total = total_rows(self, sources)
        with closing(Bar("reading rows", total, every=LINE_EVERY_S)) as bar:
            for number, source in enumerate(sources):
                if isinstance(source, Log):
                    raise InvalidInput(
                        "source must be files or tables, or one Log; got a Log in a "
                        "list: Log.concatenated joins logs"
                    )
                name, pieces, arms = self._pieces(source, None)
                for piece in pieces:
                    place = _Place(number, name, piece.first)
                    parts.append(_Part(place, piece, arms))
                    bar.advance(len(piece.columns["arm"]))
        return parts

    def _arms_of(self, parts: Sequence[_Part]) -> list[str] | None:
        """Return the names of the arms in order. Use it if no file contains the
        order."""
        drawn: set[str] = set()
        source = ""
        for part in parts:
            has_names = part.arms is not None or part.piece.arms is not None
            if has_names or "offered" in part.piece.columns:
                continue
            drawn |= names_in(part.piece)
            source = source or part.place.name
        if not drawn:
            return None
        return arms_by_column(self.columns, drawn, source) or sorted(drawn)

    def is_own(self, source: object) -> bool:
        """Return whether `write_log` or `oddsmith export` wrote a file, whose rewards
        are then in [0, 1]. Parquet has a mark, other formats the column `fingerprint`;
        dsjson has costs in [-1, 0].
        """
        _, pieces, _ = self._pieces(source, None)
        first = next(pieces, None)
        return first is not None and first.own

    def _select(self, log: Log) -> Log:
        """Return a log in memory with the columns in `only`, and with the given names
        of arms and experts if it has none."""
        if self.columns:
            raise InvalidInput(
                "columns must not be given for a Log, which has our names"
            )
        if self.offers:
            log = as_offers(log)
        if self.only is not None:
            names = {"arm", "reward", "offered", *self.only}
            log = log.without(*(set(COLUMNS) - names))
        for what in ("arms", "experts"):
            mine = getattr(self, what)
            theirs = getattr(log, what)
            if mine is not None and theirs not in (None, tuple(mine)):
                raise InvalidInput(
                    f"log must have the {what} {list(mine)} in this order; it has "
                    f"{list(theirs)}"
                )
        if self.arms in (None, log.arms) and self.experts in (None, log.experts):
            return log
        arms = self.arms or log.arms
        return replace(log, arms=arms, experts=self.experts or log.experts)

    def _pieces(
        self, source: object, groups: Sequence[int] | None
    ) -> tuple[str, Iterator[Piece], Sequence[str] | None]:
        """Return the source's name, its pieces, and the arms."""
        layout = Layout(self.columns, self.only, self.rows)
        if hasattr(source, _TABLE):
            name = type(source).__name__
            batches = arrow.stream(source, self.rows)
            head = next(batches, None)
            if head is None:
                return name, iter(()), self.arms
            present = head.schema.names
            columns, arms = self._columns_and_arms(present)
            layout = layout._replace(columns=columns)
            found = found_columns(present, layout, name)
            return name, arrow.pieces(chain([head], batches), found, name), arms
        path = path_of(source)
        form = self.format if self.format in _READ else form_of(path)
        present = _NAMES[form](path) if form in _NAMES else []
        columns, arms = self._columns_and_arms(present)
        layout = layout._replace(columns=columns)
        if form == "parquet" and groups is not None:
            return str(path), parquet.read_pieces(path, layout, groups), arms
        return str(path), _READ[form](path, layout), arms

    def _columns_and_arms(
        self, present: Sequence[str]
    ) -> tuple[Names, Sequence[str] | None]:
        """Return the names of columns and arms, including those of Open Bandit."""
        is_open_bandit = self.format == "open_bandit"
        if self.format is None and not self.columns:
            is_open_bandit = open_bandit.looks_like(present)
        if not is_open_bandit:
            return columns_by_arm(self.columns, self.arms), self.arms
        names = open_bandit.columns(present) | dict(self.columns)
        return names, self.arms or open_bandit.arms(present)


def read_log(
    source: object,
    *,
    columns: Names | None = None,
    arms: Sequence[str] | None = None,
    experts: Sequence[str] | None = None,
    format: str | None = None,
) -> Log:
    """Read the log in a file (Parquet, CSV, JSON lines, dsjson, Open Bandit), a table
    (pandas, polars, pyarrow, DuckDB), a folder of files, or a list of all these.

    `columns` maps the names of columns of `Log` to those of the file: one name, a list
    of several columns, or "" to ignore the column. `arms` are the names of the arms in
    the order of their numbers, and `experts` the names of the experts whose predictions
    the column advice contains, if the log has no such names. Every row is checked; an
    error names column, row (from 0) and rule. A `Log` is returned unchanged.

    >>> import pyarrow
    >>> table = pyarrow.table(
    ...     {"shown": ["b", "a"], "click": [1, 0], "odds": [0.3, 0.7]}
    ... )
    >>> log = read_log(
    ...     table, columns={"arm": "shown", "reward": "click", "propensity": "odds"}
    ... )
    >>> log.arm, log.arms, log.kind
    (array([1, 0]), ('a', 'b'), 'drawn')
    """
    return LogReader(columns or {}, arms, format, experts=experts).read_log(source)


def log_batches(
    source: object,
    *,
    columns: Names | None = None,
    arms: Sequence[str] | None = None,
    format: str | None = None,
    rows: int = 65_536,
) -> Iterator[Log]:
    """Yield the log in a file or table as logs of at most `rows` rows, in bounded
    memory. If arms have names, `arms` must be given."""
    return LogReader(columns or {}, arms, format, rows).batches(source)


def write_log(
    log: Log | Iterable[Log], path: Path | str, *, format: str | None = None
) -> None:
    """Write a log, or logs one after the other, as Parquet, CSV, JSON lines or dsjson
    according to the suffix, in one atomic step."""
    target = Path(path)
    form = format or SUFFIXES.get(target.suffix.lower())
    if form not in _WRITE:
        raise InvalidInput(
            f"format must be one of {', '.join(_WRITE)} to be written; got "
            f"{form or target.suffix!r}"
        )
    logs = log.split(LogReader.rows) if isinstance(log, Log) else log
    with replacing(target) as file:
        _WRITE[form](_check_alike(logs), file)


def _check_alike(logs: Iterable[Log]) -> Iterator[Log]:
    """Yield the logs that have rows. Raise if there is none, or if they differ in arms
    or experts."""
    first = None
    for log in logs:
        if not len(log):
            continue
        first = first or log
        is_alike = (log.offered is None) == (first.offered is None)
        if log.offered is None and log.arms != first.arms:
            is_alike = False
        if not is_alike or log.experts != first.experts:
            raise InvalidInput(f"logs must have the same arms and experts; got {log!r}")
        yield log
    if first is None:
        raise InvalidInput("logs must not be empty; got 0 rows")


def _name(source: object) -> str:
    return str(source) if isinstance(source, str | Path) else type(source).__name__


def total_rows(reader: LogReader, sources: Sequence[object]) -> int | None:
    """Return the approximate number of rows of all sources, or None if one is
    unknown."""
    total = 0
    for source in sources:
        rows = reader.rows_in(source)
        if rows is None:
            return None
        total += rows
    return total


def _check_same_columns(logs: Sequence[Log], places: Sequence[_Place]) -> None:
    """Raise if the sources do not have the same columns, because columns that some of
    them lack would be dropped."""
    first = places[0]
    names = set(logs[0].columns()) - set(MAY_LACK)
    for log, place in zip(logs, places, strict=True):
        own = set(log.columns()) - set(MAY_LACK)
        if place.source == first.source or own == names:
            continue
        odd = min(own.symmetric_difference(names))
        lacking, other = (first, place) if odd in own else (place, first)
        raise BadFile(
            f"{lacking.name} must have the column {odd!r} as {other.name} has; to do "
            f"without it: columns={{'{odd}': ''}}, --columns {odd}="
        )


def _check_ids(logs: Sequence[Log], places: Sequence[_Place]) -> None:
    """Raise if an id occurs again in another piece."""
    seen: set[str] = set()
    for log, place in zip(logs, places, strict=True):
        if log.decision_id is None:
            return
        ids = log.decision_id.tolist()
        if not seen.isdisjoint(ids):
            row = next(row for row, one in enumerate(ids) if one in seen)
            rule = f"must be unique; got {ids[row]!r} again"
            raise BrokenLog("decision_id", place.first + row, rule, place.name)
        seen.update(ids)
