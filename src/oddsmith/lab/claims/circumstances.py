"""Delay, learning rates, a switching truth, a wrong model, rounded rewards: one instance under other conditions."""

from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.arrays import Array
from oddsmith.lab.claims.base import Claim, Outcome, Sizes, at_most, between, gts, in_order, instance, measure, shown
from oddsmith.lab.delays import GeometricDelay
from oddsmith.lab.run import mean_and_error
from oddsmith.policies.recipes import thompson_sampling
from oddsmith.reports.page import Figure
from oddsmith.reports.style import COLOURS, EDGE, MARKERS, legend, panels, svg
from oddsmith.worlds.base import Bernoulli, Beta
from oddsmith.worlds.drifting import SwitchingWorld
from oddsmith.worlds.tables import TableWorld

__all__ = ["delay", "learning_rate", "misspecified", "rounding", "switching"]

_GAMMA = 0.05


def _points(panel: Any, x: Any, totals: list[Array], i: int, label: str) -> None:
    """Means with two standard errors."""
    means = np.array([mean_and_error(total) for total in totals])
    style = {"color": COLOURS[i], "marker": MARKERS[i], "ms": 5}
    panel.errorbar(x, means[:, 0], 2 * means[:, 1], label=label, **style)


def delay(sizes: Sizes) -> Outcome:
    """Late rewards cost an additive term, proportional to the delay."""
    problem, steps, runs = instance(), sizes.steps(6000, 3000), sizes.runs()
    delays, policy = (0, 10, 50, 200, 1000), gts(problem.experts, gamma=_GAMMA)
    late = [measure(policy, problem.world, steps=steps, runs=runs, delay=d).total for d in delays]
    plain = thompson_sampling(policy.experts)
    sampled = [measure(plain, problem.world, steps=steps, runs=runs, delay=d).total for d in delays]
    late_by_chance = [  # runs share their delays, so the error is that of several seeds
        measure(policy, problem.world, steps=steps, runs=10, seed=seed, delay=GeometricDelay(200.0)).total.mean()
        for seed in range(sizes.runs(20) // 2)
    ]
    random = np.array(late_by_chance)
    claims = []
    for d, total in zip(delays, late, strict=True):
        bound = theory.delay_bound("log", n_arms=3, steps=steps, prior=problem.true_prior, delay=d, gamma=_GAMMA).bound
        claims.append(at_most(f"regret with rewards {d:,} steps late", "Section 5", total, bound))
    per_step = float((late[-1].mean() - late[0].mean()) / delays[-1])
    claims.append(between("regret per step of delay", "docs/math 5.10", per_step, 0.0, 1.0))
    same = float(random.mean() / late[3].mean())
    what = "random delays of mean 200 against 200: ratio of regrets"
    claims.append(between(what, "docs/math 5.10", same, 0.5, 1.5))
    figure, (panel,) = panels()
    _points(panel, delays, late, 0, f"GTS, log loss, gamma {_GAMMA}")
    _points(panel, delays, sampled, 1, "Thompson sampling")
    panel.errorbar(
        200,
        random.mean(),
        2 * mean_and_error(random)[1],
        fmt="*",
        ms=12,
        color=COLOURS[2],
        label="random delays, mean 200",
    )
    panel.set(xlabel="delay of every reward (steps)", ylabel=f"regret after {steps:,} steps", ylim=(0, None))
    legend(panel)
    text = "Every reward arrives the same number of steps late (the star: a random number with mean 200)."
    caption = "Regret grows in a straight line with the delay: late rewards count like any others."
    return Outcome("Delayed rewards", text, tuple(claims), (Figure(svg(figure), caption),))


def learning_rate(sizes: Sizes) -> Outcome:
    """On a benign instance a larger eta is better, and flattens; the danger of large eta is another instance's."""
    problem, steps, runs = instance(), sizes.steps(4000, 2000), sizes.runs()
    etas = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
    figure, (panel,) = panels()
    claims = []
    for i, loss in enumerate(("square", "log")):
        totals = [
            measure(gts(problem.experts, loss, eta=eta, gamma=_GAMMA), problem.world, steps=steps, runs=runs).total
            for eta in etas
        ]
        _points(panel, etas, totals, i, f"{loss} loss")
        means = [float(t.mean()) for t in totals]
        claims.append(
            in_order(
                f"regret falls with eta, {loss} loss",
                "Section 5",
                ("eta 1", "1/4", "1/20"),
                [means[4], means[2], means[0]],
            )
        )
        flat = means[-1] / means[-2]
        claims.append(between(f"and flattens: eta 2.5 over eta 1, {loss} loss", "Section 5", flat, 0.8, 1.1))
    panel.set(xscale="log", xlabel="learning rate eta", ylabel=f"regret after {steps:,} steps", ylim=(0, None))
    legend(panel)
    text = f"gamma = {_GAMMA}. The instance is benign; the phase transition above shows where a large eta hurts."
    caption = "Small learning rates are slow; beyond the safe 1/2 (log) and 1 (square) little is gained."
    return Outcome("Learning rates", text, tuple(claims), (Figure(svg(figure), caption),))


def switching(sizes: Sizes) -> Outcome:
    """When the truth switches, fixed share of about switches/T is best, and its bound holds."""
    problem, steps, runs = instance(), sizes.steps(6000, 3000), sizes.runs(60)
    truths, switches = (0, 5, 11, 17), 3
    until = [steps * (i + 1) // len(truths) for i in range(switches)]
    world = SwitchingWorld([TableWorld(problem.table[:, i]) for i in truths], until=until)
    best = switches / (steps - 1)
    shares = (0.0, 1e-4, best, 1e-3, 1e-2, 0.1)
    totals = [measure(gts(problem.experts, gamma=_GAMMA, share=s), world, steps=steps, runs=runs).total for s in shares]
    given: Any = {"n_arms": 3, "steps": steps, "prior": problem.true_prior, "gamma": _GAMMA}
    bound = theory.switching_bound("log", switches=switches, **given)
    means = [float(total.mean()) for total in totals]
    least, best_at = min(means), int(np.argmin(means))
    claims = (
        at_most(f"regret with share = switches/T = {best:.2g}", "docs/math 5.9", totals[2], bound.bound, steps=steps),
        between("the best of the shares tried", "docs/math 5.9", shares[best_at], 1e-4, 1e-2),
        between("regret without share over the best", "docs/math 5.9", means[0] / least, 2.0, np.inf),
        between("regret with share 0.1 over the best", "docs/math 5.9", means[-1] / least, 2.0, np.inf),
    )
    figure, (panel,) = panels()
    shown_at = [2e-5, *shares[1:]]
    _points(panel, shown_at, totals, 0, "GTS, log loss")
    panel.axvline(best, color=EDGE, ls=":", label="switches / T")
    panel.set(
        xscale="log", yscale="log", xlabel="share alpha (leftmost point: none)", ylabel=f"regret after {steps:,} steps"
    )
    legend(panel)
    text = f"The true expert changes {switches} times in {steps:,} steps."
    caption = (
        "A share near the number of switches over T keeps old losers alive at little cost; none at all never recovers."
    )
    return Outcome("A switching truth", text, claims, (Figure(svg(figure), caption),))


def misspecified(sizes: Sizes) -> Outcome:
    """No expert is right: regret stays flat for small errors, then rises steeply, under its bound."""
    problem, steps, runs = instance(), sizes.steps(6000, 3000), sizes.runs()
    errors = (0.0, 0.02, 0.05, 0.1, 0.2)
    signs = np.random.default_rng(11).choice([-1.0, 1.0], problem.table[:, 0].shape)
    totals, claims, bounds = [], [], []
    for error in errors:
        world = TableWorld(np.clip(problem.table[:, 0] + error * signs, 0, 1))
        policy = gts(problem.experts, "square", eta=1.0, gamma=_GAMMA)
        totals.append(measure(policy, world, steps=steps, runs=runs).total)
        bound = theory.misspecified_bound(
            "square", n_arms=3, steps=steps, prior=problem.true_prior, error=error**2, gamma=_GAMMA
        )
        bounds.append(bound.bound)
        claims.append(
            at_most(f"regret when the best expert errs by {error:g}", "docs/math 5.8", totals[-1], bounds[-1])
        )
    means = [float(total.mean()) for total in totals]
    flat, steep = means[2] / means[0], means[4] / means[0]
    claims.append(
        Claim("error 0.05 against none: ratio of regrets", "docs/math 5.8", "near 1", f"{flat:.2f}", flat < 2)
    )
    claims.append(between("error 0.2 over none: ratio of regrets", "docs/math 5.8", steep, 2.0, np.inf))
    figure, (panel,) = panels()
    _points(panel, errors, totals, 0, "GTS, square loss")
    panel.plot(errors, bounds, "--", color=COLOURS[1], label="bound")
    panel.set(xlabel="error of the best expert (reward)", ylabel=f"regret after {steps:,} steps", yscale="log")
    legend(panel)
    text = (
        "Mean rewards are the first expert's predictions plus or minus an error; regret is against the truly best arms."
    )
    caption = "Small errors cost little here, large ones are followed blindly: watch the calibration of your experts."
    return Outcome("When no expert is right", text, tuple(claims), (Figure(svg(figure), caption),))


def rounding(sizes: Sizes) -> Outcome:
    """Rewards in [0, 1] used as they are teach more than the same rewards rounded to 0 or 1 by a coin."""
    problem, steps, runs = instance(), sizes.steps(3000, 1500), sizes.runs(200)
    figure, axes = panels(2, width=4.6)
    claims = []
    for i, loss in enumerate(("square", "log")):
        policy = gts(problem.experts, loss, eta=theory.tight_coefficient(loss).eta, gamma=0.02)
        found = {
            name: measure(policy, problem.world, steps=steps, runs=runs, noise=noise, trace=("gap",))
            for name, noise in (("used as they are", Beta(5.0)), ("rounded by a coin", Bernoulli()))
        }
        gaps = {name: mean_and_error(run.traces["gap"].sum(axis=0)) for name, run in found.items()}
        (direct, e1), (rounded, e2) = gaps.values()
        apart = (rounded - direct) / float(np.hypot(e1, e2))
        measured = f"{shown(direct, e1)} against {shown(rounded, e2)}"
        what = f"total gap, rewards as they are against rounded, {loss} loss"
        claims.append(Claim(what, "Section 2", "smaller", measured, apart > 2))
        for j, (name, run) in enumerate(found.items()):
            mean, error = mean_and_error(run.total)
            axes[i].bar(j, mean, yerr=2 * error, color=COLOURS[j], hatch=("", "//")[j], capsize=4, label=name)
        axes[i].set(
            title=f"{loss} loss", xticks=(0, 1), xticklabels=list(found), ylabel=f"regret after {steps:,} steps"
        )
    text = "Rewards are drawn from Beta distributions. The paper rounds them; nothing in the theory needs that."
    caption = "Rounding throws information away: the same rewards, used as they are, cost less regret."
    return Outcome("Rounding rewards or using them", text, tuple(claims), (Figure(svg(figure), caption),))
