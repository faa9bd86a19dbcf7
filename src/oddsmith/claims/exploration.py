"""Why gamma > 0: a problem in which a policy that does not explore fails, and the phase
transition at eta = 1. Both are computed exactly."""

from math import log
from typing import Any, NamedTuple

import numpy as np

from oddsmith.claims.chain import (
    GAP,
    INSTANCE,
    exact_error,
    exact_regret,
    exact_regret_at,
)
from oddsmith.claims.claim import (
    Break,
    Claim,
    Experiment,
    Outcome,
    Rule,
    Setup,
    measure,
)
from oddsmith.claims.drawing import line_style
from oddsmith.claims.judgement import equal, least, mean_is
from oddsmith.experts.tables import TableExperts
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import (
    COLOURS,
    EDGE,
    MARKERS,
    legend,
    panels,
    svg,
)
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.worlds.tables import TableWorld
from oddsmith.policies.recipes import feel_good

__all__ = ["EXPLORATION", "PHASE"]

SIMULATED = Rule(
    "The regret of the simulation engine in the world of two experts is that of the "
    "exact chain",
    "docs/math 3.5",
    "the mean over runs is within normal quantiles of its exact standard error",
    1e-3,
    cases=10,
)
LINEAR = Rule(
    "Without exploration regret is linear for 1/prior steps: gamma > 0 is needed",
    "Section 5, open question",
    "exact regret at gamma 0 is at least Δ (1-p) (1-(1-p)^T)/p",
    cases=3,
)
BOUNDED = Rule(
    "Below eta = 1 regret is bounded without exploration",
    "docs/math 3.5",
    "exact regret after 2^30 steps is Δ (1-p)/p / (1-ρ), to 0.5 % for the remaining "
    "steps",
    cases=3,
)
DECADE = Rule(
    "At eta = 1, Thompson sampling, regret grows like ln T",
    "docs/math 3.5",
    "exact regret per decade of steps is Δ (1-p)/p ln 10 / kl, to 2 % for the finite T",
)
POWER = Rule(
    "Above eta = 1 regret grows like T^(1-1/eta)",
    "docs/math 3.5",
    "exact exponent over whole periods of the lattice (T to 9^eta T) is 1 - 1/eta, to "
    "0.01 for the finite T",
    cases=3,
)


class _Learner(NamedTuple):
    loss: str
    eta: float
    gamma: float


_WORLD = TableWorld(INSTANCE[:, 0])
_DOUBLINGS = 12
_STEPS = 2**_DOUBLINGS
_CASES = {
    "Thompson sampling (log, eta 1, gamma 0)": _Learner("log", 1.0, 0.0),
    "log, eta 1/2, gamma 0": _Learner("log", 0.5, 0.0),
    "square, eta 1, gamma 0": _Learner("square", 1.0, 0.0),
    "log, eta 1/2, gamma 0.05": _Learner("log", 0.5, 0.05),
    "square, eta 1, gamma 0.05": _Learner("square", 1.0, 0.05),
}


def exploration(setup: Setup) -> Outcome:
    """Show that with a small prior on the right expert gamma = 0 loses almost
    everything, and gamma > 0 does not (X5)."""
    figure, axes = panels(2)
    claims: list[Claim] = []
    for panel, prior in zip(axes, (1e-4, 0.1), strict=True):
        for i, (name, learner) in enumerate(_CASES.items()):
            claims += _learner_claims(setup, panel, prior, i, name, learner)
        belief = [prior, 1 - prior]
        good = feel_good(TableExperts(INSTANCE), n_arms=2, steps=_STEPS, prior=belief)
        run = measure(good, _WORLD, steps=_STEPS, runs=setup.runs(200))
        mean, error = mean_and_error(run.total)
        style: Any = {"fmt": MARKERS[5], "color": COLOURS[5], "ms": 5}
        panel.errorbar(_STEPS, mean, error, label="Feel-Good, gamma 0", **style)
        doubled = np.arange(_DOUBLINGS + 1, dtype=np.float64)
        horizons = np.exp2(doubled)
        style = {"color": EDGE, "lw": 1, "ls": ":"}
        panel.plot(horizons, GAP * horizons, label="0.4 T: nothing is learnt", **style)
        panel.set(xscale="log", yscale="log", ylim=(0.3, 2500))
        panel.set(xlabel="steps T", title=f"prior of the truth {prior:g}")
    axes[0].set_ylabel("expected regret (lost rewards)")
    legend(axes[0])
    text = (
        "Only arm 2 distinguishes the two experts, and only the right expert votes "
        "for it: until arm 2 is drawn once, nothing can be learnt. Lines are exact "
        "(a Markov chain), points are simulated."
    )
    caption = (
        "Left: without exploration regret is linear for about 1/prior steps; five "
        "per cent of exploration prevent that."
    )
    drawing = Figure(svg(figure), caption)
    return Outcome("Why explore: gamma 0 fails", text, tuple(claims), (drawing,))


def _learner_claims(
    setup: Setup, panel: Any, prior: float, i: int, name: str, learner: _Learner
) -> list[Claim]:
    """Return the claims about one learner and prior, and draw its line and point in the
    figure."""
    known: Any = {"eta": learner.eta, "gamma": learner.gamma, "prior": prior}
    horizons, exact = exact_regret(learner.loss, doublings=_DOUBLINGS, **known)
    panel.plot(horizons, exact, label=name, **line_style(i))
    policy = setup.gts(
        INSTANCE,
        learner.loss,
        eta=learner.eta,
        gamma=learner.gamma,
        prior=[prior, 1 - prior],
    )
    totals = []
    # Rare runs in which the policy learns nothing dominate the mean. Simulate many
    # runs, a few hundred at a time to save memory.
    for seed in range(8, 18):
        runs = setup.runs(200)
        run = measure(policy, _WORLD, steps=_STEPS, runs=runs, seed=seed)
        totals.append(run.total)
    total = np.concatenate(totals)
    mean, error = mean_and_error(total)
    style: Any = {"fmt": MARKERS[i], "color": COLOURS[i], "ms": 5}
    panel.errorbar(_STEPS, mean, 2 * error, **style)
    exact_deviation = exact_error(learner.loss, steps=_STEPS, runs=total.size, **known)
    case = f"{name}, prior {prior:g}"
    regret = float(exact[-1])
    claims = [mean_is(SIMULATED, case, total, regret, error=exact_deviation)]
    if learner.gamma == 0 and prior < 0.01:
        # The deliberate error adds exploration to a policy that should have none.
        known["gamma"] = 0.05 if setup.wrong.other == "explores" else 0.0
        _, played = exact_regret(learner.loss, doublings=_DOUBLINGS, **known)
        log_missed = _STEPS * np.log1p(-prior)
        undiscovered = -np.expm1(log_missed)
        floor = GAP * (1 - prior) * undiscovered / prior
        regret = float(played[-1])
        claims.append(least(LINEAR, case, regret, floor))
    return claims


def phase(setup: Setup) -> Outcome:
    """Show by exact dynamic programming that regret is bounded for eta below 1, grows
    like ln T at 1, and like T^(1-1/eta) above 1."""
    doublings = 30
    prior = 0.1
    doubled = np.arange(doublings + 1, dtype=np.float64)
    horizons = np.exp2(doubled)
    curves = {}
    figure, (panel,) = panels()
    for i, eta in enumerate((0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0)):
        _, curves[eta] = exact_regret(
            "log", eta=setup.eta(eta), gamma=0.0, prior=prior, doublings=doublings
        )
        style = line_style(i, marked=True)
        label = f"eta {eta:g}"
        panel.plot(horizons, curves[eta], markevery=5, label=label, **style)
    panel.set(xscale="log", yscale="log", xlabel="steps T")
    panel.set_ylabel("expected regret (lost rewards), exact")
    legend(panel, title="learning rate")
    claims = []
    for eta in (0.25, 0.5, 0.75):
        regret = float(curves[eta][-1])
        claims.append(_limit(eta, regret, prior))
    at_one = curves[1.0]
    growth = at_one[-1] - at_one[-11]
    per_decade = float(growth / (10 * np.log10(2)))
    odds = GAP * (1 - prior) / prior
    predicted = odds * log(10) / (0.8 * log(9.0))
    claims.append(equal(DECADE, "eta 1", per_decade, predicted, relative=0.02))
    claims += [_power(setup, eta, prior) for eta in (1.5, 2.0, 4.0)]
    text = (
        "The same problem, log loss, no exploration, prior 0.1, up to a thousand "
        "million steps. The learning rate decides between three growth rates, and "
        "Thompson sampling lies exactly on the border. For eta above 1 the curves "
        "oscillate, because the weights take values on a lattice."
    )
    caption = (
        "Regret is bounded for eta below 1, grows by 4.7 rewards per tenfold time at "
        "1, and like a power of T above."
    )
    drawing = Figure(svg(figure), caption)
    return Outcome("The phase transition at eta = 1", text, tuple(claims), (drawing,))


def _limit(eta: float, regret: float, prior: float) -> Claim:
    """Claim that a learning rate below 1 has the limit regret Δ L_0/(1 - ρ)."""
    rho = 0.9 * 9**-eta + 0.1 * 9**eta
    odds = GAP * (1 - prior) / prior
    predicted = odds / (1 - rho)
    return equal(BOUNDED, f"eta {eta:g}", regret, predicted, relative=0.005)


def _power(setup: Setup, eta: float, prior: float) -> Claim:
    """Claim that the regret grows with this exponent of T. The exponent is measured
    over as many periods of the lattice as fit between 2^14 and 2^30 steps."""
    first = 2**14
    halves = 16 * log(2)
    periods = int(halves / (eta * log(9)))
    last = round(first * 9 ** (eta * periods))
    known: Any = {"eta": setup.eta(eta), "gamma": 0.0, "prior": prior}
    early = exact_regret_at("log", steps=first, **known)
    late = exact_regret_at("log", steps=last, **known)
    growth = log(late / early)
    exponent = growth / log(last / first)
    return equal(POWER, f"eta {eta:g}", exponent, 1 - 1 / eta, off=0.01)


EXPLORATION = Experiment(
    exploration,
    (SIMULATED, LINEAR),
    (
        Break("eta is twice too small", eta=0.5),
        Break("gamma is dropped", gamma=0.0),
        Break("gamma is 0.05 where it should be 0", other="explores"),
    ),
)
PHASE = Experiment(
    phase,
    (BOUNDED, DECADE, POWER),
    (Break("eta is 10 % too large", eta=1.1), Break("eta is 10 % too small", eta=0.9)),
)
