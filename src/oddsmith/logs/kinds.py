"""What a log knows of the odds it was drawn with, and what that allows."""

from typing import Literal, TypeAlias

__all__ = ["KINDS", "LogKind", "USES", "Use"]

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
