"""A user's experiment about episodes: read a TOML file of worlds and policies, simulate
all pairs, and write a report."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.core.arrays import Array
from oddsmith.core.losses import log_loss
from oddsmith.files.keys import Keys, read_toml
from oddsmith.lab.episodes.gps import GeneralizedPosteriorSampling
from oddsmith.lab.episodes.policy import EpisodicPolicy
from oddsmith.lab.episodes.simulate import EpisodeRun, simulate_episodes
from oddsmith.lab.episodes.tables import (
    EpisodeProblem,
    read_episode_policy,
    read_episode_problem,
)
from oddsmith.lab.episodes.world import EpisodicWorld
from oddsmith.lab.standings import (
    Curve,
    PolicyResult,
    Standings,
    StudyResults,
    WorldResults,
    of_world,
)
from oddsmith.logs.engines import each

__all__ = ["EpisodeStudy", "read_episode_study"]

_POINTS = 60  # number of episodes per curve, evenly spaced on a log scale
_REGRET = (
    "the optimal policy's value in the initial state minus the value of the followed "
    "policies"
)


class _Cell(NamedTuple):
    """One policy in one world, simulated by one process."""

    policy: EpisodicPolicy
    world: EpisodicWorld
    episodes: int
    runs: int
    seed: int


def _play(cell: _Cell) -> EpisodeRun:
    return simulate_episodes(
        cell.policy, cell.world, episodes=cell.episodes, runs=cell.runs, seed=cell.seed
    )


@dataclass(frozen=True, eq=False)
class EpisodeStudy:
    """All policies in all worlds: the content of an experiment file with `episodes`."""

    title: str
    episodes: int
    runs: int
    seed: int
    problems: dict[str, EpisodeProblem]
    policies: dict[tuple[str, str], EpisodicPolicy]  # policies by world and name

    def run(
        self, out: Path | str, *, engine: str = "local", workers: int | None = None
    ) -> Standings:
        """Simulate, write out/index.html, and return the standings with the table of
        results."""
        cells = []
        for (world, _), policy in self.policies.items():
            model = self.problems[world].world
            cells.append(_Cell(policy, model, self.episodes, self.runs, self.seed))
        runs = dict(each(_play, cells, engine=engine, workers=workers))
        regrets = {}
        for i, key in enumerate(self.policies):
            regrets[key] = runs[i].regret
        worlds = []
        for world in self.problems:
            worlds.append(self._results(world, of_world(world, regrets)))
        results = StudyResults(
            title=self.title,
            count=self.episodes,
            axis="episodes",
            runs=self.runs,
            unit="runs",
            rate="per episode",
            regret=_REGRET,
            worlds=tuple(worlds),
        )
        return results.write(Path(out))

    def _results(self, world: str, regrets: dict[str, Array]) -> WorldResults:
        """Return the results of one world, from the regret (E, runs) of each policy."""
        model = self.problems[world].world.model
        policies = {}
        for name, regret in regrets.items():
            policies[name] = self._result(world, name, regret)
        return WorldResults(world, self.episodes * model.horizon, policies)

    def _result(self, world: str, name: str, regret: Array) -> PolicyResult:
        """Return the result of one policy in one world, from its regret (E, runs)."""
        even = np.geomspace(1, len(regret), _POINTS)
        at = np.unique(even.astype(int))
        so_far = regret.cumsum(axis=0)[at - 1]
        curve = Curve.of(at, list(so_far))
        totals = regret.sum(axis=0)
        rate = f"{totals.mean() / self.episodes:.4f}"
        return PolicyResult(curve, totals, rate, self._bound(world, name))

    def _bound(self, world: str, name: str) -> float | None:
        """Return the bound, or None if the theory has none. It has one if the right
        model is among the models, the loss is log loss, and η is that of the theory."""
        policy = self.policies[world, name]
        model = self.problems[world].world.model
        if not isinstance(policy, GeneralizedPosteriorSampling):
            return None
        has_bound = policy.loss is log_loss and not policy.optimism
        if not has_bound or policy.prior[0] == 0:
            return None
        sizes: Any = {
            "horizon": model.horizon,
            "n_actions": model.n_actions,
            "episodes": self.episodes,
            "policies": policy.n_policies,
        }
        if policy.eta == 1 and policy.gamma == 0:
            return theory.posterior_sampling_bound(policy.prior, truth=0, **sizes).bound
        if policy.eta != 0.5:
            return None
        prior = float(policy.prior[0])
        bound = theory.episode_bound(
            **sizes,
            n_states=model.n_states,
            prior=prior,
            gamma=policy.gamma,
            explore=policy.explore,
        )
        return bound.bound


def read_episode_study(path: Path) -> EpisodeStudy:
    """Read the experiment of a TOML file with `episodes`. Errors name the key."""
    keys = read_toml(path)
    title = keys.text("title", path.stem)
    seed = keys.whole("seed", 0, least=0, most=2**63 - 1)
    episodes = keys.whole("episodes")
    runs = keys.whole("runs", 20)
    problems = {}
    for name, table in keys.tables("worlds").items():
        problems[name] = read_episode_problem(table)
    tables = keys.tables("policies")
    policies = {}
    for world, problem in problems.items():
        for name, table in tables.items():
            # Create a new `Keys` for each world, so that unknown keys are reported for
            # each.
            policy_keys = Keys(table.values, f"policies.{name}")
            policies[world, name] = read_episode_policy(policy_keys, problem)
    keys.close()
    return EpisodeStudy(title, episodes, runs, seed, problems, policies)
