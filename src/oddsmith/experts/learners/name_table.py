"""NameTable: which arms are remembered, by digests of their names, and which is
forgotten where there is no room."""

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from oddsmith.core.arrays import Array, Ints

__all__ = ["NameTable", "Place", "claim", "empty_table", "slots_of"]

_FIRST = 16  # places at the start; they double when they are full, up to the bound


class NameTable(NamedTuple):
    """Digests of names in ascending order (n), the place of each (n), and for each
    place (C) two counts.

    `counts` are the rewards learnt of the arm there; `last` is the number of the latest
    of them among all rewards. `salt` (16) keys the digests.
    """

    digests: npt.NDArray[np.uint64]
    places: Ints
    counts: Array
    last: Ints
    salt: npt.NDArray[np.uint8]


class Place(NamedTuple):
    """The place of an arm that is about to be learnt from, and whether it is new
    there."""

    table: NameTable
    place: int
    fresh: bool


def empty_table(most: int) -> NameTable:
    """A table without names, with room for a few."""
    room = min(_FIRST, most)
    none = np.zeros(0, np.uint64), np.zeros(0, np.int64)
    return NameTable(
        *none, np.zeros(room), np.zeros(room, np.int64), np.zeros(16, np.uint8)
    )


def slots_of(table: NameTable, names: Sequence[str]) -> Ints:
    """The places of names (K), -1 for one that is not remembered.

    >>> table, place, _ = claim(empty_table(4), "a", 1, 4)
    >>> slots_of(table, ["b", "a"])
    array([-1,  0])
    """
    salt = table.salt.tobytes()
    wanted = np.array([_digest(name, salt) for name in names], dtype=np.uint64)
    if not len(table.digests):
        return np.full(len(names), -1)
    at = np.minimum(np.searchsorted(table.digests, wanted), len(table.digests) - 1)
    return np.where(table.digests[at] == wanted, table.places[at], -1)


def claim(table: NameTable, name: str, number: int, most: int) -> Place:
    """The place of `name`, learnt from as the `number`-th reward of all; in place.

    A new name takes a free place, else that of the arm not learnt from for longest.
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
            counts, last = np.pad(counts, (0, more)), np.pad(last, (0, more))
    else:
        place = int(last.argmin())
        gone = int(np.flatnonzero(places == place)[0])
        digests, places = np.delete(digests, gone), np.delete(places, gone)
        at -= gone < at
    digests, places = np.insert(digests, at, digest), np.insert(places, at, place)
    counts[place], last[place] = 0.0, number
    return Place(NameTable(digests, places, counts, last, salt), place, True)


@lru_cache(maxsize=16_384)
def _digest(name: str, salt: bytes) -> int:
    """64 bits that stand for a name: of 10,000 names, two are taken for one with
    probability 3e-12."""
    return int.from_bytes(
        blake2b(
            name.encode(), digest_size=8, key=salt, person=b"oddsmith arm"
        ).digest(),
        "big",
    )
