"""What stands right under a verdict: what the log lacks, and what that does to the answer."""

import numpy as np

from oddsmith.evaluation.assessment import Assessment
from oddsmith.evaluation.diagnostics import ASYMPTOTIC
from oddsmith.evaluation.rows import all_odds
from oddsmith.evaluation.slate_report import slate_notes
from oddsmith.evaluation.verdict import verdict

__all__ = ["log_notes", "support_known"]

_EMPTY = 0.1  # of the rows: beyond it, say so


def log_notes(found: Assessment) -> list[str]:
    """Sentences about rewards that are missing, odds that were not logged, and slates; none where nothing is to say.

    >>> from oddsmith.evaluation.assessment import assess
    >>> from oddsmith.logs.table import Log
    >>> log = Log(arm=[0, 1] * 200, reward=[1, 0] * 150 + [1, np.nan] * 50, propensity=[0.5] * 400, arms=["a", "b"])
    >>> print(*log_notes(assess(log, {"mostly a": [0.9, 0.1]})), sep="; ")
    50 of 400 rows have no reward and were left out; if no reward means 0, write 0.
    """
    return [*_unrewarded(found), *_undrawn(found), *slate_notes(found)]


def support_known(found: Assessment) -> bool:
    """Whether the log says which arms the logger could draw: it has the odds of all arms, or they follow."""
    return all_odds(found.log.rewarded()) is not None


def _unrewarded(found: Assessment) -> list[str]:
    n, empty = len(found.log), int(np.isnan(found.log.reward).sum())
    if empty <= _EMPTY * n:
        return []
    return [f"{empty:,} of {n:,} rows have no reward and were left out; if no reward means 0, write 0."]


def _undrawn(found: Assessment) -> list[str]:
    """How intervals bear that only drawn odds are known: rewards near 0 leave room above, rewards near 1 below."""
    if verdict(found).estimator is None or found.logged.interval not in ASYMPTOTIC or support_known(found):
        return []
    end = "high" if found.log.rewarded().reward.mean() < 0.5 else "low"
    return [
        f"Only the odds of drawn arms are in the log: the {end} ends of intervals leave room for arms whose odds were "
        "not logged, and would be nearer with the odds of all arms."
    ]
