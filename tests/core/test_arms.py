"""Arms: names, numbers and masks, and what is refused."""

import copy
import re

import numpy as np
import pytest

import oddsmith as od
from oddsmith.core.names import Arms

NAMES = ("sports", "politics", "tech")
ARMS = Arms(NAMES)


def test_arms_are_their_names_in_order() -> None:
    assert tuple(ARMS) == NAMES
    assert Arms(["sports", 3]) == ("sports", "3")
    for again in (Arms(ARMS), copy.deepcopy(ARMS)):
        assert isinstance(again, Arms)
        assert (again, again.numbers) == (ARMS, ARMS.numbers)


def test_every_arm_has_a_number_and_a_mask() -> None:
    for number, name in enumerate(NAMES):
        assert ARMS.number(name) == ARMS.number(number) == number
        alone = [name == one for one in NAMES]
        assert (
            ARMS.mask([name]).tolist()
            == ARMS.mask([np.int64(number)]).tolist()
            == alone
        )
    assert ARMS.mask(NAMES).all()
    assert not ARMS.mask([]).any()


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: Arms("sports"), "arms must be a sequence of names; got 'sports'"),
        (
            lambda: Arms(["a", "a"]),
            "arms must be distinct; got 'a' twice: rename one of them",
        ),
        (lambda: Arms([]), "arms must be at least 1 names; got 0"),
        (
            lambda: ARMS.mask(["tech", "tecj"]),
            f"eligible must be among the arms {list(NAMES)}; got 'tecj'",
        ),
        (
            lambda: ARMS.number(3, "incumbent"),
            f"incumbent must be among the arms {list(NAMES)}; got 3",
        ),
        (lambda: ARMS.number("polytics"), "got 'polytics'; did you mean politics?"),
    ],
)
def test_refused_by_name(act: object, sentence: str) -> None:
    assert callable(act)
    with pytest.raises(od.InvalidInput, match=re.escape(sentence)):
        act()
