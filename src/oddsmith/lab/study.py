"""A user's own experiment: a TOML file of worlds and policies, swept and reported."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from oddsmith import theory
from oddsmith.core.errors import InvalidInput
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.losses import Loss
from oddsmith.core.policy import Policy
from oddsmith.files.build import BuildContext
from oddsmith.files.keys import Keys, read_toml
from oddsmith.files.kinds import parameters, read_policy_table
from oddsmith.files.policy import PolicyFile, read_policy
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import band, legend, panels, svg
from oddsmith.lab.delays import Delay, GeometricDelay
from oddsmith.lab.leaders import leader, regrets
from oddsmith.lab.problem_tables import read_problem
from oddsmith.lab.problems import Problem
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.sweep import Cell, sweep
from oddsmith.lab.worlds.world import Bernoulli, Beta, Noise
from oddsmith.theory.coefficients import tight_coefficient

__all__ = ["Standings", "Study", "read_study"]


class Standings(NamedTuple):
    """Who earns most, a sentence for each world; a picture of regrets for a terminal;
    and the table of results."""

    sentences: tuple[str, ...]
    picture: str
    table: Table


class _Curve(NamedTuple):
    """Steps, mean regret and standard error at them; at the end, all regrets (of runs
    or seeds) and the mean reward."""

    at: Any
    mean: Any
    error: Any
    totals: Any
    reward: float


@dataclass(frozen=True, eq=False)
class Study:
    """Every policy in every world, for some seeds: what an experiment file says."""

    title: str
    steps: int
    runs: int
    seeds: tuple[int, ...]
    delay: int | Delay
    noise: Noise
    problems: dict[str, Problem]
    policies: dict[tuple[str, str], Policy]  # by world and name

    def cells(self) -> list[Cell]:
        """What `sweep` runs."""
        return [
            Cell(
                name,
                world,
                seed,
                policy,
                self.problems[world].world,
                self.steps,
                self.runs,
                self.delay,
                self.noise,
            )
            for (world, name), policy in self.policies.items()
            for seed in self.seeds
        ]

    def run(
        self, out: Path | str, *, engine: str = "local", workers: int | None = None
    ) -> Standings:
        """Sweep, write out/table.parquet and out/index.html, and give back who earns
        most, and the table of results."""
        found = sweep(self.cells(), out, engine=engine, workers=workers)
        columns = {
            name: np.array(found[name].to_pylist()) for name in found.column_names
        }
        rows, sections, sentences, pictures = [], [], [], []
        for world in self.problems:
            curves = {}
            for name in (policy for where, policy in self.policies if where == world):
                mine = (columns["world"] == world) & (columns["policy"] == name)
                curves[name] = _curve(
                    {key: values[mine] for key, values in columns.items()},
                    by_seed=self._by_seed,
                )
                rows.append((world, name, *self._numbers(world, name, curves[name])))
            where = f"{world}: " if len(self.problems) > 1 else ""
            totals = {name: curve.totals for name, curve in curves.items()}
            unit = "seeds" if self._by_seed else "runs"
            sentences.append(f"{where}{leader(totals, steps=self.steps, unit=unit)}.")
            pictures.append(regrets(totals, where))
            sections.append(Section(f"World: {world}", figures=(self._figure(curves),)))
        headers = ("world", "policy", "regret", "± s.e.", "reward per step", "bound")
        table = Table(
            headers,
            tuple(rows),
            f"Regret after {self.steps:,} steps, and what the theory allows",
        )
        sections += [
            Section("Results", tables=(table,)),
            Section("Details", self._told(), folded=True),
        ]
        write(Path(out) / "index.html", self.title, "\n\n".join(sentences), sections)
        return Standings(
            tuple(sentences),
            "\n\n".join(picture for picture in pictures if picture),
            table,
        )

    @property
    def _by_seed(self) -> bool:
        """Whether seeds are what is independent: runs of one seed share its random
        delays."""
        return callable(self.delay)

    def _numbers(
        self, world: str, name: str, curve: _Curve
    ) -> tuple[str, str, str, str]:
        bound = self._bound(world, name)
        shown = "" if bound is None else f"{bound:,.0f}"
        return (
            f"{curve.mean[-1]:,.2f}",
            "" if np.isnan(curve.error[-1]) else f"{curve.error[-1]:.2g}",
            f"{curve.reward / self.steps:.4f}",
            shown,
        )

    def _bound(self, world: str, name: str) -> float | None:
        """The regret bound where the theory has one: a true expert, no delay, and eta
        of the theory."""
        policy = self.policies[world, name]
        where = self.problems[world]
        if type(policy) is not GeneralizedThompsonSampling:
            return None
        altered = policy.share or policy.optimism or policy.discount < 1
        if where.truth is None or self.delay != 0 or altered:
            return None
        prior = float(policy.prior[where.truth])
        if prior == 0 or not isinstance(policy.gamma, float):
            return None
        if policy.eta != _best_eta(policy.loss):
            return None
        problem: Any = {
            "n_arms": where.world.n_arms,
            "steps": self.steps,
            "prior": prior,
        }
        return theory.regret_bound(policy.loss, gamma=policy.gamma, **problem).bound

    def _told(self) -> str:
        total, n = self.runs * len(self.seeds), len(self.policies) // len(self.problems)
        return (
            f"{n} policies in {len(self.problems)} worlds, {self.steps:,} steps, "
            f"{total:,} runs of each. Regret is exact: the best arm's mean reward "
            "minus the expected reward of the odds played."
        )

    def _figure(self, curves: dict[str, _Curve]) -> Figure:
        """Regret on log scales, so that one bad policy does not press the others to the
        ground."""
        figure, (panel,) = panels()
        for i, (name, curve) in enumerate(curves.items()):
            band(panel, curve.at, curve.mean, np.nan_to_num(curve.error), i, name)
        least = min(float(curve.mean.min()) for curve in curves.values())
        if least > 0:
            panel.set(yscale="log", ylim=(least / 1.5, None))
        panel.set(xscale="log", xlabel="steps", ylabel="regret so far (lost rewards)")
        legend(panel)
        return Figure(
            svg(figure),
            "Mean regret over runs, with two standard errors: lower is better.",
        )


def _best_eta(loss: Loss) -> float | None:
    """The eta of the theory; None for a loss that breaks its conditions."""
    try:
        return tight_coefficient(loss).eta
    except InvalidInput:
        return None


def _curve(columns: dict[str, Any], *, by_seed: bool) -> _Curve:
    """The curve of one policy in one world; with `by_seed`, seeds are what is
    independent."""
    at = np.unique(columns["step"])
    groups = [columns["regret"][columns["step"] == step] for step in at]
    if by_seed:
        seeds = columns["seed"][columns["step"] == at[0]]
        groups = [
            np.array([group[seeds == seed].mean() for seed in np.unique(seeds)])
            for group in groups
        ]
    mean, error = np.array([mean_and_error(group) for group in groups]).T
    return _Curve(
        at,
        mean,
        error,
        groups[-1],
        float(columns["reward"][columns["step"] == at[-1]].mean()),
    )


def read_study(path: Path) -> Study:
    """The experiment that a TOML file describes; an error names its key."""
    keys = read_toml(path)
    title = keys.text("title", path.stem)
    steps, runs = keys.whole("steps"), keys.whole("runs", 20)
    seeds = keys.get("seeds", [0])
    if (
        not isinstance(seeds, list)
        or not seeds
        or not all(type(s) is int and 0 <= s < 2**63 for s in seeds)
    ):
        raise InvalidInput(
            "seeds must be a list of whole numbers from 0 to 2^63 - 1; got "
            f"{seeds!r:.60}"
        )
    if len(set(seeds)) < len(seeds):
        raise InvalidInput(f"seeds must differ; got {seeds!r:.60}")
    problems = {
        name: read_problem(table) for name, table in keys.tables("worlds").items()
    }
    tables, folder = keys.tables("policies"), path.resolve().parent
    policies = {
        (world, name): _policy(
            Keys(table.values, f"policies.{name}"),
            problem,
            problem.build(folder, steps),
        )
        for world, problem in problems.items()
        for name, table in tables.items()
    }
    study = Study(
        title, steps, runs, tuple(seeds), _delay(keys), _noise(keys), problems, policies
    )
    keys.close()
    return study


def _policy(keys: Keys, problem: Problem, build: BuildContext) -> Policy:
    """The policy of a table, or of the policy file that it names; without the world's
    experts, on features."""
    if "file" not in keys.values:
        policy = read_policy_table(keys, build)
        taken = parameters(keys.text("kind", "gts"))
        if (
            "dim" in taken
            and "n_arms" not in taken
            and not (problem.rows_per_arm or build.arms is None)
        ):
            raise InvalidInput(
                f"{keys.named('kind')} must suit the world, which has no row of "
                "features for each arm"
            )
        return policy if "experts" in taken else problem.seen_by(policy)
    file = read_policy(build.folder / keys.text("file"), build)
    keys.close()
    _check_suits(file, problem, keys.named("file"))
    if "experts" in parameters(file.kind) and "experts" not in file.table:
        return file.policy
    return problem.seen_by(
        file.policy,
        named=file.schema is not None,
        arms_named=file.arm_schema is not None,
    )


def _check_suits(file: PolicyFile, problem: Problem, key: str) -> None:
    """Refuses a policy file about other arms or columns than the world's."""
    if problem.world.makes_offers and file.arms is not None:
        raise InvalidInput(
            f"{key} must have no arms, which come with the call in this world; got "
            f"{len(file.arms)}"
        )
    if not problem.world.makes_offers and (
        file.arms is None or len(file.arms) != problem.n_arms
    ):
        got = "none" if file.arms is None else len(file.arms)
        raise InvalidInput(
            f"{key} must be about the world's {problem.n_arms} arms; got {got}"
        )
    for schema, has in (
        (file.schema, problem.columns),
        (file.arm_schema, problem.arm_columns),
    ):
        asked = () if schema is None else (*schema.numbers, *schema.categories)
        if absent := [name for name in asked if name not in has]:
            columns = f"{', '.join(has[:8]) or 'none'}; got {absent[0]!r}"
            raise InvalidInput(
                f"{key} must have a schema of the world's columns, {columns}"
            )


def _delay(keys: Keys) -> int | Delay:
    """A whole number of steps, or { mean = … } for a random one."""
    if not isinstance(keys.get("delay", 0), dict):
        return keys.whole("delay", 0, least=0)
    table = keys.table("delay")
    mean = table.number("mean", low=0, high=1e9)
    table.close()
    return GeometricDelay(mean)


def _noise(keys: Keys) -> Noise:
    """Rewards of 0 and 1, or { beta = strength }."""
    if not isinstance(keys.get("rewards", "bernoulli"), dict):
        keys.text("rewards", "bernoulli", choices=("bernoulli",))
        return Bernoulli()
    table = keys.table("rewards")
    strength = table.number("beta", low=1e-6, high=1e6)
    table.close()
    return Beta(strength)
