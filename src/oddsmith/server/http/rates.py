"""Rates: limit the calls per second of each key with token buckets."""

import math
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from typing import Annotated

import msgspec

from oddsmith.core.errors import InvalidInput, OddsmithError

__all__ = ["Rate", "Rates", "TooMany", "WrongKeys", "network_of", "read_rate"]

_RATE = re.compile(r"(\d{1,7}(?:\.\d{1,6})?)/([smh])")
_SECONDS = {"s": 1, "m": 60, "h": 3600}
_MOST = 10_000_000
# maximum number of addresses with counts of wrong keys; the oldest one is dropped first
_ADDRESSES = 10_000


class Rate(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rate limit: `per_second` is the number of calls per second in the long run, and
    `burst` is the number of calls that can be made at once after a pause."""

    per_second: Annotated[float, msgspec.Meta(gt=0, le=_MOST)]
    burst: Annotated[int, msgspec.Meta(ge=1, le=_MOST)]

    def __str__(self) -> str:
        return f"{self.per_second:g}/s, burst {self.burst}"


_GUESSES = Rate(0.1, 20)


def read_rate(text: str | None, burst: int | None = None) -> Rate | None:
    """Parse a text such as 100/s, 30/m or 1000/h as a rate. By default, the burst is
    the number of calls in one second.

    >>> print(read_rate("100/s"), read_rate("30/m", 10), read_rate(None), sep="; ")
    100/s, burst 100; 0.5/s, burst 10; None
    """
    if text is None:
        if burst is not None:
            raise InvalidInput(f"burst needs a rate; got burst {burst} without a rate")
        return None
    match = _RATE.fullmatch(text)
    per_second = 0.0
    if match is not None:
        per_second = float(match[1]) / _SECONDS[match[2]]
    if not per_second:
        raise InvalidInput(
            "rate must be a positive number of calls per second, minute or hour (/s, "
            f"/m or /h), such as 100/s; got {text!r:.60}"
        )
    if burst is None:
        burst = max(1, int(per_second))
    elif not 1 <= burst <= _MOST:
        raise InvalidInput(f"burst must be 1 to {_MOST:,} calls; got {burst}")
    return Rate(per_second, burst)


class _Bucket:
    """A token bucket with at most `burst` tokens, refilled with `per_second` tokens per
    second. Each call takes a token. A batch may take more tokens than there are; later
    calls are then refused until the bucket is refilled."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate = rate
        self._left = float(rate.burst)
        self._at = now

    def take(self, calls: int, now: float, least: float) -> float:
        """If at least `least` tokens are available, take a token for each call and
        return 0. Otherwise return the number of seconds until enough are available."""
        gain = max(0.0, now - self._at) * self.rate.per_second
        self._left = min(float(self.rate.burst), self._left + gain)
        self._at = now
        if self._left < least:
            return (least - self._left) / self.rate.per_second
        self._left -= calls
        return 0.0


class TooMany(OddsmithError):
    """Error: a key has made more calls than its rate permits. `seconds` is the time
    until the next call is permitted."""

    def __init__(self, rate: Rate, wait: float) -> None:
        self.seconds = max(1, math.ceil(wait))
        super().__init__(
            f"calls of this key must be at most {rate}; try again in {self.seconds} s"
        )


class Rates:
    """The token buckets of all keys of one process, by name. `default` is the rate of
    keys that have no rate of their own.

    A call is counted before its body is read. The further entries of a batch are
    counted when their number is known, and may overdraw a bucket that is not overdrawn
    yet. So a batch of any size is possible, but only one batch can exceed the burst.
    """

    def __init__(
        self, default: Rate | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.default = default
        self._clock = clock
        self._buckets: dict[str, _Bucket] = {}
        self.refused: Counter[str] = Counter()  # refused calls by key name

    def count_call(self, name: str, rate: Rate | None) -> None:
        """Count one call of a key, or raise TooMany."""
        self._count(name, rate or self.default, 1, 1.0)

    def count_entries(self, name: str, rate: Rate | None, entries: int) -> None:
        """Count the entries of a batch, or raise TooMany. The first entry was counted
        as the call."""
        self._count(name, rate or self.default, entries - 1, 0.0)

    def _count(self, name: str, rate: Rate | None, calls: int, least: float) -> None:
        if rate is None:
            return
        now = self._clock()
        bucket = self._buckets.get(name)
        if bucket is None or bucket.rate != rate:
            bucket = _Bucket(rate, now)
            self._buckets[name] = bucket
        wait = bucket.take(calls, now, least)
        if wait:
            self.refused[name] += 1
            raise TooMany(rate, wait)


class WrongKeys:
    """Counts wrong keys by address. If an address exceeds `rate`, each refusal closes
    the connection, so every further guess needs a new connection.

    A valid key is never refused because of its address, which may be that of a proxy.
    For IPv6, the first 64 bits count.
    """

    def __init__(
        self, rate: Rate = _GUESSES, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def too_many(self, address: str) -> bool:
        """Count a wrong key from an address; return whether there were too many."""
        network = network_of(address)
        now = self._clock()
        bucket = self._buckets.get(network)
        if bucket is None:
            bucket = _Bucket(self._rate, now)
            self._buckets[network] = bucket
            if len(self._buckets) > _ADDRESSES:
                self._buckets.popitem(last=False)
        return bucket.take(1, now, 1.0) > 0


def network_of(address: str) -> str:
    """Return the network by which an address is counted: an IPv4 address itself, or the
    network (/64) of an IPv6 address, because one client usually has all addresses of
    such a network.

    >>> network_of("192.0.2.7"), network_of("2001:db8:1:2:3:4:5:6")
    ('192.0.2.7', '20010db800010002')
    """
    if ":" not in address:
        return address
    try:
        whole = ip_address(address)
    except ValueError:
        return address
    if isinstance(whole, IPv6Address) and whole.ipv4_mapped is None:
        return whole.packed[:8].hex()
    return address
