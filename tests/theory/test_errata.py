"""The paper's slips (docs/math/errata.md): the printed version fails at a stated point,
the right one holds."""

from math import e, exp, inf, log, sqrt

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from oddsmith.theory.constants import (
    best_gamma,
    c_log,
    kappa1_averaged,
    kappa2,
    lemma1,
    ratio_constant,
)

GRID = np.linspace(0.01, 0.99, 99)
F, G = np.meshgrid(GRID, GRID, indexing="ij")
KL = F * np.log(F / G) + (1 - F) * np.log((1 - F) / (1 - G))


def test_e1_c2_must_be_read_per_expert_or_averaged() -> None:
    """Printed: Delta_i <= kappa_1 sqrt(lbar_t). False when the posterior is nearly sure
    of the truth."""
    truth, other = np.array([0.6, 0.4]), np.array([0.4, 0.6])
    gamma, weight = 0.5, 1e-8
    odds = np.array(
        [(1 - gamma) * (1 - weight) + gamma / 2, (1 - gamma) * weight + gamma / 2]
    )
    gap, own = 0.2, odds @ (truth - other) ** 2
    assert gap / sqrt(weight * own) > 900 > sqrt(4 / (gamma * (2 - gamma)))
    assert gap <= sqrt(4 / (gamma * (2 - gamma))) * sqrt(own)  # per expert, K = 2
    assert weight * gap <= kappa1_averaged(2, gamma) * sqrt(weight * own)  # averaged


def test_e2_the_exponential_inequality() -> None:
    """Printed: e^x <= 1 - x + (e-2)x² on [-1, 1]. Right: e^{-x} <= 1 - x + (e-2)x² for
    x >= -1."""
    assert e - (1 - 1 + (e - 2)) == pytest.approx(2.0)
    x = np.concatenate([np.linspace(-1, 1, 2001), np.linspace(1, 60, 2001)])
    assert (np.exp(-x) <= 1 - x + (e - 2) * x**2 + 1e-12).all()


def test_e3_the_logarithm_inequality() -> None:
    """Printed: ln(1-x) < x for x < 1, false at -1. Right: ln(1-x) <= -x."""
    assert log(1 - (-1.0)) > -1.0
    x = np.linspace(-50, 0.999, 5001)
    assert (np.log1p(-x) <= -x + 1e-12).all()


def test_e4_eta_times_the_most_negative_loss_must_be_at_most_1() -> None:
    """With kappa_2 below 1/(2(e-2)) the paper's eta exceeds 1, and the inequality it
    needs fails at lhat = -1."""
    eta = 1 / (2 * (e - 2) * 0.4)
    assert 0.4 < 1 / (2 * (e - 2)) < 0.6962
    assert eta > 1
    assert exp(eta) > 1 + eta + (e - 2) * eta**2
    assert lemma1(0.4).eta == 1.0  # cut to 1, with the c that belongs to it
    assert lemma1(0.4).c == pytest.approx(1 - (e - 2) * 0.4)
    safe = lemma1(0.7).eta
    assert safe <= 1
    assert exp(safe) <= 1 + safe + (e - 2) * safe**2


def walk(steps: int, eta: float) -> tuple[float, float, float]:
    """E ln(W_{T+1}/W_1), ln E[W_{T+1}/W_1] and E Σ lbar_t over all reward sequences
    (square loss, one arm)."""
    f, prior = np.array([0.7, 0.3]), np.array([0.3, 0.7])
    logs, ratios, total = 0.0, 0.0, 0.0
    for rewards in np.ndindex(*([2] * steps)):
        probability = float(np.prod([f[0] if r else 1 - f[0] for r in rewards]))
        weights = prior.copy()
        for r in rewards:
            total += probability * float(weights @ (f - f[0]) ** 2) / weights.sum()
            weights = weights * np.exp(-eta * ((f - r) ** 2 - (f[0] - r) ** 2))
        logs += probability * log(weights.sum())
        ratios += probability * float(weights.sum())
    return logs, log(ratios), total


def test_e5_the_logarithm_that_is_missing() -> None:
    """Printed without ln: E[W_{T+1}/W_1] <= -c E Σ lbar would be a positive number
    below a negative one."""
    eta, c = lemma1(4 / 3)
    logs, ratios, total = walk(6, eta)
    # the printed inequality, without ln, has the wrong sign
    assert exp(ratios) > -c * total
    assert logs <= -c * total  # the right one
    assert -logs <= log(1 / 0.3)  # and W_{T+1} >= p_1


def test_e6_lemma_1_holds_in_expectation_only() -> None:
    """One path can lose more than 4(e-2) kappa_2 L, though the mean over all paths does
    not."""
    prior, kappa = 0.9, 4 / 3
    eta, c = lemma1(kappa)
    assert walk(6, eta)[2] <= theory.total_loss_bound(kappa, 0.3).bound
    weights, total = np.log([prior, 1 - prior]), 0.0
    # the unluckiest rewards: the truth says 0.6, and it is always 0
    for _ in range(60):
        posterior = np.exp(weights - np.logaddexp(*weights))
        total += float(posterior[1] * 0.2**2)
        weights = weights - eta * (np.array([0.6, 0.4]) - 0.0) ** 2
    assert total > log(1 / prior) / c


def test_e7_uniform_exploration_costs_at_most_k_minus_1_of_k() -> None:
    """And the statement drops the factor 1-gamma that its proof has."""
    assert theory.theorem1(3.0, 4.0, steps=100, gamma=0.25).terms[
        "learning"
    ] == 0.75 * 3 * sqrt(4 * 100)
    paper = theory.theorem1(1.0, 0.0, steps=100, gamma=0.5)
    tight = theory.regret_bound("log", n_arms=2, steps=100, prior=1.0, gamma=0.5)
    assert paper.terms["exploration"] == 50
    assert tight.terms["exploration"] == 25
    means = np.random.default_rng(0).random((1000, 2))
    assert (means.max(axis=1) - means.mean(axis=1) <= 0.5 + 1e-12).all()


def test_e8_an_expert_s_policy_is_an_argmax() -> None:
    """Printed max; and any tie rule will do, since only f_i(a_i) >= f_i(a*) is used."""
    ballots = od.Experts.advise(
        od.GivenExperts(("a",)), (), np.array([[0.5, 0.5, 0.1]])
    )[1]
    np.testing.assert_array_equal(ballots, [[0.5, 0.5, 0.0]])


def test_e9_pinsker_for_bernoulli() -> None:
    """Printed |p-q| <= sqrt(2 kl), right but twice too large: |p-q| <= sqrt(kl/2), and
    2 is the best constant."""
    gap = (F - G) ** 2
    assert (gap <= KL / 2 + 1e-12).all()
    off = np.abs(F - G) > 0.005
    assert (KL[off] / gap[off]).min() == pytest.approx(2, abs=1e-3)


def test_e10_the_same_arm_is_counted_twice_only_where_nothing_is_lost() -> None:
    """Printed: |delta(a*)| + |delta(a_i)| <= sum over arms. False when both are one
    arm, but then Delta_i = 0."""
    truth, other = np.array([0.9, 0.1]), np.array([0.7, 0.1])
    error = np.abs(truth - other)
    assert truth.argmax() == other.argmax()
    assert error[truth.argmax()] + error[other.argmax()] > error.sum()
    assert truth.max() - truth[other.argmax()] == 0
    rng = np.random.default_rng(0)
    for truth, other in rng.random((500, 2, 4)):
        error, a, b = np.abs(truth - other), truth.argmax(), other.argmax()
        assert (
            truth[a] - truth[b]
            <= (error[a] + error[b] if a != b else 0) + 1e-12
            <= error.sum() + 1e-12
        )


@pytest.mark.parametrize("k", [3, 5, 10])
def test_e11_kappa_1_of_log_loss_grows_with_the_root_of_k(k: int) -> None:
    """Printed K sqrt(2 beta/gamma); right sqrt(K beta/gamma), here by search over
    random experts."""
    rng, gamma = np.random.default_rng(k), 0.1
    worst = 0.0
    for _ in range(4000):
        truth = rng.uniform(0.05, 0.95, k)
        other = np.where(rng.random(k) < 2 / k, rng.uniform(0.05, 0.95, k), truth)
        odds = np.full(k, gamma / k)
        odds[rng.integers(k)] += 1 - gamma
        kl = truth * np.log(truth / other) + (1 - truth) * np.log(
            (1 - truth) / (1 - other)
        )
        gap = truth.max() - truth[other.argmax()]
        if gap > 0:
            worst = max(worst, gap / sqrt(odds @ kl))
    assert worst <= sqrt(k / gamma) < k * sqrt(2 / gamma)


def test_e12_kappa_2_of_log_loss_is_not_o_of_1() -> None:
    assert kappa2("log", beta=0.01) > 200
    assert kappa2("log", beta=0.01) == pytest.approx(2 / 0.01 + 1 / 3, rel=1e-4)
    assert kappa2("log", beta=1000) == pytest.approx(0.5, abs=2e-3)
    v = 1.5
    fits = (np.log(F / G) <= v) & (np.log((1 - F) / (1 - G)) <= v) & (KL > 1e-9)
    second = F * np.log(F / G) ** 2 + (1 - F) * np.log((1 - F) / (1 - G)) ** 2
    assert (second[fits] <= ratio_constant(v) * KL[fits] * (1 + 1e-9)).all()


def test_e13_beta_cancels_and_with_eta_one_half_there_is_none() -> None:
    """Printed rate beta^(1/3): the paper's bound divided by it goes to 0/0 as beta ->
    0; the right one stays put."""
    small, large = (
        theory.regret_bound(
            "log", n_arms=3, steps=1e6, prior=0.1, constants="paper", beta=beta
        ).bound
        for beta in (1e-3, 1e-1)
    )
    assert small / large > 0.95 > (1e-3 / 1e-1) ** (1 / 3)
    hellinger = 1 - np.sqrt(F * G) - np.sqrt((1 - F) * (1 - G))
    assert (hellinger >= (F - G) ** 2 / 2 - 1e-12).all()


def test_e14_the_normalised_loss_lies_in_half_the_interval() -> None:
    """Raw ratios in [-beta/2, beta/2] divided by beta: nothing beyond 1/2, where C3
    would allow 1."""
    table = np.random.default_rng(0).uniform(0.1, 0.9, (50, 6, 3))
    ratios = np.log(table[:, :, None] / table[:, None])
    assert 0.3 < np.abs(ratios / theory.beta(table)).max() <= 0.5


def test_e15_the_bayes_bound_has_kl_of_two_priors() -> None:
    """Printed H(p*) + KL(p*, p*), which is blind to the prior that is used."""
    truth = [0.7, 0.2, 0.1]
    bounds = [
        theory.bayes_regret_bound(
            truth,
            used,
            loss="square",
            n_arms=2,
            steps=1e4,
            constants="paper",
            jensen=True,
        ).bound
        for used in (truth, [0.1, 0.2, 0.7])
    ]
    assert bounds[0] < bounds[1]


def test_e16_a_prior_of_zero_on_a_possible_truth_is_infinite() -> None:
    with pytest.raises(od.InvalidInput, match="infinite"):
        theory.bayes_regret_bound([0.5, 0.5], [1, 0], loss="log", n_arms=2, steps=100)


def test_e17_the_paper_s_theory_does_not_cover_thompson_sampling() -> None:
    # kappa_1 = sqrt(2K/gamma) as gamma -> 0
    assert theory.certify(od.square_loss).kappa1(2, 1e-12) > 1e6
    assert lemma1(ratio_constant(0.0)).eta == pytest.approx(0.348, abs=1e-3)
    assert all(lemma1(ratio_constant(v)).eta < 1 for v in np.linspace(0, 20, 50))
    assert c_log(1.0) == 0  # eta = 1 is the critical point
    finite = theory.regret_bound("log", n_arms=2, steps=1e6, prior=0.1, gamma=0)
    assert finite.bound < inf


def test_e18_kappa_2_of_square_loss_is_four_thirds() -> None:
    ratio = (G - F) ** 2 + 4 * F * (1 - F)
    assert ratio.max() <= 4 / 3 + 1e-12 < 4
    assert pytest.approx(4 / 3) == (2 / 3 - 0) ** 2 + 4 * (2 / 3) * (1 / 3)


def test_e19_the_expectation_is_over_rewards_too() -> None:
    """Two runs with the same randomisation of arms and other rewards differ in regret:
    arms depend on rewards."""
    policy = od.thompson_sampling(od.GivenExperts(("a", "b")))
    f = np.array([[0.9, 0.2], [0.2, 0.8]])
    first = od.decide(policy, policy.init(), f, 0.3)
    next_arms = {
        od.decide(policy, policy.update(policy.init(), first, r), f, 0.7).arm
        for r in (0.0, 1.0)
    }
    assert next_arms == {0, 1}


def test_e20_a_tuned_gamma_gives_the_cube_root_of_ln_1_p() -> None:
    t, k = 1e9, 3
    at = [
        theory.regret_bound("square", n_arms=k, steps=t, prior=p, constants="paper")
        for p in (1e-2, 1e-4)
    ]
    assert at[1].bound / at[0].bound == pytest.approx(2 ** (1 / 3), rel=0.01)
    gamma = (k / t) ** (1 / 3)
    fixed = [
        theory.regret_bound(
            "square", n_arms=k, steps=t, prior=p, gamma=gamma, constants="paper"
        ).bound
        - gamma * t
        for p in (1e-2, 1e-4)
    ]
    assert fixed[1] / fixed[0] == pytest.approx(sqrt(2))
    assert best_gamma(100.0, 50.0) == 1.0  # and gamma <= 1 needs T large enough


def test_e21_the_turning_point_of_f_is_1_minus_f() -> None:
    """F(g) falls up to g_0 = 1-f and rises after it, for f < 1/2 (mirrored above)."""
    for f in (0.1, 0.3, 0.45):
        g = np.linspace(0.005, 0.995, 991)
        g = g[np.abs(g - f) > 0.004]
        a, b = np.log(f / g), np.log((1 - f) / (1 - g))
        values = f * (1 - f) * (a - b) ** 2 / (f * a + (1 - f) * b)
        assert abs(g[values.argmin()] - (1 - f)) < 0.01
        rising = np.diff(values) > -1e-9
        assert rising[g[:-1] > 1 - f + 0.01].all()
        assert not rising[(g[1:] < 1 - f - 0.01)].any()


def test_e22_fractional_rewards_need_no_rounding() -> None:
    """For mean f, Bernoulli rewards maximise E lhat² and E e^{-lhat}: a reward of f
    itself has less of both."""
    for loss in (od.square_loss, od.log_loss):
        d1, d0 = loss(G, 1.0) - loss(F, 1.0), loss(G, 0.0) - loss(F, 0.0)
        direct = loss(G, F) - loss(F, F)
        np.testing.assert_allclose(direct, F * d1 + (1 - F) * d0, atol=1e-12)
        assert (direct**2 <= F * d1**2 + (1 - F) * d0**2 + 1e-12).all()
        assert (
            np.exp(-direct) <= F * np.exp(-d1) + (1 - F) * np.exp(-d0) + 1e-12
        ).all()
