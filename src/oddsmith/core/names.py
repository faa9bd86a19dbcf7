"""Arms: the names of the arms, their numbers, and the mask of those that are
eligible."""

from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property, lru_cache
from typing import Self

import numpy as np

from oddsmith.core.arrays import Bools
from oddsmith.core.errors import InvalidInput

__all__ = [
    "Arms",
    "OfferedArms",
    "arm_names",
    "check_names",
    "counted",
    "hint",
    "nearest",
    "numbered",
    "numbered_arms",
    "resembling",
]


@lru_cache(maxsize=64)
def numbered(n: int) -> tuple[str, ...]:
    """Names for experts that have none.

    >>> numbered(2)
    ('expert 0', 'expert 1')
    """
    return tuple(f"expert {i}" for i in range(n))


def wider_names(arms: Sequence[str], wider: object) -> tuple[str, ...]:
    """The names of more arms, checked; the first ones must be the old ones."""
    names = check_names("arms", wider)
    if names[: len(arms)] != tuple(arms):
        raise InvalidInput(f"arms must begin with {list(arms)}; got {list(names)}")
    return names


def check_names(what: str, names: object, *, n: int | None = None) -> tuple[str, ...]:
    """`names` as a tuple of distinct, non-empty strings (n of them, if given)."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise InvalidInput(f"{what} must be a sequence of names; got {names!r}")
    checked = tuple(
        str(name) if isinstance(name, str | int | np.integer) else name
        for name in names
    )
    if wrong := [name for name in checked if not isinstance(name, str) or not name]:
        raise InvalidInput(f"{what} must be non-empty strings; got {wrong[0]!r}")
    if len(set(checked)) != len(checked):
        twice = next(name for name in checked if checked.count(name) > 1)
        raise InvalidInput(
            f"{what} must be distinct; got {twice!r} twice: rename one of them"
        )
    if not checked or (n is not None and len(checked) != n):
        raise InvalidInput(
            f"{what} must be {n or 'at least 1'} names; got {len(checked)}"
        )
    return checked


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` is most like, small and large letters alike; None
    if it is like none of them.

    A name that begins another, or whose letters are in another in the same order, is
    like it: ctx is context.

    >>> (
    ...     nearest("citty", ["age", "city"]),
    ...     nearest("ctx", ["id", "context"]),
    ...     nearest("zip", ["age", "city"]),
    ... )
    ('city', 'context', None)
    """
    folded = {other.casefold(): other for other in reversed(list(names))}
    word = name.casefold()
    if close := get_close_matches(word, folded, 1, 0.7):
        return folded[close[0]]
    longer = [other for other in folded if _abbreviates(word, other)]
    return folded[min(longer, key=len)] if longer else None


def counted(n: int, noun: str, verbs: str = "") -> str:
    """A number of things in words, and what one or many of them do: `verbs` are both,
    as "is are".

    >>> counted(1, "reward"), counted(1200, "reward"), counted(1, "event", "is are")
    ('1 reward', '1,200 rewards', '1 event is')
    """
    things = f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    return " ".join([things, *verbs.split()[n != 1 :][:1]])


def resembling(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` is probably a slip of: a letter wrong, missing,
    doubled or swapped with the next.

    Names of eight letters or more may have two slips, those of two letters none. Case,
    spaces, - and _ do not count; the first letter of shorter names and all digits must
    agree.

    >>> (
    ...     resembling("Citty", ["city"]),
    ...     resembling("device_id", ["device"]),
    ...     resembling("x1", ["x2"]),
    ... )
    ('city', None, None)
    """
    word = _letters(name)
    return next((other for other in names if _is_slip(word, _letters(other))), None)


def _is_slip(word: str, other: str) -> bool:
    if [c for c in word if c.isdigit()] != [c for c in other if c.isdigit()]:
        return False
    size = min(len(word), len(other))
    if size < 8 and word[:1] != other[:1]:
        return False
    return _slips(word, other) <= (0 if size < 3 else 1 if size < 8 else 2)


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " _-")


def _slips(word: str, other: str) -> int:
    """The least number of letters to add, drop, change or swap with the next (optimal
    string alignment)."""
    table = [list(range(len(other) + 1))]
    for i, letter in enumerate(word):
        row = [i + 1]
        for j, wanted in enumerate(other):
            cost = min(
                table[i][j] + (letter != wanted), table[i][j + 1] + 1, row[j] + 1
            )
            if i and j and letter == other[j - 1] and word[i - 1] == wanted:
                cost = min(cost, table[i - 1][j - 1] + 1)
            row.append(cost)
        table.append(row)
    return table[-1][-1]


def hint(name: str, names: Iterable[str]) -> str:
    """The question for the end of a refusal, "; did you mean city?", or "" where no
    name is near.

    >>> hint("citty", ["age", "city"])
    '; did you mean city?'
    """
    near = nearest(name, names)
    return f"; did you mean {near}?" if near is not None else ""


def _abbreviates(word: str, other: str) -> bool:
    """Whether a word of three letters or more has the first letter of the other, and
    the rest of it in order."""
    letters = iter(other)
    return (
        3 <= len(word) < len(other)
        and word[0] == other[0]
        and all(letter in letters for letter in word)
    )


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
        return {name: number for number, name in enumerate(self)} | {
            number: number for number in range(len(self))
        }

    def number(self, arm: object, what: str = "arm") -> int:
        """The number of an arm; a name that no arm has is refused."""
        number = self.numbers.get(arm)
        if number is None:
            meant = hint(str(arm), self)
            raise InvalidInput(
                f"{what} must be among the arms {list(self)[:8]}; got "
                f"{arm!r:.60}{meant}"
            )
        return number

    def mask(self, chosen: Iterable[object], what: str = "eligible") -> Bools:
        """Whether each arm is among these names or numbers (K,)."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[[self.number(arm, what) for arm in chosen]] = True
        return mask


class OfferedArms(Arms):
    """Names, checked before, of arms that came with the call: a whole number is the
    name it became, no place.

    >>> OfferedArms(("3", "0")).mask([0])
    array([False,  True])
    """

    def __new__(cls, names: tuple[str, ...]) -> Self:
        return tuple.__new__(cls, names)

    @cached_property
    def numbers(self) -> Mapping[object, int]:
        """The number of each arm, by its name, as text or as the whole number that it
        is."""
        names: dict[object, int] = {name: number for number, name in enumerate(self)}
        return names | {
            int(name): number
            for name, number in zip(self, range(len(self)), strict=True)
            if _is_whole(name)
        }


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    return digits.isdecimal() and len(digits) < 20 and str(int(name)) == name


def numbered_arms(n: int) -> tuple[str, ...]:
    """Names for arms that have none."""
    return tuple(str(arm) for arm in range(n))


def arm_names(n: int, arms: Sequence[str] | None) -> Sequence[str]:
    """The names of n arms: `arms`, or their numbers where they have none."""
    if arms is not None and len(arms) != n:
        raise InvalidInput(
            f"arms must name every arm; got {len(arms)} names for {n} arms"
        )
    return numbered_arms(n) if arms is None else arms
