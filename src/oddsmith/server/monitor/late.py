"""Late experts: a sentence about experts that rarely answer in time."""

import numpy as np

from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import Experiment

__all__ = ["late_sentence"]

_ENOUGH = 100  # decisions
_OFTEN = 0.05  # of them


def late_sentence(experiment: Experiment) -> str:
    """Which expert was late most often in the last decisions, and the setting to
    change; empty if none was late in a twentieth of them."""
    bank = experiment.follower.now.experts
    rows = experiment.advice_of(experiment.follower.now.policy)
    if not isinstance(bank, Guarded) or len(rows) < _ENOUGH:
        return ""
    names = list(bank.names)
    late = {
        name
        for name, kinds in bank.failures().items()
        if kinds.get("late", 0) and name in names
    }
    asleep = np.isnan(np.stack(rows)[:, : len(names)]).sum(axis=0)
    counts = {name: int(asleep[names.index(name)]) for name in late}
    name = max(counts, key=lambda one: counts[one], default=None)
    if name is None or counts[name] < _OFTEN * len(rows):
        return ""
    now = bank.timeout_ms
    limit = "measured, 2,000 ms at most" if now == "measured" else f"{now:g} ms"
    return (
        f"expert {name!r} gave no answer in {counts[name]:,} of the last "
        f"{len(rows):,} decisions, most of them late: set a larger timeout_ms in "
        f"[service] (it is {limit}), or make the expert faster"
    )
