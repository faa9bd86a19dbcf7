"""A key that stands twice in an object of JSON is refused, wherever it stands, and what
only looks alike is not."""

import json

import pytest

import oddsmith as od
from oddsmith.server.messages.refusals import _once
from server.http.test_misuse import plain
from server.served import Here

__all__ = ["plain"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("decide", '{"context": [1, 2], "context": [3, 4]}'),
        ("decide", '{"id": "a", "context": {"hour": 9, "hour": 10}}'),
        ("decide", '{"context": {"a": {"x": 1, "x" : 1}, "x": 2}}'),
        ("decide", '{"context": {"hour": 9, "\\u0068our": 10}}'),
        ("decide", '{"context": {":": "x", "y": ":", ":" : 3}}'),
        (
            "decide/batch",
            (
                '{"decisions": [{"context": [1, 2]}, {"context": [1, 2], "id": "b", '
                '"id": "c"}]}'
            ),
        ),
        ("reward", '{"id": "a", "reward": 0, "reward": 1}'),
    ],
)
def test_a_key_that_stands_twice_is_refused(plain: Here, path: str, body: str) -> None:
    before = plain.experiment().store.head()
    answer = plain.ask("POST", f"/v1/{path}", content=body)
    assert answer.status_code == 422
    assert answer.json()["error"].startswith("keys of an object must be distinct; got ")
    assert plain.experiment().store.head() == before


@pytest.mark.parametrize("text", ["plain", "12:30", 'a": "b', "\\u003a"])
@pytest.mark.parametrize(
    "twice", ['"x": 1, "x": 2', '"x": [{"w": 1, "w": 1}]', '"x:": "x:", "x:": 3']
)
def test_a_key_twice_is_found_among_many(plain: Here, text: str, twice: str) -> None:
    """In bodies with many keys it is colons that are counted, those in text too."""
    rows = ", ".join(
        f'"a{i}": {{"x": 1.5, "y": {json.dumps(text)}, "z:": [{i}, {{"w": null}}]}}'
        for i in range(100)
    )
    once = plain.ask("POST", "/v1/decide", content=f'{{"context": {{{rows}}}}}')
    assert "must be distinct" not in once.text
    refused = plain.ask(
        "POST", "/v1/decide", content=f'{{"context": {{{rows}, "b": {{{twice}}}}}}}'
    )
    assert "keys of an object must be distinct" in refused.text


def test_one_of_many_keys_that_stands_twice_is_found_in_one_pass() -> None:
    """Quadratic work would be minutes here: a megabyte of keys, the last one twice."""
    asked = 0

    class Name(str):
        __slots__ = ()

        def __hash__(self) -> int:
            nonlocal asked
            asked += 1
            return super().__hash__()

    names = [Name(f"{i:x}") for i in range(2000)]
    with pytest.raises(od.InvalidInput, match="got '7cf' twice"):
        _once([(name, None) for name in [*names, names[-1]]])
    assert asked <= 2 * (len(names) + 1)


def test_keys_that_look_alike_are_not_refused(plain: Here) -> None:
    """The same key at several depths, and in strings."""
    for context in (
        {"context": {"context": 1}, "id": "id"},
        {"a\\": "a", "b": '"a": 1, "a": 2'},
    ):
        answer = plain.ask("POST", "/v1/decide", json={"context": context})
        assert "twice" not in answer.text
