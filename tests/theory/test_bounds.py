"""Bounds behave: monotone, at most T, tight below the paper's, true in simulation."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oddsmith as od
from oddsmith import theory
from oddsmith.theory import certify
from oddsmith.theory.constants import Coefficient

BOUNDS: dict[str, Callable[..., theory.Bound]] = {
    "tight log": lambda k, t, p: theory.regret_bound("log", n_arms=k, steps=t, prior=p),
    "tight square": lambda k, t, p: theory.regret_bound(
        "square", n_arms=k, steps=t, prior=p
    ),
    "paper square": lambda k, t, p: theory.regret_bound(
        "square", n_arms=k, steps=t, prior=p, constants="paper"
    ),
    "paper log": lambda k, t, p: theory.regret_bound(
        "log", n_arms=k, steps=t, prior=p, constants="paper", beta=2
    ),
    "gamma 0": lambda k, t, p: theory.regret_bound(
        "log", n_arms=k, steps=t, prior=p, gamma=0
    ),
    "anytime": lambda k, t, p: theory.anytime_bound("log", n_arms=k, steps=t, prior=p),
    "high probability": lambda k, t, p: theory.high_probability_bound(
        "log", n_arms=k, steps=t, prior=p, confidence=0.99
    ),
    "delay": lambda k, t, p: theory.delay_bound(
        "log", n_arms=k, steps=t, prior=p, delay=50
    ),
    "adversarial delay": lambda k, t, p: theory.delay_bound(
        "square", n_arms=k, steps=t, prior=p, delay=5, adversarial=True
    ),
    "misspecified": lambda k, t, p: theory.misspecified_bound(
        "square", n_arms=k, steps=t, prior=p, error=1e-4
    ),
    "switching": lambda k, t, p: theory.switching_bound(
        "log", n_arms=k, steps=t, prior=p, switches=3
    ),
    "SquareCB": lambda k, t, p: theory.squarecb_bound(n_arms=k, steps=t, prior=p),
    "Feel-Good": lambda k, t, p: theory.feelgood_bound(n_arms=k, steps=t, prior=p),
    "EXP4": lambda k, t, p: theory.exp4_bound(n_arms=k, steps=t, prior=p),
    "hedged": lambda k, t, p: theory.hedged_bound(n_arms=k, steps=t, prior=p),
    "hedged, to GTS": lambda k, t, p: theory.hedged_bound(
        n_arms=k, steps=t, prior=p, to_gts=True
    ),
    "regressor elimination": lambda k, t, p: theory.regressor_elimination_bound(
        n_arms=k, steps=t, prior=p
    ),
}
arms, horizons, priors = (
    st.integers(2, 40),
    st.integers(10, 10**7),
    st.floats(1e-9, 0.9),
)


@pytest.mark.parametrize("name", BOUNDS)
class TestContract:
    @given(arms, horizons, priors)
    def test_monotone_and_at_most_t(self, name: str, k: int, t: int, p: float) -> None:
        bound = BOUNDS[name]
        here = bound(k, t, p)
        slack = 1 + 1e-9
        assert 0 <= here.bound <= t
        assert here.bound <= bound(k + 1, t, p).bound * slack
        assert here.bound <= bound(k, 2 * t, p).bound * slack
        assert here.bound <= bound(k, t, p / 2).bound * slack
        assert here.bound == pytest.approx(min(sum(here.terms.values()), t))
        assert here.applies.startswith("applies when ")


@given(arms, horizons, priors)
def test_tight_never_exceeds_the_paper(k: int, t: int, p: float) -> None:
    tight = theory.regret_bound("square", n_arms=k, steps=t, prior=p).bound
    assert (
        tight
        <= theory.regret_bound(
            "square", n_arms=k, steps=t, prior=p, constants="paper"
        ).bound
    )
    log = theory.regret_bound("log", n_arms=k, steps=t, prior=p).bound
    for beta in (0.1, 2.0, 10.0):
        assert (
            log
            <= theory.regret_bound(
                "log", n_arms=k, steps=t, prior=p, constants="paper", beta=beta
            ).bound
        )


@given(st.integers(0, 10**6))
def test_pre_jensen_never_exceeds_corollary_2(seed: int) -> None:
    rng = np.random.default_rng(seed)
    truth, used = rng.dirichlet(np.full(4, 0.5), 2) * 0.999 + 0.001 / 4
    problem: Any = {"loss": "log", "n_arms": 3, "steps": 1e5}
    sharp = theory.bayes_regret_bound(truth, used, **problem).bound
    assert sharp <= theory.bayes_regret_bound(
        truth, used, jensen=True, **problem
    ).bound * (1 + 1e-12)


@given(arms, horizons, priors)
def test_refined_gamma_is_where_a_grid_finds_it(k: int, t: int, p: float) -> None:
    best = theory.regret_bound("log", n_arms=k, steps=t, prior=p)
    for factor in (0.5, 0.9, 0.99, 1.01, 1.1, 2.0):
        gamma = min(1.0, float(best.gamma or 0) * factor)
        other = theory.regret_bound("log", n_arms=k, steps=t, prior=p, gamma=gamma)
        assert best.bound <= other.bound * (1 + 1e-12)


def test_delay_misspecification_and_switches_cost_more_the_more_there_is() -> None:
    problem: Any = {"n_arms": 3, "steps": 100_000, "prior": 0.1}
    for values in (
        [theory.delay_bound("log", delay=d, **problem).bound for d in (0, 10, 1000)],
        [
            theory.delay_bound("square", delay=d, adversarial=True, **problem).bound
            for d in (0, 1, 10)
        ],
        [
            theory.delay_bound(
                "log", delay=d, adversarial=True, beta=2, **problem
            ).bound
            for d in (0, 2, 10)
        ],
        [
            theory.misspecified_bound("square", error=e, **problem).bound
            for e in (0, 1e-4, 1e-2)
        ],
        [
            theory.switching_bound("log", switches=m, **problem).bound
            for m in (0, 1, 10)
        ],
        [
            theory.high_probability_bound("log", confidence=c, **problem).bound
            for c in (0.0, 0.9, 0.999)
        ],
    ):
        assert values == sorted(values)
        assert values[0] < values[-1]
    plain = theory.regret_bound("log", **problem).bound
    assert theory.switching_bound("log", switches=0, **problem).bound == plain
    assert theory.misspecified_bound("log", error=0, **problem).bound == plain
    assert theory.high_probability_bound("log", confidence=0, **problem).bound == plain


def test_classes_and_covers_stand_in_for_ln_1_over_p() -> None:
    linear = theory.class_complexity("linear", dim=5, steps=1e4, eta=1.0, norm=1.0)
    assert linear == pytest.approx(2.5 * np.log1p(2e4 / 5) + 0.5)
    logistic = theory.class_complexity(
        "logistic", dim=5, steps=1e4, eta=0.5, norm=2.0, ridge=0.1
    )
    assert logistic == pytest.approx(2.5 * np.log1p(5e3 / (4 * 5 * 0.1)) + 0.2)
    cover = od.experts.ball_cover(2, 2.0, radius=0.1)
    complexity = theory.cover_complexity(
        "logistic", n=cover.n, radius=cover.radius, steps=1e4, eta=0.5
    )
    assert complexity == pytest.approx(np.log(cover.n) + 0.5 * 1e4 * 0.01 / 8)
    bound = theory.refined_bound(
        Coefficient(0.5, 0.5), n_arms=3, steps=1e4, log_prior=complexity
    )
    assert 0 < bound.bound < 1e4
    with pytest.raises(od.InvalidInput, match="linear or logistic"):
        theory.class_complexity("cubic", dim=1, steps=1, eta=1, norm=1)


def test_changing_arms_with_a_constant_set_is_the_simple_form() -> None:
    k, t, p, gamma = 4, 1000, 0.1, 0.2
    found = theory.changing_arms_bound("log", n_arms=[k] * t, prior=p, gamma=gamma)
    assert found.terms["learning"] == pytest.approx(
        np.sqrt(k * t / gamma * np.log(10) / 0.5)
    )
    assert found.terms["exploration"] == pytest.approx(gamma * t * (k - 1) / k)


def test_what_a_prior_is_worth_and_how_long_it_takes() -> None:
    problem: Any = {"loss": "log", "n_arms": 5}
    assert (
        theory.prior_value(0.01, 0.5, steps=1e5, **problem)
        > theory.prior_value(0.1, 0.5, steps=1e5, **problem)
        > 0
    )
    uniform, informed = [0.25] * 4, [0.85, 0.05, 0.05, 0.05]
    assert theory.prior_value(uniform, informed, steps=1e5, **problem) > 0
    steps = theory.horizon_for(0.2, prior=0.1, **problem)
    assert theory.regret_bound(steps=steps, prior=0.1, **problem).bound <= 0.2 * steps
    assert theory.regret_bound(steps=steps - 1, prior=0.1, **problem).bound > 0.2 * (
        steps - 1
    )


def test_tuned_is_gts_with_the_bound_s_settings() -> None:
    bank = od.GivenExperts(("a", "b", "c", "d"))
    known = od.tuned(bank, od.square_loss, n_arms=3, steps=10_000)
    expected = theory.tune("square", n_arms=3, steps=10_000, prior=0.25)
    assert (known.eta, known.gamma) == (expected.eta, expected.gamma)
    anytime = od.tuned(bank, n_arms=3, prior={"a": 0.7, "b": 0.1, "c": 0.1, "d": 0.1})
    assert isinstance(anytime.gamma, od.policies.PowerSchedule)
    assert (
        anytime.gamma.scale
        == theory.anytime_bound("log", n_arms=3, steps=100, prior=0.1).gamma
    )
    halved = od.tuned(
        bank, od.losses.scaled(od.square_loss, 4.0), n_arms=3, steps=10_000
    )
    # scale invariance: the same algorithm
    assert halved.eta == pytest.approx(4 * known.eta)
    assert halved.gamma == known.gamma
    own = od.tuned(
        bank, certify(lambda g, r: g - r * np.log(g), 0.05, 1.0), n_arms=3, steps=10_000
    )
    assert own.eta == pytest.approx(0.836, abs=1e-3)


def test_values_computed_by_hand() -> None:
    """One number each, from the formula with a calculator's operations: K = 4, T =
    100,000, p = 1/e² (L = 2)."""
    k, t, p = 4, 100_000, np.exp(-2.0)
    problem: Any = {"n_arms": k, "steps": t, "prior": p}

    def at(gamma: float, total: float, c: float) -> float:
        """(1-γ) sqrt(K/γ + K(K-1)/(K-γ)) sqrt(T total/c) + γ T 3/4."""
        kappa = np.sqrt(4 / gamma + 12 / (4 - gamma))
        return float((1 - gamma) * kappa * np.sqrt(t * total / c) + gamma * 75_000)

    assert theory.regret_bound("square", gamma=0.1, **problem).bound == pytest.approx(
        at(0.1, 2, 0.46)
    )
    assert theory.regret_bound("log", gamma=0.1, **problem).bound == pytest.approx(
        at(0.1, 2, 0.5)
    )
    sure = theory.high_probability_bound(
        "log", confidence=1 - np.exp(-3.0), gamma=0.1, **problem
    )
    assert sure.bound == pytest.approx(at(0.1, 5, 0.5))
    late = theory.delay_bound("log", delay=7, gamma=0.25, **problem)
    assert late.bound == pytest.approx(
        7 + 0.75 * np.sqrt(2 * 4 * t * 2 / (0.5 * 0.25)) + 0.25 * 75_000
    )
    hostile = theory.delay_bound(
        "square", delay=5, adversarial=True, gamma=0.25, **problem
    )
    assert hostile.eta == pytest.approx(0.1)
    assert hostile.bound == pytest.approx(at(0.25, 2 * np.e, 1 - np.exp(-0.1 * 0.95)))
    wrong = theory.misspecified_bound("square", error=1e-4, gamma=0.1, **problem)
    assert wrong.bound == pytest.approx(at(0.1, 2 + 10, 0.46))
    moving = theory.switching_bound("log", switches=3, gamma=0.1, **problem)
    alpha = 3 / 99_999
    total = 2 + 3 * (2 + np.log(1 / alpha)) + (t - 4) * np.log(1 / (1 - alpha))
    assert moving.bound == pytest.approx(at(0.1, total, 0.5))
    assert theory.exp4_bound(**problem).bound == pytest.approx(np.sqrt(2 * 4 * t * 2))
    removed = theory.regressor_elimination_bound(confidence=1 - np.exp(-1.0), **problem)
    # the solver's slack is 1e-3
    assert removed.bound == pytest.approx(4 * np.sqrt(2 / 0.46 * 1.001 * 4 * t * 3))
    assert "square loss and the threshold sharp" in removed.applies
    assert "balanced (to 0.001, counted)" in removed.applies
    optimist = theory.feelgood_bound("square", **problem)
    assert optimist.bound == pytest.approx(2 * np.sqrt(t * 2 * (4 / 0.92 + 0.25)))
    assert optimist.eta == 0.5
    assert theory.theorem1(3.0, 4.0, steps=100, gamma=0.25).terms == {
        "learning": 45.0,
        "exploration": 25.0,
    }
    line = theory.class_bound("linear", dim=3, norm=2.0, n_arms=4, steps=t, gamma=0.1)
    assert line.bound == pytest.approx(
        at(0.1, 1.5 * np.log1p(2 * t / 3) + 2, 1 - np.exp(-0.5))
    )
    covered = theory.cover_bound(
        "linear", n=1000, radius=0.01, n_arms=4, steps=t, gamma=0.1
    )
    assert covered.bound == pytest.approx(at(0.1, np.log(1000) + 10, 1 - np.exp(-0.5)))


@pytest.mark.parametrize("beta", [0.5, 6, 20, 1000])
def test_the_papers_eta_for_log_loss_is_never_cut(beta: float) -> None:
    """Normalised log loss has |lhat| <= 1/2, so e^-x <= 1 - x + (e-2)x² holds at every
    eta up to 2 (erratum 4)."""
    k, t, prior = 10, 10**7, 0.01
    found = theory.regret_bound(
        "log", constants="paper", beta=beta, n_arms=k, steps=t, prior=prior
    )
    kappa, eta, gamma = (
        theory.kappa2("log", beta=beta),
        (found.eta or 0.0) * beta,
        found.gamma or 0.0,
    )
    assert eta == pytest.approx(1 / (2 * (np.e - 2) * kappa))
    assert eta / 2 <= 1
    c = eta * (1 - (np.e - 2) * eta * kappa)  # Lemma 1 at the eta that is given back
    learning = (1 - gamma) * k * np.sqrt(2 * beta / gamma * t * np.log(1 / prior) / c)
    assert found.terms["learning"] == pytest.approx(learning)


def test_a_cut_eta_has_the_bound_that_belongs_to_it() -> None:
    found = theory.corollary1(6.0, 0.5, log_prior=2.0, steps=10**6, gamma=0.25)
    assert found.eta == 1.0
    assert found.terms["learning"] == pytest.approx(
        0.75 * np.sqrt(6 / 0.25 * 10**6 * 2 / (1 - (np.e - 2) / 2))
    )


@pytest.mark.parametrize("steps", [1, 10, 1e60])
def test_a_prior_of_1_has_nothing_to_learn(steps: float) -> None:
    for loss, constants, beta in (
        ("log", "tight", None),
        ("square", "paper", None),
        ("log", "paper", 2.0),
    ):
        problem: Any = {
            "n_arms": 3,
            "steps": steps,
            "constants": constants,
            "beta": beta,
        }
        assert theory.regret_bound(loss, prior=1.0, **problem).bound == 0
        assert theory.regret_bound(loss, prior=0.5, **problem).bound > 0
    assert theory.delay_bound(
        "log", n_arms=3, steps=steps, prior=1.0, delay=1
    ).bound == pytest.approx(min(1, steps))
    assert (
        theory.bayes_regret_bound(
            [1, 0], [1, 0], loss="log", n_arms=3, steps=steps
        ).bound
        == 0
    )
    assert theory.horizon_for(1.0, loss="log", n_arms=3, prior=0.1) == 1
    assert od.tuned(od.GivenExperts(("only",)), n_arms=3, steps=100).gamma == 0


def test_delay_0_is_no_delay_and_adversarial_delay_is_monotone() -> None:
    problem: Any = {"n_arms": 3, "steps": 10**5, "prior": 0.1}
    plain = theory.regret_bound("log", **problem).bound
    assert theory.delay_bound("log", delay=0, **problem).bound == plain
    hostile = [
        theory.delay_bound("log", delay=d, adversarial=True, beta=0.2, **problem).bound
        for d in (0, 1, 2, 9)
    ]
    assert hostile[0] == plain
    assert hostile == sorted(hostile)


def test_scaled_losses_have_the_same_bounds_with_eta_scaled() -> None:
    problem: Any = {"n_arms": 3, "steps": 10**4, "prior": 0.1}
    for loss, beta in ((od.log_loss, 0.25), (od.square_loss, 100.0)):
        plain, other = (
            theory.regret_bound(each, **problem)
            for each in (loss, od.losses.scaled(loss, beta))
        )
        assert other.bound == plain.bound
        assert other.eta == pytest.approx(beta * float(plain.eta or 0))


def test_own_losses_say_that_their_constant_is_numerical() -> None:
    problem: Any = {"n_arms": 2, "steps": 100, "prior": 0.1}
    formula = theory.regret_bound(lambda g, r: 2 * (g - r) ** 2, **problem)
    assert formula.applies.endswith("predictions and means are in [0, 1]")
    binary = certify(lambda g, r: (g - r**2) ** 2, rewards="binary")
    assert theory.regret_bound(binary, **problem).applies.endswith("rewards are 0 or 1")
    traceless = theory.regret_bound(
        lambda g, r: 2 * np.clip(g - r, -1, 1) ** 2, **problem
    )
    assert "found numerically" in traceless.applies
    assert (
        "numerically"
        not in theory.regret_bound("log", n_arms=2, steps=100, prior=0.1).applies
    )


def test_the_bound_holds_in_simulation() -> None:
    """Mean regret of tuned GTS over 40 runs, on an instance with known truth, stays
    below its bound."""
    rng = np.random.default_rng(0)
    # 10 contexts, 8 experts, 3 arms; expert 0 is the truth
    table = np.clip(rng.beta(2, 2, (10, 8, 3)), 0.05, 0.95)
    runs, steps = 40, 1500
    policy = od.tuned(od.TableExperts(table), od.log_loss, n_arms=3, steps=steps)
    state, regret = policy.init((runs,)), np.zeros(runs)
    for t in range(steps):
        context = rng.integers(0, 10, runs)
        decision = od.decide(policy, state, context, rng.random(runs), step=t + 1)
        means = table[context, 0]
        regret += means.max(axis=1) - (decision.propensities * means).sum(axis=1)
        rewards = (rng.random(runs) < means[np.arange(runs), decision.arm]).astype(
            float
        )
        state = policy.update(state, decision, rewards)
    bound = theory.regret_bound("log", n_arms=3, steps=steps, prior=1 / 8).bound
    assert 0 < regret.mean() < bound
