"""What policies over experts share: their state, and the checked ways in for priors and eligible arms."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from oddsmith.arrays import Array, simplex
from oddsmith.decision import State
from oddsmith.errors import InvalidInput, NoEligibleArm

__all__ = ["ExpertState", "check_eligible", "checked_prior"]


class ExpertState(NamedTuple):
    """Log weights (…, N) relative to the leader, the number of rewards learnt, and the experts' own state."""

    log_weights: Array
    learnt: int
    experts: State


def checked_prior(prior: Any, names: Sequence[str]) -> Array:
    """N probabilities in the order of the experts."""
    n = len(names)
    if prior is None:
        return np.full(n, 1.0 / n)
    if isinstance(prior, Mapping):
        if unknown := [name for name in prior if name not in names]:
            raise InvalidInput(f"prior must name the experts; got {unknown[0]!r}, which is none of {list(names)[:8]}")
        if missing := [name for name in names if name not in prior]:
            raise InvalidInput(f"prior must name every expert; got none for {missing[0]!r}")
        prior = [prior[name] for name in names]
    return simplex("prior", prior, n=n, over="experts")


def check_eligible(eligible: Any) -> None:
    """Refuses what is not a boolean mask with at least one arm in every row."""
    if not isinstance(eligible, np.ndarray) or eligible.dtype != np.bool_ or eligible.ndim == 0:
        raise InvalidInput(f"eligible must be a boolean mask (…, K); got {type(eligible).__name__} {eligible!r:.60}")
    if not eligible.any(axis=-1).all():
        raise NoEligibleArm("at least one arm must be eligible; got none")
