"""Describe JSON schemas in words."""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from oddsmith.server.http.openapi import JsonSchema

__all__ = ["Field", "fields_of", "words_of"]

_DEEP = 3  # maximum depth of nested fields
_PLAIN = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
}
_NO_END = 2**63 - 1  # this default means that there is no upper limit on positions
_LARGEST_EXACT = 2**53  # bounds larger than this mean that there is no limit


class Field(NamedTuple):
    """A field of a message: its name (with the names of enclosing objects), its type in
    words, its default, and its description."""

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
        """Return the field that a schema describes."""
        default = schema.get("default")
        has_default = default is not None and default != _NO_END and not needed
        return cls(
            name,
            kind=words_of(schema, schemas),
            default=json.dumps(default) if has_default else "",
            about=str(schema.get("description", "")),
            needed=needed,
        )


def fields_of(schema: JsonSchema, schemas: Mapping[str, JsonSchema]) -> list[Field]:
    """Return the fields of an object, each followed by the fields inside it.

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
    schema: JsonSchema, schemas: Mapping[str, JsonSchema], prefix: str, depth: int
) -> Iterator[Field]:
    whole = _dereference(schema, schemas)
    required: Collection[str] = () if prefix else whole.get("required", ())
    for name, inner in whole.get("properties", {}).items():
        path = prefix + name
        yield Field.of(path, inner, schemas, needed=name in required)
        if depth > 1:
            for part, mark in _parts(inner, schemas):
                yield from _fields(part, schemas, f"{path}{mark}.", depth - 1)


def _parts(
    schema: JsonSchema, schemas: Mapping[str, JsonSchema]
) -> Iterator[tuple[JsonSchema, str]]:
    """Yield the schemas of objects inside a schema that have named fields, each with a
    suffix for the field's name."""
    whole = _dereference(schema, schemas)
    for choice in whole.get("anyOf", ()):
        yield from _parts(choice, schemas)
    if whole.get("properties"):
        yield whole, ""
    for key, mark in (("items", "[]"), ("additionalProperties", "{}")):
        inner = whole.get(key)
        if isinstance(inner, dict):
            part = _dereference(inner, schemas)
            if part.get("properties"):
                yield part, mark


def words_of(schema: JsonSchema, schemas: Mapping[str, JsonSchema]) -> str:
    """Describe a schema in words.

    >>> names = {"type": "array", "items": {"type": "string"}}
    >>> words_of({"anyOf": [names, {"type": "null"}]}, {})
    'list of text, or null'
    """
    whole: dict[str, Any] = _dereference(schema, schemas)
    if "anyOf" in whole:
        choices = dict.fromkeys(words_of(one, schemas) for one in whole["anyOf"])
        return ", or ".join(choices)
    if "enum" in whole:
        return " or ".join(json.dumps(one) for one in whole["enum"])
    kind = whole.get("type")
    if kind == "array":
        entries = words_of(whole.get("items", {}), schemas)
        return f"list of {entries}{_length(whole, 'minItems', 'maxItems', 'entries')}"
    if kind == "object":
        inner = whole.get("additionalProperties")
        if isinstance(inner, dict) and inner:
            return f"object of {words_of(inner, schemas)} by name"
        return "object"
    if kind == "string":
        return f"text{_length(whole, 'minLength', 'maxLength', 'characters')}"
    plain = _PLAIN.get(str(kind), "anything")
    above = whole.get("exclusiveMinimum")
    below = whole.get("exclusiveMaximum")
    if above is not None and below is not None:
        return f"{plain} between {above:,} and {below:,}"
    return plain + _range(whole.get("minimum"), whole.get("maximum"))


def _length(schema: JsonSchema, least: str, most: str, unit: str) -> str:
    """Describe the permitted length of a text or list."""
    found = _range(schema.get(least), schema.get(most))
    if found:
        return f"{found} {unit}"
    return ""


def _range(low: float | None, high: float | None) -> str:
    """Describe the permitted numbers."""
    has_high = high is not None and high < _LARGEST_EXACT
    if low is None:
        if has_high:
            return f", at most {high:,}"
        return ""
    if has_high:
        return f", {low:,} to {high:,}"
    return f", at least {low:,}"


def _dereference(schema: JsonSchema, schemas: Mapping[str, JsonSchema]) -> JsonSchema:
    """If a schema is a reference, return the schema that it refers to; otherwise return
    it unchanged."""
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    return schemas.get(name, schema)
