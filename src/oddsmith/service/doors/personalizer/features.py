"""Features in the lists of objects that Personalizer's programs send, as one flat dict of words and numbers."""

from typing import Any

from oddsmith.contexts import flat
from oddsmith.errors import InvalidInput

__all__ = ["flat_features"]

_NONE = type(None)
_PLAIN = frozenset((str, int, float, bool, _NONE))


def flat_features(objects: list[dict[str, Any]], where: str, *, needed: bool = False) -> dict[str, Any]:
    """The features as `flat` makes them; a refusal says `where` they are.

    Names must not be empty, and lists hold numbers only. `needed`: at least one must be there that is not null.

    >>> flat_features([{"user": {"age": 31, "spent": [2.5, 0]}}, {"hour": 9, "_tag": "x"}], "contextFeatures")
    {'user.age': 31, 'user.spent.0': 2.5, 'user.spent.1': 0, 'hour': 9}
    """
    record: dict[str, Any] = {}
    size, kinds = 0, set[type]()
    for one in objects:  # mostly one, of words and numbers
        size += len(one)
        kinds.update(map(type, one.values()))
        record = record | one if record else one
    names = "\n".join(("", *record, ""))
    if len(record) < size or not kinds <= _PLAIN or "\n_" in names or "\n\n" in names:
        record = flat(objects)
        _check(objects, where)
        kinds = set(map(type, record.values())) or (kinds and {str})  # names that begin with _ are features, too
    if needed and not kinds - {_NONE}:
        raise InvalidInput(f"{where} must be at least one that is not null; got none")
    return record


def _check(inner: Any, where: str) -> None:
    """Refuses names that are empty, and lists of something else than numbers; `flat` has seen how deep they are."""
    for one in inner if isinstance(inner, list) else [inner]:
        for name, value in one.items():
            if not name:
                raise InvalidInput(f"{where} must have names; got an empty one")
            if isinstance(value, dict):
                _check(value, where)
            elif isinstance(value, list) and not all(type(entry) in (int, float) for entry in value):
                odd = next(entry for entry in value if type(entry) not in (int, float))
                raise InvalidInput(f"{where}: a list must hold numbers only, as that of {name!r:.60}; got {odd!r:.60}")
