"""Errors for messages that a route does not accept, in one sentence: what is wrong,
what was given, what is allowed, what to do next."""

import json
import re
from collections.abc import Callable
from typing import Any, get_args

import msgspec

from oddsmith.core.errors import InvalidInput
from oddsmith.core.names import hint
from oddsmith.server.messages.calls import PATTERNS

__all__ = ["check_keys", "sentence"]

_PLACE = re.compile(r" - at `(?:key in )?\$(.*)`$", re.DOTALL)
_BARE = frozenset((float, int, bool, type(None)))
_STEP = re.compile(r"\.(\w+)|\[(\d+)\]|\[\.\.\.\]")
_KINDS = {
    "str": "a string",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
    "null": "null",
}
_WORDS = {repr(pattern)[1:-1]: words for pattern, words in PATTERNS.items()}
_FORMS: tuple[tuple[str, Callable[[re.Match[str]], str]], ...] = (
    (r"Expected `([\w| ]+)`, got `\w+`", lambda match: _kinds(match[1])),
    (
        r"Expected `str` matching regex '(.*)'",
        lambda match: _WORDS.get(match[1], f"text like {match[1]}"),
    ),
    (
        r"Expected `str` of length (>=|<=) (\d+)",
        lambda match: (
            f"a string of {_ends(*match.groups(), one='character', many='characters')}"
        ),
    ),
    (
        r"Expected `array` of length (>=|<=) (\d+)",
        lambda match: (
            f"a list of {_ends(*match.groups(), one='entry', many='entries')}"
        ),
    ),
    (
        r"Expected `(\w+)` ([<>]=?) (.*)",
        lambda match: f"{_kinds(match[1])} {match[2]} {match[3]}",
    ),
)


def sentence(error: str, message: type[msgspec.Struct], body: bytes) -> str:
    """Return the error message for a `body` that is not a `message`, from the text of
    msgspec's `error`.

    >>> from oddsmith.server.messages.calls import RewardGiven
    >>> body = b'{"id": "visit-7", "reward": "high"}'
    >>> try:
    ...     msgspec.json.decode(body, type=RewardGiven)
    ... except msgspec.ValidationError as error:
    ...     print(sentence(str(error), RewardGiven, body))
    reward must be a number; got 'high'
    """
    location = _PLACE.search(error)
    place = ""
    text = error
    if location is not None:
        place = location[1]
        text = error[: location.start()]
    types = _field_types(_struct_at(message, place))
    names = ", ".join(types)
    path = place.removeprefix(".")
    where = f"{path}: " if path else ""
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing is not None:
        return f"{where}{missing[1]} must be given; got none. Fields: {names}"
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text, re.DOTALL)
    if unknown is not None:
        name = unknown[1][:80]
        meant = hint(name, list(types)) or "."
        return f"{where}{name} is not a field{meant} Allowed: {names}"
    if " must be given" in text:  # the text is one of our own messages
        return f"{where}{text}. Fields: {names}"
    what = path or "the body"
    got = _got(body, place)
    if text.startswith("Invalid enum value"):
        field = what.rpartition(".")[2]
        choices = " or ".join(_choices(types[field]))
        return f"{what} must be {choices}{got}"
    for form, allowed in _FORMS:
        match = re.fullmatch(form, text, re.DOTALL)
        if match is not None:
            return f"{what} must be {allowed(match)}{got}"
    return f"{what} is not allowed{got}; {text}"


def _field_types(message: Any) -> dict[str, Any]:
    """Return the type of each field of a struct."""
    return {field.encode_name: field.type for field in msgspec.structs.fields(message)}


def _struct_at(message: Any, place: str) -> Any:
    """Return the innermost struct on the path to a place."""
    for name, _ in _STEP.findall(place):
        kind = _field_types(message).get(name)
        message = _struct_in(kind) or message
    return message


def _struct_in(kind: Any) -> Any:
    """Return the struct in a type: the type itself, or one in a list or a union; None
    if there is none."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    for part in get_args(kind):
        found = _struct_in(part)
        if found is not None:
            return found
    return None


def _choices(kind: Any) -> list[str]:
    """Return the words that a type allows."""
    words: list[str] = []
    for part in get_args(kind):
        if isinstance(part, str):
            words.append(part)
        else:
            words += _choices(part)
    return words


def check_keys(body: bytes) -> None:
    """Raise if a JSON object contains a key twice, because parsers differ in which of
    the two values they use.

    >>> check_keys(b'{"a": [{"b": 1}, {"b": 2}], "b": 3}')
    >>> check_keys(b'{"context": {"hour": 9, "hour": 10}}')
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: keys of an object must be distinct; got 'hour'
    twice: leave one out
    """
    has_escapes = b"\\" in body  # an escape sequence may hide a colon
    if has_escapes or body.count(b":") != _colons(msgspec.json.decode(body)):
        json.loads(body, object_pairs_hook=_once, parse_int=str, parse_float=str)


def _colons(value: Any) -> int:
    """Count the colons in a value's JSON: one per key, and those in strings; a repeated
    key is counted only once."""
    kind = type(value)
    if kind is str:
        return int(value.count(":"))
    if kind is list:
        return sum([_colons(inner) for inner in value if type(inner) not in _BARE])
    if kind is not dict:
        return 0
    own = len(value) + "".join(value).count(":")
    return own + sum(
        [_colons(inner) for inner in value.values() if type(inner) not in _BARE]
    )


def _once(pairs: list[tuple[str, object]]) -> None:
    """Raise if an object contains a key twice."""
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise InvalidInput(
                f"keys of an object must be distinct; got {name!r:.60} twice: leave "
                "one out"
            )
        names.add(name)


def _kinds(names: str) -> str:
    """Describe types of JSON values in words.

    >>> _kinds("str | null")
    'a string or null'
    """
    return " or ".join(_KINDS.get(name, name) for name in names.split(" | "))


def _ends(sign: str, count: str, *, one: str, many: str) -> str:
    """Describe a limit on a number of things in words.

    >>> _ends(">=", "1", one="entry", many="entries")
    'at least 1 entry'
    >>> _ends("<=", "1000", one="entry", many="entries")
    'at most 1,000 entries'
    """
    bound = "at least" if sign == ">=" else "at most"
    noun = one if count == "1" else many
    return f"{bound} {int(count):,} {noun}"


def _got(body: bytes, place: str) -> str:
    """Return the value at a place of the body, shortened; empty if there is none."""
    try:
        value: Any = msgspec.json.decode(body)
        for name, number in _STEP.findall(place):
            value = value[name] if name else value[int(number)]
    except (
        msgspec.DecodeError,
        KeyError,
        IndexError,
        TypeError,
        ValueError,
        RecursionError,
    ):
        return ""
    return f"; got {value!r:.60}"
