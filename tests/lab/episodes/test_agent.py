"""EpisodeAgent: the order of its calls, its log, its file; and what a policy
refuses."""

from pathlib import Path

import numpy as np
import pytest

import oddsmith as od
from lab.episodes.tiny import r1
from oddsmith.lab.episodes import (
    EpisodeAgent,
    EpisodeLog,
    EpisodicModel,
    GeneralizedPosteriorSampling,
)
from oddsmith.lab.episodes.world import EpisodicWorld, chain


def gps(gamma: float = 0.1) -> GeneralizedPosteriorSampling:
    return GeneralizedPosteriorSampling(
        dict(zip("abc", r1(), strict=True)), eta=1.0, gamma=gamma
    )


def play(agent: EpisodeAgent, episodes: int, seed: int) -> None:
    world, rng = EpisodicWorld(r1()[0]), np.random.default_rng(seed)
    for _ in range(episodes):
        agent.begin()
        place = world.first(1, rng)
        for h in range(2):
            action = agent.decide(int(place[0])).arm
            reward, place = world.step(h, (place, np.array([action])), rng)
            agent.observe(reward[0])


def test_weights_are_frozen_within_an_episode_and_learnt_at_its_end() -> None:
    agent = EpisodeAgent(gps(), seed=1)
    assert agent.begin() == 1
    agent.decide(0)
    agent.observe(1)
    assert list(agent.posterior().values()) == pytest.approx([1 / 3] * 3, abs=1e-15)
    decision = agent.decide(1)
    assert decision.propensities == pytest.approx(agent.odds(1))
    agent.observe(0)
    assert max(agent.posterior().values()) > 0.4
    assert agent.begin() == 2


def test_it_learns_the_truth_and_logs_what_it_drew() -> None:
    agent = EpisodeAgent(gps(), seed=3)
    play(agent, 60, seed=4)
    assert agent.posterior()["a"] > 0.99
    log = agent.log()
    assert (len(log), log.horizon, log.propensities.shape) == (60, 2, (60, 2, 2))
    assert (log.drawn_odds > 0).all()
    assert log.is_played.all()


def test_calls_out_of_order_are_refused_and_lose_nothing() -> None:
    agent = EpisodeAgent(gps(), seed=1)
    with pytest.raises(od.InvalidInput, match=r"call begin\(\)"):
        agent.decide(0)
    agent.begin()
    with pytest.raises(od.InvalidInput, match=r"end\(\) ends it here"):
        agent.begin()
    with pytest.raises(od.InvalidInput, match=r"call decide\(\)"):
        agent.observe(1)
    with pytest.raises(od.InvalidInput, match=r"state 0 … 1; got 2"):
        agent.decide(2)
    agent.decide(0)
    for call in (lambda: agent.decide(0), agent.end):
        with pytest.raises(od.InvalidInput, match=r"call observe\(\)"):
            call()
    with pytest.raises(od.InvalidInput, match=r"reward must be in \[0, 1\]"):
        agent.observe(2)
    agent.observe(1)
    agent.decide(1)
    agent.observe(1)
    agent.end()
    assert len(agent.log()) == 1
    with pytest.raises(od.InvalidInput, match="seed must be given"):
        EpisodeAgent(gps())
    with pytest.raises(od.InvalidInput, match="policy must be a policy for episodes"):
        EpisodeAgent(od.policies.UCB1(2), seed=1)  # type: ignore[arg-type]


def test_an_episode_that_ends_early_scores_what_was_seen() -> None:
    """The move to the last state is scored where that is a state, by log loss; weights
    by hand."""
    for last, moves in ((None, [1.0, 1.0]), (1, [0.8, 0.2])):
        models = [
            EpisodicModel.stationary(
                [[0.5, 0.1], [0.5, 0.5]], [[[1 - up, up]] * 2] * 2, horizon=3
            )
            for up in (0.8, 0.2)
        ]
        agent = EpisodeAgent(
            GeneralizedPosteriorSampling(models, eta=1.0, gamma=0.1), seed=1
        )
        agent.begin()
        agent.decide(0)
        agent.observe(1)
        agent.end(last)
        expected = np.array(moves) / np.sum(moves)
        assert list(agent.posterior().values()) == pytest.approx(
            expected.tolist(), rel=1e-12
        )
        assert agent.log().actions[0, 1:].tolist() == [-1, -1]


def test_a_saved_agent_goes_on_with_the_same_draws(tmp_path: Path) -> None:
    agent = EpisodeAgent(gps(), seed=9)
    play(agent, 10, seed=1)
    agent.save(tmp_path / "agent.npz")
    again = EpisodeAgent.load(tmp_path / "agent.npz", gps())
    for one in (agent, again):
        play(one, 10, seed=2)
    assert agent.posterior() == again.posterior()
    np.testing.assert_array_equal(agent.log().actions[10:], again.log().actions)
    with pytest.raises(od.BadFile, match=r"policy.gamma was 0.1, is 0.2"):
        EpisodeAgent.load(tmp_path / "agent.npz", gps(0.2))
    other = od.Agent(od.uniform(od.GivenExperts(["a"])), seed=1)
    other.save(tmp_path / "bandit.npz")
    with pytest.raises(od.BadFile, match=r"EpisodeAgent.save"):
        EpisodeAgent.load(tmp_path / "bandit.npz", od.uniform(od.GivenExperts(["a"])))  # type: ignore[arg-type]
    agent.begin()
    with pytest.raises(
        od.InvalidInput, match="between episodes; episode 21 has not ended"
    ):
        agent.save(tmp_path / "agent.npz")


def test_settings_of_a_model_change_the_fingerprint() -> None:
    one, other = (
        GeneralizedPosteriorSampling([chain(), chain(right=r)]) for r in (0.1, 0.2)
    )
    assert od.fingerprint(one) != od.fingerprint(other)
    assert od.fingerprint(one) == od.fingerprint(
        GeneralizedPosteriorSampling([chain(), chain(right=0.1)])
    )


def test_what_models_must_be() -> None:
    with pytest.raises(
        od.InvalidInput,
        match="models must be a list of EpisodicModel, or a dict by name; got int",
    ):
        GeneralizedPosteriorSampling(7)
    with pytest.raises(od.InvalidInput, match="at least 1"):
        GeneralizedPosteriorSampling([])
    with pytest.raises(
        od.InvalidInput, match=r"must be EpisodicModel; got str for 'model 0'"
    ):
        GeneralizedPosteriorSampling(["x"])
    with pytest.raises(
        od.InvalidInput,
        match=r"have the same steps, states and actions, \(3, 3, 2\); got \(2, 2, 2\)",
    ):
        GeneralizedPosteriorSampling([chain(), r1()[0]])
    with pytest.raises(
        od.InvalidInput, match="explore must be one of uniform, policies; got 'none'"
    ):
        GeneralizedPosteriorSampling(r1(), explore="none")
    with pytest.raises(od.InvalidInput, match="eta must be"):
        GeneralizedPosteriorSampling(r1(), eta=0.0)


def test_a_move_that_no_model_allows_is_refused_in_a_sentence() -> None:
    policy = GeneralizedPosteriorSampling([chain(), chain(right=0.1)])
    state = policy.update(policy.init(), od.decide(policy, policy.init(), 0, 0.0), 0.0)
    decision = od.decide(policy, state, 2, 0.0)
    with pytest.raises(
        od.errors.AllExpertsRefuted,
        match="a move to state 2 has probability zero under every model",
    ):
        policy.update(state, decision, 0.0)


def test_explain_shows_plans_and_those_who_are_left() -> None:
    policy = gps()
    # action 0: only b's plan
    state = policy.update(policy.init(), od.decide(policy, policy.init(), 0, 0.0), 0.0)
    shown = policy.explain(state, 0)
    np.testing.assert_allclose(shown.weights, [0, 1, 0])
    total = (1 - shown.uniform.sum()) * shown.weights @ shown.ballots + shown.uniform
    np.testing.assert_allclose(total, shown.propensities, atol=1e-15)
    assert policy.named_posterior(state, None) == pytest.approx(
        {"a": 1 / 3, "b": 1 / 3, "c": 1 / 3}
    )


def test_a_log_is_checked() -> None:
    good: dict[str, object] = {
        "states": [[0, 1]],
        "actions": [[1, 0]],
        "rewards": [[0, 1]],
    }
    odds = [[[0.5, 0.5], [0.9, 0.1]]]
    assert EpisodeLog(**good, propensities=odds).drawn_odds.tolist() == [[0.5, 0.9]]
    wrong: list[tuple[dict[str, object], object, str]] = [
        ({"actions": [[1, 2]]}, odds, "actions must be 0 … 1"),
        ({"actions": [[-1, 0]]}, odds, "must not continue after its end"),
        ({"rewards": [[0, 2]]}, odds, r"rewards must be in \[0, 1\]"),
        ({"rewards": [[0]]}, odds, "same episodes and steps"),
        ({"states": [[0.5, 1]]}, odds, "states must be whole numbers"),
        (
            {},
            [[[0.5, 0.5], [0.0, 1.0]]],
            r"propensities of drawn actions must be in \[1e-12, 1\]; got 0",
        ),
        ({}, [[[0.5, 0.6], [0.9, 0.1]]], "sum to 1"),
    ]
    for change, with_odds, message in wrong:
        with pytest.raises(od.InvalidInput, match=message):
            EpisodeLog(**good | change, propensities=with_odds)
