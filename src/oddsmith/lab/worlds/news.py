"""NewsWorld: articles are published, fade and expire. Each has a popularity that its
features do not explain."""

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
"""Columns of a visitor, independent standard normal numbers."""
ARTICLE_COLUMNS = ("quality", "z0", "z1", "z2")
"""Columns of an article, also standard normal; quality has the largest effect."""
_INTERCEPT = -0.5
_QUALITY = 1.2
# Standard deviations of the other weights, per group.
_SPREAD = {"x": 0.3, "z": 0.4, "xz": 0.5}
# Separate random streams, so that the world does not depend on the simulation's draws.
_ARTICLES = 20160
_TRUTH = 20161


class _Weights:
    """The true weights of visitors' and articles' columns, and of the products of x0
    and z0, x1 and z1, …"""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng([seed, _TRUTH])
        n = len(VISITOR_COLUMNS)
        self.visitor = _SPREAD["x"] * rng.standard_normal(n)
        self.article = np.append(_QUALITY, _SPREAD["z"] * rng.standard_normal(n))
        self.product = _SPREAD["xz"] * rng.standard_normal(n)


class _Shelf:
    """The articles of one run, generated up to the last requested step.

    `birth_steps`, `columns` and `popularities` have one entry for each article
    published so far. `on_shelf` contains the numbers of the articles at each step, the
    oldest first.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.birth_steps: list[int] = []
        self.columns: list[Array] = []
        self.popularities: list[float] = []
        self.on_shelf: list[tuple[int, ...]] = []

    def at(self, step: int, world: "NewsWorld") -> tuple[int, ...]:
        """Return the numbers of the articles at this step, the oldest first."""
        while len(self.on_shelf) < step:
            self.on_shelf.append(self._next(world))
        return self.on_shelf[step - 1]

    def _next(self, world: "NewsWorld") -> tuple[int, ...]:
        """Return the articles of the next step: the surviving ones and new ones."""
        survivors = []
        size = world.first
        if self.on_shelf:
            survivors = self._survivors(world)
            size = len(survivors) + int(self.rng.poisson(world.births_per_step))
        size = min(max(size, world.low), world.high)
        births = [self._birth(world) for _ in range(size - len(survivors))]
        return (*survivors, *births)

    def _survivors(self, world: "NewsWorld") -> list[int]:
        articles = self.on_shelf[-1]
        lives_on = self.rng.random(len(articles)) >= 1 / world.life
        return [
            article for article, lives in zip(articles, lives_on, strict=True) if lives
        ]

    def _birth(self, world: "NewsWorld") -> int:
        number = len(self.birth_steps)
        self.birth_steps.append(len(self.on_shelf) + 1)
        self.columns.append(self.rng.standard_normal(len(ARTICLE_COLUMNS)))
        popularity = world.popularity * float(self.rng.standard_normal())
        self.popularities.append(popularity)
        return number


@dataclass(frozen=True, eq=False)
class NewsWorld(World):
    """A world in which arms are passed in each call: `low` to `high` articles per step,
    which live for `life` steps on average.

    At every step an article expires with probability 1 / life. The number of new
    articles is Poisson with mean `births` ((low + high) / (2 life) if None); more are
    added if fewer than `low` are left, and none beyond `high`. The mean reward is
    logistic in the visitor's and the article's columns, in products of them, and in the
    article's own popularity. The popularity is not a feature; it starts as a normal
    number with standard deviation `popularity` and fades to 1/e in `life` steps.
    Article columns named in `hide` affect rewards but are hidden; if all are hidden,
    arms have only names. Every run has its own articles; all runs share the weights,
    which `seed` determines.

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
        names = [self.hide] if isinstance(self.hide, str) else self.hide
        is_list = isinstance(names, list | tuple)
        if not is_list or any(name not in ARTICLE_COLUMNS for name in names):
            raise InvalidInput(
                f"hide must be names of {', '.join(ARTICLE_COLUMNS)}; got "
                f"{self.hide!r:.60}"
            )
        object.__setattr__(self, "hide", tuple(names))
        object.__setattr__(self, "_truth", _Weights(self.seed))

    @property
    def n_arms(self) -> int:
        """Largest number of arms in an offer."""
        return self.high

    @property
    def births_per_step(self) -> float:
        """Mean number of new articles per step, if there is room."""
        if self.births is not None:
            return self.births
        return (self.low + self.high) / (2 * self.life)

    @property
    def first(self) -> int:
        """Number of articles at the first step."""
        return (self.low + self.high) // 2

    @property
    def article_columns(self) -> tuple[str, ...]:
        """Columns of articles in the offers."""
        return tuple(name for name in ARTICLE_COLUMNS if name not in self.hide)

    @property
    def weights(self) -> Array:
        """True weights of the columns in the offers, without products: first the
        visitor's columns, then an article's."""
        article = self._truth.article[self._places()]
        return np.concatenate([self._truth.visitor, article])

    def context(
        self,
        step: int,
        runs: int,
        rng: np.random.Generator,
        history: History | None = None,
    ) -> Context:
        """Return an offer for each run: a visitor, and the articles of that run."""
        visitors = rng.standard_normal((runs, len(VISITOR_COLUMNS)))
        return [self._offer(step, run, visitor) for run, visitor in enumerate(visitors)]

    def means(self, step: int, context: Context) -> Array:
        """Return the mean reward of every offered arm (runs, n_arms), NaN after the
        last one.

            mean_a = 1 / (1 + exp(-score_a))
            score_a = b + x·v + z_a·(w + (0, p ∘ x)) + popularity_a exp(-age_a / life)

        with the columns x of the visitor and z_a of article a, and the true weights v,
        w and p of visitors, articles and products.
        """
        truth = self._truth
        means = np.full((len(context), self.n_arms), np.nan)
        for run, offer in enumerate(context):
            shelf = self._shelf(run)
            articles = shelf.at(step, self)
            columns = np.stack([shelf.columns[article] for article in articles])
            ages = np.array([step - shelf.birth_steps[article] for article in articles])
            popularity = np.array([shelf.popularities[article] for article in articles])
            fading = popularity * np.exp(-ages / self.life)
            products = np.append(0.0, truth.product * offer.context)
            weights = truth.article + products
            visitor_score = _INTERCEPT + offer.context @ truth.visitor
            score = visitor_score + columns @ weights + fading
            means[run, : len(articles)] = 1 / (1 + np.exp(-score))
        return means

    def for_seed(self, seed: int) -> "NewsWorld":
        """Return a world with the same weights and other articles for every seed of a
        simulation."""
        return replace(self, simulation=seed)

    def _offer(self, step: int, run: int, visitor: Array) -> Offer:
        shelf = self._shelf(run)
        places = self._places()
        articles = shelf.at(step, self)
        names = tuple(f"article-{article}" for article in articles)
        if not places:
            return Offer(visitor, names)
        rows = [shelf.columns[article][places] for article in articles]
        return Offer(visitor, names, dict(zip(names, rows, strict=True)))

    def _places(self) -> list[int]:
        return [ARTICLE_COLUMNS.index(name) for name in self.article_columns]

    def _shelf(self, run: int) -> _Shelf:
        """Return the articles of a run, which do not depend on the number of runs."""
        if run not in self._shelves:
            streams = [self.seed, _ARTICLES, self.simulation, run]
            self._shelves[run] = _Shelf(np.random.default_rng(streams))
        return self._shelves[run]
