"""JSON schemas in words: what a value may be, for people."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from oddsmith.server.http.openapi import JsonSchema

__all__ = ["Field", "fields_of", "words_of"]

_DEEP = 3  # levels of fields within fields
_PLAIN = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
_LENGTHS = {
    "string": ("minLength", "maxLength", "characters"),
    "array": ("minItems", "maxItems", "entries"),
}


class Field(NamedTuple):
    """A field of a message: its name, with those around it, its kind in words, its
    default, what is said of it."""

    name: str
    kind: str
    default: str
    about: str
    needed: bool

    @classmethod
    def of(
        cls,
        name: str,
        schema: JsonSchema,
        schemas: Mapping[str, JsonSchema],
        *,
        needed: bool,
    ) -> "Field":
        """The field of this schema."""
        default = schema.get("default")
        # no end
        shown = (
            ""
            if default is None or needed or default == 2**63 - 1
            else json.dumps(default)
        )
        return cls(
            name,
            words_of(schema, schemas),
            shown,
            str(schema.get("description", "")),
            needed,
        )


def fields_of(schema: JsonSchema, schemas: Mapping[str, JsonSchema]) -> list[Field]:
    """The fields of an object, and those within them behind each.

    >>> page = {
    ...     "type": "object",
    ...     "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}},
    ...     "required": [],
    ... }
    >>> fields_of(page, {})
    [Field(name='n', kind='whole number, 1 to 9', default='', about='', needed=False)]
    """
    return list(_fields(schema, schemas, "", _DEEP))


def _fields(
    schema: JsonSchema, schemas: Mapping[str, JsonSchema], before: str, deep: int
) -> Iterator[Field]:
    whole = _resolved(schema, schemas)
    needed = set(whole.get("required", ())) if not before else set[str]()
    for name, inner in whole.get("properties", {}).items():
        yield Field.of(before + name, inner, schemas, needed=name in needed)
        if deep > 1:
            for part, mark in _within(inner, schemas):
                yield from _fields(part, schemas, f"{before}{name}{mark}.", deep - 1)


def _within(
    schema: JsonSchema, schemas: Mapping[str, JsonSchema]
) -> Iterator[tuple[JsonSchema, str]]:
    """The objects with known fields that a value is, or has in it, and how these are
    written."""
    whole = _resolved(schema, schemas)
    for one in whole.get("anyOf", ()):
        yield from _within(one, schemas)
    if whole.get("properties"):
        yield whole, ""
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        inner = whole.get(key)
        if isinstance(inner, dict) and _resolved(inner, schemas).get("properties"):
            yield _resolved(inner, schemas), mark


def words_of(schema: JsonSchema, schemas: Mapping[str, JsonSchema]) -> str:
    """What a value may be.

    >>> words_of(
    ...     {
    ...         "anyOf": [
    ...             {"type": "array", "items": {"type": "string"}},
    ...             {"type": "null"},
    ...         ]
    ...     },
    ...     {},
    ... )
    'list of text, or null'
    """
    whole: dict[str, Any] = _resolved(schema, schemas)
    if "anyOf" in whole:
        return ", or ".join(
            dict.fromkeys(words_of(one, schemas) for one in whole["anyOf"])
        )
    if "enum" in whole:
        return " or ".join(json.dumps(one) for one in whole["enum"])
    kind = whole.get("type")
    if kind == "array":
        entries = words_of(whole.get("items", {}), schemas)
        return f"list of {entries}{_limits(whole, *_LENGTHS['array'])}"
    if kind == "object":
        inner = whole.get("additionalProperties")
        return (
            f"object of {words_of(inner, schemas)} by name"
            if isinstance(inner, dict) and inner
            else "object"
        )
    if kind == "string":
        return f"text{_limits(whole, *_LENGTHS['string'])}"
    low, high = whole.get("minimum"), whole.get("maximum")
    above, below = whole.get("exclusiveMinimum"), whole.get("exclusiveMaximum")
    plain = _PLAIN.get(str(kind), "anything")
    if above is not None and below is not None:
        return f"{plain} between {above:,} and {below:,}"
    return plain + _range(low, high)


def _limits(schema: JsonSchema, least: str, most: str, what: str) -> str:
    found = _range(schema.get(least), schema.get(most))
    return f"{found} {what}" if found else ""


def _range(low: float | None, high: float | None) -> str:
    if high is not None and high >= 2**53:
        high = None
    if low is None and high is None:
        return ""
    if high is None:
        return f", at least {low:,}"
    return f", at most {high:,}" if low is None else f", {low:,} to {high:,}"


def _resolved(schema: JsonSchema, schemas: Mapping[str, JsonSchema]) -> JsonSchema:
    """A schema in place of its name."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return schemas.get(name, schema)
