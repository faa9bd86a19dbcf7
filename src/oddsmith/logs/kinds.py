"""What a log knows of the odds it was drawn with, and what that allows."""

from typing import Literal, TypeAlias

from oddsmith.arrays import Array
from oddsmith.errors import InvalidInput

__all__ = ["KINDS", "LogKind", "USES", "Use", "allowed", "kind_of", "require"]

LogKind: TypeAlias = Literal["exact", "drawn", "deterministic", "unknown"]
Use: TypeAlias = Literal["learning", "models", "weights", "odds"]

KINDS: dict[LogKind, str] = {
    "exact": "the odds of every arm are known",
    "drawn": "only the propensity of the drawn arm is known",
    "deterministic": "every propensity is 1, so that nothing is known of the other arms",
    "unknown": "it has no propensities",
}
USES: dict[Use, tuple[str, tuple[LogKind, ...]]] = {
    "learning": ("learning from it (fit_log)", ("exact", "drawn", "deterministic", "unknown")),
    "models": ("a reward model (dm)", ("exact", "drawn", "deterministic", "unknown")),
    "weights": ("importance weights (ips, snips, dr)", ("exact", "drawn")),
    "odds": ("the odds of all arms (overlap, replay)", ("exact",)),
}


def kind_of(propensity: Array | None, propensities: Array | None) -> LogKind:
    """The class of a log with these columns.

    >>> import numpy as np
    >>> kind_of(np.array([0.5, 0.1]), None), kind_of(np.array([1.0, 1.0]), None), kind_of(None, None)
    ('drawn', 'deterministic', 'unknown')
    """
    if propensity is None:
        return "unknown"
    if len(propensity) and (propensity == 1).all():
        return "deterministic"
    return "drawn" if propensities is None else "exact"


def allowed(kind: LogKind) -> tuple[Use, ...]:
    """What a log of this class may be used for."""
    return tuple(use for use, (_, kinds) in USES.items() if kind in kinds)


def require(kind: LogKind, use: Use) -> None:
    """Refuses a use that this class of log does not allow, with what it does.

    >>> require("unknown", "weights")
    Traceback (most recent call last):
    oddsmith.errors.InvalidInput: importance weights (ips, snips, dr) need a log that is exact or drawn; this one is \
unknown (it has no propensities), which allows learning from it (fit_log) and a reward model (dm)
    """
    if use not in USES:
        raise InvalidInput(f"use must be one of {', '.join(USES)}; got {use!r}")
    what, kinds = USES[use]
    if kind not in kinds:
        others = " and ".join(USES[other][0] for other in allowed(kind))
        raise InvalidInput(
            f"{what} need a log that is {' or '.join(kinds)}; this one is {kind} ({KINDS[kind]}), which allows {others}"
        )
