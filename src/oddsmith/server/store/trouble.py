"""HoldUp: what keeps committed events from the readers of a database."""

import logging
from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["HoldUp", "WriteTrouble"]


class HoldUp(NamedTuple):
    """The oldest transaction that is open in a database, and the events that readers
    may not see until it ends.

    `holder` names it, in words; `age_s` says how long it is open. `unread` has, by
    experiment, how many events wait, at most 10,000 of which are counted, and the time
    of the first.
    """

    holder: str = ""
    age_s: float = 0.0
    unread: Mapping[str, tuple[int, float]] = MappingProxyType({})


_log = logging.getLogger(__name__)


class WriteTrouble:
    """The trouble of one store as a sentence, empty where there is none."""

    def __init__(self, where: object) -> None:
        self.text = ""
        self._where = where

    def become(self, text: str) -> None:
        """This is so from now on."""
        before, self.text = self.text, text
        if text and not before:
            _log.error("%s cannot be written: %s", self._where, text)
        elif before and not text:
            _log.warning("%s can be written again", self._where)
