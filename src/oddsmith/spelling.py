"""Spelling: what a misspelt name was probably meant to be, and numbers of things."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["counted", "hint", "nearest", "resembling"]


def nearest(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` is most like, small and large letters alike; None if it is like none of them.

    A name that begins another, or whose letters are in another in the same order, is like it: ctx is context.

    >>> nearest("citty", ["age", "city"]), nearest("ctx", ["id", "context"]), nearest("zip", ["age", "city"])
    ('city', 'context', None)
    """
    folded = {other.casefold(): other for other in reversed(list(names))}
    word = name.casefold()
    if close := get_close_matches(word, folded, 1, 0.7):
        return folded[close[0]]
    longer = [other for other in folded if _abbreviates(word, other)]
    return folded[min(longer, key=len)] if longer else None


def counted(n: int, noun: str, verbs: str = "") -> str:
    """A number of things in words, and what one or many of them do: `verbs` are both, as "is are".

    >>> counted(1, "reward"), counted(1200, "reward"), counted(1, "event", "is are")
    ('1 reward', '1,200 rewards', '1 event is')
    """
    things = f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"
    return " ".join([things, *verbs.split()[n != 1 :][:1]])


def resembling(name: str, names: Iterable[str]) -> str | None:
    """The one of `names` that `name` is probably a slip of: a letter wrong, missing, doubled or swapped with the next.

    Names of eight letters or more may have two slips, those of two letters none. Case, spaces, - and _ do not count;
    the first letter of shorter names and all digits must agree.

    >>> resembling("Citty", ["city"]), resembling("device_id", ["device"]), resembling("x1", ["x2"])
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
    """The least number of letters to add, drop, change or swap with the next (optimal string alignment)."""
    table = [list(range(len(other) + 1))]
    for i, letter in enumerate(word):
        row = [i + 1]
        for j, wanted in enumerate(other):
            cost = min(table[i][j] + (letter != wanted), table[i][j + 1] + 1, row[j] + 1)
            if i and j and letter == other[j - 1] and word[i - 1] == wanted:
                cost = min(cost, table[i - 1][j - 1] + 1)
            row.append(cost)
        table.append(row)
    return table[-1][-1]


def hint(name: str, names: Iterable[str]) -> str:
    """The question for the end of a refusal, "; did you mean city?", or "" where no name is near.

    >>> hint("citty", ["age", "city"])
    '; did you mean city?'
    """
    near = nearest(name, names)
    return f"; did you mean {near}?" if near is not None else ""


def _abbreviates(word: str, other: str) -> bool:
    """Whether a word of three letters or more has the first letter of the other, and the rest of it in order."""
    letters = iter(other)
    return 3 <= len(word) < len(other) and word[0] == other[0] and all(letter in letters for letter in word)
