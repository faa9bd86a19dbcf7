"""Explanations of one decision's odds: by experts and their votes, or by the belief
about every arm."""

import textwrap
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oddsmith.core.arrays import Array, Ints

__all__ = ["ArmExplanation", "Explanation"]

# arms in columns, in rows, and in an expert's vote, before "… more"
_WIDEST, _LONGEST, _FAVOURITES = 12, 40, 3
_NOTE_WIDTH = 88
_UNEQUAL = 1e-9  # by which parts of a vote differ that are no tie


class Explanation(NamedTuple):
    """One decision's odds taken apart; print it for a table.

    propensities = (1 - γ) Σ_i weights_i ballots_i + uniform, as long as an expert awake
    has weight; `posterior` counts sleepers too, `weights` do not. In `Bounded` the
    ballots and `uniform` are within the bounds.
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
        """The ten heaviest experts' weight, vote and predictions of the likeliest arms,
        exploration, odds; notes."""
        if self.propensities.ndim != 1:
            return (
                f"Explanation of shape {self.propensities.shape[:-1]} over "
                f"{len(self.arms)} arms"
            )
        heaviest = np.argsort(-self.posterior, kind="stable")[:10]
        places = _likeliest(self.propensities, _WIDEST)
        more = (
            [f"… {len(self.arms) - len(places)} more"]
            if len(places) < len(self.arms)
            else []
        )
        rows = [
            [
                "expert",
                "weight",
                "votes for",
                *(self.arms[place] for place in places),
                *more,
            ]
        ]
        rows += [[*self._row(int(i), places), *([""] * len(more))] for i in heaviest]
        if len(self.names) > len(heaviest):
            rest = 1 - float(self.posterior[heaviest].sum())
            rows.append(
                [f"… {len(self.names) - len(heaviest)} more", f"{rest:.4f}"]
                + [""] * (len(rows[0]) - 2)
            )
        for name, odds in (("exploration", self.uniform), ("odds", self.propensities)):
            total = f"{odds.sum():.4f}" if name == "exploration" else ""
            rest_of_them = [f"{odds.sum() - odds[places].sum():.4f}"] * len(more)
            rows.append(
                [name, total, "", *(f"{p:.4f}" for p in odds[places]), *rest_of_them]
            )
        notes = [textwrap.fill(note, _NOTE_WIDTH) for note in self.notes]
        return "\n".join([_table(rows), *notes])

    def _row(self, i: int, places: Ints) -> list[str]:
        parts = {
            arm: float(part)
            for arm, part in zip(self.arms, self.ballots[i], strict=True)
            if part > 0
        }
        favourites = list(parts)
        joint = " = "
        most = _WIDEST
        if parts and max(parts.values()) - min(parts.values()) > _UNEQUAL:
            largest = sorted(parts.items(), key=lambda item: -item[1])
            favourites = [f"{arm} {part:.2f}" for arm, part in largest]
            joint = ", "
            most = _FAVOURITES
        hidden = (
            [f"… {len(favourites) - _FAVOURITES} more"]
            if len(favourites) > most
            else []
        )
        favourites = favourites[:_FAVOURITES] + hidden if hidden else favourites
        predictions = [
            "" if np.isnan(p) else f"{p:.4f}" for p in self.predictions[i][places]
        ]
        return [
            self.names[i],
            f"{self.posterior[i]:.4f}",
            joint.join(favourites) or "asleep",
            *predictions,
        ]


class ArmExplanation(NamedTuple):
    """What a policy without experts believes of every arm (…, K), and the odds it makes
    of that; print it for a table.

    `mean` and `sd` are of the reward, or of what `scale` says; NaN without rewards.
    Log-odds and probit scores are any number, and so are linear scores: a straight line
    through rewards leaves [0, 1]. `upper` is the bound that optimistic policies follow.
    Policies have no sd, or no bound, where it is None.
    """

    arms: Sequence[str]
    scale: str
    mean: Array
    sd: Array | None
    upper: Array | None
    propensities: Array

    def __str__(self) -> str:
        """A row for each of the likeliest arms."""
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
        shown = {name: values for name, values in columns.items() if values is not None}
        rows = [["arm", *shown]]
        places = _likeliest(self.propensities, _LONGEST)
        rows += [
            [self.arms[i], *(f"{values[i]:.4f}" for values in shown.values())]
            for i in places
        ]
        if len(places) < len(self.arms):
            rest = self.propensities.sum() - self.propensities[places].sum()
            more = f"… {len(self.arms) - len(places)} more"
            rows.append([more, *([""] * (len(shown) - 1)), f"{rest:.4f}"])
        return _table(rows)


def _likeliest(propensities: Array, most: int) -> Ints:
    """The numbers of the arms with the largest odds, as they come; of all where there
    are no more than `most`."""
    return np.sort(np.argsort(-propensities, kind="stable")[:most])


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )
