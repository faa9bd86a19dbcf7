"""Columns: a column of its own for whatever was learnt from, in the order of learning,
by digests alone."""

import json
import os
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import oddsmith as od
from oddsmith.contexts.columns import (
    Columns,
    empty_columns,
    learn_columns,
    read_context,
    read_rows,
)
from oddsmith.contexts.places import (
    CATEGORY,
    CODE,
    MISSING,
    MOST,
    MOST_VALUES,
    NUMBER,
    OTHER,
    OTHERS,
    WORD,
    places_of,
)
from oddsmith.files.state import leaves_of

NAN = float("nan")
_TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=4,
)
_PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.floats()
    | st.sampled_from(["Rome", "Oslo", "", "a b c d"])
)
_DIRTY = st.dictionaries(st.sampled_from("abcdef"), _TREE, max_size=6)
_CLEAN = st.dictionaries(st.sampled_from("abcdef"), _PLAIN, max_size=6)


def after(*contexts: Any, schema: od.Schema | None = None) -> Columns:
    columns = empty_columns()
    for context in contexts:
        columns = learn_columns(columns, context, schema)
    return columns


def check(columns: Columns, context: Any, row: list[Any]) -> None:
    np.testing.assert_array_equal(read_context(columns, context), row)


def test_a_table_by_hand() -> None:
    """Columns of one context are in the order of their names, those of a later one
    behind."""
    columns = after(
        {"city": "Rome", "age": 40},
        {"age": 31, "city": "Oslo"},
        {"age": None, "city": "Rome"},
    )
    assert columns.kinds.tolist() == [NUMBER, CATEGORY, CATEGORY, MISSING]
    check(columns, {"age": 2.5, "city": "Oslo"}, [2.5, 0, 1, 0])
    check(columns, {"city": "Lima"}, [NAN, 0, 0, 1])
    check(columns, {"age": 3, "height": 2, "shoe": "wide"}, [3, 0, 0, 0])
    assert columns.is_category.tolist() == [False, True, True, True]
    np.testing.assert_array_equal(columns.fill, [NAN, 0, 0, 0])
    assert read_context(empty_columns(), [{"age": 3}, {}]).shape == (2, 0)


def test_nothing_new_is_the_same_object() -> None:
    columns = after(
        {"age": 1.5, "city": "Rome", "new": True},
        {"age": 2.5, "city": "Oslo", "new": False},
    )
    assert learn_columns(columns, {"new": True, "city": "Oslo", "age": 9.0}) is columns
    arrays = after(np.arange(3.0))
    assert learn_columns(arrays, np.ones((5, 3))) is arrays
    x = np.ones(3)
    assert read_context(arrays, x) is x


def test_one_context_in_every_form() -> None:
    record = {"age": 3.5, "city": "Rome", "when": None}
    columns = after(record, {"age": 3.5, "city": "Oslo", "when": "now"})
    frame = pd.DataFrame([record, record])
    row = read_context(columns, record)
    assert len(row) == 4
    for context in (
        frame.iloc[0],
        {"when": pd.NA, "city": "Rome", "age": np.float32(3.5)},
        {**record, "age": Decimal("3.5")},
    ):
        np.testing.assert_array_equal(read_context(columns, context), row)
        assert (
            learn_columns(columns, context) is learn_columns(columns, record)
            or len(learn_columns(columns, context).kinds) == 5
        )
    for batch in (frame, [record, record], frame.to_records(index=False)):
        np.testing.assert_array_equal(read_context(columns, batch), [row, row])
    np.testing.assert_array_equal(
        read_context(columns, [[record], [record]]), [[row], [row]]
    )
    np.testing.assert_array_equal(read_rows(columns, [record, {}])[0], row)
    same = after(frame)
    assert same.digests.tolist() == after(record, record).digests.tolist()


def test_true_and_false_are_one_column() -> None:
    columns = after({"new": False}, {"new": True}, {"new": np.True_}, {})
    assert columns.kinds.tolist() == [CATEGORY, MISSING]
    check(
        columns,
        [{"new": True}, {"new": False}, {"new": None}],
        [[1, 0], [0, 0], [0, 1]],
    )


def test_whole_numbers_that_come_again_are_codes() -> None:
    columns = after({"shop": 7}, {"shop": 12}, {"shop": 7.0}, {"shop": 99})
    assert columns.kinds.tolist() == [NUMBER, CODE]
    check(
        columns, [{"shop": 7}, {"shop": 12}, {"shop": 7.5}], [[7, 1], [12, 0], [7.5, 0]]
    )
    assert after(*[{"bit": i % 2} for i in range(9)]).kinds.tolist() == [NUMBER]
    three = after(*[{"n": i % 3} for i in range(9)])
    assert three.kinds.tolist() == [NUMBER, CODE, CODE, CODE]
    many = after(*[{"age": i} for i in range(40)] * 2)
    assert many.kinds.tolist() == [NUMBER] + [CODE] * 16
    assert after({"price": 1.5}, {"price": 3}, {"price": 3}).kinds.tolist() == [NUMBER]
    assert after(np.array([7.0]), np.array([7.0])).kinds.tolist() == [NUMBER]


def test_text_of_more_than_three_words_is_read_by_its_words() -> None:
    columns = after(
        {"title": "The cat, the DOG and 2 birds"}, {"title": "a red sofa"}, {}
    )
    assert columns.kinds.tolist() == [WORD] * 6 + [CATEGORY, MISSING]
    check(columns, {"title": "no dog is like the cat"}, [1, 1, 1, 0, 0, 0, 0, 0])
    check(columns, {"title": "a red sofa"}, [0, 0, 0, 0, 0, 0, 1, 0])
    long = after({"t": " ".join(f"w{i}" for i in range(200))})
    assert long.kinds.tolist() == [WORD] * 64
    assert after({"t": "- - - -"}).kinds.tolist() == [CATEGORY]
    # absent words are no news
    assert after({"t": "one two three four"}, {}).kinds.tolist() == [WORD] * 4


@pytest.mark.parametrize(
    "gap",
    [
        None,
        NAN,
        float("inf"),
        -float("inf"),
        1e100,
        10**400,
        pd.NA,
        pd.NaT,
        Decimal("sNaN"),
    ],
)
def test_what_is_missing_has_a_column_once_the_key_had_a_value(gap: Any) -> None:
    assert not len(after({"x": gap}).kinds)
    columns = after({"x": gap}, {"x": 0.5}, {"x": gap})
    assert columns.kinds.tolist() == [NUMBER, MISSING]
    check(columns, [{"x": gap}, {"x": 2}, {}], [[NAN, 1], [2, 0], [NAN, 1]])


def test_arrays() -> None:
    columns = after([1.0, 2.0, 3.0], [1.0, None, 3.0])
    assert columns.kinds.tolist() == [NUMBER, NUMBER, NUMBER, MISSING]
    check(
        columns, [[1, NAN, np.inf], [1, 1e101, 3]], [[1, NAN, NAN, 1], [1, NAN, 3, 1]]
    )
    check(columns, [4], [4, NAN, NAN, 1])
    np.testing.assert_array_equal(
        read_rows(columns, [np.ones(2), np.zeros(2)])[:, :2], [[1, 1], [0, 0]]
    )
    np.testing.assert_array_equal(
        read_rows(columns, [np.ones(2), {}, np.zeros(3)])[:, 0], [1, NAN, 0]
    )
    longer = learn_columns(columns, np.arange(5.0))
    assert longer.kinds.tolist() == [NUMBER, NUMBER, NUMBER, MISSING, NUMBER, NUMBER]
    check(longer, np.arange(5.0), [0, 1, 2, 0, 3, 4])
    assert len(after(np.zeros(300)).kinds) == 300
    assert len(after(np.zeros(3), np.zeros(300)).kinds) == MOST


def test_another_form_later_is_no_dead_end() -> None:
    """Text where numbers were, names after arrays and arrays after names: columns of
    their own."""
    columns = after({"x": 1.5}, {"x": "none"}, [1.0, 2.0], {"x": 2.5, "#0": 3.5})
    assert columns.kinds.tolist() == [NUMBER, CATEGORY, NUMBER, NUMBER, NUMBER]
    check(columns, {"x": 2.5}, [2.5, 0, NAN, NAN, NAN])
    check(columns, {"x": "none"}, [NAN, 1, NAN, NAN, NAN])
    check(columns, [7, 8], [NAN, 0, 7, 8, NAN])


def test_what_finds_no_place_shares_eight() -> None:
    one_key = after(*[{"user": f"u{i}"} for i in range(500)])
    assert one_key.kinds.tolist().count(CATEGORY) == MOST_VALUES
    assert one_key.kinds.tolist().count(OTHER) == OTHERS
    late = read_context(one_key, [{"user": f"u{i}"} for i in range(500)])
    assert (late.sum(axis=1) == 1).all()
    assert (late[:64, one_key.kinds == OTHER] == 0).all()
    many = after(*[{f"k{i}": "yes", f"n{i}": 1.5} for i in range(400)])
    assert len(many.kinds) == MOST + OTHERS
    assert learn_columns(many, {"k7000": "no", "n7000": 2.5}) is many
    row = read_context(many, {"k7000": "no", "n7000": 2.5})
    assert row[many.kinds == OTHER].sum() == 1


def test_a_schema_says_what_is_read() -> None:
    schema = od.Schema(numbers=("age",), categories=("shop",))
    columns = after(
        {"age": 3, "shop": 7, "x": "y"},
        {"age": 3, "shop": "7"},
        {"age": 3, "shop": "a b c d"},
        schema=schema,
    )
    assert columns.kinds.tolist() == [NUMBER, CATEGORY, CATEGORY]
    np.testing.assert_array_equal(
        read_context(columns, {"age": 4, "shop": 7.0, "x": 1}, schema), [4, 1, 0]
    )
    with pytest.raises(
        od.InvalidInput, match="column 'age' must be a number; got 'old'"
    ):
        read_context(columns, {"age": "old", "shop": 1}, schema)
    with pytest.raises(od.InvalidInput, match="did you mean shop"):
        learn_columns(columns, {"age": 1, "shopp": 1}, schema)
    numbers = od.Schema(numbers=("a", "b"))
    both = after({"b": 1.5, "a": 2.5}, [3.0, NAN], schema=numbers)
    np.testing.assert_array_equal(
        read_context(both, [[5.0, 6.0]], numbers),
        [read_context(both, {"a": 5, "b": 6}, numbers)],
    )
    with pytest.raises(
        od.InvalidInput, match="context must have 2 numbers, as the schema says"
    ):
        read_context(both, [1.0], numbers)
    assert len(after({"age": 3, "city": "Rome"}, schema=od.Schema()).kinds) == 2


@pytest.mark.parametrize(
    ("context", "words"),
    [
        (
            {"x": [1, 2]},
            (
                "context column 'x' must be a number; got a list: give each entry a "
                "column of its own"
            ),
        ),
        (
            {"x": {"y": 1}},
            "context column 'x' must be a number; got a dict: give each entry",
        ),
        ({"x": b"y"}, "context column 'x' must be a number; got b'y': decode it"),
        ([], "context must have at least one number; got none"),
        (3.0, "context must be an array of numbers, a dict or a row; got the number 3"),
        (None, "context must be numbers in an array; got None"),
        (["a"], "context column 0 must be a number; got 'a'"),
    ],
)
def test_one_sentence(context: Any, words: str) -> None:
    for act in (read_context, learn_columns):
        with pytest.raises(od.InvalidInput, match=words):
            act(empty_columns(), context)


def test_what_is_looked_up_beside_a_state_is_bounded() -> None:
    columns = after(
        {"user": "u0", "shop": 3}, {"user": "u1", "shop": 4}, {"user": "u0", "shop": 3}
    )
    places = places_of(columns)
    for i in range(9_000):
        row = read_context(
            columns,
            {
                "user": f"u{i % 4000}",
                "shop": i,
                f"other {i}": "x",
                "n" * 1000 + str(i): "y" * 1000,
            },
        )
        assert row[columns.kinds == CATEGORY].sum() == (i % 4000 < 2)
        assert row[columns.kinds == CODE].sum() == (i == 3)
    keys = [*places.named.values(), places.key("user"), places.key("shop")]
    assert (
        len(places.named) + sum(len(key.texts) + len(key.codes) for key in set(keys))
        < 2_100
    )
    assert places_of(columns) is places


def test_the_salt_keys_all_digests() -> None:
    contexts = [
        {"age": i % 3, "title": "one two three four", "city": f"c{i}"}
        for i in range(80)
    ]
    plain, salted = empty_columns(), empty_columns(b"0123456789abcdef")
    for context in contexts:
        plain, salted = learn_columns(plain, context), learn_columns(salted, context)
    assert not set(plain.digests.tolist()) & set(salted.digests.tolist())
    assert not set(plain.keys[plain.kinds != OTHER].tolist()) & set(
        salted.keys.tolist()
    )
    own = plain.kinds != OTHER
    np.testing.assert_array_equal(
        read_context(plain, contexts)[:, own],
        read_context(salted, contexts)[:, salted.kinds != OTHER],
    )


@settings(deadline=None, max_examples=60)
@given(st.lists(_DIRTY, max_size=5))
def test_any_json_is_read_or_refused_in_one_sentence(
    contexts: list[dict[str, Any]],
) -> None:
    columns = empty_columns()
    for context in contexts:
        try:
            row = read_context(columns, context)
        except od.InvalidInput as error:
            told = str(error)
        else:
            told = ""
        if told:
            assert "\n" not in told
            with pytest.raises(od.InvalidInput):
                learn_columns(columns, context)
            continue
        assert row.shape == columns.digests.shape
        columns = learn_columns(columns, context)
        assert len(set(columns.digests.tolist())) == len(columns.digests)


@settings(deadline=None, max_examples=60)
@given(st.lists(_CLEAN, max_size=8), _CLEAN)
def test_columns_only_grow_and_say_what_was_learnt(
    contexts: list[dict[str, Any]], last: dict[str, Any]
) -> None:
    before = after(*contexts)
    columns = learn_columns(before, last)
    n = len(before.digests)
    for field in ("digests", "keys", "kinds"):
        np.testing.assert_array_equal(
            getattr(columns, field)[:n], getattr(before, field)
        )
    assert (
        learn_columns(columns, dict(reversed(last.items()))).digests.tolist()
        == learn_columns(columns, last).digests.tolist()
    )
    row, old = read_context(columns, last), read_context(before, last)
    np.testing.assert_array_equal(row[:n], old)
    np.testing.assert_array_equal(read_context(columns, [last, last]), [row, row])
    texts = [v for v in last.values() if isinstance(v, str)]
    ones = sum(4 if text == "a b c d" else 1 for text in texts) + sum(
        v is True for v in last.values()
    )
    assert row[np.isin(columns.kinds, (CATEGORY, WORD))].sum() == ones
    real = [
        v
        for v in last.values()
        if isinstance(v, int | float) and not isinstance(v, bool) and -1e100 < v < 1e100
    ]
    numbers = row[columns.kinds == NUMBER]
    assert sorted(numbers[~np.isnan(numbers)].tolist()) == sorted(map(float, real))


_SCRIPT = """
import json, sys
from oddsmith.contexts.columns import empty_columns, learn_columns, read_context
contexts = json.loads(sys.argv[1])
columns = empty_columns(bytes(range(16)))
for context in contexts:
    columns = learn_columns(columns, context)
print(json.dumps([columns.digests.tolist(), columns.keys.tolist(), [row.tolist() for row in read_context(columns, contexts)]]))
"""


def test_other_processes_agree() -> None:
    contexts = [
        {"b": "Rome", "a": 1, "t": "one of the best"},
        {"a": 2, "b": "東京", "ü": True},
    ]
    told = {
        subprocess.run(
            [sys.executable, "-c", _SCRIPT, json.dumps(contexts)],
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(sys.path),
            },
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(told) == 1
    digests = json.loads(told.pop())[0]
    assert len(digests) == 8
    # written down once: a digest that changed would send saved states astray
    assert digests[0] == 7064189787964563290


def test_a_state_that_was_saved_reads_the_same() -> None:
    contexts = [
        {"n": i % 4, "x": i / 3, "city": f"c{i % 5}", "t": f"one two three w{i}"}
        for i in range(30)
    ] + [{}]
    columns = after(*contexts)
    again = Columns._make(
        np.frombuffer(leaf.tobytes(), leaf.dtype).reshape(leaf.shape)
        for leaf in columns
    )
    np.testing.assert_array_equal(
        read_context(again, contexts), read_context(columns, contexts)
    )
    for name, leaf in leaves_of(columns):
        assert leaf.dtype.kind in "iu", name
    more = {"n": 9, "x": None, "city": "c9", "t": "w1 w2 w3 w99"}
    assert (
        learn_columns(again, more).digests.tolist()
        == learn_columns(columns, more).digests.tolist()
    )
