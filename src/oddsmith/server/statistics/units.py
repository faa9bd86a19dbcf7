"""The units of a comparison, with their groups and totals. Copies share content, so
copying is fast."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

__all__ = ["Unit", "Units"]

_LEAST_CHANGES = 256


class Unit(NamedTuple):
    """A unit of a comparison: its group, the control's share at its first decision, the
    position `made` of that decision, and the total of each metric (None if the unit has
    no amount)."""

    group: int
    share: float
    made: int
    totals: tuple[int | None, ...]

    def with_total(self, place: int, total: int) -> "Unit":
        """Return the unit with another total of the metric at this place."""
        totals = (*self.totals[:place], total, *self.totals[place + 1 :])
        return self._replace(totals=totals)


class Units:
    """Units by name. A copy takes time in proportion to the square root of their
    number, because it shares all units but the latest changes.

    >>> units = Units()
    >>> units.put("ann", Unit(0, 0.1, 7, (None,)))
    >>> copy = units.copy()
    >>> copy.put("ann", Unit(0, 0.1, 7, (3,)))
    >>> units.get("ann").totals, copy.get("ann").totals
    ((None,), (3,))
    """

    __slots__ = ("_changes", "_shared")

    def __init__(self) -> None:
        # this dict is never changed in place, because copies share it
        self._shared: dict[str, Unit] = {}
        self._changes: dict[str, Unit] = {}

    def copy(self) -> "Units":
        """Return a copy that can be changed without changing this one."""
        copy = Units()
        copy._shared = self._shared
        copy._changes = dict(self._changes)
        return copy

    def get(self, name: str) -> Unit | None:
        """Return the unit of this name."""
        return self._changes.get(name) or self._shared.get(name)

    def put(self, name: str, unit: Unit) -> None:
        """Add a unit, or replace it."""
        self._changes[name] = unit
        n_changes = len(self._changes)
        if n_changes > _LEAST_CHANGES and n_changes**2 > 16 * len(self._shared):
            self._shared = {**self._shared, **self._changes}
            self._changes = {}

    def items(self) -> Iterator[tuple[str, Unit]]:
        """Yield names and units, sorted by name."""
        units = {**self._shared, **self._changes}
        for name in sorted(units):
            yield name, units[name]

    def to_json(self) -> list[list[Any]]:
        """Return the units as a snapshot contains them."""
        return [[name, *unit] for name, unit in self.items()]

    @classmethod
    def from_json(cls, given: Iterable[list[Any]]) -> "Units":
        """Return the units that `to_json` wrote."""
        units = cls()
        for name, group, share, made, totals in given:
            units._shared[name] = Unit(group, share, made, tuple(totals))
        return units
