"""The table [flag] of a policy file: what each arm stands for where the experiment is a feature flag."""

from math import isfinite
from typing import Any

from oddsmith.arms import Arms
from oddsmith.errors import InvalidInput
from oddsmith.files.keys import Keys

__all__ = ["read_flag_values"]

_KINDS = {bool: "booleans", int: "whole numbers", float: "numbers", str: "texts", dict: "objects", list: "lists"}


def read_flag_values(keys: Keys, arms: Arms | None) -> dict[str, Any]:
    """The value of each arm, all of one kind of JSON; none where the file has no such table.

    >>> read_flag_values(Keys({"flag": {"values": {"slow": 1, "fast": 2.5}}}), Arms(["slow", "fast"]))
    {'slow': 1.0, 'fast': 2.5}
    """
    if keys.get("flag", None) is None:
        return {}
    table = keys.table("flag")
    given = table.table("values").values
    table.close()
    if arms is None:
        raise InvalidInput("flag must stand in a file with arms, for a flag's values are theirs; got it without")
    if set(given) != set(arms):
        missing, strange = [arm for arm in arms if arm not in given], [arm for arm in given if arm not in arms]
        got = f"none for {missing[0]!r}" if missing else f"one for {strange[0]!r}, which is no arm"
        raise InvalidInput(f"flag.values must have a value for each arm; got {got}")
    for arm, value in given.items():
        _check(f"flag.values.{arm}", value)
    kinds = {type(value) for value in given.values()}
    if kinds == {int, float}:
        return {arm: float(value) for arm, value in given.items()}  # programs ask for one type
    if len(kinds) > 1:
        found = " and ".join(sorted(_KINDS[kind] for kind in kinds))
        raise InvalidInput(f"flag.values must all be of one kind, for programs ask for one type; got {found}")
    return given


def _check(where: str, value: Any) -> None:
    """Refuses what JSON has no word for, at any depth."""
    if type(value) not in _KINDS or (isinstance(value, float) and not isfinite(value)):
        raise InvalidInput(f"{where} must be JSON: no dates, finite numbers; got {value!s:.60}")
    if isinstance(value, dict | list):
        for name, inner in value.items() if isinstance(value, dict) else enumerate(value):
            _check(f"{where}.{name}", inner)
