"""History: the weights of experts on the way, at most 200 points, and what happened to
experts, arms and rewards."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from oddsmith.server.statistics.snapshot import pack_floats, unpack_floats

__all__ = ["History", "MOST_NAMED", "Mark", "Point", "point_of"]

_MOST = 200  # points
_MARKS = 100  # of corrections, and of what else there is
MOST_NAMED = 50
"""Experts of a point whose weights are kept by name."""


class Point(NamedTuple):
    """The weights after all events up to a position: of the heaviest experts by name,
    and of others together."""

    position: int
    time: float
    weights: Mapping[str, float]
    others: float | None = None


class Mark(NamedTuple):
    """What happened at a position: an expert was added or retired, arms were added, a
    reward was corrected.

    `share` is the weight that an expert was added with.
    """

    position: int
    time: float
    kind: str
    name: str
    share: float | None = None


def point_of(position: int, time: float, weights: Mapping[str, float]) -> Point:
    """The point of these weights.

    >>> point_of(7, 0.0, {"a": 0.75, "b": 0.25})
    Point(position=7, time=0.0, weights={'a': 0.75, 'b': 0.25}, others=None)
    """
    if len(weights) <= MOST_NAMED:
        return Point(position, time, dict(weights))
    heaviest = sorted(weights, key=lambda name: -weights[name])[:MOST_NAMED]
    named = {name: weights[name] for name in heaviest}
    return Point(
        position, time, named, max(0.0, sum(weights.values()) - sum(named.values()))
    )


@dataclass(slots=True)
class History:
    """Points at every `stride`-th count; when there are 200, every other one is dropped
    and the stride doubles.

    `last` is the time of the last count.
    """

    points: list[Point] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    counted: int = 0
    stride: int = 1
    last: float = 0.0

    def copy(self) -> "History":
        """The same, to go on from."""
        return History(
            self.points.copy(), self.marks.copy(), self.counted, self.stride, self.last
        )

    def count(
        self, position: int, time: float, weights: Callable[[], Mapping[str, float]]
    ) -> None:
        """A decision counted at this position; `weights` are those of the state after
        it, by name."""
        self.counted, self.last = self.counted + 1, max(self.last, time)
        if self.counted % self.stride:
            return
        self.points.append(point_of(position, time, weights()))
        if len(self.points) == _MOST:
            self.points, self.stride = self.points[1::2], 2 * self.stride

    def mark(self, mark: Mark) -> None:
        """Something happened; of corrections, and of what else there is, the last 100
        stay."""
        is_correction = mark.kind == "correction"
        alike = [
            one for one in self.marks if (one.kind == "correction") == is_correction
        ]
        if len(alike) == _MARKS:
            self.marks.remove(alike[0])
        self.marks.append(mark)

    def to_json(self) -> dict[str, Any]:
        """What a snapshot holds of it; names of experts stand once."""
        names = list(
            dict.fromkeys(name for point in self.points for name in point.weights)
        )
        weights = pack_floats(
            point.weights.get(name, -1.0) for point in self.points for name in names
        )
        points = [[point.position, point.time, point.others] for point in self.points]
        rest = {
            "marks": self.marks,
            "counted": self.counted,
            "stride": self.stride,
            "last": self.last,
        }
        return {"names": names, "points": points, "weights": weights} | rest

    @classmethod
    def from_json(cls, given: Mapping[str, Any]) -> "History":
        """What `to_json` gave."""
        points, weights = [], iter(unpack_floats(given["weights"]))
        for position, time, others in given["points"]:
            named = {
                name: weight
                for name in given["names"]
                if (weight := next(weights)) >= 0
            }
            points.append(Point(position, time, named, others))
        return cls(
            points,
            [Mark(*one) for one in given["marks"]],
            given["counted"],
            given["stride"],
            given["last"],
        )
