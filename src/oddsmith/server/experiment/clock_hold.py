"""ClockHold: suspend erasing and the closing of windows while the clock may be
wrong."""

import json
import logging
import secrets
from datetime import UTC, datetime
from math import inf
from typing import NamedTuple

from oddsmith.core.errors import StoreFailed
from oddsmith.server.experiment.clock import JUMP, Clock
from oddsmith.server.store.events import CLOCK, ConfigurationChange
from oddsmith.server.store.protocol import Reading, Store

__all__ = ["ADVICE", "ClockHold", "ClockMark", "HOLD", "last_mark"]

HOLD = 86_400.0
"""If the clock is ahead of the newest event by more than these seconds when the service
starts, it is not trusted for the same number of seconds."""
_DAY = 86_400.0
_log = logging.getLogger(__name__)
ADVICE = (
    "Set the clock; if it is right, restart the service with --trust-clock to "
    "continue at once"
)


class ClockMark(NamedTuple):
    """A `ConfigurationChange` about the clock: its time at a start, the time of the
    last event before, and whether the operator confirmed the clock."""

    time: float
    before: float
    trusted: bool

    @property
    def end(self) -> float:
        """Time from which the clock is trusted again without a confirmation."""
        return -inf if self.trusted else self.time + HOLD

    @property
    def sentence(self) -> str:
        """Describe how far the clock was from the last event, and until when it is not
        trusted."""
        return (
            f"the clock was {_distance(self.time - self.before)} the newest event at a "
            f"start, so contexts are not erased and reward windows not closed until "
            f"{_date(self.end)}"
        )


def last_mark(reading: Reading) -> ClockMark | None:
    """Return the newest mark of the clock in a log; None if there is none."""
    marks = reading.of_setting(CLOCK)
    if not marks:
        return None
    value = json.loads(marks[-1].body or "")["value"]
    return ClockMark(marks[-1].time, value["before"], value["trusted"])


class ClockHold:
    """Tracks whether the clock of an experiment can be trusted.

    When the service starts, the clock is compared with the last event. If it is more
    than `HOLD` after the event, or more than `JUMP` before it, nothing is erased and no
    window is closed for `HOLD`. This is necessary because a store that was idle looks
    the same as a clock that is ahead. A mark in the log records this, so that restarts
    do not end the period. While the service runs, the same happens if the machine's
    clock is set by more than `JUMP`; at the end the new time is adopted. If a clock is
    set back to the time of the log, it is adopted at once.
    """

    def __init__(self, name: str, store: Store, clock: Clock) -> None:
        self._name = name
        self._store = store
        self._clock = clock
        self._began = clock.steady()
        # time of the last event before the start; None if the clock is trusted
        self._before: float | None = None
        self._mark: ClockMark | None = None
        self._mark_end = 0.0  # by the steady clock
        self._jump = 0.0
        self._jump_end = inf  # by the steady clock

    def begin(self, *, trusts: bool) -> None:
        """Compare the clock with the log. With `trusts`, the operator confirms that the
        clock is right."""
        newest = self._store.newest()
        self._began = self._clock.steady()
        self._mark = None
        if newest is None:
            return
        now = self._clock()
        mark = last_mark(self._store)
        if mark is not None and not mark.trusted and _agree(now, mark.before):
            self._before = mark.before  # the clock was corrected meanwhile
            self._write(self._trust())
            return
        is_open = mark is not None and now < mark.end
        self._before = mark.before if mark is not None and is_open else newest.time
        if _agree(now, self._before):
            return
        is_same_doubt = is_open and _agree(now, newest.time)
        if mark is None or not is_same_doubt or trusts:
            mark = ClockMark(now, self._before, trusts)
            self._write(mark, wait=True)
        if trusts:
            self._before = now
            return
        self._mark = mark
        self._mark_end = self._began + min(mark.end - now, HOLD)
        _log.warning("experiment %s: %s. %s", self._name, mark.sentence, ADVICE)

    @property
    def reason(self) -> str:
        """Return the reason why erasing and the closing of windows are suspended; empty
        if they are not."""
        steady = self._clock.steady()
        if self._mark is not None and steady >= self._mark_end:
            self._mark = None
            self._before = None  # from now on, trust the clock
        jump = self._clock.wall() - self._clock()
        if abs(jump) <= JUMP:
            self._jump_end = inf
        elif self._fits(self._clock.wall()) and not self._fits(self._clock()):
            self._adopt()
        else:
            return self._reason_of_jump(jump, steady)
        if self._mark is not None and self._fits(self._clock()):
            self._mark = None
            self._write(self._trust())
        return "" if self._mark is None else f"{self._mark.sentence}. {ADVICE}"

    def check(self) -> None:
        """Raise if the clock may be wrong."""
        if reason := self.reason:
            raise StoreFailed(f"contexts cannot be erased: {reason}")

    def _reason_of_jump(self, jump: float, steady: float) -> str:
        if self._jump_end == inf or abs(jump - self._jump) > JUMP:
            self._jump = jump
            self._jump_end = steady + HOLD
        if steady >= self._jump_end:
            self._adopt()
            return ""
        until = self._clock.wall() + self._jump_end - steady
        return (
            f"the clock is {_distance(jump)} what it should show since the start, so "
            "contexts are not erased and reward windows not closed until "
            f"{_date(until)}. {ADVICE}"
        )

    def _fits(self, now: float) -> bool:
        """Return whether a time agrees with the log before the start."""
        if self._before is None:
            return False
        return _agree(now, self._before, self._clock.steady() - self._began)

    def _adopt(self) -> None:
        before = self._clock()
        self._clock.adopt()
        self._jump_end = inf
        _log.warning(
            "experiment %s: the clock continues from %s, %s the time counted so far",
            self._name,
            _date(self._clock()),
            _distance(self._clock() - before),
        )

    def _trust(self) -> ClockMark:
        """Return a mark from which on the clock is trusted, also after a restart."""
        now = self._clock()
        before = now if self._before is None else self._before
        return ClockMark(now, before, True)

    def _write(self, mark: ClockMark, *, wait: bool = False) -> None:
        """Write a mark into the log."""
        value = {"before": mark.before, "trusted": mark.trusted}
        key = f"{mark.time:.3f} {secrets.token_hex(4)}"
        event = ConfigurationChange(CLOCK, value, mark.time, key)
        try:
            sent = self._store.append([event])
            if wait:
                sent.result()
        except StoreFailed as error:
            _log.warning(
                "experiment %s: the doubt about the clock could not be written, so a "
                "restart forgets it: %s",
                self._name,
                error,
            )


def _agree(now: float, event: float, since: float = 0.0) -> bool:
    """Return whether a clock may be right, given the time of an event and the seconds
    since."""
    return -JUMP <= now - event <= HOLD + since


def _distance(seconds: float) -> str:
    size = abs(seconds)
    amount = f"{size / _DAY:,.1f} days"
    if size < 2 * _DAY:
        amount = f"{size / 3600:.1f} hours"
    side = "after" if seconds > 0 else "before"
    return f"{amount} {side}"


def _date(seconds: float) -> str:
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{seconds:.0f} s after 1970"
