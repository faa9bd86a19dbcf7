"""Who has what: every row against its formula, the floor and its conditions, Thompson
sampling against its twins."""

from math import log, sqrt
from typing import Any

import pytest

import oddsmith as od
from oddsmith import theory


def rows(**problem: Any) -> dict[str, theory.Promise]:
    return {row.algorithm: row for row in theory.compare(**problem)}


@pytest.mark.parametrize(
    ("arms", "steps", "prior"), [(2, 2.0**16, 1e-12), (5, 1e5, 0.01), (10, 1e9, 1e-4)]
)
def test_every_row_is_its_formula(arms: int, steps: float, prior: float) -> None:
    """Exact ones to rounding; tuned ones are at most what their leading order says, and
    not half of it."""
    found, size, n = (
        rows(n_arms=arms, steps=steps, prior=prior),
        log(1 / prior),
        1 / prior,
    )
    formulas = {
        "SquareCB": sqrt((arms - 1) * steps * size),
        "Feel-Good Thompson sampling": 2 * sqrt((arms + 0.25) * steps * size),
        "GTS, gamma 0": sqrt(2 * steps)
        * (sqrt((arms - 1) * size) + sqrt((1 - prior) / prior)),
        "Thompson sampling, fixed truth": sqrt(arms * size * steps / 2) / prior,
        "Thompson sampling, right prior": sqrt(arms * size * steps / 2),
        "Regressor elimination": 8.3448 * sqrt(arms * steps * log(n / 0.05)),
        "EXP4": sqrt(2 * arms * steps * log(n)),
        "Hedged GTS": 2 * sqrt(0.25 + arms * steps * log(2 * n)),
    }
    for name, value in formulas.items():
        assert found[name].bound == pytest.approx(min(value, steps), rel=1e-5)
        assert found[name].says_nothing(steps) is (value >= steps)
    cubes = {
        "GTS, tuned gamma": 2.3812 * ((arms - 1) * size) ** (1 / 3) * steps ** (2 / 3),
        "GTS, tuned gamma, the paper's constants": 5.3744
        * (arms * size) ** (1 / 3)
        * steps ** (2 / 3),
    }
    for name, value in cubes.items():
        assert value / 2 <= (found[name].bound or 0) <= value
    assert {row.algorithm for row in found.values() if row.bound is None} == {
        "FastCB, small costs",
        "any algorithm",
    }
    assert set(found) == {
        *formulas,
        *cubes,
        "FastCB, small costs",
        "any algorithm",
        *_FLOORS,
    }


_FLOORS = {"GTS, any gamma_t that is fixed in advance"}


def test_rows_are_grouped_by_what_has_to_hold_the_smallest_first() -> None:
    found = theory.compare(n_arms=5, steps=1e5, prior=0.01)
    seen: list[str] = []
    for before, row in zip([None, *found], found, strict=False):
        if before is None or before.applies != row.applies:
            assert row.applies not in seen
            seen.append(row.applies)
        else:
            assert (before.bound or 0) <= (row.bound or 1e9)
    assert [row.status for row in found[-2:]] == ["lower bound"] * 2


def test_the_floor_and_its_conditions() -> None:
    """0.146 B^(1/3) T^(2/3), at most 0.08 T, nothing where the prior is not small
    enough; below the bound of GTS."""
    doubt = log((1 - 1e-12) / 1e-12)
    assert theory.sampling_floor(steps=2**14, prior=1e-12) == pytest.approx(
        0.146 * doubt ** (1 / 3) * 2 ** (28 / 3)
    )
    assert theory.sampling_floor(steps=100, prior=1e-12) == 8.0
    assert theory.sampling_floor(steps=2**16, prior=1e-9) == 0  # B < 24
    assert theory.sampling_floor(steps=1e7, prior=1e-12) == 0  # B < 2 ln T
    assert theory.sampling_floor(steps=100, prior=1.0) == 0
    for steps in (1e2, 1e4, 1e6):
        for prior in (1e-13, 1e-20, 1e-40):
            floor = theory.sampling_floor(steps=steps, prior=prior)
            assert (
                0
                < floor
                < theory.regret_bound("log", n_arms=2, steps=steps, prior=prior).bound
            )
    assert rows(n_arms=2, steps=100, prior=0.1)[
        "GTS, any gamma_t that is fixed in advance"
    ].says_nothing(100)


def test_thompson_sampling_is_episodes_of_one_step() -> None:
    prior = [0.7, 0.2, 0.1]
    entropy = -sum(p * log(p) for p in prior)
    problem: Any = {"horizon": 1, "n_actions": 4, "episodes": 1e4, "policies": 4}
    for truth in (None, 0, 2):
        share = None if truth is None else prior[truth]
        found = theory.thompson_bound(entropy=entropy, n_arms=4, steps=1e4, prior=share)
        assert found.bound == pytest.approx(
            theory.posterior_sampling_bound(prior, truth=truth, **problem).bound
        )


def test_the_better_gamma_is_the_smaller_bound() -> None:
    for prior in (0.5, 0.1, 0.01, 1e-3, 1e-6):
        problem: Any = {"n_arms": 3, "steps": 1e5, "prior": prior}
        tuned, plain = (
            theory.regret_bound("log", gamma=gamma, **problem) for gamma in (None, 0.0)
        )
        assert theory.better_bound(**problem).bound == min(tuned.bound, plain.bound)


def test_an_entropy_that_cannot_be_is_refused() -> None:
    assert theory.compare(n_arms=2, steps=100, prior=1.0, entropy=0.0)
    with pytest.raises(od.InvalidInput, match="entropy must be at least"):
        theory.compare(n_arms=2, steps=100, prior=0.5, entropy=0.5)
