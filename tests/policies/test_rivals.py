"""Policies over experts next to their formulas: vectors of 20 digits, and each paper's
rule worked by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.experts.ballots import inverse_gap
from oddsmith.lab import simulate
from oddsmith.lab.worlds import TableWorld
from oddsmith.lab.worlds.tables import random_table
from oddsmith.policies.fastcb import fast_gap
from oddsmith.policies.parts.oracles import mixture, predicted, vovk
from oddsmith.policies.regressor_elimination import EliminationState, balanced
from paper.reference import VECTORS, experts_of, floats, rational

TABLES = experts_of("square_paper")
THREE = od.GivenExperts(["a", "b", "c"])


def drawn(odds: od.Odds, arm: int) -> od.Decision:
    """The decision that drew this arm."""
    decision = od.draw(odds, None, 0.5)
    return decision._replace(
        arm=arm, advice=None if odds.advice is None else odds.advice[:, arm]
    )


def test_squarecb_vectors() -> None:
    case = VECTORS["squarecb"]
    policy = od.policies.SquareCB(THREE, sharpness=20.0, prior=floats(case["prior"]))
    state = policy.init()
    for step in case["steps"]:
        predictions = TABLES[step["context"]]
        weights = policy.posterior(state)[:, None]
        np.testing.assert_allclose(
            vovk(weights, predictions), floats(step["vovk_prediction"]), atol=1e-12
        )
        np.testing.assert_allclose(
            mixture(weights, predictions), floats(step["posterior_mean"]), atol=1e-12
        )
        odds = policy.odds(state, predictions)
        np.testing.assert_allclose(odds.propensities, floats(step["probs"]), atol=1e-12)
        state = policy.update(state, drawn(odds, step["arm"]), rational(step["reward"]))
        np.testing.assert_allclose(
            policy.posterior(state), floats(step["posterior_after"]), atol=1e-12
        )


@pytest.mark.parametrize("case", VECTORS["igw"])
def test_inverse_gap_vectors(case: Any) -> None:
    found = inverse_gap(np.array(floats(case["rewards"])), rational(case["gamma"]))
    np.testing.assert_allclose(found, floats(case["probs"]), atol=1e-12)


@pytest.mark.parametrize("case", VECTORS["fastcb"])
def test_fast_gap_vectors(case: Any) -> None:
    costs, wanted = np.array(floats(case["costs"])), np.array(floats(case["probs"]))
    found = fast_gap(1 - costs, rational(case["gamma"]))
    best = costs == costs.min()  # the paper gives all to one of them; here they share
    wanted[best] = wanted[best].mean()
    np.testing.assert_allclose(found, wanted, atol=1e-12)


def test_fastcb_puts_all_on_a_free_arm() -> None:
    np.testing.assert_array_equal(fast_gap(np.array([0.4, 1.0, 0.9]), 30.0), [0, 1, 0])


def test_exp4_vectors() -> None:
    policy = od.policies.EXP4(THREE, eta=0.1)
    state = policy.init()
    for step in VECTORS["exp4"]["steps"]:
        odds = policy.odds(state, TABLES[step["context"]])
        np.testing.assert_allclose(odds.propensities, floats(step["probs"]), atol=1e-12)
        state = policy.update(state, drawn(odds, step["arm"]), rational(step["reward"]))
        np.testing.assert_allclose(
            policy.posterior(state), floats(step["weights_after"]), atol=1e-12
        )


def test_exp4p_by_hand() -> None:
    """Beygelzimer et al. 2011, Algorithm 1: two experts, two arms, one step."""
    policy = od.policies.EXP4P(od.GivenExperts(["left", "right"]), steps=50, delta=0.1)
    p = np.sqrt(np.log(2) / (2 * 50))
    odds = policy.odds(policy.init(), np.array([[0.9, 0.1], [0.2, 0.8]]))
    np.testing.assert_allclose(odds.propensities, [0.5, 0.5])
    state = policy.update(policy.init(), drawn(odds, 0), 0.6)
    width = np.sqrt(np.log(2 / 0.1) / (2 * 50))
    left = np.exp(p / 2 * (0.6 / 0.5 + width * (1 / 0.5)))
    right = np.exp(p / 2 * (0.0 + width * (1 / 0.5)))
    np.testing.assert_allclose(
        policy.posterior(state),
        [left / (left + right), right / (left + right)],
        atol=1e-14,
    )
    later = policy.odds(state, np.array([[0.9, 0.1], [0.2, 0.8]])).propensities
    np.testing.assert_allclose(
        later[0], (1 - 2 * p) * left / (left + right) + p, atol=1e-14
    )


@pytest.mark.parametrize("case", VECTORS["re_balanced"])
def test_balanced_vectors(case: Any) -> None:
    ballots = np.eye(2)[np.array(case["actions"])].transpose(1, 0, 2)
    odds = np.array(floats(case["context_probs"]))
    found = balanced(ballots, odds, slack=1e-7)
    np.testing.assert_allclose(found, floats(case["balanced"]), atol=1e-3)


@pytest.mark.parametrize("seed", range(5))
def test_balanced_satisfies_its_condition(seed: int) -> None:
    """E_x 1/Pr(π_i(x)|x) <= E_x |A| for all experts, on random tables, within 1e-3;
    whoever is out has no mass."""
    table = random_table(7, 12, 4, seed)
    ballots = np.eye(4)[table.argmax(axis=2)]
    alive = np.random.default_rng(seed).random(12) < 0.7
    mass = balanced(ballots, np.full(7, 1 / 7), alive)
    assert mass.sum() == pytest.approx(1)
    assert (mass[~alive] == 0).all()
    odds = np.einsum("n,xnk->xk", mass, ballots)
    wanted = ballots[:, alive].any(axis=1).sum(axis=1).mean()
    for i in np.flatnonzero(alive):
        assert np.mean(
            [1 / odds[x, table[x, i].argmax()] for x in range(7)]
        ) <= wanted * (1 + 1e-3)


@pytest.mark.parametrize("loss", [od.square_loss, od.log_loss])
def test_elimination_keeps_the_truth_and_drops_the_others(loss: Any) -> None:
    table = random_table(10, 16, 3)
    policy = od.policies.RegressorElimination(
        od.TableExperts(table), np.arange(10), loss
    )
    run = simulate(policy, TableWorld(table[:, 0]), steps=1500, runs=10, seed=2)
    # each run keeps it with probability 0.95 at least
    assert run.state.alive[:, 0].all()
    assert run.state.alive.sum() < 10 * 8
    bound = od.theory.regressor_elimination_bound(
        n_arms=3, steps=1500, prior=1 / 16
    ).bound
    assert run.total.mean() < bound
    assert run.total.mean() < 60


def test_elimination_over_banks_of_banks_is_elimination_over_all_experts() -> None:
    """A stack of banks has a state with a part for each."""
    table = random_table(10, 4, 3)
    parts = [
        od.TableExperts(table[:, i : i + 2], names=[f"{i}", f"{i + 1}"]) for i in (0, 2)
    ]
    flat, stacked = (
        od.policies.RegressorElimination(bank, np.arange(10))
        for bank in (od.TableExperts(table), od.stack(*parts))
    )
    for context in range(10):
        ours = stacked.odds(stacked.init(), context).propensities
        assert (ours == flat.odds(flat.init(), context).propensities).all()


def test_elimination_thresholds_by_hand() -> None:
    table = random_table(3, 4, 2)
    sharp = od.policies.RegressorElimination(
        od.TableExperts(table), np.arange(3), delta=0.1
    )
    original = od.policies.RegressorElimination(
        od.TableExperts(table), np.arange(3), delta=0.1, threshold="original"
    )
    assert sharp.slack(1) == sharp.slack(1000) == pytest.approx(np.log(4 / 0.1))
    assert original.slack(8) == pytest.approx(18 * np.log(2 * 4 * 8**3 * 3 / 0.1))
    state = sharp.init()._replace(losses=np.array([0.0, 3.6, 3.7, 1.0]))
    decision = od.decide(sharp, state, 1, 0.3, step=1)._replace(advice=np.full(4, 0.5))
    np.testing.assert_array_equal(
        sharp.update(state, decision, 0.5).alive, [True, True, False, True]
    )
    mixed = original.odds(original.init(), 0).propensities
    # mu = 1/(2K), over at most two arms
    assert (mixed[mixed > 0] >= 1 / 4 / 2 - 1e-12).all()


@pytest.mark.parametrize("carried", [True, False])
def test_elimination_charges_sleepers_the_mix_of_the_awake(carried: bool) -> None:
    """An infinite loss among the awake is a mix of 0.3 = (0 + 0.6)/2, no infinite mean:
    as in GTS."""
    table = np.array([[[0.0, 0.9], [0.6, 0.4], [np.nan, np.nan]]])
    policy = od.policies.RegressorElimination(
        od.TableExperts(table), np.array([0]), od.log_loss
    )
    gts = od.GeneralizedThompsonSampling(policy.experts, eta=1.0, gamma=0.0)
    balance = np.array([0.5, 0.5, 0.0])
    state = policy.init()._replace(balance=balance)
    decision = drawn(policy.odds(state, 0), 0)
    np.testing.assert_array_equal(decision.advice, [0.0, 0.6, np.nan])
    assert decision.log_weights is not None
    after = policy.update(
        state, decision if carried else decision._replace(log_weights=None), 1.0
    )
    np.testing.assert_array_equal(after.alive, [False, True, True])
    np.testing.assert_allclose(after.losses, [np.inf, -np.log(0.6), -np.log(0.3)])
    np.testing.assert_allclose(after.losses, -gts.factors(decision, 1.0))
    pair = policy.init((2,))._replace(balance=np.stack([balance, balance]))
    both = policy.update(
        pair,
        od.draw(policy.odds(pair, np.array([0, 0])), None, np.zeros(2)),
        np.array([1.0, 0.0]),
    )
    np.testing.assert_array_equal(both.alive[0], after.alive)
    np.testing.assert_allclose(both.losses[1], -np.log([1.0, 0.4, 0.7]), atol=1e-15)


def test_elimination_charges_a_late_reward_with_the_balance_it_was_drawn_with() -> None:
    table = np.array([[[0.2, 0.9], [0.6, 0.4], [np.nan, np.nan]]])
    policy = od.policies.RegressorElimination(
        od.TableExperts(table), np.array([0]), od.square_loss
    )
    early = policy.init()._replace(balance=np.array([0.25, 0.75, 0.0]))
    decision = drawn(policy.odds(early, 0), 0)
    late = policy.init()._replace(balance=np.array([0.9, 0.1, 0.0]))
    right = -np.log(0.25 * np.exp(-0.64) + 0.75 * np.exp(-0.16))
    assert policy.update(late, decision, 1.0).losses[2] == pytest.approx(right)


def test_epoch_greedy_by_hand() -> None:
    """Epoch l explores once, then exploits floor(sqrt(l/(K ln N))/scale) times; values
    are importance weighted."""
    experts = od.GivenExperts(["left", "right"])
    policy = od.policies.EpochGreedy(experts, scale=0.4)
    spread = 0.4 * np.sqrt(2 * np.log(2))
    step, expected = 1, []
    for epoch in range(1, 60):
        expected.append(step)
        step += 1 + int(1 / min(1.0, spread / np.sqrt(epoch)))
    explored = [t for t in range(1, expected[-1] + 1) if policy.explores_at(t, 2)]
    assert explored == expected
    predictions = np.array([[0.9, 0.1], [0.2, 0.8]])
    state = policy.init()
    odds = policy.odds(state, predictions, step=1)
    np.testing.assert_allclose(odds.propensities, [0.5, 0.5])
    state = policy.update(state, drawn(odds, 1), 0.7)
    np.testing.assert_allclose(state.values, [0.0, 0.7 / 0.5])
    np.testing.assert_allclose(
        policy.odds(state, predictions, step=2).propensities, [0, 1]
    )
    late = policy.update(state, drawn(policy.odds(state, predictions, step=2), 1), 1.0)
    # what exploits teaches nothing
    np.testing.assert_array_equal(late.values, state.values)


def test_oracles_leave_out_who_has_no_opinion() -> None:
    said = np.array([[0.2, np.nan, np.nan], [0.6, 0.4, np.nan]])
    for kind in ("vovk", "mixture"):
        found = predicted(kind, np.zeros(2), said)
        assert found[1] == pytest.approx(0.4)
        assert found[2] == pytest.approx(found[:2].mean())
        np.testing.assert_array_equal(
            predicted(kind, np.zeros(2), np.full((2, 3), np.nan)), 0.5
        )


@pytest.mark.parametrize("kind", ["vovk", "mixture"])
def test_oracle_regret_is_at_most_half_of_ln_n(kind: Any) -> None:
    """E Σ (ŷ - f_1)² <= ln(N)/2 on the drawn arms, for both oracles (theory 5.2)."""
    table = random_table(10, 16, 3)
    policy = od.policies.SquareCB(od.TableExperts(table), sharpness=50.0, oracle=kind)
    world, total = TableWorld(table[:, 0]), np.zeros(240)
    state, rng = policy.init((240,)), np.random.default_rng(0)
    for t in range(600):
        x = world.context(t + 1, 240, rng)
        guess = predicted(kind, state.log_weights, policy.experts.predict((), x))
        decision = od.decide(policy, state, x, rng.random(240), step=t + 1)
        means = world.means(t + 1, x)
        total += (decision.propensities * (guess - means) ** 2).sum(axis=-1)
        mean = np.take_along_axis(means, decision.arm[:, None], axis=-1)[:, 0]
        state = policy.update(state, decision, (rng.random(240) < mean).astype(float))
    assert total.mean() + 2 * total.std() / np.sqrt(240) < np.log(16) / 2


@pytest.mark.parametrize("name", ["exp4", "squarecb", "feel_good"])
def test_recipes_have_the_settings_of_their_bounds(name: str) -> None:
    table = random_table()
    experts, problem = od.TableExperts(table), {"n_arms": 3, "steps": 2000}
    policy = getattr(od.policies, name)(experts, **problem)
    bounds: Any = {
        "exp4": od.theory.exp4_bound,
        "squarecb": od.theory.squarecb_bound,
        "feel_good": od.theory.feelgood_bound,
    }
    bound = bounds[name](prior=1 / 32, **problem)
    total = simulate(policy, TableWorld(table[:, 0]), steps=2000, runs=20, seed=3).total
    assert total.mean() < bound.bound
    assert od.policies.follow_the_leader(experts).gamma == 0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: od.policies.EXP4(THREE, eta=0.0), "eta must be"),
        (lambda: od.policies.EXP4P(THREE, steps=0), "steps must be"),
        (lambda: od.policies.EXP4P(THREE, steps=10, delta=1.0), "delta must be"),
        (lambda: od.policies.SquareCB(THREE, sharpness=-1.0), "sharpness must be"),
        (
            lambda: od.policies.FastCB(THREE, sharpness=5.0, oracle="crystal"),  # type: ignore[arg-type]
            "oracle must be one of vovk, mixture",
        ),
        (lambda: od.policies.EpochGreedy(THREE, scale=0.0), "scale must be"),
        (
            lambda: od.policies.SquareCB(THREE, sharpness=1.0, prior=[0.5, 0.5]),
            "prior must have",
        ),
        (
            lambda: od.policies.RegressorElimination(
                od.TableExperts(random_table()), 3
            ),
            "contexts must be a sample",
        ),
        (
            lambda: od.policies.RegressorElimination(
                od.TableExperts(random_table()), np.arange(3), delta=0
            ),
            "delta must be",
        ),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    with pytest.raises(od.InvalidInput, match=message):
        make()


def test_a_prediction_outside_the_loss_is_no_sleep() -> None:
    said = np.array([[1.2, 0.5], [0.4, 0.6], [np.nan, np.nan]])
    for policy in (
        od.policies.FastCB(THREE, sharpness=5.0),
        od.policies.SquareCB(THREE, sharpness=5.0, oracle="mixture"),
    ):
        decision = drawn(policy.odds(policy.init(), said), 0)
        with pytest.raises(od.errors.OutOfDomain, match=r"got NaN for 1\.2"):
            policy.update(policy.init(), decision, 1.0)


def test_vovk_far_from_the_unit_interval_is_a_number() -> None:
    found = vovk(np.array([[0.5], [0.5]]), np.array([[25.0, 3.0], [30.0, 2.0]]))
    assert np.isfinite(found).all()
    policy = od.policies.SquareCB(od.GivenExperts(["a", "b"]), sharpness=5.0)
    assert np.isfinite(
        policy.odds(policy.init(), np.array([[25.0, 3.0], [30.0, 2.0]])).propensities
    ).all()


def test_elimination_of_everybody_is_refused() -> None:
    table = np.array([[[0.0, 0.9], [0.0, 0.4]]])
    policy = od.policies.RegressorElimination(
        od.TableExperts(table), np.array([0]), od.log_loss
    )
    decision = drawn(policy.odds(policy.init(), 0), 0)
    with pytest.raises(od.errors.AllExpertsRefuted, match="probability zero"):
        policy.update(policy.init(), decision, 1.0)
    gone = EliminationState(
        np.array([np.inf, 1.0]), np.array([False, True]), np.array([0.0, 1.0]), 3
    )
    asleep = decision._replace(advice=np.array([0.0, np.nan]), log_weights=np.zeros(2))
    # no survivor spoke: nothing is charged
    assert policy.update(gone, asleep, 1.0).losses[1] == 1.0
    with pytest.raises(od.InvalidInput, match="an expert has a prediction"):
        od.policies.RegressorElimination(
            od.TableExperts(np.full((1, 2, 2), np.nan)), np.array([0])
        )


def test_epoch_greedy_with_a_changing_number_of_arms() -> None:
    """A list of decisions with two and three arms teaches what they teach one by
    one."""
    policy, rng = (
        od.policies.EpochGreedy(od.GivenExperts(["a", "b"]), scale=0.3),
        np.random.default_rng(0),
    )
    state, decisions = policy.init(), []
    rewards = rng.random(40)
    for t in range(40):
        said = rng.random((2, 2 + t % 2))
        decisions.append(
            od.decide(policy, state, said, float(rng.random()), step=t + 1)
        )
        state = policy.update(state, decisions[-1], float(rewards[t]))
    np.testing.assert_allclose(
        od.fold(policy, policy.init(), decisions, rewards).values, state.values
    )


@pytest.mark.parametrize(
    "recipe", [od.policies.feel_good, od.policies.exp4, od.policies.squarecb, od.tuned]
)
def test_recipes_take_a_prior_by_name(
    recipe: Callable[..., od.policies.SquareCB],
) -> None:
    by_name = recipe(
        od.GivenExperts(["a", "b"]), n_arms=2, steps=100, prior={"b": 0.1, "a": 0.9}
    )
    in_order = recipe(
        od.GivenExperts(["a", "b"]), n_arms=2, steps=100, prior=[0.9, 0.1]
    )
    assert od.fingerprint(by_name) == od.fingerprint(in_order)


@pytest.mark.parametrize("rule", [inverse_gap, fast_gap])
@pytest.mark.parametrize("mask", [None, np.array([True, True, True, False])])
def test_rounding_does_not_decide_who_is_best(rule: Any, mask: Any) -> None:
    """Arms that differ in the last bits share, whatever their order."""
    means = np.array([0.7, 0.7, 0.3, 0.2])
    even = rule(means, 20.0, mask)
    assert even[0] == even[1] > even[2] > 0
    assert even.sum() == pytest.approx(1, abs=1e-15)
    for bits in (1, 2, 1000):
        for arm in (0, 1):
            near = means.copy()
            near[arm] += bits * np.spacing(0.7)
            np.testing.assert_allclose(rule(near, 20.0, mask), even, atol=1e-10)
    apart = rule(np.array([0.7, 0.7 + 1e-9, 0.3, 0.2]), 20.0, mask)
    assert apart[1] > even[1] > apart[0]
