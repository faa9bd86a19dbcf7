"""Progress on a terminal: how far, how long, how much longer; elsewhere silent, or a
line now and then."""

import sys
import time
from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from typing import TextIO, TypeVar

__all__ = ["Bar", "TOLD_S", "progress"]

_Item = TypeVar("_Item")
_busy = False
_WIDTH = 24
TOLD_S = 30.0
"""Seconds between lines, where no terminal is, of work that may take minutes: `every`
of `progress`."""
_PATIENCE = 0.5  # seconds before anything is shown, so that short work stays silent


def progress(
    items: Iterable[_Item],
    total: int | None,
    what: str,
    stream: TextIO | None = None,
    *,
    every: float | None = None,
) -> Generator[_Item, None, None]:
    """The items, with a bar on `stream` (standard error) if it is a terminal and the
    work takes more than a moment.

    Without a `total` (None) it only counts. Where there is no terminal, a line is
    written every so many seconds, if `every` is given.

    >>> list(progress(range(3), 3, "counting"))
    [0, 1, 2]
    """
    global _busy
    out = sys.stderr if stream is None else stream
    if _busy or not out.isatty():  # one bar at a time: the outermost
        yield from items if every is None else _told(items, total, what, out, every)
        return
    _busy = True
    start = shown = time.monotonic()
    done = 0
    try:
        for done, item in enumerate(items, start=1):
            yield item
            now = time.monotonic()
            if now - start > _PATIENCE and now - shown > 0.1:
                shown = now
                print(
                    f"\r{_line(what, done, total, now - start)}",
                    end="",
                    file=out,
                    flush=True,
                )
    finally:
        _busy = False
        if shown > start:
            print(
                f"\r{_line(what, done, total, time.monotonic() - start)}",
                file=out,
                flush=True,
            )


def _told(
    items: Iterable[_Item], total: int | None, what: str, out: TextIO, every: float
) -> Iterator[_Item]:
    """The items, with a line of how far it is every so many seconds."""
    start = told = time.monotonic()
    for done, item in enumerate(items, start=1):
        yield item
        now = time.monotonic()
        if now - told >= every:
            told = now
            print(_line(what, done, total, now - start), file=out, flush=True)


def _line(what: str, done: int, total: int | None, seconds: float) -> str:
    if total is None:
        return f"{what} {done:,}, {seconds:.0f} s "
    filled = _WIDTH * done // max(total, 1)
    left = seconds / max(done, 1) * (total - done)
    bar = "█" * filled + "·" * (_WIDTH - filled)
    return f"{what} {bar} {done:,} of {total:,}, {seconds:.0f} s, {left:.0f} s to go "


class Bar:
    """The same for work that only says how far it is.

    >>> bar = Bar("copying")
    >>> bar.reach(3, 10)
    >>> bar.close()
    """

    def __init__(self, what: str) -> None:
        self._what, self._done = what, 0
        self._steps: Generator[int, None, None] | None = None

    def reach(self, done: int, total: int) -> None:
        """So much of it is done."""
        if self._steps is None:
            self._steps = progress(range(total), total, self._what)
        for _ in islice(self._steps, max(done - self._done, 0)):
            self._done += 1

    def close(self) -> None:
        """End the line."""
        if self._steps is not None:
            self._steps.close()
