"""What a client owes the service: decisions that it made itself while there was no
answer, and what belongs to them.

They are kept in memory, in order, and sent once the service answers again. No network,
no sleep, no thread: as in `tries`, a generator yields what is to be sent.
"""

import json
import logging
import threading
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

from oddsmith.client.tries import Patience, Request, Steps, persist
from oddsmith.core.errors import Conflict, InvalidInput, ServiceError

__all__ = ["Kind", "Outbox", "Reported"]

_log = logging.getLogger(__name__)
Kind: TypeAlias = Literal["decision", "slate", "reward", "activation"]
_ROUTES = {
    "decision": ("/v1/decide/batch", "decisions"),
    "slate": ("/v1/decide", ""),
    "reward": ("/v1/reward/batch", "rewards"),
    "activation": ("/v1/activate", ""),
}
_MOST, _MOST_BYTES = 10_000, 64 << 20  # that are kept
_CHUNK, _CHUNK_BYTES = 100, 500_000  # that are sent with one request


class Reported(NamedTuple):
    """What became of fallback decisions, their rewards and activations since the client
    was made.

    `sent` are in the log and `waiting` are kept here; `refused` ones the service would
    not have, and `dropped` ones were the oldest when there was no room for more:
    neither is in the log.
    """

    sent: int
    waiting: int
    refused: int
    dropped: int


class _Kept(NamedTuple):
    kind: Kind
    id: str
    entry: bytes
    parts: Sequence[str] = ()


class Outbox:
    """A queue with an end: when it is full, the oldest are dropped and counted. It is
    safe to use from threads."""

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._most, self._most_bytes = most, most_bytes
        self._lock = threading.Lock()
        self._kept: dict[int, _Kept] = {}
        self._bytes = self._last = self._sent = self._refused = self._dropped = 0
        self._sending = False

    def __bool__(self) -> bool:
        return bool(self._kept)

    def keep(
        self, kind: Kind, id: str, entry: bytes, *, parts: Sequence[str] = ()
    ) -> None:
        """Keep the JSON of an entry, behind all others; `parts` are the ids of a
        slate's decisions."""
        with self._lock:
            self._last += 1
            self._kept[self._last] = _Kept(kind, id, entry, parts)
            self._bytes += len(entry)
            while len(self._kept) > self._most or self._bytes > self._most_bytes:
                gone = self._kept.pop(next(iter(self._kept)))
                self._bytes -= len(gone.entry)
                self._dropped += 1
                # the first, and each time that it has doubled
                if self._dropped.bit_count() == 1:
                    _log.warning(
                        "%d fallback decisions, rewards or activations had no room: "
                        "dropped",
                        self._dropped,
                    )

    def holds(self, id: str) -> bool:
        """Whether something about this decision waits here."""
        with self._lock:
            return any(id == one.id or id in one.parts for one in self._kept.values())

    def reported(self) -> Reported:
        """What became of all that was kept."""
        with self._lock:
            return Reported(self._sent, len(self._kept), self._refused, self._dropped)

    def send(
        self, experiment: str | None, patience: Patience, *, chunks: int | None = None
    ) -> Steps[None]:
        """Send what is kept, in so many requests at most, until there is nothing or no
        answer.

        One thread does this at a time; another finds nothing to do.
        """
        with self._lock:
            if self._sending:
                return
            self._sending = True
        try:
            while (chunk := self._chunk()) and chunks != 0:
                yield from self._send(chunk, experiment, patience)
                chunks = None if chunks is None else chunks - 1
        except ServiceError as error:
            _log.info("fallback decisions are kept for later: %s", error)
        finally:
            self._sending = False

    def _chunk(self) -> dict[int, _Kept]:
        """The oldest of one kind that go with one request."""
        with self._lock:
            chunk: dict[int, _Kept] = {}
            size = 0
            for number, one in self._kept.items():
                size += len(one.entry)
                full = (
                    len(chunk) == (_CHUNK if _ROUTES[one.kind][1] else 1)
                    or size > _CHUNK_BYTES
                )
                if chunk and (full or one.kind != next(iter(chunk.values())).kind):
                    break
                chunk[number] = one
            return chunk

    def _send(
        self, chunk: dict[int, _Kept], experiment: str | None, patience: Patience
    ) -> Steps[None]:
        """Send one chunk; where it is refused as a whole, each entry by itself."""
        entries = list(chunk.values())
        try:
            answer = yield from persist(_request(entries, experiment), dict, patience)
            results = answer.get("results", [answer])
        except (InvalidInput, Conflict, ServiceError) as error:
            if isinstance(error, ServiceError) and error.status != 413:
                raise
            if len(chunk) > 1:
                for number, one in chunk.items():
                    yield from self._send({number: one}, experiment, patience)
                return
            results = [{"error": str(error)}]
        for number, one, result in zip(chunk, entries, results, strict=True):
            self._settle(number, one, result)

    def _settle(self, number: int, one: _Kept, result: dict[str, Any]) -> None:
        """An entry has its answer: it is in the log, or will not be."""
        why = result.get("error", "")
        if why:
            _log.warning(
                "the %s of fallback %r is not in the log: %s", one.kind, one.id, why
            )
        with self._lock:
            if self._kept.pop(number, None) is not None:
                self._bytes -= len(one.entry)
            self._refused += bool(why)
            self._sent += not why


def _request(entries: Sequence[_Kept], experiment: str | None) -> Request:
    path, name = _ROUTES[entries[0].kind]
    about = (
        b""
        if experiment is None
        else b'"experiment":' + json.dumps(experiment).encode()
    )
    listed = b",".join(one.entry for one in entries)
    inner = b'"%s":[%s]' % (name.encode(), listed) if name else listed[1:-1]
    return Request("POST", path, b"{" + b",".join(filter(None, (about, inner))) + b"}")
