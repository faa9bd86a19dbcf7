"""A user's experiment: read a TOML file of worlds and policies, simulate all pairs, and
write a report."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from oddsmith import theory
from oddsmith.contexts.schema import Schema
from oddsmith.core.arrays import Array
from oddsmith.core.errors import InvalidInput
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.losses import Loss
from oddsmith.core.policy import Policy
from oddsmith.files.build import BuildContext
from oddsmith.files.keys import Keys, read_toml
from oddsmith.files.kinds import parameters, read_policy_table
from oddsmith.files.policy import PolicyFile, read_policy
from oddsmith.lab.delays import Delay, GeometricDelay
from oddsmith.lab.problem_tables import read_problem
from oddsmith.lab.problems import Problem
from oddsmith.lab.standings import (
    Curve,
    PolicyResult,
    Standings,
    StudyResults,
    WorldResults,
    of_world,
)
from oddsmith.lab.sweep import Cell, sweep
from oddsmith.lab.worlds.world import Bernoulli, Beta, Noise
from oddsmith.theory.coefficients import tight_coefficient

__all__ = ["Study", "read_study"]

_REGRET = "the best arm's mean reward minus the expected reward under the propensities"

_Columns = dict[str, Any]
"""The columns of a sweep's table, as arrays."""


@dataclass(frozen=True, eq=False)
class Study:
    """Every policy in every world for some seeds: the content of an experiment file."""

    title: str
    steps: int
    runs: int
    seeds: tuple[int, ...]
    delay: int | Delay
    noise: Noise
    problems: dict[str, Problem]
    policies: dict[tuple[str, str], Policy]  # policies by world and name

    def cells(self) -> list[Cell]:
        """Return the cells for `sweep`."""
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
        """Run the sweep, write out/table.parquet and out/index.html, and return the
        standings with the table of results."""
        rows = sweep(self.cells(), out, engine=engine, workers=workers)
        columns = {}
        for name in rows.column_names:
            columns[name] = np.array(rows[name].to_pylist())
        worlds = [self._results(world, columns) for world in self.problems]
        unit = "runs"
        if self._by_seed:
            unit = "seeds"
        runs = self.runs * len(self.seeds)
        results = StudyResults(
            title=self.title,
            count=self.steps,
            axis="steps",
            runs=runs,
            unit=unit,
            rate="reward per step",
            regret=_REGRET,
            worlds=tuple(worlds),
        )
        return results.write(Path(out))

    @property
    def _by_seed(self) -> bool:
        """Whether only seeds are independent, because runs of one seed share random
        delays."""
        return callable(self.delay)

    def _results(self, world: str, columns: _Columns) -> WorldResults:
        policies = {}
        for name in of_world(world, self.policies):
            policies[name] = self._result(world, name, columns)
        return WorldResults(world, self.steps, policies)

    def _result(self, world: str, name: str, columns: _Columns) -> PolicyResult:
        """Return the result of one policy in one world, from the columns of the
        sweep."""
        is_in_world = columns["world"] == world
        is_policy = is_in_world & (columns["policy"] == name)
        step = columns["step"]
        at = np.unique(step[is_policy])
        by_step = [is_policy & (step == number) for number in at]
        regrets = [columns["regret"][rows] for rows in by_step]
        if self._by_seed:
            seeds = columns["seed"][by_step[0]]
            regrets = [_means_by(seeds, values) for values in regrets]
        curve = Curve.of(at, regrets)
        last_rewards = columns["reward"][by_step[-1]]
        reward = float(last_rewards.mean())
        rate = f"{reward / self.steps:.4f}"
        bound = self._bound(world, name)
        return PolicyResult(curve, regrets[-1], rate, bound)

    def _bound(self, world: str, name: str) -> float | None:
        """Return the regret bound, or None if the theory has none. It has one if an
        expert is right, rewards are not delayed, and eta is that of the theory."""
        policy = self.policies[world, name]
        problem = self.problems[world]
        if type(policy) is not GeneralizedThompsonSampling:
            return None
        is_altered = policy.share or policy.optimism or policy.discount < 1
        if problem.truth is None or self.delay != 0 or is_altered:
            return None
        prior = float(policy.prior[problem.truth])
        if prior == 0 or not isinstance(policy.gamma, float):
            return None
        if policy.eta != _best_eta(policy.loss):
            return None
        bound = theory.regret_bound(
            policy.loss,
            n_arms=problem.n_arms,
            steps=self.steps,
            prior=prior,
            gamma=policy.gamma,
        )
        return bound.bound


def _means_by(groups: Any, values: Array) -> Array:
    """Return the mean of the values in each group."""
    means = [values[groups == group].mean() for group in np.unique(groups)]
    return np.array(means)


def _best_eta(loss: Loss) -> float | None:
    """Return the eta of the theory, or None for a loss that violates its conditions."""
    try:
        return tight_coefficient(loss).eta
    except InvalidInput:
        return None


def read_study(path: Path) -> Study:
    """Read the experiment of a TOML file. Errors name the key."""
    keys = read_toml(path)
    title = keys.text("title", path.stem)
    steps = keys.whole("steps")
    runs = keys.whole("runs", 20)
    seeds = _seeds(keys)
    problems = {}
    for name, table in keys.tables("worlds").items():
        problems[name] = read_problem(table)
    tables = keys.tables("policies")
    folder = path.resolve().parent
    policies = {}
    for world, problem in problems.items():
        for name, table in tables.items():
            build = problem.build(folder, steps)
            # Create a new `Keys` for each world, so that unknown keys are reported for
            # each.
            policy_keys = Keys(table.values, f"policies.{name}")
            policies[world, name] = _policy(policy_keys, problem, build)
    delay = _delay(keys)
    noise = _noise(keys)
    keys.close()
    return Study(title, steps, runs, seeds, delay, noise, problems, policies)


def _seeds(keys: Keys) -> tuple[int, ...]:
    """Return the seeds, which must be different whole numbers."""
    seeds = keys.get("seeds", [0])
    is_list = isinstance(seeds, list) and len(seeds) > 0
    if not is_list or not all(type(s) is int and 0 <= s < 2**63 for s in seeds):
        raise InvalidInput(
            "seeds must be a list of whole numbers from 0 to 2^63 - 1; got "
            f"{seeds!r:.60}"
        )
    if len(set(seeds)) < len(seeds):
        raise InvalidInput(f"seeds must differ; got {seeds!r:.60}")
    return tuple(seeds)


def _policy(keys: Keys, problem: Problem, build: BuildContext) -> Policy:
    """Return the policy of a table, or of the policy file that it names. Policies
    without experts of the world receive features."""
    if "file" in keys.values:
        return _policy_of_file(keys, problem, build)
    policy = read_policy_table(keys, build)
    settings = parameters(keys.text("kind", "gts"))
    needs_rows = "dim" in settings and "n_arms" not in settings
    has_rows = problem.rows_per_arm or build.arms is None
    if needs_rows and not has_rows:
        raise InvalidInput(
            f"{keys.named('kind')} must fit the world, which has no row of features "
            "for each arm"
        )
    if "experts" in settings:
        return policy
    return problem.adapt(policy)


def _policy_of_file(keys: Keys, problem: Problem, build: BuildContext) -> Policy:
    """Return the policy of the policy file that `file` names."""
    file = read_policy(build.folder / keys.text("file"), build)
    keys.close()
    _check_suits(file, problem, keys.named("file"))
    if "experts" in parameters(file.kind) and "experts" not in file.table:
        return file.policy
    return problem.adapt(
        file.policy,
        with_names=file.schema is not None,
        with_arm_names=file.arm_schema is not None,
    )


def _check_suits(file: PolicyFile, problem: Problem, key: str) -> None:
    """Raise an error if a policy file has other arms or columns than the world."""
    n_arms = None
    if file.arms is not None:
        n_arms = len(file.arms)
    if problem.world.makes_offers:
        if n_arms is not None:
            raise InvalidInput(
                f"{key} must not declare arms, because this world passes them in each "
                f"call; got {n_arms}"
            )
    elif n_arms != problem.n_arms:
        got = "none" if n_arms is None else n_arms
        raise InvalidInput(
            f"{key} must have the world's {problem.n_arms} arms; got {got}"
        )
    _check_columns(file.schema, problem.columns, key)
    _check_columns(file.arm_schema, problem.arm_columns, key)


def _check_columns(schema: Schema | None, columns: Sequence[str], key: str) -> None:
    """Raise an error if a schema has columns that the world lacks."""
    if schema is None:
        return
    names = (*schema.numbers, *schema.categories)
    absent = [name for name in names if name not in columns]
    if absent:
        some = ", ".join(columns[:8]) or "none"
        raise InvalidInput(
            f"{key} must have a schema of the world's columns, {some}; got "
            f"{absent[0]!r}"
        )


def _delay(keys: Keys) -> int | Delay:
    """Return the delay: a whole number of steps, or { mean = … } for random delays."""
    if not isinstance(keys.get("delay", 0), dict):
        return keys.whole("delay", 0, least=0)
    table = keys.table("delay")
    mean = table.number("mean", low=0, high=1e9)
    table.close()
    return GeometricDelay(mean)


def _noise(keys: Keys) -> Noise:
    """Return the noise of rewards: 0 and 1, or { beta = strength }."""
    if not isinstance(keys.get("rewards", "bernoulli"), dict):
        keys.text("rewards", "bernoulli", choices=("bernoulli",))
        return Bernoulli()
    table = keys.table("rewards")
    strength = table.number("beta", low=1e-6, high=1e6)
    table.close()
    return Beta(strength)
