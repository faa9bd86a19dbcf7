"""One posterior over a continuous class, four ways: exact on a grid, a cover,
particles, Laplace's Gaussian."""

from typing import Any, NamedTuple

import numpy as np

from oddsmith.claims.claim import (
    Break,
    Claim,
    Experiment,
    Outcome,
    Rule,
    Setup,
    measure,
)
from oddsmith.core.arrays import Array, Ints
from oddsmith.core.decision import Decision
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.experts.covers import Cover, grid_cover
from oddsmith.experts.linear import LinearExperts
from oddsmith.files.reports.page import Figure, Table
from oddsmith.files.reports.style import (
    COLOURS,
    EDGE,
    MARKERS,
    SHEET,
    legend,
    panels,
    svg,
)
from oddsmith.lab.worlds.linear import LogisticWorld
from oddsmith.policies.particles import ParticleThompsonSampling
from oddsmith.policies.parts.families import Family, LinearFamily, LogisticFamily
from oddsmith.policies.parts.langevin import Target

__all__ = ["CONTINUOUS"]

PARTICLES = Rule(
    "Particles have the mean, covariance and odds of the exact posterior",
    "docs/math 5.7",
    "every number is within 5 standard errors over runs of the exact one (resampling "
    "adds a bias of half one)",
    2e-3,
    cases=6,
)
WRONG = Break("particles learn with eta 20 % too large", eta=1.2)
_TRUTH = np.array([2.0, -1.0])
_ETA, _RIDGE, _DECISIONS, _ARMS = 0.5, 0.25, 60, 3
# the grid of the exact posterior: seven of its standard deviations, cells of 0.0125
_REACH, _FINE = 5.0, 801
_ERRORS = (
    # standard errors: chance exceeds them once in 20,000 at 24 runs; adaptive
    # resampling adds a bias of half one
    5.0
)
# rarer arms are found best by so few particles that standard errors say nothing
_LIKELY = 0.02
_MASSES = (0.5, 0.9, 0.99)
_DRAWN = 300  # particles that are drawn: a thousand would only hide each other


class Past(NamedTuple):
    """What one run saw: contexts (T, K, 2), arms and rewards (T,), the drawn features
    (T, 2)."""

    contexts: Array
    arms: Ints
    rewards: Array
    phi: Array


class Cloud(NamedTuple):
    """Points (N, 2) with probabilities (N,): the grid, the cover or the particles."""

    points: Array
    share: Array

    def moments(self) -> tuple[Array, Array]:
        """Mean (2,) and covariance (2, 2)."""
        mean = self.share @ self.points
        away = self.points - mean
        return mean, (away * self.share[:, None]).T @ away

    def best_arms(self, contexts: Array) -> Array:
        """The probability (X, K) that each arm of each context has the largest mean."""
        best = (self.points @ contexts.swapaxes(-1, -2)).argmax(axis=-1)  # (X, N)
        return np.stack(
            [(best == arm) @ self.share for arm in range(contexts.shape[1])], axis=-1
        )


def continuous(setup: Setup) -> Outcome:
    """The cover, the particles and Laplace's Gaussian against the exact posterior of
    the same decisions."""
    runs, n_particles = setup.runs(48), setup.steps(1024, 512)
    cover = grid_cover([-6.0, -6.0], [6.0, 6.0], radius=0.5)
    history, covered = _played(cover)
    settings: Any = {"runs": runs, "n_particles": n_particles, "eta": setup.eta(_ETA)}
    clouds = _particles(LogisticFamily(), history, **settings)
    mode, precision = _laplace(history)
    exact = _exact(history, mode)
    fixed = _contested(exact)
    likely = exact.best_arms(fixed) >= _LIKELY
    claims = (
        *_against("particles", clouds, exact.moments()),
        _agrees(
            f"Pr(arm is best), {likely.sum()} arms of {len(fixed)} contexts: "
            "particles, largest difference to the grid",
            np.stack([cloud.best_arms(fixed)[likely] for cloud in clouds]),
            exact.best_arms(fixed)[likely],
        ),
        *_linear(history, settings),
    )
    text = (
        f"A logistic world in two dimensions and the {_DECISIONS} decisions of one "
        f"run; the prior is N(0, I/{_RIDGE:g}), eta is {_ETA:g}. Particles are run "
        f"{runs} times with {n_particles:,} of them; standard errors are over runs. "
        "Contexts are the six of forty whose best arm is least certain; arms of a "
        f"chance of {_LIKELY:.0%} or more count."
    )
    parts = {"cover": covered, "particles": clouds[0], "laplace": (mode, precision)}
    table = _distances(exact, covered, mode, cover.n)
    return Outcome(
        "Continuous experts, four ways",
        text,
        claims,
        (_figure(exact, parts),),
        (table,),
    )


def _played(cover: Cover) -> tuple[Past, Cloud]:
    """One run of GTS over the cover, with the prior's density on its points, and the
    posterior it ends with."""
    prior = np.exp(-0.5 * _RIDGE * (cover.points**2).sum(axis=1))
    policy = GeneralizedThompsonSampling(
        LinearExperts(cover), eta=_ETA, gamma=0.1, prior=prior / prior.sum()
    )
    run = measure(
        policy,
        LogisticWorld(_TRUTH, _ARMS),
        steps=_DECISIONS,
        runs=1,
        seed=3,
        trace=("log",),
    )
    contexts, arms = np.stack(run.contexts)[:, 0], run.arms[:, 0]
    history = Past(
        contexts, arms, run.rewards[:, 0], contexts[np.arange(_DECISIONS), arms]
    )
    return history, Cloud(cover.points, policy.posterior(run.state)[0])


def _exact(history: Past, centre: Array) -> Cloud:
    """exp(-½ ridge |θ|² - η Σ ℓ) on a fine grid."""
    axis = np.linspace(-_REACH, _REACH, _FINE)
    points = centre + np.stack(
        [one.ravel() for one in np.meshgrid(axis, axis, indexing="ij")], axis=-1
    )
    log_density = -0.5 * _RIDGE * (points**2).sum(axis=1)
    for phi, reward in zip(history.phi, history.rewards, strict=True):
        log_density -= _ETA * LogisticFamily().loss(points, phi, float(reward))
    density = np.exp(log_density - log_density.max())
    return Cloud(points, density / density.sum())


def _contested(exact: Cloud) -> Array:
    """Of forty contexts, the six (6, K, 2) whose best arm is the least certain."""
    contexts: Array = LogisticWorld(_TRUTH, _ARMS).context(
        1, 40, np.random.default_rng(5)
    )
    return contexts[np.argsort(exact.best_arms(contexts).max(axis=-1))[:6]]


def _particles(
    family: Family,
    history: Past,
    *,
    runs: int,
    n_particles: int,
    eta: float,
    memory: int = 512,
) -> list[Cloud]:
    """What particles make of the same decisions, in independent runs."""
    policy = ParticleThompsonSampling(
        family,
        2,
        n_particles=n_particles,
        eta=eta,
        ridge=_RIDGE,
        memory=memory,
        seed=11,
    )
    state, odds = policy.init((runs,)), np.full((runs, _ARMS), 1 / _ARMS)
    for t, (context, arm, reward) in enumerate(zip(*history[:3], strict=True)):
        decision = Decision(t + 1, context, None, np.full(runs, arm), odds)
        state = policy.update(state, decision, np.full(runs, reward))
    shares = np.exp(state.log_weights) / np.exp(state.log_weights).sum(
        axis=-1, keepdims=True
    )
    return [
        Cloud(points, share)
        for points, share in zip(state.particles, shares, strict=True)
    ]


def _agrees(case: str, found: Array, exact: Array) -> Claim:
    """The claim that numbers (runs, …) have the exact mean, within their standard
    errors."""
    mean, error = found.mean(axis=0), found.std(axis=0, ddof=1) / np.sqrt(len(found))
    off = np.abs(mean - exact)
    worst = float((off / error).max())
    measured = f"{off.max():.4f}, at most {worst:.1f} standard errors"
    return Claim(
        PARTICLES,
        case,
        f"0, within {_ERRORS:g} standard errors",
        measured,
        worst <= _ERRORS,
    )


def _against(
    who: str, clouds: list[Cloud], exact: tuple[Array, Array]
) -> tuple[Claim, ...]:
    """The claims that mean and covariance are the exact ones."""
    means, covariances = (
        np.stack(values)
        for values in zip(*(cloud.moments() for cloud in clouds), strict=True)
    )
    place, spread = exact
    at = ", ".join(f"{value:.3f}" for value in place)
    deviations = ", ".join(f"{value:.3f}" for value in np.sqrt(np.diag(spread)))
    return (
        _agrees(f"{who}: largest difference to the exact mean ({at})", means, place),
        _agrees(
            f"{who}: largest difference to the exact covariance (deviations "
            f"{deviations})",
            covariances,
            spread,
        ),
    )


def _laplace(history: Past) -> tuple[Array, Array]:
    """The mode (2,) of the logistic posterior, and its precision (2, 2) there."""
    from scipy.optimize import minimize

    phi, rewards, prior = history.phi, history.rewards, _RIDGE * np.eye(2)
    target = Target(
        LogisticFamily(), np.zeros(2), prior, phi, rewards, np.full(len(rewards), _ETA)
    )

    def objective(theta: Array) -> tuple[Array, Array]:
        log_density, gradient = target.log_density(theta[None])
        return -log_density[0], -gradient[0]

    mode: Array = minimize(objective, np.zeros(2), jac=True, tol=1e-10).x
    chances = LogisticFamily().predict(mode[None], phi)[0]
    return mode, prior + _ETA * (phi.T * (chances * (1 - chances))) @ phi


def _distances(exact: Cloud, covered: Cloud, mode: Array, n: int) -> Table:
    """How far the means of cover and Laplace, whose errors are not random, are from the
    exact one."""
    mean, covariance = exact.moments()
    deviations = np.sqrt(np.diag(covariance))
    off = {f"cover of {n:,} experts": covered.moments()[0], "Laplace, its mode": mode}
    rows = [
        (name, f"{(np.abs(one - mean) / deviations).max():.2g}")
        for name, one in off.items()
    ]
    headers = (
        "posterior",
        "its mean off the exact one, in posterior standard deviations",
    )
    return Table(
        headers,
        tuple(rows),
        "Approximations whose error is not random: the mode of a skew posterior is off",
    )


def _linear(history: Past, settings: dict[str, Any]) -> tuple[Claim, ...]:
    """Linear class and square loss: the posterior is Gaussian in closed form, with or
    without forgetting."""
    precision = _RIDGE * np.eye(2) + 2 * _ETA * history.phi.T @ history.phi
    covariance = np.asarray(np.linalg.inv(precision), dtype=np.float64)
    exact = covariance @ (2 * _ETA * history.rewards @ history.phi), covariance
    whole = _particles(LinearFamily(), history, **settings)
    forgetful = _particles(LinearFamily(), history, memory=_DECISIONS // 3, **settings)
    return (
        *_against("linear class, square loss", whole, exact),
        _against(
            f"the same with a memory of {_DECISIONS // 3} decisions", forgetful, exact
        )[0],
    )


def _figure(exact: Cloud, parts: dict[str, Any]) -> Figure:
    covered, particles, (mode, precision) = (
        parts["cover"],
        parts["particles"],
        parts["laplace"],
    )
    n, m = len(covered.points), len(particles.points)
    mean, covariance = exact.moments()
    figure, (grid, cover, cloud, laplace) = panels(4, width=3.9, height=4.4)
    titles = (
        "exact, on a fine grid",
        f"cover of {n:,} experts",
        f"{_DRAWN} of {m:,} particles",
        "Laplace",
    )
    _contours(grid, exact, COLOURS[0], "-")
    for panel in (cover, cloud, laplace):
        _contours(panel, exact, EDGE, ":")
    heavy = covered.share > 1e-4
    sizes, (x, y) = 1200 * covered.share[heavy], covered.points[heavy].T
    cover.scatter(
        x, y, s=sizes, color=COLOURS[4], edgecolors=COLOURS[6], linewidths=0.5
    )
    some = np.linspace(0, m - 1, _DRAWN).astype(int)
    sizes, (x, y) = (
        25 * particles.share[some] / particles.share.max(),
        particles.points[some].T,
    )
    cloud.scatter(x, y, s=sizes, color=COLOURS[2], alpha=0.6, linewidths=0)
    root = np.linalg.cholesky(np.linalg.inv(precision))
    circle = np.stack([f(np.linspace(0, 2 * np.pi, 200)) for f in (np.cos, np.sin)])
    for mass in _MASSES:
        laplace.plot(
            *(mode[:, None] + np.sqrt(-2 * np.log(1 - mass)) * root @ circle),
            color=COLOURS[1],
            lw=1.6,
        )
    centres = (mean, covered.moments()[0], particles.moments()[0], mode)
    deviations = np.sqrt(np.diag(covariance))
    for panel, title, centre in zip(
        (grid, cover, cloud, laplace), titles, centres, strict=True
    ):
        panel.plot(
            *centre,
            MARKERS[6],
            color=COLOURS[6],
            mec=SHEET,
            ms=10,
            label="its mean",
            ls="none",
        )
        panel.plot(
            *_TRUTH,
            "*",
            color=COLOURS[3],
            mec=COLOURS[6],
            ms=15,
            label="the truth",
            ls="none",
        )
        limits = [
            (at - 4 * s, at + 4 * s) for at, s in zip(mean, deviations, strict=True)
        ]
        panel.set(title=title, xlabel="θ₁", xlim=limits[0], ylim=limits[1])
    grid.set_ylabel("θ₂")
    legend(grid)
    caption = (
        "The posterior after the same 60 decisions. Lines hold 50, 90 and 99 % of the "
        "probability (dotted grey: the exact ones again); the areas of points are "
        "their weights. Laplace's mean is its mode."
    )
    return Figure(svg(figure), caption)


def _contours(panel: Any, exact: Cloud, colour: str, dashes: str) -> None:
    """Lines of the exact density that hold 50, 90 and 99 % of it."""
    falling = np.sort(exact.share)[::-1]
    held = np.cumsum(falling)
    levels = sorted(float(falling[np.searchsorted(held, mass)]) for mass in _MASSES)
    x, y, density = (
        values.reshape(_FINE, _FINE)[::4, ::4]
        for values in (*exact.points.T, exact.share)
    )
    panel.contour(
        x,
        y,
        density,
        levels=levels,
        colors=[colour],
        linestyles=[dashes],
        linewidths=1.6,
    )


CONTINUOUS = Experiment(continuous, (PARTICLES,), (WRONG,))
