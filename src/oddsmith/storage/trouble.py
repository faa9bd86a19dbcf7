"""WriteTrouble: what keeps a store from writing, told to the log once when it begins and once when it ends."""

import logging

__all__ = ["WriteTrouble"]

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
