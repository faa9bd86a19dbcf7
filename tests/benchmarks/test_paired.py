"""Short forms of the study of paired differences: false decisions, coverage, width."""

from functools import lru_cache

import numpy as np
import pytest
from benchmarks.paired import FAMILIES, HOLDOUT, Rates, World, play, rates, stops

RUNS = 60
ROWS = 2_500
NOMINAL = 0.025
LARGEST = NOMINAL + 3 * np.sqrt(NOMINAL * (1 - NOMINAL) / RUNS)


@lru_cache
def measured(world: World) -> Rates:
    return rates(world, RUNS, ROWS, seed=7)


@pytest.mark.parametrize("world", FAMILIES, ids=lambda world: world.name)
def test_false_ships_are_rare_where_a_z_test_at_every_look_has_many(
    world: World,
) -> None:
    """At most 2.5 % plus three standard errors of 60 runs."""
    found = measured(world)
    assert found.false_ships["paired"] <= LARGEST
    assert found.false_ships["z test at every look"] > LARGEST


@pytest.mark.parametrize("world", FAMILIES, ids=lambda world: world.name)
def test_the_running_effect_is_covered_at_every_look(world: World) -> None:
    found = measured(world._replace(effect=0.5))
    assert found.coverage["paired"] >= 1 - 2 * LARGEST
    assert found.over_old[1] < 0.65


def test_the_effect_of_a_world_is_the_mean_of_its_rows() -> None:
    """D r has the mean effect: within four standard errors of 40 runs."""
    played = play(World("check", effect=0.8), 40, 2_000, seed=3)
    errors = (played.rows.apart * played.rows.reward - played.effect).mean(axis=1)
    assert abs(errors.mean()) < 4 * errors.std() / np.sqrt(40)
    assert np.allclose(played.rows.apart, played.target - played.control)


def test_a_large_effect_stops_a_holdout_early() -> None:
    found = stops(HOLDOUT._replace(rate=0.3, effect=0.8), 10, 5_000, seed=4)
    assert found.share == 1
    assert found.median < 4_000
