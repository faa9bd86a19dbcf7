"""PageWorld: pages with several slots. Fewer readers look at slots further down."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oddsmith.core.arrays import Array, finite, whole
from oddsmith.core.errors import InvalidInput

__all__ = ["PageWorld"]

# Separate random stream, so that items do not depend on visitors and clicks.
_ITEMS = 20162
_ITEM_COLUMNS = ("quality", "z0", "z1")
_LIKES = 1.5
_QUALITY = 1.0


@dataclass(frozen=True, eq=False)
class PageWorld:
    """Items with features for the slots of a page. The mean reward of item a in slot j
    is looks[j] · clicks(a).

    The probability of a click is logistic in the item's quality, which is a feature,
    and in the product of the item's and the visitor's taste, two normal numbers each.
    The reward of a slot depends only on its item and position, so the best page orders
    items by their click probability.

    >>> world = PageWorld(items=4, looks=(1.0, 0.5))
    >>> visitor = world.visitor(np.random.default_rng(0))
    >>> (
    ...     world.clicks(visitor).round(3),
    ...     round(world.best(visitor), 3),
    ...     round(world.uniform(visitor), 3),
    ... )
    (array([0.256, 0.216, 0.27 , 0.114]), 0.398, 0.321)
    """

    items: int = 8
    looks: Sequence[float] = (1.0, 0.6, 0.3)
    seed: int = 0
    arms: dict[str, dict[str, float]] = field(init=False, repr=False)
    _table: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        looks = finite("looks", self.looks, ndim=1)
        whole("items", self.items, low=max(1, len(looks)))
        whole("seed", self.seed, low=0, high=2**63 - 1)
        if looks.min() < 0 or looks.max() > 1 or (np.diff(looks) > 0).any():
            raise InvalidInput(
                "looks must be shares from 1 down to 0, starting with the first "
                f"slot; got {self.looks!r:.60}"
            )
        rng = np.random.default_rng([self.seed, _ITEMS])
        table = rng.standard_normal((self.items, len(_ITEM_COLUMNS)))
        arms = {
            f"item-{i}": dict(zip(_ITEM_COLUMNS, row, strict=True))
            for i, row in enumerate(table.tolist())
        }
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "arms", arms)

    def visitor(self, rng: np.random.Generator) -> dict[str, float]:
        """Return the context of a page: a visitor's taste."""
        x0, x1 = rng.standard_normal(2).tolist()
        return {"x0": x0, "x1": x1}

    def clicks(self, visitor: dict[str, float]) -> Array:
        """Return the probability (K,) that a visitor who looks at an item clicks it."""
        quality = self._table[:, 0]
        match = self._table[:, 1:] @ [visitor["x0"], visitor["x1"]]
        minus_score = 0.5 - _QUALITY * quality - _LIKES * match
        clicks: Array = 1 / (1 + np.exp(minus_score))
        return clicks

    def means(self, visitor: dict[str, float], items: Sequence[str]) -> Array:
        """Return the mean rewards (m,) of the slots of a page with these items."""
        places = [int(name.removeprefix("item-")) for name in items]
        clicks = self.clicks(visitor)[places]
        return np.asarray(self.looks) * clicks

    def best(self, visitor: dict[str, float]) -> float:
        """Return the total mean reward of the best page."""
        looks = np.asarray(self.looks)
        most_clicks = np.sort(self.clicks(visitor))[::-1]
        return float(looks @ most_clicks[: len(looks)])

    def uniform(self, visitor: dict[str, float]) -> float:
        """Return the total mean reward of a page that is filled at random."""
        return float(np.sum(self.looks) * self.clicks(visitor).mean())
