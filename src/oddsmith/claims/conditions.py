"""Conditions C1 to C4 for both losses: the kappa_2 curve, F(g) of the appendix, and
losses that fail."""

from math import log

import numpy as np

from oddsmith import theory
from oddsmith.claims.claim import Break, Claim, Experiment, Outcome, Rule, Setup
from oddsmith.claims.judgement import equal, least, most, within
from oddsmith.core.arrays import Array, Real
from oddsmith.core.losses import Loss, log_loss, square_loss
from oddsmith.files.reports.page import Figure
from oddsmith.files.reports.style import COLOURS, DASHES, EDGE, INK, legend, panels, svg
from oddsmith.theory.constants import kappa1_averaged

__all__ = ["CONDITIONS"]


def absolute(prediction: Array, reward: Real) -> Array:
    """|f - r|: its best prediction is the median, not the mean."""
    return np.abs(prediction - reward)


def pinball(prediction: Array, reward: Real) -> Array:
    """The quantile loss at 0.3."""
    return np.maximum(0.3 * (reward - prediction), 0.7 * (prediction - reward))


def huber(prediction: Array, reward: Real) -> Array:
    """Square near the target, absolute beyond 1/2."""
    gap = np.abs(prediction - reward)
    return np.where(gap <= 0.5, 0.5 * gap**2, 0.5 * (gap - 0.25))


def quartic(prediction: Array, reward: Real) -> Array:
    """(f - r)⁴."""
    return (prediction - reward) ** 4


def zero_one(prediction: Array, reward: Real) -> Array:
    """1 if the prediction is on the wrong side of one half."""
    return np.abs((prediction > 0.5).astype(np.float64) - reward)


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
    "Losses whose best prediction is not the mean fail",
    "docs/math 4",
    "certify names the condition",
    cases=5,
)
CONSTANT = Rule(
    "Square loss at eta 1: 1 - E exp(-lhat) is at least 0.46 times the squared gap",
    "docs/math 4.2",
    "interval arithmetic leaves no pair of mean and prediction open",
)
SHIFTED = Break("the loss sees predictions that are off by 0.1", shift=0.1)
DROPPED = Break("gamma is dropped from the odds, not from kappa_1", gamma=0.0)
AIMED = Break("every loss is the square loss", other="square")


def conditions(setup: Setup) -> Outcome:
    """C1 to C4 hold for square and log loss with the constants of theory; losses not
    aimed at the mean fail."""
    claims = _shifted(setup) + _second(setup) + _curve(setup)
    claims += [_constant(setup), *_failing(setup)]
    text = (
        "C1: the truth has the smallest expected loss. C2: small loss means small "
        "regret, through kappa_1. C3: shifted losses are bounded. C4: their second "
        "moment is at most kappa_2 times their mean."
    )
    return Outcome(
        "The conditions on a loss", text, tuple(claims), (_figure(), _bad_figure())
    )


def moments(loss: Loss, f: Array, g: Array) -> tuple[Array, Array]:
    """E lhat and E lhat² of Bernoulli rewards with mean f and prediction g.

    >>> [float(m.round(4)) for m in moments(square_loss, np.array(0.5), np.array(1.0))]
    [0.25, 0.3125]
    """
    win, lose = loss(g, 1.0) - loss(f, 1.0), loss(g, 0.0) - loss(f, 0.0)
    return np.asarray(f * win + (1 - f) * lose), np.asarray(
        f * win**2 + (1 - f) * lose**2
    )


def _grid(low: float, high: float, n: int = 601) -> tuple[Array, Array]:
    points = np.linspace(low, high, n)
    f, g = np.meshgrid(points, points, indexing="ij")
    return f[f != g], g[f != g]


def _shifted(setup: Setup) -> list[Claim]:
    """C1 and C3: sign of the mean and range of the shifted loss, on a grid; C4 for
    square loss."""
    claims = []
    for name, (low, high), widest in (
        ("square", (0.0, 1.0), 1.0),
        ("log", (0.05, 0.95), log(19)),
    ):
        (f, g), loss = _grid(low, high), setup.loss(name)
        win, lose = loss(g, 1.0) - loss(f, 1.0), loss(g, 0.0) - loss(f, 0.0)
        where = f"{name} loss, predictions in [{low:g}, {high:g}]"
        claims += [
            least(C1, where, float((f * win + (1 - f) * lose).min()), 0.0),
            equal(C3, where, float(np.abs([win, lose]).max()), widest, off=1e-12),
        ]
    f, g = _grid(0.0, 1.0)
    first, second = moments(setup.loss("square"), f, g)
    ratios = second[first > 1e-14] / first[first > 1e-14]
    return [
        *claims,
        within(C4, "square loss", float(ratios.max()), 0.99 * 4 / 3, 4 / 3 + 1e-9),
    ]


def _second(setup: Setup) -> list[Claim]:
    """C2 averaged over the posterior, on random instances: regret over kappa_1
    sqrt(gap)."""
    rng, worst = np.random.default_rng(0), {"square": 0.0, "log": 0.0}
    for _ in range(setup.steps(20_000, 4000)):
        n, arms, gamma = (
            int(rng.integers(2, 6)),
            int(rng.integers(2, 6)),
            float(rng.uniform(0.02, 1)),
        )
        table = np.clip(rng.beta(0.5, 0.5, (n, arms)), 1e-3, 1 - 1e-3)
        weights = rng.dirichlet(np.full(n, 0.3))
        votes = table.argmax(axis=1)
        played = setup.gamma(gamma)
        odds = (1 - played) * np.bincount(votes, weights, arms) + played / arms
        regret = weights @ (table[0].max() - table[0][votes])
        kl = table[0] * np.log(table[0] / table) + (1 - table[0]) * np.log(
            (1 - table[0]) / (1 - table)
        )
        kappa = kappa1_averaged(arms, gamma)
        for name, gap in (("square", (table - table[0]) ** 2), ("log", kl / 2)):
            mass = float(weights @ (gap @ odds))
            if mass > 0:
                worst[name] = max(worst[name], float(regret / (kappa * np.sqrt(mass))))
    return [
        most(C2, f"{name} loss: largest regret / (kappa_1 √loss)", ratio, 1.0)
        for name, ratio in worst.items()
    ]


def _supremum(beta: float, loss: Loss = log_loss) -> float:
    """The largest E lhat²/E lhat of log loss with log ratios up to beta/2, on a grid
    that goes to the corner."""
    f = np.concatenate([np.geomspace(1e-9, 0.5, 300), np.linspace(0.5, 1 - 1e-6, 200)])[
        :, None
    ]
    g = f * np.exp(-np.linspace(-1, 1, 401) * beta / 2)
    inside = (g > 0) & (g < 1) & (np.abs(g - f) > 1e-12 * f)
    f, g = np.broadcast_to(f, g.shape)[inside], g[inside]
    allowed = np.abs(np.log((1 - f) / (1 - g))) <= beta / 2
    first, second = moments(loss, f[allowed], g[allowed])
    keep = first > 1e-14
    return float((second[keep] / first[keep]).max()) / beta


_BETAS = (0.5, 1.0, 2.0, 4.0, 6.0, 10.0)


def _curve(setup: Setup) -> list[Claim]:
    claims = []
    for beta in _BETAS:
        formula, found = (
            theory.kappa2("log", beta=beta),
            _supremum(beta, setup.loss("log")),
        )
        claims.append(
            within(
                C4,
                f"log loss, beta = {beta:g}",
                found,
                0.99 * formula,
                formula * (1 + 1e-6),
            )
        )
    return claims


def _constant(setup: Setup) -> Claim:
    """The proof of c(1) >= 0.46, run."""
    proof = theory.certify(setup.loss("square")).proof
    held = proof is not None and proof.c_is_at_least(1.0, 0.46)
    measured = "proved" if held else "not proved"
    return Claim(CONSTANT, "all f, g and rewards in [0, 1]", "proved", measured, held)


def _failing(setup: Setup) -> list[Claim]:
    claims = []
    for name, (loss, condition) in _FAILING.items():
        found = theory.certify(
            square_loss if setup.broken.other == "square" else loss
        ).counterexample
        held = found is not None and found.condition == condition
        measured = (
            "no counterexample"
            if found is None
            else f"{found.condition} at f = {found.f:.3g}, g = {found.g:.3g}"
        )
        claims.append(Claim(FAILING, f"{name} loss", condition, measured, held))
    return claims


def _figure() -> Figure:
    figure, (left, right) = panels(2)
    betas = np.geomspace(0.3, 20, 100)
    left.plot(
        betas,
        [theory.kappa2("log", beta=b) for b in betas],
        color=COLOURS[0],
        label="c(beta/2)/beta",
    )
    left.plot(
        _BETAS,
        [_supremum(b) for b in _BETAS],
        "o",
        color=COLOURS[1],
        label="largest ratio found on a grid",
    )
    left.axhline(0.5, color=EDGE, lw=1, ls=":")
    left.set(
        xscale="log",
        yscale="log",
        xlabel="beta, the range of log ratios (nats)",
        ylabel="kappa_2 of the normalised loss",
    )
    left.set_title("kappa_2 of log loss")
    beta = 2 * log(19)
    for i, f in enumerate((0.1, 0.3, 0.5, 0.8)):
        g = np.linspace(0.05, 0.95, 300)
        g = g[np.abs(g - f) > 0.01]
        first, second = (
            m / beta**k
            for k, m in enumerate(moments(log_loss, np.full_like(g, f), g), start=1)
        )
        right.plot(
            g,
            (second - first**2) / first,
            color=COLOURS[i],
            ls=DASHES[i],
            label=f"f = {f:g}",
        )
    right.set(
        xlabel="prediction g",
        ylabel="F(g) = Var lhat / E lhat",
        title="F(g) of the appendix",
        ylim=(0, None),
    )
    for panel in (left, right):
        legend(panel)
    caption = (
        "Left: the constant is known for every range of predictions. Right: F falls, "
        "then rises, and stays bounded."
    )
    return Figure(svg(figure), caption)


_TRUTH = 0.2


def _bad_figure() -> Figure:
    figure, (panel,) = panels()
    g = np.linspace(0, 1, 401)
    for i, (name, (loss, _)) in enumerate(_FAILING.items()):
        first, _ = moments(loss, np.full_like(g, _TRUTH), g)
        panel.plot(g, first, color=COLOURS[i], ls=DASHES[i], label=name)
    panel.plot(
        g,
        moments(square_loss, np.full_like(g, _TRUTH), g)[0],
        color=INK,
        lw=2,
        label="square (for comparison)",
    )
    panel.axhline(0, color=EDGE, lw=1)
    panel.axvline(_TRUTH, color=EDGE, lw=1, ls=":")
    panel.annotate(
        "the truth",
        (_TRUTH, -0.18),
        fontsize=9,
        ha="left",
        xytext=(4, 0),
        textcoords="offset points",
    )
    panel.set(
        xlabel="prediction g, where the true mean is 0.2",
        ylabel="E lhat: expected loss above the truth's",
        ylim=(-0.2, 0.5),
    )
    legend(panel)
    caption = (
        "A loss below zero prefers a wrong prediction to the truth: such losses learn "
        "the wrong expert."
    )
    return Figure(svg(figure), caption)


CONDITIONS = Experiment(
    conditions, (C1, C2, C3, C4, CONSTANT, FAILING), (SHIFTED, DROPPED, AIMED)
)
