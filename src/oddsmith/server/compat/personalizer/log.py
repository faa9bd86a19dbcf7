"""Read logs of Azure AI Personalizer line by line. Each line yields events, or a report
of why the line is not an event.

A log is dsjson by tags (`logs/dsjson.py`), possibly several years of it from many
versions of a service. A broken line must not affect the others, and every line that is
not an event is reported. A reward outside the scale raises an error, because then the
scale is wrong and not the line. Skipping such lines would remove the failures from the
history.
"""

import json
import sqlite3
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from oddsmith.contexts.offers import make_offer
from oddsmith.contexts.rewards import RewardScale
from oddsmith.core.arrays import Array, Bools
from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.core.errors import BadFile, BrokenLog, InvalidInput
from oddsmith.core.names import count_of
from oddsmith.logs.dsjson import looks_like, rows_of_event
from oddsmith.logs.files import path_of
from oddsmith.logs.slot_events import are_slots
from oddsmith.server.store.events import LONGEST_ID, is_id

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
    "repeat": "with an EventId that was read before",
    "observation": "with a reward but without its decision",
    "skipped": "that must not be learned from (_skipLearn)",
    "empty": "empty",
}
"""Descriptions of the reasons why a line is not an event."""

_LONGEST = 2**24  # maximum bytes per line; 50 actions with 40 features take about 50 kB


class PersonalizerEvent(NamedTuple):
    """A decision from a line (numbered from 1) of a file, and its reward in [0, 1],
    None if it is unknown.

    `pdrop` is the share of events that were dropped by sampling. An event about several
    slots becomes one decision per slot, with the number of the slot, starting at 1, as
    `slot`, the EventId as `slate`, and an id made of both.
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
    """A line (numbered from 1) of a file that is not an event, and the reason."""

    file: str
    line: int
    kind: UnreadKind
    why: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.why}"


class RewardsOutside(InvalidInput):
    """Error: rewards are outside the scale. `units` is a scale that contains them."""

    def __init__(self, sentence: str, units: RewardScale) -> None:
        self.units = units
        super().__init__(sentence)


class _NotAnEvent(Exception):
    """Internal error: a line is not an event."""

    def __init__(self, kind: UnreadKind, why: str) -> None:
        self.kind: UnreadKind = kind
        self.why = why
        super().__init__(why)


def _broken(why: str) -> _NotAnEvent:
    return _NotAnEvent("broken", why)


def events(
    paths: Sequence[Path | str], scale: RewardScale
) -> Generator[PersonalizerEvent | Unread, None, None]:
    """Yield the lines of these files in order, with rewards in the units of `scale`.
    Memory does not grow with the log.

    The slots of an event follow each other. A repeated EventId is refused, because the
    first one counts. The first reward outside the scale raises.
    """
    return _events([path_of(path) for path in paths], scale)


def check_rewards(paths: Sequence[Path | str], scale: RewardScale) -> None:
    """Raise `RewardsOutside` if an event in these files has a reward outside the scale.
    Other faults are ignored.

    Only the costs of events are read, so this takes a small part of the time of reading
    the events, and no memory.
    """
    first = ""
    count = 0
    low = scale.low
    high = scale.high
    for path in [path_of(path) for path in paths]:
        for number, content in _lines(path):
            rewards = _rewards_outside(content, scale)
            if not rewards:
                continue
            if not first:
                first = f"{path}, line {number}: {_reward_rule(rewards[0], scale)}"
            count += 1
            low = min(low, *rewards)
            high = max(high, *rewards)
    if count:
        more = ""
        if count > 1:
            more = f" (and so in {count_of(count - 1, 'line')} more)"
        raise RewardsOutside(first + more, _units(low, high))


def _events(
    files: Sequence[Path], scale: RewardScale
) -> Generator[PersonalizerEvent | Unread, None, None]:
    with closing(_Ids()) as known:
        for path in files:
            for number, content in _lines(path):
                yield from _events_of_line(str(path), number, content, scale, known)


def _events_of_line(
    file: str, number: int, content: bytes, scale: RewardScale, known: "_Ids"
) -> Sequence[PersonalizerEvent | Unread]:
    """Return the events of a line, one per slot, or the reason why there is none."""
    try:
        event = _object(content)
        decisions = _decisions(event)
        id = _id(event)
        earlier = known.first(id, file, number)
        if earlier is not None:
            raise _NotAnEvent(
                "repeat", f"EventId {id!r:.60} was there before, in {earlier}"
            )
    except _NotAnEvent as error:
        return [Unread(file, number, error.kind, error.why)]
    except BrokenLog as error:
        return [Unread(file, number, "broken", f"{error.column} {error.rule}")]
    except InvalidInput as error:
        return [Unread(file, number, "broken", str(error))]
    rewards = _outside(decisions, scale)
    if rewards:
        units = _units(min(scale.low, *rewards), max(scale.high, *rewards))
        rule = _reward_rule(rewards[0], scale)
        raise RewardsOutside(f"{file}, line {number}: {rule}", units)
    found: list[PersonalizerEvent] = []
    for decision in decisions:
        reward = decision.pop("reward")
        if reward is not None:
            reward = scale.reward(reward)
        found.append(PersonalizerEvent(file, number, reward=reward, **decision))
    return found


def _rewards_outside(content: bytes, scale: RewardScale) -> list[float]:
    """Return the rewards of a line that are outside the scale; empty if the line is not
    an event."""
    try:
        event = _object(content)
        outcomes = event.get("_outcomes")
        parts = [event, *outcomes] if isinstance(outcomes, list) else [event]
        if all(_is_within(part, scale) for part in parts):
            return []
        return _outside(_decisions(event), scale)
    except (_NotAnEvent, InvalidInput):
        return []


def _is_within(part: object, scale: RewardScale) -> bool:
    """Return whether the cost of an event or a slot is in the scale, or missing."""
    cost = part.get("_label_cost") if isinstance(part, dict) else None
    return not isinstance(cost, int | float) or scale.low <= -cost <= scale.high


def _outside(decisions: list[dict[str, Any]], scale: RewardScale) -> list[float]:
    """Return the rewards of these decisions that are outside the scale."""
    rewards = [decision["reward"] for decision in decisions]
    return [
        reward
        for reward in rewards
        if reward is not None and not scale.low <= reward <= scale.high
    ]


def _reward_rule(value: float, scale: RewardScale) -> str:
    return f"the reward must be in [{scale.low:g}, {scale.high:g}]; got {value:g}"


def _units(low: float, high: float) -> RewardScale:
    """Return Personalizer's own scale of rewards if it contains these rewards,
    otherwise a scale that contains them."""
    if low < -1 or high > 1:
        return RewardScale(low, high)
    return RewardScale(-1.0, 1.0)


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file, numbered from 1; a line that is too long is
    truncated."""
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
    """Parse the JSON object in a line."""
    if len(content) > _LONGEST:
        raise _broken(f"must have at most {_LONGEST:,} bytes; it has more")
    try:
        text = content.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise _broken(f"must be UTF-8; {error!s:.100}") from error
    if not text:
        raise _NotAnEvent("empty", "it is empty")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise _broken(f"must be a JSON object; {error!s:.100}") from error
    if not isinstance(value, dict):
        raise _broken(f"must be a JSON object; it is a {type(value).__name__}")
    return value


def _refuse(word: str) -> None:
    raise ValueError(f"{word} is not valid JSON")


def _decisions(event: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the decisions of an event, as fields of `PersonalizerEvent`."""
    if not looks_like(event):
        if "RewardValue" in event or ("EventId" in event and "v" in event):
            id = event.get("EventId")
            raise _NotAnEvent(
                "observation", f"a reward for {id!r:.60}, without its decision"
            )
        raise _broken(f"must be a decision, with c and a; got keys {list(event)[:6]}")
    if event.get("_skipLearn"):
        raise _NotAnEvent(
            "skipped",
            "_skipLearn: it was never activated, or its action is not the "
            "one that was shown",
        )
    shared: dict[str, Any] = {"pdrop": _share(event.get("pdrop"))}
    id = _id(event)
    own = {
        key: value for key, value in event.items() if key not in ("pdrop", "oddsmith")
    }
    rows = rows_of_event(own)
    shared["time"] = _time(event)
    if not are_slots(event):
        row = rows[0]
        numbers = np.arange(1, len(row["eligible"]) + 1)
        eligible = np.isin(numbers, event.get("a", ()))
        rows = [row | {"eligible": eligible, "decision_id": id}]
    shared |= _arms(rows[0])
    return [shared | _decision(row) for row in rows]


def _arms(row: dict[str, Any]) -> dict[str, Any]:
    """Return the names of the actions, and their features."""
    if "offered" not in row:
        raise _broken("c must have a _tag for each action, which is its name; got none")
    names = make_offer(None, row["offered"]).arms
    features = dict(zip(names, row["features"].values(), strict=True))
    has_features = any(features.values())
    return {"arms": names, "features": features if has_features else None}


def _decision(row: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of one decision."""
    odds = row.get("propensities")
    if odds is None:
        raise _broken("p must be given, the propensities of all actions; got none")
    propensity = odds[row["arm"]]
    if not propensity >= LEAST_PROPENSITY:
        raise _broken(
            f"p must be at least {LEAST_PROPENSITY:g} for the action that was drawn; "
            f"got {propensity:g}"
        )
    return {
        "id": row["decision_id"],
        "context": row["context"],
        "eligible": row["eligible"],
        "arm": row["arm"],
        "odds": np.asarray(odds),
        "reward": row["reward"],
        "slate": row.get("slate"),
        "slot": row.get("slot"),
    }


def _id(event: dict[str, Any]) -> str:
    id = event.get("EventId")
    text = str(id) if isinstance(id, int) and not isinstance(id, bool) else id
    if not is_id(text):
        allowed = f"1 to {LONGEST_ID} characters, without NUL and lone surrogates"
        raise _broken(f"EventId must be text of {allowed}; got {id!r:.60}")
    return str(text)


def _time(event: dict[str, Any]) -> datetime:
    """Return the event's time, in UTC."""
    text = event.get("Timestamp")
    try:
        if not isinstance(text, str):
            raise ValueError("it is not text")
        moment = datetime.fromisoformat(text)
        if moment.tzinfo is None:
            return moment.replace(tzinfo=UTC)
        return moment.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise _broken(
            f"Timestamp must be a time like 2021-04-07T16:40:25Z; got {text!r:.60}"
        ) from error


def _share(pdrop: Any) -> float:
    """Return the share of dropped events."""
    if pdrop is None:
        return 0.0
    is_number = isinstance(pdrop, int | float) and not isinstance(pdrop, bool)
    if not is_number or not 0 <= pdrop < 1:
        raise _broken(
            f"pdrop must be a share of events, from 0 to below 1; got {pdrop!r:.60}"
        )
    return float(pdrop)


class _Ids:
    """The ids read so far, with file and line, in a temporary database."""

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
        """Return the file and line where an id was first read; None for a new id."""
        place = f"{file}, line {line}"
        new = self._connection.execute(
            "insert or ignore into ids values (?, ?)", (id, place)
        )
        if new.rowcount:
            return None
        rows = self._connection.execute("select place from ids where id = ?", (id,))
        (earlier,) = rows.fetchone()
        return str(earlier)

    def close(self) -> None:
        """Close the database and delete its file."""
        self._connection.close()
