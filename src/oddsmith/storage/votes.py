"""Votes as rows hold them: ballots (N, K) in as few bytes as they need."""

from typing import TypeAlias

import numpy as np

from oddsmith.arrays import Array, Bools

__all__ = ["pack_votes", "unpack_votes", "votes_on"]

_Form: TypeAlias = tuple[int, str]  # the number of arms, and how votes over them are kept
_WHOLE = (("u1", 2**8 - 1), ("<u2", 2**16 - 1))  # types of whole numbers; the last number stands for no arm
_NO_ARM = dict(_WHOLE)


def pack_votes(votes: Array) -> tuple[_Form, bytes]:
    """How ballots (N, K) are kept, and their bytes.

    "u1" and "<u2": the arm of each expert, or none. "bits": the arms of each expert, which share its vote. "f8": all of
    it as it is.

    >>> pack_votes(np.array([[0.0, 1.0], [0.0, 0.0]]))
    ((2, 'u1'), b'\\x01\\xff')
    """
    n_experts, n_arms = votes.shape
    if n_arms < _WHOLE[0][1] and np.count_nonzero(votes) == n_experts:  # as they mostly are: an arm each
        places = votes.argmax(axis=1)
        if np.count_nonzero(votes[np.arange(n_experts), places] == 1.0) == n_experts:
            return (n_arms, "u1"), places.astype("u1").tobytes()
    cast = votes > 0
    count = cast.sum(axis=1)
    if count.max(initial=0) <= 1 and (votes == cast).all():
        for kind, none in _WHOLE:
            if n_arms < none:
                return (n_arms, kind), np.where(count > 0, cast.argmax(axis=1), none).astype(kind).tobytes()
    if (_shared(cast) == votes).all():
        return (n_arms, "bits"), np.packbits(cast, axis=1).tobytes()
    return (n_arms, "f8"), np.asarray(votes, dtype="<f8").tobytes()


def unpack_votes(form: _Form, content: bytes) -> Array:
    """The ballots that `pack_votes` wrote."""
    n_arms, kind = form
    if kind == "f8":
        return np.frombuffer(content, dtype="<f8").astype(np.float64).reshape(-1, n_arms)
    if kind == "bits":
        packed = np.frombuffer(content, dtype="u1").reshape(-1, (n_arms + 7) // 8)
        return _shared(np.unpackbits(packed, axis=1, count=n_arms).astype(bool))
    votes: Array = (np.frombuffer(content, dtype=kind)[:, None] == np.arange(n_arms)).astype(np.float64)
    return votes


def votes_on(arm: int, form: _Form, content: bytes) -> Array:
    """What each expert gives one arm (N,), of the ballots that `pack_votes` wrote; NaN for an expert that slept.

    >>> votes_on(1, *pack_votes(np.array([[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]])))
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


def _shared(cast: Bools) -> Array:
    """Ballots in which the arms of each expert share its vote."""
    shares: Array = cast / np.maximum(cast.sum(axis=1, keepdims=True), 1)
    return shares
