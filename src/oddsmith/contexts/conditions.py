"""Conditions: a small expression language for rules, segments and filters.

    age < 18 and not country in ["DE", "AT"]
    arm.topic == "alcohol" or missing(age)

A condition reads fields of the context by name, fields of objects inside it with a dot,
and features of an arm as `arm.NAME`; other names are written in backticks. It compares
a field with a number, a text, true or false; a field without comparison must be true.
No code is executed.

A comparison with a field that is missing, null, NaN or of another type is false, also
`!=` and `not in`; use `missing(field)` to test for missing fields. Only numbers can be
ordered.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf, isnan
from operator import ge, gt, le, lt
from typing import Any, NamedTuple, NoReturn, TypeAlias

import numpy as np

from oddsmith.core.errors import InvalidInput

__all__ = ["Condition", "Field", "parse_condition"]

_LONGEST = 2_000
_DEEPEST = 40
_ARM = "arm"
_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_EQUALS = ("==", "!=")
_WORDS = ("and", "or", "not", "in", "missing", "true", "false")
_TOKEN = re.compile(
    r"""[ \t\r\n]*(?:
      (?P<number>
        -?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?)
    | (?P<text>"(?:[^"\\\n]|\\["\\])*"|'(?:[^'\\\n]|\\['\\])*')
    | (?P<name>[^\W\d]\w*|`[^`\n]+`)
    | (?P<sign><=|>=|==|!=|[<>()\[\],.])
    )""",
    re.VERBOSE,
)

Value: TypeAlias = float | str | bool
"""A value with which a field is compared."""


class Field(NamedTuple):
    """A field of the context, or of an arm's features, as the names on its path."""

    path: tuple[str, ...]
    of_arm: bool = False

    def value(self, context: Any, features: Any) -> Value | None:
        """Return the number, text or boolean of the field; None if it is missing."""
        found = features if self.of_arm else context
        for name in self.path:
            if not isinstance(found, Mapping) or name not in found:
                return None
            found = found[name]
        return _plain(found)


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition as a tree.

    `kind` is "and", "or" or "not", which combine the conditions in `parts`; or "is",
    "missing", "in", "not in" or the sign of a comparison, which apply to `field` and
    `values`.

    >>> minors = parse_condition("age < 18")
    >>> [minors.holds({"age": age}) for age in (17, 18, "17", None)]
    [True, False, False, False]
    """

    kind: str
    parts: tuple["Condition", ...] = ()
    field: Field | None = None
    values: tuple[Value, ...] = ()

    def holds(self, context: Any, features: Any = None) -> bool:
        """Return whether the condition is true for a context and an arm's features."""
        if self.kind == "and":
            return all(part.holds(context, features) for part in self.parts)
        if self.kind == "or":
            return any(part.holds(context, features) for part in self.parts)
        if self.kind == "not":
            return not self.parts[0].holds(context, features)
        assert self.field is not None
        value = self.field.value(context, features)
        if self.kind == "missing":
            return value is None
        return value is not None and self._compares(value)

    def _compares(self, value: Value) -> bool:
        if self.kind == "is":
            return value is True
        alike = [one for one in self.values if type(one) is type(value)]
        if not alike:
            return False
        if self.kind in _ORDERS:
            return _ORDERS[self.kind](float(value), float(alike[0]))
        is_among = value in alike
        return is_among if self.kind in ("==", "in") else not is_among

    def fields(self) -> Iterator[Field]:
        """Yield the fields that the condition reads."""
        if self.field is not None:
            yield self.field
        for part in self.parts:
            yield from part.fields()

    @property
    def reads_arm(self) -> bool:
        """Return whether it reads features of the arm."""
        return any(field.of_arm for field in self.fields())

    def to_json(self) -> dict[str, Any]:
        """Return the tree as JSON, for other languages."""
        if self.parts:
            return {self.kind: [part.to_json() for part in self.parts]}
        assert self.field is not None
        where = "arm" if self.field.of_arm else "context"
        tree: dict[str, Any] = {"kind": self.kind, where: list(self.field.path)}
        if self.values:
            tree["values"] = list(self.values)
        return tree


def parse_condition(text: str) -> Condition:
    """Parse a condition; an error contains the position in the text.

    >>> parse_condition("age < ")
    Traceback (most recent call last):
    oddsmith.core.errors.InvalidInput: condition, character 6: must be a number after <;
    got the end
    """
    if not isinstance(text, str):
        raise InvalidInput(f"condition must be a text; got {type(text).__name__}")
    if len(text) > _LONGEST:
        raise InvalidInput(
            f"condition must have at most {_LONGEST:,} characters; got {len(text):,}"
        )
    parser = _Parser(_tokens(text))
    condition = parser.either(0)
    parser.expect_end()
    return condition


class _Token(NamedTuple):
    """A token of a condition: its kind, text and position."""

    kind: str
    text: str
    place: int


def _tokens(text: str) -> list[_Token]:
    tokens = []
    place = 0
    end = len(text.rstrip(" \t\r\n"))
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None or match.lastgroup is None:
            start = place + len(text[place:]) - len(text[place:].lstrip(" \t\r\n"))
            _refuse(start, f"must be a field, a value or a sign; got {text[start]!r}")
        kind = match.lastgroup
        word = match[kind]
        tokens.append(_Token(kind, word, match.start(kind)))
        place = match.end()
    tokens.append(_Token("end", "", end))
    return tokens


class _Parser:
    """Recursive descent parser with at most `_DEEPEST` levels."""

    def __init__(self, tokens: list[_Token]) -> None:
        self._tokens = tokens
        self._next = 0

    @property
    def _here(self) -> _Token:
        return self._tokens[self._next]

    def either(self, depth: int) -> Condition:
        """Parse parts joined by `or`."""
        if depth > _DEEPEST:
            _refuse(
                self._here.place, f"must be at most {_DEEPEST} levels deep; got more"
            )
        return self._join_parts("or", self._both, depth)

    def _both(self, depth: int) -> Condition:
        return self._join_parts("and", self._one, depth)

    def _join_parts(
        self, word: str, part: Callable[[int], Condition], depth: int
    ) -> Condition:
        parts = [part(depth)]
        while self._takes(word):
            parts.append(part(depth))
        return parts[0] if len(parts) == 1 else Condition(word, tuple(parts))

    def _one(self, depth: int) -> Condition:
        is_negated = False
        while self._takes("not"):
            is_negated = not is_negated
        condition = self._plain_one(depth)
        return Condition("not", (condition,)) if is_negated else condition

    def _plain_one(self, depth: int) -> Condition:
        if self._takes("("):
            condition = self.either(depth + 1)
            self._expect(")")
            return condition
        if self._takes("missing"):
            self._expect("(")
            field = self._field()
            self._expect(")")
            return Condition("missing", field=field)
        return self._comparison(self._field())

    def _comparison(self, field: Field) -> Condition:
        sign = self._here.text
        if sign in _ORDERS:
            self._next += 1
            return Condition(sign, field=field, values=(self._number(sign),))
        if sign in _EQUALS:
            self._next += 1
            return Condition(sign, field=field, values=(self._value(),))
        is_negated = self._takes("not")
        if self._takes("in"):
            kind = "not in" if is_negated else "in"
            return Condition(kind, field=field, values=self._list())
        if is_negated:
            self._must("be in after not")
        return Condition("is", field=field)

    def _field(self) -> Field:
        # In backticks, `arm` is a field of the context and not the keyword.
        first = self._here.text
        names = [self._name()]
        while self._takes("."):
            names.append(self._name())
        if first == _ARM and len(names) > 1:
            return Field(tuple(names[1:]), of_arm=True)
        return Field(tuple(names))

    def _name(self) -> str:
        token = self._here
        if token.kind != "name" or token.text in _WORDS:
            self._must("be the name of a field")
        self._next += 1
        return token.text.strip("`")

    def _number(self, sign: str) -> float:
        if self._here.kind != "number":
            self._must(f"be a number after {sign}")
        return float(self._value())

    def _value(self) -> Value:
        token = self._here
        if token.kind == "number":
            value: Value = float(token.text)
            if value == inf or value == -inf:
                self._must("be a number below 1e308")
        elif token.kind == "text":
            value = re.sub(r"\\(.)", r"\1", token.text[1:-1])
        elif token.text in ("true", "false"):
            value = token.text == "true"
        else:
            self._must("be a number, a text in quotes, true or false")
        self._next += 1
        return value

    def _list(self) -> tuple[Value, ...]:
        self._expect("[")
        values = [self._value()]
        while self._takes(","):
            values.append(self._value())
        self._expect("]")
        return tuple(values)

    def expect_end(self) -> None:
        """Raise if text follows the condition."""
        if self._here.kind != "end":
            self._must("be and, or, or the end")

    def _takes(self, text: str) -> bool:
        token = self._here
        is_it = token.kind in ("name", "sign") and token.text == text
        self._next += is_it
        return is_it

    def _expect(self, sign: str) -> None:
        if not self._takes(sign):
            self._must(f"be {sign}")

    def _must(self, rule: str) -> NoReturn:
        token = self._here
        got = f"{token.text!r:.40}" if token.text else "the end"
        _refuse(token.place, f"must {rule}; got {got}")


def _refuse(place: int, sentence: str) -> NoReturn:
    raise InvalidInput(f"condition, character {place + 1}: {sentence}")


def _plain(value: Any) -> Value | None:
    """Return a number as a float, a text or a boolean; None for anything else."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        try:
            return float(value)
        except OverflowError:
            return inf if value > 0 else -inf
    if isinstance(value, float):
        return None if isnan(value) else value
    return None
