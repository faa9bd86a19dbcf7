"""Compare four computations of the posterior over a continuous class of experts: exact
on a grid, a finite cover, particles, and Laplace's approximation."""

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
    "Particles have the mean, covariance and propensities of the exact posterior",
    "docs/math 5.7",
    "every number is within 5 standard errors over runs of the exact one "
    "(resampling adds a bias of half a standard error)",
    2e-3,
    cases=6,
)
WRONG = Break("particles learn with eta 20 % too large", eta=1.2)
_TRUTH = np.array([2.0, -1.0])
_ETA = 0.5
_RIDGE = 0.25
_DECISIONS = 60
_ARMS = 3
# The grid of the exact posterior spans seven posterior standard deviations, in cells of
# width 0.0125.
_REACH = 5.0
_FINE = 801
# Half-width of the acceptance interval in standard errors. With 24 runs, a correct
# result is outside by chance in 1 of 20,000 cases. Adaptive resampling adds a bias of
# about half a standard error.
_ERRORS = 5.0
# Leave out arms that are less likely to be best: too few particles favour them for a
# reliable standard error.
_LIKELY = 0.02
_MASSES = (0.5, 0.9, 0.99)
_DRAWN = 300  # particles to draw; with a thousand, the points would hide each other


class Past(NamedTuple):
    """The data of one run: contexts (T, K, 2), arms and rewards (T,), and features of
    the drawn arms (T, 2)."""

    contexts: Array
    arms: Ints
    rewards: Array
    phi: Array


class Cloud(NamedTuple):
    """Weighted points that represent a posterior: points (N, 2) and probabilities (N,)
    of the grid, the cover or the particles."""

    points: Array
    share: Array

    @property
    def mean(self) -> Array:
        """Mean of the posterior (2,)."""
        return self.share @ self.points

    def moments(self) -> tuple[Array, Array]:
        """Return the mean (2,) and the covariance (2, 2)."""
        mean = self.mean
        away = self.points - mean
        weighted = away * self.share[:, None]
        return mean, weighted.T @ away

    def best_arms(self, contexts: Array) -> Array:
        """Return the probability (X, K) that each arm of each context has the largest
        mean."""
        columns = contexts.swapaxes(-1, -2)
        values = self.points @ columns  # (X, N, K)
        best = values.argmax(axis=-1)
        arms = range(contexts.shape[1])
        shares = [(best == arm) @ self.share for arm in arms]
        return np.stack(shares, axis=-1)


def continuous(setup: Setup) -> Outcome:
    """Compare the cover, the particles and Laplace's approximation with the exact
    posterior of the same decisions."""
    runs = setup.runs(48)
    n_particles = setup.steps(1024, 512)
    cover = grid_cover([-6.0, -6.0], [6.0, 6.0], radius=0.5)
    history, of_cover = _play(cover)
    settings: Any = {"runs": runs, "n_particles": n_particles, "eta": setup.eta(_ETA)}
    clouds = _particles(LogisticFamily(), history, **settings)
    laplace = _laplace(history)
    exact = _exact(history, laplace.mode)
    contexts = _uncertain_contexts(exact)
    exact_chances = exact.best_arms(contexts)
    likely = exact_chances >= _LIKELY
    of_clouds = [cloud.best_arms(contexts)[likely] for cloud in clouds]
    chances = np.stack(of_clouds)
    case = (
        f"Pr(arm is best), {likely.sum()} arms of {len(contexts)} contexts: "
        "particles, largest difference to the grid"
    )
    of_moments = _moment_claims("particles", clouds, exact.moments())
    agreement = _agrees(case, chances, exact_chances[likely])
    claims = (*of_moments, agreement, *_linear(history, settings))
    text = (
        f"A logistic world in two dimensions and the {_DECISIONS} decisions of "
        f"one run. The prior is N(0, I/{_RIDGE:g}), eta is {_ETA:g}. The particle "
        f"policy runs {runs} times with {n_particles:,} particles; standard "
        "errors are over runs. The comparison of propensities uses the six of "
        "forty contexts whose best arm is least certain, and arms with a "
        f"probability of at least {_LIKELY:.0%}."
    )
    figure = _figure(exact, of_cover, clouds[0], laplace)
    table = _distances(exact, of_cover, laplace.mode, cover.n)
    return Outcome("Continuous experts, four ways", text, claims, (figure,), (table,))


def _play(cover: Cover) -> tuple[Past, Cloud]:
    """Run GTS over the cover once, with the prior's density as prior weights. Return
    its history and its final posterior."""
    squares = (cover.points**2).sum(axis=1)
    prior = np.exp(-0.5 * _RIDGE * squares)
    policy = GeneralizedThompsonSampling(
        LinearExperts(cover), eta=_ETA, gamma=0.1, prior=prior / prior.sum()
    )
    world = LogisticWorld(_TRUTH, _ARMS)
    run = measure(policy, world, steps=_DECISIONS, runs=1, seed=3, trace=("log",))
    contexts = np.stack(run.contexts)[:, 0]
    arms = run.arms[:, 0]
    features = contexts[np.arange(_DECISIONS), arms]
    rewards = run.rewards[:, 0]
    history = Past(contexts, arms, rewards, features)
    share = policy.posterior(run.state)[0]
    return history, Cloud(cover.points, share)


def _exact(history: Past, centre: Array) -> Cloud:
    """Return the exact posterior exp(-½ ridge |θ|² - η Σ ℓ) on a fine grid."""
    axis = np.linspace(-_REACH, _REACH, _FINE)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    offsets = np.stack([x.ravel(), y.ravel()], axis=-1)
    points = centre + offsets
    squares = (points**2).sum(axis=1)
    log_density = -0.5 * _RIDGE * squares
    family = LogisticFamily()
    for phi, reward in zip(history.phi, history.rewards, strict=True):
        log_density -= _ETA * family.loss(points, phi, float(reward))
    density = np.exp(log_density - log_density.max())
    return Cloud(points, density / density.sum())


def _uncertain_contexts(exact: Cloud) -> Array:
    """Return the six of forty contexts, (6, K, 2), whose best arm is least certain."""
    world = LogisticWorld(_TRUTH, _ARMS)
    contexts: Array = world.context(1, 40, np.random.default_rng(5))
    certainty = exact.best_arms(contexts).max(axis=-1)
    return contexts[np.argsort(certainty)[:6]]


def _particles(
    family: Family,
    history: Past,
    *,
    runs: int,
    n_particles: int,
    eta: float,
    memory: int = 512,
) -> list[Cloud]:
    """Return the particles after the same decisions, for each of several independent
    runs."""
    policy = ParticleThompsonSampling(
        family,
        2,
        n_particles=n_particles,
        eta=eta,
        ridge=_RIDGE,
        memory=memory,
        seed=11,
    )
    state = policy.init((runs,))
    odds = np.full((runs, _ARMS), 1 / _ARMS)
    columns = zip(history.contexts, history.arms, history.rewards, strict=True)
    for step, (context, arm, reward) in enumerate(columns, start=1):
        arms = np.full(runs, arm)
        decision = Decision(step, context, None, arms, odds)
        rewards = np.full(runs, reward)
        state = policy.update(state, decision, rewards)
    weights = np.exp(state.log_weights)
    shares = weights / weights.sum(axis=-1, keepdims=True)
    return list(map(Cloud, state.particles, shares))


def _agrees(case: str, found: Array, exact: Array) -> Claim:
    """Claim that the mean of numbers (runs, …) is the exact value, within their
    standard errors."""
    mean = found.mean(axis=0)
    deviation = found.std(axis=0, ddof=1)
    error = deviation / np.sqrt(len(found))
    off = np.abs(mean - exact)
    worst = float((off / error).max())
    predicted = f"0, within {_ERRORS:g} standard errors"
    measured = f"{off.max():.4f}, at most {worst:.1f} standard errors"
    return Claim(PARTICLES, case, predicted, measured, worst <= _ERRORS)


def _moment_claims(
    name: str, clouds: list[Cloud], exact: tuple[Array, Array]
) -> tuple[Claim, Claim]:
    """Claim that the mean and the covariance are the exact ones."""
    mean, covariance = exact
    means = np.stack([cloud.mean for cloud in clouds])
    of_clouds = [cloud.moments()[1] for cloud in clouds]
    covariances = np.stack(of_clouds)
    place = ", ".join(f"{value:.3f}" for value in mean)
    roots = np.sqrt(np.diag(covariance))
    deviations = ", ".join(f"{value:.3f}" for value in roots)
    of_mean = f"{name}: largest difference to the exact mean ({place})"
    of_covariance = (
        f"{name}: largest difference to the exact covariance (deviations {deviations})"
    )
    return (
        _agrees(of_mean, means, mean),
        _agrees(of_covariance, covariances, covariance),
    )


class Gaussian(NamedTuple):
    """A Gaussian: its mode (2,) and its precision matrix (2, 2)."""

    mode: Array
    precision: Array


def _laplace(history: Past) -> Gaussian:
    """Return Laplace's approximation of the logistic posterior."""
    from scipy.optimize import minimize

    family = LogisticFamily()
    prior = _RIDGE * np.eye(2)
    etas = np.full(len(history.rewards), _ETA)
    phi = history.phi
    target = Target(family, np.zeros(2), prior, phi, history.rewards, etas)

    def objective(theta: Array) -> tuple[Array, Array]:
        log_density, gradient = target.log_density(theta[None])
        return -log_density[0], -gradient[0]

    start = np.zeros(2)
    found = minimize(objective, start, jac=True, tol=1e-10)
    mode: Array = found.x
    chances = family.predict(mode[None], phi)[0]
    weights = chances * (1 - chances)
    information = (phi.T * weights) @ phi
    return Gaussian(mode, prior + _ETA * information)


def _distances(exact: Cloud, of_cover: Cloud, mode: Array, n: int) -> Table:
    """Return a table of how far the means of the cover and of Laplace's approximation
    are from the exact mean. Their errors are not random."""
    mean, covariance = exact.moments()
    deviations = np.sqrt(np.diag(covariance))
    means = {f"cover of {n:,} experts": of_cover.mean, "Laplace, its mode": mode}
    rows = []
    for name, own_mean in means.items():
        distances = np.abs(own_mean - mean) / deviations
        distance = distances.max()
        rows.append((name, f"{distance:.2g}"))
    headers = (
        "posterior",
        "distance of its mean from the exact one, in posterior standard deviations",
    )
    caption = (
        "Approximations whose error is not random: the mode of a skewed "
        "posterior is not its mean"
    )
    return Table(headers, tuple(rows), caption)


def _linear(history: Past, settings: dict[str, Any]) -> tuple[Claim, ...]:
    """Claim that particles match the posterior of a linear class with square loss,
    which is Gaussian in closed form, with and without forgetting."""
    phi = history.phi
    information = 2 * _ETA * phi.T @ phi
    precision = _RIDGE * np.eye(2) + information
    inverse = np.linalg.inv(precision)
    covariance = np.asarray(inverse, dtype=np.float64)
    mean = covariance @ (2 * _ETA * history.rewards @ phi)
    exact = (mean, covariance)
    memory = _DECISIONS // 3
    whole = _particles(LinearFamily(), history, **settings)
    forgetful = _particles(LinearFamily(), history, memory=memory, **settings)
    name = f"the same with a memory of {memory} decisions"
    of_mean, _ = _moment_claims(name, forgetful, exact)
    return (*_moment_claims("linear class, square loss", whole, exact), of_mean)


def _figure(
    exact: Cloud, of_cover: Cloud, particles: Cloud, laplace: Gaussian
) -> Figure:
    n = len(particles.points)
    figure, all_panels = panels(4, width=3.9, height=4.4)
    grid_panel, cover_panel, particle_panel, laplace_panel = all_panels
    _contours(grid_panel, exact, COLOURS[0], "-")
    for panel in (cover_panel, particle_panel, laplace_panel):
        _contours(panel, exact, EDGE, ":")

    heavy = of_cover.share > 1e-4
    x, y = of_cover.points[heavy].T
    style: Any = {"color": COLOURS[4], "edgecolors": COLOURS[6], "linewidths": 0.5}
    cover_panel.scatter(x, y, s=1200 * of_cover.share[heavy], **style)

    places = np.linspace(0, n - 1, _DRAWN)
    some = places.astype(int)
    x, y = particles.points[some].T
    shares = particles.share
    sizes = 25 * shares[some] / shares.max()
    particle_panel.scatter(x, y, s=sizes, color=COLOURS[2], alpha=0.6, linewidths=0)

    inverse = np.linalg.inv(laplace.precision)
    root = np.linalg.cholesky(inverse)
    angles = np.linspace(0, 2 * np.pi, 200)
    circle = np.stack([np.cos(angles), np.sin(angles)])
    for mass in _MASSES:
        square = -2 * np.log(1 - mass)
        radius = np.sqrt(square)
        centre = laplace.mode[:, None]
        x, y = centre + radius * root @ circle
        laplace_panel.plot(x, y, color=COLOURS[1], lw=1.6)

    mean, covariance = exact.moments()
    reach = 4 * np.sqrt(np.diag(covariance))
    low = mean - reach
    high = mean + reach
    centres = {
        "exact, on a fine grid": mean,
        f"cover of {len(of_cover.points):,} experts": of_cover.mean,
        f"{_DRAWN} of {n:,} particles": particles.mean,
        "Laplace": laplace.mode,
    }
    pairs = zip(all_panels, centres.items(), strict=True)
    for panel, (title, centre) in pairs:
        style = {"color": COLOURS[6], "mec": SHEET, "ms": 10, "ls": "none"}
        panel.plot(*centre, MARKERS[6], label="its mean", **style)
        style = {"color": COLOURS[3], "mec": COLOURS[6], "ms": 15, "ls": "none"}
        panel.plot(*_TRUTH, "*", label="the truth", **style)
        panel.set(title=title, xlabel="θ₁")
        xlim = (low[0], high[0])
        ylim = (low[1], high[1])
        panel.set(xlim=xlim, ylim=ylim)
    grid_panel.set_ylabel("θ₂")
    legend(grid_panel)
    caption = (
        "The posterior after the same 60 decisions. Lines enclose 50, 90 and 99 "
        "% of the probability (dotted grey: lines of the exact posterior); the "
        "area of a point is its weight. Laplace's mean is its mode."
    )
    return Figure(svg(figure), caption)


def _contours(panel: Any, exact: Cloud, colour: str, dashes: str) -> None:
    """Draw contour lines that enclose 50, 90 and 99 % of the exact posterior."""
    falling = np.sort(exact.share)[::-1]
    mass_above = np.cumsum(falling)
    places = np.searchsorted(mass_above, _MASSES)
    levels = sorted(falling[places].tolist())
    # Every fourth grid point is enough for a smooth contour.
    some = (slice(None, None, 4), slice(None, None, 4))
    columns = exact.points[:, 0].reshape(_FINE, _FINE)
    rows = exact.points[:, 1].reshape(_FINE, _FINE)
    x = columns[some]
    y = rows[some]
    density = exact.share.reshape(_FINE, _FINE)[some]
    style = {"colors": [colour], "linestyles": [dashes], "linewidths": 1.6}
    panel.contour(x, y, density, levels=levels, **style)


CONTINUOUS = Experiment(continuous, (PARTICLES,), (WRONG,))
