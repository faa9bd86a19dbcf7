"""Every part of a bound from its formula, one number each: terms, eta, gamma, when it
applies, and what is refused."""

from functools import partial
from math import e, exp, log, sqrt
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.theory import bounds as of
from oddsmith.theory.constants import Coefficient, kappa2

TRUE = (
    "applies when one expert is the truth (its predictions are the mean rewards), "
    "contexts may be chosen by "
)
TRUE += "an adversary"
RATE = Coefficient(0.7, 0.4)


class Known(theory.Certificate):
    """A certificate of square loss whose best rate is known, so that nobody has to
    search for it."""

    def best(self) -> Coefficient:
        return Coefficient(1.0, 0.46)


CERTIFIED = Known(od.square_loss, 0.0, 1.0, None, 4 / 3, 4 / 3, 2.0, 2.0, 1.0)


def test_a_bound_is_the_sum_of_its_terms_at_most_t() -> None:
    small = of.capped(
        {"a": 2.0, "b": 3.0}, 100, eta=0.5, gamma=0.25, applies="pigs fly"
    )
    assert small == (5.0, 0.5, 0.25, {"a": 2.0, "b": 3.0}, "applies when pigs fly")
    assert of.capped({"a": 200.0}, 100, eta=None, gamma=None, applies="").bound == 100


def test_the_total_loss_of_lemma_1() -> None:
    found = theory.total_loss_bound(4.0, 0.25)
    assert found.bound == pytest.approx(16 * (e - 2) * log(4))
    assert found.eta == pytest.approx(1 / (8 * (e - 2)))
    assert found.gamma is None
    assert found.terms == {"total shifted loss": found.bound}
    said = (
        "applies when C3 and C4 hold with this kappa_2 and eta = 0.174026, for any T, "
        "in expectation"
    )
    assert found.applies == said
    with pytest.raises(od.InvalidInput, match=r"^kappa2 must be in \(0, inf\); got 0$"):
        theory.total_loss_bound(0, 0.25)
    assert theory.total_loss_bound(0.5, 0.25).bound == pytest.approx(
        log(4) / (1 - (e - 2) / 2)
    )


def test_theorem_1() -> None:
    found = theory.theorem1(3.0, 4.0, steps=10_000, gamma=0.25)
    assert found.terms == {"learning": 450.0, "exploration": 2500.0}
    assert (found.bound, found.eta, found.gamma) == (2950.0, None, 0.25)
    assert found.applies == "applies when C1 holds, and C2 with this kappa_1"
    assert theory.theorem1(0, 0, steps=1, gamma=0).bound == 0
    assert theory.theorem1(0, 0.5, steps=1, gamma=1).bound == 1
    fine: dict[str, Any] = {"kappa1": 1.0, "total_loss": 1.0, "steps": 10, "gamma": 0.5}
    spans = {
        "kappa1": r"\[0, inf\)",
        "total_loss": r"\[0, inf\)",
        "steps": r"\[1, inf\)",
        "gamma": r"\[0, 1\]",
    }
    for name, span in spans.items():
        for value in (-0.5, 1.5) if name == "gamma" else (-0.5, np.inf):
            with pytest.raises(
                od.InvalidInput, match=rf"^{name} must be in {span}; got {value}$"
            ):
                theory.theorem1(**fine | {name: value})
    with pytest.raises(
        od.InvalidInput, match=r"^steps must be in \[1, inf\); got 0.5$"
    ):
        theory.theorem1(**fine | {"steps": 0.5})


def test_the_terms_of_a_mixture() -> None:
    assert of.mixed_terms(10.0, 100.0, 0.25) == (
        0.25,
        {"learning": 15.0, "exploration": 25.0},
    )
    assert of.mixed_terms(0.5, 100.0, 0.25)[1]["learning"] == 0.75
    assert of.mixed_terms(0.0, 100.0, 0.25) == (
        0.25,
        {"learning": 0.0, "exploration": 25.0},
    )
    assert of.mixed_terms(0.0, 100.0, None) == (
        0.0,
        {"learning": 0.0, "exploration": 0.0},
    )
    assert of.mixed_terms(10.0, 100.0, 1) == (
        1.0,
        {"learning": 0.0, "exploration": 100.0},
    )
    for gamma in (0, 1.5):
        with pytest.raises(
            od.InvalidInput, match=rf"^gamma must be in \(0, 1\]; got {gamma}$"
        ):
            of.mixed_terms(10.0, 100.0, gamma)


def test_corollary_1_of_square_and_of_log_loss() -> None:
    """kappa_1² = 2K/γ and kappa_2 = 4; kappa_1² = 2K² beta/γ, kappa_2(beta)
    and |lhat| <= 1/2 after division."""
    k, t, prior, gamma = 3, 1e9, 0.1, 0.25
    problem: Any = {
        "n_arms": k,
        "steps": t,
        "prior": prior,
        "gamma": gamma,
        "constants": "paper",
    }
    square = theory.regret_bound("square", **problem)
    root = sqrt(t * log(10) * 16 * (e - 2))
    assert square.terms["learning"] == pytest.approx(sqrt(2 * k / gamma) * 0.75 * root)
    assert square.terms["exploration"] == pytest.approx(gamma * t)
    assert square.eta == pytest.approx(1 / (8 * (e - 2)))
    assert (square.gamma, square.applies) == (gamma, TRUE)
    assert theory.regret_bound(od.square_loss, **problem) == square
    for beta in (0.5, 2.0, 1000.0):
        found = theory.regret_bound("log", beta=beta, **problem)
        eta = 1 / (2 * (e - 2) * kappa2("log", beta=beta))
        assert found.eta == pytest.approx(eta / beta)
        assert found.terms["learning"] == pytest.approx(
            k * sqrt(2 * beta / gamma) * 0.75 * sqrt(t * log(10) * 2 / eta)
        )
        assert (
            found.applies
            == f"{TRUE}, and log ratios between experts are at most {beta / 2:g}"
        )
    cut = of.corollary1(1.0, 0.1, log_prior=2.0, steps=1e6, gamma=0.25)
    assert cut.eta == 1
    assert cut.terms["learning"] == pytest.approx(
        0.75 * sqrt(4 * 2e6 / (1 - (e - 2) / 10))
    )


def test_the_refined_bound_at_a_gamma_and_at_the_best() -> None:
    """(1-γ) sqrt(K/γ + K(K-1)/(K-γ)) sqrt(T L/c) + γ T (K-1)/K."""
    problem: Any = {"n_arms": 4, "steps": 1e6, "log_prior": 3.0}

    def total(gamma: float) -> tuple[float, float]:
        return (1 - gamma) * sqrt(4 / gamma + 12 / (4 - gamma)) * sqrt(
            3e6 / 0.4
        ), gamma * 750_000

    at = of.refined_bound(RATE, gamma=0.2, **problem)
    assert tuple(at.terms.values()) == pytest.approx(total(0.2))
    assert (at.eta, at.gamma, at.applies, list(at.terms)) == (
        0.7,
        0.2,
        TRUE,
        ["learning", "exploration"],
    )
    best = of.refined_bound(RATE, **problem)
    assert best.gamma is not None
    assert 0 < best.gamma < 1
    assert best.bound <= min(sum(total(g)) for g in np.linspace(0.001, 0.999, 4000))
    for nearby in (0.999, 1.001):
        assert sum(total(best.gamma * nearby)) > best.bound * (1 + 1e-9)
    slope = (sum(total(best.gamma + 1e-6)) - sum(total(best.gamma - 1e-6))) / 2e-6
    assert abs(slope) < 1e-3 * 750_000
    all_in = of.refined_bound(RATE, gamma=1, **problem)
    assert all_in.terms == {"learning": 0.0, "exploration": 750_000.0}
    for gamma in (0, 1.5):
        with pytest.raises(
            od.InvalidInput, match=rf"^gamma must be in \(0, 1\]; got {gamma}$"
        ):
            of.refined_bound(RATE, gamma=gamma, **problem)


@pytest.mark.parametrize("n_arms", [2, 3, 50])
@pytest.mark.parametrize(
    ("learning", "exploration"),
    [(1e-18, 1e6), (1e-6, 100), (1, 1e6), (1, 100), (5, 100), (49.75, 100)],
)
def test_the_best_gamma_is_where_a_search_finds_it(
    n_arms: int, learning: float, exploration: float
) -> None:
    from scipy.optimize import minimize_scalar

    def cost(x: float) -> float:
        g = exp(x)
        return (
            learning * (1 - g) * sqrt(n_arms / g + n_arms * (n_arms - 1) / (n_arms - g))
            + exploration * g
        )

    found = of._refined_gamma(n_arms, learning, exploration)
    searched = minimize_scalar(
        cost, bounds=(-45, 0), method="bounded", options={"xatol": 1e-10}
    )
    assert log(found) == pytest.approx(searched.x, abs=1e-4)
    assert cost(log(found)) <= searched.fun * (1 + 1e-12)


def test_where_there_is_nothing_to_learn_or_nothing_to_lose() -> None:
    assert of._refined_gamma(3, 0.0, 10.0) == 0
    assert of._refined_gamma(1, 5.0, 0.0) == 1
    assert of._refined_gamma(3, 1e6, 10.0) == 1
    one_arm = of.refined_bound(RATE, n_arms=1, steps=100, log_prior=3.0)
    assert (one_arm.bound, one_arm.gamma) == (0, 1)
    sure = of.refined_bound(RATE, n_arms=3, steps=100, log_prior=0.0)
    assert (sure.bound, sure.gamma, sure.terms) == (
        0,
        0,
        {"learning": 0.0, "exploration": 0.0},
    )


def test_the_bound_without_exploration() -> None:
    found = of.gamma_zero_bound(RATE, n_arms=4, steps=1e6, prior=0.25)
    assert found.terms["on policy"] == pytest.approx(sqrt(1e6 / 0.4 * 3 * log(4)))
    assert found.terms["off policy"] == pytest.approx(sqrt(1e6 / 0.4 * 3))
    assert (found.eta, found.gamma) == (0.7, 0.0)
    assert found.applies == TRUE + ", and eta is below its critical value"
    whole = theory.regret_bound("log", n_arms=4, steps=1e6, prior=0.25, gamma=0)
    assert (
        whole.terms
        == of.gamma_zero_bound(
            Coefficient(0.5, 0.5), n_arms=4, steps=1e6, prior=0.25
        ).terms
    )


def test_the_anytime_bound() -> None:
    """a³ = K³ L / (12 c (K-1)²); sqrt(K/a (3/4 T^{4/3} + T^{1/3}) L/c) + 3/2 a T^{2/3}
    (K-1)/K."""
    found = theory.anytime_bound("log", n_arms=4, steps=1e6, prior=exp(-3.0))
    a = (64 * 3 / (12 * 0.5 * 9)) ** (1 / 3)
    assert found.gamma == pytest.approx(a)
    assert found.terms["learning"] == pytest.approx(
        sqrt(4 / a * (0.75e8 + 100) * 3 / 0.5)
    )
    assert found.terms["exploration"] == pytest.approx(1.5 * a * 1e4 * 0.75)
    assert found.eta == 0.5
    assert found.applies == TRUE + ", with gamma_t = min(1, a t^(-1/3)), a = gamma here"
    few = theory.anytime_bound("log", n_arms=4, steps=2, prior=exp(-3.0))
    assert few.terms["learning"] == pytest.approx(
        sqrt(4 / a * (0.75 * 2 ** (4 / 3) + 2 ** (1 / 3)) * 6)
    )
    for problem in ({"n_arms": 1, "prior": 0.1}, {"n_arms": 4, "prior": 1.0}):
        nothing = theory.anytime_bound("square", steps=100, **problem)  # type: ignore[arg-type]
        assert (nothing.bound, nothing.gamma, nothing.eta, nothing.terms) == (
            0,
            0,
            1.0,
            {"learning": 0.0},
        )
        assert nothing.applies == found.applies
    assert theory.anytime_bound("log", n_arms=2, steps=100, prior=0.1).gamma != 0


def test_the_bayes_bound_takes_the_root_before_the_mean() -> None:
    """sqrt(L) becomes Σ p* sqrt(ln 1/p); by Jensen sqrt(Σ p* ln 1/p), which is
    larger."""
    truth, used = [0.5, 0.5, 0.0], [0.8, 0.1, 0.1]
    surprise = [log(1 / 0.8), log(10)]
    problem: Any = {"n_arms": 4, "steps": 1e6, "gamma": 0.2}
    kappa = sqrt(4 / 0.2 + 12 / 3.8)
    sharp = theory.bayes_regret_bound(truth, used, loss="log", **problem)
    roots = (sqrt(surprise[0]) + sqrt(surprise[1])) / 2
    assert sharp.terms["learning"] == pytest.approx(
        0.8 * kappa * roots * sqrt(1e6 / 0.5)
    )
    assert sharp.terms["exploration"] == pytest.approx(0.2 * 750_000)
    loose = theory.bayes_regret_bound(truth, used, loss="log", jensen=True, **problem)
    assert loose.terms["learning"] == pytest.approx(
        0.8 * kappa * sqrt(sum(surprise) / 2) * sqrt(1e6 / 0.5)
    )
    assert loose.bound > sharp.bound + 700
    paper = theory.bayes_regret_bound(
        truth, used, loss="square", constants="paper", **problem
    )
    assert paper.terms["learning"] == pytest.approx(
        0.8 * sqrt(8 / 0.2) * roots * sqrt(1e6 * 16 * (e - 2))
    )
    also = ", and every expert that can be true satisfies it as truth"
    assert sharp.applies == paper.applies == TRUE + also
    wide = theory.bayes_regret_bound(
        truth, used, loss="log", constants="paper", beta=2.0, **problem
    )
    assert wide.applies == f"{TRUE}, and log ratios between experts are at most 1{also}"
    best = theory.bayes_regret_bound(truth, used, loss="log", n_arms=4, steps=1e6)
    assert best.bound < sharp.bound
    # 0 where 0 may be
    assert (
        theory.bayes_regret_bound([1, 0], [1, 0], loss="log", n_arms=2, steps=10).bound
        == 0
    )
    assert (
        theory.regret_bound("log", n_arms=4, steps=1e6, prior=0.5, gamma=0.2).gamma
        == 0.2
    )
    with pytest.raises(od.InvalidInput, match=r"; got 0 at expert 1$"):
        theory.bayes_regret_bound(
            [0.0, 0.5, 0.5], [0.0, 0.0, 1.0], loss="log", n_arms=2, steps=10
        )
    with pytest.raises(
        od.InvalidInput,
        match=r"^prior must be positive where true_prior is, .*; got 0 at expert 1$",
    ):
        theory.bayes_regret_bound(
            [0.5, 0.5, 0.0], [0.5, 0.0, 0.5], loss="log", n_arms=2, steps=10
        )
    with pytest.raises(
        od.InvalidInput, match=r"^true_prior must sum to 1; got 0.9 over 2 experts$"
    ):
        theory.bayes_regret_bound(
            [0.5, 0.4], [0.5, 0.5], loss="log", n_arms=2, steps=10
        )
    with pytest.raises(
        od.InvalidInput,
        match=r"^prior must have one entry for each of the 2 experts; got 3$",
    ):
        theory.bayes_regret_bound(
            [0.5, 0.5], [0.5, 0.25, 0.25], loss="log", n_arms=2, steps=10
        )


@pytest.mark.parametrize("bound", ["regret", "refined", "gamma 0", "anytime", "bayes"])
def test_every_bound_checks_its_problem(bound: str) -> None:
    def ask(n_arms: Any, steps: Any) -> Any:
        problem = {"n_arms": n_arms, "steps": steps}
        if bound == "refined":
            return of.refined_bound(RATE, log_prior=1.0, **problem)
        if bound == "gamma 0":
            return of.gamma_zero_bound(RATE, prior=0.5, **problem)
        if bound == "bayes":
            return theory.bayes_regret_bound([1.0], [1.0], loss="log", **problem)
        asked: Any = theory.regret_bound if bound == "regret" else theory.anytime_bound
        return asked("log", prior=0.5, **problem)

    for n_arms in (0, -1, 2.5, True, "two"):
        with pytest.raises(
            od.InvalidInput,
            match=rf"^n_arms must be a whole number of at least 1; got {n_arms!r}$",
        ):
            ask(n_arms, 10)
    for steps in (0.5, np.inf):
        with pytest.raises(
            od.InvalidInput, match=rf"^steps must be in \[1, inf\); got {steps}$"
        ):
            ask(2, steps)
    assert ask(np.int64(2), 1).bound <= 1
    assert ask(1, 1).bound <= 1


def test_constants_are_tight_or_the_papers() -> None:
    problem: Any = {"n_arms": 2, "steps": 100}
    half: Any = {"prior": 0.5, "loss": "log"}
    both: Any = {"prior": [0.5, 0.5], "true_prior": [0.5, 0.5], "loss": "log"}
    for ask, known in ((theory.regret_bound, half), (theory.bayes_regret_bound, both)):
        bound: Any = partial(ask, **problem, **known)
        with pytest.raises(
            od.InvalidInput, match=r"^constants must be 'tight' or 'paper'; got 'best'$"
        ):
            bound(constants="best")
        with pytest.raises(
            od.InvalidInput,
            match=r"^beta must not be given with tight constants, .*; got 2.0$",
        ):
            bound(beta=2.0)
        with pytest.raises(od.InvalidInput, match=r"^beta must be given for log loss"):
            bound(constants="paper")
    own: Any
    for own in (
        lambda g, r: (g - r) ** 2,
        od.losses.scaled(od.square_loss, 2.0),
        CERTIFIED,
    ):
        with pytest.raises(
            od.InvalidInput,
            match=(
                r"^constants='paper' is for plain square and log loss; use constants="
            ),
        ):
            theory.regret_bound(own, prior=0.5, constants="paper", **problem)
    with pytest.raises(
        od.InvalidInput, match=r"^beta must not be given for square loss"
    ):
        theory.regret_bound("square", prior=0.5, constants="paper", beta=2.0, **problem)


def test_an_own_loss_says_how_its_constant_was_found() -> None:
    problem: Any = {"n_arms": 2, "steps": 1e6}
    caveat = theory.regret_bound(CERTIFIED, prior=0.5, **problem).applies.removeprefix(
        TRUE
    )
    assert "numerically" in caveat
    assert theory.regret_bound(
        CERTIFIED, prior=0.5, gamma=0, **problem
    ).applies.endswith(caveat)
    assert theory.anytime_bound(CERTIFIED, prior=0.5, **problem).applies.endswith(
        "here" + caveat
    )
    bayes = theory.bayes_regret_bound([0.5, 0.5], [0.5, 0.5], loss=CERTIFIED, **problem)
    assert caveat + ", and every expert" in bayes.applies
