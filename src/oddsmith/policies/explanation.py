"""Explanations of one decision's odds: by experts and their votes, or by the belief about every arm."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from oddsmith.arrays import Array

__all__ = ["ArmExplanation", "Explanation"]


class Explanation(NamedTuple):
    """One decision's odds taken apart; print it for a table.

    propensities = (1 - γ) Σ_i weights_i ballots_i + uniform, as long as an expert awake has weight and nothing
    bounds the odds; `posterior` counts sleepers too, `weights` do not. In `Bounded` the propensities are those bounded.
    """

    names: Sequence[str]
    arms: Sequence[str]
    posterior: Array
    weights: Array
    predictions: Array
    ballots: Array
    uniform: Array
    propensities: Array

    def __str__(self) -> str:
        """The ten heaviest experts' weight, vote and predictions, the exploration, and the odds."""
        if self.propensities.ndim != 1:
            return f"Explanation of shape {self.propensities.shape[:-1]} over {len(self.arms)} arms"
        heaviest = np.argsort(-self.posterior, kind="stable")[:10]
        rows = [["expert", "weight", "votes for", *self.arms]]
        rows += [self._row(int(i)) for i in heaviest]
        if len(self.names) > len(heaviest):
            rest = 1 - float(self.posterior[heaviest].sum())
            rows.append([f"… {len(self.names) - len(heaviest)} more", f"{rest:.4f}", ""] + [""] * len(self.arms))
        rows.append(["exploration", f"{self.uniform.sum():.4f}", "", *(f"{p:.4f}" for p in self.uniform)])
        rows.append(["odds", "", "", *(f"{p:.4f}" for p in self.propensities)])
        return _table(rows)

    def _row(self, i: int) -> list[str]:
        favourites = [arm for arm, part in zip(self.arms, self.ballots[i], strict=True) if part > 0]
        predictions = ["" if np.isnan(p) else f"{p:.4f}" for p in self.predictions[i]]
        return [self.names[i], f"{self.posterior[i]:.4f}", " = ".join(favourites) or "asleep", *predictions]


class ArmExplanation(NamedTuple):
    """What a policy without experts believes of every arm (…, K), and the odds it makes of that; print it for a table.

    `mean` and `sd` are of the reward, or of what `scale` says; NaN without rewards. Log-odds and probit scores
    are any number, and so are linear scores: a straight line through rewards leaves [0, 1]. `upper` is the bound that
    optimistic policies follow. Policies have no sd, or no bound, where it is None.
    """

    arms: Sequence[str]
    scale: str
    mean: Array
    sd: Array | None
    upper: Array | None
    propensities: Array

    def __str__(self) -> str:
        """A row for each arm."""
        if self.propensities.ndim != 1:
            return f"ArmExplanation of shape {self.propensities.shape[:-1]} over {len(self.arms)} arms"
        columns = {f"mean {self.scale}": self.mean, "sd": self.sd, "upper bound": self.upper, "odds": self.propensities}
        shown = {name: values for name, values in columns.items() if values is not None}
        rows = [["arm", *shown]]
        rows += [[arm, *(f"{values[i]:.4f}" for values in shown.values())] for i, arm in enumerate(self.arms)]
        return _table(rows)


def _table(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows)
