"""What a prior is worth: regret against ln 1/p, and Bayes regret against H(p*) + KL(p*,
p) (Corollaries 1 and 2)."""

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Experiment, Outcome, Setup, instance, measure
from oddsmith.core.arrays import Array
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, MARKERS, legend, panels, svg
from oddsmith.lab.bayes import bayes_regret
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.tables import random_table

__all__ = ["BAYES", "PRIOR"]

_GAMMA = 0.1


def prior(setup: Setup) -> Outcome:
    """Regret and total gap grow with the logarithm of the prior, and stay under their
    bounds."""
    problem, steps, runs = instance(), setup.steps(4000, 2000), setup.runs(60)
    priors = np.array([0.5, 0.1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
    coefficient = theory.tight_coefficient("square")
    regrets, gaps, plain = [], [], []
    for p in priors:
        believed = _belief(p, problem.table.shape[1])
        policy = setup.gts(
            problem.experts, "square", eta=coefficient.eta, gamma=_GAMMA, prior=believed
        )
        run = measure(policy, problem.world, steps=steps, runs=runs, trace=("gap",))
        gap = run.traces["gap"].sum(axis=0)
        regrets.append(mean_and_error(run.total))
        gaps.append(mean_and_error(gap))
        sampling = setup.gts(problem.experts, "log", eta=1.0, gamma=0.0, prior=believed)
        plain.append(
            mean_and_error(
                measure(sampling, problem.world, steps=steps, runs=runs).total
            )
        )
    surprise = -np.log(priors)
    series = {
        "gap": np.array(gaps),
        "regret": np.array(regrets),
        "plain": np.array(plain),
    }
    text = (
        f"Square loss, eta = 1, gamma = {_GAMMA}, {steps:,} steps. A prior that gives "
        "the truth a millionth of the mass instead of a half costs only a logarithm."
    )
    figure = _prior_figure(surprise, series, coefficient.c, steps)
    return Outcome("Regret against the prior", text, (), (figure,))


def _belief(p: float, n: int) -> Array:
    """p for the truth, the rest shared by the others."""
    return np.array([p] + [(1 - p) / (n - 1)] * (n - 1))


def _prior_figure(
    surprise: Array, series: dict[str, Array], c: float, steps: int
) -> Figure:
    figure, (left, right) = panels(2)
    style = {"marker": MARKERS[0], "color": COLOURS[0]}
    left.errorbar(
        surprise,
        series["gap"][:, 0],
        2 * series["gap"][:, 1],
        label="measured",
        **style,
    )
    left.plot(
        surprise,
        surprise / c,
        "--",
        color=COLOURS[1],
        label="bound ln(1/p)/c (Lemma 1)",
    )
    left.set(
        xlabel="ln 1/p of the true expert (nats)",
        ylabel="total Gibbs gap Σ D (squared reward)",
    )
    left.set_title("What must be learnt")
    right.errorbar(
        surprise,
        series["regret"][:, 0],
        2 * series["regret"][:, 1],
        label=f"GTS, gamma {_GAMMA}",
        **style,
    )
    style = {"marker": "s", "color": COLOURS[2]}
    right.errorbar(
        surprise,
        series["plain"][:, 0],
        2 * series["plain"][:, 1],
        label="Thompson sampling",
        **style,
    )
    right.set(
        xlabel="ln 1/p of the true expert (nats)",
        ylabel=f"regret after {steps:,} steps",
        title="What it costs",
    )
    right.set_ylim(bottom=0)
    for panel in (left, right):
        legend(panel)
    return Figure(
        svg(figure),
        "Both grow in a straight line with the logarithm of the prior's inverse.",
    )


_PEAKED = np.array([0.93] + [0.01] * 7)
_EVEN = np.full(8, 1 / 8)
_PAIRS: dict[str, tuple[Array, Array]] = {
    "a peaked truth, known": (_PEAKED, _PEAKED),
    "an even truth, known": (_EVEN, _EVEN),
    "a peaked truth, even belief": (_PEAKED, _EVEN),
    "an even truth, peaked belief": (_EVEN, _PEAKED),
    "a peaked truth, belief reversed": (_PEAKED, _PEAKED[::-1].copy()),
    "one truth, believed to a millionth": (np.eye(8)[0], _belief(1e-6, 8)),
}


def bayes(setup: Setup) -> Outcome:
    """Bayes regret against H(p*) + KL(p*, p), the quantity that its bound has."""
    steps, runs, gamma = (
        setup.steps(3000, 1500),
        setup.runs(400) * (4 if setup.quick else 1),
        0.02,
    )
    table = random_table(10, 8, 3)
    results = []
    for truth, used in _PAIRS.values():
        result = bayes_regret(
            setup.gts(table, gamma=gamma, prior=used),
            truth,
            steps=steps,
            runs=runs,
            seed=3,
        )
        results.append(result)
    figure, (panel,) = panels()
    for i, (name, result) in enumerate(zip(_PAIRS, results, strict=True)):
        label = f"{name} ({result.surprise:.2f})"
        panel.errorbar(
            result.surprise,
            result.mean,
            2 * result.error,
            fmt=MARKERS[i],
            color=COLOURS[i],
            ms=8,
            label=label,
        )
    panel.set(
        xlabel="H(p*) + KL(p*, p), nats",
        ylabel=f"Bayes regret after {steps:,} steps",
        ylim=(0, None),
    )
    legend(panel)
    text = (
        "8 experts; in each run another one is true, drawn from p*, while the policy "
        "starts from p."
    )
    caption = (
        "The larger the cross entropy of truth and belief, the larger the regret; "
        "equal ones cost about the same."
    )
    return Outcome(
        "Bayes regret and a wrong prior", text, (), (Figure(svg(figure), caption),)
    )


PRIOR, BAYES = Experiment(prior), Experiment(bayes)
