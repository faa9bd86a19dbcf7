"""Outbox: store decisions that a client made while the service was unavailable, with
their rewards and activations.

Entries are kept in memory, in order, and sent once the service answers again. The
module uses no network, sleep or thread: as in `tries`, a generator yields the requests.
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


class _Route(NamedTuple):
    """The path for a kind of entry, and the name of the list of entries in the body.
    The name is empty if a request contains only one entry."""

    path: str
    list_name: str


_ROUTES = {
    "decision": _Route("/v1/decide/batch", "decisions"),
    "slate": _Route("/v1/decide", ""),
    "reward": _Route("/v1/reward/batch", "rewards"),
    "activation": _Route("/v1/activate", ""),
}
# Maximum entries and bytes of an outbox.
_MOST = 10_000
_MOST_BYTES = 64 << 20
# Maximum entries and bytes per request.
_CHUNK = 100
_CHUNK_BYTES = 500_000


class Reported(NamedTuple):
    """Counts of fallback decisions, their rewards and activations since the client was
    created.

    `sent` entries are in the log, and `waiting` entries are in the outbox. `refused`
    entries were rejected by the service, and `dropped` entries were removed because the
    outbox was full; neither kind is in the log.
    """

    sent: int
    waiting: int
    refused: int
    dropped: int


class _Entry(NamedTuple):
    """An entry of the outbox; `parts` are the ids of a slate's decisions."""

    kind: Kind
    id: str
    body: bytes
    parts: Sequence[str] = ()


class Outbox:
    """A thread-safe bounded queue. If it is full, the oldest entries are dropped and
    counted."""

    def __init__(self, most: int = _MOST, most_bytes: int = _MOST_BYTES) -> None:
        self._most = most
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._entries: dict[int, _Entry] = {}
        self._bytes = 0
        self._last = 0
        self._sent = 0
        self._refused = 0
        self._dropped = 0
        self._sending = False

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(
        self, kind: Kind, id: str, body: bytes, *, parts: Sequence[str] = ()
    ) -> None:
        """Append an entry as JSON; `parts` are the ids of a slate's decisions."""
        with self._lock:
            self._last += 1
            self._entries[self._last] = _Entry(kind, id, body, parts)
            self._bytes += len(body)
            while len(self._entries) > self._most or self._bytes > self._most_bytes:
                oldest = self._entries.pop(next(iter(self._entries)))
                self._bytes -= len(oldest.body)
                self._dropped += 1
                # Warn at the first dropped entry, and each time the count doubles.
                if self._dropped.bit_count() == 1:
                    _log.warning(
                        "%d fallback decisions, rewards or activations were dropped "
                        "because the outbox was full",
                        self._dropped,
                    )

    def holds(self, id: str) -> bool:
        """Return whether an entry about this decision is pending."""
        with self._lock:
            entries = self._entries.values()
            return any(id == entry.id or id in entry.parts for entry in entries)

    def counts(self) -> Reported:
        """Return the counts of all entries so far."""
        with self._lock:
            waiting = len(self._entries)
            return Reported(self._sent, waiting, self._refused, self._dropped)

    def send(
        self, experiment: str | None, patience: Patience, *, chunks: int | None = None
    ) -> Steps[None]:
        """Send the entries in at most this many requests; stop if the service does not
        answer.

        Only one thread sends at a time. If another thread is sending, the call does
        nothing.
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
            _log.info("fallback decisions are kept and reported later: %s", error)
        finally:
            self._sending = False

    def _chunk(self) -> dict[int, _Entry]:
        """Return the oldest entries of one kind, for one request."""
        with self._lock:
            chunk: dict[int, _Entry] = {}
            size = 0
            first_kind = None
            for number, entry in self._entries.items():
                size += len(entry.body)
                most = _CHUNK if _ROUTES[entry.kind].list_name else 1
                is_full = len(chunk) == most or size > _CHUNK_BYTES
                if chunk and (is_full or entry.kind != first_kind):
                    break
                first_kind = entry.kind
                chunk[number] = entry
            return chunk

    def _send(
        self, chunk: dict[int, _Entry], experiment: str | None, patience: Patience
    ) -> Steps[None]:
        """Send a chunk; if it is rejected as a whole, send its entries one by one."""
        entries = list(chunk.values())
        request = _request(entries, experiment)
        try:
            answer = yield from persist(request, dict, patience)
            results = answer.get("results", [answer])
        except (InvalidInput, Conflict, ServiceError) as error:
            if isinstance(error, ServiceError) and error.status != 413:
                raise
            if len(chunk) > 1:
                for number, entry in chunk.items():
                    yield from self._send({number: entry}, experiment, patience)
                return
            results = [{"error": str(error)}]
        for number, entry, result in zip(chunk, entries, results, strict=True):
            self._settle(number, entry, result)

    def _settle(self, number: int, entry: _Entry, result: dict[str, Any]) -> None:
        """Remove an entry after its response, whether it was stored or rejected."""
        why = result.get("error", "")
        if why:
            _log.warning(
                "the %s of fallback %r is not in the log: %s", entry.kind, entry.id, why
            )
        with self._lock:
            if self._entries.pop(number, None) is not None:
                self._bytes -= len(entry.body)
            self._refused += bool(why)
            self._sent += not why


def _request(entries: Sequence[_Entry], experiment: str | None) -> Request:
    """Return the request for entries of one kind, whose bodies are already JSON."""
    route = _ROUTES[entries[0].kind]
    bodies = b",".join(entry.body for entry in entries)
    fields = []
    if experiment is not None:
        fields.append(b'"experiment":' + json.dumps(experiment).encode())
    if route.list_name:
        fields.append(b'"%s":[%s]' % (route.list_name.encode(), bodies))
    else:
        fields.append(bodies[1:-1])  # JSON fields of the only entry, without braces
    return Request("POST", route.path, b"{" + b",".join(fields) + b"}")
