"""Worlds with states and several steps per episode. With one step they are bandits,
importance weights are unbiased, and posterior sampling is compared with Q-learning."""

from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.claims.claim import Break, Claim, Experiment, Outcome, Rule, Setup
from oddsmith.claims.drawing import means_and_errors
from oddsmith.claims.judgement import mean_is, most
from oddsmith.core.draw import draw
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.tables import TableExperts
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import band, legend, panels, svg
from oddsmith.lab.episodes.conjugate import TabularPosteriorSampling
from oddsmith.lab.episodes.gps import GeneralizedPosteriorSampling
from oddsmith.lab.episodes.model import EpisodicModel
from oddsmith.lab.episodes.q_learning import QLearning
from oddsmith.lab.episodes.simulate import simulate_episodes
from oddsmith.lab.episodes.values import per_decision
from oddsmith.lab.episodes.world import EpisodicWorld, riverswim
from oddsmith.lab.worlds.tables import random_table

__all__ = ["STATES"]

ONE_STEP = Rule(
    "With episodes of one step, posterior sampling over models is Generalized Thompson "
    "Sampling",
    "Section 5, open question; docs/math 8.1",
    "no propensity differs in 200 decisions",
)
UNBIASED = Rule(
    "Exact propensities give unbiased estimates of the return of any other policy "
    "from the log",
    "docs/math 8.2",
    "the mean over episodes is within Student's quantiles of the exact value",
    1e-3,
    cases=2,
)
BREAKS = (
    Break("eta is 1 % too large", eta=1.01),
    Break("the logged propensities are uniform instead of exact", other="odds"),
)


def states(setup: Setup) -> Outcome:
    """Check the exact statements about reinforcement learning, and measure regret in
    RiverSwim."""
    text = (
        "An expert is a model of a world with states and steps. The posterior uses "
        "whole trajectories, and each action has an exact propensity given the "
        "episode so far. In RiverSwim the large reward is upstream."
    )
    claims = (_one_step(setup), *_unbiased(setup))
    return Outcome("States and steps", text, claims, (_figure(setup),))


def _one_step(setup: Setup) -> Claim:
    table = random_table(5, 9, 4)
    rng = np.random.default_rng(3)
    transitions = np.full((1, 5, 4, 5), 0.2)
    models = []
    for i in range(9):
        models.append(EpisodicModel(table[:, i][None], transitions))
    bandit = GeneralizedThompsonSampling(TableExperts(table), eta=0.5, gamma=0.1)
    episodic = GeneralizedPosteriorSampling(models, eta=setup.eta(0.5), gamma=0.1)
    state = bandit.init()
    episodic_state = episodic.init()
    largest = 0.0
    for _ in range(200):
        context = int(rng.integers(5))
        uniform = float(rng.random())
        reward = float(rng.integers(2))
        odds = bandit.odds(state, context)
        episodic_odds = episodic.odds(episodic_state, context)
        differences = np.abs(odds.propensities - episodic_odds.propensities)
        largest = max(largest, float(differences.max()))
        decision = draw(odds, context, uniform)
        state = bandit.update(state, decision, reward)
        own_decision = draw(episodic_odds, context, uniform)
        same_arm = own_decision._replace(arm=decision.arm)
        episodic_state = episodic.update(episodic_state, same_arm, reward)
    return most(ONE_STEP, "largest difference of propensities", largest, 0.0)


def _unbiased(setup: Setup) -> list[Claim]:
    truth = riverswim(horizon=3, up=0.35)
    models = [truth, riverswim(horizon=3, up=0.05)]
    logger = GeneralizedPosteriorSampling(models, eta=setup.eta(0.5), gamma=0.5)
    world = EpisodicWorld(truth, start=4)
    episodes = setup.steps(20_000, 4000)
    run = simulate_episodes(logger, world, episodes=episodes, seed=2, keep="log")
    log = run.log()
    if setup.wrong.other == "odds":
        log = replace(log, propensities=np.full_like(log.propensities, 0.5))
    claims = []
    targets = (("always right", [0.0, 1.0]), ("uniform", [0.5, 0.5]))
    for name, odds in targets:
        target = np.tile(odds, (3, 6, 1))
        values = truth.values(target[None])
        value = float(values[0, 4])
        returns = 3 * per_decision(log, target).values
        case = f"{name}, {len(log):,} episodes"
        claims.append(mean_is(UNBIASED, case, returns, value))
    return claims


def _figure(setup: Setup) -> Figure:
    world = EpisodicWorld(riverswim())
    episodes = setup.steps(300, 40)
    runs = setup.runs(12) // 2
    chances = (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)
    models = [riverswim(up=up) for up in chances]
    sizes: Any = {"n_states": 6, "n_actions": 2, "horizon": 20}
    no_models = "no models: a posterior for every state and action"
    contenders: dict[str, Any] = {
        "eight candidate models": GeneralizedPosteriorSampling(
            models, eta=1.0, gamma=0.0
        ),
        no_models: TabularPosteriorSampling(**sizes, draws=4),
        "Q-learning, epsilon 0.1": QLearning(**sizes, epsilon=0.1),
    }
    figure, (panel,) = panels()
    for i, (name, policy) in enumerate(contenders.items()):
        run = simulate_episodes(policy, world, episodes=episodes, runs=runs)
        growth = np.cumsum(run.regret, axis=0)
        means, errors = means_and_errors(growth)
        x = np.arange(1.0, episodes + 1)
        band(panel, x, means, errors, i, name)
    panel.set(xscale="log", yscale="log", xlabel="episodes")
    panel.set_ylabel("total regret (lost rewards), RiverSwim")
    legend(panel)
    caption = (
        "The regret of posterior sampling becomes flat; Q-learning with "
        "epsilon-greedy exploration hardly finds the reward."
    )
    return Figure(svg(figure), caption)


STATES = Experiment(states, (ONE_STEP, UNBIASED), BREAKS)
