"""The gallery: every algorithm on the same worlds, with regret, time and bounds side by side."""

import time
from collections.abc import Callable
from typing import Any

from oddsmith import theory
from oddsmith.arrays import Array
from oddsmith.lab.claims.base import Claim, Outcome, Sizes, at_most
from oddsmith.lab.problems import Problem
from oddsmith.lab.run import Run, mean_and_error
from oddsmith.lab.simulate import simulate
from oddsmith.policies import recipes
from oddsmith.policies.base import Policy
from oddsmith.policies.beta_thompson import BetaThompsonSampling
from oddsmith.policies.epoch_greedy import EpochGreedy
from oddsmith.policies.exp4p import EXP4P
from oddsmith.policies.families import LogisticFamily
from oddsmith.policies.fastcb import FastCB
from oddsmith.policies.glm_ucb import GLMUCB
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.kl_ucb import KLUCB
from oddsmith.policies.linear_thompson import LinearThompsonSampling
from oddsmith.policies.linucb import LinUCB
from oddsmith.policies.logistic_thompson import LogisticThompsonSampling
from oddsmith.policies.particles import ParticleThompsonSampling
from oddsmith.policies.probit import ProbitThompsonSampling
from oddsmith.policies.regressor_elimination import RegressorElimination
from oddsmith.policies.ucb1 import UCB1
from oddsmith.reports.page import Figure, Table
from oddsmith.reports.style import COLOURS, panels, svg
from oddsmith.theory.bounds import Bound

__all__ = ["everyone", "show"]


Entry = tuple[Policy, Bound | None]


def everyone(problem: Problem, steps: int) -> dict[str, Entry]:
    """Every algorithm for this problem, with the bound that applies to it there."""
    return _over_experts(problem, steps) | _over_arms(problem) | _over_features(problem)


def _over_experts(problem: Problem, steps: int) -> dict[str, Entry]:
    experts, n_arms, prior = problem.experts, problem.n_arms, problem.prior
    asked: Any = {"n_arms": n_arms, "steps": steps, "prior": prior}
    known: Any = {"n_arms": n_arms, "steps": steps, "prior": problem.true_prior}
    right = problem.truth is not None

    def if_right(bound: Callable[..., Bound], *loss: Any) -> Bound | None:
        return bound(*loss, **known) if right else None

    entries: dict[str, Entry] = {
        "GTS, tuned": (recipes.tuned(experts, **asked), if_right(theory.regret_bound, "log")),
        "GTS, gamma 0.02": (GeneralizedThompsonSampling(experts, gamma=0.02, prior=prior), None),
        "Thompson sampling": (recipes.thompson_sampling(experts, prior), None),
        "Feel-Good": (recipes.feel_good(experts, **asked), if_right(theory.feelgood_bound, "log")),
        "SquareCB": (recipes.squarecb(experts, **asked), if_right(theory.squarecb_bound)),
        "FastCB": (FastCB(experts, sharpness=10.0 * n_arms, prior=prior), None),
        "EXP4": (recipes.exp4(experts, **asked), theory.exp4_bound(**known)),
        "EXP4.P": (EXP4P(experts, steps=steps, prior=prior), None),
        "Epoch-Greedy": (EpochGreedy(experts, scale=0.2), None),
        "epsilon-greedy": (recipes.epsilon_greedy(experts, epsilon=0.05), None),
        "follow the leader": (recipes.follow_the_leader(experts), None),
        "uniform": (recipes.uniform(experts), None),
    }
    if problem.contexts is not None:
        bound = if_right(theory.regressor_elimination_bound) if prior is None else None
        entries["elimination"] = (RegressorElimination(experts, problem.contexts), bound)
    return entries


def _over_arms(problem: Problem) -> dict[str, Entry]:
    n = problem.n_arms
    return {"UCB1": (UCB1(n), None), "KL-UCB": (KLUCB(n), None), "Beta Thompson": (BetaThompsonSampling(n), None)}


def _over_features(problem: Problem) -> dict[str, Entry]:
    n = None if problem.features is None else problem.n_arms
    dim = len(problem.columns)
    policies: dict[str, Any] = {
        "LinUCB": LinUCB(dim, n, alpha=0.3),
        "linear Thompson": LinearThompsonSampling(dim, n, width=0.3, directions=256),
        "optimistic Bayes": LinearThompsonSampling(dim, n, width=0.3, optimist=True, directions=256),
        "logistic Thompson": LogisticThompsonSampling(dim, n, directions=256),
        "GLM-UCB": GLMUCB(dim, n, alpha=0.1),
        "adPredictor": ProbitThompsonSampling(dim, n, directions=256),
    }
    if problem.features is None:
        policies["particles"] = ParticleThompsonSampling(LogisticFamily(), dim, n_particles=128)
    else:
        policies = {name: problem.seen_by(policy) for name, policy in policies.items()}
    return {name: (policy, None) for name, policy in policies.items()}


def show(
    problem: Problem, sizes: Sizes, *, about: tuple[str, str], steps: tuple[int, int] = (3000, 600), runs: int = 24
) -> Outcome:
    """Every algorithm simulated: a title and a text, a table, a figure, and the claims that bounds hold."""
    n_steps, n_runs = sizes.steps(*steps), min(sizes.runs(runs), 8 if sizes.quick else runs)
    found: dict[str, tuple[Any, float, Bound | None]] = {}
    for name, (policy, bound) in everyone(problem, n_steps).items():
        start = time.perf_counter()
        run = simulate(policy, problem.world, steps=n_steps, runs=n_runs, seed=5)
        seconds = time.perf_counter() - start
        found[name] = _total(run, problem), seconds / (n_steps * n_runs), bound
    ranked = sorted(found.items(), key=lambda item: float(item[1][0].mean()))
    claims = [
        at_most(f"{name}: regret in this world", _WHERE.get(name, "docs/math 5"), total, bound.bound, steps=n_steps)
        for name, (total, _, bound) in ranked
        if bound is not None
    ]
    claims.append(_sanity(ranked))
    rows = [_row(name, *entry) for name, entry in ranked]
    table = Table(("algorithm", f"regret after {n_steps:,} steps", "± s.e.", "µs per step", "bound"), tuple(rows))
    return Outcome(*about, tuple(claims), (_figure(ranked, problem, n_steps),), (table,))


_COUNTING = ("UCB1", "KL-UCB", "Beta Thompson")
_LINEAR = (
    "LinUCB",
    "linear Thompson",
    "optimistic Bayes",
    "logistic Thompson",
    "GLM-UCB",
    "adPredictor",
    "particles",
)
_WHERE = {"GTS, tuned": "Theorem 1"}


def _total(run: Run, problem: Problem) -> Array:
    """Regret of each run: to the best arm where an expert is right, else to the best expert (equation 1)."""
    return run.total if problem.truth is not None else run.regret_to(problem.experts)


def _sanity(ranked: list[Any]) -> Claim:
    """Somebody learns: the best is far below uniform play."""
    best, worst = ranked[0], dict(ranked)["uniform"]
    share = float(best[1][0].mean() / worst[0].mean())
    return Claim(f"the best ({best[0]}) over uniform play", "Section 5", "≤ 0.5", f"{share:.3f}", share <= 0.5)


def _row(name: str, total: Any, seconds: float, bound: Bound | None) -> tuple[str, ...]:
    mean, error = mean_and_error(total)
    return name, f"{mean:,.1f}", f"{error:.2g}", f"{seconds * 1e6:.2g}", "" if bound is None else f"{bound.bound:,.0f}"


def _figure(ranked: list[Any], problem: Problem, steps: int) -> Figure:
    figure, (panel,) = panels(1, width=8.5, height=6.4)
    for i, (name, (total, _, bound)) in enumerate(reversed(ranked)):
        mean, error = mean_and_error(total)
        panel.barh(i, max(mean, 0.1), xerr=2 * error, color=COLOURS[_family(name)], height=0.7)
        if bound is not None:
            panel.plot([bound.bound] * 2, [i - 0.4, i + 0.4], color="black", lw=1.5)
    names = [name for name, _ in reversed(ranked)]
    panel.set(yticks=range(len(names)), yticklabels=names, xscale="log")
    against = "the best arm" if problem.truth is not None else "the best expert"
    panel.set_xlabel(f"regret to {against} after {steps:,} steps (black mark: its bound)")
    for i, family in enumerate(("over experts", "without contexts", "linear and logistic")):
        panel.barh([0], [0], color=COLOURS[i], label=family)
    panel.legend(frameon=False, loc="lower center", bbox_to_anchor=(0.45, 1.0), ncol=3)
    panel.set_axisbelow(True)
    return Figure(svg(figure), "Shorter is better; bars end at the mean, with two standard errors.")


def _family(name: str) -> int:
    if name in ("UCB1", "KL-UCB", "Beta Thompson"):
        return 1
    return (
        2
        if name
        in ("LinUCB", "linear Thompson", "optimistic Bayes", "logistic Thompson", "GLM-UCB", "adPredictor", "particles")
        else 0
    )
