"""Convert features in namespaces, a format of other services, to one dict of words and
numbers."""

from collections.abc import Iterator, Sequence
from typing import Any

from oddsmith.core.errors import InvalidInput

__all__ = ["flat"]

_DEEPEST = 32  # maximum nesting of dicts and lists


def flat(objects: Any) -> dict[str, Any]:
    """Return one dict of words and numbers for an object with namespaces, or for a list
    of such objects.

    Names inside others are joined with dots, and entries of a list are named by their
    positions. Names that begin with _ are left out. If two objects have different
    values under one name, a number is appended to the later name.

    >>> flat(
    ...     [
    ...         {"user": {"age": 31, "spent": [2.5, 0]}},
    ...         {"hour": 9, "_tag": "x"},
    ...         {"hour": 10},
    ...     ]
    ... )
    {'user.age': 31, 'user.spent.0': 2.5, 'user.spent.1': 0, 'hour': 9, 'hour#2': 10}
    """
    if isinstance(objects, dict):
        objects = [objects]
    is_list = isinstance(objects, Sequence)
    if not is_list or not all(isinstance(one, dict) for one in objects):
        raise InvalidInput(
            f"features must be an object, or a list of objects; got {objects!r:.60}"
        )
    record: dict[str, Any] = {}
    for one in objects:
        for name, value in _entries(one, "", 0):
            key = name
            again = 1
            while key in record and record[key] is not value and record[key] != value:
                again += 1
                key = f"{name}#{again}"
            record[key] = value
    return record


def _entries(inner: Any, prefix: str, depth: int) -> Iterator[tuple[str, Any]]:
    """Yield the names and values inside an object or a list."""
    if depth > _DEEPEST:
        raise InvalidInput(f"features must be nested at most {_DEEPEST} deep; got more")
    if not isinstance(inner, dict):
        inner = {str(place): value for place, value in enumerate(inner)}
    for name, value in inner.items():
        if name.startswith("_"):
            continue
        path = f"{prefix}{name}"
        if _are_objects(value):
            for one in value:
                yield from _entries(one, f"{path}.", depth + 1)
        elif isinstance(value, dict | list):
            yield from _entries(value, f"{path}.", depth + 1)
        else:
            yield path, value


def _are_objects(value: object) -> bool:
    """Return whether a value is a non-empty list of objects."""
    if not isinstance(value, list) or not value:
        return False
    return all(isinstance(one, dict) for one in value)
