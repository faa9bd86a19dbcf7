"""Columns side by side, one for each arm: whose each is, where their names say so."""

import re
from collections.abc import Collection, Sequence
from itertools import takewhile

from oddsmith.errors import BadFile
from oddsmith.logs.pieces import Names, listed

__all__ = ["arms_by_column", "columns_by_arm"]

_BY_ARM = ("propensities", "eligible")


def columns_by_arm(columns: Names, arms: Sequence[str] | None) -> Names:
    """The columns in the order of the arms, where their names say whose each is; else as they were given.

    >>> columns_by_arm({"propensities": ["p_tech", "p_sports"]}, ["sports", "tech"])
    {'propensities': ['p_sports', 'p_tech']}
    """
    ordered = dict(columns)
    for name in _BY_ARM if arms is not None else ():
        theirs = listed(columns.get(name, ""))
        said = dict(zip(_told_apart(theirs), theirs, strict=True))
        if len(theirs) > 1 and said.keys() == set(arms or ()):
            ordered[name] = [said[arm] for arm in arms or ()]
    return ordered


def arms_by_column(columns: Names, drawn: Collection[str], source: str) -> list[str] | None:
    """The arms in the order of the columns; None where no columns stand side by side.

    Names of which an arm that was drawn is none are refused: odds would go to other arms.
    """
    for name in _BY_ARM:
        theirs = listed(columns.get(name, ""))
        if len(theirs) < 2 or not drawn:
            continue
        said = _told_apart(theirs)
        if strange := sorted(set(drawn) - set(said)):
            raise BadFile(
                f"{source} must have the arms' names in those of its columns for {name}, {', '.join(theirs[:8])}; "
                f"{strange[0]!r:.60} is in none: name the arms in the order of the columns, by arms=[…] or --arms"
            )
        return said
    return None


def _told_apart(columns: Sequence[str]) -> list[str]:
    """The columns' names without what all of them begin and end with, whole words only.

    >>> _told_apart(["p_table_now", "p_tablet_now"])
    ['table', 'tablet']
    """
    words = [re.split(r"([\W_]+)", one) for one in columns]
    head = _alike(words)
    tail = _alike([one[head:][::-1] for one in words])
    return ["".join(one[head : len(one) - tail]) for one in words]


def _alike(rows: Sequence[Sequence[str]]) -> int:
    """How many of their first entries all rows have in common."""
    return sum(1 for _ in takewhile(lambda entries: len(set(entries)) == 1, zip(*rows, strict=False)))
