"""Extreme values of every kind, as JSON texts where JSON has them: one table for all
routes, importers and kinds of events.

Whatever takes such a value either accepts it, and can then fold, restart, verify and
export what it has kept, or answers one clear error and loses nothing.
"""

import json
from typing import Any, NamedTuple

__all__ = [
    "CLOCKS",
    "IDS",
    "MOMENTS",
    "NUMBERS",
    "PROPENSITIES",
    "Raw",
    "SCALES",
    "SIZES",
    "to_json",
]


class Raw(NamedTuple):
    """A JSON text that stands as it is, also where Python would write another one."""

    text: str


NUMBERS = [
    Raw(text)
    for text in (
        "0",
        "-0.0",
        "5e-324",
        "1e-300",
        "1e-160",
        "1e-13",
        "1e-12",
        "1",
        "0.9999999999999999",
        "1.0000000000000002",
        "-1",
        "1e15",
        "9007199254740993",
        "9223372036854775807",
        "9223372036854775808",
        "-9223372036854775809",
        "340282366920938463463374607431768211456",
        "1e100",
        "1.0000000000000001e100",
        "1e308",
        "-1e308",
        "1e400",
        "-1e400",
        "NaN",
        "Infinity",
        "-Infinity",
        "01",
        "1e",
        "null",
        "true",
        '"1"',
        "[]",
        "{}",
    )
]
PROPENSITIES = [
    Raw(text)
    for text in (
        "5e-324",
        "1e-300",
        "1e-160",
        "1e-154",
        "9.999999999999999e-13",
        "1e-12",
        "1e-6",
        "0.5",
        "1",
    )
]
"""Of the incumbent's arm: numbers in (0, 1]."""
IDS: list[Any] = [
    "",
    " ",
    "a",
    "a/b",
    "..",
    "%00",
    "?q=1#x",
    "a\nb",
    "\x1b[31m",
    "\x7f",
    "\u202eabc",
    "e\u0301",
    "é",
    "😀" * 256,
    "x" * 256,
    "x" * 257,
    "x" * 100_000,
    "'; drop table events; --",
    "$.arm",
    '"',
    "\\",
    Raw('"\\u0000"'),
    Raw('"\\ud800"'),
    Raw('"\\ud83d\\ude00"'),
    "NaN",
    "0",
    "-1",
    "1e400",
    "personalizer",
    "__proto__",
    None,
    0,
    Raw("9223372036854775808"),
    [],
    {},
]
MOMENTS: list[Any] = [
    "0001-01-01T00:00:00Z",
    "0001-01-01T00:00:00+23:59",
    "1969-12-31T23:59:59.999999Z",
    "1970-01-01T00:00:00Z",
    "2021-04-07T16:40:25.0000000Z",
    "2021-04-07",
    "2038-01-19T03:14:08Z",
    "9999-12-31T23:59:59.9999999Z",
    "9999-12-31T23:59:59.999999-23:59",
    "10000-01-01T00:00:00Z",
    "0000-01-01T00:00:00Z",
    "2021-02-30T00:00:00Z",
    "2016-12-31T23:59:60Z",
    "",
    "now",
    None,
    0,
    Raw("1e308"),
]
CLOCKS = (-62_135_596_800.0, -1.0, 0.0, 5e-324, 1e9, 253_402_300_799.0, 1e11)
"""Seconds since 1970: the years 1, 1969, 1970, 2001, 9999 and 5138."""
SCALES = ((0.0, 1.0), (-1e100, 1e100), (0.0, 5e-324), (1e16, 1e16 + 2), (-5e-324, 0.0))
"""The lowest and the highest reward in the caller's units."""
SIZES = (0, 1, 2, 1000, 1001, 10_001)
"""Lengths of lists: batches, slots, arms, features."""


def to_json(value: Any) -> str:
    """The value as JSON, with raw texts as they are."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        parts = (f"{json.dumps(key)}: {to_json(one)}" for key, one in value.items())
        return "{" + ", ".join(parts) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(to_json, value)) + "]"
    return json.dumps(value)
