"""Decisions whose window is open: how many wait, and whether what was learnt meanwhile
is one-sided."""

from math import ceil
from typing import NamedTuple

from oddsmith.server.experiment.settings import Settings
from oddsmith.server.messages import figures as f
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.series import RANGES, Range

__all__ = ["Young", "open_windows", "young"]

_REACH = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
_FEW, _SHARE, _NEARLY_ALL = 30, 0.05, 0.95


class Young(NamedTuple):
    """Decisions whose window was open at the last event, and those of them that count
    already, by a reward."""

    shown: int = 0
    rewarded: int = 0


def young(sums: Sums, window: float | None) -> Young:
    """The decisions of open windows, to the width of a bucket; none without a
    window."""
    if window is None:
        return Young()
    found = sums.checks
    open_since = max(found.last_decision or 0.0, found.last_learnt or 0.0) - window
    what: Range = next(
        (one for one in RANGES if _REACH.get(one, window) >= window), "all"
    )
    width, buckets = sums.series.buckets(what, sums.named)
    counts = [
        bucket.counts
        for number, bucket in buckets.items()
        if number >= ceil(open_since / width)
    ]
    return Young(
        int(sum(one[0] for one in counts)), int(sum(one[1] - one[2] for one in counts))
    )


def open_windows(sums: Sums, settings: Settings) -> f.OpenWindowsCheck:
    """Whether rewards that count at once make what is learnt one-sided while their
    absence still waits.

    That is so with the rule "first", where rewards of open windows count, at least one
    decision in twenty waits, and decisions whose window has closed often had no reward.
    Where nearly all of those had one, rewards only take time.
    """
    if settings.window is None:
        return f.OpenWindowsCheck(
            0, 0, "well", "There is no window: what has no reward teaches nothing."
        )
    found, (shown, rewarded) = sums.checks, young(sums, settings.window)
    waiting, due = shown - rewarded, found.shown - shown
    told = f"{waiting:,} of {found.shown:,} decisions wait for their window"
    if settings.rule != "first":
        sentence = (
            f"{shown:,} of {found.shown:,} decisions count when their window closes."
        )
        return f.OpenWindowsCheck(shown, 0, "well", sentence)
    complete = (
        due > 0 and found.counted - found.defaults - rewarded >= _NEARLY_ALL * due
    )
    if waiting < max(_FEW, _SHARE * found.shown) or not rewarded or complete:
        return f.OpenWindowsCheck(shown, rewarded, "well", f"{told}.")
    how = "too high" if settings.default == 0.0 else "not what it will be"
    sentence = (
        f"{told}, and {rewarded:,} rewards of such decisions count already: what is "
        "learnt and shown meanwhile "
        f'is {how}. With reward_rule = "first_at_close" both count when the window '
        "closes; a shorter window_s helps."
    )
    return f.OpenWindowsCheck(shown, rewarded, "look", sentence)
