"""Conditions against an evaluator of their own, and hostile texts."""

import contextlib
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from oddsmith.contexts.conditions import parse_condition

FIELDS = ["age", "city", "member", "user.plan", "arm.topic", "arm.price"]
VALUES = st.one_of(
    st.integers(-3, 3),
    st.sampled_from([0.5, -0.5, 2.0]),
    st.booleans(),
    st.sampled_from(["", "a", "b", 'q"uo\\te']),
)


def _literal(value: Any) -> str:
    return json.dumps(value)


COMPARISONS = st.one_of(
    st.tuples(
        st.sampled_from(FIELDS),
        st.sampled_from(["<", "<=", ">", ">="]),
        st.integers(-3, 3) | st.floats(-3, 3),
    ),
    st.tuples(st.sampled_from(FIELDS), st.sampled_from(["==", "!="]), VALUES),
    st.tuples(
        st.sampled_from(FIELDS),
        st.sampled_from(["in", "not in"]),
        st.lists(VALUES, min_size=1, max_size=3),
    ),
    st.tuples(st.just("missing"), st.sampled_from(FIELDS)),
    st.tuples(st.just("is"), st.sampled_from(FIELDS)),
)
TREES: Any = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("and"), inner, inner),
        st.tuples(st.just("or"), inner, inner),
    ),
    max_leaves=8,
)
SCALARS = VALUES | st.just(None) | st.just(float("nan")) | st.just([1])
CONTEXTS = st.fixed_dictionaries(
    {},
    optional={
        "age": SCALARS,
        "city": SCALARS,
        "member": SCALARS,
        "user": st.fixed_dictionaries({}, optional={"plan": SCALARS}) | st.just("text"),
    },
)
FEATURES = st.none() | st.fixed_dictionaries(
    {}, optional={"topic": SCALARS, "price": SCALARS}
)


def _text(tree: Any) -> str:
    """A tree as a text, with all brackets."""
    if tree[0] in ("and", "or"):
        return f"({_text(tree[1])}) {tree[0]} ({_text(tree[2])})"
    if tree[0] == "not":
        return f"not ({_text(tree[1])})"
    if tree[0] == "missing":
        return f"missing({tree[1]})"
    if tree[0] == "is":
        return str(tree[1])
    return f"{tree[0]} {tree[1]} {_literal(tree[2])}"


def _truth(tree: Any, context: Any, features: Any) -> bool:
    """What a tree says, from the rules on the page and nothing of the library."""
    if tree[0] == "and":
        return _truth(tree[1], context, features) and _truth(tree[2], context, features)
    if tree[0] == "or":
        return _truth(tree[1], context, features) or _truth(tree[2], context, features)
    if tree[0] == "not":
        return not _truth(tree[1], context, features)
    name = tree[1] if tree[0] in ("missing", "is") else tree[0]
    value: Any = {"arm": features or {}} | context
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    is_missing = not isinstance(value, bool | int | float | str) or value != value
    if tree[0] == "missing":
        return is_missing
    if is_missing:
        return False
    if tree[0] == "is":
        return value is True
    kind = _kind(value)
    if tree[1] in ("<", "<=", ">", ">="):
        if kind != "number":
            return False
        signs = {"<": value < tree[2], "<=": value <= tree[2], ">": value > tree[2]}
        return bool(signs.get(tree[1], value >= tree[2]))
    others = tree[2] if isinstance(tree[2], list) else [tree[2]]
    alike = [one for one in others if _kind(one) == kind]
    if not alike:
        return False
    return (value in alike) == (tree[1] in ("==", "in"))


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "truth"
    return "text" if isinstance(value, str) else "number"


@settings(max_examples=2_000, deadline=None)
@given(TREES, CONTEXTS, FEATURES)
def test_conditions_mean_what_the_page_says(
    tree: Any, context: Any, features: Any
) -> None:
    condition = parse_condition(_text(tree))
    assert condition.holds(context, features) == _truth(tree, context, features)
    json.dumps(condition.to_json(), allow_nan=False)


@pytest.mark.parametrize(
    ("text", "context", "holds"),
    [
        ("a == 1 or b == 1 and c == 1", {"a": 1}, True),
        ("(a == 1 or b == 1) and c == 1", {"a": 1}, False),
        ("not a == 1 and b", {"a": 2, "b": True}, True),
        ("not not a", {"a": True}, True),
        ("`device type` == 'x'", {"device type": "x"}, True),
        ("`arm`.a == 1", {"arm": {"a": 1}}, True),
        ("größe > 1e0", {"größe": 2}, True),
        ("n > 1", {"n": 10**400}, True),
        ("n > 1", {"n": np.float32(2)}, True),
        ("n == true", {"n": np.bool_(True)}, True),
        ("n == 1", {"n": True}, False),
        (" \n a\t", {"a": True}, True),
        ("a", [1, 2], False),
    ],
)
def test_precedence_and_odd_values(text: str, context: Any, holds: bool) -> None:
    assert parse_condition(text).holds(context) is holds


@pytest.mark.parametrize(
    ("text", "place", "words"),
    [
        ("", 1, "must be the name of a field; got the end"),
        ("age <", 6, "must be a number after <; got the end"),
        ('age < "3"', 7, "must be a number after <"),
        ("age = 3", 5, "got '='"),
        ("age in 3", 8, "must be \\["),
        ("age in []", 9, "must be a number, a text"),
        ("age not 3", 9, "must be in after not"),
        ("and", 1, "the name of a field; got 'and'"),
        ("a b", 3, "must be and, or, or the end"),
        ("(a", 3, "must be \\)"),
        ("missing a", 9, "must be \\("),
        ("a.", 3, "the name of a field"),
        ("a == nan", 6, "a number, a text"),
        ("a == 1e999", 6, "below 1e308"),
        ('a == "x', 6, "must be a field"),
        ("a == \x00", 6, "must be a field"),
        ("__import__('os')", 11, "must be and, or, or the end"),
        ("a;b", 2, "must be a field"),
    ],
)
def test_wrong_conditions_are_refused_with_the_place(
    text: str, place: int, words: str
) -> None:
    with pytest.raises(od.InvalidInput, match=f"character {place}: .*{words}"):
        parse_condition(text)


HOSTILE = [
    "(" * 1_900,
    "not " * 450 + "a",
    "a or " * 370 + "a",
    "(" * 60 + "a" + ")" * 60,
    "a == " + "9" * 1_900,
    "a == '" + "\\" * 1_900,
    "`" * 1_900,
    "a" * 2_001,
    "a in [" + "1," * 900,
    "\u202e" * 1_900,
    "\ud800",
    "-" * 1_900,
    "." * 1_900,
    "1e" * 900,
    " " * 1_999 + "\x00",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_texts_are_refused_or_evaluated(text: str) -> None:
    with contextlib.suppress(od.InvalidInput):
        assert parse_condition(text).holds({}) in (True, False)


@pytest.mark.soak
def test_ten_thousand_conditions() -> None:
    """The long form of the comparison with the evaluator of this file."""
    inner = test_conditions_mean_what_the_page_says.hypothesis.inner_test  # type: ignore[attr-defined]
    settings(max_examples=10_000, deadline=None)(
        given(TREES, CONTEXTS, FEATURES)(inner)
    )()
