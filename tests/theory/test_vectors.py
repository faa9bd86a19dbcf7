"""Constants and bounds against numbers computed with 50 digits (vectors.json)."""

from math import log
from typing import Any

import pytest

from oddsmith import theory
from oddsmith.theory.bounds import corollary1, refined_bound
from oddsmith.theory.constants import (
    Coefficient,
    best_gamma,
    c_square,
    kappa1_averaged,
    kappa2,
    lemma1,
    ratio_constant,
)
from paper.reference import VECTORS, floats, rational


def exactly(text: str, rel: float = 1e-12) -> Any:
    return pytest.approx(float(text), rel=rel)


@pytest.mark.parametrize(
    "case", VECTORS["kappa2_log"], ids=lambda c: f"beta {c['beta']}"
)
def test_kappa2_log(case: Any) -> None:
    beta = rational(case["beta"])
    assert kappa2("log", beta=beta) == exactly(case["kappa2_tight"])
    assert ratio_constant(beta / 2) == exactly(case["c_of_half_beta"])
    assert lemma1(kappa2("log", beta=beta)).eta == exactly(case["eta_paper_normalised"])
    assert lemma1(kappa2("log", beta=beta)).eta / beta == exactly(case["eta_paper_raw"])


@pytest.mark.parametrize(
    "case", VECTORS["kappa2_square"], ids=lambda c: f"[{c['lo']}, {c['hi']}]"
)
def test_kappa2_square(case: Any) -> None:
    assert kappa2(
        "square", low=rational(case["lo"]), high=rational(case["hi"])
    ) == exactly(case["kappa2_tight"])


def test_lemma1() -> None:
    given = VECTORS["lemma1"]
    assert lemma1(4.0).eta == exactly(given["square_eta_paper_k2_4"])
    assert 1 / lemma1(4.0).c == exactly(given["square_constant_paper"])
    assert 1 / lemma1(4 / 3).c == exactly(given["square_constant_k2_4_3"])
    assert 1 / c_square(1.0) == exactly(given["square_hoeffding_constant_eta1"])
    assert 1 / theory.tight_coefficient("log").c == exactly(
        given["log_d2_constant_eta_half"]
    )
    for case in given["bennett"]:
        paper = lemma1(rational(case["kappa2"]))
        assert paper.eta == exactly(case["eta_paper"])
        assert paper.c == exactly(case["c_paper"])


def test_exact_constants_of_square_loss() -> None:
    from oddsmith.core.losses import square_loss

    certificate = theory.certify(square_loss)
    given = VECTORS["lemma1"]
    assert certificate.estimate(1.0) == exactly(given["square_exact_c_eta1"]["c"])
    best = certificate.best()
    exact = given["square_exact_best_eta"]["c"]
    assert certificate.estimate(best.eta) == exactly(exact)
    assert 0.998 * float(exact) <= best.c <= float(exact)
    assert best.eta == exactly(given["square_exact_best_eta"]["eta"], rel=1e-6)


@pytest.mark.parametrize(
    "case", VECTORS["bounds"], ids=lambda c: f"K{c['K']}-T{c['T']}-p{c['p1']}"
)
def test_bounds(case: Any) -> None:
    k, t, p = case["K"], case["T"], rational(case["p1"])
    problem: Any = {"n_arms": k, "steps": t, "prior": p}
    log_prior = -log(p)
    assert log_prior == exactly(case["ln_inv_p1"])

    def same(found: theory.Bound, expected: Any, digits: float = 1e-12) -> None:
        assert found.bound == exactly(expected["bound"], max(digits / 100, 1e-12))
        assert found.gamma == exactly(expected["gamma_opt"], digits)

    same(
        theory.regret_bound("square", constants="paper", **problem),
        case["square_paper_k2_4"],
    )
    same(corollary1(2 * k, 4 / 3, log_prior=log_prior, steps=t), case["square_k2_4_3"])
    for name, kappa in (("square_paper_k2_4", 4.0), ("square_k2_4_3", 4 / 3)):
        gamma = float(case[name]["gamma_K_over_T_cuberoot"])
        at = corollary1(2 * k, kappa, log_prior=log_prior, steps=t, gamma=gamma)
        assert at.bound == exactly(case[name]["bound_at_that_gamma"])
    for beta in (2, 6):
        given = case[f"log_beta_{beta}"]
        same(
            theory.regret_bound("log", constants="paper", beta=beta, **problem),
            given["paper_kappa1"],
        )
        tight = corollary1(
            k * beta, kappa2("log", beta=beta), log_prior=log_prior, steps=t
        )
        same(tight, given["tight_kappa1"])
    same(
        theory.regret_bound("log", **problem), case["refined_log_eta_half_c_1_2"], 1e-9
    )
    hoeffding = Coefficient(1.0, c_square(1.0))
    refined = refined_bound(hoeffding, n_arms=k, steps=t, log_prior=log_prior)
    same(refined, case["refined_square_eta1_c_hoeffding"], 1e-9)
    without = theory.regret_bound("log", gamma=0, **problem)
    assert sum(without.terms.values()) == exactly(case["gamma0_log_eta_half"])
    rival = theory.squarecb_bound(**problem)
    assert rival.bound == exactly(case["squarecb_vovk"]["bound"])
    assert rival.gamma == exactly(case["squarecb_vovk"]["gamma"])
    optimist = theory.feelgood_bound(**problem)
    assert optimist.bound == exactly(case["feelgood_log_eta_quarter"]["bound"])
    assert optimist.gamma == exactly(case["feelgood_log_eta_quarter"]["lambda"])
    anytime = theory.anytime_bound("log", **problem)
    assert anytime.gamma == exactly(case["anytime_log_eta_half"]["a"])
    assert anytime.bound == exactly(case["anytime_log_eta_half"]["full_bound"])
    assert kappa1_averaged(k, 0.1) == exactly(case["kappa1_tilde_at_gamma_0.1"])
    simple = case["simple_closed_form_log_eta_half"]
    assert 3 * 2 ** (-2 / 3) * ((k - 1) * log_prior / 0.5) ** (1 / 3) * t ** (
        2 / 3
    ) == exactly(simple["bound"])


@pytest.mark.parametrize("case", VECTORS["bayes"], ids=lambda c: f"p* {c['p_star']}")
def test_bayes(case: Any) -> None:
    truth, used = floats(case["p_star"]), floats(case["p"])
    problem: Any = {
        "loss": "square",
        "n_arms": case["K"],
        "steps": case["T"],
        "constants": "paper",
    }
    given = case["square_k2_4"]
    printed = theory.bayes_regret_bound(truth, used, jensen=True, **problem)
    sharper = theory.bayes_regret_bound(truth, used, **problem)
    assert printed.bound == exactly(given["bound_corollary2"])
    assert printed.gamma == exactly(given["gamma_opt"])
    assert sharper.bound == exactly(given["bound_prejensen"])
    assert sharper.gamma == exactly(given["gamma_opt_prejensen"])


def test_best_gamma_is_where_a_minimiser_finds_it() -> None:
    from scipy.optimize import minimize_scalar

    for b, t in ((10.0, 1e3), (500.0, 1e4), (3.0, 1e6), (900.0, 1e3)):
        found = minimize_scalar(
            lambda g, b=b, t=t: (1 - g) * b / g**0.5 + g * t,
            bounds=(1e-9, 1),
            method="bounded",
            options={"xatol": 1e-12},
        )
        assert best_gamma(b, t) == pytest.approx(found.x, rel=1e-6)
    assert best_gamma(10.0, 5.0) == 1.0
