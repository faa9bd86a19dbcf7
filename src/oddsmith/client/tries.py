"""Retry logic of a call, which decides when to send, how long to wait, and when to give
up. The module itself uses no network, sleep or threads.

A generator yields requests and receives responses; the client sleeps and sends, with or
without `await`. Every request of the client has an id (a decision its id, a correction
its key), so repeating it is always safe, even if only the response was lost.
"""

import json
import secrets
import time
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from itertools import count
from math import inf
from typing import Any, NamedTuple, TypeAlias, TypeVar

from oddsmith.client.answers import refusal
from oddsmith.core.errors import ServiceError

__all__ = ["AGAIN", "Patience", "Reply", "Request", "Steps", "Try", "persist"]

T = TypeVar("T")

AGAIN = frozenset({0, 408, 429, 502, 503, 504, 507})
"""HTTP statuses worth a retry; 0 means no response."""

_HALF = (
    "the first try has half of the timeout, and a batch takes as long as its "
    "decisions one by one"
)
_FIRST = 0.1  # seconds before the second try; the pause doubles up to _LONGEST
_LONGEST = 2.0


class Request(NamedTuple):
    """A request to the service."""

    method: str
    path: str
    body: bytes | None = None
    query: Mapping[str, str] | None = None


class Try(NamedTuple):
    """Send the request after `pause` seconds, and wait at most `timeout` for the
    network."""

    request: Request
    pause: float
    timeout: float


class Reply(NamedTuple):
    """The service's response. If there was none, `status` is 0 and `body` is the
    reason."""

    status: int
    body: bytes
    retry_after: str | None = None


Steps: TypeAlias = Generator[Try, Reply, T]
"""A call in progress: a generator that yields tries, receives responses and returns the
result."""


def _chance() -> float:
    return secrets.randbelow(1 << 24) / (1 << 24)


@dataclass(frozen=True)
class Patience:
    """Time limit and number of retries of a call. If `retries` is None, retries
    continue until `timeout`.

    `clock` and `chance` (uniform in [0, 1)) may be set by tests.
    """

    timeout: float
    retries: int | None
    clock: Callable[[], float] = time.monotonic
    chance: Callable[[], float] = _chance

    def pause(self, tries: int, retry_after: str | None = None) -> float:
        """Return the seconds before the next try: exponential backoff with jitter, at
        least the pause that the service asks for.

        >>> patience = Patience(5.0, 4, chance=lambda: 0.0)
        >>> [patience.pause(tries) for tries in (1, 2, 3, 9)], patience.pause(1, "3")
        ([0.05, 0.1, 0.2, 1.0], 3.05)
        """
        doubling = _FIRST * 2.0 ** (tries - 1)
        longest = min(_LONGEST, doubling)
        by_chance = longest * (1 + self.chance()) / 2
        return _seconds(retry_after) + by_chance


def persist(request: Request, read: Callable[[Any], T], patience: Patience) -> Steps[T]:
    """Yield tries until there is a response, an error, or no time left. Each try may
    take half of the remaining time.

    If `retries` limits the tries, the last try may take all of the remaining time.
    """
    end = patience.clock() + patience.timeout
    pause = 0.0
    most = inf if patience.retries is None else patience.retries + 1
    for tries in count(1):
        is_last = tries >= most
        timeout = end - patience.clock() - pause
        if not is_last:
            timeout /= 2
        reply = yield Try(request, pause, timeout)
        if reply.status == 200:
            return _read_answer(reply, read)
        pause = patience.pause(tries, reply.retry_after)
        if is_last or reply.status not in AGAIN:
            break
        if patience.clock() + pause >= end:
            break
    if reply.status:
        raise refusal(reply.status, reply.body)
    raise _no_answer(tries, reply, patience)


def _no_answer(tries: int, reply: Reply, patience: Patience) -> ServiceError:
    """Return the error for a call without response."""
    times = "1 try" if tries == 1 else f"{tries} tries"
    why = reply.body.decode()
    if "ReadTimeout" in why:
        why += f"; give a timeout above {patience.timeout:g} s: {_HALF}"
    return ServiceError(f"no answer after {times}: {why}")


def _read_answer(reply: Reply, read: Callable[[Any], T]) -> T:
    try:
        return read(json.loads(reply.body))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ServiceError(
            f"the response must come from an oddsmith service; got {reply.body[:60]!r}",
            200,
        ) from error


def _seconds(retry_after: str | None) -> float:
    """Parse the header Retry-After, in seconds or as a date; 0 if invalid.

    >>> (
    ...     _seconds("2"),
    ...     _seconds("Wed, 21 Oct 2015 07:28:00 GMT"),
    ...     _seconds("soon"),
    ...     _seconds(None),
    ... )
    (2.0, 0.0, 0.0, 0.0)
    """
    if retry_after is None:
        return 0.0
    if retry_after.isascii() and retry_after.isdigit():
        return float(retry_after)
    from email.utils import parsedate_to_datetime

    try:
        date = parsedate_to_datetime(retry_after)
        return max(0.0, date.timestamp() - time.time())
    except ValueError:
        return 0.0
