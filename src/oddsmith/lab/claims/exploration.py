"""Why gamma > 0: an instance on which no exploration fails, and the phase transition at eta = 1, both exact."""

from math import log

import numpy as np

from oddsmith import theory
from oddsmith.arrays import Array
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.claims.base import Claim, Outcome, Sizes, at_most, gts, measure, shown
from oddsmith.lab.claims.chain import INSTANCE, exact_error, exact_regret
from oddsmith.lab.run import mean_and_error
from oddsmith.policies.recipes import feel_good
from oddsmith.reports.page import Figure
from oddsmith.reports.style import COLOURS, DASHES, EDGE, MARKERS, legend, panels, svg
from oddsmith.worlds.tables import TableWorld

__all__ = ["exploration", "phase"]

_STEPS = 4096
_CASES: dict[str, tuple[str, float, float]] = {
    "Thompson sampling (log, eta 1, gamma 0)": ("log", 1.0, 0.0),
    "log, eta 1/2, gamma 0": ("log", 0.5, 0.0),
    "square, eta 1, gamma 0": ("square", 1.0, 0.0),
    "log, eta 1/2, gamma 0.05": ("log", 0.5, 0.05),
    "square, eta 1, gamma 0.05": ("square", 1.0, 0.05),
}


def exploration(sizes: Sizes) -> Outcome:
    """With a small prior on the truth, gamma = 0 loses almost everything and gamma > 0 does not (X5)."""
    runs, doublings = sizes.runs(200), 12
    figure, axes = panels(2)
    claims: list[Claim] = []
    for panel, prior in zip(axes, (1e-4, 0.1), strict=True):
        world, belief = TableWorld(INSTANCE[:, 0]), [prior, 1 - prior]
        for i, (name, (loss, eta, gamma)) in enumerate(_CASES.items()):
            horizons, exact = exact_regret(loss, eta=eta, gamma=gamma, prior=prior, doublings=doublings)
            panel.plot(horizons, exact, color=COLOURS[i], ls=DASHES[i], label=name)
            policy = gts(INSTANCE, loss, eta=eta, gamma=gamma, prior=belief)
            # rare runs in which nothing is learnt carry much of the mean: many runs, a few hundred at a time
            total = np.concatenate(
                [measure(policy, world, steps=_STEPS, runs=runs, seed=8 + i).total for i in range(10)]
            )
            mean, error = mean_and_error(total)
            panel.errorbar(_STEPS, mean, 2 * error, fmt=MARKERS[i], color=COLOURS[i], ms=5)
            least = exact_error(loss, eta=eta, gamma=gamma, prior=prior, steps=_STEPS, runs=total.size)
            claims += _compared(f"{name}, prior {prior:g}", (exact[-1], least), total, gamma, prior)
        bound = theory.feelgood_bound("log", n_arms=2, steps=_STEPS, prior=prior)
        good = feel_good(TableExperts(INSTANCE), n_arms=2, steps=_STEPS, prior=belief)
        run = measure(good, world, steps=_STEPS, runs=runs)
        claims.append(at_most(f"Feel-Good, gamma 0, prior {prior:g}", "Zhang 2022", run.total, bound.bound))
        panel.plot(horizons, 0.4 * horizons, color=EDGE, lw=1, ls=":", label="0.4 T: nothing is learnt")
        panel.set(xscale="log", yscale="log", xlabel="steps T", title=f"prior of the truth {prior:g}", ylim=(0.3, 2500))
    axes[0].set_ylabel("expected regret (lost rewards)")
    legend(axes[0])
    text = (
        "Only arm 2 tells the two experts apart, and only the true expert wants it: until it is drawn once, nothing "
        "can be learnt. Lines are exact (a Markov chain), points are simulated."
    )
    caption = (
        "Left: without exploration regret is linear for about 1/prior steps; five per cent of exploration end that."
    )
    return Outcome("Why explore: gamma 0 fails", text, tuple(claims), (Figure(svg(figure), caption),))


def _compared(name: str, known: tuple[float, float], total: Array, gamma: float, prior: float) -> list[Claim]:
    """Simulation against the exact mean, within 4 exact standard errors; and the bound (gamma = 0: the lower one)."""
    exact, error = known
    mean, _ = mean_and_error(total)
    close = abs(mean - exact) <= 4 * error
    claims = [Claim(f"simulated = exact: {name}", "docs/math 3.5", f"{exact:,.2f}", shown(mean, error), close)]
    if gamma > 0:
        loss = "log" if name.startswith("log") else "square"
        bound = theory.regret_bound(loss, n_arms=2, steps=_STEPS, prior=prior, gamma=gamma).bound
        claims.append(at_most(f"regret: {name}", "Corollary 1", total, bound, steps=_STEPS))
    else:
        least = 0.4 * (1 - prior) * -np.expm1(_STEPS * np.log1p(-prior)) / prior
        held = exact >= least
        claims.append(
            Claim(f"at least the lower bound: {name}", "docs/math 3.5", f"≥ {least:,.1f}", f"{exact:,.1f}", held)
        )
    return claims


def phase(_: Sizes) -> Outcome:
    """Below eta = 1 regret is bounded, at 1 it grows like ln T, above like T^(1-1/eta): exact dynamic programming."""
    doublings, prior = 30, 0.1
    etas = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)
    curves = {eta: exact_regret("log", eta=eta, gamma=0.0, prior=prior, doublings=doublings) for eta in etas}
    figure, (panel,) = panels()
    for i, (eta, (horizons, regret)) in enumerate(curves.items()):
        panel.plot(
            horizons, regret, color=COLOURS[i], ls=DASHES[i], marker=MARKERS[i], markevery=5, label=f"eta {eta:g}"
        )
    panel.set(xscale="log", yscale="log", xlabel="steps T", ylabel="expected regret (lost rewards), exact")
    legend(panel, title="learning rate")
    claims = [_limit(eta, curves[eta][1][-1], prior) for eta in (0.25, 0.5, 0.75)]
    per_decade = float((curves[1.0][1][-1] - curves[1.0][1][-11]) / (10 * np.log10(2)))
    kl = 0.8 * log(9.0)
    predicted = 0.4 * 9 * log(10) / kl
    held = abs(per_decade / predicted - 1) < 0.02
    what = "regret per decade of steps at eta 1 (Thompson sampling)"
    claims.append(Claim(what, "docs/math 3.5", f"{predicted:.3f}", f"{per_decade:.3f} (exact)", held))
    for eta in (1.5, 2.0, 4.0):
        slope = float(np.log2(curves[eta][1][-1] / curves[eta][1][-16]) / 15)
        expected = 1 - 1 / eta
        held = abs(slope - expected) < 0.06
        what = f"exponent of T at eta {eta:g}, over the last 15 doublings"
        claims.append(Claim(what, "docs/math 3.5", f"{expected:.2f}", f"{slope:.3f} (exact)", held))
    text = (
        "The same instance, log loss, no exploration, prior 0.1, to a thousand million steps. The learning rate "
        "decides between three laws, and Thompson sampling sits exactly on the border. Above eta 1 curves oscillate, "
        "because weights live on a lattice."
    )
    caption = "Bounded below eta 1, a straight climb of 4.7 rewards per tenfold time at 1, a power of T above."
    return Outcome("The phase transition at eta = 1", text, tuple(claims), (Figure(svg(figure), caption),))


def _limit(eta: float, regret: float, prior: float) -> Claim:
    """Δ L_0/(1 - ρ): what a learning rate below 1 costs for ever."""
    rho = 0.9 * 9**-eta + 0.1 * 9**eta
    limit = 0.4 * (1 - prior) / prior / (1 - rho)
    held = abs(regret / limit - 1) < 0.005
    return Claim(f"total regret at eta {eta:g}", "docs/math 3.5", f"{limit:.4f}", f"{regret:.4f} (exact)", held)
