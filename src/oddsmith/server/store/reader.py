"""StoreReader: read a store with the SQL queries of its database."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from struct import unpack
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from oddsmith.core.decision import Decision
from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.server.store.changes import metrics_of
from oddsmith.server.store.contents import parts_of
from oddsmith.server.store.events import CLOCK, DecisionSummary
from oddsmith.server.store.meta import backup_facts
from oddsmith.server.store.protocol import (
    KINDS,
    RULES,
    DamagedSnapshot,
    Draw,
    EventKind,
    Evidence,
    Late,
    Line,
    Reading,
    Rule,
    Snapshot,
    Window,
)
from oddsmith.server.store.rows import (
    DecisionRow,
    read_decision,
    read_drawn,
    read_evidence,
)
from oddsmith.server.store.trouble import HoldUp

__all__ = ["Queries", "StoreReader", "snapshot_digest"]

_FACTS = {
    "about",
    "epochs",
    "experts",
    "fingerprint",
    "gapless",
    "late",
    "policy",
    "rule",
    "secret",
}
_KNOWN = set(KINDS)

# lines per statement; short reads let SQLite truncate its write-ahead log
_CHUNK = 2000
_RECENT = 100  # lines that are searched for the newest event
_BEYOND = 2**62  # larger than any position
_MANY = 500  # maximum number of ids or positions per statement
_T = TypeVar("_T")
# time limits of statements on a server, in seconds
_SHORT = 2.0
_USUAL = 10.0
_LONG = 60.0


class Queries(NamedTuple):
    """The SQL statements of one database; the comments list the parameters of each."""

    head: str
    lines: str  # parameters: after, until, limit
    lines_back: str  # parameters: before, limit
    history: str  # parameters: ids, until
    decisions: str  # parameters: positions
    evidence: str  # parameters: positions
    summaries: str  # parameters: positions
    names: str  # parameters: digests
    features: str  # parameters: digests
    tally: str  # parameters: until
    tally_on: str  # parameters: after, until
    changes: str
    of_setting: str  # parameters: setting
    actions: str
    of_unit: str  # parameters: unit
    of_slate: str  # parameters: slate
    has_slates: str
    windows: str  # parameters: kinds that close a window, after, limit
    snapshots: str
    content: str  # parameters: position


def snapshot_digest(snapshot: Snapshot, content: bytes) -> bytes:
    """Return the digest that detects a damaged snapshot."""
    return sha256(repr(tuple(snapshot)).encode() + content).digest()


class StoreReader(Reading, ABC):
    """Implements `Reading` with SQL queries. Subclasses define the queries for one
    database, and `_fetch`."""

    queries: ClassVar[Queries]
    _metrics: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """Declarations of the metrics by name. They are read only once."""
        if self._metrics is None:
            self._metrics = metrics_of(self)
        return self._metrics

    @metrics.setter
    def metrics(self, declared: Mapping[str, Mapping[str, Any]]) -> None:
        self._metrics = declared

    def introduce(self, where: object, meta: Mapping[str, str]) -> None:
        """Read the facts of the store's table `meta`."""
        missing = _FACTS - set(meta)
        if missing:
            raise BadFile(
                f"{where} must be a store; its table meta lacks "
                f"{', '.join(sorted(missing))}"
            )
        try:
            self.about: dict[str, Any] = json.loads(meta["about"])
        except json.JSONDecodeError as error:
            raise BadFile(
                f"{where} must describe its experiment in JSON; {error}"
            ) from error
        self.rule: Rule = next(
            (rule for rule in RULES if rule == meta["rule"]), "first"
        )
        low, high = self.about.get("reward", (0.0, 1.0))
        self.zero = -low / (high - low)
        weights = self.about.get("reward_weights", {})
        self.reward_weights: Mapping[str, float] = {
            name: weight / (high - low) for name, weight in weights.items()
        }
        self.late: Late = "rewrites" if meta["late"] == "rewrites" else "arrives"
        self.gapless = bool(json.loads(meta["gapless"]))
        self.secret = bytes.fromhex(meta["secret"])
        self.meta = dict(meta)
        self.epochs = [(name, after) for name, after in json.loads(meta["epochs"])]
        self.backup = backup_facts(meta)
        self.fingerprint = meta["fingerprint"]
        self.description = json.loads(meta["policy"])
        names: list[str] | None = json.loads(meta["experts"])
        self.experts = None if names is None else tuple(names)
        # cache: events never change, so counts up to a position stay valid
        self._counted = 0
        self._counts: dict[EventKind, int] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def head(self) -> int:
        return int(self._fetch(self.queries.head, patience=_SHORT)[0][0])

    def lines(self, after: int, until: int) -> Iterator[Line]:
        while after < until:
            rows = self._fetch(self.queries.lines, after, until, _CHUNK)
            lines = list(map(Line._make, rows))
            unknown = {line.kind for line in lines} - _KNOWN
            if unknown:
                kinds = f"events of kind {', '.join(sorted(map(repr, unknown)))}"
                raise StoreFailed(
                    f"the store has {kinds}, which this version does not know: use a "
                    "newer oddsmith"
                )
            yield from lines
            if len(lines) < _CHUNK:
                return
            after = lines[-1].position

    def lines_back(self, before: int, limit: int) -> list[Line]:
        return self._lines(self.queries.lines_back, before, limit)

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        lines: list[Line] = []
        for part in _parts(ids):
            lines += self._lines(self.queries.history, part, until)
        return sorted(lines)

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        rows, names, features = self._decision_rows(positions)
        return [read_decision(row, names, features) for row in rows]

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        rows, names, features = self._decision_rows(positions)
        pairs: list[tuple[Decision, Draw | None]] = []
        for row in rows:
            draw = read_drawn(row.plain, row.numbers, names)
            pairs.append((read_decision(row, names, features), draw))
        return pairs

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        bodies: dict[int, dict[str, Any]] = {}
        numbers: dict[int, bytes] = {}
        digests: set[str] = set()
        rows = self._fetch_by_position(self.queries.evidence, positions)
        for position, body, content in rows:
            plain = _json(body)
            if plain is not None:
                bodies[position] = plain
                numbers[position] = content
                digests |= {str(plain["arms"])} if "arms" in plain else set()
        names = self._texts(self.queries.names, digests)
        draws: list[Draw | None] = []
        for position in positions:
            draw = None
            if position in bodies:
                draw = read_drawn(bodies[position], numbers[position], names)
            draws.append(draw)
        return draws

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        rows = self._rows(self.queries.evidence, positions)
        return [read_evidence(body, numbers) for body, numbers in rows]

    def summaries(self, positions: Sequence[int]) -> list[DecisionSummary]:
        summaries: list[DecisionSummary] = []
        rows = self._rows(self.queries.summaries, positions)
        for unit, shadow, content, slate, slot in rows:
            (odds,) = unpack("<d", content)
            summaries.append(DecisionSummary(unit, bool(shadow), odds, slate, slot))
        return summaries

    def hold_up(self) -> HoldUp | None:
        return None

    def newest(self) -> Line | None:
        for line in self.lines_back(_BEYOND, _RECENT):
            if line.kind != "configuration" or line.id == CLOCK:
                return line
        return None

    def tally(self) -> dict[EventKind, int]:
        after = self._counted
        until = self.head()
        counts = dict(self._counts)
        if not 0 < after <= until:
            counts = dict(self._fetch(self.queries.tally, until, patience=_LONG))
        elif after < until:
            rows = self._fetch(self.queries.tally_on, after, until, patience=_LONG)
            for kind, times in rows:
                counts[kind] = counts.get(kind, 0) + times
        self._counted = until
        self._counts = counts
        return dict(counts)

    def changes(self) -> list[Line]:
        return self._lines(self.queries.changes, patience=_LONG)

    def of_setting(self, setting: str) -> list[Line]:
        return self._lines(self.queries.of_setting, setting)

    def actions(self) -> list[Line]:
        return self._lines(self.queries.actions, patience=_SHORT)

    def of_unit(self, unit: str) -> list[Line]:
        return self._lines(self.queries.of_unit, unit)

    def of_slate(self, slate: str) -> list[Line]:
        return self._lines(self.queries.of_slate, slate)

    def has_slates(self) -> bool:
        return bool(self._fetch(self.queries.has_slates)[0][0])

    def windows(self, after: int, limit: int) -> list[Window]:
        closing = ["default", "reward"] if self.rule == "first" else ["default"]
        rows = self._fetch(self.queries.windows, closing, after, limit)
        windows: list[Window] = []
        for position, id, time, closed in rows:
            windows.append(Window(position, id, time, bool(closed)))
        return windows

    def snapshots(self) -> list[Snapshot]:
        return [Snapshot._make(row) for row in self._fetch(self.queries.snapshots)]

    def content(self, position: int) -> bytes:
        rows = self._fetch(self.queries.content, position, patience=_LONG)
        if not rows:
            raise InvalidInput(f"position must be that of a snapshot; got {position}")
        *facts, digest, content = rows[0]
        if snapshot_digest(Snapshot._make(facts), bytes(content)) != bytes(digest):
            raise DamagedSnapshot(
                f"the snapshot at position {position} is damaged: its content differs "
                "from what was stored"
            )
        return bytes(content)

    @abstractmethod
    def copy(self, part: Path) -> None:
        """Write a consistent copy of the store into an empty file, as a SQLite
        store."""

    def _lines(
        self, query: str, *values: object, patience: float = _USUAL
    ) -> list[Line]:
        rows = self._fetch(query, *values, patience=patience)
        return list(map(Line._make, rows))

    def _fetch_by_position(
        self, query: str, positions: Sequence[int]
    ) -> Iterator[tuple[Any, ...]]:
        for part in _parts(positions):
            yield from self._fetch(query, part)

    def _rows(self, query: str, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """Return the rows of the decisions at these positions, in this order. The rows
        do not contain the positions."""
        rows: dict[int, tuple[Any, ...]] = {}
        for position, *columns in self._fetch_by_position(query, positions):
            rows[position] = tuple(columns)
        for position in positions:
            if position not in rows:
                raise InvalidInput(
                    f"positions must be those of decisions; got {position}"
                )
        return [rows[position] for position in positions]

    def _decision_rows(
        self, positions: Sequence[int]
    ) -> tuple[list[DecisionRow], dict[str, str], dict[str, str]]:
        """Return the rows of decisions, with two dicts from digest to text: of their
        names and of their features."""
        rows: list[DecisionRow] = []
        name_digests: set[str] = set()
        feature_digests: set[str] = set()
        for columns in self._rows(self.queries.decisions, positions):
            body, content, there, digests, context = columns
            row = DecisionRow(json.loads(body), content, bool(there), digests, context)
            rows.append(row)
            if digests:
                feature_digests.update(parts_of(digests))
            if "arms" in row.plain:
                name_digests.add(row.plain["arms"])
        names: dict[str, str] = {}
        if name_digests:
            names = self._texts(self.queries.names, name_digests)
        features: dict[str, str] = {}
        if feature_digests:
            features = self._texts(self.queries.features, feature_digests)
        return rows, names, features

    def _texts(self, query: str, digests: set[str]) -> dict[str, str]:
        """Return a dict with the text of each digest."""
        texts: dict[str, str] = {}
        for part in _parts(sorted(digests)):
            texts |= self._fetch(query, part)
        return texts

    @abstractmethod
    def _fetch(
        self, query: str, *values: object, patience: float = _USUAL
    ) -> list[tuple[Any, ...]]:
        """Return the rows of a statement."""


def _parts(values: Sequence[_T]) -> Iterator[list[_T]]:
    """Split ids or positions into lists that fit into one statement each."""
    for first in range(0, len(values), _MANY):
        yield list(values[first : first + _MANY])


def _json(body: str) -> dict[str, Any] | None:
    """Return the JSON of a decision's body; None if it is damaged."""
    try:
        plain = json.loads(body)
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None
