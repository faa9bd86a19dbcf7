"""What a log knows of the odds it was drawn with and of the arms' features, and what
that allows."""

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
    "exact": "the odds of every arm are known",
    "drawn": "only the propensity of the drawn arm is known",
    "deterministic": (
        "every propensity is 1, so that nothing is known of the other arms"
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
    "odds": ("the odds of all arms (overlap, replay)", ("exact",)),
}
OF_DRAWN_ROWS: dict[Use, str] = {
    "learning": "learning from drawn rows (fit_log)",
    "weights": "importance weights (ips, snips)",
    "odds": "the odds of all arms",
}
"""The uses of a log that has the features of the drawn arms only."""
COMPARED = "reward models (dm, dr), policy targets and learners that compare arms"
"""What needs the features of all arms that were offered, where arms came with features:
the use "models"."""
