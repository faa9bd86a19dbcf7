"""Arms: their names, numbers and the mask of eligible arms."""

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
    "check_choice",
    "check_names",
    "count_of",
    "expert_names",
    "hint",
    "nearest",
    "numbered_arms",
    "numbered_experts",
    "resembling",
]


@lru_cache(maxsize=64)
def numbered_experts(n: int) -> tuple[str, ...]:
    """Return default names for n experts.

    >>> numbered_experts(2)
    ('expert 0', 'expert 1')
    """
    return tuple(f"expert {i}" for i in range(n))


def expert_names(names: Sequence[str], n: int) -> tuple[str, ...]:
    """Return the checked names of n experts, or default names."""
    if not len(names):
        return numbered_experts(n)
    return check_names("names", names, n=n)


def wider_names(arms: Sequence[str], wider: object) -> tuple[str, ...]:
    """Return the names after adding arms; the first ones must be the previous names."""
    names = check_names("arms", wider)
    if names[: len(arms)] != tuple(arms):
        raise InvalidInput(f"arms must begin with {list(arms)}; got {list(names)}")
    return names


def check_names(what: str, names: object, *, n: int | None = None) -> tuple[str, ...]:
    """Return `names` as a tuple of distinct, non-empty strings (n of them, if
    given)."""
    if isinstance(names, str) or not hasattr(names, "__iter__"):
        raise InvalidInput(f"{what} must be a sequence of names; got {names!r}")
    checked = tuple(
        str(name) if isinstance(name, str | int | np.integer) else name
        for name in names
    )
    for name in checked:
        if not isinstance(name, str) or not name:
            raise InvalidInput(f"{what} must be non-empty strings; got {name!r}")
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


def check_choice(what: str, value: object, choices: Iterable[str]) -> None:
    """Raise if the value is not one of the choices, and suggest the most similar one.

    >>> check_choice("link", "logitt", ("identity", "logit"))
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: link must be one of identity, logit; got ...
    """
    names = list(choices)
    if isinstance(value, str) and value in names:
        return
    allowed = ", ".join(names)
    raise InvalidInput(
        f"{what} must be one of {allowed}; got {value!r:.60}{hint(str(value), names)}"
    )


def nearest(name: str, names: Iterable[str]) -> str | None:
    """Return the most similar one of `names`, ignoring case; None if none is similar.

    A name is also similar if it begins another, or abbreviates it with letters in the
    same order: ctx is context.

    >>> nearest("citty", ["age", "city"])
    'city'
    >>> nearest("ctx", ["id", "context"])
    'context'
    """
    originals = {other.casefold(): other for other in reversed(list(names))}
    word = name.casefold()
    close = get_close_matches(word, originals, 1, 0.7)
    if close:
        return originals[close[0]]
    longer = [other for other in originals if _abbreviates(word, other)]
    if longer:
        return originals[min(longer, key=len)]
    return None


def count_of(n: int, noun: str, verbs: str = "") -> str:
    """Return a count with its noun, and with the matching verb form if `verbs` has
    singular and plural, as "is are".

    >>> count_of(1, "reward"), count_of(1200, "reward"), count_of(1, "event", "is are")
    ('1 reward', '1,200 rewards', '1 event is')
    """
    things = f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    if not verbs:
        return things
    singular, plural = verbs.split()
    verb = plural
    if n == 1:
        verb = singular
    return f"{things} {verb}"


def resembling(name: str, names: Iterable[str]) -> str | None:
    """Return the entry of `names` that `name` probably misspells: one letter is wrong,
    missing, doubled or swapped.

    Names of at least eight letters may contain two mistakes, those of two letters none.
    Case, spaces, - and _ do not count; the first letter of shorter names and all digits
    must agree.

    >>> resembling("Citty", ["city"])
    'city'
    >>> resembling("device_id", ["device"]), resembling("x1", ["x2"])
    (None, None)
    """
    word = _letters(name)
    for other in names:
        if _is_slip(word, _letters(other)):
            return other
    return None


def _is_slip(word: str, other: str) -> bool:
    if [c for c in word if c.isdigit()] != [c for c in other if c.isdigit()]:
        return False
    size = min(len(word), len(other))
    if size < 8 and word[:1] != other[:1]:
        return False
    if size < 3:
        return word == other
    most = 2
    if size < 8:
        most = 1
    return _slips(word, other) <= most


def _letters(name: str) -> str:
    return "".join(c for c in name.casefold() if c not in " _-")


def _slips(word: str, other: str) -> int:
    """Return the edit distance with swaps of adjacent letters (optimal string
    alignment)."""
    table = [list(range(len(other) + 1))]
    for i, letter in enumerate(word):
        above = table[i]
        row = [i + 1]
        for j, other_letter in enumerate(other):
            change = above[j] + (letter != other_letter)
            drop = above[j + 1] + 1
            add = row[j] + 1
            cost = min(change, drop, add)
            is_swap = letter == other[j - 1] and word[i - 1] == other_letter
            if i and j and is_swap:
                cost = min(cost, table[i - 1][j - 1] + 1)
            row.append(cost)
        table.append(row)
    return table[-1][-1]


def hint(name: str, names: Iterable[str]) -> str:
    """Return the end of an error message, "; did you mean city?", or "" if no name is
    similar.

    >>> hint("citty", ["age", "city"])
    '; did you mean city?'
    """
    near = nearest(name, names)
    if near is not None:
        return f"; did you mean {near}?"
    return ""


def _abbreviates(word: str, other: str) -> bool:
    """Return whether a word of at least three letters abbreviates the other: same first
    letter, other letters in order."""
    if not 3 <= len(word) < len(other) or word[0] != other[0]:
        return False
    letters = iter(other)
    return all(letter in letters for letter in word)


class Arms(tuple[str, ...]):
    """The names of the arms in order; distinct and not empty.

    >>> arms = Arms(["sports", "politics", "tech"])
    >>> arms.number("tech"), arms.mask(["tech", "sports"])
    (2, array([ True, False,  True]))
    """

    def __new__(cls, names: object) -> Self:
        return super().__new__(cls, check_names("arms", names))

    @cached_property
    def numbers(self) -> Mapping[object, int]:
        """Return a map from each arm's name, and from its number, to the number."""
        numbers: dict[object, int] = {}
        for number, name in enumerate(self):
            numbers[name] = number
            numbers[number] = number
        return numbers

    def number(self, arm: object, what: str = "arm") -> int:
        """Return the number of an arm; raise if there is no such arm."""
        number = self.numbers.get(arm)
        if number is None:
            meant = hint(str(arm), self)
            raise InvalidInput(
                f"{what} must be among the arms {list(self)[:8]}; got "
                f"{arm!r:.60}{meant}"
            )
        return number

    def mask(self, chosen: Iterable[object], what: str = "eligible") -> Bools:
        """Return a mask (K,) of the arms with these names or numbers."""
        mask = np.zeros(len(self), dtype=np.bool_)
        mask[[self.number(arm, what) for arm in chosen]] = True
        return mask


class OfferedArms(Arms):
    """Names of arms that are passed in the call, already checked. A whole number is a
    name here and not a position.

    >>> OfferedArms(("3", "0")).mask([0])
    array([False,  True])
    """

    def __new__(cls, names: tuple[str, ...]) -> Self:
        return tuple.__new__(cls, names)

    @cached_property
    def numbers(self) -> Mapping[object, int]:
        """Return a map from each arm's name, as text or as a whole number, to its
        position."""
        numbers: dict[object, int] = {}
        for number, name in enumerate(self):
            numbers[name] = number
            if _is_whole(name):
                numbers[int(name)] = number
        return numbers


def _is_whole(name: str) -> bool:
    digits = name.removeprefix("-")
    if not digits.isdecimal() or len(digits) >= 20:
        return False
    return str(int(name)) == name


def numbered_arms(n: int) -> tuple[str, ...]:
    """Return default names for n arms."""
    return tuple(str(arm) for arm in range(n))


def arm_names(n: int, arms: Sequence[str] | None) -> Sequence[str]:
    """Return `arms` as the names of n arms, or default names."""
    if arms is None:
        return numbered_arms(n)
    if len(arms) != n:
        raise InvalidInput(
            f"arms must name every arm; got {len(arms)} names for {n} arms"
        )
    return arms
