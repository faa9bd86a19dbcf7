"""A claim and what was found: the pieces every experiment is made of."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from oddsmith.arrays import Array
from oddsmith.experts.base import Experts
from oddsmith.experts.tables import TableExperts
from oddsmith.lab.problems import Problem, table_problem
from oddsmith.lab.run import mean_and_error
from oddsmith.lab.simulate import simulate
from oddsmith.losses import LOSSES
from oddsmith.policies.gts import GeneralizedThompsonSampling
from oddsmith.policies.over_experts import Prior
from oddsmith.reports.page import Figure, Table
from oddsmith.worlds.tables import random_table

__all__ = [
    "Claim",
    "Outcome",
    "Sizes",
    "at_most",
    "between",
    "gts",
    "in_order",
    "instance",
    "measure",
    "no_more",
    "shown",
]


@dataclass(frozen=True)
class Claim:
    """One row of the report: what is claimed, where, what theory predicts, what was measured, and whether it holds."""

    what: str
    where: str
    predicted: str
    measured: str
    holds: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "holds", bool(self.holds))  # comparisons of arrays give numpy's own


@dataclass(frozen=True)
class Outcome:
    """What an experiment found, with figures and the words around them."""

    title: str
    text: str
    claims: tuple[Claim, ...]
    figures: tuple[Figure, ...]
    tables: tuple[Table, ...] = ()


@dataclass(frozen=True)
class Sizes:
    """How large experiments are: `steps` are divided and `runs` are cut for a quick look."""

    quick: bool

    def steps(self, full: int, quick: int) -> int:
        return quick if self.quick else full

    def runs(self, full: int = 100) -> int:
        return min(full, 24) if self.quick else full


def instance(contexts: int = 10, experts: int = 32, arms: int = 3, seed: int = 7) -> Problem:
    """A benign problem: `random_table`, whose first expert is true."""
    table = random_table(contexts, experts, arms, seed)
    return table_problem(table, contexts=np.arange(contexts))


def gts(
    experts: Experts | Array,
    loss: str = "log",
    *,
    eta: float = 0.5,
    gamma: float = 0.0,
    prior: Prior = None,
    share: float = 0.0,
) -> GeneralizedThompsonSampling:
    """GTS over experts or a table of them, by the name of its loss."""
    bank = TableExperts(experts) if isinstance(experts, np.ndarray) else experts
    return GeneralizedThompsonSampling(bank, LOSSES[loss], eta=eta, gamma=gamma, prior=prior, share=share)


measure = partial(simulate, seed=1)
"""A simulation with the seed that all experiments share."""


def shown(mean: float, error: float) -> str:
    """A mean and its standard error.

    >>> shown(12.345, 0.678), shown(1234.5, 6.7)
    ('12.3 ± 0.68', '1,234.5 ± 6.7')
    """
    places = 1 if abs(mean) >= 10 else 2 if abs(mean) >= 1 else 3
    return f"{mean:,.{places}f} ± {error:.2g}"


def at_most(what: str, where: str, totals: Any, bound: float, *, steps: int | None = None) -> Claim:
    """The claim that a mean is at most a bound: it fails if the mean is above it by any amount.

    With `steps`, a bound that has been cut to them is marked as empty.
    """
    mean, error = mean_and_error(np.asarray(totals))
    predicted = f"≤ {bound:,.4g}" if bound < 1000 else f"≤ {bound:,.0f}"
    if steps is not None and bound >= steps:
        predicted += " = T, says nothing"
    return Claim(what, where, predicted, shown(mean, error), mean <= bound)


def no_more(what: str, where: str, value: float, most: float, *, form: str = ".3f", why: str = "") -> Claim:
    """The claim that a number is at most another, which is printed with the reason for it."""
    return Claim(what, where, f"≤ {most:g}{why}", f"{value:{form}}", value <= most)


def between(what: str, where: str, value: float, low: float, high: float, *, error: float | None = None) -> Claim:
    """The claim that a number lies in a range, which is printed."""
    span = f"{low:g} to {high:g}" if high < np.inf else f"≥ {low:g}"
    measured = f"{value:.3g}" if error is None else shown(value, error)
    return Claim(what, where, span, measured, low <= value <= high)


def in_order(what: str, where: str, names: Sequence[str], means: Sequence[float]) -> Claim:
    """The claim that means increase in the order of their names."""
    measured = ", ".join(f"{mean:.3g}" for mean in means)
    return Claim(what, where, " < ".join(names), measured, all(a < b for a, b in pairwise(means)))
