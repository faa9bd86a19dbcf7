"""Series: sums by time, each decision and its reward in the bucket of its decision.

A decision is written into one bucket, of 10 seconds. Those of the last hour are kept as
they are; older ones become part of buckets of 5 minutes, which are kept for a day, and
of all time; those of the day become part of buckets of an hour, which are kept for a
week. What is told of a day is then its own buckets and the finer ones in them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import floor
from typing import Any, Literal, TypeAlias, get_args

from oddsmith.server.statistics.arm_names import NamedArms
from oddsmith.server.statistics.bucket import Bucket, Draw
from oddsmith.server.statistics.snapshot import pack_buckets, unpack_buckets

__all__ = ["RANGES", "Range", "Ring", "Series"]

Range: TypeAlias = Literal["hour", "day", "week", "all"]
"""How far back a series goes."""
RANGES: tuple[Range, ...] = get_args(Range)
_SECONDS = 10.0
_HOUR, _DAY, _WEEK = 360, 288, 168  # buckets
_IN_DAY, _IN_WEEK = 30, 12  # finer buckets in one of the day's, and of the week's
_ALL = 200  # buckets of all time, at most: their width doubles


@dataclass(slots=True)
class Ring:
    """Buckets by number; those in `_own` are written into, others are shared with the
    ring this one is a copy of.

    So is the dict of them while this is `_shared`: most batches write into one bucket
    of one ring.
    """

    buckets: dict[int, Bucket] = field(default_factory=dict)
    _own: set[int] = field(default_factory=set, compare=False)
    _shared: bool = field(default=False, compare=False)

    def copy(self) -> "Ring":
        """The same, to go on from."""
        self._own, self._shared = set(), True
        return Ring(self.buckets, _shared=True)

    def _unshare(self) -> None:
        if self._shared:
            self.buckets, self._shared = dict(self.buckets), False

    def at(self, index: int) -> Bucket:
        """The bucket of this number, to be written into; a new one if there is none."""
        if index not in self._own:
            self._unshare()
            bucket = self.buckets.get(index)
            self.buckets[index] = Bucket() if bucket is None else bucket.copy()
            self._own.add(index)
        return self.buckets[index]

    def pop_until(self, index: int) -> list[tuple[int, Bucket]]:
        """The buckets up to this number, in order, which are no longer here."""
        old = sorted(one for one in self.buckets if one <= index)
        if old:
            self._unshare()
        self._own.difference_update(old)
        return [(one, self.buckets.pop(one)) for one in old]

    def add(
        self, parts: Iterable[tuple[int, Bucket]], each: int, named: NamedArms
    ) -> None:
        """Add finer buckets, `each` of which are one of these."""
        for index, bucket in parts:
            self.at(index // each).add(bucket, named)


@dataclass(slots=True)
class Series:
    """Sums by time; `newest` and `oldest` are the numbers of the last and the first
    bucket of 10 seconds.

    Of all time, a bucket is `each` buckets of 10 seconds wide.
    """

    hour: Ring = field(default_factory=Ring)
    day: Ring = field(default_factory=Ring)
    week: Ring = field(default_factory=Ring)
    all: Ring = field(default_factory=Ring)
    newest: int | None = None
    oldest: int | None = None
    each: int = 1

    def copy(self) -> "Series":
        """The same, to go on from."""
        rings = self.hour.copy(), self.day.copy(), self.week.copy(), self.all.copy()
        return Series(*rings, self.newest, self.oldest, self.each)

    def show(
        self,
        time: float,
        draw: Draw,
        odds: Mapping[str, float],
        named: NamedArms,
        position: int,
    ) -> None:
        """A decision of this time was shown, at this position; `odds` are those of all
        its arms."""
        index = floor(time / _SECONDS)
        if self.newest is None or self.oldest is None:
            self.newest = self.oldest = index
        elif index > self.newest:
            self._go_on(index, named)
        elif index < self.oldest:
            self.oldest = index
            self._widen(named)
        for ring, place in self._places(index):
            ring.at(place).show(draw, odds, named, position)

    def count(
        self,
        time: float,
        draw: Draw,
        rewards: tuple[float, float | None],
        defaults: int,
    ) -> None:
        """A decision of this time counts (`Bucket.count`)."""
        for ring, place in self._places(floor(time / _SECONDS)):
            if place in ring.buckets:
                ring.at(place).count(draw, rewards, defaults)

    def buckets(self, what: Range, named: NamedArms) -> tuple[float, dict[int, Bucket]]:
        """The seconds of a bucket, and the buckets of a range by number: those without
        anything are not there."""
        now = self.copy()
        finer = sorted(now.hour.buckets.items())
        if what == "hour":
            return _SECONDS, now.hour.buckets
        if what == "all":
            now.all.add(finer, self.each, named)
            return _SECONDS * self.each, now.all.buckets
        newest = self.newest or 0
        now.day.add(finer, _IN_DAY, named)
        old = now.day.pop_until(newest // _IN_DAY - _DAY)
        if what == "day":
            return _SECONDS * _IN_DAY, now.day.buckets
        now.week.add([*old, *sorted(now.day.buckets.items())], _IN_WEEK, named)
        now.week.pop_until(newest // _HOUR - _WEEK)
        return _SECONDS * _HOUR, now.week.buckets

    def _places(self, index: int) -> list[tuple[Ring, int]]:
        """Where a decision of this bucket of 10 seconds is written."""
        newest = self.newest or 0
        if index > newest - _HOUR:
            return [(self.hour, index)]
        places = [(self.all, index // self.each)]
        if index // _IN_DAY > newest // _IN_DAY - _DAY:
            return [*places, (self.day, index // _IN_DAY)]
        return (
            [*places, (self.week, index // _HOUR)]
            if index // _HOUR > newest // _HOUR - _WEEK
            else places
        )

    def _go_on(self, index: int, named: NamedArms) -> None:
        """This is the newest bucket from now on: what is too old for an hour becomes
        part of the day, and so on."""
        self.newest = index
        self._widen(named)
        old = self.hour.pop_until(index - _HOUR)
        self.all.add(old, self.each, named)
        self.day.add(old, _IN_DAY, named)
        self.week.add(self.day.pop_until(index // _IN_DAY - _DAY), _IN_WEEK, named)
        self.week.pop_until(index // _HOUR - _WEEK)

    def _widen(self, named: NamedArms) -> None:
        """Merge neighbours until all time has at most 200 buckets."""
        newest, oldest = self.newest or 0, self.oldest or 0
        while newest // self.each - oldest // self.each >= _ALL:
            self.each *= 2
            merged = Ring()
            merged.add(sorted(self.all.buckets.items()), 2, named)
            self.all = merged

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of it."""
        rings = {name: pack_buckets(getattr(self, name).buckets) for name in RANGES}
        return rings | {"newest": self.newest, "oldest": self.oldest, "each": self.each}

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Series":
        """What `to_json` gave."""
        rings = {name: Ring(unpack_buckets(given[name])) for name in RANGES}
        return cls(
            **rings, newest=given["newest"], oldest=given["oldest"], each=given["each"]
        )
