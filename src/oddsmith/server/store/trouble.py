"""HoldUp: an open transaction that hides committed events from readers."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["HoldUp", "WriteTrouble"]


class HoldUp(NamedTuple):
    """The oldest open transaction in a database, and the events that readers cannot see
    until it ends.

    `holder` describes the transaction, `age_s` is its age. `unread` contains, by
    experiment, the number of hidden events (at most 10,000) and the time of the first.
    """

    holder: str = ""
    age_s: float = 0.0
    unread: Mapping[str, tuple[int, float]] = MappingProxyType({})


_log = logging.getLogger(__name__)


class WriteTrouble:
    """The current fault of one store as a sentence; empty if there is none."""

    def __init__(self, where: object) -> None:
        self.text = ""
        self._where = where

    def become(self, text: str) -> None:
        """Set the fault, and log a change."""
        before = self.text
        self.text = text
        if text and not before:
            _log.error("%s cannot be written: %s", self._where, text)
        elif before and not text:
            _log.warning("%s can be written again", self._where)
