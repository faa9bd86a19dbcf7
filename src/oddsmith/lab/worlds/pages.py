"""PageWorld: pages of several slots; readers look at a slot the less the further down
it is."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from oddsmith.core.arrays import Array, finite, whole
from oddsmith.core.errors import InvalidInput

__all__ = ["PageWorld"]

_ITEMS = 20162  # a stream of its own, apart from those of visitors and clicks
_LIKES, _QUALITY = 1.5, 1.0


@dataclass(frozen=True, eq=False)
class PageWorld:
    """Items with features for the slots of a page; the mean reward of item a in slot j
    is looks[j] · clicks(a).

    A click is logistic in the item's own quality, which is shown, and in how its taste
    meets the visitor's, two normal numbers each. Rewards of slots depend on nothing but
    their own item and place, so the best page has the items in the order of their
    clicks.

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
                "looks must be shares from 1 down to 0, the first slot's first; got "
                f"{self.looks!r:.60}"
            )
        table = np.random.default_rng([self.seed, _ITEMS]).standard_normal(
            (self.items, 3)
        )
        names = ("quality", "z0", "z1")
        arms = {
            f"item-{i}": dict(zip(names, row, strict=True))
            for i, row in enumerate(table.tolist())
        }
        object.__setattr__(self, "_table", table)
        object.__setattr__(self, "arms", arms)

    def visitor(self, rng: np.random.Generator) -> dict[str, float]:
        """The context of a page: a visitor's taste."""
        return dict(zip(("x0", "x1"), rng.standard_normal(2).tolist(), strict=True))

    def clicks(self, visitor: dict[str, float]) -> Array:
        """The chance (K,) that a visitor who looks at an item clicks it."""
        taste = self._table[:, 1:] @ [visitor["x0"], visitor["x1"]]
        clicks: Array = 1 / (
            1 + np.exp(0.5 - _QUALITY * self._table[:, 0] - _LIKES * taste)
        )
        return clicks

    def earned(self, visitor: dict[str, float], shown: Sequence[str]) -> Array:
        """The mean rewards (m,) of the slots of a page that shows these items."""
        places = [int(name.removeprefix("item-")) for name in shown]
        return np.asarray(self.looks) * self.clicks(visitor)[places]

    def best(self, visitor: dict[str, float]) -> float:
        """The sum over slots of the best page."""
        return float(
            np.asarray(self.looks)
            @ np.sort(self.clicks(visitor))[::-1][: len(self.looks)]
        )

    def uniform(self, visitor: dict[str, float]) -> float:
        """The sum over slots of a page that is filled at random."""
        return float(np.sum(self.looks) * self.clicks(visitor).mean())
