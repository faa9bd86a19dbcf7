"""Spelling: what a misspelt name was probably meant to be."""

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["did_you_mean", "nearest"]


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


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """The question to put into a refusal, "did you mean city? ", or "" where no name is near.

    >>> did_you_mean("citty", ["age", "city"])
    'did you mean city? '
    """
    near = nearest(name, names)
    return f"did you mean {near}? " if near is not None else ""


def _abbreviates(word: str, other: str) -> bool:
    """Whether a word of three letters or more has the first letter of the other, and the rest of it in order."""
    letters = iter(other)
    return 3 <= len(word) < len(other) and word[0] == other[0] and all(letter in letters for letter in word)
