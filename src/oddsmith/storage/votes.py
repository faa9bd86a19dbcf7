"""Votes as rows hold them, read back: ballots (N, K), which `pack_votes` wrote in as few bytes as they need."""

from typing import TypeAlias

import numpy as np

from oddsmith.arrays import Array, Bools

__all__ = ["Form", "WHOLE", "shared", "unpack_votes", "votes_on"]

Form: TypeAlias = tuple[int, str]
"""The number of arms, and how votes over them are kept."""
WHOLE = (("u1", 2**8 - 1), ("<u2", 2**16 - 1))
"""Types of whole numbers; the last number of each stands for no arm."""
_NO_ARM = dict(WHOLE)


def unpack_votes(form: Form, content: bytes) -> Array:
    """The ballots that `pack_votes` wrote."""
    n_arms, kind = form
    if kind == "f8":
        return np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(-1, n_arms)
    if kind == "bits":
        packed = np.frombuffer(content, dtype="u1").reshape(-1, (n_arms + 7) // 8)
        return shared(np.unpackbits(packed, axis=1, count=n_arms).astype(bool))
    votes: Array = (np.frombuffer(content, dtype=kind)[:, None] == np.arange(n_arms)).astype(np.float64)
    return votes


def votes_on(arm: int, form: Form, content: bytes) -> Array:
    """What each expert gives one arm (N,), of the ballots that `pack_votes` wrote; NaN for an expert that slept.

    >>> votes_on(1, (2, "u1"), b"\\x01\\xff\\x00")
    array([ 1., nan,  0.])
    """
    kind = form[1]
    if kind in _NO_ARM:
        places = np.frombuffer(content, dtype=kind)
        votes: Array = (places == arm).astype(np.float64)
        votes[places == _NO_ARM[kind]] = np.nan
        return votes
    ballots = unpack_votes(form, content)
    return np.where(ballots.any(axis=1), ballots[:, arm], np.nan)


def shared(cast: Bools) -> Array:
    """Ballots in which the arms of each expert share its vote."""
    shares: Array = cast / np.maximum(cast.sum(axis=1, keepdims=True), 1)
    return shares
