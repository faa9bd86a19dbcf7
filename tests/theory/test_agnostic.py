"""Worlds where no expert is right: exact regret of GTS there, the lower bound it cannot
escape, Hedged's bound."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith import theory
from paper.agnostic import A1_EXPERTS, A3_EXPERTS, AGNOSTIC, futures
from paper.lattice import Lattice

GTS = od.GeneralizedThompsonSampling
BANK = od.GivenExperts(["first", "second"])
A1_MEANS, A3_MEANS = np.array([0.5, 0.6]), np.array([0.5, 0.6])


def settings(text: str) -> dict[str, str]:
    return dict(part.split("=") for part in text.split(",") if "=" in part)


@pytest.mark.parametrize(
    "name",
    [name for name in AGNOSTIC["A1_gts_enum"]["data"] if name.endswith(("T=1", "T=5"))],
)
def test_enumeration_of_the_best_predictor_with_the_worst_policy(name: str) -> None:
    given, wanted = settings(name), AGNOSTIC["A1_gts_enum"]["data"][name]
    loss = od.log_loss if name.startswith("log") else od.square_loss
    policy = GTS(BANK, loss, eta=float(given["eta"]), gamma=float(given["gamma"]))
    leaves, regret = [(1.0, policy.init())], 0.0
    for _ in range(int(given["T"])):
        regret += sum(
            p * 0.1 * policy.odds(state, A1_EXPERTS).propensities[0]
            for p, state in leaves
        )
        leaves = [
            future
            for leaf in leaves
            for future in futures(policy, leaf, A1_EXPERTS, A1_MEANS)
        ]
    adviser = sum(p * float(policy.posterior(state)[1]) for p, state in leaves)
    assert regret == pytest.approx(float(wanted["regret"]), abs=1e-12)
    assert adviser == pytest.approx(float(wanted["posterior_adviser"]), abs=1e-12)


def a1(eta: float, gamma: float) -> Lattice:
    policy = GTS(BANK, od.square_loss, eta=eta, gamma=gamma)
    return Lattice.of(
        policy, A1_EXPERTS, quantum=0.08 * eta, low=-600, high=int(45 / (0.08 * eta))
    )


def check_a1(name: str, marks: list[int]) -> None:
    given, wanted = settings(name), AGNOSTIC["A1_gts_dp_square"]["data"][name]
    eta, gamma = float(given["eta"]), float(given["gamma"])
    left = theory.departure(od.square_loss, eta, means=A1_MEANS, predictions=A1_EXPERTS)
    for mark, found in zip(marks, a1(eta, gamma).regret(A1_MEANS, marks), strict=True):
        np.testing.assert_allclose(found, wanted[str(mark)], rtol=1e-7)
        # whatever eta and gamma: linear in T
        assert found[0] >= left.regret(mark, gamma)
        assert found[1] <= left.total


@pytest.mark.parametrize("name", AGNOSTIC["A1_gts_dp_square"]["data"])
def test_gts_stays_behind_the_adviser_for_every_eta(name: str) -> None:
    check_a1(name, [10, 100, 1000])


@pytest.mark.soak
@pytest.mark.parametrize("name", AGNOSTIC["A1_gts_dp_square"]["data"])
def test_gts_stays_behind_the_adviser_for_ten_thousand_steps(name: str) -> None:
    check_a1(name, [10, 100, 1000, 10000])


def test_departure() -> None:
    """The table at power 1 where that is best, never a worse total; linear regret for
    any eta and gamma."""
    for eta, (rho, total) in AGNOSTIC["A1_rho_square"]["data"].items():
        left = theory.departure(
            od.square_loss, float(eta), means=A1_MEANS, predictions=A1_EXPERTS
        )
        assert left.total <= total * (1 + 1e-12)
        if float(eta) < 0.5:
            assert left.power == 1.0
            assert left.rate == pytest.approx(rho, rel=1e-12)
    for eta in (0.5, 1.0, 2.0, 5.0):
        assert (
            theory.departure(
                od.square_loss, eta, means=A1_MEANS, predictions=A1_EXPERTS
            ).total
            <= 50.2
        )
        left = theory.departure(
            od.log_loss, eta, means=A1_MEANS, predictions=A1_EXPERTS
        )
        assert [left.regret(1e4, gamma) > 450 for gamma in (0.0, 0.5, 1.0)] == [
            True
        ] * 3
    with pytest.raises(od.InvalidInput, match="predict better"):
        theory.departure(
            od.square_loss, 1.0, means=A1_MEANS, predictions=A1_EXPERTS[::-1]
        )
    with pytest.raises(od.errors.OutOfDomain, match="finite"):
        theory.departure(
            od.log_loss, 1.0, means=A1_MEANS, predictions=[[0.6, 0.5], [0.0, 1.0]]
        )


def a3(eta: float, gamma: float = 0.0) -> Lattice:
    policy: Any = GTS(BANK, od.log_loss, eta=eta, gamma=gamma)
    reach = int(45 / (eta * np.log(9)))
    return Lattice.of(
        policy, A3_EXPERTS, quantum=eta * float(np.log(9)), low=-reach, high=reach + 400
    )


@pytest.mark.parametrize("name", AGNOSTIC["A3_dp"]["data"])
def test_learning_rates_under_misspecification(name: str) -> None:
    """Exact regret where the best expert is too sure of itself, to a thousand steps."""
    given, marks = settings(name), [10, 100, 1000]
    found = a3(float(given["eta"]), float(given["gamma"])).regret(A3_MEANS, marks)
    wanted = [AGNOSTIC["A3_dp"]["data"][name][str(mark)] for mark in marks]
    np.testing.assert_allclose([regret for regret, _ in found], wanted, rtol=1e-7)


@pytest.mark.soak
@pytest.mark.parametrize("eta", [0.05, 0.1, 0.15, 0.5, 1.0])
def test_above_the_critical_rate_regret_grows_with_a_power_of_t(eta: float) -> None:
    marks = [100, 1000, 10_000, 100_000]
    found = [regret for regret, _ in a3(eta).regret(A3_MEANS, marks)]
    wanted = AGNOSTIC["A3_dp"]["data"][f"eta={eta},gamma=0.0"]
    np.testing.assert_allclose(found, [wanted[str(mark)] for mark in marks], rtol=1e-7)
    critical = theory.critical_rate(0.6, 0.9)
    if eta > critical:
        assert np.log10(found[-1] / found[-2]) == pytest.approx(
            1 - critical / eta, abs=0.03
        )
    else:
        shrunk = 0.6 * 9**-eta + 0.4 * 9**eta
        limit = 0.1 / (1 - shrunk)
        assert limit == pytest.approx(
            AGNOSTIC["A3_eta_crit"]["limit_regret_gamma0"][f"{eta:g}"], rel=1e-12
        )
        assert found[-1] <= limit + 1e-9
        assert eta > 0.05 or found[-1] == pytest.approx(limit, abs=1e-3)


def test_critical_rate() -> None:
    assert theory.critical_rate(0.6, 0.9) == pytest.approx(
        AGNOSTIC["A3_eta_crit"]["value"], rel=1e-14
    )


def test_hedged_bound() -> None:
    """The four worlds of 7.7, and the closed form for equal priors."""
    for arms, experts, wanted in ((2, 2, 333), (3, 32, 706), (2, 64, 623)):
        found = theory.hedged_bound(n_arms=arms, steps=10_000, prior=1 / experts)
        assert found.bound == pytest.approx(
            2 * np.sqrt(0.25 + arms * 1e4 * np.log(2 * experts)), rel=1e-12
        )
        assert round(found.bound) == wanted
        to_gts = theory.hedged_bound(
            n_arms=arms, steps=10_000, prior=1 / experts, to_gts=True
        )
        depth = np.log(2 * experts)
        closed = (1 + np.log(2) / depth) * (
            0.5 + np.sqrt(0.25 + arms * 1e4 * depth)
        ) - 1
        assert to_gts.bound == pytest.approx(closed, rel=1e-12)
    # one expert: two members
    one = theory.hedged_bound(n_arms=50, steps=10_000, prior=1.0, trust=0.5)
    assert one.bound == pytest.approx(2 * np.sqrt(0.25 + 2 * 1e4 * np.log(2)))
