"""The numbers of agnostic.json: worlds where no expert is right, and exact expectations
over all their futures."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.core.draw import draw

AGNOSTIC: dict[str, Any] = json.loads(
    (Path(__file__).parent / "agnostic.json").read_text()
)
A1_EXPERTS = np.array([[0.6, 0.5], [0.2, 0.9]])
A3_EXPERTS = np.array([[0.5, 0.9], [0.5, 0.1]])


def futures(
    policy: od.Policy, leaf: tuple[float, Any], predictions: Array, means: Array
) -> Iterator[tuple[float, Any]]:
    """The states after one more step of every arm and every reward, with their
    probabilities."""
    chance, state = leaf
    odds = policy.odds(state, predictions)
    edges = np.cumsum(odds.propensities) - odds.propensities / 2
    for arm, (part, mean) in enumerate(
        zip(odds.propensities.tolist(), means.tolist(), strict=True)
    ):
        for reward, share in ((1.0, mean), (0.0, 1 - mean)):
            if part * share > 0:
                decision = draw(
                    odds, predictions, float(edges[arm]), step=state.learnt + 1
                )
                yield chance * part * share, policy.update(state, decision, reward)
