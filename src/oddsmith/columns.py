"""Columns of decisions brought to one shape, so that they can be stacked or joined."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from oddsmith.arrays import Array, Bools
from oddsmith.errors import InvalidInput

__all__ = ["aligned"]


def aligned(parts: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """The parts' columns by name, each a list with one entry per part, or absent where no part has it.

    Different numbers of arms are padded: odds with 0, eligible arms with False. Where some parts have masks, all get
    one. `log_weights` are absent where no expert slept, and then never read: NaN stands for them.
    Any other column must be in all parts or in none.

    >>> parts = [{"propensities": np.array([1.0])}, {"propensities": np.array([0.5, 0.5])}]
    >>> aligned(parts)["eligible"]
    [array([ True, False]), array([ True,  True])]
    """
    columns = {
        name: [part.get(name) for part in parts] for name in dict.fromkeys(name for part in parts for name in part)
    }
    odds = columns.get("propensities", [None])
    widths = {value.shape[-1] for value in odds if value is not None}
    masks = columns.setdefault("eligible", [None] * len(parts))
    if len(widths) > 1 or (any(m is None for m in masks) and any(m is not None for m in masks)):
        columns["eligible"] = [_mask(mask, value) for mask, value in zip(masks, odds, strict=True)]
    if len(widths) > 1:
        for name in ("eligible", "propensities"):
            columns[name] = [_padded(value, max(widths)) for value in columns[name]]
    weights, advice = columns.get("log_weights", []), columns.get("advice", [None])
    if any(one is not None for one in weights) and all(one is not None for one in advice):
        pairs = zip(weights, advice, strict=True)
        columns["log_weights"] = [np.full_like(a, np.nan) if w is None else w for w, a in pairs]
    for name, values in columns.items():
        if name != "context" and len({value is None for value in values}) > 1:
            raise InvalidInput(f"decisions must all have {name}, or none of them; got a mixture")
    return {name: values for name, values in columns.items() if name == "context" or values[0] is not None}


def _mask(mask: Bools | None, propensities: Array | None) -> Bools:
    if propensities is None:
        raise InvalidInput("decisions must have propensities where only some have eligible arms; got none")
    return np.broadcast_to(True if mask is None else mask, propensities.shape).copy()


def _padded(value: Array | None, width: int) -> Array | None:
    return None if value is None else np.pad(value, [(0, 0)] * (value.ndim - 1) + [(0, width - value.shape[-1])])
