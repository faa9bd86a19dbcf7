"""HoldUp: what keeps committed events from the readers of a database."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["HoldUp"]


class HoldUp(NamedTuple):
    """The oldest transaction that is open in a database, and the events that readers may not see until it ends.

    `holder` names it, in words; `age_s` says how long it is open. `unread` has, by experiment, how many events wait, at
    most 10,000 of which are counted, and the time of the first.
    """

    holder: str = ""
    age_s: float = 0.0
    unread: Mapping[str, tuple[int, float]] = MappingProxyType({})
