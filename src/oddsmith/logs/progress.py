"""A progress bar on a terminal: the share done, the elapsed time and the remaining
time. Without a terminal it prints nothing, or a line at regular intervals."""

import sys
import time
from collections.abc import Generator, Iterable
from typing import TextIO, TypeVar

__all__ = ["Bar", "LINE_EVERY_S", "progress"]

_Item = TypeVar("_Item")
_busy = False
_WIDTH = 24
LINE_EVERY_S = 30.0
"""Seconds between two printed lines (`every` of `progress`) for work that may take
minutes and runs without a terminal."""
# seconds before the progress is shown, so that short tasks print nothing
_PATIENCE = 0.5
_REFRESH = 0.1  # seconds between two updates of the bar


class Bar:
    """A progress bar on `stream` (standard error), drawn if this is a terminal and the
    work takes more than half a second.

    Without a `total` (None) the bar only counts. Without a terminal, it prints a line
    every `every` seconds, if this is given. If bars are nested, only the outermost is
    drawn.

    >>> bar = Bar("copying", 10)
    >>> bar.reach(3)
    >>> bar.close()
    """

    def __init__(
        self,
        what: str,
        total: int | None = None,
        stream: TextIO | None = None,
        *,
        every: float | None = None,
    ) -> None:
        global _busy
        self._what = what
        self._total = total
        self._out = sys.stderr if stream is None else stream
        self._is_drawn = not _busy and self._out.isatty()
        self._every = None if _busy else every
        self._done = 0
        self._start = time.monotonic()
        self._last_update = self._start
        self._owns = not _busy and (self._is_drawn or every is not None)
        _busy = _busy or self._owns

    def advance(self, steps: int = 1) -> None:
        """Advance the bar by this many steps."""
        self.reach(self._done + steps)

    def reach(self, done: int, total: int | None = None) -> None:
        """Set the number of steps done, and the `total` if it was not known before."""
        self._done = done
        if total is not None:
            self._total = total
        if not self._owns:
            return
        now = time.monotonic()
        since_last = now - self._last_update
        if self._is_drawn:
            if now - self._start > _PATIENCE and since_last > _REFRESH:
                self._draw(now)
        elif self._every is not None and since_last >= self._every:
            self._last_update = now
            print(self._line(now), file=self._out, flush=True)

    def close(self) -> None:
        """End the line, so that later output starts on a new one."""
        global _busy
        if not self._owns:
            return
        _busy = False
        self._owns = False
        if self._is_drawn and self._last_update > self._start:
            self._draw(time.monotonic())
            print(file=self._out, flush=True)

    def _draw(self, now: float) -> None:
        self._last_update = now
        print(f"\r{self._line(now)}", end="", file=self._out, flush=True)

    def _line(self, now: float) -> str:
        seconds = now - self._start
        if self._total is None:
            return f"{self._what} {self._done:,}, {_span(seconds)} "
        # the total may be an estimate that is too small
        total = max(self._total, self._done, 1)
        n_full = _WIDTH * self._done // total
        bar = "█" * n_full + "·" * (_WIDTH - n_full)
        per_step = seconds / max(self._done, 1)
        remaining = per_step * (total - self._done)
        return (
            f"{self._what} {bar} {self._done:,} of {total:,}, {_span(seconds)}, "
            f"{_span(remaining)} to go "
        )


def progress(
    items: Iterable[_Item],
    total: int | None,
    what: str,
    stream: TextIO | None = None,
    *,
    every: float | None = None,
) -> Generator[_Item, None, None]:
    """Yield the items, and advance a `Bar` by one step for each of them.

    >>> list(progress(range(3), 3, "counting"))
    [0, 1, 2]
    """
    bar = Bar(what, total, stream, every=every)
    try:
        for item in items:
            yield item
            bar.advance()
    finally:
        bar.close()


def _span(seconds: float) -> str:
    """Return a time as text in seconds, minutes or hours.

    >>> _span(59.2), _span(600), _span(14_700)
    ('59 s', '10 min', '4 h 5 min')
    """
    minutes = round(seconds / 60)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if minutes < 60:
        return f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"
