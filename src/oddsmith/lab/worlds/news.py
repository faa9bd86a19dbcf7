"""NewsWorld: articles are born, fade and die; what their features do not explain is
their own."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from oddsmith.contexts.offers import MOST_ARMS
from oddsmith.core.arrays import Array, number, whole
from oddsmith.core.decision import Context
from oddsmith.core.errors import InvalidInput
from oddsmith.core.offer import Offer
from oddsmith.lab.worlds.world import History, World

__all__ = ["ARTICLE_COLUMNS", "NewsWorld", "VISITOR_COLUMNS"]

VISITOR_COLUMNS = ("x0", "x1", "x2")
"""What is known of a visitor: independent standard normal numbers."""
ARTICLE_COLUMNS = ("quality", "z0", "z1", "z2")
"""What is known of an article, likewise; quality is the decisive one."""
_INTERCEPT, _QUALITY = -0.5, 1.2
_SPREAD = {"x": 0.3, "z": 0.4, "xz": 0.5}  # standard deviations of the other weights
# streams of their own, apart from those of a simulation
_ARTICLES, _TRUTH = 20160, 20161


class _Weights:
    """The truth: the weights of visitors' and articles' columns, and of the products of
    x0 and z0, x1 and z1, …"""

    def __init__(self, seed: int) -> None:
        rng, n = np.random.default_rng([seed, _TRUTH]), len(VISITOR_COLUMNS)
        self.visitor = _SPREAD["x"] * rng.standard_normal(n)
        self.article = np.append(_QUALITY, _SPREAD["z"] * rng.standard_normal(n))
        self.product = _SPREAD["xz"] * rng.standard_normal(n)


class _Shelf:
    """The articles of one run, as far as they were asked for: all ever born, and those
    that are there at each step."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.born: list[int] = []
        self.columns: list[Array] = []
        self.own: list[float] = []
        self.there: list[tuple[int, ...]] = []

    def at(self, step: int, world: "NewsWorld") -> tuple[int, ...]:
        """The numbers of the articles that are there, the oldest first."""
        while len(self.there) < step:
            kept = self._survivors(world) if self.there else []
            wanted = (
                len(kept) + int(self.rng.poisson(world.births_per_step))
                if self.there
                else world.first
            )
            wanted = min(max(wanted, world.low), world.high)
            self.there.append(
                (*kept, *(self._birth(world) for _ in range(wanted - len(kept))))
            )
        return self.there[step - 1]

    def _survivors(self, world: "NewsWorld") -> list[int]:
        there = self.there[-1]
        stays = self.rng.random(len(there)) >= 1 / world.life
        return [article for article, stay in zip(there, stays, strict=True) if stay]

    def _birth(self, world: "NewsWorld") -> int:
        self.born.append(len(self.there) + 1)
        self.columns.append(self.rng.standard_normal(len(ARTICLE_COLUMNS)))
        self.own.append(world.popularity * float(self.rng.standard_normal()))
        return len(self.born) - 1


@dataclass(frozen=True, eq=False)
class NewsWorld(World):
    """Arms come with the call: at every step `low` to `high` articles, each of which
    lives for `life` steps on average.

    An article dies at every step with probability 1 / life; a Poisson number of new
    ones, `births` on average ((low + high) / (2 life) if None), is born, more where
    fewer than `low` are left, and none beyond `high`. The mean reward is logistic in
    the visitor's and the article's columns, in products of them, and in the article's
    own popularity, normal with standard deviation `popularity` at birth, which fades to
    1/e of that in `life` steps and which no column shows. Columns of articles that are
    named in `hide` are part of the truth, and not shown either; where all are, arms are
    names alone. Every run has articles of its own; all have the same weights, those of
    `seed`.

    >>> world = NewsWorld(low=2, high=3)
    >>> (offer,) = world.context(1, 1, np.random.default_rng(0))
    >>> offer.arms, offer.features["article-0"].shape, world.means(1, [offer]).round(3)
    (('article-0', 'article-1'), (4,), array([[0.31 , 0.653,   nan]]))
    """

    life: float = 200.0
    low: int = 5
    high: int = 15
    births: float | None = None
    popularity: float = 0.5
    hide: Sequence[str] = ()
    seed: int = 0
    simulation: int = 0
    _truth: _Weights = field(init=False, repr=False)
    _shelves: dict[int, _Shelf] = field(default_factory=dict, init=False, repr=False)

    makes_offers = True

    def __post_init__(self) -> None:
        number("life", self.life, low=1, high=1e9)
        whole("low", self.low, high=MOST_ARMS)
        whole("high", self.high, low=self.low, high=MOST_ARMS)
        if self.births is not None:
            number("births", self.births, low=0, high=MOST_ARMS)
        number("popularity", self.popularity, low=0, high=100)
        whole("seed", self.seed, low=0, high=2**63 - 1)
        hidden = [self.hide] if isinstance(self.hide, str) else self.hide
        if not isinstance(hidden, list | tuple) or any(
            name not in ARTICLE_COLUMNS for name in hidden
        ):
            raise InvalidInput(
                f"hide must be names of {', '.join(ARTICLE_COLUMNS)}; got "
                f"{self.hide!r:.60}"
            )
        object.__setattr__(self, "hide", tuple(hidden))
        object.__setattr__(self, "_truth", _Weights(self.seed))

    @property
    def n_arms(self) -> int:
        """The most arms that an offer has."""
        return self.high

    @property
    def births_per_step(self) -> float:
        """How many articles are born in a step, on average, where there is room."""
        return (
            (self.low + self.high) / (2 * self.life)
            if self.births is None
            else self.births
        )

    @property
    def first(self) -> int:
        """How many articles there are at the first step."""
        return (self.low + self.high) // 2

    @property
    def shown(self) -> tuple[str, ...]:
        """The columns of articles that offers show."""
        return tuple(name for name in ARTICLE_COLUMNS if name not in self.hide)

    @property
    def weights(self) -> Array:
        """The true weights of what offers show, without products: of a visitor's
        columns, then an article's."""
        return np.concatenate(
            [self._truth.visitor, self._truth.article[self._places()]]
        )

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        """An offer for each run: a visitor, and the articles of that run that are
        there."""
        visitors = rng.standard_normal((runs, len(VISITOR_COLUMNS)))
        return [self._offer(step, run, visitor) for run, visitor in enumerate(visitors)]

    def means(self, step: int, context: Context) -> Array:
        """The mean reward of every arm offered (runs, n_arms), NaN behind the last of
        them."""
        truth, means = self._truth, np.full((len(context), self.n_arms), np.nan)
        for run, offer in enumerate(context):
            shelf = self._shelf(run)
            there = shelf.at(step, self)
            columns = np.stack([shelf.columns[article] for article in there])
            ages = np.array([step - shelf.born[article] for article in there])
            own = np.array([shelf.own[article] for article in there]) * np.exp(
                -ages / self.life
            )
            weights = truth.article + np.append(0.0, truth.product * offer.context)
            score = _INTERCEPT + offer.context @ truth.visitor + columns @ weights + own
            means[run, : len(there)] = 1 / (1 + np.exp(-score))
        return means

    def for_seed(self, seed: int) -> "NewsWorld":
        """The same truth, with other articles for every seed of a simulation."""
        return replace(self, simulation=seed)

    def _offer(self, step: int, run: int, visitor: Array) -> Offer:
        shelf, places = self._shelf(run), self._places()
        there = shelf.at(step, self)
        names = tuple(f"article-{article}" for article in there)
        if not places:
            return Offer(visitor, names)
        rows = (shelf.columns[article][places] for article in there)
        return Offer(visitor, names, dict(zip(names, rows, strict=True)))

    def _places(self) -> list[int]:
        return [ARTICLE_COLUMNS.index(name) for name in self.shown]

    def _shelf(self, run: int) -> _Shelf:
        """The shelf of a run, which does not depend on how many runs there are."""
        if run not in self._shelves:
            streams = [self.seed, _ARTICLES, self.simulation, run]
            self._shelves[run] = _Shelf(np.random.default_rng(streams))
        return self._shelves[run]
