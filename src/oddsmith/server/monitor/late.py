"""Late experts: a warning about experts that are often late."""

import numpy as np

from oddsmith.experts.guard.guard import Guarded
from oddsmith.server.experiment.experiment import Experiment

__all__ = ["late_sentence"]

_ENOUGH = 100  # minimum number of decisions for a warning
_OFTEN = 0.05  # share of late decisions that causes a warning


def late_sentence(experiment: Experiment) -> str:
    """Return a sentence that names the expert that was late most often, and the setting
    to change.

    The sentence is empty if no expert was late in 5 % of the last decisions.
    """
    bank = experiment.follower.now.experts
    rows = experiment.advice_of(experiment.now.policy)
    if not isinstance(bank, Guarded) or len(rows) < _ENOUGH:
        return ""
    names = list(bank.names)
    failures = bank.failures()
    missing = np.isnan(np.stack(rows)[:, : len(names)]).sum(axis=0).tolist()
    worst = ""
    most = 0
    for name, n_missing in zip(names, missing, strict=True):
        if failures.get(name, {}).get("late", 0) and n_missing > most:
            worst = name
            most = n_missing
    if not worst or most < _OFTEN * len(rows):
        return ""
    limit = "measured, 2,000 ms at most"
    if bank.timeout_ms != "measured":
        limit = f"{bank.timeout_ms:g} ms"
    return (
        f"expert {worst!r} gave no answer in {most:,} of the last "
        f"{len(rows):,} decisions, most of them late: set a larger timeout_ms in "
        f"[service] (it is {limit}), or make the expert faster"
    )
