"""Conditions C1 to C4 for both losses: the kappa_2 curve, F(g) of the appendix, and
losses that violate a condition."""

from math import log

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Break, Claim, Experiment, Outcome, Rule, Setup
from oddsmith.claims.drawing import line_style
from oddsmith.claims.judgement import equal, least, most, within
from oddsmith.core.arrays import Array, Real
from oddsmith.core.losses import Loss, log_loss, square_loss
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, EDGE, INK, legend, panels, svg
from oddsmith.theory.constants import kappa1_averaged

__all__ = ["CONDITIONS"]


def absolute(prediction: Array, reward: Real) -> Array:
    """Return |f - r|, whose best prediction is the median instead of the mean."""
    return np.abs(prediction - reward)


def pinball(prediction: Array, reward: Real) -> Array:
    """Return the quantile loss at 0.3."""
    above = 0.3 * (reward - prediction)
    below = 0.7 * (prediction - reward)
    return np.maximum(above, below)


def huber(prediction: Array, reward: Real) -> Array:
    """Return the Huber loss: quadratic within 1/2 of the target, linear beyond."""
    gap = np.abs(prediction - reward)
    square = 0.5 * gap**2
    linear = 0.5 * (gap - 0.25)
    return np.where(gap <= 0.5, square, linear)


def quartic(prediction: Array, reward: Real) -> Array:
    """Return (f - r)⁴."""
    return (prediction - reward) ** 4


def zero_one(prediction: Array, reward: Real) -> Array:
    """Return 1 if prediction and reward lie on different sides of 1/2, else 0."""
    is_above = prediction > 0.5
    return np.abs(is_above.astype(np.float64) - reward)


_FAILING: dict[str, tuple[Loss, str]] = {
    "absolute": (absolute, "C1"),
    "pinball 0.3": (pinball, "C1"),
    "Huber 1/2": (huber, "C1"),
    "fourth power": (quartic, "C1"),
    "0-1 on thresholded predictions": (zero_one, "C4"),
}


C1 = Rule(
    "C1: the truth has the smallest expected loss",
    "Section 4",
    "E lhat ≥ 0 on the whole grid",
    cases=2,
)
C2 = Rule(
    "C2, averaged over the posterior: small loss means small regret",
    "docs/math 3.2",
    "regret ≤ kappa_1 √loss in every random instance",
    cases=2,
)
C3 = Rule(
    "C3: shifted losses are bounded",
    "Section 4",
    "largest |lhat| on the grid is the bound, to 1e-12",
    cases=2,
)
C4 = Rule(
    "C4: the second moment of shifted losses is at most kappa_2 times their mean",
    "Section 4.2, Lemma 3",
    "no ratio on the grid is above kappa_2, and the largest is within 1 % of it",
    cases=7,
)
FAILING = Rule(
    "Losses whose best prediction differs from the mean violate a condition",
    "docs/math 4",
    "certify names the violated condition",
    cases=5,
)
CONSTANT = Rule(
    "Square loss at eta 1: 1 - E exp(-lhat) is at least 0.46 times the squared gap",
    "docs/math 4.2",
    "interval arithmetic leaves no pair of mean and prediction open",
)
SHIFTED = Break("the loss sees predictions that are off by 0.1", shift=0.1)
DROPPED = Break("gamma is left out of the propensities, but kept in kappa_1", gamma=0.0)
AIMED = Break("every loss is the square loss", other="square")


def conditions(setup: Setup) -> Outcome:
    """Check that C1 to C4 hold for square and log loss with the constants of the
    theory, and that losses whose best prediction is not the mean violate one."""
    claims = _range_claims(setup)
    claims += _regret_claims(setup)
    claims += _kappa2_claims(setup)
    claims.append(_constant(setup))
    claims += _failing(setup)
    text = (
        "C1: the truth has the smallest expected loss. C2: small loss means small "
        "regret, through kappa_1. C3: shifted losses are bounded. C4: their second "
        "moment is at most kappa_2 times their mean."
    )
    figures = (_figure(), _bad_figure())
    return Outcome("The conditions on a loss", text, tuple(claims), figures)


def moments(loss: Loss, f: Array, g: Array) -> tuple[Array, Array]:
    """Return the means of the shifted loss lhat and of its square, for prediction g and
    Bernoulli rewards with mean f.

    >>> [float(m.round(4)) for m in moments(square_loss, np.array(0.5), np.array(1.0))]
    [0.25, 0.3125]
    """
    win = loss(g, 1.0) - loss(f, 1.0)
    lose = loss(g, 0.0) - loss(f, 0.0)
    first = f * win + (1 - f) * lose
    square = f * win**2
    second = square + (1 - f) * lose**2
    return np.asarray(first), np.asarray(second)


def _grid(low: float, high: float, n: int = 601) -> tuple[Array, Array]:
    points = np.linspace(low, high, n)
    f, g = np.meshgrid(points, points, indexing="ij")
    differ = f != g
    return f[differ], g[differ]


def _range_claims(setup: Setup) -> list[Claim]:
    """Check C1 (sign of the mean), C3 (range of the shifted loss), and C4 for square
    loss, on a grid."""
    claims = []
    cases = (("square", 0.0, 1.0, 1.0), ("log", 0.05, 0.95, log(19)))
    for name, low, high, widest in cases:
        f, g = _grid(low, high)
        loss = setup.loss(name)
        win = loss(g, 1.0) - loss(f, 1.0)
        lose = loss(g, 0.0) - loss(f, 0.0)
        means = f * win + (1 - f) * lose
        least_mean = float(means.min())
        sizes = np.abs([win, lose])
        largest = float(sizes.max())
        case = f"{name} loss, predictions in [{low:g}, {high:g}]"
        claims.append(least(C1, case, least_mean, 0.0))
        claims.append(equal(C3, case, largest, widest, off=1e-12))
    f, g = _grid(0.0, 1.0)
    ratio = _largest_ratio(setup.loss("square"), f, g)
    lowest = 0.99 * 4 / 3
    highest = 4 / 3 + 1e-9
    claims.append(within(C4, "square loss", ratio, lowest, highest))
    return claims


def _largest_ratio(loss: Loss, f: Array, g: Array) -> float:
    """Return the largest E lhat² / E lhat on a grid."""
    first, second = moments(loss, f, g)
    is_positive = first > 1e-14
    ratios = second[is_positive] / first[is_positive]
    return float(ratios.max())


def _regret_claims(setup: Setup) -> list[Claim]:
    """Check C2, averaged over the posterior, on random instances: regret divided by
    kappa_1 sqrt(gap)."""
    rng = np.random.default_rng(0)
    worst = {"square": 0.0, "log": 0.0}
    for _ in range(setup.steps(20_000, 4000)):
        n = int(rng.integers(2, 6))
        arms = int(rng.integers(2, 6))
        gamma = float(rng.uniform(0.02, 1))
        predictions = rng.beta(0.5, 0.5, (n, arms))
        table = np.clip(predictions, 1e-3, 1 - 1e-3)
        weights = rng.dirichlet(np.full(n, 0.3))
        votes = table.argmax(axis=1)
        played = setup.gamma(gamma)
        counts = np.bincount(votes, weights, arms)
        odds = (1 - played) * counts + played / arms
        truth = table[0]
        gaps = truth.max() - truth[votes]
        regret = weights @ gaps
        of_wins = truth * np.log(truth / table)
        ratio_of_losses = (1 - truth) / (1 - table)
        kl = of_wins + (1 - truth) * np.log(ratio_of_losses)
        kappa = kappa1_averaged(arms, gamma)
        squares = (table - truth) ** 2
        for name, gap in (("square", squares), ("log", kl / 2)):
            mass = float(weights @ (gap @ odds))
            if mass > 0:
                root = np.sqrt(mass)
                ratio = float(regret / (kappa * root))
                worst[name] = max(worst[name], ratio)
    claims = []
    for name, ratio in worst.items():
        case = f"{name} loss: largest regret / (kappa_1 √loss)"
        claims.append(most(C2, case, ratio, 1.0))
    return claims


def _supremum(beta: float, loss: Loss = log_loss) -> float:
    """Return the largest E lhat²/E lhat of log loss with log ratios up to beta/2, on a
    grid that includes points close to the corner."""
    near_corner = np.geomspace(1e-9, 0.5, 300)
    others = np.linspace(0.5, 1 - 1e-6, 200)
    means = np.concatenate([near_corner, others])
    f = means[:, None]
    places = np.linspace(-1, 1, 401)
    g = f * np.exp(-places * beta / 2)
    is_apart = np.abs(g - f) > 1e-12 * f
    inside = (g > 0) & (g < 1) & is_apart
    f = np.broadcast_to(f, g.shape)[inside]
    g = g[inside]
    change = np.log((1 - f) / (1 - g))
    allowed = np.abs(change) <= beta / 2
    largest = _largest_ratio(loss, f[allowed], g[allowed])
    return largest / beta


_BETAS = (0.5, 1.0, 2.0, 4.0, 6.0, 10.0)


def _kappa2_claims(setup: Setup) -> list[Claim]:
    loss = setup.loss("log")
    claims = []
    for beta in _BETAS:
        formula = theory.kappa2("log", beta=beta)
        found = _supremum(beta, loss)
        case = f"log loss, beta = {beta:g}"
        most_allowed = formula * (1 + 1e-6)
        least_allowed = 0.99 * formula
        claims.append(within(C4, case, found, least_allowed, most_allowed))
    return claims


def _constant(setup: Setup) -> Claim:
    """Check c(1) >= 0.46 by running its proof in interval arithmetic."""
    proof = theory.certify(setup.loss("square")).proof
    holds = proof is not None and proof.c_is_at_least(1.0, 0.46)
    measured = "not proved"
    if holds:
        measured = "proved"
    return Claim(CONSTANT, "all f, g and rewards in [0, 1]", "proved", measured, holds)


def _failing(setup: Setup) -> list[Claim]:
    claims = []
    for name, (loss, condition) in _FAILING.items():
        own_loss = loss
        if setup.wrong.other == "square":
            own_loss = square_loss
        found = theory.certify(own_loss).counterexample
        holds = False
        measured = "no counterexample"
        if found is not None:
            holds = found.condition == condition
            place = f"f = {found.f:.3g}, g = {found.g:.3g}"
            measured = f"{found.condition} at {place}"
        claims.append(Claim(FAILING, f"{name} loss", condition, measured, holds))
    return claims


def _figure() -> Figure:
    figure, (left, right) = panels(2)
    betas = np.geomspace(0.3, 20, 100)
    formula = [theory.kappa2("log", beta=beta) for beta in betas]
    left.plot(betas, formula, color=COLOURS[0], label="c(beta/2)/beta")
    found = [_supremum(beta) for beta in _BETAS]
    label = "largest ratio found on a grid"
    left.plot(_BETAS, found, "o", color=COLOURS[1], label=label)
    left.axhline(0.5, color=EDGE, lw=1, ls=":")
    left.set(xscale="log", yscale="log", title="kappa_2 of log loss")
    left.set_xlabel("beta, the range of log ratios (nats)")
    left.set_ylabel("kappa_2 of the normalised loss")
    beta = 2 * log(19)
    for i, f in enumerate((0.1, 0.3, 0.5, 0.8)):
        g = np.linspace(0.05, 0.95, 300)
        is_apart = np.abs(g - f) > 0.01
        g = g[is_apart]
        means = np.full_like(g, f)
        first, second = moments(log_loss, means, g)
        mean = first / beta
        variance = second / beta**2 - mean**2
        style = line_style(i) | {"label": f"f = {f:g}"}
        right.plot(g, variance / mean, **style)
    right.set(title="F(g) of the appendix", ylim=(0, None))
    right.set(xlabel="prediction g", ylabel="F(g) = Var lhat / E lhat")
    legend(left)
    legend(right)
    caption = (
        "Left: kappa_2 is known for every range of predictions. Right: F falls, "
        "then rises, and stays bounded."
    )
    return Figure(svg(figure), caption)


_TRUTH = 0.2


def _bad_figure() -> Figure:
    figure, (panel,) = panels()
    g = np.linspace(0, 1, 401)
    f = np.full_like(g, _TRUTH)
    for i, (name, (loss, _)) in enumerate(_FAILING.items()):
        first, _ = moments(loss, f, g)
        panel.plot(g, first, label=name, **line_style(i))
    first, _ = moments(square_loss, f, g)
    panel.plot(g, first, color=INK, lw=2, label="square (for comparison)")
    panel.axhline(0, color=EDGE, lw=1)
    panel.axvline(_TRUTH, color=EDGE, lw=1, ls=":")
    place = {"xytext": (4, 0), "textcoords": "offset points", "ha": "left"}
    panel.annotate("the truth", (_TRUTH, -0.18), fontsize=9, **place)
    panel.set_xlabel("prediction g, where the true mean is 0.2")
    panel.set_ylabel("E lhat: expected loss above the truth's")
    panel.set_ylim(-0.2, 0.5)
    legend(panel)
    caption = (
        "A loss below zero prefers a wrong prediction to the true mean, so a "
        "policy with this loss learns the wrong expert."
    )
    return Figure(svg(figure), caption)


CONDITIONS = Experiment(
    conditions, (C1, C2, C3, C4, CONSTANT, FAILING), (SHIFTED, DROPPED, AIMED)
)
