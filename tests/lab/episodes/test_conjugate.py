"""Posterior sampling by draws: exact for the draws, right in the limit, and counted by
hand; Q-learning beside it."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import oddsmith as od
from lab.episodes.tiny import forced
from oddsmith.lab.episodes import EpisodeAgent, QLearning, TabularPosteriorSampling
from oddsmith.lab.episodes.conjugate import _Counts


def played(policy: Any, steps: list[tuple[int, int, float]]) -> Any:
    """The state after these states, actions and rewards."""
    state = policy.init()
    for place, action, reward in steps:
        state = policy.update(
            state, forced(policy.odds(state, place), place, np.array(action)), reward
        )
    return state


def test_odds_are_exact_for_the_draws() -> None:
    """Each draw plays its own best plan: the odds are the share of the draws that
    agree, and gamma's, by Bayes."""
    policy = TabularPosteriorSampling(3, 3, horizon=3, draws=50, gamma=0.2, seed=3)
    rng, state = np.random.default_rng(1), policy.init()
    for episode in range(4):
        best, agree, product = state.q.argmax(axis=-1), np.ones(50, dtype=bool), 1.0
        assert (state.episodes, state.members.step) == (episode, 0)
        for h in range(3):
            place = int(rng.integers(3))
            odds = policy.odds(state, place)
            action = od.draw(odds, place, float(rng.random())).arm
            product *= odds.propensities[action]
            agree &= best[:, h, place] == action
            assert product == pytest.approx(
                0.8 * agree.mean() + 0.2 / 3 ** (h + 1), rel=1e-12
            )
            state = policy.update(state, forced(odds, place, np.array(action)), 1.0)


def test_with_one_step_many_draws_are_beta_thompson_sampling() -> None:
    """40,000 draws: each of the odds is within 5 standard errors of the integral; wrong
    once in a million."""
    policy = TabularPosteriorSampling(1, 3, horizon=1, draws=40_000, gamma=0.0)
    exact = od.BetaThompsonSampling(3, wins=1.0, losses=1.0, gamma=0.0)
    rewards = [(0, 0, 1.0), (0, 0, 0.0), (0, 1, 1.0), (0, 2, 0.0), (0, 2, 0.0)]
    state = played(policy, rewards)
    other = exact.init()
    for _, action, reward in rewards:
        other = exact.update(
            other, forced(exact.odds(other, None), None, np.array(action)), reward
        )
    p = exact.odds(other, None).propensities
    np.testing.assert_array_less(
        np.abs(policy.odds(state, 0).propensities - p),
        5 * np.sqrt(p * (1 - p) / 40_000),
    )


def test_counts_are_what_was_seen() -> None:
    policy = TabularPosteriorSampling(2, 2, horizon=3, draws=2)
    state = played(policy, [(0, 1, 1.0), (1, 0, 0.25), (1, 0, 0.0), (0, 1, 0.0)])
    assert state.moves[0, 1].tolist() == [0, 1]
    # the state after the last step of an episode is not seen
    assert state.moves[1, 0].tolist() == [0, 1]
    assert state.moves.sum() == 2
    assert (state.wins[0, 1], state.losses[0, 1]) == (1, 1)
    assert (state.wins[1, 0], state.losses[1, 0]) == (0.25, 1.75)
    ended = policy.end(state, 1)
    assert (ended.moves[0, 1].tolist(), ended.episodes) == ([0, 2], 2)
    assert policy.end(ended) is ended


def test_draws_follow_the_posterior() -> None:
    """Mean transition and reward of 4,000 draws, within 5 standard errors of their
    exact means; eta halves counts."""
    for eta, alpha in ((1.0, 1.0), (0.5, 1 / 6)):
        policy = TabularPosteriorSampling(
            2, 1, horizon=2, draws=1, eta=eta, alpha=alpha
        )
        moves = np.broadcast_to(np.array([[[8.0, 2.0]], [[0.0, 0.0]]]), (4000, 2, 1, 2))
        wins = np.broadcast_to(np.array([[6.0], [0.0]]), (4000, 2, 1))
        losses = np.broadcast_to(np.array([[2.0], [0.0]]), (4000, 2, 1))
        models = policy._draw_models(
            np.random.default_rng(2), _Counts(moves, wins, losses)
        )
        up = models.transitions[:, 0, 0, 0, 1]
        mean = models.rewards[:, 0, 0, 0]
        expected = (
            (alpha + eta * 2) / (2 * alpha + eta * 10),
            (1 + eta * 6) / (2 + eta * 8),
        )
        for found, exact in zip((up, mean), expected, strict=True):
            assert abs(found.mean() - exact) < 5 * found.std() / np.sqrt(4000)


def test_a_seed_fixes_the_draws_and_a_saved_agent_goes_on(tmp_path: Path) -> None:
    policy = TabularPosteriorSampling(2, 2, horizon=2, draws=8, seed=4)
    agents = [EpisodeAgent(policy, seed=1), EpisodeAgent(policy, seed=1)]
    for agent in agents:
        for _ in range(5):
            agent.begin()
            for place in (0, 1):
                agent.observe(float(agent.decide(place).arm))
    agents[1].save(tmp_path / "agent.npz")
    agents[1] = EpisodeAgent.load(
        tmp_path / "agent.npz",
        TabularPosteriorSampling(2, 2, horizon=2, draws=8, seed=4),
    )
    np.testing.assert_array_equal(agents[0].odds(0), agents[1].odds(0))
    other = TabularPosteriorSampling(2, 2, horizon=2, draws=8, seed=5)
    assert not np.array_equal(other.init().q, policy.init().q)
    with pytest.raises(od.BadFile, match=r"policy.seed was 4.0, is 5.0"):
        EpisodeAgent.load(tmp_path / "agent.npz", other)
    shown = policy.explain(policy.init(), 0)
    assert shown.names[0] == "draw 1 of 8"
    total = (1 - shown.uniform.sum()) * shown.weights @ shown.ballots + shown.uniform
    np.testing.assert_allclose(total, shown.propensities, atol=1e-15)


def test_q_learning_is_its_formula() -> None:
    """Random trajectories of two batch rows, against a loop over dictionaries."""
    policy, rng = (
        QLearning(3, 2, horizon=3, epsilon=0.2, initial=1.0),
        np.random.default_rng(6),
    )
    state = policy.init((2,))
    tables: list[dict[tuple[int, ...], float]] = [{}, {}]
    visits: list[dict[tuple[int, ...], int]] = [{}, {}]
    for _ in range(30):
        places, actions = rng.integers(0, 3, (3, 2)), rng.integers(0, 2, (3, 2))
        rewards = rng.random((3, 2))
        for h in range(3):
            odds = policy.odds(state, places[h])
            for row in (0, 1):
                values = [tables[row].get((h, places[h][row], a), 1.0) for a in (0, 1)]
                best = [value == max(values) for value in values]
                assert odds.propensities[row].tolist() == pytest.approx(
                    [0.1 + 0.8 * b / sum(best) for b in best]
                )
            state = policy.update(
                state, forced(odds, places[h], actions[h]), rewards[h]
            )
            for row in (0, 1):
                if h:
                    _step(
                        tables[row],
                        visits[row],
                        (h - 1, places[h - 1][row], actions[h - 1][row]),
                        rewards[h - 1][row]
                        + max(
                            tables[row].get((h, places[h][row], a), 1.0) for a in (0, 1)
                        ),
                    )
                if h == 2:
                    _step(
                        tables[row],
                        visits[row],
                        (h, places[h][row], actions[h][row]),
                        rewards[h][row],
                    )
    for row in (0, 1):
        for (h, s, a), value in tables[row].items():
            assert state.q[row, 0, h, s, a] == pytest.approx(value, rel=1e-12)


def _step(
    table: dict[tuple[int, ...], float],
    visits: dict[tuple[int, ...], int],
    cell: Any,
    target: float,
) -> None:
    visits[cell] = visits.get(cell, 0) + 1
    before = table.get(cell, 1.0)
    table[cell] = before + 4 / (3 + visits[cell]) * (target - before)


def test_settings_are_checked() -> None:
    with pytest.raises(
        od.InvalidInput, match="draws must be a whole number of at least 1; got 0"
    ):
        TabularPosteriorSampling(2, 2, horizon=2, draws=0)
    with pytest.raises(od.InvalidInput, match=r"alpha must be in \(0"):
        TabularPosteriorSampling(2, 2, horizon=2, alpha=0.0)
    with pytest.raises(od.InvalidInput, match=r"initial must be in \[0, 2\]; got 3"):
        QLearning(2, 2, horizon=2, initial=3.0)
