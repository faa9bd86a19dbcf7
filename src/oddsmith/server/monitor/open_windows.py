"""Count decisions with an open window, and check whether early rewards bias the
state."""

from math import ceil
from typing import NamedTuple

from oddsmith.server.experiment.settings import Settings
from oddsmith.server.messages import figures as f
from oddsmith.server.statistics import Sums
from oddsmith.server.statistics.series import RANGES, Range

__all__ = ["Young", "open_windows", "young"]

_REACH = {"hour": 3600.0, "day": 86_400.0, "week": 604_800.0}
_FEW = 30  # minimum number of decisions for a check
_SHARE = 0.05
_NEARLY_ALL = 0.95


class Young(NamedTuple):
    """The number of decisions whose window was open at the last event, and how many of
    them have a reward."""

    shown: int = 0
    rewarded: int = 0


def young(sums: Sums, window: float | None) -> Young:
    """Count the decisions with an open window, to the precision of one time bucket."""
    if window is None:
        return Young()
    found = sums.checks
    open_since = max(found.last_decision or 0.0, found.last_learnt or 0.0) - window
    what: Range = next(
        (one for one in RANGES if _REACH.get(one, window) >= window), "all"
    )
    width, buckets = sums.series.buckets(what, sums.named)
    shown = rewarded = 0.0
    for number, bucket in buckets.items():
        if number >= ceil(open_since / width):
            shown += bucket.shown
            rewarded += bucket.counted - bucket.defaults
    return Young(int(shown), int(rewarded))


def open_windows(sums: Sums, settings: Settings) -> f.OpenWindowsCheck:
    """Check whether the state is biased because early rewards count while others are
    still missing.

    This happens with the rule "first", if rewards of open windows count, at least 5 %
    of the decisions wait, and closed windows often had no reward. If nearly all closed
    windows had a reward, rewards are only late.
    """
    if settings.window is None:
        return f.OpenWindowsCheck(
            0,
            0,
            "well",
            "There is no window: nothing is learned from decisions without a reward.",
        )
    checks = sums.checks
    shown, rewarded = young(sums, settings.window)
    waiting = shown - rewarded
    n_closed = checks.shown - shown
    wait = f"{waiting:,} of {checks.shown:,} decisions wait for their window"
    if settings.rule != "first":
        sentence = (
            f"{shown:,} of {checks.shown:,} decisions count when their window closes."
        )
        return f.OpenWindowsCheck(shown, 0, "well", sentence)
    n_closed_rewarded = checks.counted - checks.defaults - rewarded
    is_complete = n_closed > 0 and n_closed_rewarded >= _NEARLY_ALL * n_closed
    are_few = waiting < max(_FEW, _SHARE * checks.shown)
    if are_few or not rewarded or is_complete:
        return f.OpenWindowsCheck(shown, rewarded, "well", f"{wait}.")
    how = "too high" if settings.default == 0.0 else "not what it will be"
    sentence = (
        f"{wait}, and {rewarded:,} rewards of such decisions count already: what is "
        "learnt and shown meanwhile "
        f'is {how}. With reward_rule = "first_at_close" both count when the window '
        "closes; a shorter window_s helps."
    )
    return f.OpenWindowsCheck(shown, rewarded, "look", sentence)
