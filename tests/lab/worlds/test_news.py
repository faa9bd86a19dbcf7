"""A world whose arms come and go: births, deaths and fading as stated, and means by the
formula."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.contexts.offers import arm_rows
from oddsmith.lab.worlds import NewsWorld
from oddsmith.lab.worlds.news import ARTICLE_COLUMNS


def offers(
    world: NewsWorld, steps: int, runs: int = 1, seed: int = 0
) -> list[list[od.Offer]]:
    rng = np.random.default_rng(seed)
    return [world.context(step, runs, rng) for step in range(1, steps + 1)]


def same(one: od.Offer, other: od.Offer) -> bool:
    return one.arms == other.arms and np.array_equal(arm_rows(one), arm_rows(other))


def test_the_same_seed_is_the_same_world_in_any_order() -> None:
    few, many = offers(NewsWorld(life=20), 60), offers(NewsWorld(life=20), 60, runs=3)
    assert [step[0].arms for step in few] == [step[0].arms for step in many]
    late = NewsWorld(life=20).context(60, 1, np.random.default_rng(5))[0]
    early = NewsWorld(life=20)
    early.context(10, 1, np.random.default_rng(5))
    assert same(late, early.context(60, 1, np.random.default_rng(5))[0])
    assert not np.array_equal(
        many[0][0].features["article-0"],  # type: ignore[index]
        many[0][1].features["article-0"],  # type: ignore[index]
    )
    other = NewsWorld(life=20).for_seed(3).context(1, 1, np.random.default_rng(5))[0]
    assert not same(
        other, NewsWorld(life=20).context(1, 1, np.random.default_rng(5))[0]
    )


def test_sizes_stay_between_low_and_high_and_reach_both() -> None:
    sizes = [
        len(step[0].arms) for step in offers(NewsWorld(life=20, low=3, high=6), 600)
    ]
    assert (min(sizes), max(sizes)) == (3, 6)


@pytest.mark.parametrize("life", [10, 40])
def test_lives_and_births_are_as_stated(life: int) -> None:
    """Within four standard errors; without bounds in the way births are Poisson, and
    lives geometric."""
    steps, births = 6000, 0.5
    listed = offers(NewsWorld(life=life, low=1, high=200, births=births), steps)
    seen: dict[str, int] = {}
    for step in listed:
        for name in step[0].arms:
            seen[name] = seen.get(name, 0) + 1
    born = [int(name.split("-")[1]) for name in seen]
    assert sorted(born) == list(range(len(born)))
    later = len(born) - len(listed[0][0].arms)
    assert abs(later - births * steps) < 4 * np.sqrt(births * steps)
    gone = np.array(
        [lived for name, lived in seen.items() if name not in listed[-1][0].arms]
    )
    assert abs(gone.mean() - life) < 4 * life / np.sqrt(len(gone))


def test_names_and_features_belong_together() -> None:
    """An article keeps its numbers, is offered without a break, and its name never
    comes again."""
    known: dict[str, Any] = {}
    before: set[str] = set()
    for step in offers(NewsWorld(life=15), 200):
        (offer,) = step
        assert offer.features is not None
        for name in offer.arms:
            assert (name in before) == (name in known)
            np.testing.assert_array_equal(
                known.setdefault(name, offer.features[name]), offer.features[name]
            )
        before = set(offer.arms)


def test_means_are_the_formula_and_own_popularity_fades() -> None:
    world, plain = (
        NewsWorld(life=50, popularity=1.5),
        NewsWorld(life=50, popularity=0.0),
    )
    rng = np.random.default_rng(1)
    first: dict[str, tuple[int, float]] = {}
    for step in range(1, 80):
        (offer,) = world.context(step, 1, rng)
        with_own, without = (
            one.means(step, [offer])[0, : len(offer.arms)] for one in (world, plain)
        )
        own = np.log(with_own / (1 - with_own)) - np.log(without / (1 - without))
        for name, value in zip(offer.arms, own.tolist(), strict=True):
            born, at_birth = first.setdefault(name, (step, value))
            assert value == pytest.approx(
                at_birth * np.exp(-(step - born) / 50), abs=1e-9
            )
    scatter = np.std([value for _, value in first.values()])
    assert 1.0 < scatter < 2.0


def test_without_popularity_and_products_the_mean_is_logistic() -> None:
    world = NewsWorld(popularity=0.0)
    visitor = np.zeros(3)
    offer = world.context(1, 1, np.random.default_rng(0))[0]
    offer = od.Offer(visitor, offer.arms, offer.features)
    rows = np.stack(
        [
            np.concatenate([visitor, numbers])
            for numbers in (offer.features or {}).values()
        ]
    )
    score = rows @ world.weights - 0.5
    np.testing.assert_allclose(
        world.means(1, [offer])[0, : len(rows)], 1 / (1 + np.exp(-score)), atol=1e-12
    )


def test_what_is_hidden_counts_and_is_not_shown() -> None:
    full, part, names = (
        NewsWorld(hide=hide) for hide in ((), "quality", ARTICLE_COLUMNS)
    )
    seen = [
        world.context(3, 2, np.random.default_rng(0)) for world in (full, part, names)
    ]
    for run in range(2):
        one, two, three = (offers[run] for offers in seen)
        assert one.arms == two.arms == three.arms
        assert three.features is None
        for name in one.arms:
            np.testing.assert_array_equal(one.features[name][1:], two.features[name])
    means = [
        world.means(3, context)
        for world, context in zip((full, part, names), seen, strict=True)
    ]
    np.testing.assert_array_equal(means[0], means[1])
    np.testing.assert_array_equal(means[0], means[2])
    assert (len(full.weights), len(part.weights), len(names.weights)) == (7, 6, 3)


def test_means_are_nan_behind_the_last_arm_and_nowhere_else() -> None:
    world = NewsWorld(low=2, high=9, life=5)
    for step, context in enumerate(offers(world, 40, runs=2), start=1):
        means = world.means(step, context)
        assert means.shape == (2, world.n_arms) == (2, 9)
        for offer, row in zip(context, means, strict=True):
            assert np.isfinite(row[: len(offer.arms)]).all()
            assert np.isnan(row[len(offer.arms) :]).all()


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: NewsWorld(life=0.5), "life must be"),
        (lambda: NewsWorld(low=0), "low must be"),
        (lambda: NewsWorld(low=7, high=6), "high must be"),
        (lambda: NewsWorld(high=1001), "high must be"),
        (lambda: NewsWorld(births=-1), "births must be"),
        (lambda: NewsWorld(popularity=np.nan), "popularity must be"),
        (lambda: NewsWorld(seed=-1), "seed must be"),
        (
            lambda: NewsWorld(hide="colour"),
            "hide must be names of quality, z0, z1, z2; got 'colour'",
        ),
        (lambda: NewsWorld(hide=7), "hide must be names of"),  # type: ignore[arg-type]
    ],
)
def test_wrong_worlds_get_one_clear_sentence(
    attempt: Callable[[], object], message: str
) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        attempt()
