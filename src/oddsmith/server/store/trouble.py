"""Problems of stores: HoldUp, an open transaction that hides committed events from
readers, and WriteTrouble, a fault that prevents writing."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["HoldUp", "WriteTrouble"]


class HoldUp(NamedTuple):
    """The oldest open transaction in a database, and the events that readers cannot see
    until it ends.

    `holder` describes the transaction, and `age_s` is its age in seconds. For each
    experiment, `unread` contains the number of hidden events (at most 10,000) and the
    time of the first one.
    """

    holder: str = ""
    age_s: float = 0.0
    unread: Mapping[str, tuple[int, float]] = MappingProxyType({})


_log = logging.getLogger(__name__)


class WriteTrouble:
    """The current fault of one store. `text` describes the fault, and is empty if there
    is none."""

    def __init__(self, where: object) -> None:
        self.text = ""
        self._where = where

    def become(self, text: str) -> None:
        """Set the text of the fault, and write a message to the service's log if a
        fault begins or ends."""
        before = self.text
        self.text = text
        if text and not before:
            _log.error("%s cannot be written: %s", self._where, text)
        elif before and not text:
            _log.warning("%s can be written again", self._where)
