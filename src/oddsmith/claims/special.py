"""Thompson sampling as a special case: with log loss, eta 1 and gamma 0, posterior and
odds are Bayes'."""

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
from oddsmith.claims.judgement import most
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, DASHES, INK, legend, panels, svg

__all__ = ["SPECIAL_CASE"]

POSTERIOR = Rule(
    "With log loss, eta 1 and gamma 0 the weights are Bayes' posterior",
    "Section 3",
    "no weight differs from Bayes' rule by hand by more than 1e-9",
)
ODDS = Rule(
    "and the odds are the probability that an arm is best",
    "Section 3",
    "no odds differ from those of Bayes' posterior by more than 1e-9",
)
BREAKS = (
    Break("eta is 1 % too large", eta=1.01),
    Break("the loss sees predictions off by 0.01", shift=0.01),
)


def special_case(setup: Setup) -> Outcome:
    """The weights are Bayes' posterior, multiplied out by hand, and the odds the
    probability of being the best arm."""
    problem, steps, runs = instance(), 400, setup.runs(50)
    policy = setup.gts(problem.experts, eta=1.0)
    run = measure(
        policy, problem.world, steps=steps, runs=runs, trace=("posterior", "odds")
    )
    contexts = np.stack(run.contexts)
    # (T, runs, N): what each expert gave the drawn arm
    predicted = problem.table[contexts, :, run.arms]
    likelihood = np.where(run.rewards[..., None] == 1, predicted, 1 - predicted)
    before = np.concatenate(
        [np.ones((1, *likelihood.shape[1:])), np.cumprod(likelihood, axis=0)[:-1]]
    )
    bayes = before / before.sum(axis=-1, keepdims=True)
    best = problem.table.argmax(axis=-1)[contexts]
    odds = np.stack(
        [(bayes * (best == arm)).sum(axis=-1) for arm in range(problem.n_arms)], axis=-1
    )
    off = float(np.abs(bayes - run.traces["posterior"]).max())
    odds_off = float(np.abs(odds - run.traces["odds"]).max())
    claims = (
        most(POSTERIOR, "largest difference", off, 1e-9),
        most(ODDS, "largest difference", odds_off, 1e-9),
    )
    figure, (panel,) = panels()
    leaders = np.argsort(-run.traces["posterior"][60, 0])[:4]
    shown = slice(0, 150)
    at = np.arange(1, steps + 1)
    for i, expert in enumerate(leaders):
        who = "the true expert" if expert == 0 else f"expert {expert}"
        panel.plot(
            at[shown],
            run.traces["posterior"][shown, 0, expert],
            color=COLOURS[i],
            ls=DASHES[i],
            label=who,
        )
        panel.plot(
            at[shown][::6],
            bayes[shown, 0, expert][::6],
            "o",
            mfc="none",
            color=COLOURS[i],
            ms=5,
        )
    panel.plot([], [], "o", mfc="none", color=INK, label="Bayes' rule, by hand")
    panel.set(xlabel="steps", ylabel="probability of being true", ylim=(0, 1))
    legend(panel)
    text = (
        "With log loss, eta 1 and gamma 0 every weight is multiplied by the likelihood "
        "of the reward: Bayes' rule."
    )
    caption = (
        "One run: the weights (lines) and the posterior multiplied out by hand (rings) "
        "are the same."
    )
    return Outcome(
        "Thompson sampling as a special case",
        text,
        claims,
        (Figure(svg(figure), caption),),
    )


SPECIAL_CASE = Experiment(special_case, (POSTERIOR, ODDS), BREAKS)
