"""Regret bounds for episodes (docs/math 8.5). With one step and G = K each equals the
corresponding bound for decisions.

Regret is over n episodes of H steps, relative to the optimal policy of the world. A
bound above H n carries no information and is cut.
"""

from math import inf, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import number, simplex, whole
from oddsmith.core.errors import InvalidInput
from oddsmith.theory.bounds import Bound, capped, two_priors
from oddsmith.theory.constants import log_inverse

__all__ = [
    "episode_bayes_bound",
    "episode_bound",
    "episode_feelgood_bound",
    "episode_policies",
    "posterior_sampling_bound",
]

_RIGHT = (
    "one model is the truth, rewards and moves have log loss, returns are in [0, H]; "
    "the first states of episodes may be chosen by an adversary"
)


def episode_policies(
    *,
    horizon: int,
    n_actions: int,
    policies: int | None = None,
    n_states: int | None = None,
    off: int = 1,
) -> float:
    """Return G - `off`, the number of policies that must be distinguished: those of the
    models, or S K (H+1)(2H+1)/3 by cells (8.4).

    G is the number of distinct policies among the models, restricted to reachable
    states. If both are known, the smaller one counts; with one step there are at most K
    policies.

    >>> (
    ...     episode_policies(horizon=1, n_actions=5),
    ...     episode_policies(horizon=20, n_actions=2, n_states=6),
    ... )
    (4.0, 3444.0)
    """
    whole("horizon", horizon)
    whole("n_actions", n_actions)
    known: list[float] = []
    if policies is not None:
        known.append(whole("policies", policies) - off)
    if horizon == 1:
        known.append(n_actions - off)
    if n_states is not None:
        cells = whole("n_states", n_states) * n_actions
        product = cells * (horizon + 1) * (2 * horizon + 1)
        known.append(product / 3)
    if not known:
        raise InvalidInput(
            "policies or n_states must be given: how many policies, or states, there "
            "are; got neither"
        )
    return float(min(known))


def _coverage(
    horizon: int, n_actions: int, policies: int | None, explore: str
) -> float:
    """Return how many members share the exploration: K^H sequences of actions, or the G
    policies."""
    if explore not in ("uniform", "policies"):
        raise InvalidInput(f"explore must be uniform or policies; got {explore!r}")
    if explore == "uniform":
        return float(n_actions) ** horizon
    if policies is None:
        raise InvalidInput(
            "policies must be given if they share the exploration; got none"
        )
    return float(policies)


def episode_bound(
    *,
    horizon: int,
    n_actions: int,
    episodes: float,
    prior: float,
    policies: int | None = None,
    n_states: int | None = None,
    gamma: float = 0.0,
    explore: str = "uniform",
) -> Bound:
    """Return the regret of generalised posterior sampling with η = 1/2 and this γ (8.5,
    row 1; corresponds to 3.5).

        (1-γ) √2 H [sqrt((G-1) n L/(1-γ))
                    + min(sqrt(C n L/γ), sqrt(n (1-p)/((1-γ) p)))]
        + γ H n (1 - 1/C)

    C is K^H, or G if the policies share the exploration.

    >>> round(
    ...     episode_bound(
    ...         horizon=20, n_actions=2, episodes=10_000, prior=1 / 8, policies=8
    ...     ).bound
    ... )
    18274
    """
    number("episodes", episodes, low=1, high=inf)
    number("gamma", gamma, low=0, high=1)
    log_prior = log_inverse(prior)
    doubt = sqrt((1 - prior) / prior)
    known: Any = {"horizon": horizon, "n_actions": n_actions, "policies": policies}
    apart = episode_policies(**known, n_states=n_states)
    cover = _coverage(**known, explore=explore)
    exploration = _Exploration(horizon, episodes, gamma, apart, cover)
    terms = exploration.terms(log_prior, doubt)
    return capped(terms, horizon * episodes, eta=0.5, gamma=gamma, applies=_RIGHT)


class _Exploration(NamedTuple):
    """Row 1 of 8.5 with the sizes G - 1 (`apart`) and C (`cover`)."""

    horizon: int
    episodes: float
    gamma: float
    apart: float
    cover: float

    def terms(self, log_prior: float, doubt: float) -> dict[str, float]:
        """Return the terms of the sum, for L and the mean of sqrt((1-p)/p)."""
        n = self.episodes
        share = 1 - 1 / self.cover
        explored = self.horizon * n * share
        rest = 1 - self.gamma
        if rest == 0:
            return {"on policy": 0.0, "off policy": 0.0, "exploration": explored}
        scale = rest * (sqrt(2) * self.horizon)
        blind = inf
        if self.gamma > 0:
            covered = self.cover * n * log_prior
            blind = sqrt(covered / self.gamma)
        on_policy = sqrt(self.apart * n * log_prior / rest)
        off_policy = min(blind, sqrt(n / rest) * doubt)
        exploration = self.gamma * self.horizon * n * share
        return {
            "on policy": scale * on_policy,
            "off policy": scale * off_policy,
            "exploration": exploration,
        }


def episode_bayes_bound(
    true_prior: npt.ArrayLike,
    prior: npt.ArrayLike,
    *,
    horizon: int,
    n_actions: int,
    episodes: float,
    policies: int | None = None,
    n_states: int | None = None,
    gamma: float = 0.0,
    explore: str = "uniform",
) -> Bound:
    """Return the same bound if the right model is drawn from p* and the prior is p:
    H(p*) + KL(p*, p) replaces L (8.5, last row).

    Without exploration, Σ_i p*_i sqrt((1-p_i)/p_i) replaces sqrt((1-p)/p).

    >>> problem = {"horizon": 3, "n_actions": 2, "episodes": 1000, "policies": 2}
    >>> round(episode_bayes_bound([0.5, 0.5], [0.9, 0.1], **problem).bound, 1)
    370.8
    """
    number("episodes", episodes, low=1, high=inf)
    number("gamma", gamma, low=0, high=1)
    truth, used = two_priors(true_prior, prior)
    possible = truth > 0
    truth = truth[possible]
    used = used[possible]
    known: Any = {"horizon": horizon, "n_actions": n_actions, "policies": policies}
    apart = episode_policies(**known, n_states=n_states)
    cover = _coverage(**known, explore=explore)
    log_prior = float(-truth @ np.log(used))
    surprise = np.sqrt((1 - used) / used)
    doubt = float(truth @ surprise)
    exploration = _Exploration(horizon, episodes, gamma, apart, cover)
    terms = exploration.terms(log_prior, doubt)
    applies = f"{_RIGHT}, the truth is drawn from p*"
    return capped(terms, horizon * episodes, eta=0.5, gamma=gamma, applies=applies)


def episode_feelgood_bound(
    *,
    horizon: int,
    n_actions: int,
    episodes: float,
    prior: float,
    policies: int | None = None,
    n_states: int | None = None,
) -> Bound:
    """Return 2 H sqrt((G + 1/4) n L) with η = 1/4, γ = 0 and λ = sqrt(L/(n H² (G +
    1/4))) (8.5, row 2; corresponds to 5.1).

    `gamma` is λ, the policy's `optimism`.

    >>> found = episode_feelgood_bound(
    ...     horizon=3, n_actions=2, episodes=100_000, prior=0.1, policies=2
    ... )
    >>> round(found.bound, 2), round(found.gamma, 10)
    (4318.67, 0.0010663391)
    """
    number("episodes", episodes, low=1, high=inf)
    log_prior = log_inverse(prior)
    size = episode_policies(
        horizon=horizon,
        n_actions=n_actions,
        policies=policies,
        n_states=n_states,
        off=0,
    )
    cost = horizon**2 * (size + 0.25)
    optimism = sqrt(log_prior / (episodes * cost))
    learning = log_prior / optimism if optimism else 0.0
    terms = {"optimism": optimism * episodes * cost, "learning": learning}
    applies = _RIGHT + "; gamma is the optimism here, exploration is 0"
    return capped(terms, horizon * episodes, eta=0.25, gamma=optimism, applies=applies)


def posterior_sampling_bound(
    prior: npt.ArrayLike,
    *,
    horizon: int,
    n_actions: int,
    episodes: float,
    policies: int | None = None,
    truth: int | None = None,
) -> Bound:
    """Return H sqrt(G Ent(p) n/2), the Bayes regret of posterior sampling (η = 1, γ =
    0) under its prior p (8.5; corresponds to 9.2).

    With `truth`, the number of the right model, it is divided by its prior probability.

    >>> round(
    ...     posterior_sampling_bound(
    ...         [1 / 8] * 8, horizon=20, n_actions=2, episodes=500, policies=8
    ...     ).bound
    ... )
    1290
    """
    number("episodes", episodes, low=1, high=inf)
    n = len(np.atleast_1d(np.asarray(prior)))
    p = simplex("prior", prior, n=n, over="models")
    possible = p[p > 0]
    entropy = float(-(possible @ np.log(possible)))
    size = episode_policies(
        horizon=horizon, n_actions=n_actions, policies=policies, off=0
    )
    gained = size * entropy * episodes
    regret = horizon * sqrt(gained / 2)
    origin = "the truth is drawn from the prior"
    if truth is not None:
        model = whole("truth", truth, low=0, high=len(p) - 1)
        share = float(p[model])
        if share == 0:
            raise InvalidInput(
                "truth must have a prior above 0, or the bound is infinite; got model "
                f"{truth}"
            )
        regret /= share
        origin = "the prior gives the truth the probability that it is divided by"
    applies = (
        "rewards are 0 and 1, first states depend on the truth through what was seen "
        f"alone, and {origin}"
    )
    terms = {"learning": regret}
    return capped(terms, horizon * episodes, eta=1.0, gamma=0.0, applies=applies)
