"""The paper's first open question, measured: whether exploration is needed, and how regret grows with T."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.arrays import Array, Ints
from oddsmith.lab.claims.base import Claim, Outcome, Sizes, gts, measure
from oddsmith.lab.claims.chain import INSTANCE, exact_regret
from oddsmith.lab.run import mean_and_error
from oddsmith.policies.recipes import feel_good, squarecb
from oddsmith.reports.page import Figure
from oddsmith.reports.style import COLOURS, DASHES, MARKERS, legend, panels, svg
from oddsmith.worlds.tables import TableWorld

__all__ = ["slopes"]


class _Rates(NamedTuple):
    """Horizons, mean regret, its standard error (0: exact), and the power of ln T in the bound."""

    horizons: Array
    mean: Array
    error: Array
    logs: float
    most: float


def slopes(sizes: Sizes) -> Outcome:
    """On f_1 = (0.5, 0.9), all others (0.5, 0.1), p_1 = 1/T: fitted exponents of T, with intervals."""
    doublings = np.arange(7, sizes.steps(16, 12))
    runs = sizes.runs(200)
    curves = {
        "GTS, gamma 0": _exact(doublings, explore=False),
        "GTS, tuned gamma": _exact(doublings, explore=True),
        "SquareCB": _simulated(doublings, "SquareCB", runs),
        "Feel-Good": _simulated(doublings, "Feel-Good", runs),
    }
    claims, shown = [], {}
    for name, curve in curves.items():
        slope, width = _fit(curve)
        shown[name] = f"{name}: {slope:.3f} ± {width:.3f}"
        if name == "GTS, gamma 0":
            what, held = f"exponent of T: {name}", abs(slope - 1) <= width + 0.02
            claims.append(Claim(what, "Section 5, open question", "1", f"{slope:.3f} ± {width:.3f}", held))
            continue
        what = f"exponent of T beside (ln T)^{curve.logs:.2g}: {name}"
        predicted = f"≤ {curve.most:.3f} + interval"
        held = slope <= curve.most + width
        claims.append(Claim(what, "Section 5, open question", predicted, f"{slope:.3f} ± {width:.3f}", held))
    text = (
        "T experts; the true one has prior 1/T, all others agree and never try the arm that would refute them. The "
        "paper asks whether GTS can do without exploration, and whether its rate can be improved. Without exploration "
        "regret is linear. With it GTS stays below its T^(2/3), while Feel-Good and SquareCB reach T^(1/2) on the same "
        "experts. Each bound is a power of T times one of ln(1/p_1) = ln T; the fitted exponents are those beside it. "
        "The two GTS curves are exact."
    )
    return Outcome("The open question: rates", text, tuple(claims), (_figure(curves, shown),))


def _exact(doublings: Ints, *, explore: bool) -> _Rates:
    """Exact regret at T = 2^k with prior 1/T; gamma of the bound, or 0."""
    regrets = []
    for k in doublings:
        steps = 2.0**k
        gamma = theory.regret_bound("log", n_arms=2, steps=steps, prior=1 / steps).gamma if explore else 0.0
        settings: Any = {"eta": 0.5, "gamma": float(gamma or 0.0), "prior": 1 / steps, "doublings": int(k)}
        regrets.append(exact_regret("log", **settings)[1][-1])
    logs, most = (1 / 3, 2 / 3) if explore else (0.0, 1.0)
    return _Rates(np.exp2(doublings), np.array(regrets), np.zeros(len(doublings)), logs, most)


def _simulated(doublings: Ints, name: str, runs: int) -> _Rates:
    world, regrets = TableWorld(INSTANCE[:, 0]), []
    for k in doublings:
        steps = 2 ** int(k)
        prior = [1 / steps, 1 - 1 / steps]
        experts = gts(INSTANCE).experts
        recipe: Any = squarecb if name == "SquareCB" else feel_good
        policy = recipe(experts, n_arms=2, steps=steps, prior=prior)
        regrets.append(mean_and_error(measure(policy, world, steps=steps, runs=runs, seed=9).total))
    mean, error = np.array(regrets).T
    return _Rates(np.exp2(doublings), mean, error, 0.5, 0.5)


def _fit(curve: _Rates) -> tuple[float, float]:
    """The exponent of T by least squares on log scales, and two standard errors (of the fit and of the means)."""
    x = np.log(curve.horizons)
    y = np.log(curve.mean) - curve.logs * np.log(x)
    centred = x - x.mean()
    weights = centred / (centred**2).sum()
    slope = float(weights @ y)
    residual = y - y.mean() - slope * centred
    scatter = (residual**2).sum() / max(len(x) - 2, 1)
    variance = weights**2 @ (scatter + (curve.error / curve.mean) ** 2)
    return slope, float(2 * np.sqrt(variance))


def _figure(curves: dict[str, _Rates], shown: dict[str, str]) -> Figure:
    figure, (panel,) = panels()
    for i, (name, curve) in enumerate(curves.items()):
        style = {"color": COLOURS[i], "marker": MARKERS[i], "ls": DASHES[i], "ms": 5}
        panel.errorbar(curve.horizons, curve.mean, 2 * curve.error, label=shown[name], **style)
    panel.set(xscale="log", yscale="log", xlabel="horizon T (steps); the truth's prior is 1/T", ylabel="regret")
    legend(panel, title="exponent of T")
    caption = "On log scales: no exploration is linear, tuned exploration stays below slope 2/3, the rivals have 1/2."
    return Figure(svg(figure), caption)
