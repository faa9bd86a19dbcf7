"""Salts: the digests of names and categories in a state, keyed by a secret of the store that it is folded from."""

import numpy as np

from oddsmith.decision import State
from oddsmith.experts.columns import Columns
from oddsmith.experts.learners.name_table import NameTable

__all__ = ["keyed"]


def keyed(state: State, secret: bytes) -> State:
    """The state with its digests keyed by `secret` (16 bytes), wherever it has none yet and no salt.

    Who has the state alone can then not try out which words it knows. What was learnt before keeps its digests.

    >>> from oddsmith.experts.columns import empty_columns
    >>> keyed((empty_columns(), 3), bytes(range(16)))[0].salt[:3]
    array([0, 1, 2], dtype=uint8)
    """
    if isinstance(state, Columns | NameTable):
        is_fresh = not len(state.digests) and not state.salt.any()
        return state._replace(salt=np.frombuffer(secret, np.uint8)) if is_fresh else state
    if not isinstance(state, tuple):
        return state
    parts = [keyed(part, secret) for part in state]
    if all(new is old for new, old in zip(parts, state, strict=True)):
        return state
    return type(state)(*parts) if hasattr(state, "_fields") else tuple(parts)
