"""Uniform numbers that can be re-derived: one keyed hash of seed and decision id."""

from hashlib import blake2b

import numpy as np

from oddsmith.core.errors import InvalidInput

__all__ = ["Uniforms"]


class Uniforms:
    """Uniform numbers in [0, 1) from (seed, decision id) by one keyed hash, so that any
    draw can be re-derived.

    >>> Uniforms(7)(1) == Uniforms(7)(1) != Uniforms(8)(1)
    True
    """

    def __init__(self, seed: int) -> None:
        key = str(seed).encode()
        if (
            isinstance(seed, bool)
            or not isinstance(seed, int | np.integer)
            or len(key) > 64
        ):
            raise InvalidInput(
                f"seed must be an integer of at most 64 digits; got {seed!r}"
            )
        self._keyed = blake2b(digest_size=8, key=key).copy

    def __call__(self, decision_id: int | str) -> float:
        """53 random bits as a number in [0, 1)."""
        hashed = self._keyed()
        hashed.update(
            decision_id.encode()
            if isinstance(decision_id, str)
            else b"%d" % decision_id
        )
        return (int.from_bytes(hashed.digest(), "little") >> 11) * 2.0**-53
