"""Series: counts and rewards by time. A reward counts in the time bucket of its
decision.

A decision is added to a bucket of 10 seconds. These buckets are stored for an hour.
Older ones are added to buckets of 5 minutes, which are stored for a day, and to the
buckets of all time. Buckets of 5 minutes are then added to buckets of an hour, which
are stored for a week. To read a range, add its own buckets and the finer ones that are
younger.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from math import floor
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from oddsmith.core.decision import LEAST_PROPENSITY
from oddsmith.server.statistics.arms import FRESH, NamedArms
from oddsmith.server.statistics.snapshot import pack_floats, unpack_floats

__all__ = ["ArmDraw", "ArmRow", "Bucket", "RANGES", "Range", "Ring", "Series"]

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


class ArmDraw(NamedTuple):
    """The position of a decision, its arm, and the propensity of that arm."""

    position: int
    arm: str
    odds: float


@dataclass(slots=True)
class ArmRow:
    """Sums over the decisions of one arm, from the position `since` on.

    `odds` is the sum of the arm's propensities over all decisions, including decisions
    that drew another arm. `weighted` is the sum of reward / propensity, and `squares`
    is the sum of (reward / propensity)².
    """

    since: int = 0
    drawn: float = 0.0
    odds: float = 0.0
    rewarded: float = 0.0
    total: float = 0.0
    weighted: float = 0.0
    squares: float = 0.0

    def sums(self) -> tuple[float, ...]:
        """Return all fields except `since`, in order."""
        return (
            self.drawn,
            self.odds,
            self.rewarded,
            self.total,
            self.weighted,
            self.squares,
        )

    def copy(self) -> "ArmRow":
        """Return a copy that can be changed without changing this one."""
        return ArmRow(self.since, *self.sums())

    def add(self, other: "ArmRow") -> None:
        """Add the sums of another row."""
        self.since = max(self.since, other.since)
        self.drawn += other.drawn
        self.odds += other.odds
        self.rewarded += other.rewarded
        self.total += other.total
        self.weighted += other.weighted
        self.squares += other.squares


@dataclass(slots=True)
class Bucket:
    """The sums of one time bucket: the number of decisions, how many of them have a
    reward or a default, how many have a default, and the sum of the rewards.

    `looks` is the number of the selection that named the arms of the bucket, and `last`
    is the position of the bucket's last decision. `others` contains the sums of arms
    that have no row.
    """

    shown: float = 0.0
    counted: float = 0.0
    defaults: float = 0.0
    total: float = 0.0
    arms: dict[str, ArmRow] = field(default_factory=dict)
    others: ArmRow | None = None
    looks: int = -1
    last: int = 0

    def copy(self) -> "Bucket":
        """Return a copy that can be changed without changing this one."""
        copy = Bucket(self.shown, self.counted, self.defaults, self.total)
        copy.arms = {arm: row.copy() for arm, row in self.arms.items()}
        if self.others is not None:
            copy.others = self.others.copy()
        copy.looks = self.looks
        copy.last = self.last
        return copy

    def show(
        self, draw: ArmDraw, odds: Mapping[str, float], named: NamedArms, position: int
    ) -> None:
        """Add a decision that was shown at this position, with the propensities of all
        arms."""
        if self.looks != named.looks:
            self._name(named, position)
        made = draw.position
        self.shown += 1
        self.last = max(self.last, made)
        self._row(draw).drawn += 1
        rows = self.arms
        rest = 0.0
        for name, p in odds.items():
            row = rows.get(name)
            if row is not None and made >= row.since:
                row.odds += p
            else:
                rest += p
        if rest:
            self._rest().odds += rest

    def count(
        self, draw: ArmDraw, reward: float, before: float | None, defaults: int
    ) -> None:
        """Add the reward of a decision; `before` is the reward that it replaces.

        `defaults` is 1 if the decision counts with its default from now on, and -1 if a
        reward replaces the default.
        """
        new = before is None
        gone = before or 0.0
        row = self._row(draw)
        self.counted += new
        self.defaults += defaults
        self.total += reward - gone
        row.rewarded += new
        row.total += reward - gone
        if draw.odds > 0:
            # old stores may contain smaller values
            least = max(draw.odds, LEAST_PROPENSITY)
            row.weighted += (reward - gone) / least
            row.squares += (reward * reward - gone * gone) / (least * least)

    def add(self, other: "Bucket", named: NamedArms) -> None:
        """Add the sums of another bucket.

        A reward does not say which bucket contains its decision. So if an arm has a row
        in only one of the two buckets, later rewards of its decisions are added to
        `others`.
        """
        if not named.are_fixed and self.shown:
            after = max(self.last, other.last) + 1
            for arm in self.arms.keys() ^ other.arms.keys():
                self.arms.setdefault(arm, ArmRow()).since = after
        for arm, row in other.arms.items():
            self.arms.setdefault(arm, ArmRow()).add(row)
        if other.others is not None:
            self._rest().add(other.others)
        self.shown += other.shown
        self.counted += other.counted
        self.defaults += other.defaults
        self.total += other.total
        self.looks = -1
        self.last = max(self.last, other.last)
        if not named.are_fixed:
            most_drawn = sorted(self.arms, key=lambda arm: -self.arms[arm].drawn)
            self._drop(most_drawn[FRESH:])

    def _row(self, draw: ArmDraw) -> ArmRow:
        """Return the row that the sums of this decision belong to."""
        row = self.arms.get(draw.arm)
        if row is None or draw.position < row.since:
            return self._rest()
        return row

    def _rest(self) -> ArmRow:
        if self.others is None:
            self.others = ArmRow()
        return self.others

    def _name(self, named: NamedArms, position: int) -> None:
        """Add rows for newly named arms, and remove the rows of arms that are no longer
        named."""
        self.looks = named.looks
        new = [arm for arm in named.since if arm not in self.arms]
        since = 0
        if not named.are_fixed:
            old = [arm for arm in self.arms if arm not in named.since]
            old.sort(key=lambda arm: self.arms[arm].drawn)
            excess = len(self.arms) + len(new) - FRESH
            self._drop(old[: max(0, excess)])
            if self.shown:
                since = position
        for arm in new:
            self.arms[arm] = ArmRow(since)

    def _drop(self, arms: list[str]) -> None:
        """Move the sums of these arms to `others`."""
        for arm in arms:
            row = self.arms.pop(arm)
            row.since = 0
            self._rest().add(row)


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
        self.buckets = dict(self.buckets)
        self._shared = False

    def at(self, index: int) -> Bucket:
        """Return the bucket of this number for changes. It is created if there is none,
        and copied if it is shared."""
        if index in self._own:
            return self.buckets[index]
        if self._shared:
            self._unshare()
        known = self.buckets.get(index)
        bucket = Bucket() if known is None else known.copy()
        self.buckets[index] = bucket
        self._own.add(index)
        return bucket

    def pop_until(self, index: int) -> list[tuple[int, Bucket]]:
        """Remove the buckets up to this number, and return them in order."""
        old = sorted(one for one in self.buckets if one <= index)
        if old and self._shared:
            self._unshare()
        self._own.difference_update(old)
        return [(one, self.buckets.pop(one)) for one in old]

    def add(
        self, parts: Iterable[tuple[int, Bucket]], each: int, named: NamedArms
    ) -> None:
        """Add finer buckets. `each` is the number of finer buckets in one bucket of
        this ring."""
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
        """Return the rings and numbers of the buckets that contain a bucket of 10
        seconds."""
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
        """Start a new bucket, and move older buckets to the coarser rings."""
        self.newest = index
        self._widen(named)
        old = self.hour.pop_until(index - _HOUR)
        self.all.add(old, self.each, named)
        self.day.add(old, _IN_DAY, named)
        self.week.add(self.day.pop_until(index // _IN_DAY - _DAY), _IN_WEEK, named)
        self.week.pop_until(index // _HOUR - _WEEK)

    def _widen(self, named: NamedArms) -> None:
        """Merge neighbouring buckets until the whole log has at most 200 buckets."""
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
            fields[name] = _pack_buckets(getattr(self, name).buckets)
        return fields

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "Series":
        """Return the series that `to_json` wrote."""
        fields = {name: given[name] for name in _NUMBERS}
        for name in RANGES:
            fields[name] = Ring(_unpack_buckets(given[name]))
        return cls(**fields)


def _pack_buckets(buckets: Mapping[int, Bucket]) -> dict[str, Any]:
    """Return buckets by number as JSON. Each name of an arm is written only once."""
    places: dict[str, int] = {}
    facts: list[Any] = []
    sums: list[float] = []
    for index, bucket in sorted(buckets.items()):
        has_others = bucket.others is not None
        sums += bucket.shown, bucket.counted, bucket.defaults, bucket.total
        since: list[list[int]] = []
        for arm, row in bucket.arms.items():
            since.append([places.setdefault(arm, len(places)), row.since])
            sums += row.sums()
        if bucket.others is not None:
            sums += bucket.others.sums()
        facts.append([index, bucket.looks, bucket.last, has_others, since])
    return {"arms": list(places), "buckets": facts, "sums": pack_floats(sums)}


def _unpack_buckets(given: Mapping[str, Any]) -> dict[int, Bucket]:
    """Return the buckets that `_pack_buckets` wrote."""
    names = given["arms"]
    numbers = iter(unpack_floats(given["sums"]))
    buckets = {}
    for index, looks, last, has_others, arms in given["buckets"]:
        shown, counted, defaults, total = islice(numbers, 4)
        bucket = Bucket(shown, counted, defaults, total, looks=looks, last=last)
        for place, since in arms:
            bucket.arms[names[place]] = ArmRow(since, *islice(numbers, 6))
        if has_others:
            bucket.others = ArmRow(0, *islice(numbers, 6))
        buckets[index] = bucket
    return buckets
