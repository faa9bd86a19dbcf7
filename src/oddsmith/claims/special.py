"""Thompson sampling as a special case: with log loss, eta 1 and gamma 0, GTS has the
posterior and the propensities of Bayes' rule."""

from typing import Any

import numpy as np

from oddsmith.claims.claim import (
    Break,
    Experiment,
    Outcome,
    Rule,
    Setup,
    instance,
    measure,
)
from oddsmith.claims.drawing import line_style
from oddsmith.claims.judgement import most
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, INK, legend, panels, svg

__all__ = ["SPECIAL_CASE"]

_STEPS = 400

POSTERIOR = Rule(
    "With log loss, eta 1 and gamma 0 the weights are Bayes' posterior",
    "Section 3",
    "no weight differs from an independent computation of Bayes' rule by more than "
    "1e-9",
)
ODDS = Rule(
    "The propensity of each arm is the posterior probability that it is best",
    "Section 3",
    "no propensity differs from that of Bayes' posterior by more than 1e-9",
)
BREAKS = (
    Break("eta is 1 % too large", eta=1.01),
    Break("the loss sees predictions off by 0.01", shift=0.01),
)


def special_case(setup: Setup) -> Outcome:
    """Check that the weights are Bayes' posterior, computed independently, and the
    propensities the probability of being the best arm."""
    problem = instance()
    policy = setup.gts(problem.experts, eta=1.0)
    traces = ("posterior", "odds")
    run = measure(
        policy, problem.world, steps=_STEPS, runs=setup.runs(50), trace=traces
    )
    posterior = run.traces["posterior"]
    contexts = np.stack(run.contexts)
    # each expert's prediction for the drawn arm (T, runs, N)
    predicted = problem.table[contexts, :, run.arms]
    is_won = run.rewards[..., None] == 1
    likelihood = np.where(is_won, predicted, 1 - predicted)
    start = np.ones((1, *likelihood.shape[1:]))
    products = np.cumprod(likelihood, axis=0)
    before = np.concatenate([start, products[:-1]])
    bayes = before / before.sum(axis=-1, keepdims=True)
    best = problem.table.argmax(axis=-1)[contexts]
    of_arms = []
    for arm in range(problem.n_arms):
        of_arm = bayes * (best == arm)
        of_arms.append(of_arm.sum(axis=-1))
    odds = np.stack(of_arms, axis=-1)
    difference = np.abs(bayes - posterior)
    off = float(difference.max())
    odds_difference = np.abs(odds - run.traces["odds"])
    odds_off = float(odds_difference.max())
    claims = (
        most(POSTERIOR, "largest difference", off, 1e-9),
        most(ODDS, "largest difference", odds_off, 1e-9),
    )
    text = (
        "With log loss, eta 1 and gamma 0 every weight is multiplied by the "
        "likelihood of the reward, which is Bayes' rule."
    )
    figure = _figure(posterior[:, 0], bayes[:, 0])
    return Outcome("Thompson sampling as a special case", text, claims, (figure,))


def _figure(posterior: Array, bayes: Array) -> Figure:
    """Draw the weights and Bayes' posterior (T, N) of the four leading experts in one
    run."""
    figure, (panel,) = panels()
    leaders = np.argsort(-posterior[60])[:4]
    steps = np.arange(1, _STEPS + 1)[:150]
    for i, expert in enumerate(leaders):
        label = "the true expert"
        if expert != 0:
            label = f"expert {expert}"
        line = line_style(i) | {"label": label}
        panel.plot(steps, posterior[:150, expert], **line)
        rings: Any = {"mfc": "none", "color": COLOURS[i], "ms": 5}
        marks = bayes[:150:6, expert]
        panel.plot(steps[::6], marks, "o", **rings)
    panel.plot([], [], "o", mfc="none", color=INK, label="Bayes' rule, independently")
    panel.set(xlabel="steps", ylabel="probability of being right", ylim=(0, 1))
    legend(panel)
    caption = (
        "One run: the weights (lines) equal the posterior of an independent "
        "computation (rings)."
    )
    return Figure(svg(figure), caption)


SPECIAL_CASE = Experiment(special_case, (POSTERIOR, ODDS), BREAKS)
