"""Arms: the names of the arms, their numbers, and the mask of those that are eligible."""

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Self

import numpy as np

from oddsmith.arrays import Bools
from oddsmith.errors import InvalidInput
from oddsmith.experts.base import check_names
from oddsmith.spelling import hint

__all__ = ["Arms", "OfferedArms"]


class Arms(tuple[str, ...]):
    """The names of the arms in order, distinct and not empty.

    >>> arms = Arms(["sports", "politics", "tech"])
    >>> arms.number("tech"), arms.mask(["tech", "sports"])
    (2, array([ True, False,  True]))
    """

    def __new__(cls, names: object) -> Self:
        return super().__new__(cls, check_names("arms", names))

    @cached_property
    def numbers(self) -> Mapping[object, int]:
        """The number of each arm, by its name and by the number itself."""
        return {name: number for number, name in enumerate(self)} | {number: number for number in range(len(self))}

    def number(self, arm: object, what: str = "arm") -> int:
        """The number of an arm; a name that no arm has is refused."""
        number = self.numbers.get(arm)
        if number is None:
            meant = hint(str(arm), self)
            raise InvalidInput(f"{what} must be among the arms {list(self)[:8]}; got {arm!r:.60}{meant}")
        return number

    def mask(self, chosen: Iterable[object], what: str = "eligible") -> Bools:
        """Whether each arm is among these names or numbers (K,)."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[[self.number(arm, what) for arm in chosen]] = True
        return mask


class OfferedArms(Arms):
    """Names, checked before, of arms that came with the call: a whole number is the name it became, no place.

    >>> OfferedArms(("3", "0")).mask([0])
    array([False,  True])
    """

    def __new__(cls, names: tuple[str, ...]) -> Self:
        return tuple.__new__(cls, names)

    @cached_property
    def numbers(self) -> Mapping[object, int]:
        """The number of each arm, by its name, as text or as the whole number that it is."""
        names: dict[object, int] = {name: number for number, name in enumerate(self)}
        return names | {
            int(name): number for name, number in zip(self, range(len(self)), strict=True) if _is_whole(name)
        }


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isdecimal() and len(digits) < 20 and str(int(name)) == name
