"""History: the weights of experts over time, and changes of experts, arms and
rewards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from oddsmith.server.statistics.snapshot import pack_floats, unpack_floats

__all__ = ["History", "MOST_NAMED", "Mark", "Point", "point_of"]

_MOST = 200  # maximum number of points
# maximum number of marks for corrections, and also maximum number of other marks
_MARKS = 100
MOST_NAMED = 50
"""Maximum number of experts that a point lists by name."""


class Point(NamedTuple):
    """The weights of the experts after all events up to a position.

    The heaviest experts have names; `others` is the weight of the rest.
    """

    position: int
    time: float
    weights: Mapping[str, float]
    others: float | None = None


class Mark(NamedTuple):
    """A change at a position: an expert added or retired, arms added, or a reward
    corrected.

    `share` is the initial weight of an added expert.
    """

    position: int
    time: float
    kind: str
    name: str
    share: float | None = None


def point_of(position: int, time: float, weights: Mapping[str, float]) -> Point:
    """Return a point with these weights, in which the heaviest experts are named.

    >>> point_of(7, 0.0, {"a": 0.75, "b": 0.25})
    Point(position=7, time=0.0, weights={'a': 0.75, 'b': 0.25}, others=None)
    """
    if len(weights) <= MOST_NAMED:
        return Point(position, time, dict(weights))
    heaviest = sorted(weights, key=lambda name: -weights[name])[:MOST_NAMED]
    named = {name: weights[name] for name in heaviest}
    others = sum(weights.values()) - sum(named.values())
    return Point(position, time, named, max(0.0, others))


@dataclass(slots=True)
class History:
    """The history of weights, with a point after every `stride`-th reward and at most
    200 points.

    When there are 200 points, every second one is dropped and the stride doubles.
    `counted` is the number of rewards, and `last` is the time of the last reward.
    """

    points: list[Point] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    counted: int = 0
    stride: int = 1
    last: float = 0.0

    def copy(self) -> "History":
        """Return a copy that can be changed without changing this one."""
        return replace(self, points=self.points.copy(), marks=self.marks.copy())

    def count(
        self, position: int, time: float, weights: Callable[[], Mapping[str, float]]
    ) -> None:
        """Count a reward; `weights` returns the weights after it, by name."""
        self.counted += 1
        self.last = max(self.last, time)
        if self.counted % self.stride:
            return
        self.points.append(point_of(position, time, weights()))
        if len(self.points) == _MOST:
            self.points = self.points[1::2]
            self.stride *= 2

    def mark(self, mark: Mark) -> None:
        """Add a mark. Only the last 100 corrections and the last 100 other marks are
        stored."""
        is_correction = mark.kind == "correction"
        alike = [
            one for one in self.marks if (one.kind == "correction") == is_correction
        ]
        if len(alike) == _MARKS:
            self.marks.remove(alike[0])
        self.marks.append(mark)

    def to_json(self) -> dict[str, Any]:
        """Return the history as a snapshot contains it.

        `weights` is a table with a row for each point and a column for each name; -1
        means that the expert has no weight.
        """
        names: dict[str, None] = {}
        for point in self.points:
            names |= dict.fromkeys(point.weights)
        points = []
        weights: list[float] = []
        for point in self.points:
            points.append([point.position, point.time, point.others])
            weights += [point.weights.get(name, -1.0) for name in names]
        return {
            "names": list(names),
            "points": points,
            "weights": pack_floats(weights),
            "marks": self.marks,
            "counted": self.counted,
            "stride": self.stride,
            "last": self.last,
        }

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "History":
        """Return the history that `to_json` wrote."""
        history = cls(
            counted=given["counted"], stride=given["stride"], last=given["last"]
        )
        history.marks = [Mark(*mark) for mark in given["marks"]]
        weights = iter(unpack_floats(given["weights"]))
        for position, time, others in given["points"]:
            by_name = {name: next(weights) for name in given["names"]}
            present = {name: w for name, w in by_name.items() if w >= 0}
            history.points.append(Point(position, time, present, others))
        return history
