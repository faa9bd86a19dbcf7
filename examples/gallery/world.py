"""A news site of four sections, its visitors, and models of their clicks that were
trained on an earlier week.

A policy file names `bank` and `newcomer` as factories of experts;
`examples.gallery.day` is who visits.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import oddsmith as od

ARMS = ("sports", "politics", "tech", "culture")
COLUMNS = ("hour", "phone", "age")
VISITORS = pd.DataFrame(
    [(h, p, a) for h in range(24) for p in (0, 1) for a in (20, 35, 50, 65)],
    columns=COLUMNS,
)
"""Everybody there is: a row for each hour, device and age."""


def chances(visitors: pd.DataFrame) -> Any:
    """How likely a click is on each section (n, 4), which only this program knows."""
    hour, phone, age = (visitors[name].to_numpy(float) for name in COLUMNS)
    morning, evening = (
        np.exp(-(((hour - 8) / 2.5) ** 2)),
        np.exp(-(((hour - 19) / 2.5) ** 2)),
    )
    sports = 0.10 + 0.40 * evening
    politics = 0.08 + 0.42 * morning * (age > 30)
    tech = 0.08 + 0.32 * (age < 40) * (1 - 0.6 * phone)
    culture = 0.12 + 0.22 * (age > 45) * (1 - morning - evening)
    return np.stack([sports, politics, tech, culture], axis=1)


class Sections:
    """A model for each section, fitted to so many showings of each; it knows
    everybody's chances beforehand."""

    def __init__(
        self, model: Any, rows: int, seed: int, order: Sequence[int] = (0, 1, 2, 3)
    ) -> None:
        rng, said = np.random.default_rng(seed), []
        for arm in order:
            who = rng.integers(len(VISITORS), size=rows)
            clicks = rng.random(rows) < chances(VISITORS)[who, arm]
            said.append(
                model.fit(VISITORS.iloc[who], clicks).predict_proba(VISITORS)[:, 1]
            )
        self._said = np.stack(said, axis=1)

    def predict(self, rows: pd.DataFrame) -> Any:
        """The chance of a click on each section, a row for each visitor."""
        hour, phone, age = (rows[name].to_numpy(int) for name in COLUMNS)
        return self._said[hour * 8 + phone * 4 + (age - 20) // 15]


@lru_cache
def models() -> dict[str, Sections]:
    """Four models of different quality: one sees straight lines only, one saw little,
    one saw other tastes."""
    trees = HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=8, random_state=0
    )
    return {
        "logistic": Sections(LogisticRegression(max_iter=1000), 4000, 1),
        "forest, a day": Sections(
            RandomForestClassifier(20, min_samples_leaf=3, random_state=0), 150, 2
        ),
        "boosting, a month": Sections(trees, 1500, 3),
        "boosting, last year": Sections(trees, 4000, 4, (1, 2, 0, 3)),
    }


def bank(arms: Sequence[str]) -> od.Experts:
    """The experts that are there in the morning."""
    return od.ModelExperts(models(), arms=arms)


def newcomer(arms: Sequence[str]) -> od.Experts:
    """One that joins at noon: trained on a year."""
    trees = HistGradientBoostingClassifier(
        max_iter=150, max_leaf_nodes=8, learning_rate=0.05, random_state=0
    )
    return od.ModelExperts({"boosting, a year": Sections(trees, 60_000, 5)}, arms=arms)
