"""What a run keeps: its log, the Gibbs gap, Bayes regret."""

from typing import Any

import numpy as np
import pytest

import oddsmith as od
from oddsmith.lab import BayesRegret, Run, bayes_regret, simulate
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds import TableWorld

TABLE = np.clip(np.random.default_rng(7).beta(2, 2, (6, 8, 3)), 0.05, 0.95)
POLICY = od.GeneralizedThompsonSampling(od.TableExperts(TABLE), gamma=0.1)


class Coin(od.Policy):
    """Draws an arm at random and learns nothing."""

    def init(self, shape: tuple[int, ...] = ()) -> tuple[int, ...]:
        return shape

    def odds(
        self, state: Any, context: Any, *, eligible: Any = None, step: Any = None
    ) -> od.Odds:
        return od.Odds(np.full((*state, 3), 1 / 3))

    def update(self, state: Any, decision: od.Decision, reward: Any) -> Any:
        return state


def test_the_log_of_a_run_folds_to_its_state() -> None:
    run = simulate(POLICY, TableWorld(TABLE[:, 0]), steps=80, runs=3, trace="log")
    for i in range(3):
        log = run.log(i)
        np.testing.assert_array_equal(log.arm, run.arms[:, i])
        np.testing.assert_array_equal(log.step, np.arange(1, 81))
        state = od.fold(POLICY, POLICY.init(), log.decisions(), log.reward)
        np.testing.assert_allclose(
            state.log_weights, run.state.log_weights[i], atol=1e-12
        )


def test_no_log_without_decisions() -> None:
    kept = simulate(POLICY, TableWorld(TABLE[:, 0]), steps=5, runs=2, trace=("log",))
    dropped = simulate(POLICY, TableWorld(TABLE[:, 0]), steps=5, runs=2)
    with pytest.raises(od.InvalidInput, match="trace="):
        dropped.log()
    with pytest.raises(od.InvalidInput, match="run must be"):
        kept.log(2)


def test_the_gap_is_the_sum_over_experts_and_arms() -> None:
    run = simulate(
        POLICY,
        TableWorld(TABLE[:, 0]),
        steps=30,
        runs=2,
        trace=("gap", "posterior", "odds"),
    )
    for t, i in [(0, 0), (12, 1), (29, 0)]:
        x = run.contexts[t][i]
        by_hand = sum(
            run.traces["posterior"][t, i, n]
            * run.traces["odds"][t, i, a]
            * (TABLE[x, n, a] - TABLE[x, 0, a]) ** 2
            for n in range(8)
            for a in range(3)
        )
        assert run.traces["gap"][t, i] == pytest.approx(by_hand, rel=1e-12)


def test_total_gap_stays_under_lemma_1() -> None:
    """E Σ D_t <= L/c for any T: log loss at eta 1/2 has c = 1/2."""
    run = simulate(POLICY, TableWorld(TABLE[:, 0]), steps=1000, runs=40, trace=("gap",))
    mean, error = mean_and_error(run.traces["gap"].sum(axis=0))
    assert mean + 4 * error < 2 * np.log(8)


def test_traces_of_weights_need_weights() -> None:
    assert isinstance(
        simulate(Coin(), TableWorld(TABLE[:, 0]), steps=3, trace=("odds",)), Run
    )
    with pytest.raises(od.InvalidInput, match="needs a policy with a posterior"):
        simulate(Coin(), TableWorld(TABLE[:, 0]), steps=3, trace=("gap",))


def test_bayes_regret_knows_the_surprise() -> None:
    truth, used = np.array([0.5, 0.5, 0, 0, 0, 0, 0, 0]), np.full(8, 1 / 8)
    found = bayes_regret(
        od.GeneralizedThompsonSampling(od.TableExperts(TABLE), gamma=0.0),
        truth,
        steps=40,
        runs=30,
    )
    assert isinstance(found, BayesRegret)
    assert found.surprise == pytest.approx(np.log(8))  # H + KL = Σ p* ln 1/p
    assert found.mean == pytest.approx(found.run.total.mean())
    half = -(truth[:2] @ np.log(truth[:2]))
    kl = truth[:2] @ np.log(truth[:2] / used[:2])
    assert found.surprise == pytest.approx(half + kl)


@pytest.mark.parametrize("wrong", [[0.5, 0.5], np.full(8, 0.2)])
def test_bayes_regret_wants_a_prior_over_the_same_experts(wrong: Any) -> None:
    with pytest.raises(od.InvalidInput, match="true_prior must"):
        bayes_regret(POLICY, wrong, steps=5)
    with pytest.raises(od.InvalidInput, match="policy must be"):
        bayes_regret(od.Bounded(POLICY, floors=0.01), np.full(8, 1 / 8), steps=5)  # type: ignore[arg-type]
