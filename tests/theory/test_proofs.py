"""Proofs about losses: forty losses of which none is certified wrongly, and the
arithmetic and algebra that the proofs stand on."""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pytest

import oddsmith as od
from oddsmith.theory import certify
from oddsmith.theory.expressions import Formula, parse_loss, trace_loss
from oddsmith.theory.proofs import prove


class Case(NamedTuple):
    """A loss, the range of predictions, whether C1 holds for all rewards in [0, 1], and
    for 0 and 1 alone."""

    loss: str | Callable[..., Any]
    low: float
    high: float
    unit: bool
    binary: bool

    def certificate(self, **options: Any) -> od.theory.Certificate:
        loss = parse_loss(self.loss) if isinstance(self.loss, str) else self.loss
        return certify(loss, self.low, self.high, **options)


def bump(width: float, at: float, factor: float) -> str:
    """A loss of Savage's form with w(u) = 1 + factor (1 + x²)^(-3/2), x = (u - at) /
    width: below -1 the weight is negative in about `width`."""
    root = f"({width!r}**2 + (g - {at!r})**2)**0.5"
    phi = f"(g**2/2 + {factor!r}*{width!r}*{root})"
    slope = f"(g + {factor!r}*{width!r}*(g - {at!r})/{root})"
    return f"-{phi} - {slope}*(r - g)"


def spherical(g: Any, r: Any) -> Any:
    return 1 - (r * g + (1 - r) * (1 - g)) / np.sqrt(g**2 + (1 - g) ** 2)


def cases(g: Any, r: Any) -> Any:
    """Square loss, told apart by comparisons: true, and no formula."""
    return np.where(np.asarray(r) == 1, (g - 1) ** 2, (g - r) ** 2)


def spike(g: Any, r: Any) -> Any:
    """Square loss, a little smaller for predictions in an interval between two points
    of every grid."""
    return (g - r) ** 2 - 0.2 * (np.abs(g - 0.501234567) < 1e-9)


def absolute(g: Any, r: Any) -> Any:
    return np.abs(g - r)


def threshold(g: Any, r: Any) -> Any:
    return ((g > 0.5) != (np.asarray(r) > 0.5)).astype(float)


def huber(g: Any, r: Any) -> Any:
    gap = np.abs(g - r)
    return np.where(gap <= 0.5, 0.5 * gap**2, 0.5 * (gap - 0.25))


LOG = "-r*log(g) - (1-r)*log(1-g)"
TRUE = {
    "square": Case("(g-r)**2", 0, 1, True, True),
    "square, in sevenths": Case("3*(g-r)**2/7", 0, 1, True, True),
    "square, 0.3": Case("0.3*(g-r)**2", 0, 1, True, True),
    "square, expanded": Case("g**2 - 2*g*r", 0, 1, True, True),
    "square and a term of the reward": Case("(g-r)**2 + r**3", 0, 1, True, True),
    "square_loss": Case(od.square_loss, 0, 1, True, True),
    "square_loss / 4": Case(od.losses.scaled(od.square_loss, 4.0), 0, 1, True, True),
    "log": Case(LOG, 0.05, 0.95, True, True),
    "log_loss": Case(od.log_loss, 0.01, 0.99, True, True),
    "spherical": Case(spherical, 0, 1, True, True),
    "Poisson": Case(lambda g, r: g - r * np.log(g), 0.05, 1, True, True),
    "Itakura-Saito": Case("log(g) + r/g", 0.1, 1, True, True),
    "w = 2 + 6u": Case(
        "r*((1-g)**2 + 1 - 3*g**2 + 2*g**3) + (1-r)*(g**2 + 2*g**3)", 0, 1, True, True
    ),
    "w = 1 + u²": Case("g**2/2 + g**4/4 - r*(g + g**3/3)", 0, 1, True, True),
    "w = e^u": Case("exp(g)*(g - 1 - r)", 0, 1, True, True),
    "w = u^(-1/2)": Case("2/3*g**1.5 - 2*r*g**0.5", 0.05, 1, True, True),
    "a thin bump": Case(bump(1e-6, 0.3, 5.0), 0, 1, True, True),
    "a thin dip": Case(bump(1e-5, 0.5, -0.9), 0, 1, True, True),
    "a dip beside the grid": Case(bump(1e-3, 0.50125, -0.5), 0, 1, True, True),
    "square by cases": Case(cases, 0, 1, True, True),
    "(g - r²)²": Case("(g-r**2)**2", 0, 1, False, True),
    "(g - r³)²": Case("(g-r**3)**2", 0, 1, False, True),
    "square times 1 + r(1-r)": Case("(g-r)**2*(1 + r*(1-r))", 0, 1, False, True),
    "square and g r(1-r)": Case("(g-r)**2 + 0.001*g*r*(1-r)", 0, 1, False, True),
}
FALSE = {
    "absolute": Case(absolute, 0, 1, False, False),
    "0-1": Case(threshold, 0, 1, False, False),
    "Huber": Case(huber, 0, 1, False, False),
    "quartic": Case("(g-r)**4", 0, 1, False, False),
    "square, heavier at 1": Case("(g-r)**2*(1 + 0.002*r)", 0, 1, False, False),
    "square, off by 1e-9": Case("(g-r)**2 + 1e-9*g", 0, 1, False, False),
    "square, off by 1e-14": Case("(g-r)**2 + 1e-14*g", 0, 1, False, False),
    "log, off by 1e-6": Case(LOG + " + 0.000001*g**2", 0.05, 0.95, False, False),
    "spike": Case(spike, 0, 1, False, False),
    "a hole of 1e-3": Case(bump(1e-3, 0.3, -1.5), 0, 1, False, False),
    "a hole of 1e-5": Case(bump(1e-5, 0.7123, -1.5), 0, 1, False, False),
    "a hole of 1e-7": Case(bump(1e-7, 0.50125, -1.5), 0, 1, False, False),
    "a hole of 1e-9": Case(bump(1e-9, 1 / 3, -2.0), 0, 1, False, False),
    "a hole near the end": Case(bump(1e-6, 0.999999, -3.0), 0, 1, False, False),
    "a weight below 0": Case("g**2/2 - g**3/2 - r*(g - 3*g**2/4)", 0, 1, False, False),
    "the wrong way": Case("-(g-r)**2", 0, 1, False, False),
}


def test_none_of_forty_losses_is_certified_wrongly() -> None:
    everything = TRUE | FALSE
    assert len(everything) == 40
    assert len(FALSE) > 40 / 3
    print()
    for name, case in everything.items():
        found = case.certificate(n=64)
        print(f"{name:32} rewards in [0, 1]: {_word(case.unit, found)}")
        assert not found.holds or case.unit
        assert found.counterexample is None or not case.unit
    formulas = [name for name in TRUE if TRUE[name].unit and name != "square by cases"]
    assert all(TRUE[name].certificate(n=64).holds for name in formulas[::4])


@pytest.mark.parametrize("name", [name for name in TRUE if not TRUE[name].unit])
def test_losses_that_are_right_for_rewards_0_and_1_alone(name: str) -> None:
    case = TRUE[name]
    assert not case.certificate(n=64).holds
    assert case.certificate(n=64, rewards="binary").holds


def test_a_loss_by_cases_is_proved_for_0_and_1_and_says_why_not_for_others() -> None:
    case = TRUE["square by cases"]
    assert case.certificate(n=64, rewards="binary").holds
    found = case.certificate(n=64)
    assert found.reason == "it is proved only for rewards 0 and 1 (binary)"
    assert found.counterexample is None


def test_a_counterexample_names_the_rewards() -> None:
    broken = certify(parse_loss("(g-r**2)**2")).counterexample
    assert broken is not None
    low, high = broken.rewards
    share = 0.0 if low == high else (broken.f - low) / (high - low)
    loss = parse_loss("(g-r**2)**2")
    excess = [float(loss(broken.g, r) - loss(broken.f, r)) for r in (low, high)]
    assert (1 - share) * excess[0] + share * excess[1] == pytest.approx(broken.mean)
    assert broken.mean == pytest.approx(-0.0625)


@pytest.mark.parametrize("name", ["square", "spherical", "a thin bump", "w = 2 + 6u"])
def test_constants_hold_at_random_means_and_predictions(name: str) -> None:
    case = TRUE[name]
    proof = case.certificate(n=64).proof
    assert proof is not None
    loss = parse_loss(case.loss) if isinstance(case.loss, str) else case.loss
    f, g = np.random.default_rng(1).uniform(case.low, case.high, (2, 5000))
    d1 = loss(g, 1.0) - loss(f, 1.0)
    d0 = loss(g, 0.0) - loss(f, 0.0)
    first = f * d1 + (1 - f) * d0
    second = f * d1**2 + (1 - f) * d0**2
    assert (second <= proof.kappa2() * first + 1e-12).all()
    assert (first >= proof.w_min * (f - g) ** 2 / 2 - 1e-12).all()
    assert max(abs(d1).max(), abs(d0).max()) <= proof.scale()
    eta = 0.5 / proof.w_max
    c = proof._simple_c(eta)
    rho = f * np.exp(-eta * d1) + (1 - f) * np.exp(-eta * d0)
    assert c > 0
    assert (1 - rho >= c * (f - g) ** 2 - 1e-12).all()


SQUARE = Formula.of(trace_loss(od.square_loss).whole)  # type: ignore[union-attr,arg-type]


def test_c_of_square_loss_at_eta_1_is_at_least_0_46() -> None:
    """The proof of docs/math 4.2: 0.46 is what bounds use, 0.463177 what is true."""
    proof = prove(SQUARE, np.linspace(0, 1, 65)).proof
    assert proof is not None
    assert proof.any_reward
    assert proof.c_is_at_least(1.0, 0.46)
    assert proof.c_is_at_least(1.0, 0.463177)
    assert od.theory.tight_coefficient("square") == (1.0, 0.46)


@pytest.mark.parametrize("c", [0.46318, 0.47])
def test_a_c_that_is_too_large_is_not_proved(c: float) -> None:
    """The true infimum is 0.46317703, near f = 0.353, g = 0."""
    proof = prove(SQUARE, np.linspace(0, 1, 65)).proof
    assert proof is not None
    assert not proof.c_is_at_least(1.0, c)


def test_other_losses_have_a_proved_c_too() -> None:
    proof = TRUE["spherical"].certificate(n=64).proof
    assert proof is not None
    found = certify(spherical, n=64)
    assert found.c(1.0) >= 0.99 * found.estimate(1.0) > 0.3


def test_cells_cover_the_range() -> None:
    """Thin structure anywhere is found: a hole between any two edges of the cells."""
    edges = np.linspace(0, 1, 5)
    for a, b in pairwise(edges):
        at = float(a + 0.37 * (b - a))
        attempt = prove(trace_loss(parse_loss(bump(1e-6, at, -1.5))), edges)
        assert attempt.proof is None
        assert attempt.broken is not None
        assert attempt.broken[0] == pytest.approx(at, abs=1e-5)


def _word(truth: bool, found: od.theory.Certificate) -> str:
    broken = "" if found.counterexample is None else found.counterexample.condition
    verdict = (
        "proved" if found.holds else f"breaks {broken}" if broken else "not proved"
    )
    return f"{'true' if truth else 'false'}, {verdict}"
