"""StoreReader: reading a store in SQL, by the queries of its database."""

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from struct import unpack
from typing import Any, ClassVar, NamedTuple, Self

from oddsmith.core.decision import Decision
from oddsmith.core.errors import BadFile, InvalidInput, StoreFailed
from oddsmith.server.store.changes import metrics_of
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
    digests_of,
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

_CHUNK = 2000  # lines in one statement: short reads let a write-ahead log be emptied
_RECENT = 100  # lines in which the newest event is looked for
_BEYOND = 2**62  # any position
_MANY = 500  # ids or positions in one statement
# seconds that a statement may take, where a server answers
_SHORT, _USUAL, _LONG = 2.0, 10.0, 60.0


class Queries(NamedTuple):
    """The statements of one database, with the values that each takes after those that
    are the same for all."""

    head: str
    lines: str  # after, until, limit
    lines_back: str  # before, limit
    history: str  # ids, until
    decisions: str  # positions
    evidence: str  # positions
    summaries: str  # positions
    names: str  # digests
    features: str  # digests
    tally: str  # until
    tally_on: str  # after, until
    changes: str
    of_setting: str  # setting
    of_unit: str  # unit
    of_slate: str  # slate
    has_slates: str
    windows: str  # kinds that close a window, after, limit
    snapshots: str
    content: str  # position


def snapshot_digest(snapshot: Snapshot, content: bytes) -> bytes:
    """What tells whether a snapshot is as it was kept."""
    return sha256(repr(tuple(snapshot)).encode() + content).digest()


class StoreReader(Reading, ABC):
    """`Reading` by the queries of one database, which a subclass has, with `_read`."""

    queries: ClassVar[Queries]
    _metrics: Mapping[str, Mapping[str, Any]] | None = None

    @property
    def metrics(self) -> Mapping[str, Mapping[str, Any]]:
        """The declarations of metrics; read once."""
        if self._metrics is None:
            self._metrics = metrics_of(self)
        return self._metrics

    @metrics.setter
    def metrics(self, declared: Mapping[str, Mapping[str, Any]]) -> None:
        self._metrics = declared

    def introduce(self, where: object, meta: Mapping[str, str]) -> None:
        """Keep what the store's table `meta` states."""
        if missing := _FACTS - set(meta):
            raise BadFile(
                f"{where} must be a store; its table meta lacks "
                f"{', '.join(sorted(missing))}"
            )
        try:
            self.about: dict[str, Any] = json.loads(meta["about"])
        except json.JSONDecodeError as error:
            raise BadFile(
                f"{where} must say in JSON what it is about; {error}"
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
        self.fingerprint, self.description = (
            meta["fingerprint"],
            json.loads(meta["policy"]),
        )
        names: list[str] | None = json.loads(meta["experts"])
        self.experts = None if names is None else tuple(names)
        # up to a position: events stay as they are
        self._counted: tuple[int, dict[EventKind, int]] = 0, {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def head(self) -> int:
        return int(self._fetch(self.queries.head, patience=_SHORT)[0][0])

    def lines(self, after: int, until: int) -> Iterator[Line]:
        while after < until:
            rows = self._fetch(self.queries.lines, after, until, _CHUNK)
            if unknown := {row[1] for row in rows} - _KNOWN:
                kinds = f"events of kind {', '.join(sorted(map(repr, unknown)))}"
                raise StoreFailed(
                    f"the store has {kinds}, which this version does not know: use a "
                    "newer oddsmith"
                )
            yield from map(Line._make, rows)
            if len(rows) < _CHUNK:
                return
            after = rows[-1][0]

    def lines_back(self, before: int, limit: int) -> list[Line]:
        return [
            Line._make(row)
            for row in self._fetch(self.queries.lines_back, before, limit)
        ]

    def history(self, ids: Sequence[str], until: int) -> list[Line]:
        parts = (
            list(ids[first : first + _MANY]) for first in range(0, len(ids), _MANY)
        )
        return sorted(
            Line._make(row)
            for part in parts
            for row in self._fetch(self.queries.history, part, until)
        )

    def decisions(self, positions: Sequence[int]) -> list[Decision]:
        rows, names, features = self._decided(positions)
        return [read_decision(row, names, features) for row in rows]

    def decisions_with_draws(
        self, positions: Sequence[int]
    ) -> list[tuple[Decision, Draw | None]]:
        rows, names, features = self._decided(positions)
        return [
            (
                read_decision(row, names, features),
                read_drawn(row.plain, row.numbers, names),
            )
            for row in rows
        ]

    def draws(self, positions: Sequence[int]) -> list[Draw | None]:
        rows = {
            position: (_json(body), numbers)
            for position, body, numbers in self._found(positions)
        }
        digests = {
            str(plain["arms"])
            for plain, _ in rows.values()
            if plain is not None and "arms" in plain
        }
        names = self._texts(self.queries.names, digests) if digests else {}
        none = None, b""
        return [read_drawn(*rows.get(position, none), names) for position in positions]

    def evidence(self, positions: Sequence[int]) -> list[Evidence]:
        return [
            read_evidence(*row) for row in self._rows(self.queries.evidence, positions)
        ]

    def summaries(self, positions: Sequence[int]) -> list[DecisionSummary]:
        rows = self._rows(self.queries.summaries, positions)
        return [
            DecisionSummary(unit, bool(shadow), unpack("<d", odds)[0], *place)
            for unit, shadow, odds, *place in rows
        ]

    def hold_up(self) -> HoldUp | None:
        return None

    def newest(self) -> Line | None:
        for line in self.lines_back(_BEYOND, _RECENT):
            if line.kind != "configuration" or line.id == CLOCK:
                return line
        return None

    def tally(self) -> dict[EventKind, int]:
        (after, counts), until = self._counted, self.head()
        if 0 < after <= until:
            more = (
                self._fetch(self.queries.tally_on, after, until, patience=_LONG)
                if after < until
                else ()
            )
            counts = counts | {
                kind: counts.get(kind, 0) + times for kind, times in more
            }
        else:
            counts = dict(self._fetch(self.queries.tally, until, patience=_LONG))
        self._counted = until, counts
        return dict(counts)

    def changes(self) -> list[Line]:
        return [
            Line._make(row) for row in self._fetch(self.queries.changes, patience=_LONG)
        ]

    def of_setting(self, setting: str) -> list[Line]:
        return [
            Line._make(row) for row in self._fetch(self.queries.of_setting, setting)
        ]

    def of_unit(self, unit: str) -> list[Line]:
        return [Line._make(row) for row in self._fetch(self.queries.of_unit, unit)]

    def of_slate(self, slate: str) -> list[Line]:
        return [Line._make(row) for row in self._fetch(self.queries.of_slate, slate)]

    def has_slates(self) -> bool:
        return bool(self._fetch(self.queries.has_slates)[0][0])

    def windows(self, after: int, limit: int) -> list[Window]:
        closing = ["default", "reward"] if self.rule == "first" else ["default"]
        rows = self._fetch(self.queries.windows, closing, after, limit)
        return [
            Window(position, id, time, bool(closed))
            for position, id, time, closed in rows
        ]

    def snapshots(self) -> list[Snapshot]:
        return [Snapshot._make(row) for row in self._fetch(self.queries.snapshots)]

    def content(self, position: int) -> bytes:
        rows = self._fetch(self.queries.content, position, patience=_LONG)
        if not rows:
            raise InvalidInput(f"position must be that of a snapshot; got {position}")
        *facts, digest, content = rows[0]
        if snapshot_digest(Snapshot._make(facts), bytes(content)) != bytes(digest):
            raise DamagedSnapshot(
                f"the snapshot at position {position} is damaged: it is not what was "
                "kept"
            )
        return bytes(content)

    @abstractmethod
    def copy(self, part: Path) -> None:
        """Write all of it, as of one moment, into an empty file, as a store in
        SQLite."""

    def _found(
        self, positions: Sequence[int], query: str | None = None
    ) -> Iterator[tuple[Any, ...]]:
        """The rows of decisions that a query gives, by default the bodies and
        numbers."""
        for first in range(0, len(positions), _MANY):
            yield from self._fetch(
                query or self.queries.evidence, list(positions[first : first + _MANY])
            )

    def _rows(self, query: str, positions: Sequence[int]) -> list[tuple[Any, ...]]:
        """The rows of decisions that a query gives, without their positions, in the
        order asked for."""
        rows = {row[0]: tuple(row)[1:] for row in self._found(positions, query)}
        if missing := [position for position in positions if position not in rows]:
            raise InvalidInput(
                f"positions must be those of decisions; got {missing[0]}"
            )
        return [rows[position] for position in positions]

    def _decided(
        self, positions: Sequence[int]
    ) -> tuple[list[DecisionRow], dict[str, str], dict[str, str]]:
        """The rows of decisions, with the names and features that they refer to."""
        rows = [
            DecisionRow.read(*row)
            for row in self._rows(self.queries.decisions, positions)
        ]
        names = self._texts(
            self.queries.names,
            {row.plain["arms"] for row in rows if "arms" in row.plain},
        )
        features = self._texts(
            self.queries.features,
            {digest for row in rows for digest in digests_of(row)},
        )
        return rows, names, features

    def _texts(self, query: str, digests: set[str]) -> dict[str, str]:
        """The texts of these digests."""
        ordered = sorted(digests)
        parts = (
            ordered[first : first + _MANY] for first in range(0, len(ordered), _MANY)
        )
        return {
            digest: body for part in parts for digest, body in self._fetch(query, part)
        }

    @abstractmethod
    def _fetch(
        self, query: str, *values: object, patience: float = _USUAL
    ) -> list[tuple[Any, ...]]:
        """The rows that a statement gives."""


def _json(body: str) -> dict[str, Any] | None:
    """The JSON of a decision's body; None where it is none."""
    try:
        plain = json.loads(body)
    except ValueError:
        return None
    return plain if isinstance(plain, dict) else None
