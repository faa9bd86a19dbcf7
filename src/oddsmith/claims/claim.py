"""Rules, claims and experiments: what is accepted is stated first, then something is
run, then it is judged."""

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
    """A statement, where it comes from, and what is accepted, in words, before anything
    is run.

    `false_alarm` bounds the probability that the statement is rejected although it is
    true, over all `cases` together: 0 where numbers are exact. Where the truth is not
    known in advance, `false_pass` bounds the probability that the statement passes
    although it is false.
    """

    statement: str
    where: str
    accept: str
    false_alarm: float | None = 0.0
    cases: int = 1
    false_pass: float | None = None

    @property
    def level(self) -> float:
        """The probability of error that one case may have."""
        rate = self.false_alarm if self.false_pass is None else self.false_pass
        assert rate is not None
        return rate / self.cases

    @property
    def errors(self) -> str:
        """How often the rule errs.

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
    """A case of a rule: what theory predicts, what was measured, and whether the rule
    accepts it."""

    rule: Rule
    case: str
    predicted: str
    measured: str
    holds: bool

    def __post_init__(self) -> None:
        # a comparison of arrays returns numpy.bool_, so convert it to bool
        object.__setattr__(self, "holds", bool(self.holds))


@dataclass(frozen=True)
class Outcome:
    """What an experiment found: claims, and figures and tables that claim nothing, with
    the words around them."""

    title: str
    text: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Break:
    """Something done wrong on purpose, to see that a claim notices: what is played, not
    what is predicted, changes.

    `eta` and `gamma` are factors, `shift` is added to every prediction inside the loss,
    `other` names what only one experiment can do wrong.
    """

    name: str
    eta: float = 1.0
    gamma: float = 1.0
    shift: float = 0.0
    other: str = ""


RIGHT = Break("nothing")


@dataclass(frozen=True)
class Setup:
    """How large an experiment is, and what is done wrong in it: nothing, but for trials
    of its power."""

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
        """The learning rate that is played where this one is right."""
        return right * self.wrong.eta

    def gamma(self, right: float) -> float:
        """The exploration that is played where this one is right."""
        return right * self.wrong.gamma

    def loss(self, name: str) -> Loss:
        """The loss that is played."""
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
        """GTS over experts or a table of them, by the name of its loss, as it is
        played."""
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
    """A function from a setup to an outcome, its rules, and what can be done wrong in
    it.

    An experiment without rules shows figures and claims nothing.
    """

    run: Callable[[Setup], Outcome]
    rules: tuple[Rule, ...] = ()
    breaks: tuple[Break, ...] = ()

    def __call__(self, setup: Setup) -> Outcome:
        """What is found; every claim is a case of one of the rules, no rule has more
        cases than it states."""
        outcome = self.run(setup)
        cases = Counter(claim.rule for claim in outcome.claims)
        for rule in {*cases, *self.rules}:
            count = cases[rule]
            is_known = rule in self.rules
            if not is_known or not 0 < count <= rule.cases:
                raise AssertionError(
                    f"{outcome.title}: {rule.statement!r} has {count} cases, of "
                    f"{rule.cases} stated"
                )
        return outcome

    def run_wrong(self, setup: Setup, wrong: Break) -> Outcome:
        """What is found where this is done wrong."""
        return self(replace(setup, wrong=wrong))


def _shift(loss: Loss, shift: float, prediction: Array, reward: Real) -> Array:
    """The loss of predictions that are off by `shift`, within [0.001, 0.999]."""
    return loss(np.clip(prediction + shift, 0.001, 0.999), reward)


def instance(
    contexts: int = 10, experts: int = 32, arms: int = 3, seed: int = 7
) -> Problem:
    """A benign problem: `random_table`, whose first expert is true."""
    table = random_table(contexts, experts, arms, seed)
    return table_problem(table, contexts=np.arange(contexts))


measure = partial(simulate, seed=1)
"""A simulation with the seed that all experiments share."""


def format_mean(mean: float, error: float) -> str:
    """A mean and its standard error.

    >>> format_mean(12.345, 0.678), format_mean(1234.5, 6.7)
    ('12.3 ± 0.68', '1,234.5 ± 6.7')
    """
    places = 3
    if abs(mean) >= 10:
        places = 1
    elif abs(mean) >= 1:
        places = 2
    return f"{mean:,.{places}f} ± {error:.2g}"
