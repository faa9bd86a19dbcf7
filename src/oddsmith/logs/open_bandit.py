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
    """Whether these are the columns of an Open Bandit log.

    >>> looks_like(
    ...     [
    ...         "timestamp",
    ...         "item_id",
    ...         "position",
    ...         "click",
    ...         "propensity_score",
    ...         "user_feature_0",
    ...     ]
    ... )
    True
    """
    return "position" in present and any(
        name.startswith("user_feature_") for name in present
    )


def columns(present: Sequence[str]) -> dict[str, str | Sequence[str]]:
    """Their names of our columns; the context is the position, the user's features and
    affinities."""
    names: dict[str, str | Sequence[str]] = {
        name: next((one for one in theirs if one in present), theirs[0])
        for name, theirs in _NAMES.items()
        if name != "time" or theirs[0] in present
    }
    user = [name for name in present if name.startswith("user_feature_")]
    affinities = [name for name in present if _AFFINITY.fullmatch(name)]
    return names | {"context": ["position", *user, *affinities]}


def arms(present: Sequence[str]) -> tuple[str, ...] | None:
    """The items, one for each affinity: without them only the items that were shown are
    known."""
    items = [int(match[2]) for name in present if (match := _AFFINITY.fullmatch(name))]
    return tuple(str(item) for item in range(max(items) + 1)) if items else None
