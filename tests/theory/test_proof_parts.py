"""The parts of a proof: each bound holds, and is hardly looser than what is true."""

from fractions import Fraction
from typing import Any, cast

import numpy as np
import pytest

import oddsmith as od
from oddsmith.theory import proofs
from oddsmith.theory.expressions import FormulaLoss, parse_loss, trace_loss
from oddsmith.theory.intervals import Interval
from oddsmith.theory.proofs import Attempt, Proof, Weight, prove, upper_kappa2
from theory.witnesses import OFF_CENTRE, plain_kappa2

SAVAGE = "exp(g)*(g - 1 - r)"  # weight e^g
QUADRATIC = "g**2/2 + g**4/4 - r*(g + g**3/3)"  # weight 1 + g²
ROOT = "1 - (r*g + (1-r)*(1-g))/sqrt(g**2 + (1-g)**2)"
EDGES = np.linspace(0.0, 1.0, 17)


def attempt(text: str, edges: Any = EDGES) -> Attempt:
    return prove(trace_loss(parse_loss(text)), edges)


def proof_of(text: str, edges: Any = EDGES) -> Proof:
    found = attempt(text, edges).proof
    assert found is not None
    return found


def ratio(loss: FormulaLoss, f: Any, g: Any, eta: float) -> Any:
    """(1 - E exp(-eta lhat))/(f-g)²."""
    one = np.expm1(-eta * (loss(g, 1.0) - loss(f, 1.0)))
    zero = np.expm1(-eta * (loss(g, 0.0) - loss(f, 0.0)))
    return -(f * one + (1 - f) * zero) / (f - g) ** 2


def boxes_of(f: Any, g: Any, size: float = 0.0) -> Any:
    """The boxes of means and predictions around points."""
    return np.array([f - size, f + size, g - size, g + size])


def least_in(loss: FormulaLoss, f: Any, g: Any, eta: float, size: float) -> Any:
    """The least ratio at the corners of boxes."""
    moves = [(a, b) for a in (-size, size) for b in (-size, size)]
    return np.min([ratio(loss, f + a, g + b, eta) for a, b in moves], axis=0)


F = np.array([0.15, 0.6, 0.8, 0.05, 0.35])


@pytest.mark.parametrize("text", [SAVAGE, QUADRATIC, ROOT])
@pytest.mark.parametrize("eta", [0.4, 1.5])
def test_taylors_formula_near_the_diagonal(text: str, eta: float) -> None:
    """The error is of second order in the distance; that of a wrong coefficient is of
    first."""
    proof: Any = proof_of(text)
    g = F + np.array([1e-3, 1e-3, -1e-3, 1e-3, -1e-3])
    exact = ratio(parse_loss(text), F, g, eta)
    assert proof._near_diagonal(boxes_of(F, g), eta, exact - 1e-4).all()
    assert not proof._near_diagonal(boxes_of(F, g), eta, exact + 1e-8).any()


@pytest.mark.parametrize("text", [SAVAGE, QUADRATIC, ROOT])
@pytest.mark.parametrize("size", [0.0, 0.01])
def test_what_is_proved_near_the_diagonal_is_true(text: str, size: float) -> None:
    """Also far from it, where the last term counts."""
    f, g = np.random.default_rng(0).uniform(0.02, 0.98, (2, 200))
    proof: Any = proof_of(text)
    for eta in (0.2, 0.6, 1.2):
        least = least_in(parse_loss(text), f, g, eta, size)
        boxes = boxes_of(f, g, size)
        assert not proof._near_diagonal(boxes, eta, least + 1e-9).any()
        close = np.abs(f - g) < 0.1
        assert proof._near_diagonal(boxes, eta, least / 2)[close].mean() > 0.3


@pytest.mark.parametrize("eta", [0.25, 0.7, 2.0])
@pytest.mark.parametrize("share", [-0.9, -0.4, 0.1, 0.5, 0.98])
def test_taylors_formula_in_exact_numbers(eta: float, share: float) -> None:
    """Three moments and a bound of the rest: with R = eta w |f-g|, the fourth term is
    at most eta² E lhat² R²/(24 (1 - R))."""
    proof = proof_of("3*(g-r)**2")  # weight 6
    d = share / (6 * eta)
    for f in np.array([0.05, 0.3, 0.5, 0.6, 0.95]):
        g = f + d
        if not 0 <= g <= 1:
            continue
        rate, mean, prediction = Fraction(eta), Fraction(f), Fraction(g)
        one = 3 * ((prediction - 1) ** 2 - (mean - 1) ** 2)
        zero = 3 * (prediction**2 - mean**2)
        m1, m2, m3 = (mean * one**k + (1 - mean) * zero**k for k in (1, 2, 3))
        reach = 6 * rate * abs(prediction - mean)
        rest = rate**2 * m2 * reach**2 / (1 - reach) / 24
        lower = rate * m1 - rate**2 * m2 / 2 + rate**3 * m3 / 6 - rest
        c = float(lower / (prediction - mean) ** 2)
        boxes = np.array([[f], [f], [g], [g]])
        assert proof._near_diagonal(boxes, eta, c - 1e-7).all()
        assert not proof._near_diagonal(boxes, eta, c + 1e-7).any()


def test_taylors_formula_needs_a_reach_below_1() -> None:
    """Rounding included: the product of three numbers has a margin of 1e-12."""
    proof = proof_of("(g-r)**2")
    for g, proved in ((1 - 2e-12, True), (1 - 5e-13, False), (1.0, False)):
        boxes = np.array([[0.0], [0.0], [g], [g]])
        found = proof._near_diagonal(boxes, 0.5, -1e20)
        assert found.tolist() == [proved]


@pytest.mark.parametrize("text", [SAVAGE, QUADRATIC, ROOT])
@pytest.mark.parametrize("eta", [0.4, 1.5])
def test_values_and_slopes_away_from_the_diagonal(text: str, eta: float) -> None:
    """In a point exact; in a box, what is lost is of second order in its size."""
    proof: Any = proof_of(text)
    loss = parse_loss(text)
    g = np.array([0.7, 0.3, 0.25, 0.6, 0.9])
    for size, below in ((0.0, 1e-9), (1e-3, 2e-3)):
        least = least_in(loss, F, g, eta, size)
        boxes = boxes_of(F, g, size)
        assert proof._away_from_diagonal(boxes, eta, least - below).all()
        assert not proof._away_from_diagonal(boxes, eta, least + 1e-9).any()


def test_the_terms_alone_prove_long_boxes() -> None:
    """Each of 1, f e^-l1, (1-f) e^-l0 and c (f-g)² by its worst value in the box."""
    proof = proof_of("(g-r)**2")
    (f_low, f_high), (g_low, g_high) = (0.02, 0.04), (0.5, 1.0)
    won = np.exp((f_low - 1) ** 2 - (g_high - 1) ** 2)
    lost = np.exp(f_high**2 - g_low**2)
    c = (1 - f_high * won - (1 - f_low) * lost) / (g_high - f_low) ** 2
    boxes = np.array([[f_low], [f_high], [g_low], [g_high]])
    assert c > 0
    assert proof._away_from_diagonal(boxes, 1.0, c - 1e-9)[0]
    assert not proof._away_from_diagonal(boxes, 1.0, c + 1e-9)[0]


def test_bounds_of_weights() -> None:
    """Exactly those of each cell, but for the width of its fourth part."""
    proof = proof_of(SAVAGE)
    assert proof.any_reward
    np.testing.assert_allclose(proof.weight.lo, np.exp(EDGES[:-1]), rtol=0.05)
    np.testing.assert_allclose(proof.weight.hi, np.exp(EDGES[1:]), rtol=0.05)
    assert (proof.weight.lo <= np.exp(EDGES[:-1])).all()
    assert (proof.weight.hi >= np.exp(EDGES[1:])).all()
    assert proof.w_min == proof.weight.lo.min()
    assert proof.w_max == proof.weight.hi.max()
    assert proof.scale() == pytest.approx(1)  # that of the loss for reward 0
    reverse = proof_of("exp(1-g)*(1 - g - (1-r) - 1)*1.0")  # the same, of 1 - g
    assert reverse.scale() == pytest.approx(1)
    assert proof_of("(g-r)**2").scale() == pytest.approx(1)
    assert proof_of("r*(1-g)**2 + (1-r)*g**2").w_max == pytest.approx(2, abs=1e-12)
    low = proof_of("(g-r)**2", np.linspace(0.25, 0.5, 5))
    assert low.scale() == pytest.approx(0.75**2 - 0.5**2)


def test_the_slope_of_a_weight() -> None:
    x = Interval(np.array([0.3]), np.array([0.3]))
    for text, weight, slope in (
        (SAVAGE, np.exp(0.3), np.exp(0.3)),
        (QUADRATIC, 1.09, 0.6),
        ("(g-r)**2", 2.0, 0.0),
    ):
        found = proof_of(text).form(x)
        np.testing.assert_allclose(
            [part.middle[0] for part in found], [weight, slope], atol=1e-12
        )
        np.testing.assert_allclose(found[0].lo, found[0].hi, atol=1e-12)


@pytest.mark.parametrize("text", ["(g-r)**2", SAVAGE, QUADRATIC, ROOT])
@pytest.mark.parametrize("cells", [7, 16])
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (0.55, 0.95)])
def test_kappa2_by_hand(text: str, cells: int, low: float, high: float) -> None:
    loss = parse_loss(text)
    edges = np.linspace(low, high, cells + 1)
    proof = proof_of(text, edges)
    first = np.zeros((cells + 1, cells + 1))
    area = first.copy()
    for i, f in enumerate(edges):
        for j, g in enumerate(edges):
            one = loss(g, 1.0) - loss(f, 1.0)
            zero = loss(g, 0.0) - loss(f, 0.0)
            first[i, j] = f * one + (1 - f) * zero
            area[i, j] = abs(zero - one)
    expected = plain_kappa2(edges, first, first, area, proof.weight.hi)
    assert proof.kappa2() == pytest.approx(expected, rel=1e-9)
    assert proof.kappa2() >= expected


@pytest.mark.parametrize("seed", range(40))
def test_kappa2_of_random_tables(seed: int) -> None:
    """Also where M_1 and A are 0, or no loss has them."""
    rng = np.random.default_rng(seed)
    n = 1 + seed % 6
    edges = np.sort(rng.uniform(0, 1, n + 1))
    shape = (n + 1, n + 1)
    low = rng.uniform(0, 1, shape) * (rng.random(shape) < 0.7)
    high = low + rng.uniform(0, 1, shape)
    area = rng.uniform(0, 2, shape) * (rng.random(shape) < 0.7)
    top = 10 ** rng.uniform(-2, 1, n)
    found = upper_kappa2(edges, Interval(low, high), area, top)
    expected = plain_kappa2(edges, low, high, area, top)
    assert found == pytest.approx(expected, rel=1e-11)
    assert found >= expected


def test_the_largest_of_each_stretch() -> None:
    found = proofs._running_max(np.array([3.0, 1.0, 2.0]))
    assert [found[i, j] for i in range(3) for j in range(i, 3)] == [3, 3, 3, 1, 2, 2]


def test_the_simple_constant_by_hand() -> None:
    proof = proof_of(SAVAGE, np.linspace(0.25, 1.0, 17))
    for eta in (0.1, 0.5, 1.0):
        rate = eta * (1 - eta * proof.w_max / 4)
        m = proof.w_max * 0.75**2 / 2
        by_hand = proof.w_min / 2 * (1 - np.exp(-rate * m)) / m
        assert proof._simple_c(eta) == pytest.approx(by_hand, rel=1e-9)


def test_the_share_of_an_estimate_that_is_proved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """0.999 of it, or 0.98, or 0.8, or what Hoeffding's lemma gives."""
    tried = []
    limit = 0.0

    def holds(self: Proof, eta: float, c: float) -> bool:
        tried.append((eta, c))
        return c <= limit

    monkeypatch.setattr(Proof, "c_is_at_least", holds)
    proof = proof_of("(g-r)**2")
    for limit, share in ((0.5, 0.999), (0.49, 0.98), (0.4, 0.8)):  # noqa: B007
        tried.clear()
        assert proof.c(0.7, 0.5) == share * 0.5
        assert tried[-1] == (0.7, share * 0.5)
    limit = 0.3
    assert proof.c(0.7, 0.5) == proof._simple_c(0.7) > 0
    tried.clear()
    assert proof.c(0.7, 0.0) == proof._simple_c(0.7)
    assert not tried
    assert proof._simple_c(4.0) < 0
    assert proof.c(4.0, 0.5) == 0


def test_a_search_gives_up_after_so_many_boxes(monkeypatch: pytest.MonkeyPatch) -> None:
    proof = proof_of("(g-r)**2")
    looked: list[int] = []

    def holds(self: Proof, boxes: Any, eta: float, c: float) -> Any:
        looked.append(boxes.shape[1])
        return np.zeros(boxes.shape[1], dtype=bool)

    monkeypatch.setattr(Proof, "_holds_in", holds)
    monkeypatch.setattr(proofs, "_BLOCK", 1000)
    assert not proof.c_is_at_least(1.0, 0.1)
    # 1,024 boxes, then 4,096; 16,384 more are more than 12,000
    assert looked == [512, 512, 820, 819, 819, 819, 819]
    for limit, seen in ((1024 + 4096, 1024 + 4096), (1024 + 4095, 1024)):
        monkeypatch.setattr(proofs, "_BOXES", limit)
        looked.clear()
        assert not proof.c_is_at_least(1.0, 0.1)
        assert sum(looked) == seen


def test_a_search_covers_the_square(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not proved in a whole box is looked at in its quarters."""
    proof = proof_of(SAVAGE, np.linspace(0.1, 0.9, 9))
    area = 0.0
    ends: list[Any] = []

    def holds(self: Proof, boxes: Any, eta: float, c: float) -> Any:
        nonlocal area
        assert (eta, c) == (0.7, 0.2)
        f_low, f_high, g_low, g_high = boxes
        if not ends:
            ends.extend([np.unique(boxes[:2]), np.unique(boxes[2:])])
        done = np.arange(boxes.shape[1]) % 5 != 0
        if boxes.shape[1] < 100:
            done[:] = True
        area += float(((f_high - f_low) * (g_high - g_low))[done].sum())
        return done

    monkeypatch.setattr(Proof, "_holds_in", holds)
    assert proof.c_is_at_least(0.7, 0.2)
    assert area == pytest.approx(0.64)
    np.testing.assert_allclose(ends, [np.linspace(0.1, 0.9, 33)] * 2)


def test_functions_are_computed_once_for_each_interval() -> None:
    computed = []

    def squares(x: Interval) -> tuple[Interval, ...]:
        computed.append(len(x.lo))
        return x.power(2), Interval.of(3)

    x = Interval(np.array([1.0, 2.0, 1.0, 1.0]), np.array([2.0, 3.0, 2.0, 3.0]))
    found, constant = proofs._once(squares, x)
    assert computed == [3]
    np.testing.assert_allclose(found.lo, [1, 4, 1, 1])
    np.testing.assert_allclose(found.hi, [4, 9, 4, 9])
    np.testing.assert_array_equal(constant.lo, [3] * 4)


def test_boxes_are_quartered() -> None:
    quarters = proofs._quarters(np.array([[0.0], [1.0], [2.0], [6.0]]))
    assert sorted(quarters.T.tolist()) == [
        [0.0, 0.5, 2.0, 4.0],
        [0.0, 0.5, 4.0, 6.0],
        [0.5, 1.0, 2.0, 4.0],
        [0.5, 1.0, 4.0, 6.0],
    ]


REASONS = {
    "the loss is not a formula that can be traced": None,
    "the formula is too large for exact algebra": "((g + exp(g) + log(g))**20 - r)**2",
    "algebra does not show that the best prediction is the mean": "(g-r)**4",
    "the weight is negative somewhere": "-(g-r)**2",
    "the weight may vanish near 0": "g**2*(1/2 - r/g)*0 + g**3/3 - r*g**2/2",
}


@pytest.mark.parametrize("reason", REASONS)
def test_why_there_is_no_proof(reason: str) -> None:
    text = REASONS[reason]
    formula = None if text is None else trace_loss(parse_loss(text))
    found = prove(formula, EDGES)
    assert found.proof is None
    assert found.reason.startswith(reason)


class Form:
    """A weight that is [1, 2] but in the cell around a place."""

    formula = None

    def __init__(self, at: float, low: float, high: float) -> None:
        self.at = at
        self.there = (low, high)
        self.looked: list[Interval] = []

    def __call__(self, x: Interval) -> tuple[Interval, None]:
        assert len(x.lo) < 1000  # a search without an end doubles them
        self.looked.append(x)
        here = np.isnan(self.at) | ((x.lo <= self.at) & (self.at < x.hi))
        low, high = (np.where(here, end, 1.0) for end in self.there)
        return Interval(low, np.where(here, high, 2.0)), None

    def attempt(self) -> Attempt:
        edges = np.array([0.25, 0.5, 0.75])
        return proofs._with_weight(cast(Weight, self), edges, True)


@pytest.mark.parametrize(
    ("low", "high", "reason", "broken"),
    [
        (-2.0, -1.0, "the weight is negative somewhere", (0.5625, 0.625)),
        (-2.0, 0.0, "the weight may vanish near 0.6", None),
        (0.0, 1.0, "the weight may vanish near 0.6", None),
        (1.0, np.inf, "the weight may vanish near 0.6", None),
        (1e-9, 3.0, "", None),
    ],
)
def test_the_sign_of_a_weight(
    low: float, high: float, reason: str, broken: Any
) -> None:
    """Four parts of each cell, and halves of those whose sign is not known."""
    found = Form(0.6, low, high).attempt()
    assert (found.reason, found.broken) == (reason, broken)
    assert (found.proof is None) == bool(reason)
    if found.proof is not None:
        assert (found.proof.w_min, found.proof.w_max) == (low, high)


def test_parts_are_halved_until_they_are_thin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "_THINNEST", 2.0**-10)  # of a range of 1/2
    form = Form(0.3, -1.0, 1.0)
    assert form.attempt().reason.startswith("the weight may vanish near 0.29")
    widths = [(x.hi - x.lo).tolist() for x in form.looked]
    expected = [[2.0**-k] * 2 for k in range(5, 13)]
    assert widths == [[2.0**-4] * 8, *expected]


@pytest.mark.parametrize(("limit", "sizes"), [(24, [8, 16, 32]), (23, [8, 16])])
def test_a_search_gives_up_after_so_many_parts(
    limit: int, sizes: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proofs, "_CELLS", limit)
    form = Form(np.nan, -1.0, 1.0)
    assert form.attempt().proof is None
    assert [len(x.lo) for x in form.looked] == sizes


@pytest.mark.parametrize("name", OFF_CENTRE)
def test_where_the_best_prediction_is_not_the_mean(name: str) -> None:
    """The largest excess that is certain."""
    case = OFF_CENTRE[name]
    found = attempt(case.text, case.edges)
    assert found.proof is None
    assert found.broken == pytest.approx((case.f, case.g))


def test_a_mean_that_is_not_best_by_too_little_or_by_much() -> None:
    """An excess too small to be certain; one without a weight, as steep as floats
    are."""
    assert attempt("(g-r)**2 + 1e-30*g").broken is None
    steep = attempt("1e9*g**2", OFF_CENTRE["a quarter lower"].edges)
    assert steep.broken == pytest.approx((23 / 32, 19 / 32))


@pytest.mark.parametrize(("at", "sign"), [(0.21, -1.5), (0.77, -1.5)])
def test_where_the_weight_is_negative(at: float, sign: float) -> None:
    """w = 1 - 1.5 exp(-(1000 (g - at))²) has no formula; a rational dip has one."""
    width = 1e-3
    root = f"({width}**2 + (g - {at})**2)**0.5"
    phi = f"(g**2/2 + {sign * width}*{root})"
    slope = f"(g + {sign * width}*(g - {at})/{root})"
    found = attempt(f"-{phi} - {slope}*(r - g)")
    assert found.proof is None
    assert found.broken is not None
    low, high = found.broken
    assert low < high
    assert at - 2 * width < low < high < at + 2 * width


def test_rewards_between_0_and_1() -> None:
    assert proof_of("(g-r)**2").any_reward
    assert not proof_of("(g-r**2)**2").any_reward
    by_cases = prove(
        trace_loss(lambda g, r: (g - 1) ** 2 if np.all(r == 1) else g**2), EDGES
    )
    assert by_cases.proof is not None
    assert not by_cases.proof.any_reward


def test_kappa2_of_cells_that_touch_is_bounded_by_the_weight() -> None:
    """E lhat may be 0 there."""
    edges = np.array([0.0, 0.4, 0.8])
    first = Interval(np.zeros((3, 3)), np.zeros((3, 3)))
    top = np.array([2.0, 3.0])
    assert upper_kappa2(edges, first, np.ones((3, 3)), top) == pytest.approx(1.5)
    assert od.theory.certify(od.square_loss, n=16).kappa2_upper < 1.5
