"""Columns side by side, one for each arm: whose each is, where their names say so."""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from itertools import chain, takewhile
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
from oddsmith.logs.pieces import (
    Layout,
    Names,
    Piece,
    found_columns,
    listed,
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

_BY_ARM = ("propensities", "eligible")


def columns_by_arm(columns: Names, arms: Sequence[str] | None) -> Names:
    """The columns in the order of the arms, where their names say whose each is; else
    as they were given.

    >>> columns_by_arm({"propensities": ["p_tech", "p_sports"]}, ["sports", "tech"])
    {'propensities': ['p_sports', 'p_tech']}
    """
    ordered = dict(columns)
    for name in _BY_ARM if arms is not None else ():
        theirs = listed(columns.get(name, ""))
        said = dict(zip(_told_apart(theirs), theirs, strict=True))
        if len(theirs) > 1 and said.keys() == set(arms or ()):
            ordered[name] = [said[arm] for arm in arms or ()]
    return ordered


def arms_by_column(
    columns: Names, drawn: Collection[str], source: str
) -> list[str] | None:
    """The arms in the order of the columns; None where no columns stand side by side.

    Names of which an arm that was drawn is none are refused: odds would go to other
    arms.
    """
    for name in _BY_ARM:
        theirs = listed(columns.get(name, ""))
        if len(theirs) < 2 or not drawn:
            continue
        said = _told_apart(theirs)
        if strange := sorted(set(drawn) - set(said)):
            raise BadFile(
                f"{source} must have the arms' names in those of its columns for "
                f"{name}, {', '.join(theirs[:8])}; {strange[0]!r:.60} is in none: name "
                "the arms in the order of the columns, by arms=[…] or --arms"
            )
        return said
    return None


def _told_apart(columns: Sequence[str]) -> list[str]:
    """The columns' names without what all of them begin and end with, whole words only.

    >>> _told_apart(["p_table_now", "p_tablet_now"])
    ['table', 'tablet']
    """
    words = [re.split(r"([\W_]+)", one) for one in columns]
    head = _alike(words)
    tail = _alike([one[head:][::-1] for one in words])
    return ["".join(one[head : len(one) - tail]) for one in words]


def _alike(rows: Sequence[Sequence[str]]) -> int:
    """How many of their first entries all rows have in common."""
    return sum(
        1
        for _ in takewhile(
            lambda entries: len(set(entries)) == 1, zip(*rows, strict=False)
        )
    )


FORMATS = ("parquet", "csv", "jsonl", "dsjson", "open_bandit", "arrow")
_Read: TypeAlias = Callable[[Path, Layout], Iterator[Piece]]
_Write: TypeAlias = Callable[[Iterable[Log], IO[bytes]], None]
_READ: dict[str, _Read] = {
    "parquet": parquet.read,
    "csv": csv.read,
    "jsonl": jsonl.read,
    "dsjson": dsjson.read,
}
_NAMES = {"parquet": parquet.names, "csv": csv.names}
_WRITE: dict[str, _Write] = {
    "parquet": parquet.write,
    "csv": csv.write,
    "jsonl": jsonl.write,
    "dsjson": dsjson.write,
}


class _Place(NamedTuple):
    """Where some rows are: the number and name of their source, and the first row."""

    source: int
    name: str
    first: int


class _Part(NamedTuple):
    """A piece of a source, and the arms that the reader knows of it."""

    place: _Place
    piece: Piece
    arms: Sequence[str] | None


@dataclass(frozen=True)
class LogReader:
    """How logs are read: their names of our columns, the arms' names, the format (None:
    by suffix and content), and how many rows at a time. Columns that are not in `only`
    are passed over (None: none are). `experts` names those of the column advice, where
    the log does not. With `offers` a log of fixed arms is read as one whose rows each
    offered all of them. `scale` are the units of the rewards in files and tables: they
    are mapped to [0, 1] as they are read.

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
            if getattr(self, what) is not None:
                object.__setattr__(self, what, check_names(what, getattr(self, what)))

    def batches(
        self, source: object, groups: Sequence[int] | None = None
    ) -> Iterator[Log]:
        """Checked logs of at most `rows` rows, one after the other; of some row groups
        of a Parquet file, if given."""
        if isinstance(source, Log):
            yield from self._kept(source).split(self.rows)
            return
        name, pieces, arms = self._pieces(source, groups)
        yield from (
            self._brought(log_of(piece, arms, self.experts, name, self.scale))
            for piece in pieces
        )

    def sources(self, source: object, what: str = "source") -> list[object]:
        """The files, tables and logs of a source, of which each is read by itself: a
        list is what it lists, a folder its log files in the order of their names."""
        if isinstance(source, str | Path | Log) or _is_table(source):
            listed_sources = [source]
        elif isinstance(source, Iterable):
            listed_sources = list(source)
        else:
            raise InvalidInput(
                f"{what} must be a file, a folder, a table, a Log, or a list of them; "
                f"got {type(source).__name__}"
            )
        found: list[object] = []
        for one in listed_sources:
            if isinstance(one, str | Path) and Path(one).is_dir():
                form = self.format if self.format in _READ else None
                found.extend(files_in(Path(one), form))
            else:
                found.append(one)
        return found

    def rows_in(self, source: object) -> int | None:
        """How many rows a file, a table or a log has, about: Parquet says it, of text
        the lines in some of its bytes do; None where nothing does."""
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
        """The whole log, of one file or of several that continue each other. Arms that
        have names and no order given are sorted, or as columns side by side name
        them."""
        if isinstance(source, Log):
            return self._kept(source)
        sources = self.sources(source)
        parts = self._parts(sources)
        if not parts:
            name = _name(sources[0]) if len(sources) == 1 else "logs"
            raise BadFile(f"{name} must have at least one row; got none")
        arms = self._arms_of(parts)
        logs: list[Log] = []
        places: list[_Place] = []
        parts.reverse()
        while parts:  # a piece that has become a log is no longer kept
            place, piece, known = parts.pop()
            if known is None and piece.arms is None:
                known = arms
            places.append(place)
            logs.append(log_of(piece, known, self.experts, place.name, self.scale))
        _check_same_columns(logs, places)
        _check_ids(logs, places)
        return self._brought(Log.concatenated(logs))

    def _parts(self, sources: Sequence[object]) -> list[_Part]:
        """The pieces of all sources, with a bar of their rows."""
        parts: list[_Part] = []
        with closing(
            Bar("reading rows", total_rows(self, sources), every=LINE_EVERY_S)
        ) as bar:
            for number, source in enumerate(sources):
                if isinstance(source, Log):
                    raise InvalidInput(
                        "source must be files or tables, or one Log; got a Log in a "
                        "list: Log.concatenated joins logs"
                    )
                name, found, arms = self._pieces(source, None)
                for piece in found:
                    place = _Place(number, name, piece.first)
                    parts.append(_Part(place, piece, arms))
                    bar.advance(len(piece.columns["arm"]))
        return parts

    def _arms_of(self, parts: Sequence[_Part]) -> list[str] | None:
        """The names of the arms in their order, where files do not say it."""
        unnamed = [
            part
            for part in parts
            if part.arms is None
            and part.piece.arms is None
            and "offered" not in part.piece.columns
        ]
        drawn = set().union(*(names_in(part.piece) for part in unnamed))
        if not unnamed:
            return None
        by_column = arms_by_column(self.columns, drawn, unnamed[0].place.name)
        return by_column or sorted(drawn) or None

    def is_own(self, source: object) -> bool:
        """Whether a file was written by `write_log` or `oddsmith export`, as far as it
        says so: rewards are then in [0, 1]. Parquet says so itself, other formats by
        the column `fingerprint`; dsjson has costs in [-1, 0].
        """
        _, pieces, _ = self._pieces(source, None)
        first = next(pieces, None)
        return first is not None and first.own

    def _brought(self, log: Log) -> Log:
        """The log, with all its arms offered in every row where that is wanted."""
        return as_offers(log) if self.offers else log

    def _kept(self, log: Log) -> Log:
        """The wanted columns of a log in memory; arms and experts that it does not name
        get the names given."""
        if self.columns:
            raise InvalidInput(
                "columns must not be given for a Log, which has our names"
            )
        log = self._brought(log)
        wanted = (
            log
            if self.only is None
            else log.without(*(set(COLUMNS) - {"arm", "reward", "offered", *self.only}))
        )
        for what in ("arms", "experts"):
            mine, theirs = getattr(self, what), getattr(log, what)
            if mine is not None and theirs not in (None, tuple(mine)):
                raise InvalidInput(
                    f"log must have the {what} {list(mine)} in this order; it has "
                    f"{list(theirs)}"
                )
        if self.arms in (None, log.arms) and self.experts in (None, log.experts):
            return wanted
        return replace(
            wanted, arms=self.arms or log.arms, experts=self.experts or log.experts
        )

    def _pieces(
        self, source: object, groups: Sequence[int] | None
    ) -> tuple[str, Iterator[Piece], Sequence[str] | None]:
        """The source's name, its pieces, and the arms."""
        layout = Layout(self.columns, self.only, self.rows)
        if hasattr(source, "__arrow_c_stream__"):
            name, batches = type(source).__name__, arrow.stream(source, self.rows)
            if (head := next(batches, None)) is None:
                return name, iter(()), self.arms
            mine, arms = self._open_bandit(head.schema.names, self.format)
            present = found_columns(
                head.schema.names, layout._replace(columns=mine), name
            )
            return name, arrow.pieces(chain([head], batches), present, name), arms
        path = path_of(source)
        form = self.format if self.format in _READ else form_of(path)
        mine, arms = self._open_bandit(
            _NAMES[form](path) if form in _NAMES else [], self.format
        )
        layout = layout._replace(columns=mine)
        if form == "parquet" and groups is not None:
            return str(path), parquet.read(path, layout, groups), arms
        return str(path), _READ[form](path, layout), arms

    def _open_bandit(
        self, present: Sequence[str], form: str | None
    ) -> tuple[Names, Sequence[str] | None]:
        """Their names and arms, of an Open Bandit log where it is one and no columns
        are given."""
        if form == "open_bandit" or (
            form is None and not self.columns and open_bandit.looks_like(present)
        ):
            return open_bandit.columns(present) | dict(
                self.columns
            ), self.arms or open_bandit.arms(present)
        return columns_by_arm(self.columns, self.arms), self.arms


def read_log(
    source: object,
    *,
    columns: Names | None = None,
    arms: Sequence[str] | None = None,
    experts: Sequence[str] | None = None,
    format: str | None = None,
) -> Log:
    """The log in a file (Parquet, CSV, JSON lines, dsjson, Open Bandit), a table
    (pandas, polars, pyarrow, DuckDB), a folder of files, or a list of all these.

    `columns` maps our names to theirs, several of theirs side by side as a list, and ""
    leaves one of ours out; `arms` names the arms in the order of their numbers,
    `experts` those whose predictions the column advice holds, where the log does not
    say so. Every row is checked; a violation names column, row (from 0) and rule. A
    `Log` is given back.

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
    """The log in a file or table as logs of at most `rows` rows, in bounded memory;
    arms with names need `arms`."""
    return LogReader(columns or {}, arms, format, rows).batches(source)


def write_log(
    log: Log | Iterable[Log], path: Path | str, *, format: str | None = None
) -> None:
    """Write a log, or logs one after the other, by the suffix as Parquet, CSV, JSON
    lines or dsjson: all or nothing."""
    target = Path(path)
    form = format or SUFFIXES.get(target.suffix.lower())
    if form not in _WRITE:
        raise InvalidInput(
            f"format must be one of {', '.join(_WRITE)} to be written; got "
            f"{form or target.suffix!r}"
        )
    logs = log.split(LogReader.rows) if isinstance(log, Log) else log
    with replacing(target) as file:
        _WRITE[form](_alike_reading(logs), file)


def _alike_reading(logs: Iterable[Log]) -> Iterator[Log]:
    """The logs that have rows; refused unless there is one, and all are about the same
    arms and experts."""
    first = None
    for log in logs:
        if len(log):
            first = first or log
            arms = log.arms == first.arms if log.offered is None else True
            if (
                not arms
                or (log.offered is None) != (first.offered is None)
                or log.experts != first.experts
            ):
                raise InvalidInput(
                    f"logs must have the same arms and experts; got {log!r}"
                )
            yield log
    if first is None:
        raise InvalidInput("logs must not be empty; got 0 rows")


def _is_table(source: object) -> bool:
    return hasattr(source, "__arrow_c_stream__")


def _name(source: object) -> str:
    return str(source) if isinstance(source, str | Path) else type(source).__name__


def total_rows(reader: LogReader, sources: Sequence[object]) -> int | None:
    """The rows of all sources, about; None where those of one are not known."""
    counts = [reader.rows_in(source) for source in sources]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


def _check_same_columns(logs: Sequence[Log], places: Sequence[_Place]) -> None:
    """Refuses a source without a column that the first one has, or the other way
    round: it would be left out of all."""
    names = set(logs[0].columns()) - set(MAY_LACK)
    first = places[0]
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
    """Refuses an id that comes again in another piece."""
    seen: set[str] = set()
    for log, place in zip(logs, places, strict=True):
        if log.decision_id is None or len(logs) == 1:
            return
        ids = log.decision_id.tolist()
        if not seen.isdisjoint(ids):
            row = next(row for row, one in enumerate(ids) if one in seen)
            rule = f"must be unique; got {ids[row]!r} again"
            raise BrokenLog("decision_id", place.first + row, rule, place.name)
        seen.update(ids)
