"""Series: sums by time. A reward counts in the bucket of its decision.

A decision is added to a bucket of 10 seconds. These buckets are stored for an hour.
Older ones are added to buckets of 5 minutes, which are stored for a day, and to the
buckets of all time. Buckets of 5 minutes are then added to buckets of an hour, which
are stored for a week. To read a range, add its own buckets and the finer ones that are
younger.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import floor
from typing import Any, Literal, TypeAlias, get_args

from oddsmith.server.statistics.arm_names import NamedArms
from oddsmith.server.statistics.bucket import ArmDraw, Bucket
from oddsmith.server.statistics.snapshot import pack_buckets, unpack_buckets

__all__ = ["RANGES", "Range", "Ring", "Series"]

Range: TypeAlias = Literal["hour", "day", "week", "all"]
"""The time that a series covers."""
RANGES: tuple[Range, ...] = get_args(Range)
_SECONDS = 10.0
_HOUR = 360  # buckets of 10 seconds in an hour
_DAY = 288  # buckets of 5 minutes in a day
_WEEK = 168  # buckets of an hour in a week
_IN_DAY = 30  # buckets of 10 seconds in 5 minutes
_IN_WEEK = 12  # buckets of 5 minutes in an hour
# maximum number of buckets for the whole log: at this number their width doubles
_ALL = 200
_NUMBERS = ("newest", "oldest", "each")


@dataclass(slots=True)
class Ring:
    """Buckets by number.

    A copy shares its buckets with the original, except for those in `_own`. While it is
    `_shared`, it also shares the dict, because most batches change one bucket of one
    ring.
    """

    buckets: dict[int, Bucket] = field(default_factory=dict)
    _own: set[int] = field(default_factory=set, compare=False)
    _shared: bool = field(default=False, compare=False)

    def copy(self) -> "Ring":
        """Return a copy that can be changed without changing this one."""
        self._own = set()
        self._shared = True
        return Ring(self.buckets, _shared=True)

    def _unshare(self) -> None:
        if self._shared:
            self.buckets = dict(self.buckets)
            self._shared = False

    def at(self, index: int) -> Bucket:
        """Return the bucket of this number, new or copied, to write into."""
        if index in self._own:
            return self.buckets[index]
        self._unshare()
        known = self.buckets.get(index)
        bucket = Bucket() if known is None else known.copy()
        self.buckets[index] = bucket
        self._own.add(index)
        return bucket

    def pop_until(self, index: int) -> list[tuple[int, Bucket]]:
        """Remove the buckets up to this number, and return them in order."""
        old = sorted(one for one in self.buckets if one <= index)
        if old:
            self._unshare()
        self._own.difference_update(old)
        return [(one, self.buckets.pop(one)) for one in old]

    def add(
        self, parts: Iterable[tuple[int, Bucket]], each: int, named: NamedArms
    ) -> None:
        """Add finer buckets; `each` is the number of them in one bucket of this
        ring."""
        for index, bucket in parts:
            self.at(index // each).add(bucket, named)


@dataclass(slots=True)
class Series:
    """Sums by time; `newest` and `oldest` are numbers of buckets of 10 seconds.

    A bucket of all time is as wide as `each` buckets of 10 seconds.
    """

    hour: Ring = field(default_factory=Ring)
    day: Ring = field(default_factory=Ring)
    week: Ring = field(default_factory=Ring)
    all: Ring = field(default_factory=Ring)
    newest: int | None = None
    oldest: int | None = None
    each: int = 1

    def copy(self) -> "Series":
        """Return a copy that can be changed without changing this one."""
        return replace(
            self,
            hour=self.hour.copy(),
            day=self.day.copy(),
            week=self.week.copy(),
            all=self.all.copy(),
        )

    def show(
        self,
        time: float,
        draw: ArmDraw,
        odds: Mapping[str, float],
        named: NamedArms,
        position: int,
    ) -> None:
        """Add a decision of this time that was shown (`Bucket.show`)."""
        index = floor(time / _SECONDS)
        if self.newest is None or self.oldest is None:
            self.newest = self.oldest = index
        elif index > self.newest:
            self._move_to(index, named)
        elif index < self.oldest:
            self.oldest = index
            self._widen(named)
        for ring, place in self._places(index):
            ring.at(place).show(draw, odds, named, position)

    def count(
        self,
        time: float,
        draw: ArmDraw,
        reward: float,
        before: float | None,
        defaults: int,
    ) -> None:
        """Add the reward of a decision of this time (`Bucket.count`)."""
        index = floor(time / _SECONDS)
        for ring, place in self._places(index):
            if place in ring.buckets:
                ring.at(place).count(draw, reward, before, defaults)

    def buckets(self, what: Range, named: NamedArms) -> tuple[float, dict[int, Bucket]]:
        """Return the width of a bucket in seconds, and the buckets by number.

        Buckets without decisions are left out.
        """
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
        now.week.add(old, _IN_WEEK, named)
        now.week.add(sorted(now.day.buckets.items()), _IN_WEEK, named)
        now.week.pop_until(newest // _HOUR - _WEEK)
        return _SECONDS * _HOUR, now.week.buckets

    def _places(self, index: int) -> list[tuple[Ring, int]]:
        """Return the rings and numbers of the buckets that contain this one."""
        newest = self.newest or 0
        if index > newest - _HOUR:
            return [(self.hour, index)]
        places = [(self.all, index // self.each)]
        if index // _IN_DAY > newest // _IN_DAY - _DAY:
            places.append((self.day, index // _IN_DAY))
        elif index // _HOUR > newest // _HOUR - _WEEK:
            places.append((self.week, index // _HOUR))
        return places

    def _move_to(self, index: int, named: NamedArms) -> None:
        """Make this the newest bucket, and add older ones to the coarser rings."""
        self.newest = index
        self._widen(named)
        old = self.hour.pop_until(index - _HOUR)
        self.all.add(old, self.each, named)
        self.day.add(old, _IN_DAY, named)
        self.week.add(self.day.pop_until(index // _IN_DAY - _DAY), _IN_WEEK, named)
        self.week.pop_until(index // _HOUR - _WEEK)

    def _widen(self, named: NamedArms) -> None:
        """Merge neighbours until all time has at most 200 buckets."""
        newest = self.newest or 0
        oldest = self.oldest or 0
        while newest // self.each - oldest // self.each >= _ALL:
            self.each *= 2
            merged = Ring()
            merged.add(sorted(self.all.buckets.items()), 2, named)
            self.all = merged

    def to_json(self) -> dict[str, Any]:
        """Return the series as a snapshot contains it."""
        fields = {name: getattr(self, name) for name in _NUMBERS}
        for name in RANGES:
            fields[name] = pack_buckets(getattr(self, name).buckets)
        return fields

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Series":
        """Return the series that `to_json` wrote."""
        fields = {name: given[name] for name in _NUMBERS}
        for name in RANGES:
            fields[name] = Ring(unpack_buckets(given[name]))
        return cls(**fields)
