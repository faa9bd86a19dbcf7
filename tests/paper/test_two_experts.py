"""World V by dynamic programming, and one arm: the exact numbers of two_experts.json to
1e-7 (theory 9 and 10)."""

import json
from math import e, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.claims.claim import Setup
from oddsmith.claims.paper_constants import CONDITION_2, predicted_doubt, total_doubt
from oddsmith.claims.suprema import agreed_regret, best_gamma, peak, worst
from oddsmith.claims.two_experts import (
    GapWeighting,
    Sampling,
    World,
    exact,
    exact_regret,
)
from oddsmith.theory.constants import c_square, kappa1_averaged

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "two_experts.json").read_text()
)
SEPARATION = VECTORS["separation"]["data"]["separation p=1e-12, K=2"]
TINY, LOG_TINY = 1e-12, log(1e12)
# 2.381: of the simple form sqrt(2KTL/γ) + γT(K-1)/K at its best γ
CUBE = 3 * 2 ** (-1 / 3)
EXACT: Any = {"rel": 1e-7}  # the tolerance that the file states for dynamic programmes


def feel_good(steps: int) -> Sampling:
    found = theory.feelgood_bound(n_arms=2, steps=steps, prior=TINY)
    assert found.eta == 0.25
    assert found.gamma == pytest.approx(sqrt(LOG_TINY / (2.25 * steps)), rel=1e-12)
    return Sampling(eta=0.25, optimism=float(found.gamma or 0))


def squarecb(steps: int) -> GapWeighting:
    return GapWeighting(4 * sqrt(steps / LOG_TINY))


@pytest.mark.parametrize("case", SEPARATION, ids=lambda case: f"T{case['T']}")
def test_separation_at_the_stated_worst(case: Any) -> None:
    """Every number of the table at its own Δ and gamma; bounds and floor by
    `theory`."""
    steps = case["T"]
    tuned = theory.regret_bound("log", n_arms=2, steps=steps, prior=TINY)
    assert (
        tuned.bound
        <= case["tuned_bound"]
        == pytest.approx(CUBE * LOG_TINY ** (1 / 3) * steps ** (2 / 3), rel=1e-9)
    )
    assert theory.sampling_floor(steps=steps, prior=TINY) == pytest.approx(
        case["floor"], rel=1e-9
    )
    at = {"best": (Sampling(gamma=case["gamma"]), "delta", "gts_best_gamma")}
    at["tuned"] = (Sampling(gamma=case["tuned_gamma"]), "tuned_delta", "tuned_RA")
    for learner, delta, regret in at.values():
        assert exact_regret(World(case[delta], TINY), learner, steps) == pytest.approx(
            case[regret], **EXACT
        )
    assert agreed_regret(at["tuned"][0], steps=steps) == pytest.approx(
        case["gts_tuned"], **EXACT
    )
    found = exact_regret(World(case["squarecb_delta"], TINY), squarecb(steps), steps)
    assert found == pytest.approx(case["squarecb"], **EXACT)
    assert agreed_regret(squarecb(steps), steps=steps) == pytest.approx(
        case["squarecb_RB"], **EXACT
    )
    assert exact_regret(World(0.45, TINY), Sampling(), steps) == pytest.approx(
        case["gamma0"], **EXACT
    )
    assert theory.squarecb_bound(
        n_arms=2, steps=steps, prior=TINY
    ).bound == pytest.approx(case["squarecb_bound"], **EXACT)
    assert theory.feelgood_bound(
        n_arms=2, steps=steps, prior=TINY
    ).bound == pytest.approx(case["feelgood_bound"], **EXACT)


@pytest.mark.parametrize("case", SEPARATION[:3], ids=lambda case: f"T{case['T']}")
def test_feel_good_at_the_stated_worst(case: Any) -> None:
    found = exact_regret(
        World(case["feelgood_delta"], TINY), feel_good(case["T"]), case["T"]
    )
    assert found == pytest.approx(case["feelgood"], **EXACT)


@pytest.mark.soak
def test_feel_good_at_the_stated_worst_for_long() -> None:
    test_feel_good_at_the_stated_worst(SEPARATION[3])


def check_searches(case: Any) -> None:
    """Searches find no less than the file, and a gamma no worse than its best: it calls
    its own lower bounds."""
    steps = case["T"]
    for learner, regret in (
        (Sampling(gamma=case["tuned_gamma"]), "tuned_RA"),
        (squarecb(steps), "squarecb"),
        (feel_good(steps), "feelgood"),
        (Sampling(), "gamma0"),
    ):
        found = worst(learner, prior=TINY, steps=steps)
        assert found.regret >= case[regret] * (1 - 1e-6)
        assert (
            found.regret
            <= theory.feelgood_bound(n_arms=2, steps=steps, prior=TINY).bound
            or not learner.optimism
        )
    gamma, found = best_gamma(
        "log", 0.5, prior=TINY, steps=steps, start=case["tuned_gamma"]
    )
    assert found.regret <= case["gts_best_gamma"] * (1 + 1e-4)
    assert found.regret == pytest.approx(
        agreed_regret(Sampling(gamma=gamma), steps=steps), rel=1e-3
    )


def test_searches() -> None:
    check_searches(SEPARATION[0])


@pytest.mark.soak
@pytest.mark.parametrize("case", SEPARATION[1:], ids=lambda case: f"T{case['T']}")
def test_searches_for_long(case: Any) -> None:
    check_searches(case)


def test_best_gamma_of_square_loss() -> None:
    most, gamma, delta = VECTORS["best_gamma_square_T16384"]
    found = exact_regret(World(delta, TINY), Sampling("square", 1.0, gamma), 16384)
    assert found == pytest.approx(most, **EXACT)


@pytest.mark.parametrize(
    "case", VECTORS["theorem_9_1_check"], ids=lambda c: f"T{c['T']}-gamma{c['gamma']}"
)
def test_the_inequality_of_the_floor(case: Any) -> None:
    """R_V at Δ² = B/(32 G_T) is what the file says, and above the proof's own lower
    bound."""
    steps, explored = case["T"], case["gamma"] * case["T"]
    doubt = log((1 - TINY) / TINY)
    delta = sqrt(doubt / (32 * explored))
    assert delta == pytest.approx(case["delta"], rel=1e-12)
    found = exact_regret(
        World(delta, TINY), Sampling("square", 1.0, case["gamma"]), steps
    )
    assert found == pytest.approx(case["regret"], **EXACT)
    least = delta * steps * (1 - case["gamma"] - 4 / doubt - e ** (-explored / 3))
    assert least == pytest.approx(case["lower"], rel=1e-9)
    assert found >= least >= steps * sqrt(doubt / (128 * explored))


@pytest.mark.parametrize(
    "case", VECTORS["thompson_bayes"], ids=lambda c: f"p{c['p']}-T{c['T']}"
)
def test_thompson_sampling_with_the_right_prior(case: Any) -> None:
    """p_1 R_1 = p_2 R_2 at every T, and the Bayes regret below sqrt(K H T / 2)."""
    learner, p, steps = Sampling(eta=1.0), case["p"], case["T"]

    def sides(delta: float) -> tuple[float, float]:
        first, second = (
            exact_regret(World(delta, p, 2, first), learner, steps)
            for first in (True, False)
        )
        return first, second

    first, second = sides(case["delta"])
    np.testing.assert_allclose((first, second), (case["R1"], case["R2"]), rtol=1e-7)
    assert p * first == pytest.approx((1 - p) * second, rel=1e-9)
    entropy = -p * log(p) - (1 - p) * log(1 - p)
    assert case["bound_bayes"] == pytest.approx(
        sqrt(2 * entropy * steps / 2), rel=1e-12
    )
    assert p * first + (1 - p) * second == pytest.approx(case["sup_bayes"], **EXACT)
    if steps < 5000:
        found = peak(
            lambda delta: float(np.dot(sides(delta), (p, 1 - p))), case["delta"] / 2
        )
        assert case["sup_bayes"] * (1 - 1e-6) <= found.regret <= case["bound_bayes"]


@pytest.mark.parametrize(
    "case",
    VECTORS["D1_theorem1_square_eta1"],
    ids=lambda c: f"K{c['K']}-delta{c['delta']}",
)
def test_theorem_1(case: Any) -> None:
    world = World(case["delta"], case["p"], case["K"])
    found = exact(world, Sampling("square", 1.0, case["gamma"]), case["T"])
    wanted = case["regret"], case["sum_lbar"], case["E_w1"]
    np.testing.assert_allclose(found, wanted, rtol=1e-7)
    kappa1 = sqrt(2 * case["K"] / case["gamma"])
    right = theory.theorem1(kappa1, found.loss, steps=case["T"], gamma=case["gamma"])
    assert sum(right.terms.values()) == pytest.approx(case["rhs_paper"], **EXACT)
    explored = case["gamma"] * case["T"] * (case["K"] - 1) / case["K"]
    learning = (
        (1 - case["gamma"])
        * kappa1_averaged(case["K"], case["gamma"])
        * sqrt(case["T"] * found.loss)
    )
    assert learning + explored == pytest.approx(case["rhs_tight"], **EXACT)
    size = log(1 / case["p"])
    assert case["lemma_bound_tight"] == pytest.approx(size / 0.463177, rel=1e-6)
    assert case["lemma_hoeffding"] == pytest.approx(size / c_square(1.0), rel=1e-9)


def check_lemma(case: Any) -> None:
    world = World(case["delta"], case["p"])
    found = exact(world, Sampling("square", case["eta"], 1.0), case["T"])
    np.testing.assert_allclose(
        (found.loss, found.posterior), (case["sum_lbar"], case["E_w1"]), rtol=1e-7
    )
    assert theory.total_loss_bound(case["kappa2"], case["p"]).bound == pytest.approx(
        case["bound"], rel=1e-9
    )


LEMMA = VECTORS["D4_lemma1_paper_constants"]


@pytest.mark.parametrize("case", [c for c in LEMMA if c["delta"] >= 0.25])
def test_lemma_1_with_the_papers_constants(case: Any) -> None:
    check_lemma(case)


@pytest.mark.soak
@pytest.mark.parametrize("case", [c for c in LEMMA if c["delta"] < 0.25])
def test_lemma_1_with_the_papers_constants_for_long(case: Any) -> None:
    check_lemma(case)


@pytest.mark.parametrize("case", VECTORS["D4b_corollary2"])
def test_corollary_2(case: Any) -> None:
    learner = Sampling(
        "square", theory.total_loss_bound(4.0, 0.5).eta or 0.0, case["gamma"]
    )
    regrets = [
        exact_regret(World(case["delta"], case["p"][0], 2, first), learner, case["T"])
        for first in (True, False)
    ]
    np.testing.assert_allclose(regrets, (case["R1"], case["R2"]), rtol=1e-7)
    problem: Any = {
        "loss": "square",
        "n_arms": 2,
        "steps": case["T"],
        "gamma": case["gamma"],
        "constants": "paper",
    }
    for name, jensen in (("bound", True), ("bound_pre_jensen", False)):
        found = theory.bayes_regret_bound(
            case["p_star"], case["p"], jensen=jensen, **problem
        )
        assert found.bound == pytest.approx(case[name], rel=1e-9)
    assert np.dot(case["p_star"], regrets) == pytest.approx(
        case["bayes_regret"], **EXACT
    )


@pytest.mark.parametrize("table", ["D3_sqrt_L", "D3_sqrt_L_square", "D2_K"])
def test_worst_cases_over_priors_and_arms(table: str) -> None:
    given = VECTORS[table]
    for row in given["rows"]:
        prior, arms, gamma = (
            10.0 ** row.get("log10p", -12),
            row.get("K", 2),
            row.get("gamma", given.get("gamma")),
        )
        learner = (
            Sampling("square", 1.0, gamma)
            if table.endswith("square")
            else Sampling(gamma=gamma)
        )
        found = exact_regret(World(row["delta"], prior, arms), learner, given["T"])
        assert found == pytest.approx(row["sup_regret"], **EXACT)
        c, size = (
            (0.463177, -log(prior)) if table.endswith("square") else (0.5, -log(prior))
        )
        simple = (
            sqrt(arms * given["T"] * size / (c * gamma))
            + gamma * given["T"] * (arms - 1) / arms
        )
        assert row["bound"] == pytest.approx(simple, rel=1e-6)
        if "fluid" in row:
            doubt = log((1 - prior) / prior)
            assert row["fluid"] == pytest.approx(
                sqrt(arms * doubt * given["T"] / (4 * gamma)), rel=1e-9
            )
        if "fixed_delta_02" in row:
            fixed = exact_regret(World(0.2, prior), learner, given["T"])
            assert fixed == pytest.approx(row["fixed_delta_02"], **EXACT)
        if "world_B" in row:
            assert agreed_regret(
                learner, steps=given["T"], n_arms=arms
            ) == pytest.approx(row["world_B"], **EXACT)


def check_one_arm(case: Any) -> None:
    settings: Any = {"eta": case["eta_raw"], "prior": case["p"]}
    assert total_doubt(case["f"], case["g"], **settings) == pytest.approx(
        case["sum_kl"], **EXACT
    )
    assert predicted_doubt(case["f"], case["g"], **settings) == pytest.approx(
        case["first_order"], rel=1e-12
    )
    raw = theory.kappa2("log", beta=case["beta"]) * case["beta"]
    assert theory.kappa2("log", beta=case["beta"]) == pytest.approx(
        case["kappa2_sup"], rel=1e-9
    )
    assert (1 / (2 * (e - 2) * raw), 4 * (e - 2) * raw * log(1 / case["p"])) == (
        pytest.approx(case["eta_raw"], rel=1e-9),
        pytest.approx(case["bound"], rel=1e-9),
    )


BETA = VECTORS["D6_beta"]


@pytest.mark.parametrize(
    "case",
    [c for c in BETA if c["steps"] < 50_000],
    ids=lambda c: f"f{c['f']}-beta{c['beta']}",
)
def test_one_arm(case: Any) -> None:
    check_one_arm(case)


@pytest.mark.soak
@pytest.mark.parametrize(
    "case", [c for c in BETA if c["steps"] >= 50_000], ids=lambda c: f"beta{c['beta']}"
)
def test_one_arm_for_long(case: Any) -> None:
    check_one_arm(case)


def test_condition_2_as_printed() -> None:
    """lbar = 0.04 w_2 whatever is drawn, by the policy's odds; kappa_1 is broken after
    19, 19 and 26 rewards."""
    said = np.array([[0.6, 0.4], [0.4, 0.6]])
    for row in VECTORS["D5_c2"]["rows"]:
        prior = [1 - row["w2"], row["w2"]]
        policy = od.GeneralizedThompsonSampling(
            od.GivenExperts(["1", "2"]),
            od.square_loss,
            eta=1.0,
            gamma=row["gamma"],
            prior=prior,
        )
        state = policy.init()
        lbar = float(
            policy.posterior(state)
            @ (said - said[0]) ** 2
            @ policy.odds(state, said).propensities
        )
        assert lbar == pytest.approx(row["lbar"], rel=1e-7)
        assert row["Delta_2"] / sqrt(lbar) == pytest.approx(row["ratio"], **EXACT)
        assert row["violated"] is bool(
            row["Delta_2"] / sqrt(lbar) > row["kappa1_paper"]
        )
    first = [claim.measured for claim in CONDITION_2(Setup(quick=True)).claims]
    assert first == [
        *(str(n) for n in VECTORS["D5_c2"]["net_confirmations"].values()),
        "26",
    ]


def test_contexts_that_tell_the_truth() -> None:
    """World i shows only x_i, where all but expert i agree: every world is V(0.4), and
    sqrt(K H T/2) does not hold."""
    experts = steps = 1000
    bayes = exact_regret(World(0.4, 1 / experts), Sampling(eta=1.0), steps)
    # until expert i is drawn, nothing is learnt
    least = 0.4 * (experts - 1) * (1 - (1 - 1 / experts) ** steps)
    assert bayes >= least > 252
    assert (
        bayes
        > 3 * theory.thompson_bound(entropy=log(experts), n_arms=2, steps=steps).bound
    )
