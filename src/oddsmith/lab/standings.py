"""The results of a study: its standings, and a report with tables and figures."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from oddsmith.core.arrays import Array, Ints
from oddsmith.files.reports.page import Figure, Section, Table, write
from oddsmith.files.reports.style import band, legend, panels, svg
from oddsmith.lab.leaders import leader, regrets
from oddsmith.lab.run import mean_and_error

__all__ = [
    "Curve",
    "PolicyResult",
    "Standings",
    "StudyResults",
    "WorldResults",
    "of_world",
]

_Value = TypeVar("_Value")


class Standings(NamedTuple):
    """The summary of a study: a sentence about the best policy of each world, a picture
    of regrets for a terminal, and the table of results."""

    sentences: tuple[str, ...]
    picture: str
    table: Table


class Curve(NamedTuple):
    """Mean cumulative regret at some steps, with its standard error."""

    at: Any
    mean: Array
    error: Array

    @classmethod
    def of(cls, at: Ints, regrets: list[Array]) -> "Curve":
        """Return the curve of regrets (units,) at each of the steps."""
        pairs = [mean_and_error(values) for values in regrets]
        mean, error = np.array(pairs).T
        return cls(at, mean, error)


class PolicyResult(NamedTuple):
    """The result of one policy in one world: its regret curve, the final regret of each
    unit, its mean per step as text, and the bound if the theory has one."""

    curve: Curve
    totals: Array
    rate: str
    bound: float | None


class WorldResults(NamedTuple):
    """The results of all policies in one world by name, and the number of decisions of
    each run."""

    name: str
    decisions: int
    policies: dict[str, PolicyResult]


def of_world(
    world: str, by_world_and_policy: Mapping[tuple[str, str], _Value]
) -> dict[str, _Value]:
    """Return the values of one world by policy."""
    own = {}
    for (where, policy), value in by_world_and_policy.items():
        if where == world:
            own[policy] = value
    return own


@dataclass(frozen=True, eq=False)
class StudyResults:
    """The results of every policy in every world of a study.

    `count` is the length of a run in units of `axis`, steps or episodes; `runs` is the
    number of runs of each policy in each world. `unit` names the independent results:
    runs, or seeds. `rate` is the header of the column of rates, and `regret` the
    definition of regret.
    """

    title: str
    count: int
    axis: str
    runs: int
    unit: str
    rate: str
    regret: str
    worlds: tuple[WorldResults, ...]

    def write(self, out: Path) -> Standings:
        """Write out/index.html and return the standings."""
        rows = []
        sections = []
        sentences = []
        pictures = []
        for world in self.worlds:
            policies = world.policies
            totals = {}
            for name, result in policies.items():
                totals[name] = result.totals
            prefix = ""
            if len(self.worlds) > 1:
                prefix = f"{world.name}: "
            sentence = leader(totals, steps=world.decisions, unit=self.unit)
            sentences.append(f"{prefix}{sentence}.")
            pictures.append(regrets(totals, prefix))
            curves = {name: one.curve for name, one in policies.items()}
            figure = self._draw(curves)
            sections.append(Section(f"World: {world.name}", figures=(figure,)))
            for name, one in policies.items():
                rows.append(_row(world.name, name, one))
        table = Table(
            ("world", "policy", "regret", "± s.e.", self.rate, "bound"),
            tuple(rows),
            f"Regret after {self.count:,} {self.axis}, and the bounds of the theory",
        )
        sections.append(Section("Results", tables=(table,)))
        sections.append(Section("Details", self._describe(), folded=True))
        out.mkdir(parents=True, exist_ok=True)
        write(out / "index.html", self.title, "\n\n".join(sentences), sections)
        picture = "\n\n".join(picture for picture in pictures if picture)
        return Standings(tuple(sentences), picture, table)

    def _draw(self, curves: Mapping[str, Curve]) -> Figure:
        """Draw regret on log scales, so that one bad policy does not hide the
        differences of the others."""
        figure, (panel,) = panels()
        for i, (name, curve) in enumerate(curves.items()):
            error = np.nan_to_num(curve.error)
            band(panel, curve.at, curve.mean, error, i, name)
        minima = [float(curve.mean.min()) for curve in curves.values()]
        least = min(minima)
        if least > 0:
            panel.set(yscale="log", ylim=(least / 1.5, None))
        panel.set(xscale="log", xlabel=self.axis, ylabel="total regret (lost rewards)")
        legend(panel)
        return Figure(
            svg(figure),
            "Mean regret over runs, with two standard errors: lower is better.",
        )

    def _describe(self) -> str:
        n_policies = len(self.worlds[0].policies)
        return (
            f"{n_policies} policies in {len(self.worlds)} worlds, {self.count:,} "
            f"{self.axis}, {self.runs:,} runs of each. Regret is exact: {self.regret}."
        )


def _row(world: str, policy: str, result: PolicyResult) -> tuple[str, ...]:
    """Return the row of one policy for the table of results."""
    mean, error = mean_and_error(result.totals)
    error_text = ""
    if not np.isnan(error):
        error_text = f"{error:.2g}"
    bound_text = ""
    if result.bound is not None:
        bound_text = f"{result.bound:,.0f}"
    return world, policy, f"{mean:,.2f}", error_text, result.rate, bound_text
