"""Azure AI Personalizer's logs, line by line: each line is an event, or named with the
reason why it is none.

A log is dsjson by tags (`logs/dsjson.py`), years of it from many versions of a service:
one broken line must not cost the others. What is no event is never passed over in
silence. Rewards outside of the scale are no broken lines, but a wrong scale: without
them a history would be one without its failures, so they stop the reading.
"""

import json
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.offers import offered
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.names import count_of
from oddsmith.logs.dsjson import looks_like, rows_of_event
from oddsmith.logs.files import path_of
from oddsmith.logs.slot_events import are_slots

__all__ = [
    "PersonalizerEvent",
    "RewardsOutside",
    "UNREAD",
    "Unread",
    "UnreadKind",
    "check_rewards",
    "events",
]

UnreadKind: TypeAlias = Literal["broken", "repeat", "observation", "skipped", "empty"]
UNREAD: dict[UnreadKind, str] = {
    "broken": "broken",
    "repeat": "with an EventId that was there before",
    "observation": "with a reward without its decision",
    "skipped": "not to be learnt from (_skipLearn)",
    "empty": "empty",
}
"""Why a line is no event, in words."""

_LONGEST = 2**24  # bytes of a line; 50 actions with 40 features are some 50 kB
_LONGEST_ID = 256


class PersonalizerEvent(NamedTuple):
    """A decision and its reward in [0, 1] (None where none is known), from a line
    (from 1) of a file.

    `pdrop` is the share of events that were dropped when this one was not. Of an event
    about several slots there is one for each, with the place from 1 on as `slot`, the
    EventId as `slate`, and an id made of both.
    """

    file: str
    line: int
    id: str
    time: datetime
    context: dict[str, Any] | None
    arms: tuple[str, ...]
    features: dict[str, Any] | None
    eligible: Bools
    arm: int
    odds: Array
    reward: float | None
    pdrop: float
    slate: str | None = None
    slot: int | None = None


class Unread(NamedTuple):
    """A line (from 1) of a file that is no event, and why."""

    file: str
    line: int
    kind: UnreadKind
    why: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.why}"


class RewardsOutside(InvalidInput):
    """Rewards are outside of the scale; `units` is one that takes them."""

    def __init__(self, sentence: str, units: RewardScale) -> None:
        self.units = units
        super().__init__(sentence)


class _NotRead(Exception):
    """A line is no event."""

    def __init__(self, kind: UnreadKind, why: str) -> None:
        self.kind, self.why = kind, why
        super().__init__(why)


def events(
    paths: Sequence[Path | str], scale: RewardScale
) -> Generator[PersonalizerEvent | Unread, None, None]:
    """The lines of these files, in their order; rewards in the units of `scale`. Memory
    does not grow with the log.

    The slots of an event follow each other.
    An EventId that comes again is refused: the first one counts. The first reward
    outside of the scale raises.
    """
    return _events([path_of(path) for path in paths], scale)


def check_rewards(paths: Sequence[Path | str], scale: RewardScale) -> None:
    """Raises `RewardsOutside` if an event in these files has a reward outside of the
    scale; no other line is refused.

    Only what events cost is looked at, so this takes a small part of the time of
    reading them, and no memory.
    """
    first, count, low, high = "", 0, scale.low, scale.high
    for path in [path_of(path) for path in paths]:
        for number, content in _lines(path):
            if values := _outside(content, scale):
                first = first or f"{path}, line {number}: {_must(values[0], scale)}"
                count, low, high = count + 1, min(low, *values), max(high, *values)
    if count:
        more = f" (and so in {count_of(count - 1, 'line')} more)" if count > 1 else ""
        raise RewardsOutside(first + more, _units(low, high))


def _events(
    files: Sequence[Path], scale: RewardScale
) -> Generator[PersonalizerEvent | Unread, None, None]:
    with closing(_Ids()) as known:
        for path in files:
            for number, content in _lines(path):
                yield from _read(str(path), number, content, scale, known)


def _read(
    file: str, number: int, content: bytes, scale: RewardScale, known: "_Ids"
) -> Sequence[PersonalizerEvent | Unread]:
    try:
        found, id = _found(_object(content))
        if (first := known.first(id, file, number)) is not None:
            raise _NotRead("repeat", f"EventId {id!r:.60} was there before, in {first}")
    except _NotRead as error:
        return [Unread(file, number, error.kind, error.why)]
    except BrokenLog as error:
        return [Unread(file, number, "broken", f"{error.column} {error.rule}")]
    except InvalidInput as error:
        return [Unread(file, number, "broken", str(error))]
    if values := _beyond(found, scale):
        units = _units(min(scale.low, *values), max(scale.high, *values))
        raise RewardsOutside(f"{file}, line {number}: {_must(values[0], scale)}", units)
    rewards = [
        None if one["reward"] is None else scale.reward(one["reward"]) for one in found
    ]
    return [
        PersonalizerEvent(file, number, **one | {"reward": r})
        for one, r in zip(found, rewards, strict=True)
    ]


def _outside(content: bytes, scale: RewardScale) -> list[float]:
    """The rewards of a line that are outside of the scale, if it is an event."""
    try:
        event = _object(content)
        outcomes = event.get("_outcomes")
        parts = (event, *outcomes) if isinstance(outcomes, list) else (event,)
        costs = [one.get("_label_cost") for one in parts if isinstance(one, dict)]
        if all(
            scale.low <= -cost <= scale.high
            for cost in costs
            if isinstance(cost, int | float)
        ):
            return []
        return _beyond(_found(event)[0], scale)
    except (_NotRead, InvalidInput):
        return []


def _beyond(found: list[dict[str, Any]], scale: RewardScale) -> list[float]:
    return [
        r
        for one in found
        if (r := one["reward"]) is not None and not scale.low <= r <= scale.high
    ]


def _must(value: float, scale: RewardScale) -> str:
    return f"the reward must be in [{scale.low:g}, {scale.high:g}]; got {value:g}"


def _units(low: float, high: float) -> RewardScale:
    """Personalizer's own units where they do, else those that were seen."""
    return RewardScale(low, high) if low < -1 or high > 1 else RewardScale(-1.0, 1.0)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """The lines of a file, numbered from 1; of one that is too long, as much as shows
    that."""
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_LONGEST + 1):
                number += 1
                yield number, line
                while len(line) > _LONGEST and not line.endswith(b"\n"):
                    line = file.readline(_LONGEST + 1)
    except OSError as error:
        raise BadFile(f"{path} must be a file that can be read; {error}") from error


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object in a line."""
    if len(content) > _LONGEST:
        raise _NotRead("broken", f"must have at most {_LONGEST:,} bytes; it has more")
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise _NotRead("broken", f"must be UTF-8; {error!s:.100}") from error
    if not text:
        raise _NotRead("empty", "it is empty")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _NotRead("broken", f"must be a JSON object; {error!s:.100}") from error
    if not isinstance(value, dict):
        raise _NotRead(
            "broken", f"must be a JSON object; it is a {type(value).__name__}"
        )
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is no JSON")


def _found(event: dict[str, Any]) -> tuple[list[dict[str, Any]], str]:
    """What an event says of each of its decisions, by the names of `PersonalizerEvent`,
    and its id."""
    if not looks_like(event):
        if "RewardValue" in event or ("EventId" in event and "v" in event):
            raise _NotRead(
                "observation",
                f"a reward for {event.get('EventId')!r:.60}, without its decision",
            )
        raise _NotRead(
            "broken", f"must be a decision, with c and a; got keys {list(event)[:6]}"
        )
    if event.get("_skipLearn"):
        raise _NotRead(
            "skipped", "_skipLearn: it was never activated, or is not what was shown"
        )
    pdrop, id = _share(event.get("pdrop")), _id(event)
    plain = {
        key: value for key, value in event.items() if key not in ("pdrop", "oddsmith")
    }
    rows, time = rows_of_event(plain), _time(event)
    if not are_slots(event):
        listed = np.isin(np.arange(1, len(rows[0]["eligible"]) + 1), event.get("a", ()))
        rows = [rows[0] | {"eligible": listed, "decision_id": id}]
    arms = _arms(rows[0])
    return [arms | _decision(row) | {"time": time, "pdrop": pdrop} for row in rows], id


def _arms(row: dict[str, Any]) -> dict[str, Any]:
    """The names of the actions, and what is known of them."""
    if "offered" not in row:
        raise _NotRead(
            "broken", "c must have a _tag for each action, which is its name; got none"
        )
    names = offered(None, row["offered"]).arms
    features = dict(zip(names, row["features"].values(), strict=True))
    return {"arms": names, "features": features if any(features.values()) else None}


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    """What is said of one decision."""
    if row.get("propensities") is None:
        raise _NotRead("broken", "p must be there: the odds of all actions; got none")
    p = row["propensities"][row["arm"]]
    if not p >= LEAST_PROPENSITY:
        raise _NotRead(
            "broken",
            f"p must be at least {LEAST_PROPENSITY:g} for the action that was drawn; "
            f"got {p:g}",
        )
    drawn = {
        "arm": row["arm"],
        "odds": np.asarray(row["propensities"]),
        "eligible": row["eligible"],
    }
    place = {
        "id": row["decision_id"],
        "slate": row.get("slate"),
        "slot": row.get("slot"),
    }
    return drawn | place | {"context": row["context"], "reward": row["reward"]}


def _id(event: dict[str, Any]) -> str:
    id = event.get("EventId")
    text = str(id) if isinstance(id, int) and not isinstance(id, bool) else id
    if (
        not isinstance(text, str)
        or not 1 <= len(text) <= _LONGEST_ID
        or any(_unstorable(one) for one in text)
    ):
        allowed = f"1 to {_LONGEST_ID} characters, without NUL and lone surrogates"
        raise _NotRead("broken", f"EventId must be text of {allowed}; got {id!r:.60}")
    return text


def _unstorable(character: str) -> bool:
    return character == "\0" or "\ud800" <= character <= "\udfff"


def _time(event: dict[str, Any]) -> datetime:
    """The event's time, in UTC."""
    text = event.get("Timestamp")
    try:
        moment = datetime.fromisoformat(text if isinstance(text, str) else "")
        return (
            moment.replace(tzinfo=UTC)
            if moment.tzinfo is None
            else moment.astimezone(UTC)
        )
    except (ValueError, OverflowError) as error:
        raise _NotRead(
            "broken",
            f"Timestamp must be a time like 2021-04-07T16:40:25Z; got {text!r:.60}",
        ) from error


def _share(pdrop: object) -> float:
    if pdrop is None:
        return 0.0
    if (
        isinstance(pdrop, bool)
        or not isinstance(pdrop, int | float)
        or not 0 <= pdrop < 1
    ):
        raise _NotRead(
            "broken",
            f"pdrop must be a share of events, from 0 to below 1; got {pdrop!r:.60}",
        )
    return float(pdrop)


class _Ids:
    """The ids that were seen and where, in a temporary file that ends with it."""

    def __init__(self) -> None:
        self._connection = sqlite3.connect("", isolation_level=None)
        self._connection.executescript(
            "pragma journal_mode = off; pragma synchronous = off; pragma cache_size = "
            "-8192"
        )
        self._connection.execute(
            "create table ids (id text primary key, place text) without rowid"
        )
        self._connection.execute("begin")

    def first(self, id: str, file: str, line: int) -> str | None:
        """Where an id was before; None for a new one."""
        new = self._connection.execute(
            "insert or ignore into ids values (?, ?)", (id, f"{file}, line {line}")
        )
        if new.rowcount:
            return None
        row = self._connection.execute(
            "select place from ids where id = ?", (id,)
        ).fetchone()
        return str(row[0])

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()
