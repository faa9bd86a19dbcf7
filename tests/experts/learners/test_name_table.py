"""The memory of names: digests in order, places, and what is forgotten."""

import numpy as np
import pytest

from oddsmith.experts.learners.name_table import NameTable, claim, empty_table, slots_of


def in_order_of_digests(names: list[str]) -> list[str]:
    """The names in the order in which a table without salt has them."""
    table = table_of(names, len(names))
    return sorted(names, key=lambda name: int(slots_order(table, name)))


def slots_order(table: NameTable, name: str) -> int:
    """Where the digest of a name is among all digests."""
    return int(np.flatnonzero(table.places == slots_of(table, [name])[0])[0])


def table_of(names: list[str], most: int) -> NameTable:
    """A table that has learnt these names one after the other."""
    table = empty_table(most)
    for number, name in enumerate(names, start=1):
        table = claim(table, name, number, most).table
    return table


NAMES = in_order_of_digests([f"arm {i}" for i in range(5)])


@pytest.mark.parametrize("oldest", range(4))
@pytest.mark.parametrize("new", range(5))
def test_digests_stay_in_order_whichever_arm_is_forgotten(
    oldest: int, new: int
) -> None:
    """The arm that goes may hash before or after the one that comes."""
    known = [name for name in NAMES if name != NAMES[new]]
    gone = known.pop(oldest)
    table = table_of([gone, *known], 4)
    table, place, fresh = claim(table, NAMES[new], 9, 4)
    assert fresh
    assert place == 0
    assert (table.digests[1:] > table.digests[:-1]).all()
    assert slots_of(table, [*known, NAMES[new], gone]).tolist() == [1, 2, 3, 0, -1]


def test_room_doubles_up_to_the_bound() -> None:
    """16 places at first, then 32, then as many as may be remembered."""
    names = [f"arm {i}" for i in range(60)]
    rooms = {16: 16, 17: 32, 32: 32, 33: 50, 50: 50, 60: 50}
    for n_names, room in rooms.items():
        table = table_of(names[:n_names], 50)
        assert len(table.counts) == len(table.last) == room
        assert len(table.digests) == len(table.places) == min(n_names, 50)
    assert len(empty_table(3).counts) == len(empty_table(3).last) == 3


def test_an_empty_table_has_no_places() -> None:
    table = empty_table(4)
    assert slots_of(table, ["a", "b"]).tolist() == [-1, -1]
    assert table.salt.tolist() == [0] * 16
    assert table.counts.tolist() == table.last.tolist() == [0] * 4
    assert table.last.dtype == np.int64


def test_an_arm_that_is_known_keeps_its_place_and_counts() -> None:
    """What is learnt of it again makes it the latest, so that another one goes."""
    table = table_of(["a", "b"], 2)
    table.counts[:] = [3.0, 4.0]
    again = claim(table, "a", 7, 2)
    assert not again.fresh
    assert again.place == 0
    assert again.table.last.tolist() == [7, 2]
    assert again.table.counts.tolist() == [3.0, 4.0]
    assert slots_of(claim(again.table, "c", 8, 2).table, ["a", "b"]).tolist() == [0, -1]


def test_the_salt_keys_the_digests() -> None:
    """A digest is BLAKE2b of the name with the salt as its key, first byte first."""
    table = empty_table(2)._replace(salt=np.arange(16, dtype=np.uint8))
    salted = claim(table, "a", 1, 2).table
    assert salted.digests.tolist() != table_of(["a"], 2).digests.tolist()
    assert slots_of(salted._replace(salt=np.zeros(16, np.uint8)), ["a"]).tolist() == [
        -1
    ]
