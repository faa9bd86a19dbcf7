"""Data types of experiments: rules, claims and outcomes. Each rule states what it
accepts before the experiment runs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from oddsmith.core.arrays import Array, Real
from oddsmith.core.expert_policy import Prior
from oddsmith.core.experts import Experts
from oddsmith.core.gts import GeneralizedThompsonSampling
from oddsmith.core.losses import LOSSES, Loss
from oddsmith.experts.tables import TableExperts
from oddsmith.files.reports.page import Figure, Table
from oddsmith.lab.problems import Problem, table_problem
from oddsmith.lab.simulate import simulate
from oddsmith.lab.worlds.tables import random_table

__all__ = [
    "Break",
    "Claim",
    "Experiment",
    "Outcome",
    "Rule",
    "Setup",
    "format_mean",
    "instance",
    "measure",
]


@dataclass(frozen=True)
class Rule:
    """A statement to test, its source, and its acceptance criterion in words.

    `false_alarm` bounds the probability of rejecting a true statement, over all `cases`
    together; it is 0 if numbers are exact. If the truth is not known in advance,
    `false_pass` bounds the probability of accepting a false statement.
    """

    statement: str
    where: str
    accept: str
    false_alarm: float | None = 0.0
    cases: int = 1
    false_pass: float | None = None

    @property
    def level(self) -> float:
        """Return the largest error probability allowed for each case."""
        rate = self.false_alarm if self.false_pass is None else self.false_pass
        assert rate is not None
        return rate / self.cases

    @property
    def errors(self) -> str:
        """Return the rule's error probability as text.

        >>> Rule("s", "w", "a").errors, Rule("s", "w", "a", 1e-4, 3).errors
        ('exact: none', 'false alarms ≤ 0.0001')
        """
        if self.false_pass is not None:
            return f"passes if false ≤ {self.false_pass:g}"
        if self.false_alarm:
            return f"false alarms ≤ {self.false_alarm:g}"
        return "exact: none"


@dataclass(frozen=True)
class Claim:
    """One case of a rule: the value that theory predicts, the measured value, and
    whether the rule accepts it."""

    rule: Rule
    case: str
    predicted: str
    measured: str
    holds: bool

    def __post_init__(self) -> None:
        # Comparing arrays returns numpy.bool_, so convert it to bool.
        object.__setattr__(self, "holds", bool(self.holds))


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment: its claims, figures, tables and explanatory text."""

    title: str
    text: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Break:
    """A deliberate error in an experiment that must make a claim fail. It changes the
    policy that runs and leaves the predictions unchanged.

    `eta` and `gamma` are factors, and `shift` is added to every prediction inside the
    loss. `other` names an error that is specific to one experiment.
    """

    name: str
    eta: float = 1.0
    gamma: float = 1.0
    shift: float = 0.0
    other: str = ""


RIGHT = Break("nothing")


@dataclass(frozen=True)
class Setup:
    """The size of an experiment, and the deliberate error in it, if any."""

    quick: bool
    wrong: Break = RIGHT

    def steps(self, full: int, quick: int) -> int:
        if self.quick:
            return quick
        return full

    def runs(self, full: int = 100) -> int:
        if self.quick:
            return min(full, 24)
        return full

    def eta(self, right: float) -> float:
        """Return the learning rate of the policy: `right`, unless the deliberate error
        changes it."""
        return right * self.wrong.eta

    def gamma(self, right: float) -> float:
        """Return the exploration rate of the policy: `right`, unless the deliberate
        error changes it."""
        return right * self.wrong.gamma

    def loss(self, name: str) -> Loss:
        """Return the loss of this name, with predictions shifted if the deliberate
        error does so."""
        loss = LOSSES[name]
        if self.wrong.shift:
            return partial(_shift, loss, self.wrong.shift)
        return loss

    def gts(
        self,
        experts: Experts | Array,
        loss: str = "log",
        *,
        eta: float = 0.5,
        gamma: float = 0.0,
        prior: Prior = None,
        share: float = 0.0,
    ) -> GeneralizedThompsonSampling:
        """Return GTS over experts or a table of their predictions, with the deliberate
        error applied to its settings."""
        bank = TableExperts(experts) if isinstance(experts, np.ndarray) else experts
        return GeneralizedThompsonSampling(
            bank,
            self.loss(loss),
            eta=self.eta(eta),
            gamma=self.gamma(gamma),
            prior=prior,
            share=share,
        )


@dataclass(frozen=True)
class Experiment:
    """A function from a setup to an outcome, with its rules and the deliberate errors
    that can be made in it.

    An experiment without rules only draws figures.
    """

    run: Callable[[Setup], Outcome]
    rules: tuple[Rule, ...] = ()
    breaks: tuple[Break, ...] = ()

    def __call__(self, setup: Setup) -> Outcome:
        """Run the experiment. Raise AssertionError if a claim belongs to no rule, or a
        rule has more cases than it states."""
        outcome = self.run(setup)
        cases = Counter(claim.rule for claim in outcome.claims)
        for rule in {*cases, *self.rules}:
            count = cases[rule]
            is_known = rule in self.rules
            if not is_known or not 0 < count <= rule.cases:
                raise AssertionError(
                    f"{outcome.title}: {rule.statement!r} has {count} cases, but "
                    f"states {rule.cases}"
                )
        return outcome

    def run_wrong(self, setup: Setup, wrong: Break) -> Outcome:
        """Run the experiment with this deliberate error."""
        return self(replace(setup, wrong=wrong))


def _shift(loss: Loss, shift: float, prediction: Array, reward: Real) -> Array:
    """Return the loss of predictions shifted by `shift` and clipped to [0.001,
    0.999]."""
    return loss(np.clip(prediction + shift, 0.001, 0.999), reward)


def instance(
    contexts: int = 10, experts: int = 32, arms: int = 3, seed: int = 7
) -> Problem:
    """Return a benign problem: a `random_table` whose first expert is right."""
    table = random_table(contexts, experts, arms, seed)
    return table_problem(table, contexts=np.arange(contexts))


measure = partial(simulate, seed=1)
"""Run a simulation with the seed that all experiments share."""


def format_mean(mean: float, error: float) -> str:
    """Format a mean and its standard error.

    >>> format_mean(12.345, 0.678), format_mean(1234.5, 6.7)
    ('12.3 ± 0.68', '1,234.5 ± 6.7')
    """
    places = 3
    if abs(mean) >= 10:
        places = 1
    elif abs(mean) >= 1:
        places = 2
    return f"{mean:,.{places}f} ± {error:.2g}"
