"""Kinds of logs: the propensities and features that a log contains, and the methods
that they allow."""

from typing import Literal, TypeAlias

__all__ = [
    "COMPARED",
    "FeatureKind",
    "KINDS",
    "LogKind",
    "OF_DRAWN_ROWS",
    "USES",
    "Use",
]

LogKind: TypeAlias = Literal["exact", "drawn", "deterministic", "unknown"]
FeatureKind: TypeAlias = Literal["all", "drawn", "none"]
Use: TypeAlias = Literal["learning", "models", "weights", "odds"]

KINDS: dict[LogKind, str] = {
    "exact": "the propensities of all arms are known",
    "drawn": "only the propensity of the drawn arm is known",
    "deterministic": (
        "every propensity is 1, so that the log has no information on the other arms"
    ),
    "unknown": "it has no propensities",
}
USES: dict[Use, tuple[str, tuple[LogKind, ...]]] = {
    "learning": (
        "learning from it (fit_log)",
        ("exact", "drawn", "deterministic", "unknown"),
    ),
    "models": ("a reward model (dm)", ("exact", "drawn", "deterministic", "unknown")),
    "weights": ("importance weights (ips, snips, dr)", ("exact", "drawn")),
    "odds": ("the propensities of all arms (overlap, replay)", ("exact",)),
}
OF_DRAWN_ROWS: dict[Use, str] = {
    "learning": "learning from drawn rows (fit_log)",
    "weights": "importance weights (ips, snips)",
    "odds": "the propensities of all arms",
}
"""The methods that a log allows if it has only the features of the drawn arms."""
COMPARED = "reward models (dm, dr), policy targets and learners that compare arms"
"""The methods that need the features of all arms of a decision (the use "models")."""
