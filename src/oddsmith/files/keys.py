"""Read TOML with errors that name the key."""

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from oddsmith.core.arrays import Array, finite, number, whole
from oddsmith.core.errors import InvalidInput, OddsmithError
from oddsmith.core.names import hint

__all__ = ["Keys", "read_toml"]

_REQUIRED: Any = object()
_Error = TypeVar("_Error", bound=OddsmithError)


def read_toml(path: Path) -> "Keys":
    """Read a TOML file and return its top table."""
    try:
        with path.open("rb") as file:
            return Keys(tomllib.load(file))
    except OSError as error:
        raise InvalidInput(
            f"{path} must be a readable file; {error.strerror}"
        ) from error
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{path} must be TOML; {error!s:.200}") from error


class Keys:
    """A table of TOML. Each key is read once and checked; `close` raises for all other
    keys.

    >>> keys = Keys({"steps": 100, "stepz": 5})
    >>> keys.whole("steps")
    100
    >>> keys.close()
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: stepz is not a key; did you mean steps? Allowed:
    steps
    """

    def __init__(self, values: Mapping[str, Any], path: str = "") -> None:
        self.values, self._path, self._asked = dict(values), path, list[str]()

    def named(self, name: str) -> str:
        """Return the full name of a key, as the file's author would write it."""
        return f"{self._path}.{name}" if self._path else name

    def has(self, name: str) -> bool:
        """Return whether the table has this key, which is allowed here."""
        self._asked.append(name)
        return name in self.values

    def get(self, name: str, default: Any = _REQUIRED) -> Any:
        """Return the value unchanged."""
        self._asked.append(name)
        if name not in self.values and default is _REQUIRED:
            raise InvalidInput(f"{self.named(name)} must be given; got nothing")
        return self.values.get(name, default)

    def whole(
        self, name: str, default: Any = _REQUIRED, *, least: int = 1, most: int = 10**9
    ) -> int:
        """Return an integer of at least `least`."""
        return whole(self.named(name), self.get(name, default), low=least, high=most)

    def numbers(self, name: str, *, ndim: int) -> Array:
        """Return finite numbers in lists nested `ndim` deep."""
        return finite(self.named(name), self.get(name), ndim=ndim)

    def number(
        self, name: str, default: Any = _REQUIRED, *, low: float, high: float
    ) -> float:
        """Return a number in [low, high]."""
        return number(self.named(name), self.get(name, default), low=low, high=high)

    def text(
        self, name: str, default: Any = _REQUIRED, *, choices: Iterable[str] = ()
    ) -> str:
        """Return a text, one of `choices` if given."""
        value = self.get(name, default)
        allowed = list(choices)
        is_text = isinstance(value, str)
        if is_text and (not allowed or value in allowed):
            return str(value)
        what = f"one of {', '.join(allowed)}" if allowed else "a text"
        meant = hint(value, allowed) if is_text else ""
        raise InvalidInput(
            f"{self.named(name)} must be {what}; got {value!r:.60}{meant}"
        )

    def flag(self, name: str, default: bool = False) -> bool:
        """Return a boolean."""
        value: bool = self.get(name, default)
        if not isinstance(value, bool):
            raise InvalidInput(
                f"{self.named(name)} must be true or false; got {value!r:.60}"
            )
        return value

    def table(self, name: str, default: Any = _REQUIRED) -> "Keys":
        """Return a table inside this one."""
        value = self.get(name, default)
        path = self.named(name)
        if not isinstance(value, dict):
            raise InvalidInput(f"{path} must be a table [{path}]; got {value!r:.60}")
        return Keys(value, path)

    def tables(self, name: str) -> "dict[str, Keys]":
        """Return the tables inside a table by name, at least one."""
        outer = self.table(name)
        if not outer.values:
            path = self.named(name)
            raise InvalidInput(
                f"{path} must have at least one table [{path}.NAME]; got none"
            )
        return {inner: outer.table(inner) for inner in outer.values}

    def close(self, places: Callable[[], Mapping[str, str]] | None = None) -> None:
        """Raise for unknown keys. The error suggests the most similar allowed key, or
        the table to which the key belongs. `places` is called only for an unknown key,
        and returns these tables.

        >>> Keys({"gamma": 0.1}).close(lambda: {"gamma": "[policy]"})
        Traceback (most recent call last):
        oddsmith.core.errors.InvalidInput: gamma is not a key here; it belongs to
        [policy]. Allowed:
        """
        for name in self.values:
            if name in self._asked:
                continue
            meant = f"{hint(name, self._asked) or '.'} "
            elsewhere = {} if places is None else places()
            if name in elsewhere:
                meant = f" here; it belongs to {elsewhere[name]}. "
            allowed = ", ".join(dict.fromkeys(self._asked))
            raise InvalidInput(
                f"{self.named(name)} is not a key{meant}Allowed: {allowed}".rstrip()
            )

    def blame(self, error: _Error) -> _Error:
        """Return the same error with the path of this table in front: "prior must …"
        becomes "policies.mine.prior must …"."""
        message = str(error)
        path = self._path
        if not path or message.startswith((f"{path}.", f"{path}: ")):
            return error
        first, _, _ = message.partition(" ")
        joint = "." if first.rstrip(":") in self.values else ": "
        return type(error)(f"{path}{joint}{message}")
