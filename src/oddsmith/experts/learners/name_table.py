"""NameTable: a table of arms by digests of their names, with a maximum size. If it is
full, the arm whose last reward is the oldest is dropped."""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, Ints

__all__ = ["NameTable", "Place", "claim", "empty_table", "slots_of"]

_FIRST = 16  # initial size; the table doubles when it is full, up to the bound


class NameTable(NamedTuple):
    """A table that maps the digest of an arm's name to a slot. `digests` (n) are in
    ascending order, `places` (n) contains the slot of each.

    For each slot (C), `counts` contains the number of rewards of its arm, and `last`
    the position of its latest reward among all rewards. `salt` (16 bytes) is the key of
    the digests.
    """

    digests: npt.NDArray[np.uint64]
    places: Ints
    counts: Array
    last: Ints
    salt: npt.NDArray[np.uint8]


class Place(NamedTuple):
    """The slot of an arm that is about to be learnt, and whether the arm is new."""

    table: NameTable
    place: int
    fresh: bool


def empty_table(most: int) -> NameTable:
    """Return a table without names, with space for a few."""
    room = min(_FIRST, most)
    return NameTable(
        digests=np.zeros(0, np.uint64),
        places=np.zeros(0, np.int64),
        counts=np.zeros(room),
        last=np.zeros(room, np.int64),
        salt=np.zeros(16, np.uint8),
    )


def slots_of(table: NameTable, names: Sequence[str]) -> Ints:
    """Return the slots of names (K), -1 for a name without a slot.

    >>> table, place, _ = claim(empty_table(4), "a", 1, 4)
    >>> slots_of(table, ["b", "a"])
    array([-1,  0])
    """
    if not len(table.digests):
        return np.full(len(names), -1)
    salt = table.salt.tobytes()
    digests = np.array([_digest(name, salt) for name in names], dtype=np.uint64)
    at = np.searchsorted(table.digests, digests)
    at = np.minimum(at, len(table.digests) - 1)
    is_known = table.digests[at] == digests
    return np.where(is_known, table.places[at], -1)


def claim(table: NameTable, name: str, number: int, most: int) -> Place:
    """Return a slot for `name`, whose arm gets the reward with this number among all
    rewards. The table changes in place.

    A new name gets a free slot or, if there is none, the slot of the arm whose last
    reward is the oldest.
    """
    digest = np.uint64(_digest(name, table.salt.tobytes()))
    at = int(np.searchsorted(table.digests, digest))
    if at < len(table.digests) and table.digests[at] == digest:
        place = int(table.places[at])
        table.last[place] = number
        return Place(table, place, False)
    digests, places, counts, last, salt = table
    if len(digests) < most:
        place = len(digests)
        if place == len(counts):
            more = min(len(counts), most - len(counts))
            counts = np.pad(counts, (0, more))
            last = np.pad(last, (0, more))
    else:
        place = int(last.argmin())
        gone = int(np.flatnonzero(places == place)[0])
        digests = np.delete(digests, gone)
        places = np.delete(places, gone)
        at -= gone < at
    digests = np.insert(digests, at, digest)
    places = np.insert(places, at, place)
    counts[place] = 0.0
    last[place] = number
    return Place(NameTable(digests, places, counts, last, salt), place, True)


@lru_cache(maxsize=16_384)
def _digest(name: str, salt: bytes) -> int:
    """Return a 64-bit digest of a name: among 10,000 names, two share one with
    probability 3e-12."""
    person = b"oddsmith arm"
    digest = blake2b(name.encode(), digest_size=8, key=salt, person=person)
    return int.from_bytes(digest.digest(), "big")
