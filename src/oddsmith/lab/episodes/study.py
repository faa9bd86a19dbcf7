"""A user's own experiment about episodes: a TOML file of worlds and policies, simulated
and reported."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.core.arrays import Array
from oddsmith.core.losses import log_loss
from oddsmith.files.keys import Keys, read_toml
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import band, legend, panels, svg
from oddsmith.lab.episodes.gps import GeneralizedPosteriorSampling
from oddsmith.lab.episodes.policy import EpisodicPolicy
from oddsmith.lab.episodes.simulate import EpisodeRun, simulate_episodes
from oddsmith.lab.episodes.tables import (
    EpisodeProblem,
    read_episode_policy,
    read_episode_problem,
)
from oddsmith.lab.episodes.world import EpisodicWorld
from oddsmith.lab.leaders import leader, regrets
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.study import Standings
from oddsmith.logs.engines import each

__all__ = ["EpisodeStudy", "read_episode_study"]


class _Cell(NamedTuple):
    """One policy in one world: what a process simulates."""

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
    """Every policy in every world: what an experiment file with `episodes` says."""

    title: str
    episodes: int
    runs: int
    seed: int
    problems: dict[str, EpisodeProblem]
    policies: dict[tuple[str, str], EpisodicPolicy]  # by world and name

    def run(
        self, out: Path | str, *, engine: str = "local", workers: int | None = None
    ) -> Standings:
        """Simulate, write out/index.html, and give back who earns most, and the table
        of results."""
        cells = [
            _Cell(
                policy, self.problems[world].world, self.episodes, self.runs, self.seed
            )
            for (world, _), policy in self.policies.items()
        ]
        runs = dict(each(_play, cells, engine=engine, workers=workers))
        found = {key: runs[i].regret for i, key in enumerate(self.policies)}
        rows, sections, sentences, pictures = [], [], [], []
        for world, problem in self.problems.items():
            mine = {
                name: regret
                for (where, name), regret in found.items()
                if where == world
            }
            totals = {name: regret.sum(axis=0) for name, regret in mine.items()}
            rows += [
                (world, name, *self._numbers(world, name, total))
                for name, total in totals.items()
            ]
            where = f"{world}: " if len(self.problems) > 1 else ""
            sentences.append(
                f"{where}"
                f"{leader(totals, steps=self.episodes * problem.world.model.horizon)}."
            )
            pictures.append(regrets(totals, where))
            sections.append(Section(f"World: {world}", figures=(_figure(mine),)))
        headers = ("world", "policy", "regret", "± s.e.", "per episode", "bound")
        table = Table(
            headers,
            tuple(rows),
            f"Regret after {self.episodes:,} episodes, and what the theory allows",
        )
        sections += [
            Section("Results", tables=(table,)),
            Section("Details", self._told(), folded=True),
        ]
        Path(out).mkdir(parents=True, exist_ok=True)
        write(Path(out) / "index.html", self.title, "\n\n".join(sentences), sections)
        return Standings(
            tuple(sentences),
            "\n\n".join(picture for picture in pictures if picture),
            table,
        )

    def _numbers(
        self, world: str, name: str, totals: Array
    ) -> tuple[str, str, str, str]:
        mean, error = mean_and_error(totals)
        bound = self._bound(world, name)
        shown = "" if np.isnan(error) else f"{error:.2g}"
        return (
            f"{mean:,.2f}",
            shown,
            f"{mean / self.episodes:.4f}",
            "" if bound is None else f"{bound:,.0f}",
        )

    def _bound(self, world: str, name: str) -> float | None:
        """The bound where the theory has one: the truth among the models, log loss, and
        η of the theory."""
        policy, model = self.policies[world, name], self.problems[world].world.model
        if (
            not isinstance(policy, GeneralizedPosteriorSampling)
            or policy.loss is not log_loss
            or policy.prior[0] == 0
        ):
            return None
        sizes: Any = {
            "horizon": model.horizon,
            "n_actions": model.n_actions,
            "episodes": self.episodes,
        }
        sizes["policies"] = policy.n_policies
        if policy.eta == 1 and policy.gamma == 0 and not policy.optimism:
            return theory.posterior_sampling_bound(policy.prior, truth=0, **sizes).bound
        if policy.eta != 0.5 or policy.optimism:
            return None
        sizes |= {"n_states": model.n_states, "prior": float(policy.prior[0])}
        return theory.episode_bound(
            **sizes, gamma=policy.gamma, explore=policy.explore
        ).bound

    def _told(self) -> str:
        n = len(self.policies) // len(self.problems)
        return (
            f"{n} policies in {len(self.problems)} worlds, {self.episodes:,} episodes, "
            f"{self.runs:,} runs of each. Regret is exact: the best policy's value in "
            "the first state minus the value of what is played from there."
        )


def _figure(regret: dict[str, Array]) -> Figure:
    """Regret against episodes on log scales, at up to 60 places."""
    figure, (panel,) = panels()
    least = np.inf
    for i, (name, values) in enumerate(regret.items()):
        at = np.unique(np.geomspace(1, len(values), 60).astype(int))
        total = values.cumsum(axis=0)[at - 1]
        mean, error = np.array([mean_and_error(row) for row in total]).T
        band(panel, at, mean, np.nan_to_num(error), i, name)
        least = min(least, float(mean.min()))
    if least > 0:
        panel.set(yscale="log", ylim=(least / 1.5, None))
    panel.set(xscale="log", xlabel="episodes", ylabel="regret so far (lost rewards)")
    legend(panel)
    return Figure(
        svg(figure), "Mean regret over runs, with two standard errors: lower is better."
    )


def read_episode_study(path: Path) -> EpisodeStudy:
    """The experiment that a TOML file with `episodes` describes; an error names its
    key."""
    keys = read_toml(path)
    title, seed = (
        keys.text("title", path.stem),
        keys.whole("seed", 0, least=0, most=2**63 - 1),
    )
    episodes, runs = keys.whole("episodes"), keys.whole("runs", 20)
    problems = {
        name: read_episode_problem(table)
        for name, table in keys.tables("worlds").items()
    }
    tables = keys.tables("policies")
    policies = {
        (world, name): read_episode_policy(
            Keys(table.values, f"policies.{name}"), problem
        )
        for world, problem in problems.items()
        for name, table in tables.items()
    }
    keys.close()
    return EpisodeStudy(title, episodes, runs, seed, problems, policies)
