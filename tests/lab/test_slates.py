"""Pages of several slots in the lab: the truth by enumeration, what learning captures,
and evaluation beside it."""

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import evaluation as ev
from oddsmith.lab import PageRun, fill_pages
from oddsmith.lab.worlds import PageWorld

WORLD = PageWorld()


def even(context: Any, arm: str) -> float:
    return 0.5


def at_random() -> od.Agent:
    return od.Agent(od.uniform(od.FunctionExperts({"even": even})), seed=3)


def test_the_best_and_a_random_page_by_enumeration() -> None:
    world = PageWorld(items=5)
    visitor = world.visitor(np.random.default_rng(0))
    sums = [world.means(visitor, page).sum() for page in permutations(world.arms, 3)]
    assert world.best(visitor) == pytest.approx(max(sums), abs=1e-12)
    assert world.uniform(visitor) == pytest.approx(np.mean(sums), abs=1e-12)


def test_learning_captures_most_of_what_there_is_to_gain() -> None:
    """Over six seeds, a third of it in 300 pages and half of it in the last 100;
    measured: 0.54 (0.16 to 0.67) and 0.70 (0.54 to 0.80)."""
    runs = [
        fill_pages(od.Agent(od.auto(size="small"), seed=seed), WORLD, 300, seed=seed)
        for seed in range(6)
    ]
    assert np.mean([run.captured_share() for run in runs]) > 1 / 3
    assert np.mean([run.captured_share(200) for run in runs]) > 1 / 2


@pytest.fixture(scope="module")
def random_run() -> PageRun:
    return fill_pages(at_random(), WORLD, 600, seed=4)


def test_chance_captures_nothing(random_run: PageRun) -> None:
    """Within four standard errors of the mean over 600 pages."""
    off = random_run.earned - random_run.uniform
    assert abs(off.mean()) < 4 * off.std() / np.sqrt(600)


def test_the_log_says_what_a_target_is_worth_in_each_slot(random_run: PageRun) -> None:
    """At level 0.999, for three slots and their mean, against the mean over pages of
    what was left there."""
    log = random_run.log
    clicks = np.array([WORLD.clicks(context) for context in log.context])
    appeal = np.where(np.asarray(log.eligible), np.exp(2 * clicks), 0.0)
    target = appeal / appeal.sum(axis=1, keepdims=True)
    truth = (target * clicks).sum(axis=1).reshape(-1, 3) * WORLD.looks
    found = ev.assess(log, {"better": target}, level=0.999)
    for slot, value in enumerate(truth.mean(axis=0), 1):
        own = found.slots[slot]
        assert not isinstance(own, str)
        one = own.answers["better"]["ips"]
        assert isinstance(one, ev.Estimate)
        assert one.low <= value <= one.high
    over_all = found.answers["better"]["ips"]
    assert isinstance(over_all, ev.Estimate)
    assert over_all.low <= truth.mean() <= over_all.high
    assert over_all.diagnostics.n == 600


@pytest.mark.parametrize("looks", [(), (0.5, 0.6), (1.5,), (0.5, -0.1)])
def test_looks_that_are_none_are_refused(looks: Any) -> None:
    with pytest.raises(od.InvalidInput, match="looks must"):
        PageWorld(looks=looks)


@pytest.mark.soak
def test_learning_goes_on() -> None:
    run = fill_pages(od.Agent(od.auto(), seed=0), WORLD, 3000)
    print(
        f"captured {run.captured_share():.3f} in all, {run.captured_share(2000):.3f} of the last "
        "1,000 pages"
    )
    assert run.captured_share(2000) > 0.85
