"""The numbers of vectors.json, parsed: inputs are rationals, outputs decimals of 20
digits."""

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import oddsmith as od
from oddsmith.core.arrays import Array
from oddsmith.core.losses import Loss

VECTORS: dict[str, Any] = json.loads(
    (Path(__file__).parent / "vectors.json").read_text()
)
CASES: dict[str, Any] = {case["name"]: case for case in VECTORS["cases"]}
LOSSES: dict[str, Loss] = {"square": od.square_loss, "log": od.log_loss}


def rational(text: str) -> float:
    """A float from "7/10" or "0.5"."""
    return float(Fraction(text))


def floats(texts: Any) -> Array:
    """An array from nested lists of rationals or decimals."""
    if isinstance(texts, str):
        return np.array(float("inf") if texts == "inf" else rational(texts))
    return np.array([floats(text) for text in texts])


def experts_of(name: str) -> dict[str, Array]:
    """context name: predictions (N, K)."""
    return {context: floats(table) for context, table in CASES[name]["experts"].items()}


def policy_of(case: Any) -> od.GeneralizedThompsonSampling:
    """The GTS a case describes, over predictions that are given with each step."""
    loss = LOSSES[case["loss"]]
    names = [f"expert {i}" for i in range(len(case["prior"]))]
    return od.GeneralizedThompsonSampling(
        od.GivenExperts(tuple(names)),
        loss
        if float(case["beta"]) == 1
        else od.losses.scaled(loss, float(case["beta"])),
        eta=float(case["eta"]),
        gamma=rational(case["gamma"]),
        prior=floats(case["prior"]),
        optimism=rational(case["feelgood_lambda"] or "0"),
        share=rational(case["fixed_share_alpha"] or "0"),
    )
