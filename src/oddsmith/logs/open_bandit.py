"""The Open Bandit format (Saito et al. 2021): items shown at positions, clicks, and the
shown item's propensity."""

import re
from collections.abc import Sequence

__all__ = ["arms", "columns", "looks_like"]

_NAMES = {
    "arm": ("item_id", "action"),
    "reward": ("click", "reward"),
    "propensity": ("propensity_score", "propensity"),
    "time": ("timestamp",),
}
_AFFINITY = re.compile(r"(user-item_)?affinity_(\d+)")


def looks_like(present: Sequence[str]) -> bool:
    """Return whether these are the columns of an Open Bandit log.

    >>> names = ["item_id", "position", "click", "propensity_score", "user_feature_0"]
    >>> looks_like(names)
    True
    """
    if "position" not in present:
        return False
    return any(name.startswith("user_feature_") for name in present)


def columns(present: Sequence[str]) -> dict[str, str | Sequence[str]]:
    """Return the format's names for the columns of `Log`. The context consists of the
    position and of the user's features and affinities."""
    names: dict[str, str | Sequence[str]] = {}
    for name, theirs in _NAMES.items():
        found = [one for one in theirs if one in present]
        if found:
            names[name] = found[0]
        elif name != "time":
            names[name] = theirs[0]
    user = [name for name in present if name.startswith("user_feature_")]
    affinities = [name for name in present if _AFFINITY.fullmatch(name)]
    names["context"] = ["position", *user, *affinities]
    return names


def arms(present: Sequence[str]) -> tuple[str, ...] | None:
    """Return the items, one per affinity column, or None without such columns."""
    matches = map(_AFFINITY.fullmatch, present)
    items = [int(match[2]) for match in matches if match]
    if not items:
        return None
    return tuple(str(item) for item in range(max(items) + 1))
