"""What a certificate says in numbers, against sums and searches of their own."""

from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.theory import conditions
from oddsmith.theory.conditions import Certificate, certify
from oddsmith.theory.expressions import parse_loss
from theory.witnesses import OFF_CENTRE, plain_kappa2

SAVAGE = parse_loss("exp(g)*(g - 1 - r)")  # weight e^g


def untraced(g: Any, r: Any) -> Any:
    """The same loss, and no formula."""
    return np.where(np.isfinite(g), SAVAGE(g, r), 0.0)


def moments(loss: Any, f: float, g: float, rewards: tuple[float, float]) -> Any:
    """E lhat and E lhat² for a reward of two values with mean f."""
    low, high = rewards
    share = 0.0 if low == high else (f - low) / (high - low)
    weights = np.array([1 - share, share])
    excess = np.array([float(loss(g, r) - loss(f, r)) for r in rewards])
    return sum(weights * excess), sum(weights * excess**2)


def check_broken(found: Certificate, rel: float = 1e-9) -> Any:
    """The counterexample, whose numbers are those of the loss."""
    broken = found.counterexample
    assert broken is not None
    first, second = moments(found.loss, broken.f, broken.g, broken.rewards)
    assert broken.mean == pytest.approx(first, rel=rel, abs=1e-15)
    assert broken.square == pytest.approx(second, rel=rel, abs=1e-15)
    assert not found.holds
    assert (found.kappa2_lower, found.kappa2_upper) == (np.inf, np.inf)
    assert (found.w_min, found.w_max) == (0.0, np.inf)
    return broken


@pytest.mark.parametrize("rewards", ["unit", "binary"])
def test_a_certificate_with_a_proof(rewards: Any) -> None:
    found = certify(SAVAGE, 0.25, 0.75, n=20, rewards=rewards)
    assert found.holds
    assert found.proof is not None
    assert found.reason == ""
    assert (found.low, found.high, found.n) == (0.25, 0.75, 20)
    assert found.rewards == rewards
    assert found.loss is SAVAGE
    grid = np.linspace(0.25, 0.75, 21)
    assert (found.proof.edges == grid).all()
    pairs = [
        moments(SAVAGE, f, g, (0.0, 1.0)) for f, g in product(grid, grid) if f != g
    ]
    largest = max(second / first for first, second in pairs)
    assert found.kappa2_lower == pytest.approx(largest, rel=1e-6)
    assert largest <= found.kappa2_upper <= 1.25 * largest
    assert found.w_min == pytest.approx(np.exp(0.25), rel=0.02)
    assert found.w_max == pytest.approx(np.exp(0.75), rel=0.02)
    ends = np.array([0.25, 0.75])
    spread = max(float(np.ptp(SAVAGE(ends, r))) for r in (0.0, 1.0))
    assert found.scale == pytest.approx(spread)


def test_a_certificate_without_a_proof_has_the_same_numbers() -> None:
    known = certify(SAVAGE, 0.25, 0.75, n=20)
    found = certify(untraced, 0.25, 0.75, n=20, rewards="binary")
    assert not found.holds
    assert found.reason == "the loss is not a formula that can be traced"
    assert found.counterexample is None
    assert (found.low, found.high, found.n) == (0.25, 0.75, 20)
    assert found.rewards == "binary"
    assert found.loss is untraced
    assert found.kappa2_lower == known.kappa2_lower
    assert found.kappa2_lower <= found.kappa2_upper
    for name, rel in (("kappa2_upper", 0.03), ("w_min", 1e-4), ("w_max", 1e-4),
                      ("scale", 1e-9)):  # fmt: skip
        expected = (
            getattr(known, name)
            if name in ("kappa2_upper", "scale")
            else (np.exp(0.25) if name == "w_min" else np.exp(0.75))
        )
        assert getattr(found, name) == pytest.approx(expected, rel=rel), name
    rough = certify(lambda g, r: np.where(g < 2, (g - r) ** 2, 0.0), n=20)
    assert rough.kappa2_upper == pytest.approx(
        certify(od.square_loss, n=20).kappa2_upper, rel=1e-3
    )


def raised(g: Any, r: Any) -> Any:
    """Square loss, and a constant for each reward, which nothing depends on."""
    return np.where(g < 2, (g - r) ** 2 + 3 + 5 * r, 0.0)


def peaked(g: Any, r: Any) -> Any:
    """Savage's form with w(u) = 1 + 5 (1 + x²)^(-3/2), x = (u - 0.15)/0.05."""
    root = np.sqrt(0.05**2 + (g - 0.15) ** 2)
    phi = g**2 / 2 + 0.25 * root
    slope = g + 0.25 * (g - 0.15) / root
    return np.where(g < 2, -phi - slope * (r - g), 0.0)


@pytest.mark.parametrize("loss", [untraced, raised, peaked])
def test_the_estimate_of_kappa2_by_loops(loss: Any) -> None:
    """From the weights of cells, the largest of each and its neighbours."""
    found = certify(loss, n=20, rewards="binary")
    assert found.reason == "the loss is not a formula that can be traced"
    grid = np.linspace(0, 1, 21)
    first = np.zeros((21, 21))
    for (i, f), (j, g) in product(enumerate(grid), enumerate(grid)):
        first[i, j], _ = moments(loss, f, g, (0.0, 1.0))
    mass = loss(grid, 0.0) - loss(grid, 1.0)
    area = abs(mass[None, :] - mass[:, None])
    weight = np.diff(mass) / 0.05
    top = [max(weight[max(i - 1, 0) : i + 2]) for i in range(20)]
    expected = plain_kappa2(grid, first, first, area, top)
    assert found.kappa2_upper == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("factor", [1e-3, 1e-12, 0.0])
def test_a_small_loss_without_a_proof(factor: float) -> None:
    """The numbers of square loss, times a factor; nothing counts as 0 because it is
    small."""
    found = certify(lambda g, r: np.where(g < 2, factor * (g - r) ** 2, 0.0), n=20)
    assert not found.holds
    assert found.w_min == pytest.approx(2 * factor, rel=1e-4)
    assert found.w_max == pytest.approx(2 * factor, rel=1e-4, abs=1e-300)
    assert found.kappa2_lower == pytest.approx(4 / 3 * factor, rel=0.01)


def test_proved_for_0_and_1_alone() -> None:
    def by_cases(g: Any, r: Any) -> Any:
        return {0.0: g**2, 1.0: (g - 1) ** 2}.get(r, (g - r) ** 2)

    assert certify(by_cases, n=20, rewards="binary").holds
    found = certify(by_cases, n=20)
    assert not found.holds
    assert found.proof is None
    assert found.rewards == "unit"
    assert found.reason == "it is proved only for rewards 0 and 1 (binary)"


def test_a_weight_that_vanishes_counts_as_0() -> None:
    """One of 1e-6 of the largest, which differences do not tell from 0."""
    found = certify(parse_loss("g**3/3 + g**4/4 - r*(g**2/2 + g**3/3)"), n=20)
    assert found.counterexample is None
    assert found.w_min == 0
    assert found.kappa1(2, 0.1) == np.inf
    assert found.critical_eta() == 0
    with pytest.raises(od.InvalidInput, match=r"its weight w vanishes somewhere$"):
        found.best()
    light = certify(parse_loss("(g-r)**2 * 0.001"), n=20)
    assert light.w_min == pytest.approx(0.002)
    # a weight of u² + 2e-6 has a proof, and its c is none: the estimate is 0
    thin = certify(parse_loss("g**4/4 + g**2/10**6 - r*(g**3/3 + 2*g/10**6)"), n=20)
    assert thin.holds
    assert thin.w_min > 0
    assert thin.c(0.5) == thin.estimate(0.5) == 0


def test_kappa1_by_hand() -> None:
    found = certify(od.square_loss, n=20)
    assert found.kappa1(3, 0.2) == pytest.approx(np.sqrt(4 * 3 / (0.2 * found.w_min)))
    for gamma in (0.0, 1.5):
        with pytest.raises(od.InvalidInput, match="gamma must be"):
            found.kappa1(3, gamma)
    assert found.kappa1(3, 1.0) > 0


def test_c_and_its_estimate() -> None:
    found = certify(od.square_loss, n=20)
    assert found.estimate(1.0) == pytest.approx(0.46317703, abs=1e-7)
    assert found.c(1.0) == pytest.approx(0.999 * found.estimate(1.0))
    assert found.c(3.0) == found.estimate(3.0) <= 0
    without = certify(untraced, n=20)
    assert without.c(0.3) == without.estimate(0.3) > 0
    for eta in (0.0, np.inf, -1.0):
        with pytest.raises(od.InvalidInput, match="eta must be"):
            found.estimate(eta)


@pytest.mark.parametrize("factor", [1e-4, 1.0, 50.0])
def test_the_critical_eta_is_where_no_c_is_positive(factor: float) -> None:
    """Square loss: 2."""
    found = certify(lambda g, r: factor * (g - r) ** 2, n=10)
    eta = found.critical_eta()
    assert eta == pytest.approx(2 / factor, rel=1e-6)
    assert found.estimate(0.999999 * eta) > 0
    assert found.estimate(1.000001 * eta) <= 0
    assert found.critical_eta() is eta  # not searched again


def test_the_best_eta() -> None:
    found = certify(od.square_loss, n=20)
    best = found.best()
    assert best.eta == pytest.approx(1.038339, abs=1e-4)
    assert best.c == found.c(best.eta)
    for eta in (0.9 * best.eta, 1.1 * best.eta):
        assert found.estimate(eta) < found.estimate(best.eta)
    broken = certify(lambda g, r: abs(g - r), n=20)
    with pytest.raises(od.InvalidInput, match=r"it breaks C1 at mean 0.25, prediction"):
        broken.best()


def test_moments_of_every_mean_and_prediction() -> None:
    grid = np.array([0.0, 0.3, 1.0])
    found = conditions._moments(grid, SAVAGE(grid, 1.0), SAVAGE(grid, 0.0))
    for (i, f), (j, g) in product(enumerate(grid), enumerate(grid)):
        expected = moments(SAVAGE, f, g, (0.0, 1.0))
        actual = found.first[i, j], found.second[i, j]
        np.testing.assert_allclose(actual, expected, atol=1e-15)


def test_the_worst_break_on_the_grid() -> None:
    """Of C1, over all means and predictions."""

    def loss(g: Any, r: Any) -> Any:
        return abs(g - r) * (1 + 0.1 * r)

    broken = check_broken(certify(loss, 0.0, 1.0, n=20, rewards="binary"))
    assert broken.condition == "C1"
    assert broken.rewards == (0.0, 1.0)
    grid = np.linspace(0, 1, 21)
    worst = min(moments(loss, f, g, (0.0, 1.0))[0] for f, g in product(grid, grid))
    assert broken.mean == pytest.approx(worst)


def shifted(reward: float, size: float) -> Any:
    """Square loss and a slope for one reward: for its mean another prediction is
    best."""
    return lambda g, r: (g - r) ** 2 + size * g * (r == reward)


def dented(g: Any, r: Any) -> Any:
    """Square loss, smaller at one prediction of the grid for a reward of 1/8."""
    return (g - r) ** 2 - 0.1 * (np.abs(g - 0.4) < 1e-9) * (r == 0.125)


BETWEEN = {
    "reward squared": (parse_loss("(g-r**2)**2"), 0.25, 0.875),
    "below the range": (shifted(0.125, -0.2), 0.25, 0.75),
    "above the range": (shifted(0.875, 0.2), 0.25, 0.75),
    "the lowest": (shifted(0.25, -0.2), 0.25, 0.75),
    "the highest": (shifted(0.75, 0.2), 0.25, 0.75),
    "inside": (dented, 0.25, 0.75),
}


@pytest.mark.parametrize("name", BETWEEN)
def test_the_worst_break_for_rewards_between(name: str) -> None:
    """Over all pairs of eighths, and 17 means between them; the first of several."""
    loss, low, high = BETWEEN[name]
    found = certify(loss, low, high, n=20)
    broken = check_broken(found)
    assert found.rewards == "unit"
    worst = (0.0, 0.0, 0.0, (0.0, 0.0))
    for pair in combinations_with_replacement(np.arange(9) / 8, 2):
        means = np.linspace(low, high, 17)
        means = means[(means >= pair[0]) & (means <= pair[1])]
        if pair[0] == pair[1]:
            means = np.array([pair[0]] if low <= pair[0] <= high else [])
        for f, g in product(means, np.linspace(low, high, 21)):
            mean, _ = moments(loss, f, g, pair)
            if mean < worst[0]:
                worst = (mean, f, g, pair)
    assert broken.condition == "C1"
    assert broken.mean == pytest.approx(worst[0])
    assert (broken.f, broken.g, broken.rewards) == worst[1:]


@pytest.mark.parametrize("reward", [0.125, 0.25, 0.5, 0.875])
def test_rewards_that_are_always_the_same(reward: float) -> None:
    broken = check_broken(certify(shifted(reward, 0.2), n=20))
    assert reward in broken.rewards


def test_next_to_the_diagonal() -> None:
    """An excess that no pair of the grid shows."""

    def loss(g: Any, r: Any) -> Any:
        return (g - r) ** 2 + 1e-4 * g

    found = certify(loss, 0.25, 0.75, n=20, rewards="binary")
    broken = check_broken(found, rel=1e-4)
    assert broken.condition == "C1"
    assert broken.f - broken.g == pytest.approx(5e-5, rel=1e-3)
    assert broken.mean == pytest.approx(-2.5e-9, rel=1e-3)
    middles = np.linspace(0.25, 0.75, 21)[:-1] + 0.0125
    assert np.abs(middles - broken.f).min() < 1e-9
    assert (found.low, found.high, found.n) == (0.25, 0.75, 20)
    assert found.scale == pytest.approx(0.5, rel=1e-3)
    assert found.rewards == "binary"
    steep = check_broken(certify(lambda g, r: (g - r) ** 2 + g, n=10))
    assert steep.f - steep.g <= 1


@pytest.mark.parametrize("name", OFF_CENTRE)
def test_the_best_prediction_beside_a_mean(name: str) -> None:
    case = OFF_CENTRE[name]
    loss = parse_loss(case.text)
    broken = conditions._off_centre(loss, case.edges, 1.0)
    assert broken is not None
    assert (broken.f, broken.g) == pytest.approx((case.f, case.g))
    first, second = moments(loss, broken.f, broken.g, (0.0, 1.0))
    assert (broken.mean, broken.square) == pytest.approx((first, second))


@pytest.mark.parametrize(
    ("first", "second", "condition"),
    [
        (-2e-11, 0.0, "C1"),
        (-5e-12, 0.0, ""),
        (0.0, 5e-6, "C4"),
        (0.0, 5e-7, ""),
        (conditions._TOLERANCE * 0.1, 5e-6, "C4"),
        (2e-11, 5e-6, ""),
    ],
)
def test_breaks_on_the_grid(first: float, second: float, condition: str) -> None:
    """1e-10 and 1e-4 of a scale of 0.1 and of its square are the limits."""
    grid = np.array([0.2, 0.7])
    firsts, seconds = np.ones((2, 2)), np.ones((2, 2))
    firsts[0, 1] = first
    seconds[0, 1] = second
    found = conditions._broken(grid, conditions._Moments(firsts, seconds), 0.1)
    expected = (condition, 0.2, 0.7, first, second, (0.0, 1.0))
    assert found == (expected if condition else None)


@pytest.mark.parametrize("at", [0.31, 0.5, 0.77])
@pytest.mark.parametrize("size", [1.0, 0.004])
def test_a_jump_breaks_c4(at: float, size: float) -> None:
    """A step of the right height for its place: C1 holds, E lhat vanishes there."""

    def loss(g: Any, r: Any) -> Any:
        step = size * (g > at) * (at - r)
        return (g - r) ** 2 + step

    found = certify(loss, n=20, rewards="binary")
    broken = check_broken(found, rel=1e-3)
    assert broken.condition == "C4"
    assert broken.f <= at < broken.g
    assert broken.g - broken.f == pytest.approx(0.05 / 2**30)
    assert found.scale == pytest.approx(1 + size * max(at, 1 - at), rel=0.5)


@pytest.mark.parametrize(
    ("places", "steep", "at"),
    [
        ([0.31], 0.0, 0.31),
        ([0.51, 0.54], 0.0, 0.51),
        ([0.31, 0.72, 0.74], 0.0, 0.72),
        ([0.0], 0.0, None),
        ([np.nextafter(1, 0)], 0.0, None),
        ([0.71], 0.35, 0.71),
        ([0.71], 0.4, None),
    ],
)
def test_which_jump_is_found(places: list[float], steep: float, at: Any) -> None:
    """The first of the larger ones in a cell, neither at 0 nor at 1, in one of the
    eight steepest cells."""

    def loss(g: Any, r: Any) -> Any:
        count = sum(np.asarray(g) > place for place in places)
        return (1 - 2 * r) * (count / 8 + 10 * np.minimum(g, steep))

    grid = np.linspace(0, 1, 21)
    broken = conditions._jump(loss, grid, loss(grid, 1.0), loss(grid, 0.0), 1.0)
    if at is None:
        assert broken is None
    else:
        assert broken is not None
        assert broken.condition == "C4"
        assert broken.f <= at < broken.g


def test_a_jump_of_the_grid_breaks_c4() -> None:
    def loss(g: Any, r: Any) -> Any:
        return 1.0 * ((g > 0.5) != (np.asarray(r) > 0.5))

    broken = check_broken(certify(loss, n=20, rewards="binary"))
    assert broken.condition == "C4"
    assert broken.square > 0.1


@pytest.mark.parametrize(("low", "high", "g"), [(0.0, 0.5, 0.0), (0.5, 1.0, 1.0)])
def test_losses_without_a_bound_break_c3(low: float, high: float, g: float) -> None:
    with np.errstate(divide="ignore"):
        found = certify(od.log_loss, low, high, n=20, rewards="binary")
    assert found.loss is od.log_loss
    assert found.rewards == "binary"
    broken = found.counterexample
    assert broken is not None
    middle = (low + high) / 2
    assert broken == ("C3", middle, g, np.inf, np.inf, (0.0, 1.0))
    assert found.scale == np.inf
    assert not found.holds


def test_what_breaks_for_certain_is_refuted() -> None:
    """Where a proof finds it and no grid does."""
    hole = parse_loss(
        "-(g**2/2 - 0.0015*(1e-6 + (g-0.31)**2)**0.5)"
        " - (g - 0.0015*(g-0.31)/(1e-6 + (g-0.31)**2)**0.5)*(r - g)"
    )
    found = certify(hole, n=20, rewards="binary")
    broken = check_broken(found, rel=1e-6)
    assert found.rewards == "binary"
    grid = np.linspace(0, 1, 21)
    assert found.scale == max(np.ptp(hole(grid, 0.0)), np.ptp(hole(grid, 1.0)))
    assert broken.condition == "C1"
    assert broken.mean < 0
    assert abs(broken.f - 0.31) < 0.002


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"low": 0.5, "high": 0.5}, "low must be below high"),
        ({"n": 9}, "n must be a whole number"),
        ({"rewards": "some"}, "rewards must be 'unit' or 'binary'; got 'some'"),
    ],
)
def test_wrong_options(options: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        certify(od.square_loss, **options)
    assert certify(od.square_loss, n=10).n == 10
    assert certify(od.square_loss).n == 400
