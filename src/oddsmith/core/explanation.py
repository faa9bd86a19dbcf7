"""Explanations of the propensities of one decision: by experts and their votes, or by
the posterior of each arm."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints

__all__ = ["ArmExplanation", "Explanation"]

# Number of arms shown before "… more".
_WIDEST = 12  # in columns
_LONGEST = 40  # in rows
_FAVOURITES = 3  # arms shown per expert's vote
_NOTE_WIDTH = 88
_UNEQUAL = 1e-9  # votes that differ by less are ties, up to rounding


class Explanation(NamedTuple):
    """Explanation of one decision's propensities by experts. Printing it shows a table.

    propensities = (1 - γ) Σ_i weights_i ballots_i + uniform, if any expert with a
    prediction has weight. `posterior` includes experts without a prediction, `weights`
    do not. For `Bounded` policies the ballots and `uniform` are within the bounds.
    """

    names: Sequence[str]
    arms: Sequence[str]
    posterior: Array
    weights: Array
    predictions: Array
    ballots: Array
    uniform: Array
    propensities: Array
    notes: Sequence[str] = ()

    def __str__(self) -> str:
        """Format a table: weight, vote and predictions of the ten experts with the most
        weight, exploration, propensities and notes."""
        if self.propensities.ndim != 1:
            return (
                f"Explanation of shape {self.propensities.shape[:-1]} over "
                f"{len(self.arms)} arms"
            )
        places = _likeliest(self.propensities, _WIDEST)
        n_more = len(self.arms) - len(places)
        header = ["expert", "weight", "votes for"]
        header += [self.arms[place] for place in places]
        if n_more:
            header.append(f"… {n_more} more")
        table = [header]
        heaviest = np.argsort(-self.posterior, kind="stable")[:10].tolist()
        table += [self._expert_row(expert, places) for expert in heaviest]
        n_lighter = len(self.names) - len(heaviest)
        if n_lighter:
            weight = 1 - float(self.posterior[heaviest].sum())
            table.append([f"… {n_lighter} more", f"{weight:.4f}"])
        exploration = f"{self.uniform.sum():.4f}"
        table.append(["exploration", exploration, "", *_cells(self.uniform, places)])
        table.append(["odds", "", "", *_cells(self.propensities, places)])
        notes = [textwrap.fill(note, _NOTE_WIDTH) for note in self.notes]
        return "\n".join([_format_table(table), *notes])

    def _expert_row(self, expert: int, places: Ints) -> list[str]:
        """Return a row with an expert's name, weight, vote and predictions at
        `places`."""
        predictions = [
            "" if np.isnan(prediction) else f"{prediction:.4f}"
            for prediction in self.predictions[expert][places]
        ]
        weight = f"{self.posterior[expert]:.4f}"
        return [self.names[expert], weight, self._vote_of(expert), *predictions]

    def _vote_of(self, expert: int) -> str:
        """Describe an expert's vote: "a = b" for tied arms, otherwise its largest
        parts."""
        pairs = zip(self.arms, self.ballots[expert], strict=True)
        parts = {arm: float(part) for arm, part in pairs if part > 0}
        if not parts:
            return "asleep"
        is_tie = max(parts.values()) - min(parts.values()) <= _UNEQUAL
        if is_tie:
            favourites = list(parts)
            separator = " = "
            most = _WIDEST
        else:
            largest = sorted(parts.items(), key=lambda item: -item[1])
            favourites = [f"{arm} {part:.2f}" for arm, part in largest]
            separator = ", "
            most = _FAVOURITES
        if len(favourites) > most:
            n_more = len(favourites) - _FAVOURITES
            favourites = [*favourites[:_FAVOURITES], f"… {n_more} more"]
        return separator.join(favourites)


class ArmExplanation(NamedTuple):
    """Posterior of each arm (…, K) in a policy without experts, and the resulting
    propensities. Printing it shows a table.

    `mean` and `sd` refer to the reward, or to the quantity named in `scale`; they are
    NaN without rewards. Log-odds, probit scores and linear scores can be any number; a
    linear function of rewards can leave [0, 1]. `upper` is the bound that optimistic
    policies use. `sd` or `upper` is None for policies without them.
    """

    arms: Sequence[str]
    scale: str
    mean: Array
    sd: Array | None
    upper: Array | None
    propensities: Array

    def __str__(self) -> str:
        """Format a table with one row for each of the likeliest arms."""
        if self.propensities.ndim != 1:
            return (
                f"ArmExplanation of shape {self.propensities.shape[:-1]} over "
                f"{len(self.arms)} arms"
            )
        columns = {
            f"mean {self.scale}": self.mean,
            "sd": self.sd,
            "upper bound": self.upper,
            "odds": self.propensities,
        }
        present = {
            name: column for name, column in columns.items() if column is not None
        }
        places = _likeliest(self.propensities, _LONGEST)
        table = [["arm", *present]]
        for place in places:
            numbers = [f"{column[place]:.4f}" for column in present.values()]
            table.append([self.arms[place], *numbers])
        n_more = len(self.arms) - len(places)
        if n_more:
            odds = self.propensities.sum() - self.propensities[places].sum()
            blank = [""] * (len(present) - 1)
            table.append([f"… {n_more} more", *blank, f"{odds:.4f}"])
        return _format_table(table)


def _likeliest(propensities: Array, most: int) -> Ints:
    """Return the numbers of the arms with the largest propensities, in arm order; all
    arms if there are at most `most`."""
    return np.sort(np.argsort(-propensities, kind="stable")[:most])


def _format_table(rows: list[list[str]]) -> str:
    """Format rows of cells as lines with aligned columns; rows may have fewer cells."""
    n_columns = max(len(row) for row in rows)
    widths = [0] * n_columns
    for row in rows:
        for column, cell in enumerate(row):
            widths[column] = max(widths[column], len(cell))
    lines = []
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _cells(odds: Array, places: Ints) -> list[str]:
    """Format the propensities at `places`, and the sum of all others if there are more
    arms."""
    cells = [f"{value:.4f}" for value in odds[places]]
    if len(places) < len(odds):
        cells.append(f"{odds.sum() - odds[places].sum():.4f}")
    return cells
