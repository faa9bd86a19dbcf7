"""States and steps: one step is a bandit, importance weights are unbiased, and
posterior sampling beside Q-learning."""

from dataclasses import replace
from typing import Any

import numpy as np

from oddsmith.claims.claim import Break, Claim, Experiment, Outcome, Rule, Setup
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
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.tables import random_table

__all__ = ["STATES"]

ONE_STEP = Rule(
    "With episodes of one step, posterior sampling over models is Generalized Thompson "
    "Sampling",
    "Section 5, open question; docs/math 8.1",
    "no odds differ in 200 decisions",
)
UNBIASED = Rule(
    "Exact odds give the return of any other policy from the log, without bias",
    "docs/math 8.2",
    "the mean over episodes is within Student's quantiles of the exact value",
    1e-3,
    cases=2,
)
BREAKS = (
    Break("eta is 1 % too large", eta=1.01),
    Break("logged odds are uniform, not those that were drawn from", other="odds"),
)


def states(setup: Setup) -> Outcome:
    """The reinforcement-learning question: exact statements, and regret in
    RiverSwim."""
    text = (
        "An expert is a model of a world of states and steps; the posterior follows "
        "whole trajectories, and each action has exact odds given the episode so far. "
        "In RiverSwim the reward is upstream."
    )
    claims = (_one_step(setup), *_unbiased(setup))
    return Outcome("States and steps", text, claims, (_figure(setup),))


def _one_step(setup: Setup) -> Claim:
    table, rng = random_table(5, 9, 4), np.random.default_rng(3)
    models = [
        EpisodicModel(table[:, i][None], np.full((1, 5, 4, 5), 0.2)) for i in range(9)
    ]
    bandit = GeneralizedThompsonSampling(TableExperts(table), eta=0.5, gamma=0.1)
    episodic = GeneralizedPosteriorSampling(models, eta=setup.eta(0.5), gamma=0.1)
    one, other, apart = bandit.init(), episodic.init(), 0.0
    for _ in range(200):
        context, uniform, reward = (
            int(rng.integers(5)),
            float(rng.random()),
            float(rng.integers(2)),
        )
        odds, same = bandit.odds(one, context), episodic.odds(other, context)
        apart = max(apart, float(np.abs(odds.propensities - same.propensities).max()))
        one = bandit.update(one, draw(odds, context, uniform), reward)
        other = episodic.update(
            other,
            draw(same, context, uniform)._replace(arm=draw(odds, context, uniform).arm),
            reward,
        )
    return most(ONE_STEP, "largest difference of odds", apart, 0.0)


def _unbiased(setup: Setup) -> list[Claim]:
    truth = riverswim(horizon=3, up=0.35)
    models = [truth, riverswim(horizon=3, up=0.05)]
    logger = GeneralizedPosteriorSampling(models, eta=setup.eta(0.5), gamma=0.5)
    world = EpisodicWorld(truth, start=4)
    log = simulate_episodes(
        logger, world, episodes=setup.steps(20_000, 4000), seed=2, keep="log"
    ).log()
    if setup.broken.other == "odds":
        log = replace(log, propensities=np.full_like(log.propensities, 0.5))
    claims = []
    for name, odds in (("always right", [0.0, 1.0]), ("uniform", [0.5, 0.5])):
        target = np.tile(odds, (3, 6, 1))
        value = float(truth.values(target[None])[0, 4])
        claims.append(
            mean_is(
                UNBIASED,
                f"{name}, {len(log):,} episodes",
                3 * per_decision(log, target).values,
                value,
            )
        )
    return claims


def _figure(setup: Setup) -> Figure:
    world, episodes, runs = (
        EpisodicWorld(riverswim()),
        setup.steps(300, 40),
        setup.runs(12) // 2,
    )
    guesses = [riverswim(up=up) for up in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4)]
    sizes: Any = {"n_states": 6, "n_actions": 2, "horizon": 20}
    contenders = {
        "eight candidate models": GeneralizedPosteriorSampling(
            guesses, eta=1.0, gamma=0.0
        ),
        "no models: beliefs about every cell": TabularPosteriorSampling(
            **sizes, draws=4
        ),
        "Q-learning, epsilon 0.1": QLearning(**sizes, epsilon=0.1),
    }
    figure, (panel,) = panels()
    for i, (name, policy) in enumerate(contenders.items()):
        regret = np.cumsum(
            simulate_episodes(policy, world, episodes=episodes, runs=runs).regret,
            axis=0,
        )
        points = np.array([mean_and_error(row) for row in regret])
        band(panel, np.arange(1.0, episodes + 1), points[:, 0], points[:, 1], i, name)
    panel.set(
        xscale="log",
        yscale="log",
        xlabel="episodes",
        ylabel="regret so far (lost rewards), RiverSwim",
    )
    legend(panel)
    return Figure(
        svg(figure),
        "Posterior sampling stops losing; Q-learning with epsilon hardly finds the "
        "reward.",
    )


STATES = Experiment(states, (ONE_STEP, UNBIASED), BREAKS)
